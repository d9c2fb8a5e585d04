// streamOnce(): a keyed request whose response is read as it streams. If the connection breaks, the same request is sent again and the
// stream continues after the bytes that were read. Runs in browsers, too; docs/guides/streams.md has the gateway's guarantees.
import { Attempts, problemOf, type AttemptOptions, type FetchOnceInit } from "./attempts.js";
import { parseEvents, type ServerSentEvent } from "./server_sent.js";
import { NotStoppedError, stopOnce } from "./stop.js";

/**
 * Why a stream ended before its end:
 * - `outcome-unknown`: the execution broke off, at the backend or at the gateway; it may have taken effect
 * - `new-attempt`: the request was executed again, so what follows does not belong to what was read. A new call with the same key reads
 *   the new attempt from its beginning. streamOnce() itself throws it if the call's headers ask for a later part (`Idempotency-Offset`)
 *   and the response does not begin there: drop the earlier part, and call without these headers
 * - `refused`: a retry got a response that does not continue the stream, such as 409 `response-not-kept`; see `status` and `code`
 * - `not-protected`: the response did not say that the key was honoured, so a retry could execute the request again
 * - `gave-up`: no connection within deadlineMs
 */
export type StreamBrokenReason = "outcome-unknown" | "new-attempt" | "refused" | "not-protected" | "gave-up";

/** The stream has no clean end. `key` is the one to continue with, `received` is the number of bytes read from its beginning. */
export class StreamBrokenError extends Error {
  override readonly name = "StreamBrokenError";
  readonly status?: number;
  readonly code?: string;

  constructor(
    readonly reason: StreamBrokenReason,
    message: string,
    readonly key: string,
    readonly received: number,
    { cause, status, code }: { cause?: unknown; status?: number; code?: string } = {},
  ) {
    super(`${message} (${received} bytes were read, key ${key})`, { cause });
    this.status = status;
    this.code = code;
  }
}

export interface StreamOnceOptions extends AttemptOptions {
  /** How long to try to get a response, also each time the connection breaks. The default is 60000. The stream itself has no limit. */
  deadlineMs?: number;
  /** The longest silence of a connection, after which the stream continues on another one. The default is 60000. */
  idleTimeoutMs?: number;
}

/**
 * A response whose body can be read once, by one of `for await (const bytes of stream)`, events() and text(). Leaving the loop closes the
 * connection; the gateway still records the stream to its end.
 */
export interface OnceStream extends AsyncIterable<Uint8Array> {
  readonly key: string;
  readonly status: number;
  /** Whether the status is 2xx. Other responses are returned unchanged, as by fetch(). */
  readonly ok: boolean;
  /** The headers of the first response; later ones only continue its body. */
  readonly headers: Headers;
  /** The number of bytes that were read, from the beginning of the body. */
  readonly received: number;
  /** Whether the request was stopped, by stop() or by another client with its key: the body is the part before the stop. */
  readonly stopped: boolean;
  events(): AsyncIterableIterator<ServerSentEvent>;
  text(): Promise<string>;
  /** Closes the connection, for a caller that does not read the body. The request continues at the backend. */
  close(): void;
  /** Stops the request at the backend, and ends the loop that reads it. See stopOnce(). */
  stop(options?: { signal?: AbortSignal | null }): Promise<boolean>;
}

/**
 * Sends a request with one key and the same bytes on every attempt, and returns when the head of its response has arrived. No byte of the
 * body is returned twice, and two executions are never mixed. Until then it throws like fetchOnce(); while the body is read, a
 * StreamBrokenError or the reason of the signal.
 */
