// One key: its details, its recorded response on demand, and the actions on it.
import {actionsFor, startAction} from "/actions.js";
import {request} from "/api.js";
import {badge, requestOf, updateRow} from "/keys.js";
import {announce, byId, bytes, el, number, say, when} from "/dom.js";

const bodyWords = {in_record: "yes", in_chunks: "yes, in chunks", not_kept: "no"};

function facts(key) {
  const pairs = [
    ["State", badge(key)], ["Route", key.route || "–"], ["Request", requestOf(key)], ["Request id", key.request_id || "–"], ["Caller", key.caller || "–"],
    ["Attempt", number(key.attempt)], ["Fence", String(key.fence)],
    ["Started", when(key.started_at)], ["Owner", key.live ? "running" : "none"], ["Lease until", when(key.lease_until)],
    ["Expires", when(key.expires_at)], ["Forgotten", when(key.forget_at)],
    ["Recorded response", key.outcome_bytes ? bytes(key.outcome_bytes) : "none"], ...(key.state === "succeeded" ? [["Body kept", bodyWords[key.body] ?? "–"]] : []),
    ...(key.stream ? [["Stream", `${key.stream.state}, ${bytes(key.stream.bytes)}`], ["Readers here", number(key.stream.readers)]] : []),
  ];
  return el("dl", {class: "rows"}, ...pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function outcomeText(outcome) {
  if (outcome.value !== undefined) return JSON.stringify(outcome.value, null, 2);
  const lines = [`Status ${outcome.status}`, ...(outcome.headers ?? []).map(([name, value]) => `${name}: ${value}`), ""];
  const inChunks = "(The body is in chunks: once keys show ID --follow writes it.)";
  lines.push(outcome.body_base64 === undefined ? outcome.body ?? inChunks : `(binary, in base64)\n${outcome.body_base64}`);
  return lines.join("\n");
}

// Bodies may be confidential: loaded only on demand, and removed with the dialog.
function answer(key) {
  if (!key.outcome_bytes) return null;
  const error = el("p", {class: "error", role: "alert"});
  const place = el("div", {class: "outcome"}, el("button", {type: "button", onclick: show}, "Show the recorded response"), error);
  async function show() {
    try {
      const whole = await request("GET", `/v1/keys/${key.id}?body=1`);
      const text = whole.outcome ? outcomeText(whole.outcome) : "The recorded response is gone.";
      place.replaceChildren(el("h3", {}, "Recorded response"), el("pre", {tabindex: 0, "aria-label": "Recorded response"}, text));
    } catch (problem) {
      say(error, problem.message);
    }
  }
  return place;
}

function show(key) {
  const dialog = byId("key-dialog");
  const buttons = actionsFor(key).map((action) => el("button", {type: "button", "data-action": action.name, disabled: !action.possible,
    title: action.possible ? null : action.why, onclick: () => startAction(action, key, done)}, action.label));
  const impossible = actionsFor(key).filter((action) => !action.possible);
  dialog.replaceChildren(el("div", {class: "sheet"},
    el("div", {class: "bar"}, el("h2", {id: "key-title"}, "Operation ", el("code", {}, key.id.slice(0, 16))),
      el("button", {type: "button", class: "plain", "aria-label": "Close", onclick: () => dialog.close()}, "✕")),
    el("p", {class: "whole-id"}, key.id), facts(key), answer(key),
    el("h3", {}, "Settle this key"), el("div", {class: "buttons start"}, ...buttons),
    impossible.length ? el("p", {class: "hint"}, impossible[0].why) : null));
}

// A released or deleted key no longer exists.
async function done(id, result) {
  announce(`Key ${result.done}`);
  if (result.done === "resolved" || result.done === "stopped") {
    const key = await request("GET", `/v1/keys/${id}`);
    updateRow(id, key);
    show(key);
  } else {
    updateRow(id, null);
    byId("key-dialog").close();
  }
}

export async function openKey(id) {
  const dialog = byId("key-dialog");
  try {
    show(await request("GET", `/v1/keys/${id}`));
  } catch (problem) {
    if (problem.status === 401) return;
    dialog.replaceChildren(el("div", {class: "sheet"}, el("h2", {id: "key-title"}, "Not shown"), el("p", {role: "alert"}, problem.message),
      el("div", {class: "buttons"}, el("button", {type: "button", onclick: () => dialog.close()}, "Close"))));
  }
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}
