// Gate: the engine inside this process. The middlewares use begin() and finish(); withIdempotency() is for work that is not an HTTP
// request. It has the configuration file, stores and operation ids of the gateway.
import { Engine, joined, type ClaimInfo, type EngineEvent, type Handle, type Reply } from "./engine.js";
import { milliseconds, type Duration } from "./duration.js";
import { canonicalJson, refuseWhatJsonLoses, type Json } from "./json.js";
import { LocalClaim, resultOf } from "./local_claim.js";
import { claimTerms, runOnce } from "./work.js";
import type { Claim, ClaimOptions, Claims, OnUnknown, Result, RunOptions, Work, WorkName } from "./work.js";

export type { Ending, Reply, Settled } from "./engine.js";

export interface GateOptions {
  /** Path of the configuration file, as for the gateway; by default the built-in settings are used. */
  config?: string;
  /** Where records are kept: "journal:DIR" for one process; "postgres://…", "mysql://…" or "redis://…" for several. */
  store?: string;
  /** Override single settings of the file: { "defaults.ttl": "48h" }. */
  settings?: Readonly<Record<string, string>>;
  /** Where log lines are written. The default is "stderr". */
  log?: "stderr" | "off" | ((line: string) => void);
}

export interface GateRequest {
  method: string;
  /** As the client sent it, with its query. */
  target: string;
  /** Names and values alternate, like rawHeaders of node:http. */
  fields: readonly string[];
  body?: Buffer;
  /** Numeric address of the client. */
  peer?: string;
  scheme?: "http" | "https";
  /** The caller as your program has verified it. It replaces the route's `caller`. */
  caller?: string;
  tlsSubject?: string;
  tlsIssuer?: string;
  /**
   * "joined": fields that the client sent twice were joined with a comma, as Headers of fetch does. A comma in the key or in a header that
   * identifies the caller then counts as two fields, and is refused like two.
   */
  repeatedFields?: "joined";
  /** The fields in the form for the addon, kept for its second call. @internal */
  joined?: string;
}

export interface GateResponse {
  status: number;
  reason?: string;
  fields: readonly string[];
  /** undefined: the body is too large to be kept, or a stream, and is sent after the reply's head. A retry gets 409 response-not-kept. */
  body: Buffer | undefined;
}

/** The result of begin(). */
export type Begun =
  /** Send this; do not run the handler. */
  | { kind: "reply"; reply: Reply }
  /** Run the handler, then finish the claim. */
  | { kind: "claim"; claim: GateClaim }
  /** The request is not protected (it has no key): run the handler, and add these fields to its response. */
  | { kind: "pass"; fields: string[] }
  | { kind: "cancelled" };

const BODY_NOT_KEPT = 1;
const FIELDS_JOINED = 1;
const ON_UNKNOWN: Record<OnUnknown, number> = { takeover: 0, retry: 1, hold: 2 };

export class Gate implements Claims {
  private constructor(private readonly engine: Engine) {}

  /** Reads the configuration and opens the store. Rejects with every mistake of the configuration in the message. */
  static async open({ config, store, settings, log }: GateOptions = {}): Promise<Gate> {
    const all = store === undefined ? settings : { ...settings, store };
    return new Gate(await Engine.open({ config, settings: all, log }));
  }

  /** The largest body that begin() needs; -1: none, because the request passes or is refused without one. */
  neededBody(request: GateRequest): number {
    return this.engine.now("needsBody", ...requestParts(request));
  }

  /** Claims the operation of this request. While another request with the same key runs, it waits as the route says. */
  async begin(request: GateRequest, signal?: AbortSignal): Promise<Begun> {
    const { begun, cancel } = this.beginCancellable(request);
    if (signal?.aborted) cancel();
    signal?.addEventListener("abort", cancel, { once: true });
    return begun.finally(() => signal?.removeEventListener("abort", cancel));
  }

  /** begin(), with a function to call when the client has left: a request that waits for another one is then cancelled. */
  beginCancellable(request: GateRequest): { begun: Promise<Begun>; cancel: () => void } {
    const { answer, cancel } = this.engine.askCancellable("begin", ...requestParts(request));
    return { begun: answer.then((event) => this.begunOf(event)), cancel };
  }

  private begunOf(event: EngineEvent): Begun {
    switch (event.kind) {
      case "reply": return { kind: "reply", reply: event.reply };
      case "pass": return { kind: "pass", fields: event.reply.fields };
      case "claim": return { kind: "claim", claim: new GateClaim(this.engine, event.claim) };
      case "cancelled": return { kind: "cancelled" };
      default: throw unexpected(event);
    }
  }

  /** Runs the work unless it was done or is in progress. Throws only for mistakes in the program; everything else is a status. */
  withIdempotency<T>(options: RunOptions & { operation: Work<T> }): Promise<Result<T>>;
  withIdempotency<T>(options: RunOptions, work: Work<T>): Promise<Result<T>>;
  async withIdempotency<T>(options: RunOptions & { operation?: Work<T> }, work?: Work<T>): Promise<Result<T>> {
    return runOnce(this, options, work);
  }

