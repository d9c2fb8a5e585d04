// The entry "once/claims": a client of the claims API, for work that a gateway keeps records of. It needs no native code.
// docs/guides/claims.md has the protocol.
import "./random_node.js";
import { request as httpRequest } from "node:http";

import { durationOf, milliseconds, type Duration } from "./duration.js";
import { RETRIED_STATUSES } from "./fetch.js";
import { Following, type FollowOptions } from "./following.js";
import { refusePromises, refuseWhatJsonLoses, type Json } from "./json.js";
import { randomNonce } from "./random.js";
import { sleep } from "./timing.js";
import { distrust, isNotTrusted } from "./trust.js";
import { claimTerms, failure, reasonOf, runOnce } from "./work.js";
import type { Claim, ClaimOptions, Result, RunOptions, Status, Work, WorkName } from "./work.js";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5000;
const PATIENCE_FOR_PROGRESS_MS = 2000; // The work continues without it.
const REFUSALS = [400, 401, 404, 405, 413];

/** The gateway refused a request. Sending it again would not help. */
export class OnceError extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, detail: string) {
    super(`${status} ${code}: ${detail}`);
    this.name = "OnceError";
    this.status = status;
    this.code = code;
  }
}

export interface OnceOptions {
  /** http://HOST:PORT, https://HOST or unix:PATH */
  url: string;
  token?: string;
  /** The tenant of the token: needed if calls name a tenant. */
  tenant?: string;
  /** Limit of one request, without the time of a long poll. The default is 10000. */
  timeoutMs?: number;
  /** How long a request without a response is repeated. The default is 30000. */
  patienceMs?: number;
  /** Replaces the global fetch: for a client certificate, or an authority that NODE_EXTRA_CA_CERTS does not name. */
  fetch?: typeof fetch;
}

interface Answer {
  status: number;
  json: Record<string, any>;
}

interface AskLimits {
  /** How long the gateway may hold the request before it responds. */
  waitsMs?: number;
  patienceMs?: number;
  timeoutMs?: number;
}

// Unix sockets that refused a request without a token.
const socketsWithTokens = new Set<string>();

export class Once {
  readonly url: string;
  readonly token?: string;
  /** The tenant of the token, if it was given. */
  readonly tenant?: string;
  readonly timeoutMs: number;
  readonly patienceMs: number;
  readonly fetch?: typeof fetch;

  constructor({ url, token, tenant, timeoutMs = 10_000, patienceMs = 30_000, fetch }: OnceOptions) {
    if (!/^(https?:\/\/|unix:)/.test(url ?? "")) throw new TypeError("url is http://HOST:PORT, https://HOST or unix:PATH");
    const local = url.startsWith("unix:") && token === undefined;
    if (tenant !== undefined && token === undefined && !(local && tenant === "local")) {
      throw new TypeError(`the tenant ${JSON.stringify(tenant)} needs its token: without one there is "local", on a Unix socket`);
    }
    this.url = url.replace(/\/$/, "");
    this.token = token;
    this.tenant = local ? "local" : tenant;
    this.timeoutMs = timeoutMs;
    this.patienceMs = patienceMs;
    this.fetch = fetch;
  }

  /** Runs the work unless it was done or is in progress. Throws only for mistakes in the program; everything else is a status. */
  withIdempotency<T>(options: RunOptions & { operation: Work<T> }): Promise<Result<T>>;
  withIdempotency<T>(options: RunOptions, work: Work<T>): Promise<Result<T>>;
  async withIdempotency<T>(options: RunOptions & { operation?: Work<T> }, work?: Work<T>): Promise<Result<T>> {
    return runOnce(this, options, work);
  }

  /** A claim: acquired, or with the result that prevents it. */
  async claim(options: ClaimOptions): Promise<RemoteClaim> {
    const { scope, key, inputs, fingerprint } = options;
    const { lease, ttl, takeoverAfter, onUnknown, wait } = claimTerms(options);
    refuseWhatJsonLoses({ inputs, fingerprint });
    await this.checkTenant(options);
    const body = {
      scope, key, inputs, fingerprint, lease, ttl, on_unknown: onUnknown, takeover_after: takeoverAfter, nonce: randomNonce(),
    };
    const until = Date.now() + milliseconds(wait);
    for (;;) {
      const left = Math.max(0, until - Date.now());
      let answer: Answer;
      try {
        answer = await this.ask("/v1/claims", { ...body, wait: durationOf(left) }, { waitsMs: left });
      } catch (error) {
        if (isMistake(error)) throw error;
        return new RemoteClaim(this, lease, null, unavailable(error));
      }
      const { status, json } = answer;
      if (status === 200 && json.status === "acquired") return new RemoteClaim(this, lease, json, null);
      const again = status === 200 && json.status === "in_progress" && Date.now() < until;
      if (!again) return new RemoteClaim(this, lease, null, resultOf(status, json));
      // The gateway's longest wait is shorter than the caller's, or too many requests are waiting there.
      await sleep(Math.min(until - Date.now(), json.retry_after * 1000, 100 + Math.random() * 900));
    }
  }

