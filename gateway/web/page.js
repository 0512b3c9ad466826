// The status page: a snapshot every few seconds, the feed of summaries in between, and one state shown in words.

import { Chart } from "/web/chart.js";
import { Refused, follow, snapshot } from "/web/feed.js";
import { FINE, bytes, count, draw, make, ms, percent, span, tick, times, word } from "/web/format.js";
import { KEPT, Requests } from "/web/requests.js";

const POLL_MS = 2000;
const HIDDEN_POLL_MS = 15000;
const KEY = "dragoman-admin-key";
const OUTCOMES = [
  "complete", "incomplete", "client_error", "upstream_error", "rate_limited", "upstream_eof", "protocol_error",
  "stalled_first_event", "stalled_first_meaning", "stalled_idle", "stalled_meaning_idle", "limit",
  "client_disconnected", "shutdown",
];
const at = (id) => document.getElementById(id);
const state = { key: sessionStorage.getItem(KEY) ?? "", latest: null, skew: 0, lost: false, round: new AbortController(), missed: 0 };

const requests = new Requests({ rows: at("rows"), total: at("requests-count"), empty: showEmpty });
const charts = [
  new Chart({
    title: "Requests per minute", bars: true, format: (value) => (Number.isInteger(value) ? count(value) : ""),
    series: [
      { name: "answered", kind: "good", of: (one) => (one.requests ?? 0) - (one.failed ?? 0) },
      { name: "failed", kind: "bad", of: (one) => one.failed ?? 0 },
    ],
    readout: (one) => one.requests && `${one.requests} requests, ${one.failed ?? 0} failed`,
  }),
  new Chart({
    title: "Tokens per minute", bars: true, format: count,
    series: [
      { name: "cached input", kind: "pale", of: (one) => one.cached_tokens ?? 0 },
      { name: "other input", kind: "deep", of: (one) => Math.max(0, (one.input_tokens ?? 0) - (one.cached_tokens ?? 0)) },
      { name: "output", kind: "good", of: (one) => one.output_tokens ?? 0 },
    ],
    readout: (one) => one.requests && `in ${count(one.input_tokens ?? 0)}, cached ${share(one.cached_tokens, one.input_tokens)}, out ${count(one.output_tokens ?? 0)}`,
  }),
  new Chart({
    title: "Time to first content", format: tick,
    series: [
      { name: "median", kind: "", of: (one) => one.first_p50 ?? null },
      { name: "95 of 100 faster than", kind: "high", of: (one) => one.first_p95 ?? null },
    ],
    readout: (one) => one.first_p50 && `median ${ms(one.first_p50)}, 95th ${ms(one.first_p95)}`,
  }),
  new Chart({
    title: "Time of whole requests", format: tick,
    series: [
      { name: "median", kind: "", of: (one) => one.whole_p50 ?? null },
      { name: "95 of 100 faster than", kind: "high", of: (one) => one.whole_p95 ?? null },
    ],
    readout: (one) => one.whole_p50 && `median ${ms(one.whole_p50)}, 95th ${ms(one.whole_p95)}`,
  }),
];

// ---------------------------------------------------------------- snapshot

function show(now) {
  state.latest = now;
  state.skew = Date.now() / 1000 - now.now;
  at("main").hidden = false;
  at("locked").hidden = true;
  showState(now);
  showTiles(now);
  for (const chart of charts) chart.show(now.hour, now.now);
  showKeys(now);
  showFlying(now);
  showRoutes(now);
  showFoot(now);
}

function showState(now) {
  const problems = now.reload_problems.length;
  const [kind, text] = now.draining ? ["warn", "shutting down"] : !now.ready ? ["warn", "no key can serve"] : ["live", "live"];
  if (state.lost) return;
  document.body.dataset.state = problems || !now.state_kept ? "warn" : kind;
  at("pill-text").textContent = text;
  at("since").textContent = `up ${span(now.uptime_s)}, version ${now.version}`;
  const first = now.reload_problems[0];
  const warnings = [];
  if (first) warnings.push(`The changed configuration was refused and the old one runs on: ${first.key || first.where}: ${first.what}${problems > 1 ? ` (and ${problems - 1} more)` : ""}.`);
  if (!now.state_kept) warnings.push("Cooldowns are not being written to disk; see the log.");
  banner(warnings.join(" "));
}

function banner(text) {
  at("banner").hidden = !text;
  if (at("banner").textContent !== text) at("banner").textContent = text;
}

function share(part, whole) {
  return whole ? percent((part ?? 0) / whole) : "–";
}

