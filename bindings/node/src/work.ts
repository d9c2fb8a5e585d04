// Work that is done once: the types shared by the engine in this process (guard.ts) and the claims API (claims.ts), and the function that
// runs work under a claim.
import { hours, minutes, type Duration } from "./duration.js";
import type { Json } from "./json.js";
import { sanitizerOf, type Sanitize } from "./sanitize.js";

/** What to do with work whose owner is gone: repeat it after takeoverAfter, at once, or never. */
export type OnUnknown = "takeover" | "retry" | "hold";

export interface WorkName {
  /** The tenant that the work belongs to. */
  tenant?: string;
  /** The kind of work, e.g. "actionRequests.aiProposeCopy". */
  scope: string;
  /** Identifies the piece of work: your own key, or JSON inputs. Exactly one of the two is required. */
  key?: string;
  inputs?: Json;
}

export interface ClaimOptions extends WorkName {
  /** Any JSON that must be equal for equal keys; otherwise the result is "mismatch". */
  fingerprint?: Json;
  /** How long the value is kept. The default is 24h. */
  ttl?: Duration;
  ttlHours?: number;
  /** How long a claim stays valid without a renewal. The default is 30s. It is renewed while the work runs. */
  lease?: Duration;
  /** When work whose owner is gone may be repeated, counted from its start. The default is 5m. */
  takeoverAfter?: Duration;
  staleTakeoverMinutes?: number;
  onUnknown?: OnUnknown;
  /** How long to wait for a running owner. The default is 0s. */
  wait?: Duration;
}

export interface RunOptions extends ClaimOptions {
  /** The part of the value that may be recorded and returned: allow-lists, or a function. By default the whole value. */
  sanitize?: Sanitize;
}

export type Status =
  | "succeeded"
  /** Another owner is running: see retryAfter. */
  | "in_progress"
  /** The work threw: see error. */
  | "failed"
  /** The owner is gone, and onUnknown is "hold". */
  | "unknown"
  /** The key belongs to another fingerprint. */
  | "mismatch"
  /** Another attempt took over while this one worked; its value was not recorded. */
  | "lost"
  /** The store or the gateway could not be reached. If the work was done, only `data` has its value. */
  | "unavailable"
  | "released";

export interface Result<T> {
  status: Status;
  data?: T;
  /** Whether the value is from an earlier run. */
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
  /** The claim that is still held after value-refused. */
  claim?: Claim;
}

/** The right to do the work, or the result that prevents it. Its lease is renewed while it is held. */
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
   * Appends a piece of progress, any JSON, for clients that follow the work with once.follow(). Returns false if it was not recorded, or
   * may not have been: the claim is lost, the limit for progress is reached, or the gateway cannot be reached. The work can continue. Work
   * in this process cannot be followed: always false.
   */
  progress(data: Json): Promise<boolean>;
  /** ttl: with the claims API only; otherwise it is an option of claim(). */
  succeed<T>(value: T, options?: { ttl?: Duration }): Promise<Result<T>>;
  fail(error?: unknown): Promise<Result<never>>;
  /** Undoes the claim: nothing was done. */
  release(): Promise<Result<never>>;
}

export type Work<T> = (claim: Claim) => T | Promise<T>;

/** A source of claims. */
export interface Claims {
  claim(options: ClaimOptions): Promise<Claim>;
}

/** Runs the work unless it was done or is in progress. Throws only for mistakes in the program; everything else is a status. */
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

/** The result of failed work. An error may have its own stopReason, so that callers learn the cause without parsing its message. */
export function failure(error: unknown, attempt?: number): Result<never> {
  const own = (error as { stopReason?: unknown } | null | undefined)?.stopReason;
  const stopReason = typeof own === "string" && /^[\w.-]{1,64}$/.test(own) ? own : "failed";
  return { status: "failed", stopReason, cached: false, attempt, error };
}

/** The part of an error that is logged: its name, never its message, which may quote a user. */
export function reasonOf(error: unknown): string {
  return (error instanceof Error ? error.name : String(error ?? "")).slice(0, 100);
}
