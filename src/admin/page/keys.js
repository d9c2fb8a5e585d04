// The table of keys: filters, pages, and finding one by the key as the client sent it.
import {startBulk} from "/bulk.js";
import {openKey} from "/key.js";
import {request} from "/api.js";
import {byId, bytes, el, number, say, when} from "/dom.js";

// Lists are unordered: the loaded keys are sorted, newest first.
const pageSize = 500;
// A page may be empty and still have a next one; this many are requested before the button is shown again.
const mostPagesAtOnce = 20;
let next = null;
let keys = [];
let order = {by: "started", down: true};
let loaded = false;
let current = 0;  // which search it is: answers to an earlier one are dropped

export const stateNames = {started: "Started", succeeded: "Succeeded", failed: "Failed", unknown: "Unknown", tombstone: "Expired"};

export function badge(key) {
  const lapsed = key.state === "started" && !key.live;
  return el("span", {class: "badge", "data-state": lapsed ? "lapsed" : key.state}, lapsed ? "Started, owner gone" : stateNames[key.state] ?? key.state);
}

export const requestOf = (key) => (key.path ? `${key.method} ${key.path}` : "–");

const sortValues = {
  id: (key) => key.id, state: (key) => key.state, route: (key) => key.route ?? "", request: (key) => key.path ?? "", caller: (key) => key.caller ?? "",
  attempt: (key) => key.attempt, started: (key) => Date.parse(key.started_at), expires: (key) => (key.expires_at ? Date.parse(key.expires_at) : Infinity),
  stored: (key) => key.outcome_bytes,
};

function draw() {
  const value = sortValues[order.by];
  const compare = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
  keys.sort((a, b) => (order.down ? compare(b, a) : compare(a, b)));
  byId("keys-body").replaceChildren(...keys.map(row));
  for (const head of document.querySelectorAll("#keys-table [data-sort]")) {
    if (head.dataset.sort === order.by) head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
}

function sortBy(by) {
  order = {by, down: order.by === by ? !order.down : by === "started"};
  draw();
}

function row(key) {
  const cell = (name, content, more = {}) => el("td", {"data-label": name, ...more}, content);
  const open = el("button", {type: "button", class: "id", title: key.id, onclick: () => openKey(key.id)}, key.id.slice(0, 16));
  return el("tr", {"data-id": key.id}, el("th", {scope: "row"}, open), cell("State", badge(key)),
    cell("Route", key.route || "–", {class: "wrap"}), cell("Request", requestOf(key), {class: "wrap"}), cell("Caller", key.caller || "–", {class: "wrap"}),
    cell("Attempt", number(key.attempt), {class: "n"}), cell("Started", when(key.started_at)), cell("Expires", when(key.expires_at)),
    cell("Stored", key.outcome_bytes ? bytes(key.outcome_bytes) + (key.body === "in_chunks" ? " + chunks" : "") : "–", {class: "n"}));
}

function query(cursor, limit = pageSize) {
  const parameters = new URLSearchParams({limit: String(limit)});
  const filters = new FormData(byId("filters"));
  for (const name of ["state", "caller", "route"]) {
    const value = filters.get(name).trim();
    if (value) parameters.set(name, value);
  }
  const [age, length] = filters.get("age").split("=");
  if (length) parameters.set(age, length);
  if (cursor) parameters.set("cursor", cursor);
  return `/v1/keys?${parameters}`;
}

async function load({from}) {
  const search = from === null ? ++current : current;
  const more = byId("keys-more");
  say(byId("keys-error"), "");
  more.disabled = true;
  try {
    let cursor = from;
    let found = [];
    for (let page = 0; page < mostPagesAtOnce && found.length === 0; ++page) {
      const answer = await request("GET", query(cursor));
      if (search !== current) return;
      found = answer.keys;
      cursor = answer.next;
      if (cursor === null) break;
    }
    keys = from === null ? found : [...keys, ...found];
    draw();
    next = cursor;
    loaded = true;
  } catch (problem) {
    if (search === current && problem.status !== 401) say(byId("keys-error"), problem.message);
  }
  more.disabled = false;
  more.hidden = next === null;
  byId("keys-table").hidden = keys.length === 0;
  byId("keys-empty").hidden = keys.length !== 0;
  const none = next === null ? "No key matches these filters." : "No match so far, and there are more keys.";
  say(byId("keys-empty"), loaded ? none : "");
  say(byId("keys-count"), keys.length === 0 ? "" : `${number(keys.length)} ${keys.length === 1 ? "key" : "keys"}${next === null ? "" : ", and there are more"}`);
}

// Updates the row of a key, or removes it.
export function updateRow(id, key) {
  const old = [...byId("keys-body").children].find((each) => each.dataset.id === id);
  if (!old) return;
  keys = keys.flatMap((each) => (each.id !== id ? [each] : key ? [key] : []));
  if (key) old.replaceWith(row(key));
  else old.remove();
}

// `state`: the state to filter by, from a link.
export function showKeys(state) {
  if (state in stateNames) {
    byId("filters").reset();
    byId("f-state").value = state;
    // So that following the same link again is a change again.
    history.replaceState(null, "", "#keys");
    load({from: null});
  } else if (!loaded) {
    load({from: null});
  }
}

function headerPairs(text) {
  return text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const colon = line.indexOf(":");
    return colon < 0 ? [line, ""] : [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
  });
}

async function find(event) {
  event.preventDefault();
  const form = new FormData(byId("find-form"));
  say(byId("find-error"), "");
  try {
    const key = await request("POST", "/v1/keys/find", {key: form.get("key"), method: form.get("method"), host: form.get("host"), path: form.get("path"),
      headers: headerPairs(form.get("headers"))});
    byId("find-dialog").close();
    byId("find-form").reset();
    openKey(key.id);
  } catch (problem) {
    say(byId("find-error"), problem.status === 404 ? "There is no such key. Host, path, method and caller are part of a key." : problem.message);
  }
}

export function startKeys() {
  byId("filters").addEventListener("submit", (event) => {
    event.preventDefault();
    load({from: null});
  });
  for (const head of document.querySelectorAll("#keys-table [data-sort]")) head.firstElementChild.addEventListener("click", () => sortBy(head.dataset.sort));
  for (const id of ["f-state", "f-age"]) byId(id).addEventListener("change", () => load({from: null}));
  byId("keys-more").addEventListener("click", () => load({from: next}));
  byId("bulk-open").addEventListener("click", () => startBulk(query, () => load({from: null})));
  byId("find-open").addEventListener("click", () => byId("find-dialog").showModal());
  byId("find-form").addEventListener("submit", find);
  for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog").close());
}