export async function streamOnce(url: string | URL, init: FetchOnceInit = {}, options: StreamOnceOptions = {}): Promise<OnceStream> {
  const attempts = new Attempts("streamOnce", url, init, options, () => true);
  // Offsets count bytes on the wire, but fetch() returns decoded ones. Browsers set this header themselves.
  if (!attempts.headers.has("Accept-Encoding")) attempts.headers.set("Accept-Encoding", "identity");
  const { deadlineMs = 60_000 } = options;
  const deadline = Date.now() + deadlineMs;
  await attempts.readBody(deadlineMs);
  const connection = new Connection(init.signal, options.idleTimeoutMs ?? 60_000);
  const response = await attempts.until(deadline, connection.signal);
  connection.begin(response);
  if (response.ok && !isAskedFor(connection, attempts.headers)) {
    connection.close();
    throw new StreamBrokenError("new-attempt", `the response does not continue at Idempotency-Offset ${attempts.headers.get("Idempotency-Offset")}: ` +
      "the kept part belongs to another attempt, or its response no longer exists. Drop it, and call without Idempotency-Offset and " +
      "Idempotency-Attempt", attempts.key, 0);
  }
  return new Stream(attempts, connection, deadlineMs);
}

/** A caller that already has a part only gets the bytes after it. */
function isAskedFor({ position, response }: Connection, asked: Headers): boolean {
  const offset = asked.get("Idempotency-Offset");
  if (offset === null) return true;
  const attempt = asked.get("Idempotency-Attempt");
  return offset === String(position) && (attempt === null || attempt === (response.headers.get("Idempotency-Attempt") ?? attempt));
}

/** A retry requests the last bytes again and compares them: another execution has other bytes. */
const COMPARED_BYTES = 1024;
/** The Idempotency-Status of a response whose execution had already begun. */
const CONTINUES = ["attached", "replayed", "unknown"];

function isProtected(headers: Headers): boolean {
  const status = headers.get("Idempotency-Status") ?? "";
  return status === "executed" || CONTINUES.includes(status);
}

class Stream implements OnceStream {
  readonly status: number;
  readonly ok: boolean;
  readonly headers: Headers;
  received: number;
  stopped = false;
  #attempts: Attempts;
  #connection: Connection;
  #deadlineMs: number;
  #deadline = 0;
  #hasProgress = true;
  #isRead = false;
  #tail: Uint8Array = new Uint8Array(0); // the last bytes that were read
  #attempt: string | null = null; // the execution that they belong to, if known
  #isStopped = false; // by this object
  #endLoop!: () => void;
  #loopEnd = new Promise<undefined>((resolve) => { this.#endLoop = () => resolve(undefined); });

  constructor(attempts: Attempts, connection: Connection, deadlineMs: number) {
    const { status, ok, headers } = connection.response;
    this.status = status;
    this.ok = ok;
    this.headers = headers;
    this.received = connection.position; // the caller may have asked for a later part
    this.#attempts = attempts;
    this.#connection = connection;
    this.#deadlineMs = deadlineMs;
    this.#takeHead(headers);
  }

