// fetchOnce(): fetch() that retries with one Idempotency-Key. It runs in Node and in browsers and imports nothing of Node.
import { randomKey } from "./random.js";
import { sleep, timeLimit, unlessAborted } from "./timing.js";
import { distrust, isNotTrusted } from "./trust.js";

/** Statuses after which the same request, with the same key, is safe and may end differently. */
export const RETRIED_STATUSES: readonly number[] = Object.freeze([408, 425, 429, 502, 503, 504]);

/**
 * What fetchOnce() retries; docs/client.md says why. Every other response is returned as it is: 2xx, 3xx (never followed, because
 * another URL is another operation), 422 and the other 4xx, 500, and a problem with `"retryable": false`. A 409 is retried if it says
 * that an earlier attempt is still running, or that the outcome is unknown and when to come back.
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

export interface FetchOnceOptions {
  /** Made if neither this nor the header is given. */
  key?: string;
  /** "Idempotency-Key". */
  keyHeader?: string;
  /** Limit of the whole call: reading the request's body, every attempt with its response body, and the pauses; 60000. */
  deadlineMs?: number;
  /** Limit of one attempt, with its response body; 15000. */
  attemptTimeoutMs?: number;
  /** The longest pause after the first attempt; it doubles with every attempt. 200. */
  firstPauseMs?: number;
  /** 10000. */
  longestPauseMs?: number;
  /**
   * Return a 2xx as soon as its head has come, with its body unread. By default bodies are read before fetchOnce() returns, except
   * text/event-stream, application/x-ndjson and application/jsonl.
   */
  stream?: boolean;
  /** The global fetch. */
  fetch?: typeof fetch;
  /** Called once per origin if a response lacks Idempotency-Status or says `bypassed`; console.warn. */
  warn?: (message: string) => void;
  onAttempt?: (attempt: Attempt) => void;
}

/** What fetchOnce() throws: the error of fetch(), or the reason of the signal, and the key to continue with. */
export interface FetchOnceError extends Error {
  key: string;
  /** The certificate was not accepted: nothing was sent. */
  notTrusted?: true;
}

export type FetchOnceInit = Omit<RequestInit, "redirect">;

interface Tried {
  response?: Response;
  /** Of a body that was read. */
  bytes?: ArrayBuffer;
  error?: unknown;
}

/**
 * fetch() for a request that must be executed once: it repeats a request that got no complete response, with the same key and the same
 * bytes, until there is one or the deadline has come. Returns the last response; throws if there was none. The key is passed to
 * onAttempt and is the `key` of the error: continuing with it later is safe, a new key is not.
 *
 * The response's body has been read when it returns, so that a truncated one is repeated, too. Event streams are returned as they come
 * (option `stream`): nothing is repeated once they have begun, and no time limit applies to them.
 */
export async function fetchOnce(url: string | URL, init: FetchOnceInit = {}, options: FetchOnceOptions = {}): Promise<Response> {
  const { deadlineMs = 60_000, attemptTimeoutMs = 15_000, firstPauseMs = 200, longestPauseMs = 10_000 } = options;
  const keyHeader = options.keyHeader ?? "Idempotency-Key";
  const headers = new Headers(init.headers);
  const key = headers.get(keyHeader) ?? options.key ?? randomKey();
  headers.set(keyHeader, key);
  const rethrow = (error: unknown): never => { throw withKey(error, key, init.signal); };
  const until = Date.now() + deadlineMs;
  const body = await bytesOf(init, headers, deadlineMs).catch(rethrow);
  const request: RequestInit = { ...init, body, redirect: "manual", headers };
  for (let attempt = 1, pause = firstPauseMs; ; ++attempt, pause = Math.min(pause * 2, longestPauseMs)) {
    const limitMs = Math.max(1, Math.min(attemptTimeoutMs, until - Date.now()));
    const { response, bytes, error } = await tryOnce(url, request, limitMs, options);
    const failure = error === undefined ? undefined : distrust(error, url) ?? withKey(error, key, init.signal);
    options.onAttempt?.({ attempt, key, status: response?.status, error: failure });
    let retryIn = 0;
    if (failure === undefined) {
      warnIfUnprotected(url, response as Response, options);
      const wanted = millisecondsToRetry(response as Response, bytes);
      if (wanted === null) return response as Response;
      retryIn = wanted;
    }
    if (isNotTrusted(failure)) rethrow(failure);
    if (failure !== undefined && init.signal?.aborted) throw failure;
    const wait = Math.max(retryIn, Math.random() * pause);
    if (Date.now() + wait >= until) {
      if (failure !== undefined) throw failure;
      return response as Response;
    }
    await sleep(wait, init.signal).catch(rethrow);
  }
}

