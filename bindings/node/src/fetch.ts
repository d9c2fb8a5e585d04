// fetchOnce(): fetch() that retries with one Idempotency-Key; streamOnce() and stopOnce(). They run in Node and in browsers and import nothing
// of Node.
import { Attempts, type AttemptOptions, type FetchOnceInit } from "./attempts.js";

export { RETRIED, RETRIED_STATUSES, type Attempt, type AttemptOptions, type FetchOnceError, type FetchOnceInit } from "./attempts.js";
export type { ServerSentEvent } from "./server_sent.js";
export { NotStoppedError, stopOnce, type StopOnceOptions } from "./stop.js";
export { StreamBrokenError, streamOnce, type OnceStream, type StreamBrokenReason, type StreamOnceOptions } from "./stream.js";

export interface FetchOnceOptions extends AttemptOptions {
  /** Limit of the whole call: reading the request's body, every attempt with its response body, and the pauses. The default is 60000. */
  deadlineMs?: number;
  /**
   * Return a 2xx as soon as its head has arrived, with its body unread. By default bodies are read before fetchOnce() returns, except
   * text/event-stream, application/x-ndjson and application/jsonl.
   */
  stream?: boolean;
}

const STREAMS = /^(text\/event-stream|application\/(x-ndjson|jsonl))\b/i;

/**
 * fetch() for a request that must be executed once: repeats the request, with the same key and the same bytes, until there is a complete
 * response or the deadline has passed. Returns the last response; throws if there was none. The key is passed to onAttempt and is the `key`
 * of the error: continuing with it later is safe, a new key is not.
 *
 * The body of the response has been read when it returns, so a truncated one is repeated, too. Event streams are returned as they arrive
 * (option `stream`): they are not repeated once they have begun, and have no time limit. streamOnce() continues them.
 */
export async function fetchOnce(url: string | URL, init: FetchOnceInit = {}, options: FetchOnceOptions = {}): Promise<Response> {
  const { deadlineMs = 60_000, stream } = options;
  const attempts = new Attempts("fetchOnce", url, init, options, (headers) => stream ?? STREAMS.test(headers.get("Content-Type") ?? ""));
  const deadline = Date.now() + deadlineMs;
  await attempts.readBody(deadlineMs);
  return attempts.until(deadline);
}