  get key(): string {
    return this.#attempts.key;
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<Uint8Array> {
    if (this.#isRead) throw new TypeError("the stream is being read already: it can be read once");
    this.#isRead = true;
    return this.#chunks();
  }

  events(): AsyncIterableIterator<ServerSentEvent> {
    return parseEvents({ [Symbol.asyncIterator]: () => this[Symbol.asyncIterator]() });
  }

  async text(): Promise<string> {
    const decoder = new TextDecoder();
    let text = "";
    for await (const chunk of this) text += decoder.decode(chunk, { stream: true });
    return text + decoder.decode();
  }

  close(): void {
    this.#connection.close();
  }

  async stop({ signal = null }: { signal?: AbortSignal | null } = {}): Promise<boolean> {
    const { url, init, headers, options, key } = this.#attempts;
    // Another server would execute a DELETE.
    if (!isProtected(this.headers)) throw new NotStoppedError("the response did not say that its key was honoured: nothing was sent", key);
    const isEndedHere = await stopOnce(url, { ...init, headers, signal }, { ...options, key, deadlineMs: this.#deadlineMs });
    if (isEndedHere) {
      this.stopped = true;
      this.#isStopped = true;
      this.#endLoop();
      this.close();
    }
    return isEndedHere;
  }

  #takeHead(headers: Headers): void {
    this.#attempt ??= headers.get("Idempotency-Attempt");
    if (headers.get("Idempotency-Stopped") === "true") this.stopped = true;
  }

  async *#chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for (;;) {
        if (this.#isStopped) return;
        const chunk = await Promise.race([this.#next(), this.#loopEnd]);
        if (chunk === undefined) return;
        if (chunk.length > 0) yield chunk;
      }
    } finally {
      this.close();
    }
  }

  /** New bytes, perhaps none; undefined at a clean end. */
  async #next(): Promise<Uint8Array | undefined> {
    let chunk: Uint8Array | undefined;
    try {
      chunk = await this.#connection.read();
    } catch (error) {
      await this.#reattach(error);
      return new Uint8Array(0);
    }
    if (chunk !== undefined) return this.#unseen(chunk);
    if (this.#connection.position < this.received) throw this.#newAttempt("its response is shorter");
    return undefined;
  }

  #unseen(chunk: Uint8Array): Uint8Array {
    const end = this.#connection.position;
    const start = end - chunk.length;
    const repeated = Math.min(chunk.length, Math.max(0, this.received - start));
    const tailStart = this.received - this.#tail.length;
    for (let at = Math.max(start, tailStart); at < start + repeated; ++at) {
      if (chunk[at - start] !== this.#tail[at - tailStart]) throw this.#newAttempt("its response differs");
    }
    const unseen = chunk.subarray(repeated);
    if (unseen.length > 0) {
      this.received += unseen.length;
      this.#tail = lastBytes(this.#tail, unseen);
      this.#hasProgress = true;
    }
    return unseen;
  }

  async #reattach(error: unknown): Promise<void> {
    const attempts = this.#attempts;
    const { response, isIdle } = this.#connection;
    this.close();
    if (attempts.init.signal?.aborted) throw attempts.withKey(attempts.init.signal.reason);
    const status = response.headers.get("Idempotency-Status") ?? "";
    if (status === "unknown") throw this.#outcomeUnknown(error);
    if (!isProtected(response.headers)) {
      throw this.#broken("not-protected", "the connection broke, and the response did not say that its key was honoured: it is unknown " +
        "whether the request was executed, and a retry could execute it again", { cause: error });
    }
    // A connection that fell silent had worked before: do not count it as a failed attempt.
    if (this.#hasProgress || isIdle) {
      this.#deadline = Date.now() + this.#deadlineMs;
      attempts.resetPause();
    }
    this.#hasProgress = false;
    const connection = this.#connection.another();
    this.#connection = connection;
    if (!(await attempts.pause(this.#deadline, 0, connection.signal))) throw this.#gaveUp(error);
    this.#askForTheRest(response);
    const next = await attempts.until(this.#deadline, connection.signal).catch((failure: unknown) => {
      throw attempts.init.signal?.aborted ? failure : this.#gaveUp(failure);
    });
    if (!next.ok) throw await this.#refused(next);
    connection.begin(next);
    const said = next.headers.get("Idempotency-Status");
    const attempt = next.headers.get("Idempotency-Attempt") ?? this.#attempt;
    const isOther = this.#attempt !== null && attempt !== this.#attempt;
    if (next.status !== this.status || !CONTINUES.includes(said ?? "") || connection.position > this.received || isOther) {
      connection.close();
      if (isOther) throw this.#newAttempt(`attempt ${attempt} follows attempt ${this.#attempt}`);
      throw this.#newAttempt(`the retry was answered with ${next.status}, Idempotency-Status: ${said ?? "none"}`);
    }
    this.#takeHead(next.headers);
  }

  #askForTheRest(response: Response): void {
    const { headers } = this.#attempts;
    const offset = this.#offset(response);
    if (offset === undefined) return;
    // The caller's own id would be searched again, and might now be found elsewhere.
    for (const name of ["Idempotency-Offset", "Idempotency-Attempt", "Last-Event-ID"]) headers.delete(name);
    if (offset === 0) return;
    headers.set("Idempotency-Offset", String(offset));
    if (this.#attempt !== null) headers.set("Idempotency-Attempt", this.#attempt);
  }

  /** The offset at which the next response should begin. undefined: at that of the first response; known bytes are skipped. */
  #offset({ headers, url }: Response): number | undefined {
    const page = globalThis.location?.href;
    // A page of another origin may not be allowed to read the offset of the response. If it can read the attempt, it can read the offset,
    // too.
    const isReadable = page === undefined || this.#attempt !== null ||
      new URL(url || this.#attempts.url, page).origin === globalThis.location.origin;
    const isEncoded = !/^(identity)?$/i.test(headers.get("Content-Encoding") ?? "");
    return isReadable && !isEncoded ? this.received - this.#tail.length : undefined;
  }

  #broken(reason: StreamBrokenReason, message: string, more: { cause?: unknown; status?: number; code?: string } = {}): StreamBrokenError {
    return new StreamBrokenError(reason, message, this.key, this.received, more);
  }

  #outcomeUnknown(cause: unknown, more: { status?: number; code?: string } = {}): StreamBrokenError {
    return this.#broken("outcome-unknown", "the execution broke off, and its outcome is unknown: it may have taken effect", { cause, ...more });
  }

  #newAttempt(how: string): StreamBrokenError {
    return this.#broken("new-attempt", `the request was executed again (${how}): read the new response from its beginning with the same key`);
  }