  /** The state, without claiming it; null if there is none. */
  async lookup(options: WorkName & { wait?: Duration }): Promise<Result<Json> | null> {
    const { scope, key, inputs, wait = "0s" } = options;
    refuseWhatJsonLoses({ inputs });
    await this.checkTenant(options);
    try {
      const { status, json } = await this.ask("/v1/claims/lookup", { scope, key, inputs, wait }, { waitsMs: milliseconds(wait) });
      return status === 200 && json.status === "none" ? null : (resultOf(status, json) as Result<Json>);
    } catch (error) {
      if (isMistake(error)) throw error;
      return unavailable(error);
    }
  }

  /**
   * The progress of the work from its beginning, as its owner appends it. It ends when the work has ended, when its owner is gone, or after
   * `wait`. The pieces of work that has succeeded are gone; its value is in `result`.
   */
  follow(options: FollowOptions): Following {
    const { scope, key, inputs, wait = "5m" } = options;
    if ((key === undefined) === (inputs === undefined)) throw new TypeError("exactly one of key and inputs is needed");
    refuseWhatJsonLoses({ inputs });
    const read = async (place: object, waitsMs: number) => {
      try {
        const { status, json } = await this.ask("/v1/claims/follow", { scope, key, inputs, ...place, wait: durationOf(waitsMs) }, { waitsMs });
        return { json: status === 200 ? json : {}, result: json.status === "none" ? null : (resultOf(status, json) as Result<Json>) };
      } catch (error) {
        if (isMistake(error)) throw error;
        return { json: {}, result: unavailable(error) };
      }
    };
    return new Following(() => this.checkTenant(options), read, milliseconds(wait));
  }

  /** Throws instead of working for another tenant than the requested one. */
  private async checkTenant({ tenant }: { tenant?: string }): Promise<void> {
    if (tenant !== undefined && tenant !== this.tenant) {
      const own = this.tenant === undefined ? "no tenant by name" : JSON.stringify(this.tenant);
      throw new TypeError(`this client is for ${own}, not for ${JSON.stringify(tenant)}: use new Once({ url, token, tenant })`);
    }
    // A Unix socket without tokens accepts any token, and every client is "local" there.
    if (this.tenant === undefined || this.token === undefined || !this.url.startsWith("unix:")) return;
    if (socketsWithTokens.has(this.url)) return;
    let status: number;
    try {
      ({ status } = await this.askOnce("/v1/claims/lookup", "{}", this.timeoutMs, null));
    } catch {
      return; // The gateway cannot be reached; the next request reports that.
    }
    if (status === 401) socketsWithTokens.add(this.url);
    if (status === 400) throw new TypeError(`${this.url} has no tokens: every client is "local", not ${JSON.stringify(this.tenant)}`);
  }

  /** Repeats a request without a response, or with one that asks for a retry: every verb of the API may be repeated. @internal */
  async ask(target: string, body: unknown, limits: AskLimits = {}): Promise<Answer> {
    const { waitsMs = 0, patienceMs = this.patienceMs, timeoutMs = this.timeoutMs } = limits;
    const until = Date.now() + patienceMs;
    const text = JSON.stringify(body, refusePromises);
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      let problem: unknown;
      try {
        const answer = await this.askOnce(target, text, timeoutMs + waitsMs);
        const { code = "", detail = "" } = answer.json;
        if (REFUSALS.includes(answer.status)) throw new OnceError(answer.status, code, detail);
        if (!RETRIED_STATUSES.includes(answer.status)) return answer;
        problem = new Error(`the gateway answered ${answer.status} ${code}`);
      } catch (error) {
        problem = distrust(error, this.url) ?? error;
      }
      if (problem instanceof OnceError || isNotTrusted(problem)) throw problem;
      // Full jitter, so that clients that failed together do not retry together.
      const wait = Math.random() * pause;
      if (Date.now() + wait >= until) throw problem;
      await sleep(wait);
    }
  }

  private async askOnce(target: string, text: string, timeoutMs: number, token: string | null | undefined = this.token): Promise<Answer> {
    const headers: Record<string, string> = { "content-type": "application/json" };
    if (token != null) headers.authorization = `Bearer ${token}`;
    if (this.url.startsWith("unix:")) return askSocket(this.url.slice("unix:".length), target, text, headers, timeoutMs);
    const signal = AbortSignal.timeout(timeoutMs);
    const response = await (this.fetch ?? globalThis.fetch)(this.url + target, { method: "POST", headers, body: text, signal });
    return { status: response.status, json: (await response.json()) as Answer["json"] };
  }
}

