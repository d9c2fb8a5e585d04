// The overview: alerts, key figures, charts, and the state of store, backends and limits.
import {Chart, spanOf} from "/charts.js";
import {announce, byId, bytes, el, milliseconds, number, percent, say, span} from "/dom.js";

const results = [
  ["executed", "Executed", "t-blue"], ["replayed", "Replayed", "t-green"], ["passed", "No key", "t-grey"],
  ["in-flight", "In flight", "t-yellow"], ["mismatch", "Mismatch", "t-violet"], ["unknown", "Unknown", "t-red"],
  ["bypassed", "Bypassed", "t-orange"], ["rejected", "Rejected", "t-pink"],
];
const mostPoints = 181;
const charts = [];
const figures = new Map();
let points = [];  // of whole intervals; the present one comes behind them
let present = null;
let interval = 5000;
let firingBefore = null;

function makeCharts() {
  const add = (options) => {
    charts.push(new Chart(options));
    byId("charts").append(charts.at(-1).node);
  };
  add({title: "Requests per second, by result", stacked: true, wide: true, hideZero: true, format: number,
    series: results.map(([key, name, tone]) => ({name, tone, of: (point) => point.per_second[key]}))});
  add({title: "Hit rate", format: percent, most: 1,
    series: [{name: "Replays of keyed requests", tone: "t-green", of: (point) => point.hit_rate}]});
  add({title: "Latency of keyed requests", format: milliseconds, wide: true, series: [
    {name: "p50", tone: "t-blue", of: (point) => point.latency_ms.p50},
    {name: "p95", tone: "t-yellow", of: (point) => point.latency_ms.p95},
    {name: "p99", tone: "t-red", of: (point) => point.latency_ms.p99}]});
  add({title: "Failures and takeovers per second", format: number, series: [
    {name: "Failures", tone: "t-red", of: (point) => point.failures_per_second},
    {name: "Takeovers", tone: "t-violet", of: (point) => point.takeovers_per_second}]});
  add({title: "Requests in progress", format: number, wide: true,
    series: [{name: "In flight", tone: "t-blue", of: (point) => point.in_flight}]});
  add({title: "Store batch size", format: number,
    series: [{name: "Operations in a batch, mean", tone: "t-violet", of: (point) => point.batch_size}]});
}

function makeFigures() {
  const names = {
    rate: "Requests per second", hits: "Hit rate, 5 min", p95: "p95 latency, 1 min", flight: "In flight",
    unknown: "Unknown keys", failures: "Failures, 5 min", takeovers: "Takeovers, 5 min", uptime: "Uptime",
  };
  for (const [key, name] of Object.entries(names)) {
    // If an action is needed, the figure links to it.
    const value = key === "unknown" ? el("a", {id: `figure-${key}`, href: "#keys/unknown"}, "–") : el("dd", {id: `figure-${key}`}, "–");
    figures.set(key, value);
    byId("figures").append(el("div", {class: "figure"}, el("dt", {}, name), key === "unknown" ? el("dd", {}, value) : value));
  }
}

export function startOverview() {
  makeFigures();
  makeCharts();
  byId("numbers").addEventListener("click", (event) => {
    const pressed = event.currentTarget.getAttribute("aria-pressed") !== "true";
    event.currentTarget.setAttribute("aria-pressed", String(pressed));
    charts.forEach((chart) => chart.showTable(pressed));
  });
}

export function addHistory(history) {
  interval = history.interval_ms;
  points = history.points;
  present = null;
}

function addPoint(point) {
  const last = points.at(-1);
  if (!last || point.at - last.at >= interval) {
    points.push(point);
    points = points.slice(-mostPoints);
    present = null;
  } else {
    present = point;
  }
  const shown = present ? [...points, present] : points;
  const long = spanOf(shown);
  say(byId("charts-title"), `Last ${long / 60_000} minutes`);
  charts.forEach((chart) => chart.show(shown, long));
}

export function addStats(stats) {
  addPoint(stats.point);
  const rate = Object.values(stats.point.per_second).reduce((sum, value) => sum + value, 0);
  const values = {
    rate: number(rate), hits: percent(stats.rates.hit_rate), p95: milliseconds(stats.latency_ms.p95),
    flight: number(stats.in_flight), unknown: number(stats.keys && stats.keys.unknown + stats.keys.lapsed), failures: percent(stats.rates.failure_rate),
    takeovers: percent(stats.rates.takeover_rate), uptime: span(stats.uptime_seconds),
  };
  for (const [key, text] of Object.entries(values)) say(figures.get(key), text);
  const firing = new Set(stats.alerts.filter((alert) => alert.state === "firing").map((alert) => alert.name));
  for (const [key, name] of [["unknown", "OnceKeysHeldUnknown"], ["failures", "OnceFailuresHigh"], ["takeovers", "OnceTakeoversHigh"], ["hits", "OnceHitRateLow"]]) {
    figures.get(key).dataset.firing = String(firing.has(name));
  }
  showAlerts(stats.alerts);
  showStore(stats);
  showUpstreams(stats.upstreams);
  showLimits(stats.limits);
}

