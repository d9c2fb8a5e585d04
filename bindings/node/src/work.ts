// Work that is done once: the types that the engine in this process (guard.ts) and the claims API (claims.ts) share, and the one way
// to run work under a claim.
import { hours, minutes, type Duration } from "./duration.js";
import type { Json } from "./json.js";
import { sanitizerOf, type Sanitize } from "./sanitize.js";

/** What happens to work whose owner is gone: it is done again after takeoverAfter, at once, or never. */
export type OnUnknown = "takeover" | "retry" | "hold";

export interface WorkName {
  /** Whose work it is. */
  tenant?: string;
  /** The kind of work, e.g. "actionRequests.aiProposeCopy". */
  scope: string;
  /** The piece of work: your own key, or the JSON that identifies it. Exactly one of both. */
  key?: string;
  inputs?: Json;
}

export interface ClaimOptions extends WorkName {
  /** Any JSON that must be the same for the same key; otherwise the result is "mismatch". */
  fingerprint?: Json;
  /** How long the value is kept; 24h. */
  ttl?: Duration;
  ttlHours?: number;
  /** How long a claim stays valid without a renewal; 30s. It is renewed while the work runs. */
  lease?: Duration;
  /** When work whose owner is gone may be done again, counted from its start; 5m. */
  takeoverAfter?: Duration;
  staleTakeoverMinutes?: number;
  onUnknown?: OnUnknown;
  /** How long to wait for an owner at work; 0s. */
  wait?: Duration;
}

export interface RunOptions extends ClaimOptions {
  /** What may be recorded and returned of the value: allow-lists, or a function. Without it the whole value is. */
  sanitize?: Sanitize;
}

export type Status =
  | "succeeded"
  /** Another owner is at work: see retryAfter. */
  | "in_progress"
  /** The work threw: see error. */
  | "failed"
  /** The owner is gone, and onUnknown is "hold". */
  | "unknown"
  /** The key belongs to another fingerprint. */
  | "mismatch"
  /** Another attempt took over while this one worked; its value was not recorded. */
  | "lost"
  /** The store or the gateway could not be reached. If the work was done, its value is in data and nowhere else. */
  | "unavailable"
  | "released";

export interface Result<T> {
  status: Status;
  data?: T;
  /** The value is from an earlier run. */
  cached: boolean;
  /** Why there is no value: the status, or the `stopReason` of the error that the work threw. */
  stopReason?: string;
  attempt?: number;
  /** Seconds. */
  retryAfter?: number;
  error?: unknown;
  /**
   * With "unavailable": the work was done and its value cannot be recorded, because it is not JSON or too large. The claim is no longer
   * renewed, so the work will be done again unless claim.succeed() is called with another value while the lease lasts.
   */
  reason?: "value-refused";
  /** The claim that still stands after value-refused. */
  claim?: Claim;
}

/** The right to do the work, or the result that stands in its way. Its lease is renewed while it is held. */
export interface Claim {
  readonly acquired: boolean;
  readonly result: Result<unknown> | null;
  /** Aborted when another attempt took over: the work may stop. */
  readonly lost: AbortSignal;
  /** The argument of once_finish() in a transaction; a secret of this owner. */
  readonly handle?: string;
  readonly attempt?: number;
  readonly fence?: number;
  /**
   * Appends a piece of progress, any JSON, for those who follow the work with once.follow(). Returns false if it was not recorded, or may
   * not have been: the claim is lost, the limit for progress is reached, or the gateway cannot be reached. The work can go on. Work in
   * this process cannot be followed: always false.
   */
  progress(data: Json): Promise<boolean>;
  /** ttl: with the claims API only; otherwise it is an option of claim(). */
  succeed<T>(value: T, options?: { ttl?: Duration }): Promise<Result<T>>;
  fail(error?: unknown): Promise<Result<never>>;
  /** Undoes the claim: nothing was done. */
  release(): Promise<Result<never>>;
}

export type Work<T> = (claim: Claim) => T | Promise<T>;

/** Where claims come from. */
export interface Claims {
  claim(options: ClaimOptions): Promise<Claim>;
}

/** Runs the work unless it was done or is being done. Throws only for mistakes of the programmer; everything else is a status. */
export async function runOnce<T>(claims: Claims, options: RunOptions & { operation?: Work<T> }, work = options.operation): Promise<Result<T>> {
  if (typeof work !== "function") throw new TypeError("the work is a function: the second argument, or `operation`");
  const sanitize = sanitizerOf(options.sanitize);
  const claim = await claims.claim(options);
  if (!claim.acquired) return claim.result as Result<T>;
  let value: T;
  try {
    value = sanitize(await work(claim)) as T;
  } catch (error) {
    return claim.fail(error);
  }
  return claim.succeed(value);
}

/** The options with their defaults, as the claims API and the engine take them. */
export function claimTerms(options: ClaimOptions): { lease: Duration; ttl: Duration; takeoverAfter: Duration; onUnknown: OnUnknown; wait: Duration } {
  if ((options.key === undefined) === (options.inputs === undefined)) throw new TypeError("exactly one of key and inputs is needed");
  return {
    lease: options.lease ?? "30s",
    ttl: options.ttl ?? hours(options.ttlHours ?? 24),
    takeoverAfter: options.takeoverAfter ?? minutes(options.staleTakeoverMinutes ?? 5),
    onUnknown: options.onUnknown ?? "takeover",
    wait: options.wait ?? "0s",
  };
}

/** Of failed work. An error may name its own stopReason, so that callers learn why without reading its message. */
export function failure(error: unknown, attempt?: number): Result<never> {
  const own = (error as { stopReason?: unknown } | null | undefined)?.stopReason;
  const stopReason = typeof own === "string" && /^[\w.-]{1,64}$/.test(own) ? own : "failed";
  return { status: "failed", stopReason, cached: false, attempt, error };
}

/** What of an error goes to the log of the store's owner: its name, never its message, which may quote a user. */
export function reasonOf(error: unknown): string {
  return (error instanceof Error ? error.name : String(error ?? "")).slice(0, 100);
}