/** A claim of the claims API. This object renews its lease. */
export class RemoteClaim implements Claim {
  readonly acquired: boolean;
  result: Result<any> | null;
  readonly lost: AbortSignal;
  readonly handle?: string;
  readonly attempt?: number;
  readonly fence?: number;
  private readonly taken = new AbortController();
  private renewing = false;
  private timer?: ReturnType<typeof setTimeout>;
  private appended = 0; // pieces of progress
  private unanswered: Json[] = []; // the last one, if it got no response
  private appending: Promise<unknown> = Promise.resolve();

  /** @internal */
  constructor(private readonly once: Once, private readonly lease: Duration, acquired: Answer["json"] | null, result: Result<unknown> | null) {
    this.acquired = acquired !== null;
    this.result = result;
    this.lost = this.taken.signal;
    if (acquired === null) return;
    this.handle = acquired.claim;
    this.attempt = acquired.attempt;
    this.fence = acquired.fence;
    this.renewing = true;
    this.scheduleRenewal();
  }

  async succeed<T>(value: T, { ttl }: { ttl?: Duration } = {}): Promise<Result<T>> {
    try {
      JSON.stringify(value, refusePromises);
    } catch (error) {
      this.stopRenewing();
      return this.refused(value, error);
    }
    const json = await this.end("succeed", { value: value === undefined ? null : value, ttl });
    if (json === null) {
      const { error } = this.result as Result<T>;
      if (error instanceof OnceError && [400, 413].includes(error.status)) return this.refused(value, error);
      return (this.result = { ...(this.result as Result<T>), data: value });
    }
    const recorded = "value" in json && !("encoding" in json) ? json.value : value;
    return (this.result = { status: "succeeded", data: recorded, cached: false, attempt: this.attempt });
  }

  async progress(data: Json): Promise<boolean> {
    if (!this.acquired) throw new Error("this claim was not acquired");
    refuseWhatJsonLoses({ data });
    const added = this.appending.then(async () => {
      // The last piece may have been recorded. Send it again under its number first, or the next piece would be taken for it.
      for (const piece of [...this.unanswered, data]) {
        if (!(await this.append(piece))) return false;
      }
      return true;
    });
    this.appending = added.catch(() => undefined);
    return added;
  }

  private async append(data: Json): Promise<boolean> {
    if (this.lost.aborted || !this.renewing) return false;
    this.unanswered = [data];
    try {
      const piece = { number: this.appended, data };
      const { status } = await this.once.ask(`/v1/claims/${this.handle}/progress`, piece, { patienceMs: PATIENCE_FOR_PROGRESS_MS });
      this.unanswered = [];
      if (status === 200) this.appended += 1;
      else this.taken.abort();
      return status === 200;
    } catch (error) {
      if (!(error instanceof OnceError)) return false;
      this.unanswered = [];
      if (error.status === 413) return false;
      throw error;
    }
  }

  // Do not fail the claim: the work was done, and would be repeated at once.
  private refused<T>(value: T, error: unknown): Result<T> {
    return (this.result = { ...unavailable(error), reason: "value-refused", data: value, attempt: this.attempt, claim: this });
  }

  async fail(error?: unknown): Promise<Result<never>> {
    const json = await this.end("fail", { reason: reasonOf(error) });
    if (json === null && this.result?.status === "lost") return this.result as Result<never>;
    return (this.result = failure(error, this.attempt));
  }

  async release(): Promise<Result<never>> {
    const json = await this.end("release", {});
    if (json !== null) this.result = { status: "released", stopReason: "released", cached: false, attempt: this.attempt };
    return this.result as Result<never>;
  }

  private async end(verb: string, body: unknown): Promise<Answer["json"] | null> {
    if (!this.acquired) throw new Error("this claim was not acquired");
    this.stopRenewing();
    try {
      const { status, json } = await this.once.ask(`/v1/claims/${this.handle}/${verb}`, body);
      if (status === 200) return json;
    } catch (error) {
      this.result = { ...unavailable(error), attempt: this.attempt };
      return null;
    }
    this.taken.abort();
    this.result = { status: "lost", stopReason: "lost", cached: false, attempt: this.attempt };
    return null;
  }

