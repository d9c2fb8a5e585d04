// The attempts of one request, with one key and the same bytes, until a retry would not change the response. For fetchOnce() and
// streamOnce(); imports nothing of Node.
import { randomKey } from "./random.js";
import { sleep, timeLimit, unlessAborted } from "./timing.js";
import { distrust, isNotTrusted } from "./trust.js";

/** Statuses after which a retry with the same key is safe and may get another response. */
export const RETRIED_STATUSES: readonly number[] = Object.freeze([408, 425, 429, 502, 503, 504]);

/**
 * What fetchOnce() retries; docs/guides/client.md explains why. Every other response is returned: 2xx, 3xx (never followed, because another
 * URL is another operation), 422 and the other 4xx, 500, and a problem with `"retryable": false`. A 409 is retried if an earlier attempt is
 * still running, or if the outcome is unknown and the response has a Retry-After.
 */
export const RETRIED = Object.freeze({
  connectError: true,
  timeout: true,
  statuses: RETRIED_STATUSES,
  /** Codes of a 409 that is retried. */
  conflict: Object.freeze(["in-flight", "idempotency_key_in_use", "outcome-unknown"]) as readonly string[],
} as const);

export interface Attempt {
  /** 1, 2, 3 … */
  attempt: number;
  /** The key to continue with later, if the call ends without a response. */
  key: string;
  status?: number;
  error?: unknown;
}

export interface AttemptOptions {
  /** By default a new key, unless the header is given. */
  key?: string;
  /** The default is "Idempotency-Key". */
  keyHeader?: string;
  /** Limit of one attempt, including its response body; for a stream, up to the head of its response. The default is 15000. */
  attemptTimeoutMs?: number;
  /** The longest pause after the first attempt; doubled with every attempt. The default is 200. */
  firstPauseMs?: number;
  /** The default is 10000. */
  longestPauseMs?: number;
  /** The default is the global fetch. */
  fetch?: typeof fetch;
  /** Called once per origin if a response has no Idempotency-Status, or `bypassed`. The default is console.warn. */
  warn?: (message: string) => void;
  onAttempt?: (attempt: Attempt) => void;
}

/** Thrown by fetchOnce(): the error of fetch(), or the reason of the signal, with the key to continue with. */
export interface FetchOnceError extends Error {
  key: string;
  /** The certificate was not accepted: nothing was sent. */
  notTrusted?: true;
}

export type FetchOnceInit = Omit<RequestInit, "redirect">;

export interface Problem {
  code?: string;
  detail?: string;
  retryable?: unknown;
}

interface Tried {
  response?: Response;
  /** The body, if it was read. */
  bytes?: ArrayBuffer;
  error?: unknown;
}

/** One call: the request of every attempt, the number of attempts, and the length of the next pause. */
export class Attempts {
  readonly key: string;
  readonly headers: Headers;
  #count = 0;
  #pause: number;
  #body: ArrayBuffer | undefined;

  /** streams: whether the body of a 2xx with these headers is left unread. */
  constructor(
    readonly caller: string,
    readonly url: string | URL,
    readonly init: FetchOnceInit,
    readonly options: AttemptOptions,
    readonly streams: (headers: Headers) => boolean,
  ) {
    const keyHeader = options.keyHeader ?? "Idempotency-Key";
    this.headers = new Headers(init.headers);
    this.key = this.headers.get(keyHeader) ?? options.key ?? randomKey();
    this.headers.set(keyHeader, this.key);
    this.#pause = options.firstPauseMs ?? 200;
  }

  // Read once: a form would get another boundary on every attempt, and a stream can be read only once.
  async readBody(limitMs: number): Promise<void> {
    if (this.init.body == null) return;
    const whole = new Response(this.init.body);
    const type = whole.headers.get("Content-Type");
    if (type !== null && !this.headers.has("Content-Type")) this.headers.set("Content-Type", type);
    const limit = timeLimit(limitMs, this.init.signal);
    try {
      this.#body = await unlessAborted(whole.arrayBuffer(), limit.signal);
    } catch (error) {
      throw this.withKey(error);
    } finally {
      limit.clear();
    }
  }

