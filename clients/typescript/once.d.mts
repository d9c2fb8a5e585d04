// Types of once.mjs.

/** "24h", "30s", "500ms": a number and ms, s, m, h or d. */
export type Duration = `${number}${"ms" | "s" | "m" | "h" | "d"}`;

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json | undefined };

/** How work that nobody knows the end of is handled: done again after takeoverAfter, at once, or never. */
export type OnUnknown = "takeover" | "retry" | "hold";

export interface ClaimOptions {
  /**
   * Whose work it is. withIdempotency() of the environment uses the token in ONCE_CLAIMS_TOKEN_TENANT (capitals, _ for -) and
   * throws if there is none; names with capitals or _ are for new Once({ url, token, tenant }). An instance throws for any
   * tenant but its own. On a Unix socket without tokens there is only "local".
   */
  tenant?: string;
  /** What kind of work it is, e.g. "actionRequests.aiProposeCopy". */
  scope: string;
  /** Which piece of it: a key of your own, or any JSON that makes it what it is. Exactly one of both. */
  key?: string;
  inputs?: Json;
  /** What must be the same for the same key. */
  fingerprint?: Json;
  /** How long the value is kept; 24h. */
  ttl?: Duration;
  ttlHours?: number;
  /** How long a silent owner counts as at work; 30s. It is renewed while the work runs. */
  lease?: Duration;
  /** 5m. */
  takeoverAfter?: Duration;
  staleTakeoverMinutes?: number;
  onUnknown?: OnUnknown;
  /** How long to wait for an owner at work; 0s. */
  wait?: Duration;
}

export type Status =
  | "succeeded"
  /** Somebody else is at it: see retryAfter. */
  | "in_progress"
  /** The work threw: see error. */
  | "failed"
  /** Nobody knows, and onUnknown is hold. */
  | "unknown"
  /** The key belongs to another fingerprint. */
  | "mismatch"
  /** Another attempt took over while we worked: what we did was not recorded. */
  | "lost"
  /** The gateway could not be asked; if the work was done, its value is in data and nowhere else. */
  | "unavailable"
  | "released";

export interface Result<T> {
  status: Status;
  data?: T;
  /** The value is from an earlier run. */
  cached: boolean;
  /** The status, unless it succeeded. */
  stopReason?: Exclude<Status, "succeeded">;
  attempt?: number;
  /** Seconds. */
  retryAfter?: number;
  error?: unknown;
  /**
   * With "unavailable": the work was done and its value cannot be recorded, because it is no JSON or larger than
   * claims.max_body. Nothing renews the claim any more, so the work will be done again unless claim.succeed() is called with
   * something else before that.
   */
  reason?: "value-refused";
  /** The claim that still stands, after value-refused. */
  claim?: Claim;
}

export type Work<T> = (claim: Claim) => T | Promise<T>;

export declare class OnceError extends Error {
  constructor(status: number, code: string, detail: string);
  readonly status: number;
  readonly code: string;
}

export declare class Claim {
  readonly acquired: boolean;
  readonly result: Result<unknown> | null;
  /** Aborted when another attempt took over: the work may stop. */
  readonly lost: AbortSignal;
  /** For once_finish() in a transaction; a secret of this owner. */
  readonly handle?: string;
  readonly attempt?: number;
  readonly fence?: number;
  succeed<T>(value: T, options?: { ttl?: Duration }): Promise<Result<T>>;
  fail(error?: unknown): Promise<Result<never>>;
  release(): Promise<Result<never>>;
}

export interface OnceOptions {
  /** http://HOST:PORT, https://HOST or unix:PATH */
  url: string;
  token?: string;
  /** Whose token it is: needed where calls name a tenant. */
  tenant?: string;
  /** Of one request, long polls not counted; 10000. */
  timeoutMs?: number;
  /** How long a request that got no answer is repeated; 30000. */
  patienceMs?: number;
  /** In place of the global one: for a client certificate, or an authority that NODE_EXTRA_CA_CERTS does not name. */
  fetch?: typeof fetch;
}

export declare class Once {
  constructor(options: OnceOptions);
  readonly tenant?: string;
  withIdempotency<T>(options: ClaimOptions & { operation: Work<T> }): Promise<Result<T>>;
  withIdempotency<T>(options: ClaimOptions, work: Work<T>): Promise<Result<T>>;
  claim(options: ClaimOptions): Promise<Claim>;
  lookup(options: Pick<ClaimOptions, "tenant" | "scope" | "key" | "inputs" | "wait">): Promise<Result<Json> | null>;
}

export declare function withIdempotency<T>(options: ClaimOptions & { operation: Work<T> }): Promise<Result<T>>;
export declare function withIdempotency<T>(options: ClaimOptions, work: Work<T>): Promise<Result<T>>;

export declare function hashText(text: string): string;
export declare const hashUserText: typeof hashText;

export declare const RETRIED_STATUSES: readonly number[];
export declare const RETRIED: {
  readonly connectError: true;
  readonly timeout: true;
  readonly statuses: readonly number[];
  /** Codes of a 409 that may be repeated. */
  readonly conflict: readonly string[];
};

export interface FetchOnceOptions {
  /** One is made if neither this nor the header is given. */
  key?: string;
  /** "Idempotency-Key". */
  keyHeader?: string;
  /** Of the whole call: reading the request's body, every attempt with its answer's body, and the waits between; 60000. */
  deadlineMs?: number;
  /** Of one attempt, with its answer's body; 15000. */
  attemptTimeoutMs?: number;
  firstPauseMs?: number;
  longestPauseMs?: number;
  /**
   * Give a 2xx as soon as its head has come, its body unread. Without it, bodies are read before fetchOnce() returns, except
   * text/event-stream, application/x-ndjson and application/jsonl.
   */
  stream?: boolean;
  fetch?: typeof fetch;
  /** Gets a message, once per origin, if an answer lacks Idempotency-Status or says `bypassed`; console.warn. */
  warn?: (message: string) => void;
  /** key: what to go on with later, if this ends without an answer. What is thrown has it too, as `key`. */
  onAttempt?: (attempt: { attempt: number; key: string; status?: number; error?: unknown }) => void;
}

/** What fetchOnce() throws: the error of fetch(), or the reason of the signal, and the key to go on with. */
export interface FetchOnceError extends Error {
  key: string;
  /** The certificate was not accepted: nothing was sent. */
  notTrusted?: true;
}

export declare function fetchOnce(
  url: string | URL,
  init?: Omit<RequestInit, "redirect">,
  options?: FetchOnceOptions,
): Promise<Response>;
