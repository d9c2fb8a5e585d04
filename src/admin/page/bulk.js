// Many keys at once: all that match the filters are read and counted, and after a confirmation they are changed in
// batches, each only if it is unchanged since.
import {request} from "/api.js";
import {announce, byId, el, say} from "/dom.js";

const pageSize = 1000;
const batchSize = 100;
const mostListed = 20;
let lastBy = "";

const unsettled = (key) => key.state === "unknown" || (key.state === "started" && !key.live);
const choices = [
  {action: "resolve", state: "succeeded", label: "They succeeded; the responses are unknown", verb: "Resolve", done: "Resolved", fits: unsettled,
    effect: "Every retry until its key expires gets 409 response-not-kept: the work was done, and its response was not kept. Nothing is sent to the backend."},
  {action: "resolve", state: "failed", label: "They failed, nothing was done", verb: "Resolve", done: "Resolved", fits: unsettled,
    effect: "The attempts count as failed. The next retry of each is sent to the backend and executes, if it is the same request."},
  {action: "release", label: "Release them", verb: "Release", done: "Released", fits: unsettled,
    effect: "The attempts count as never made. The next retry of each is sent to the backend and executes. Work that took effect is done twice."},
  {action: "forget", label: "Forget them, with their responses", verb: "Forget", done: "Forgot", fits: (key) => !key.live,
    effect: "The records and their responses are deleted. The next request with each of these keys is sent to the backend and executes."},
];

const keys = (count) => `${count.toLocaleString("en")} ${count === 1 ? "key" : "keys"}`;
const field = (id, label, control) => el("div", {}, el("label", {for: id}, label), control);

// All matching keys, in any order. Calls `tell` with the number so far; it returns whether to continue.
async function collect(query, tell) {
  const found = new Map();
  for (let cursor = ""; cursor !== null;) {
    const page = await request("GET", query(cursor, pageSize));
    for (const key of page.keys) found.set(key.id, {id: key.id, version: key.version, state: key.state, live: key.live, route: key.route});
    cursor = page.next;
    if (!tell(found.size)) break;
  }
  return [...found.values()];
}

function countedBy(list, name) {
  const counts = new Map();
  for (const key of list) counts.set(name(key), (counts.get(name(key)) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]).slice(0, 5).map(([what, count]) => `${count.toLocaleString("en")} ${what}`).join(", ");
}

// Changes them all, until `goesOn` returns false. Keys that were not tried are returned in `left`.
async function change(list, choice, terms, goesOn, tell) {
  const result = {done: 0, changed: 0, refused: 0, failed: 0, unknown: 0, left: [...list], problems: [], error: ""};
  while (result.left.length && goesOn()) {
    const batch = result.left.splice(0, batchSize);
    let answer;
    try {
      answer = await request("POST", `/v1/keys/${choice.action}`, {...terms, keys: batch.map(({id, version}) => ({id, version}))});
    } catch (problem) {
      result.error = problem.message;
      // Without an answer it may have been done; a refusal has changed nothing.
      if (problem.status === 0) result.unknown += batch.length;
      else result.left.unshift(...batch);
      break;
    }
    const outcomes = new Map(answer.keys.map((key) => [key.id, key]));
    const again = batch.filter((key) => (outcomes.get(key.id)?.result ?? "left") === "left");
    for (const key of answer.keys) {
      if (key.result === "left") continue;
      ++result[key.result];
      if (key.result !== "done") result.problems.push(key);
    }
    result.left.unshift(...again);
    tell(list.length - result.left.length);
    if (again.length === batch.length) {
      result.error = "The gateway processed none of the keys.";
      break;
    }
  }
  return result;
}

function report(result, choice) {
  const lines = [["changed", "had changed meanwhile and were skipped"], ["refused", "refused"], ["failed", "failed: nothing was changed"],
    ["unknown", "have an unknown result: look at them"]].filter(([name]) => result[name]).map(([name, words]) => `${keys(result[name])} ${words}.`);
  if (result.left.length) lines.push(`${keys(result.left.length)} not tried.`);
  const listed = result.problems.slice(0, mostListed).map((key) => el("li", {}, el("code", {}, key.id.slice(0, 16)), ` ${key.detail ?? key.result}`));
  return [el("p", {id: "bulk-result", role: "status"}, [`${choice.done} ${keys(result.done)}.`, ...lines].join(" ")),
    result.error ? el("p", {class: "error", role: "alert"}, result.error) : null, listed.length ? el("ul", {class: "problems"}, ...listed) : null,
    result.problems.length > mostListed ? el("p", {class: "hint"}, `And ${result.problems.length - mostListed} more.`) : null];
}

