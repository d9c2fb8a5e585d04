// Reads one answer to its end, over as many connections as it takes. Every request has the same key and the same body, so that Once
// attaches it to the call that is running, or replays it; the model is called once.
import { events } from "./events.js";

const silenceMs = 30_000; // a connection can be dead without an error; attaching again costs nothing
const firstPauseMs = 250;
const longestPauseMs = 4000;
const retriedStatuses = [408, 425, 429, 502, 503, 504];

/**
 * Adds to turn.text until turn.state is no longer "open": "whole", "stopped" (its caller asked Once to end it), "broken" (the model or Once
 * failed in the middle) or "refused".
 * @param changed called after every change: changed("connecting" | "answering" | "offline" | "ended")
 */
export async function follow(turn, token, changed) {
  let failures = 0;
  while (turn.state === "open") {
    changed("connecting");
    const before = turn.lastEventId;
    const retryAfterMs = await attach(turn, token, changed);
    if (turn.state !== "open") break;
    failures = turn.lastEventId === before ? failures + 1 : 1;
    changed("offline");
    await online();
    const limit = Math.min(longestPauseMs, firstPauseMs * 2 ** failures);
    await pause(Math.max(retryAfterMs, Math.random() * limit));
  }
  changed("ended");
}

/** One connection. If it breaks, turn.state stays "open". Returns the milliseconds that the server asks to wait. */
async function attach(turn, token, changed) {
  const connection = new AbortController();
  const leave = () => connection.abort();
  let silence = setTimeout(leave, silenceMs);
  addEventListener("offline", leave);
  let unknown = false;
  try {
    const response = await fetch("/v1/chat/completions", {
      method: "POST",
      body: turn.body,
      headers: {
        "Content-Type": "application/json",
        Authorization: `Bearer ${token}`,
        "Idempotency-Key": turn.key,
        ...(turn.lastEventId ? { "Last-Event-ID": turn.lastEventId } : {}),
      },
      signal: connection.signal,
    });
    if (!response.ok) return await refused(turn, response);
    unknown = response.headers.get("Idempotency-Status") === "unknown";
    // Without an offset the stream starts from its beginning, and so does the text.
    if (!response.headers.has("Idempotency-Offset")) turn.text = turn.lastEventId = "";
    for await (const { id, data } of events(response.body, turn.lastEventId)) {
      clearTimeout(silence);
      silence = setTimeout(leave, silenceMs);
      if (data === "[DONE]") turn.state = "whole";
      else turn.text += JSON.parse(data).choices[0].delta.content ?? "";
      turn.lastEventId = id;
      changed("answering");
    }
    // A clean end without [DONE].
    if (turn.state === "open") turn.state = response.headers.get("Idempotency-Stopped") === "true" ? "stopped" : "broken";
  } catch (error) {
    // Of an answer that broke off, Once sends the recorded part and then resets the connection. It does not go on.
    const brokeOff = unknown && !connection.signal.aborted;
    if (turn.state === "open" && (brokeOff || error instanceof SyntaxError)) turn.state = "broken";
  } finally {
    clearTimeout(silence);
    removeEventListener("offline", leave);
  }
  return 0;
}

async function refused(turn, response) {
  const problem = await response.json().catch(() => ({}));
  const inFlight = response.status === 409 && response.headers.get("Idempotency-Status") === "in-flight";
  const again = inFlight || (retriedStatuses.includes(response.status) && problem.retryable !== false);
  if (!again) {
    turn.state = response.headers.get("Idempotency-Status") === "unknown" ? "broken" : "refused";
    turn.reason = problem.detail ?? problem.error?.message ?? `status ${response.status}`;
  }
  return 1000 * (Number(response.headers.get("Retry-After")) || 0);
}

function online() {
  if (navigator.onLine) return Promise.resolve();
  return new Promise((resolve) => addEventListener("online", resolve, { once: true }));
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
