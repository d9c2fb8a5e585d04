// How the page talks to the gateway. Every request carries Once-Admin, which no page of another origin can send.

export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `The gateway answered ${status}.`);
    this.status = status;
    this.code = document.code || "";
  }
}

export const signals = new EventTarget();  // "login": a token is needed first

export async function request(method, path, body) {
  let response;
  try {
    response = await fetch(path, {
      method,
      headers: {"Once-Admin": "1", ...(body === undefined ? {} : {"Content-Type": "application/json"})},
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch {
    throw new Problem(0, {detail: "The gateway does not answer."});
  }
  const text = await response.text();
  let document = {};
  try {
    document = text ? JSON.parse(text) : {};
  } catch {
    document = {detail: text};
  }
  if (response.ok) return document;
  if (response.status === 401 && path !== "/v1/login") signals.dispatchEvent(new Event("login"));
  throw new Problem(response.status, document);
}

// Receives events. `on` has a function for each kind, and `state` for "live" and "lost". Returns a function that stops.
export function listen(on) {
  const source = new EventSource("/v1/events");
  let asking = false;
  source.addEventListener("history", (event) => on.history(JSON.parse(event.data)));
  source.addEventListener("stats", (event) => {
    on.state("live");
    on.stats(JSON.parse(event.data));
  });
  source.addEventListener("error", () => {
    on.state("lost");
    // A refused event stream has no reason. An ordinary request returns one.
    if (source.readyState !== EventSource.CLOSED || asking) return;
    asking = true;
    request("GET", "/v1/stats").then(() => on.state("refused"), (problem) => problem.status === 401 || on.state("refused"));
  });
  return () => source.close();
}