// Read once: a form would get another boundary on every attempt, and a stream can be read only once.
async function bytesOf(init: FetchOnceInit, headers: Headers, limitMs: number): Promise<ArrayBuffer | undefined> {
  if (init.body == null) return undefined;
  const whole = new Response(init.body);
  const type = whole.headers.get("Content-Type");
  if (type !== null && !headers.has("Content-Type")) headers.set("Content-Type", type);
  const limit = timeLimit(limitMs, init.signal);
  try {
    return await unlessAborted(whole.arrayBuffer(), limit.signal);
  } finally {
    limit.clear();
  }
}

/** The response and the bytes of its body, unless it is streamed; or the error, and the response if its head came. */
async function tryOnce(url: string | URL, request: RequestInit, limitMs: number, options: FetchOnceOptions): Promise<Tried> {
  const limit = timeLimit(limitMs, request.signal);
  let response: Response | undefined;
  try {
    response = await (options.fetch ?? globalThis.fetch)(url, { ...request, signal: limit.signal });
    const streams = options.stream ?? STREAMS.test(response.headers.get("Content-Type") ?? "");
    // A browser shows no more of a redirect than that it is one: status 0.
    if ((streams && response.ok) || response.status < 200) {
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

const STREAMS = /^(text\/event-stream|application\/(x-ndjson|jsonl))\b/i;

function withBody({ status, statusText, headers, url, redirected }: Response, bytes: ArrayBuffer): Response {
  const made = new Response([204, 205, 304].includes(status) ? null : bytes, { status, statusText, headers });
  return Object.defineProperties(made, { url: { value: url }, redirected: { value: redirected } });
}

const warnedOrigins = new Set<string>();

/** Refusals and errors may come from something in front of Once, so they say nothing about it. */
function warnIfUnprotected(url: string | URL, response: Response, options: FetchOnceOptions): void {
  const status = response.headers.get("Idempotency-Status");
  if (status !== "bypassed" && (status !== null || response.status >= 400 || response.status < 200)) return;
  const { origin } = new URL(response.url || url, globalThis.location?.href);
  if (warnedOrigins.has(origin)) return;
  warnedOrigins.add(origin);
  const what = status === null ? "has no Idempotency-Status" : "says Idempotency-Status: bypassed";
  const warn = options.warn ?? ((message: string) => console.warn(message));
  warn(`fetchOnce: the response of ${origin} ${what}: a retry could be executed twice there. Send the request through Once, on a ` +
    "route that covers its method; for a page of another origin, let CORS expose the header.");
}

/** The error with its key. The reason of a signal may be shared with other calls, so it gets an error of its own. */
function withKey(error: unknown, key: string, signal?: AbortSignal | null): FetchOnceError {
  if (error instanceof Error && Object.isExtensible(error) && !signal?.aborted) return Object.assign(error, { key });
  const { message, name } = (error ?? {}) as Partial<Error>;
  return Object.assign(new Error(message ?? String(error), { cause: error }), { name: name ?? "AbortError", key });
}

/** Milliseconds to wait at least, or null: this response is final. */
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

/** Of a problem document, or of the error object of some dialects. */
function problemOf(response: Response, bytes?: ArrayBuffer): { code?: string; retryable?: unknown } {
  if (!/\bjson\b/.test(response.headers.get("Content-Type") ?? "")) return {};
  try {
    const json = JSON.parse(new TextDecoder().decode(bytes));
    return { code: json?.code ?? json?.error?.code, retryable: json?.retryable };
  } catch {
    return {};
  }
}
