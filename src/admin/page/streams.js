// Responses that this gateway records as they stream, the oldest first. Requested only while there are any.
import {startAction, stopAction} from "/actions.js";
import {request} from "/api.js";
import {openKey} from "/key.js";
import {announce, byId, bytes, el, number, say, when} from "/dom.js";

const mostRows = 20;
let asking = false;

async function stop(id) {
  say(byId("streams-error"), "");
  try {
    startAction(stopAction, await request("GET", `/v1/keys/${id}`), () => announce("Stream stopped"));
  } catch (problem) {
    say(byId("streams-error"), problem.message);
  }
}

function makeRow({id, route}) {
  const cell = (name, more = {}) => el("td", {"data-label": name, ...more});
  return el("tr", {"data-id": id},
    el("th", {scope: "row"}, el("button", {type: "button", class: "id", title: id, onclick: () => openKey(id)}, id.slice(0, 16))),
    el("td", {"data-label": "Route", class: "wrap"}, route || "–"), cell("Began"), cell("Bytes", {class: "n"}), cell("Readers", {class: "n"}),
    el("td", {class: "n"}, el("button", {type: "button", "aria-label": `Stop the stream ${id.slice(0, 16)}`, onclick: () => stop(id)}, "Stop…")));
}

// Rows keep their places while their numbers change, so that buttons do not move under the pointer.
function show({count, streams}) {
  const body = byId("streams-body");
  const before = new Map([...body.children].map((row) => [row.dataset.id, row]));
  const rows = streams.slice(0, mostRows).map((stream) => {
    const row = before.get(stream.id) ?? makeRow(stream);
    row.children[2].replaceChildren(when(stream.since));
    say(row.children[3], bytes(stream.bytes));
    say(row.children[4], number(stream.readers));
    return row;
  });
  if (rows.length !== body.children.length || rows.some((row, index) => body.children[index] !== row)) body.replaceChildren(...rows);
  byId("streams").hidden = count === 0;
  say(byId("streams-more"), count > rows.length ? `and ${number(count - rows.length)} more` : "");
}

export async function showStreams(count, visible) {
  if (!visible || asking) return;
  if (!count) {
    if (!byId("streams").hidden) show({count: 0, streams: []});
    return;
  }
  asking = true;
  try {
    show(await request("GET", "/v1/streams"));
  } catch {
    // The next event causes another request.
  }
  asking = false;
}
