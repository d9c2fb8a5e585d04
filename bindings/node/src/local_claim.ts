// A claim of work in this process. The library renews its lease; succeed, fail and release record how it ended.
import type { Duration } from "./duration.js";
import type { Engine, EngineEvent, Handle, Outcome } from "./engine.js";
import { refusePromises } from "./json.js";
import { failure } from "./work.js";
import type { Claim, Result, Status } from "./work.js";

/** By the library's reason. Every other reason means that the store could not be reached, or did not accept the value. */
const STATUSES: Record<string, Status> = {
  at_work: "in_progress", gone: "in_progress", work_failed: "failed", lost: "lost", unknown: "unknown", mismatch: "mismatch",
};

export class LocalClaim implements Claim {
  readonly acquired: boolean;
  result: Result<any> | null = null;
  readonly lost: AbortSignal;
  readonly handle?: string;
  readonly attempt?: number;
  readonly fence?: number;
  private claim?: Handle;
  private readonly taken = new AbortController();
  private timer?: ReturnType<typeof setInterval>;

  private constructor(private readonly engine: Engine, event: EngineEvent, leaseMs: number) {
    this.lost = this.taken.signal;
    this.acquired = event.kind === "claim";
    if (event.kind === "outcome") this.result = resultOf(event.outcome);
    if (event.kind !== "claim") return;
    ({ handle: this.claim, token: this.handle, attempt: this.attempt, fence: this.fence } = event.claim);
    // The library renews the lease by itself; only check whether that failed.
    this.timer = setInterval(() => this.noticeLoss(), Math.max(100, leaseMs / 3));
    this.timer.unref();
  }

  /** @internal */
  static of(engine: Engine, event: EngineEvent, leaseMs: number): LocalClaim {
    return new LocalClaim(engine, event, leaseMs);
  }

  async succeed<T>(value: T, { ttl }: { ttl?: Duration } = {}): Promise<Result<T>> {
    if (ttl !== undefined) throw new TypeError("the ttl of work in this process is given when it is claimed, not when it has succeeded");
    let text: string;
    try {
      text = JSON.stringify(value === undefined ? null : value, refusePromises) ?? "null";
    } catch (error) {
      // Do not fail the claim: the work was done, and would be repeated at once. It lapses unless another value is recorded.
      return (this.result = { status: "unavailable", stopReason: "unavailable", reason: "value-refused", data: value, cached: false,
        attempt: this.attempt, error, claim: this });
    }
    const outcome = await this.ask("complete", text, "application/json");
    if (outcome.status === "succeeded") {
      this.end();
      const recorded = outcome.value.length > 0 ? (JSON.parse(outcome.value.toString()) as T) : value;
      return (this.result = { status: "succeeded", data: recorded, cached: false, attempt: this.attempt });
    }
    return (this.result = { ...resultOf<T>(outcome), cached: false, data: value, attempt: this.attempt });
  }

  async progress(): Promise<boolean> {
    return false;
  }

  async fail(error?: unknown): Promise<Result<never>> {
    const outcome = await this.ask("fail");
    this.end();
    if (outcome.reason === "lost") return (this.result = lostResult(this.attempt));
    return (this.result = failure(error, this.attempt));
  }

  async release(): Promise<Result<never>> {
    const outcome = await this.ask("release");
    this.end();
    if (outcome.reason === "lost") return (this.result = lostResult(this.attempt));
    return (this.result = { status: "released", stopReason: "released", cached: false, attempt: this.attempt });
  }

  /** Used if a result contains the claim: leaves out the handle, which is a secret, and cycles. */
  toJSON(): { acquired: boolean; attempt?: number } {
    return { acquired: this.acquired, attempt: this.attempt };
  }

  private async ask(verb: string, ...rest: unknown[]): Promise<Outcome> {
    if (this.claim === undefined) throw new Error(this.acquired ? "this claim has ended" : "this claim was not acquired");
    const event = await this.engine.askClaim(verb, this.claim, ...rest);
    if (event.kind !== "outcome") throw new Error(`the library answered with an unexpected event: ${event.kind}`);
    if (event.outcome.reason === "lost") this.taken.abort();
    return event.outcome;
  }

  private noticeLoss(): void {
    if (this.claim === undefined || !this.engine.isLost(this.claim)) return;
    clearInterval(this.timer);
    this.taken.abort();
  }

  private end(): void {
    clearInterval(this.timer);
    if (this.claim !== undefined) this.engine.freeClaim(this.claim);
    this.claim = undefined;
  }
}

function lostResult(attempt?: number): Result<never> {
  return { status: "lost", stopReason: "lost", cached: false, attempt };
}

/** Converts the library's outcome of work to a result of the claims API. */
export function resultOf<T>(outcome: Outcome): Result<T> {
  const { attempt, retryAfterMs, reason, detail } = outcome;
  if (outcome.status === "succeeded") {
    const data = outcome.value.length > 0 ? (JSON.parse(outcome.value.toString()) as T) : undefined;
    return { status: "succeeded", data, cached: outcome.cached, attempt };
  }
  // The work succeeded, but its value was not kept.
  if (reason === "not_kept") return { status: "succeeded", cached: true, attempt, error: new Error(detail || reason) };
  const status = outcome.status === "in_progress" ? "in_progress" : STATUSES[reason] ?? "unavailable";
  const result: Result<T> = { status, stopReason: status, cached: false, attempt };
  if (status === "in_progress") result.retryAfter = Math.max(1, Math.ceil(retryAfterMs / 1000));
  if (status === "unavailable") result.error = new Error(detail || reason);
  return result;
}