  /** The last response, or the error of the last attempt. `signal` also ends the body of a response that streams. */
  async until(deadline: number, signal: AbortSignal | null | undefined = this.init.signal): Promise<Response> {
    const request: RequestInit = { ...this.init, body: this.#body, redirect: "manual", headers: this.headers, signal };
    for (;;) {
      const limitMs = Math.max(1, Math.min(this.options.attemptTimeoutMs ?? 15_000, deadline - Date.now()));
      const { response, bytes, error } = await this.#try(request, limitMs);
      const failure = error === undefined ? undefined : distrust(error, this.url) ?? this.withKey(error);
      this.options.onAttempt?.({ attempt: ++this.#count, key: this.key, status: response?.status, error: failure });
      let retryIn = 0;
      if (failure === undefined) {
        this.#warnIfUnprotected(response as Response);
        const wanted = millisecondsToRetry(response as Response, bytes);
        if (wanted === null) return response as Response;
        retryIn = wanted;
      }
      if (isNotTrusted(failure)) throw this.withKey(failure);
      if (failure !== undefined && this.init.signal?.aborted) throw failure;
      if (await this.pause(deadline, retryIn)) continue;
      if (failure !== undefined) throw failure;
      return response as Response;
    }
  }

  /** Waits, longer each time. Returns false at once if the wait would end after the deadline. */
  async pause(deadline: number, leastMs = 0, signal: AbortSignal | null | undefined = this.init.signal): Promise<boolean> {
    const wait = Math.max(leastMs, Math.random() * this.#pause);
    this.#pause = Math.min(this.#pause * 2, this.options.longestPauseMs ?? 10_000);
    if (Date.now() + wait >= deadline) return false;
    await sleep(wait, signal).catch((error: unknown) => { throw this.withKey(error); });
    return true;
  }

  /** The call made progress: the next pause is short again. */
  resetPause(): void {
    this.#pause = this.options.firstPauseMs ?? 200;
  }

  /** The error with its key. The reason of a signal may be shared with other calls, so it gets an error of its own. */
  withKey(error: unknown): FetchOnceError {
    const { key } = this;
    if (error instanceof Error && Object.isExtensible(error) && !this.init.signal?.aborted) return Object.assign(error, { key });
    const { message, name } = (error ?? {}) as Partial<Error>;
    return Object.assign(new Error(message ?? String(error), { cause: error }), { name: name ?? "AbortError", key });
  }

  /** The response and its body, unless that is streamed; or the error, and the response if its head has arrived. */
  async #try(request: RequestInit, limitMs: number): Promise<Tried> {
    const limit = timeLimit(limitMs, request.signal);
    let response: Response | undefined;
    try {
      response = await (this.options.fetch ?? globalThis.fetch)(this.url, { ...request, signal: limit.signal });
      // A browser shows a redirect only as status 0.
      if ((response.ok && this.streams(response.headers)) || response.status < 200) {
        limit.clearTimer();
        return { response };
      }
      const bytes = await response.arrayBuffer();
      limit.clear();
      return { response: withBody(response, bytes), bytes };
    } catch (error) {
      limit.clear();
      return { response, error: error ?? new Error("fetch failed") };
    }
  }

  /** Refusals and errors may come from a proxy in front of Once, and prove nothing. */
  #warnIfUnprotected(response: Response): void {
    if (response.headers.has("Idempotency-Stopped")) return;
    const status = response.headers.get("Idempotency-Status");
    if (status !== "bypassed" && (status !== null || response.status >= 400 || response.status < 200)) return;
    const { origin } = new URL(response.url || this.url, globalThis.location?.href);
    if (warnedOrigins.has(origin)) return;
    warnedOrigins.add(origin);
    const what = status === null ? "has no Idempotency-Status" : "says Idempotency-Status: bypassed";
    const warn = this.options.warn ?? ((message: string) => console.warn(message));
    warn(`${this.caller}: the response of ${origin} ${what}: a retry could be executed twice there. Send the request through Once, on a ` +
      "route that covers its method; for a page of another origin, let CORS expose the header.");
  }
}

const warnedOrigins = new Set<string>();

function withBody({ status, statusText, headers, url, redirected }: Response, bytes: ArrayBuffer): Response {
  const made = new Response([204, 205, 304].includes(status) ? null : bytes, { status, statusText, headers });
  return Object.defineProperties(made, { url: { value: url }, redirected: { value: redirected } });
}

/** The least number of milliseconds to wait, or null: this response is final. */
function millisecondsToRetry(response: Response, bytes?: ArrayBuffer): number | null {
  if (response.status !== 409 && !RETRIED_STATUSES.includes(response.status)) return null;
  const retryAfter = response.headers.get("Retry-After");
  const { code, retryable } = problemOf(response, bytes);
  if (retryable === false) return null;
  if (response.status === 409) {
    const status = response.headers.get("Idempotency-Status") ?? "";
    const unknown = status === "unknown" || code === "outcome-unknown";
    if (!RETRIED.conflict.includes(code ?? "") && !RETRIED.conflict.includes(status) && !unknown) return null;
    if (unknown && retryAfter === null) return null;
  }
  if (retryAfter === null) return 0;
  const seconds = /^\d+$/.test(retryAfter) ? Number(retryAfter) : (Date.parse(retryAfter) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds * 1000) : 0;
}

/** Reads a problem document, or the error object of some dialects. */
export function problemOf(response: Response, bytes?: ArrayBuffer): Problem {
  if (!/\bjson\b/.test(response.headers.get("Content-Type") ?? "")) return {};
  try {
    const json = JSON.parse(new TextDecoder().decode(bytes));
    return { code: json?.code ?? json?.error?.code, detail: json?.detail ?? json?.error?.message, retryable: json?.retryable };
  } catch {
    return {};
  }
}