  /** A claim of work: acquired, or with the result that prevents it. */
  async claim(options: ClaimOptions): Promise<Claim> {
    const { lease, ttl, takeoverAfter, onUnknown, wait } = claimTerms(options);
    const times = [ttl, takeoverAfter, lease, wait].map(milliseconds);
    const event = await this.engine.ask("claimWork", ...workParts(options), ...times, ON_UNKNOWN[onUnknown]);
    if (event.kind === "outcome" && event.outcome.reason === "invalid") throw new TypeError(event.outcome.detail);
    return LocalClaim.of(this.engine, event, milliseconds(lease));
  }

  /** The state of work, without claiming it; null if there is none. */
  async lookup(options: WorkName): Promise<Result<Json> | null> {
    const event = await this.engine.ask("look", ...workParts(options));
    if (event.kind !== "outcome") throw unexpected(event);
    return event.outcome.status === "absent" ? null : resultOf<Json>(event.outcome);
  }

  /** The operation id of the work in the store, in hex. */
  computeKey(options: WorkName): string {
    return this.engine.now("computeKey", ...workParts(options));
  }

  /**
   * Removes expired records of a SQL store now, and returns their number. The gate also does this by itself; other stores need no removal.
   * Rejects if the store cannot be reached.
   */
  async cleanupExpiredKeys(): Promise<number> {
    const event = await this.engine.ask("sweep");
    if (event.kind !== "swept") throw unexpected(event);
    if (event.failed !== undefined) throw Object.assign(new Error(event.failed), { code: "unavailable" });
    return event.removed;
  }

  /** All metrics in Prometheus' text format. */
  metrics(): string {
    return this.engine.now("metrics");
  }

  /** Waits for the requests in progress, and closes the store. After `timeout` it closes anyway; their outcomes are then unknown. */
  async close(timeout: Duration = "30s"): Promise<void> {
    await this.engine.close(milliseconds(timeout));
  }
}

/** The right to execute a request. Its lease is renewed until it is finished. */
export class GateClaim {
  readonly attempt: number;
  readonly fence: number;
  /** The argument of once_finish() in a database transaction; a secret of this attempt. */
  readonly token: string;
  /** The operation id, in hex. */
  readonly operation: string;
  readonly requestId: string;
  /** False if the store is down and the route has `store_down: bypass`. */
  readonly isProtected: boolean;
  /** The fields that a backend behind the gateway would get: X-Request-Id, Idempotency-Attempt … */
  readonly fields: string[];
  /** Larger responses are not kept. */
  readonly maxBody: number;
  private readonly handle: Handle;

  /** @internal */
  constructor(private readonly engine: Engine, info: ClaimInfo) {
    ({ handle: this.handle, attempt: this.attempt, fence: this.fence, token: this.token, operation: this.operation } = info);
    ({ requestId: this.requestId, isProtected: this.isProtected, fields: this.fields, maxBody: this.maxBody } = info);
  }

  /** Whether another attempt may have taken over: then later results are not recorded. */
  get lost(): boolean {
    return this.engine.isLost(this.handle);
  }

  /** Records the response, then returns the reply to send. */
  finish({ status, reason, fields, body }: GateResponse): Promise<Reply> {
    const flags = body === undefined ? BODY_NOT_KEPT : 0;
    return this.end("finish", status, flags, reason, joined(fields), fields.length, body);
  }

  /** The handler ended without a response and may have done something: the outcome is unknown. */
  abandon(): Promise<Reply> {
    return this.end("abandon");
  }

  /** Nothing was done: the next request with the key executes. */
  release(): Promise<Reply> {
    return this.end("release");
  }

  private async end(verb: string, ...rest: unknown[]): Promise<Reply> {
    const event = await this.engine.askClaim(verb, this.handle, ...rest);
    this.engine.freeClaim(this.handle);
    if (event.kind !== "reply") throw unexpected(event);
    return event.reply;
  }
}

function requestParts(request: GateRequest): unknown[] {
  const { method, target, fields, body, peer, scheme, caller, tlsSubject, tlsIssuer, repeatedFields } = request;
  request.joined ??= joined(fields);
  const flags = repeatedFields === "joined" ? FIELDS_JOINED : 0;
  return [method, target, request.joined, fields.length, body, peer, scheme, caller, tlsSubject, tlsIssuer, flags];
}

function workParts({ tenant, scope, key, inputs, fingerprint }: WorkName & { fingerprint?: Json }): unknown[] {
  if ((key === undefined) === (inputs === undefined)) throw new TypeError("exactly one of key and inputs is needed");
  refuseWhatJsonLoses({ inputs, fingerprint });
  const text = fingerprint === undefined ? undefined : canonicalJson(fingerprint);
  return [tenant, scope, key, inputs === undefined ? undefined : JSON.stringify(inputs), text];
}

function unexpected(event: EngineEvent): Error {
  return new Error(`the library answered with an unexpected event: ${event.kind}`);
}