function showTiles(now) {
  const sum = (name) => now.hour.reduce((total, one) => total + (one[name] ?? 0), 0);
  const newest = now.hour.findLast((one) => one.first_p50 != null);
  const failed = sum("failed");
  const input = sum("input_tokens");
  const cost = sum("cost_usd");
  const tiles = [
    ["Requests, last hour", count(sum("requests")), failed ? `${count(failed)} failed` : "none failed", failed ? "bad" : ""],
    ["In flight", count(now.in_flight_count), now.sockets ? `${now.sockets} sockets` : "streams and replies"],
    ["First content", newest ? ms(newest.first_p50) : "–", "latest median"],
    ["Tokens in", count(input), `${share(sum("cached_tokens"), input)} from cache`],
    ["Tokens out", count(sum("output_tokens")), cost ? `$${cost.toFixed(2)} reported` : "last hour"],
    ["Keys ready", `${now.keys.filter((key) => key.state === "healthy").length} / ${now.keys.length}`, resting(now)],
  ];
  at("tiles").replaceChildren(
    ...tiles.map(([name, value, more, kind]) =>
      make("li", {}, make("span", { class: "name" }, name), make("span", { class: "value" }, value), make("span", { class: `more ${kind ?? ""}` }, more)),
    ),
  );
}

function resting(now) {
  const ends = now.keys.filter((key) => key.state === "cooling").map((key) => key.until);
  return ends.length ? `next in ${span(Math.min(...ends) - now.now)}` : "none rests";
}

function showKeys(now) {
  at("keys-count").textContent = now.keys.length || "";
  const items = now.keys.map((key) => {
    const facts = [times(key.lent), ...Object.entries(key.outcomes).map(([name, number]) => `${word(name)} ${count(number)}`)];
    if (key.in_flight) facts.unshift(`${key.in_flight} in flight`);
    for (const rest of key.models ?? []) facts.push(`${rest.model} rests`);
    const end = make("span", { class: "end muted" });
    if (key.until != null && key.state === "cooling") end.dataset.until = key.until;
    return make(
      "li",
      {},
      make("div", { class: "row" }, make("span", { class: "title" }, `${key.provider} / ${key.name}`), make("span", { class: `tag ${key.state}` }, key.state), key.active ? make("span", { class: "tag" }, "in use") : null, make("span", { class: "facts" }, facts.join(" · ")), end),
    );
  });
  at("keys").replaceChildren(...(items.length ? items : [make("li", { class: "none" }, "No provider has keys.")]));
  age();
}

function showFlying(now) {
  at("flying-count").textContent = now.in_flight_count || "";
  const items = now.in_flight.map((one) => {
    const age = make("span", { class: "end" });
    age.dataset.began = now.now - one.age_s;
    const facts = [one.client ?? "–", one.provider ? `${one.provider}${one.key ? ` / ${one.key}` : ""}` : "no upstream yet", one.answering ? `${bytes(one.sent_bytes)} sent` : "waiting for the upstream"];
    return make("li", {}, make("div", { class: "row" }, make("span", { class: "title" }, one.alias ?? "–"), make("span", { class: "tag" }, one.dialect), age), make("p", { class: "facts" }, facts.join(" · ")));
  });
  if (now.in_flight_count > now.in_flight.length) items.push(make("li", { class: "none" }, `and ${now.in_flight_count - now.in_flight.length} more`));
  at("flying").replaceChildren(...(items.length ? items : [make("li", { class: "none" }, "Nothing is running right now.")]));
  age();
}

function showRoutes(now) {
  at("routes-count").textContent = now.routes.length || "";
  at("routes").replaceChildren(...now.routes.map((route) => make("li", {}, make("b", {}, route.alias), make("span", {}, route.targets.map((name, n) => `${name} (${route.dialects[n]})`).join(", ")))));
}

function showFoot(now) {
  const parts = [
    `configuration ${now.config || "built in"}`,
    now.reloaded ? `reloaded ${new Date(now.reloaded * 1000).toLocaleString()}` : "not reloaded since the start",
    `state ${now.state}`,
    ...now.stores.filter((store) => store.entries).map((store) => `${store.name} ${count(store.entries)}${store.bytes ? ` (${bytes(store.bytes)})` : ""}`),
  ];
  if (now.log_dropped) parts.push(`${count(now.log_dropped)} log events dropped`);
  at("foot").replaceChildren(...parts.map((text) => make("span", {}, text)));
}

// Countdowns and ages move by themselves between snapshots.
function age() {
  const now = Date.now() / 1000 - state.skew;
  for (const element of document.querySelectorAll("[data-until]")) {
    const left = element.dataset.until - now;
    element.textContent = left > 0 ? `free in ${span(left)}` : "free now";
  }
  if (state.lost) return;
  for (const element of document.querySelectorAll("[data-began]")) element.textContent = span(now - element.dataset.began);
}

