// The table of the latest requests: at most KEPT records and KEPT rows, whatever comes by.

import { FINE, bytes, clock, count, make, ms, percent, word } from "/web/format.js";

export const KEPT = 200;
const SHOWN_AS_IS = new Set(["request_id", "ts", "flight", "flight_dropped"]);

export class Requests {
  constructor({ rows, total, empty }) {
    Object.assign(this, { body: rows, total, empty });
    this.records = []; // newest first
    this.fresh = [];
    this.words = "";
    this.outcome = "";
    this.paused = false;
    this.opened = null;
    this.scheduled = false;
    this.seen = 0;
    this.body.addEventListener("click", (event) => this.toggle(event.target.closest("tr.entry")));
  }

  add(record) {
    this.seen += 1;
    this.fresh.push(record);
    if (this.fresh.length > KEPT) this.fresh.shift();
    this.later();
  }

  filter(words, outcome) {
    this.words = words.trim().toLowerCase();
    this.outcome = outcome;
    this.redraw();
  }

  pause(paused) {
    this.paused = paused;
    this.later();
  }

  later() {
    if (this.scheduled) return;
    this.scheduled = true;
    // Four times a second is as live as anybody can read, and a timer runs in hidden tabs too.
    setTimeout(() => {
      this.scheduled = false;
      if (!this.paused) this.take();
      this.tell();
    }, 250);
  }

  take() {
    const fresh = this.fresh;
    this.fresh = [];
    fresh.reverse();
    this.records.unshift(...fresh);
    this.body.prepend(...fresh.filter((record) => this.passes(record)).map(row));
    for (const record of this.records.splice(KEPT)) record.row?.remove();
    while (this.body.children.length > KEPT + 1) this.body.lastElementChild.remove();
  }

  redraw() {
    this.close();
    this.body.replaceChildren(...this.records.filter((record) => this.passes(record)).map(row));
    this.tell();
  }

  passes(record) {
    if (this.outcome === "failed" ? FINE.has(record.outcome) : this.outcome && record.outcome !== this.outcome) return false;
    if (!this.words) return true;
    const names = [record.client, record.alias, record.provider, record.upstream_model, record.key, record.request_id, record.dialect];
    const text = names.join(" ").toLowerCase();
    return this.words.split(/\s+/).every((part) => text.includes(part));
  }

  tell() {
    const shown = this.body.querySelectorAll("tr.entry").length;
    const waiting = this.paused && this.fresh.length ? `, ${this.fresh.length} waiting` : "";
    const filtered = shown === this.records.length ? "" : `${shown} of `;
    this.total.textContent = this.records.length ? `${filtered}${this.records.length}${waiting}` : waiting.slice(2);
    this.empty(this.records.length === 0 ? "none" : shown === 0 ? "filtered" : "");
  }

  toggle(entry) {
    if (!entry) return;
    const wasOpen = this.opened === entry;
    this.close();
    if (wasOpen) return;
    this.opened = entry;
    entry.querySelector("button").setAttribute("aria-expanded", "true");
    const cell = make("td", { colspan: "10" }, details(entry.record));
    const detail = make("tr", { class: "detail" }, cell);
    entry.after(detail);
    detail.scrollIntoView({ block: "nearest" });
  }

  close() {
    if (!this.opened) return;
    this.opened.querySelector("button").setAttribute("aria-expanded", "false");
    if (this.opened.nextElementSibling?.classList.contains("detail")) this.opened.nextElementSibling.remove();
    this.opened = null;
  }
}

function row(record) {
  const kind = record.outcome === "complete" ? "" : record.outcome === "incomplete" ? "cut" : record.outcome === "client_disconnected" ? "left" : "bad";
  const upstream = record.provider ? `${record.provider}/${record.upstream_model ?? ""}` : "";
  const open = make("button", { class: "open", type: "button", "aria-expanded": "false", "aria-label": `Details of the request at ${clock(record.ts)}` }, clock(record.ts));
  const element = make(
    "tr",
    { class: "entry" },
    make("td", {}, open),
    make("td", {}, make("span", { class: `mark ${kind}`, title: word(record.outcome ?? "") }, word(record.outcome ?? ""))),
    make("td", { class: "client" }, record.client ?? "–"),
    make("td", { class: "name", title: record.alias ?? "" }, record.alias ?? "–"),
    make("td", { class: "name wide", title: upstream }, upstream || "–"),
    make("td", { class: "number mid" }, count(record.input_tokens)),
    make("td", { class: "number wide" }, record.cache_ratio == null ? "" : percent(record.cache_ratio)),
    make("td", { class: "number mid" }, count(record.output_tokens)),
    make("td", { class: "number mid" }, ms(record.first_meaning_ms)),
    make("td", { class: "number" }, ms(record.duration_ms)),
  );
  element.record = record;
  record.row = element;
  return element;
}

function details(record) {
  const facts = make("dl");
  for (const [name, value] of Object.entries(record)) {
    if (name === "row" || (SHOWN_AS_IS.has(name) && name !== "request_id")) continue;
    facts.append(make("div", {}, make("dt", {}, word(name.replace(/_(ms|bytes)$/, ""))), make("dd", {}, fact(name, value))));
  }
  const box = make("div", {}, facts);
  if (record.flight?.length) {
    const steps = record.flight.map((step) => make("li", {}, make("b", {}, ms(step.at_ms)), step.kind));
    box.append(make("ol", { "aria-label": "What happened when" }, ...steps));
  }
  return box;
}

function fact(name, value) {
  if (name === "cache_ratio") return percent(value);
  if (name.endsWith("_ms")) return ms(value);
  if (name.endsWith("_bytes")) return bytes(value);
  if (name === "cost_usd") return `$${value.toFixed(4)}`;
  return String(value);
}