// `query(cursor, limit)`: the list for the current filters. `done`: called when the table is out of date.
export function startBulk(query, done) {
  const dialog = byId("bulk-dialog");
  let open = true;
  let found = [];
  let choice = null;
  const counted = el("p", {id: "bulk-counted", role: "status"}, "Looking for keys…");
  const effect = el("p", {id: "bulk-effect"}, "Choose what happened to them.");
  const error = el("p", {class: "error", role: "alert"});
  const submit = el("button", {type: "submit", class: "danger", disabled: true}, "Change");
  const sure = el("input", {type: "checkbox", id: "bulk-sure", required: true});
  const sureText = el("span", {}, "Change them all");
  const options = choices.map((each) => el("label", {class: "option"},
    el("input", {type: "radio", name: "choice", required: true, disabled: true, onchange: () => choose(each)}), each.label));
  const form = el("form", {class: "sheet", autocomplete: "off", onsubmit: send}, el("h2", {id: "bulk-title"}, "Settle all keys that match the filters"), counted,
    el("fieldset", {class: "column"}, el("legend", {}, "What happened at the backend?"), ...options),
    el("div", {class: "notice"}, el("strong", {}, "What a retry will do"), effect),
    field("bulk-reason", "Reason, for the audit log", el("input", {id: "bulk-reason", name: "reason", required: true, maxlength: 200})),
    field("bulk-by", "Your name, for the audit log", el("input", {id: "bulk-by", name: "by", value: lastBy, maxlength: 100})),
    el("label", {class: "option"}, sure, sureText), error,
    el("div", {class: "buttons"}, el("button", {type: "button", class: "plain", onclick: () => dialog.close()}, "Cancel"), submit));
  dialog.replaceChildren(form);
  dialog.addEventListener("close", () => (open = false), {once: true});
  dialog.showModal();
  look();

  function choose(each) {
    choice = each;
    const fitting = found.filter(choice.fits).length;
    say(effect, choice.effect);
    say(submit, `${choice.verb} ${keys(fitting)}`);
    say(sureText, fitting === found.length ? `Yes, all ${keys(fitting)}` : `Yes, the ${keys(fitting)} of ${found.length.toLocaleString("en")} that allow this`);
    submit.disabled = fitting === 0;
  }

  async function look() {
    try {
      found = await collect(query, (count) => (say(counted, `Looking for keys… ${keys(count)} so far`), open));
    } catch (problem) {
      say(error, problem.message);
      return;
    }
    const state = (key) => (key.state === "started" && !key.live ? "started, owner gone" : key.state === "tombstone" ? "expired" : key.state);
    say(counted, found.length === 0 ? "No key matches these filters."
      : `${keys(found.length)}: ${countedBy(found, state)}. Routes: ${countedBy(found, (key) => key.route || "unknown")}.`);
    options.forEach((option, i) => (option.firstChild.disabled = !found.some(choices[i].fits)));
  }

  async function send(event) {
    event.preventDefault();
    const list = found.filter(choice.fits);
    const values = new FormData(form);
    lastBy = values.get("by");
    const bar = el("progress", {max: list.length, value: 0, "aria-label": "Keys tried"});
    const text = el("p", {role: "status"}, `0 of ${keys(list.length)} tried`);
    let goesOn = true;
    dialog.replaceChildren(el("div", {class: "sheet"}, el("h2", {id: "bulk-title"}, `${choice.verb} ${keys(list.length)}`), bar, text,
      el("div", {class: "buttons"}, el("button", {type: "button", onclick: () => (goesOn = false)}, "Stop"))));
    const terms = {reason: values.get("reason"), by: lastBy, ...(choice.state ? {state: choice.state} : {})};
    const result = await change(list, choice, terms, () => goesOn && open, (tried) => {
      bar.value = tried;
      say(text, `${tried.toLocaleString("en")} of ${keys(list.length)} tried`);
    });
    announce(`${choice.done} ${keys(result.done)}`);
    dialog.replaceChildren(el("div", {class: "sheet"}, el("h2", {id: "bulk-title"}, "Done"), ...report(result, choice).filter(Boolean),
      el("div", {class: "buttons"}, el("button", {type: "button", class: "primary", onclick: () => dialog.close()}, "Close"))));
    done();
  }
}