  /** Used if a result contains the claim: leaves out the handle, which is a secret, and cycles. */
  toJSON(): { acquired: boolean; attempt?: number } {
    return { acquired: this.acquired, attempt: this.attempt };
  }

  private stopRenewing(): void {
    this.renewing = false;
    clearTimeout(this.timer);
  }

  // Renews three times per lease, counted from when the last renewal was sent. One without a response is given up after half of that time,
  // and the next follows soon, so that several may fail before the lease ends.
  private scheduleRenewal(inMs = milliseconds(this.lease) / 3): void {
    const interval = milliseconds(this.lease) / 3;
    this.timer = setTimeout(async () => {
      const began = Date.now();
      let next: number | undefined;
      try {
        const limits = { patienceMs: 0, timeoutMs: Math.ceil(Math.min(this.once.timeoutMs, interval / 2)) };
        const { status } = await this.once.ask(`/v1/claims/${this.handle}/renew`, { lease: this.lease }, limits);
        if (status === 409 && this.renewing) {
          this.taken.abort();
          return;
        }
      } catch (error) {
        // A refused renewal would be refused again.
        if (!(error instanceof OnceError)) next = Math.min(1000, interval / 4) * (0.5 + Math.random() / 2);
      }
      next ??= Math.max(0, began + interval - Date.now());
      if (this.renewing) this.scheduleRenewal(next);
    }, inMs);
    this.timer.unref?.();
  }
}

// fetch() throws a TypeError too, but with a cause.
function isMistake(error: unknown): boolean {
  return error instanceof OnceError || (error instanceof TypeError && error.cause === undefined);
}

function unavailable(error: unknown): Result<never> {
  return { status: "unavailable", stopReason: "unavailable", cached: false, error };
}

function resultOf(status: number, json: Answer["json"]): Result<unknown> {
  const result = { status: json.status as Status, cached: true, attempt: json.attempt as number | undefined };
  if (status === 200 && json.status === "succeeded") return { ...result, data: json.value };
  if (status === 200) return { ...result, stopReason: json.status, cached: false, retryAfter: json.retry_after };
  if (status === 422) return { status: "mismatch", stopReason: "mismatch", cached: false };
  const error = new OnceError(status, json.code ?? "", json.detail ?? "");
  // The work succeeded, but its value was not kept.
  if (json.code === "response-not-kept") return { status: "succeeded", cached: true, error };
  return unavailable(error);
}

function askSocket(socketPath: string, path: string, text: string, headers: Record<string, string>, timeout: number): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const length = Buffer.byteLength(text);
    const sent = httpRequest({ socketPath, path, method: "POST", headers: { ...headers, "content-length": length }, timeout, agent: false });
    sent.on("timeout", () => sent.destroy(new Error(`no response in ${timeout} ms`)));
    sent.on("error", reject);
    sent.on("response", (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.on("error", reject);
      response.on("end", () => {
        try {
          resolve({ status: response.statusCode ?? 0, json: JSON.parse(Buffer.concat(parts).toString()) });
        } catch (error) {
          reject(error);
        }
      });
    });
    sent.end(text);
  });
}

/** The client configured by the environment: ONCE_CLAIMS_URL, and the token of the tenant in ONCE_CLAIMS_TOKEN_TENANT. */
export function onceFromEnvironment(tenant?: string): Once {
  const { env } = process;
  const url = env.ONCE_CLAIMS_URL;
  if (!url) throw new TypeError("set ONCE_CLAIMS_URL, or use new Once({ url, token })");
  if (tenant === undefined) return new Once({ url, token: env.ONCE_CLAIMS_TOKEN || undefined });
  // Names with capitals or _ would share a variable with others: a_b and A-B with a-b.
  if (typeof tenant !== "string" || !/^[a-z0-9-]+$/.test(tenant)) {
    throw new TypeError(`the tenant ${JSON.stringify(tenant)} has no variable of its own: use new Once({ url, token, tenant })`);
  }
  const variable = `ONCE_CLAIMS_TOKEN_${tenant.toUpperCase().replaceAll("-", "_")}`;
  const token = env[variable] || undefined;
  const local = tenant === "local" && url.startsWith("unix:");
  if (token === undefined && !local) throw new TypeError(`set ${variable}: the token of the tenant ${JSON.stringify(tenant)}`);
  return new Once({ url, token, tenant });
}
