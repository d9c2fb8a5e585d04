// What an operator can do with a key. Each is confirmed in a dialog that says what a retry will then do.
import {request} from "/api.js";
import {byId, el, say} from "/dom.js";

let lastBy = "";

export const stopAction = {name: "stop", label: "Stop the stream…", possible: true};

export function actionsFor(key) {
  const unsettled = key.state === "unknown" || (key.state === "started" && !key.live);
  const atWork = "Its request is still running. Wait until it ends or its lease lapses.";
  const settled = "Only a key whose outcome is unknown can be resolved or released.";
  const why = key.live ? atWork : settled;
  return [
    {name: "resolve", label: "Resolve…", possible: unsettled && !key.live, why},
    {name: "release", label: "Release…", possible: unsettled && !key.live, why},
    {name: "forget", label: "Forget…", possible: !key.live, why: atWork},
    ...(key.stream?.state === "streaming" ? [stopAction] : []),
  ];
}

const words = {
  resolve: {title: "Resolve this key", submit: "Resolve"},
  release: {title: "Release this key", submit: "Release",
    effect: "The attempt counts as never made. The next retry is sent to the backend and executes. If the first attempt took effect, the work is done twice."},
  forget: {title: "Forget this key", submit: "Forget",
    effect: "The record and its response are deleted. The next request with this key is new: it is sent to the backend and executes."},
  stop: {title: "Stop this stream", submit: "Stop",
    effect: "The part that was recorded becomes the response: every retry gets it, and nothing is sent to the backend. Readers are cut off now, and the connection to the backend is closed."},
};
const effects = {
  succeeded: "Every retry until the key expires gets the response above, marked as a replay. Nothing is sent to the backend.",
  unknown: "Every retry until the key expires gets 409 response-not-kept: the work was done, and its response was not kept. Nothing is sent to the backend.",
  failed: "The attempt counts as failed. The next retry is sent to the backend and executes, if it is the same request.",
};

const field = (id, label, control) => el("div", {}, el("label", {for: id}, label), control);

function resolveFields(effect) {
  const answer = el("div", {class: "answer"},
    el("div", {class: "pair"}, field("a-status", "Status", el("input", {id: "a-status", name: "status", type: "number", min: 200, max: 599, value: 200, required: true})),
      field("a-type", "Content-Type", el("input", {id: "a-type", name: "type", value: "application/json", spellcheck: "false"}))),
    field("a-body", "Body", el("textarea", {id: "a-body", name: "body", rows: 4, spellcheck: "false"})));
  const choose = (state) => {
    answer.hidden = state !== "succeeded";
    answer.querySelectorAll("input, textarea").forEach((control) => (control.disabled = answer.hidden));
    say(effect, effects[state]);
  };
  const option = (state, label) => el("label", {class: "option"},
    el("input", {type: "radio", name: "state", value: state, required: true, checked: state === "succeeded", onchange: () => choose(state)}), label);
  choose("succeeded");
  return [el("fieldset", {}, el("legend", {}, "What happened at the backend?"), option("succeeded", "It succeeded, and retries get this response"),
    option("unknown", "It succeeded; the response is unknown"), option("failed", "It failed, nothing was done")), answer];
}

function bodyOf(action, key, form) {
  const body = {version: key.version, reason: form.get("reason"), by: form.get("by")};
  if (action.name !== "resolve") return body;
  body.state = form.get("state") === "failed" ? "failed" : "succeeded";
  if (form.get("state") === "succeeded") {
    const type = form.get("type").trim();
    body.response = {status: Number(form.get("status")), headers: type ? [["Content-Type", type]] : [], body: form.get("body")};
  }
  return body;
}

// The mistake in the input; empty: none.
function mistakeIn(form) {
  const json = /^application\/([\w.-]+\+)?json\b/i.test(form.get("type")?.trim() ?? "");
  if (form.get("state") !== "succeeded" || !json) return "";
  if (!form.get("body").trim()) return "An empty body is not JSON. Enter a body, clear the Content-Type, or choose that the response is unknown.";
  try {
    JSON.parse(form.get("body"));
  } catch {
    return "The body is not JSON, but its Content-Type is.";
  }
  return "";
}

export function startAction(action, key, done) {
  const dialog = byId("action-dialog");
  const error = el("p", {class: "error", role: "alert"});
  const effect = el("p", {class: "effect", id: "action-effect"}, words[action.name].effect ?? "");
  const submit = el("button", {type: "submit", class: action.name === "resolve" ? "primary" : "danger"}, words[action.name].submit);
  const form = el("form", {class: "sheet", autocomplete: "off", onsubmit: send},
    el("h2", {id: "action-title"}, words[action.name].title), el("p", {class: "whole-id"}, key.id),
    ...(action.name === "resolve" ? resolveFields(effect) : []),
    el("div", {class: "notice"}, el("strong", {}, "What a retry will do"), effect),
    field("a-reason", "Reason, for the audit log", el("input", {id: "a-reason", name: "reason", required: true, maxlength: 200})),
    field("a-by", "Your name, for the audit log", el("input", {id: "a-by", name: "by", value: lastBy, maxlength: 100})),
    error, el("div", {class: "buttons"}, el("button", {type: "button", class: "plain", onclick: () => dialog.close()}, "Cancel"), submit));
  dialog.setAttribute("aria-describedby", "action-effect");
  dialog.replaceChildren(form);

  async function send(event) {
    event.preventDefault();
    const values = new FormData(form);
    lastBy = values.get("by");
    say(error, mistakeIn(values));
    if (error.textContent) return;
    submit.disabled = true;
    try {
      const result = await request("POST", `/v1/keys/${key.id}/${action.name}`, bodyOf(action, key, values));
      dialog.close();
      done(key.id, result);
    } catch (problem) {
      say(error, problem.status === 409 ? `${problem.message} Close this and look at the key again.` : problem.message);
    }
    submit.disabled = false;
  }
  dialog.showModal();
}
