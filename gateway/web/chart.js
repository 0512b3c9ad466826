// Charts of the last hour: one point a minute, drawn as SVG in pixels of the element's own size.

import { draw, make, minute } from "/web/format.js";

const MINUTES = 60;
const HEIGHT = 150;
const LEFT = 44;
const BOTTOM = 20;
const TOP = 8;

// A chart of `series` [{name, of(minute) -> number|null, kind}], where bars are stacked and lines are not.
export class Chart {
  constructor({ title, series, bars = false, format, readout }) {
    Object.assign(this, { series, bars, format, readout, title });
    this.said = make("p", { class: "readout", "aria-live": "off" });
    this.svg = draw("svg", { role: "img", tabindex: "0" });
    const legend = make("ul", { class: "legend" });
    for (const one of series) legend.append(make("li", { class: one.kind }, make("i"), one.name));
    this.element = make("section", { class: "card" }, make("div", { class: "head" }, make("h2", {}, title), this.said), this.svg, legend);
    this.at = null;
    this.minutes = [];
    this.svg.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.svg.addEventListener("pointerleave", () => this.choose(null));
    this.svg.addEventListener("blur", () => this.choose(null));
    this.svg.addEventListener("keydown", (event) => this.step(event));
    new ResizeObserver(() => this.render()).observe(this.svg);
  }

  // `now` in seconds; minutes without requests are not in `hour`.
  show(hour, now) {
    const end = Math.floor(now / 60) * 60;
    const known = new Map(hour.map((one) => [one.at, one]));
    this.minutes = Array.from({ length: MINUTES }, (_, n) => {
      const at = end - (MINUTES - 1 - n) * 60;
      return known.get(at) ?? { at };
    });
    this.render();
  }

  point(x) {
    const width = this.svg.clientWidth - LEFT;
    const index = Math.floor(((x - LEFT) / width) * MINUTES);
    this.choose(index >= 0 && index < MINUTES ? index : null);
  }

  step(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") this.choose(null);
    if (!move) return;
    event.preventDefault();
    this.choose(Math.min(MINUTES - 1, Math.max(0, (this.at ?? MINUTES) + move)));
  }

  choose(index) {
    if (index === this.at) return;
    this.at = index;
    this.render();
  }

  render() {
    const width = this.svg.clientWidth;
    if (!width || !this.minutes.length) return;
    const values = this.minutes.map((one) => this.series.map((line) => line.of(one)));
    const sums = values.map((row) => (this.bars ? row.reduce((sum, value) => sum + (value ?? 0), 0) : Math.max(...row.map((value) => value ?? 0))));
    const top = nice(Math.max(...sums));
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
    const slot = (width - LEFT) / MINUTES;
    const x = (index) => LEFT + slot * (index + 0.5);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const any = values.some((row) => row.some((value) => value));
    const parts = this.axes(width, top, y, x, any);
    if (!any) parts.push(draw("text", { class: "nothing", x: LEFT + (width - LEFT) / 2, y: HEIGHT / 2 }, "nothing in the last hour"));
    else if (this.bars) parts.push(...this.columns(values, slot, x, y));
    else parts.push(...this.lines(values, x, y));
    if (this.at != null) parts.push(draw("line", { class: "cursor", x1: x(this.at), x2: x(this.at), y1: TOP, y2: HEIGHT - BOTTOM }));
    this.svg.replaceChildren(...parts);
    this.describe(any);
  }

  axes(width, top, y, x, any) {
    const parts = [];
    for (const share of any ? [0, 0.5, 1] : [0]) {
      const at = Math.round(y(top * share)) + 0.5;
      parts.push(draw("line", { class: "grid", x1: LEFT, x2: width, y1: at, y2: at }));
      parts.push(draw("text", { x: LEFT - 8, y: at + 4, "text-anchor": "end" }, this.format(top * share)));
    }
    for (const index of [0, 15, 30, 45, 59]) {
      const anchor = index === 0 ? "start" : index === 59 ? "end" : "middle";
      const at = index === 0 ? LEFT : index === 59 ? width : x(index);
      parts.push(draw("text", { x: at, y: HEIGHT - 4, "text-anchor": anchor }, minute(this.minutes[index].at)));
    }
    return parts;
  }

  columns(values, slot, x, y) {
    const parts = [];
    const wide = Math.max(1.5, slot - 2);
    values.forEach((row, index) => {
      let base = 0;
      row.forEach((value, n) => {
        if (!value) return;
        const from = y(base);
        base += value;
        const to = Math.min(y(base), from - 1);
        parts.push(draw("rect", { class: this.series[n].kind, x: x(index) - wide / 2, y: to, width: wide, height: from - to, rx: Math.min(2, wide / 3) }));
      });
    });
    return parts;
  }

  lines(values, x, y) {
    const parts = [];
    this.series.forEach((one, n) => {
      let path = "";
      let pen = false;
      values.forEach((row, index) => {
        const value = row[n];
        const before = index > 0 ? values[index - 1][n] : null;
        const after = index < MINUTES - 1 ? values[index + 1][n] : null;
        if (value == null) {
          pen = false;
          return;
        }
        path += `${pen ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
        pen = true;
        if (before == null && after == null) parts.push(draw("circle", { class: `point ${one.kind}`, cx: x(index), cy: y(value), r: 2.5 }));
      });
      parts.push(draw("path", { class: `line ${one.kind}`, d: path }));
    });
    return parts;
  }

  describe(any) {
    const chosen = this.at == null ? null : this.minutes[this.at];
    const text = chosen ? `${minute(chosen.at)}  ${this.readout(chosen) || "nothing"}` : "";
    if (this.said.textContent !== text) this.said.textContent = text;
    const newest = this.minutes.findLast((one) => one.requests);
    const label = any && newest ? `${this.title}, last hour. ${minute(newest.at)}: ${this.readout(newest)}` : `${this.title}: nothing in the last hour`;
    this.svg.setAttribute("aria-label", label);
  }
}

// The next round number of the form 1, 2, 5 times a power of ten.
function nice(value) {
  if (!(value > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 5, 10]) if (step * unit >= value) return step * unit;
  return value;
}