// ---------------------------------------------------------------- requests

function showEmpty(why) {
  at("empty").hidden = !why;
  at("scroll").hidden = Boolean(why);
  if (why === "none") {
    const address = make("code", {}, `${location.origin}/v1`);
    at("empty").replaceChildren(make("strong", {}, "No requests yet"), "Point a client at ", address, ", or run ", make("code", {}, "dragoman launch claude"), ".");
  } else if (why) {
    at("empty").replaceChildren(make("strong", {}, "No request passes the filters"), `The latest ${requests.records.length} are kept here; the log has them all.`);
  }
}

const told = {
  event(type, data) {
    if (type === "request") requests.add(data);
    if (type === "missed") {
      state.missed += data.count;
      at("missed").hidden = false;
      at("missed").textContent = `${count(state.missed)} requests went by faster than this page could read.`;
    }
  },
  open() {
    state.lost = false;
    if (state.latest) showState(state.latest);
    refresh();
  },
  lost() {
    state.lost = true;
    document.body.dataset.state = state.latest ? "lost" : "connecting";
    at("pill-text").textContent = "reconnecting";
    banner(state.latest ? "The gateway does not answer. What you see is its last known state; this page tries again by itself." : "The gateway does not answer yet.");
  },
};

// ---------------------------------------------------------------- start

async function refresh() {
  try {
    show(await snapshot(state.key));
  } catch (error) {
    if (error instanceof Refused && [401, 403, 404].includes(error.status)) return locked(error.status);
  }
  return true;
}

async function poll(signal) {
  while (!signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, document.hidden ? HIDDEN_POLL_MS : POLL_MS));
    if (!signal.aborted && !state.lost) await refresh();
  }
}

async function begin() {
  state.round = new AbortController();
  const { signal } = state.round;
  if (!(await refresh())) return;
  poll(signal);
  try {
    await follow(state.key, KEPT, told, signal);
  } catch (error) {
    if (error instanceof Refused) locked(error.status);
    else throw error;
  }
}

function locked(status) {
  state.round.abort();
  document.body.dataset.state = "locked";
  at("pill-text").textContent = "locked";
  at("since").textContent = "";
  at("main").hidden = true;
  at("locked").hidden = false;
  banner("");
  const wrong = { 401: "This is not the admin key.", 403: "This address may not be used here.", 404: "This is a client's key; the admin key is another one." };
  at("unlock-error").textContent = state.key ? (wrong[status] ?? "") : "";
  state.key = "";
  sessionStorage.removeItem(KEY);
  at("key").focus();
  return false;
}

at("unlock").addEventListener("submit", (event) => {
  event.preventDefault();
  state.key = at("key").value.trim();
  at("key").value = "";
  sessionStorage.setItem(KEY, state.key);
  begin();
});

at("charts").append(...charts.map((chart) => chart.element));
at("outcome").append(
  make("option", { value: "" }, "all outcomes"),
  make("option", { value: "failed" }, "failed"),
  ...OUTCOMES.map((name) => make("option", { value: name }, (FINE.has(name) ? "" : "· ") + word(name))),
);
const refilter = () => requests.filter(at("words").value, at("outcome").value);
at("words").addEventListener("input", refilter);
at("outcome").addEventListener("change", refilter);
at("filters").addEventListener("submit", (event) => event.preventDefault());
at("pause").addEventListener("click", () => {
  const paused = !requests.paused;
  at("pause").setAttribute("aria-pressed", String(paused));
  at("pause").textContent = paused ? "Go on" : "Pause";
  requests.pause(paused);
});

const dark = matchMedia("(prefers-color-scheme: dark)");
function paint() {
  const theme = localStorage.getItem("dragoman-theme") ?? (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  const sun = [draw("circle", { cx: 12, cy: 12, r: 4 }), draw("path", { d: "M12 2v3m0 14v3M2 12h3m14 0h3M5 5l2 2m10 10 2 2M5 19l2-2M17 7l2-2" })];
  const moon = [draw("path", { d: "M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5Z" })];
  const icon = draw("svg", { viewBox: "0 0 24 24", fill: "none", stroke: "currentColor", "stroke-width": 1.8, "stroke-linecap": "round", "aria-hidden": "true" });
  icon.append(...(theme === "dark" ? sun : moon));
  at("theme").replaceChildren(icon);
}
at("theme").addEventListener("click", () => {
  localStorage.setItem("dragoman-theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  paint();
});
dark.addEventListener("change", paint);
document.addEventListener("visibilitychange", () => document.hidden || state.lost || state.latest === null || refresh());
paint();
setInterval(age, 1000);
requests.tell();
begin();
