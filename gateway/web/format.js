// Numbers and times as people read them, and elements made without HTML text: nothing here can inject markup.

export const FINE = new Set(["complete", "incomplete"]);

export function count(number) {
  if (number == null) return "";
  if (number < 1000) return String(number);
  if (number < 999950) return `${(number / 1000).toFixed(1)}K`;
  return `${(number / 1e6).toFixed(1)}M`;
}

export function bytes(number) {
  if (number < 1000) return `${number} B`;
  return number < 999950 ? `${(number / 1000).toFixed(1)} kB` : `${(number / 1e6).toFixed(1)} MB`;
}

export function ms(number) {
  if (number == null) return "";
  if (number < 999.5) return `${Math.round(number)} ms`;
  if (number < 99950) return `${(number / 1000).toFixed(1)} s`;
  return span(number / 1000);
}

export function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, "0")} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// A mark on an axis: short, and round numbers stay round.
export function tick(milliseconds) {
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${Number((milliseconds / 1000).toPrecision(3))} s`;
}

export function times(number) {
  return number === 0 ? "not used yet" : number === 1 ? "used once" : `used ${count(number)} times`;
}

export function percent(share) {
  return `${(share * 100).toFixed(share < 0.0995 || share > 0.9 ? 1 : 0)} %`;
}

export function clock(iso) {
  const at = new Date(iso);
  return Number.isNaN(at.getTime()) ? "" : at.toLocaleTimeString([], { hour12: false });
}

export function minute(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
}

export function word(name) {
  return name.replaceAll("_", " ");
}

// make("td", {class: "number"}, "text", child, ...)
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value != null) element.setAttribute(key, value);
  element.append(...children.filter((child) => child != null));
  return element;
}

export function draw(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
