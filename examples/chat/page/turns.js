// The questions and their answers, kept in localStorage: one item for each, so that tabs do not overwrite each other's.
// An open question has its key and the exact bytes of its body, which is all that a retry needs. Its text and the id of the last
// event are saved together with every event: after a reload the answer goes on from there.
const prefix = "chat/turn/";
const model = "slow";

/** @returns {{name, key, body, question, text, lastEventId, state}[]} in the order in which they were asked */
export function load() {
  const names = Object.keys(localStorage).filter((name) => name.startsWith(prefix)).sort();
  return names.map((name) => ({ name, ...JSON.parse(localStorage.getItem(name)) }));
}

export function save({ name, ...turn }) {
  localStorage.setItem(name, JSON.stringify(turn));
}

/** A new question has a new key. It is saved before it is sent. */
export function open(question) {
  const key = crypto.randomUUID();
  const before = load().filter((turn) => turn.state === "whole");
  const messages = before.flatMap((turn) => [{ role: "user", content: turn.question }, { role: "assistant", content: turn.text }]);
  const body = JSON.stringify({ model, stream: true, messages: [...messages, { role: "user", content: question }] });
  const name = `${prefix}${String(Date.now()).padStart(16, "0")}/${key}`;
  const turn = { name, key, body, question, text: "", lastEventId: "", state: "open" };
  save(turn);
  return turn;
}

/** Who asks. A real page has the token of its user's session. */
export function token() {
  const name = "chat/token";
  if (!localStorage.getItem(name)) localStorage.setItem(name, crypto.randomUUID());
  return localStorage.getItem(name);
}