  #gaveUp(cause: unknown): StreamBrokenError {
    return this.#broken("gave-up", `the connection broke, and there was none again within ${this.#deadlineMs} ms: it is unknown how the ` +
      "stream ends; continue later with the same key", { cause });
  }

  async #refused(response: Response): Promise<StreamBrokenError> {
    const { code, detail } = problemOf(response, await response.arrayBuffer());
    const { status, headers } = response;
    if (code === "outcome-unknown" || headers.get("Idempotency-Status") === "unknown") return this.#outcomeUnknown(undefined, { status, code });
    const why = [status, code, detail].filter((part) => part !== undefined).join(" ");
    return this.#broken("refused", `the connection broke, and the retry was answered with ${why}`, { status, code });
  }
}

/** One response and the position in the stream up to which it was read. */
class Connection {
  response!: Response;
  position = 0;
  /** It was given up because no bytes arrived. */
  isIdle = false;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #controller = new AbortController();
  #stop = () => this.#controller.abort(this.outer?.reason);

  constructor(readonly outer: AbortSignal | null | undefined, readonly idleMs: number) {
    if (outer?.aborted) this.#stop();
    outer?.addEventListener("abort", this.#stop, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  another(): Connection {
    return new Connection(this.outer, this.idleMs);
  }

  begin(response: Response): this {
    this.response = response;
    this.position = Number(response.headers.get("Idempotency-Offset") ?? 0) || 0;
    this.#reader = response.body?.getReader();
    return this;
  }

  /** undefined at a clean end. */
  async read(): Promise<Uint8Array | undefined> {
    if (this.#reader === undefined) return undefined;
    const timer = setTimeout(() => {
      this.isIdle = true;
      this.#controller.abort(new DOMException(`nothing came for ${this.idleMs} ms`, "TimeoutError"));
    }, this.idleMs);
    try {
      const { value, done } = await this.#reader.read();
      if (done) return undefined;
      this.position += value.length;
      return value;
    } finally {
      clearTimeout(timer);
    }
  }

  close(): void {
    this.outer?.removeEventListener("abort", this.#stop);
    this.#reader?.cancel().catch(() => undefined);
    this.#controller.abort();
  }
}

function lastBytes(before: Uint8Array, chunk: Uint8Array): Uint8Array {
  if (chunk.length >= COMPARED_BYTES) return chunk.slice(-COMPARED_BYTES);
  const kept = before.subarray(Math.max(0, before.length + chunk.length - COMPARED_BYTES));
  const joined = new Uint8Array(kept.length + chunk.length);
  joined.set(kept);
  joined.set(chunk, kept.length);
  return joined;
}