const stateWords = {quiet: "Quiet", idle: "Not enough data", firing: "Firing"};

function showAlerts(alerts) {
  const firing = alerts.filter((alert) => alert.state === "firing");
  const list = byId("alerts-firing");
  const rows = new Map([...list.children].map((row) => [row.dataset.name, row]));
  const wanted = firing.map((alert) => {
    const row = rows.get(alert.name) ?? el("li", {"data-name": alert.name, "data-severity": alert.severity},
      el("span", {class: "badge"}, alert.severity), el("strong", {}, alert.title), el("span", {class: "detail"}), el("code", {}, alert.name));
    say(row.querySelector(".detail"), alert.detail);
    return row;
  });
  if (wanted.length !== list.children.length || wanted.some((row, index) => list.children[index] !== row)) list.replaceChildren(...wanted);
  say(byId("alerts-summary"), firing.length === 0 ? `No alerts. ${alerts.length} rules checked` : `${firing.length} of ${alerts.length} rules ${firing.length === 1 ? "is" : "are"} firing`);
  byId("alerts-all").dataset.state = firing.length === 0 ? "quiet" : "firing";
  showRules(alerts);
  // Screen readers announce only changes.
  const names = firing.map((alert) => alert.title).join(", ");
  if (firingBefore !== null && firingBefore !== names) announce(names ? `Alerts: ${names}` : "No more alerts");
  firingBefore = names;
}

function showRules(alerts) {
  const list = byId("alerts-list");
  if (list.children.length !== alerts.length) {
    list.replaceChildren(...alerts.map((alert) => el("li", {"data-name": alert.name},
      el("span", {class: "state"}), el("strong", {}, alert.title), el("span", {class: "detail"}), el("code", {}, alert.name))));
  }
  alerts.forEach((alert, index) => {
    const row = list.children[index];
    row.dataset.state = alert.state;
    say(row.querySelector(".state"), stateWords[alert.state]);
    say(row.querySelector(".detail"), alert.detail);
  });
}

// Rebuilt only when its text changes.
function put(place, key, build) {
  const text = JSON.stringify(key);
  if (place.dataset.shown === text) return;
  place.dataset.shown = text;
  place.replaceChildren(...build());
}

const rows = (pairs) => el("dl", {class: "rows"}, ...pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
const light = (good, text) => el("span", {class: "light", "data-good": good === null ? "unknown" : String(good)}, el("span", {class: "dot", "aria-hidden": true}), text);

function showStore({store}) {
  const good = store.health === "not asked yet" ? null : store.health === "up";
  const p95 = store.batch_ms.p95;
  const shown = [store.kind, store.health, number(store.queue_depth), number(store.batch_size), milliseconds(p95)];
  put(byId("store"), shown, () => [rows([["Kind", shown[0]], ["Health", light(good, shown[1])], ["Waiting operations", shown[2]],
    ["Batch size, mean, 1 min", shown[3]], ["Batch latency, p95, 1 min", shown[4]]])]);
}

function showUpstreams(upstreams) {
  put(byId("upstreams"), upstreams, () => upstreams.map((upstream) => el("div", {class: "upstream"},
    el("h3", {}, upstream.name, upstream.queued > 0 ? ` – ${number(upstream.queued)} queued` : ""),
    el("ul", {}, ...upstream.servers.map((server) => el("li", {}, light(server.up && !server.ejected, server.ejected ? "ejected" : server.up ? "up" : "down"),
      el("span", {class: "server"}, server.name), el("span", {class: "quiet"}, `${number(server.connections)} connection${server.connections === 1 ? "" : "s"}`)))))));
}

function showLimits(limits) {
  put(byId("limits"), limits, () => [el("ul", {class: "meters"}, ...limits.map(({name, used, limit}) => {
    const share = limit > 0 ? used / limit : 0;
    const size = /max_(in_flight|connections)$/.test(name) ? number : bytes;
    return el("li", {}, el("span", {class: "meter-name"}, name), el("span", {class: "quiet"}, `${size(used)} of ${size(limit)}`),
      el("meter", {min: 0, max: 1, low: 0.6, high: 0.8, optimum: 0, value: share.toFixed(4), "aria-label": `${name}: ${percent(share)} used`}));
  }))]);
}
