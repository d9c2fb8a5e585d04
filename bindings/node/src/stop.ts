// stopOnce(): ends the execution of a keyed request whose response streams. Runs in browsers, too.
import { Attempts, problemOf, type AttemptOptions, type FetchOnceInit } from "./attempts.js";

/** The request was not stopped, and may continue. `code` is that of the problem: `key-not-found`, `in-flight`, `outcome-unknown` … */
export class NotStoppedError extends Error {
  override readonly name = "NotStoppedError";

  constructor(message: string, readonly key: string, readonly status?: number, readonly code?: string) {
    super(`${message} (key ${key})`);
  }
}

export interface StopOnceOptions extends AttemptOptions {
  /** How long to try. The default is 60000. */
  deadlineMs?: number;
}

/** Headers of the streaming request that do not apply to its stop. */
const NOT_OF_THE_STOP = ["Content-Type", "Idempotency-Offset", "Idempotency-Attempt", "Last-Event-ID"];

/**
 * Stops a request that was sent through Once: the recorded part of its response stays, and retries get it. Returns true if the response
 * ends here, and false if it had ended before. Throws a NotStoppedError if the server refuses, and like fetchOnce() if there is no
 * response.
 *
 * `init` is that of the request: its method, and the headers that identify the caller. The body is not needed, the key is.
 */
export async function stopOnce(url: string | URL, init: FetchOnceInit, options: StopOnceOptions = {}): Promise<boolean> {
  const headers = new Headers(init.headers);
  const keyHeader = options.keyHeader ?? "Idempotency-Key";
  if (!headers.has(keyHeader) && options.key === undefined) throw new TypeError("stopOnce() needs the key of the request");
  for (const name of NOT_OF_THE_STOP) headers.delete(name);
  headers.set("Idempotency-Stop", (init.method ?? "GET").toUpperCase());
  const attempts = new Attempts("stopOnce", url, { ...init, method: "DELETE", headers, body: undefined }, options, () => false);
  const response = await attempts.until(Date.now() + (options.deadlineMs ?? 60_000));
  const stopped = response.headers.get("Idempotency-Stopped");
  const { key } = attempts;
  if (response.ok && stopped !== null) return stopped === "true";
  if (response.ok) {
    throw new NotStoppedError("the response does not say Idempotency-Stopped: the server does not support it, or CORS does not expose it", key,
      response.status);
  }
  const { code, detail } = problemOf(response, await response.arrayBuffer());
  const why = [response.status, code, detail].filter((part) => part !== undefined).join(" ");
  throw new NotStoppedError(`it was not stopped: ${why}`, key, response.status, code);
}
