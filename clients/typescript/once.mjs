// Work that happens once, from JavaScript and TypeScript: a client of Once's claims API, and a fetch that retries with one
// Idempotency-Key. One file without dependencies, for Node 18 or newer; fetchOnce() also runs in browsers. The types are in
// once.d.mts: plain JavaScript needs no build step, whatever the version of Node and TypeScript.
//
//   const result = await withIdempotency({
//     tenant: "launchbase",
//     scope: "actionRequests.aiProposeCopy",
//     inputs: { intakeId: 123, userTextHash: hashUserText(userText) },
//     ttlHours: 24,
//     staleTakeoverMinutes: 5,
//     operation: async () => runAiTennis(),
//   });
//
// The gateway is named by ONCE_CLAIMS_URL (http://HOST:PORT, https://HOST or unix:PATH), the token of the tenant launch-base by
// ONCE_CLAIMS_TOKEN_LAUNCH_BASE, and the token of a call that names no tenant by ONCE_CLAIMS_TOKEN; or give them to
// new Once({ url, token, tenant }).
//
// https: Node trusts the authorities it comes with, and those in the file that NODE_EXTRA_CA_CERTS names when it starts. For
// anything else, such as a client certificate, give a `fetch` of your own (undici's, with an Agent).

/** Statuses that say: the same request again, with the same key, is safe and may end differently. */
export const RETRIED_STATUSES = Object.freeze([408, 425, 429, 502, 503, 504]);

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5000;
const REFUSALS = [400, 401, 404, 405, 413];
const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

const node = await import("node:crypto").catch(() => null);
const webcrypto = globalThis.crypto ?? node.webcrypto;

/** The gateway refused a request as it stands: asking again would not help. */
export class OnceError extends Error {
  constructor(status, code, detail) {
    super(`${status} ${code}: ${detail}`);
    this.name = "OnceError";
    this.status = status;
    this.code = code;
  }
}

/** What stands for a user's text in inputs: nobody who sees them can read it, and white space makes no difference. */
export function hashText(text) {
  return node.createHash("sha256").update(text.trim().replace(/\s+/g, " ")).digest("hex");
}

export { hashText as hashUserText };

/** withIdempotency() of the gateway that the environment names. */
export async function withIdempotency(options, work) {
  return fromEnvironment(options.tenant).withIdempotency(options, work);
}

export class Once {
  /** timeoutMs: of one request, long polls not counted. patienceMs: how long a request that got no answer is repeated. */
  constructor({ url, token, tenant, timeoutMs = 10_000, patienceMs = 30_000, fetch }) {
    if (!/^(https?:\/\/|unix:)/.test(url ?? "")) throw new TypeError("url is http://HOST:PORT, https://HOST or unix:PATH");
    const local = url.startsWith("unix:") && token === undefined;
    if (tenant !== undefined && token === undefined && !(local && tenant === "local")) {
      throw new TypeError(`the tenant ${JSON.stringify(tenant)} needs its token: without one there is "local", on a Unix socket`);
    }
    this.url = url.replace(/\/$/, "");
    this.token = token;
    /** Whose token it is; undefined if nobody said. */
    this.tenant = local ? "local" : tenant;
    this.timeoutMs = timeoutMs;
    this.patienceMs = patienceMs;
    this.fetch = fetch;
  }

  /**
   * Does the work unless it was done, or is being done, by anybody. Throws only for what the programmer got wrong; see
   * the type Result for everything else.
   */
  async withIdempotency(options, work = options.operation) {
    if (typeof work !== "function") throw new TypeError("the work is a function, the second argument or `operation`");
    const claim = await this.claim(options);
    if (!claim.acquired) return claim.result;
    let value;
    try {
      value = await work(claim);
    } catch (error) {
      return claim.fail(error);
    }
    return claim.succeed(value);
  }

  /** A Claim: acquired, or with the result that stands in its way. */
  async claim(options) {
    const { scope, key, inputs, fingerprint, onUnknown = "takeover", wait = "0s" } = options;
    if ((key === undefined) === (inputs === undefined)) throw new TypeError("exactly one of key and inputs is needed");
    refuseWhatJsonLoses({ inputs, fingerprint });
    await this.checkTenant(options);
    const lease = options.lease ?? "30s";
    const body = {
      scope, key, inputs, fingerprint, lease, on_unknown: onUnknown,
      ttl: options.ttl ?? (options.ttlHours === undefined ? "24h" : durationOf(options.ttlHours * UNITS.h)),
      takeover_after: options.takeoverAfter ??
        (options.staleTakeoverMinutes === undefined ? "5m" : durationOf(options.staleTakeoverMinutes * UNITS.m)),
      nonce: hex(webcrypto.getRandomValues(new Uint8Array(16))),
    };
    const until = Date.now() + milliseconds(wait);
    for (;;) {
      const left = Math.max(0, until - Date.now());
      let answer;
      try {
        answer = await this.ask("/v1/claims", { ...body, wait: durationOf(left) }, { waitsMs: left });
      } catch (error) {
        if (isMistake(error)) throw error;
        return new Claim(this, lease, null, { status: "unavailable", stopReason: "unavailable", cached: false, error });
      }
      const { status, json } = answer;
      if (status === 200 && json.status === "acquired") return new Claim(this, lease, json, null);
      const again = status === 200 && json.status === "in_progress" && Date.now() < until;
      if (!again) return new Claim(this, lease, null, resultOf(status, json));
      // The gateway waits for less than we do, or had too many who wait.
      await sleep(Math.min(until - Date.now(), json.retry_after * 1000, 100 + Math.random() * 900));
    }
  }

  /** How it stands, without claiming it; null if nobody did. */
  async lookup(options) {
    const { scope, key, inputs, wait = "0s" } = options;
    refuseWhatJsonLoses({ inputs });
    await this.checkTenant(options);
    try {
      const { status, json } = await this.ask("/v1/claims/lookup", { scope, key, inputs, wait }, { waitsMs: milliseconds(wait) });
      return status === 200 && json.status === "none" ? null : resultOf(status, json);
    } catch (error) {
      if (isMistake(error)) throw error;
      return { status: "unavailable", stopReason: "unavailable", cached: false, error };
    }
  }

  /** Throws rather than work in the name of another tenant than the one that was asked for. */
  async checkTenant({ tenant }) {
    if (tenant !== undefined && tenant !== this.tenant) {
      const made = this.tenant === undefined ? "no tenant by name" : JSON.stringify(this.tenant);
      throw new TypeError(`this client is for ${made}, not for ${JSON.stringify(tenant)}: use new Once({ url, token, tenant })`);
    }
    // A Unix socket without tokens takes any token, and everybody is "local" there.
    if (this.tenant === undefined || this.token === undefined || !this.url.startsWith("unix:")) return;
    if (socketsWithTokens.has(this.url)) return;
    let status;
    try {
      ({ status } = await this.askOnce("/v1/claims/lookup", "{}", this.timeoutMs, null));
    } catch {
      return; // It is away: what is asked next tells.
    }
    if (status === 401) socketsWithTokens.add(this.url);
    if (status === 400) throw new TypeError(`${this.url} has no tokens: everybody is "local", not ${JSON.stringify(this.tenant)}`);
  }

  /** Repeats what got no answer, or one that says to: every verb of the API may be repeated. */
  async ask(target, body, { waitsMs = 0, patienceMs = this.patienceMs, timeoutMs = this.timeoutMs } = {}) {
    const until = Date.now() + patienceMs;
    const text = JSON.stringify(body, refusePromises);
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      let failure;
      try {
        const answer = await this.askOnce(target, text, timeoutMs + waitsMs);
        if (!RETRIED_STATUSES.includes(answer.status)) {
          if (!REFUSALS.includes(answer.status)) return answer;
          failure = new OnceError(answer.status, answer.json.code ?? "", answer.json.detail ?? "");
        } else {
          failure = new Error(`the gateway answered ${answer.status} ${answer.json.code ?? ""}`);
        }
      } catch (error) {
        failure = distrust(error, this.url) ?? error;
      }
      if (failure instanceof OnceError || failure.notTrusted) throw failure;
      // Full jitter, so that those who failed together do not come back together.
      const wait = Math.random() * pause;
      if (Date.now() + wait >= until) throw failure;
      await sleep(wait);
    }
  }

  async askOnce(target, text, timeoutMs, token = this.token) {
    const headers = { "content-type": "application/json" };
    if (token != null) headers.authorization = `Bearer ${token}`;
    if (this.url.startsWith("unix:")) return askSocket(this.url.slice("unix:".length), target, text, headers, timeoutMs);
    const signal = AbortSignal.timeout(timeoutMs);
    const doFetch = this.fetch ?? globalThis.fetch;
    const response = await doFetch(this.url + target, { method: "POST", headers, body: text, signal });
    return { status: response.status, json: await response.json() };
  }
}

// URLs of Unix sockets that refused a request without a token.
const socketsWithTokens = new Set();

// fetch() throws a TypeError too, but with a cause.
function isMistake(error) {
  return error instanceof OnceError || (error instanceof TypeError && error.cause === undefined);
}

/** The right to do the work, or the result that stands in its way. While it is held its lease is renewed. */
export class Claim {
  constructor(once, lease, acquired, result) {
    this.once = once;
    this.lease = lease;
    this.acquired = acquired !== null;
    this.result = result;
    const taken = new AbortController();
    /** Aborted when another attempt took over: the work may stop. */
    this.lost = taken.signal;
    this.taken = taken;
    if (acquired === null) return;
    this.handle = acquired.claim;
    this.attempt = acquired.attempt;
    this.fence = acquired.fence;
    this.renewing = true;
    this.scheduleRenewal();
  }

  async succeed(value, { ttl } = {}) {
    // What JSON does not have is null. After what it cannot hold at all the claim is not failed: the work was done, and would
    // be done again at once.
    const refused = (error) => (this.result = {
      status: "unavailable", stopReason: "unavailable", reason: "value-refused", data: value, cached: false,
      attempt: this.attempt, error, claim: this,
    });
    try {
      JSON.stringify(value, refusePromises);
    } catch (error) {
      this.stopRenewing();
      return refused(error);
    }
    const json = await this.end("succeed", { value: value === undefined ? null : value, ttl });
    if (json === null) {
      const { error } = this.result;
      if (error instanceof OnceError && [400, 413].includes(error.status)) return refused(error);
      return (this.result = { ...this.result, data: value });
    }
    const stands = "value" in json && !("encoding" in json) ? json.value : value;
    return (this.result = { status: "succeeded", data: stands, cached: false, attempt: this.attempt });
  }

  async fail(error) {
    const reason = error instanceof Error ? error.name : String(error ?? "");
    const json = await this.end("fail", { reason: reason.slice(0, 100) });
    if (json === null && this.result.status === "lost") return this.result;
    return (this.result = { status: "failed", stopReason: "failed", cached: false, attempt: this.attempt, error });
  }

  /** As if never claimed: nothing was done. */
  async release() {
    const json = await this.end("release", {});
    if (json !== null) this.result = { status: "released", stopReason: "released", cached: false, attempt: this.attempt };
    return this.result;
  }

  async end(verb, body) {
    if (!this.acquired) throw new Error("this claim was not acquired");
    this.stopRenewing();
    const ended = { cached: false, attempt: this.attempt };
    try {
      const { status, json } = await this.once.ask(`/v1/claims/${this.handle}/${verb}`, body);
      if (status === 200) return json;
    } catch (error) {
      this.result = { status: "unavailable", stopReason: "unavailable", error, ...ended };
      return null;
    }
    this.taken.abort();
    this.result = { status: "lost", stopReason: "lost", ...ended };
    return null;
  }

  /** Of a result that has it: neither the handle, which is a secret, nor a circle. */
  toJSON() {
    return { acquired: this.acquired, attempt: this.attempt };
  }

  stopRenewing() {
    this.renewing = false;
    clearTimeout(this.timer);
  }

  // Every third of the lease, counted from when the last one was sent; one that gets no answer ends in half of that, and the
  // next follows soon: several may be lost before the lease is.
  scheduleRenewal(inMs = milliseconds(this.lease) / 3) {
    const interval = milliseconds(this.lease) / 3;
    this.timer = setTimeout(async () => {
      const began = Date.now();
      let next;
      try {
        const limits = { patienceMs: 0, timeoutMs: Math.ceil(Math.min(this.once.timeoutMs, interval / 2)) };
        const { status } = await this.once.ask(`/v1/claims/${this.handle}/renew`, { lease: this.lease }, limits);
        if (status === 409 && this.renewing) {
          this.taken.abort();
          return;
        }
      } catch (error) {
        // What was refused would be refused a moment later.
        if (!(error instanceof OnceError)) next = Math.min(1000, interval / 4) * (0.5 + Math.random() / 2);
      }
      next ??= Math.max(0, began + interval - Date.now());
      if (this.renewing) this.scheduleRenewal(next);
    }, inMs);
    this.timer.unref?.();
  }
}

/**
 * What fetchOnce() repeats; docs/client.md says why. Everything else is given to the caller as it is: 2xx, 3xx (never
 * followed: another URL is another operation), 422 and the other 4xx, 500, and whatever says `"retryable": false`. A 409 is
 * repeated if it says that an earlier try is at work, or that nobody knows yet and when to come back.
 */
export const RETRIED = Object.freeze({
  connectError: true,
  timeout: true,
  statuses: RETRIED_STATUSES,
  conflict: Object.freeze(["in-flight", "idempotency_key_in_use", "outcome-unknown"]),
});

/**
 * fetch() that may be called for what must happen once: it repeats a request that got no whole answer, with the same key and the
 * same bytes, until there is one or the deadline has come. Returns the last answer; throws if there was none. The key is told to
 * onAttempt and is the `key` of what is thrown: going on with it later is safe, a new one is not.
 *
 * The answer's body has been read when it returns, so that one that breaks off is repeated too. Streams of events are given as they
 * come (see the option `stream`): nothing is repeated once they have begun, and no time limit applies to them.
 */
export async function fetchOnce(url, init = {}, options = {}) {
  const { deadlineMs = 60_000, attemptTimeoutMs = 15_000, firstPauseMs = 200, longestPauseMs = 10_000 } = options;
  const keyHeader = options.keyHeader ?? "Idempotency-Key";
  const headers = new Headers(init.headers);
  if (!headers.has(keyHeader)) headers.set(keyHeader, options.key ?? webcrypto.randomUUID());
  const key = headers.get(keyHeader);
  const thrown = (error) => { throw withKey(error, key, init.signal); };
  const until = Date.now() + deadlineMs;
  const body = await bytesOf(init, headers, deadlineMs).catch(thrown);
  const request = { ...init, body, redirect: "manual", headers };
  for (let attempt = 1, pause = firstPauseMs; ; ++attempt, pause = Math.min(pause * 2, longestPauseMs)) {
    const limitMs = Math.max(1, Math.min(attemptTimeoutMs, until - Date.now()));
    const { response, bytes, error } = await attemptOnce(url, request, limitMs, options);
    const failure = error && (distrust(error, url) ?? withKey(error, key, init.signal));
    const asked = failure ? 0 : whenToRepeat(response, bytes);
    options.onAttempt?.({ attempt, key, status: response?.status, error: failure });
    if (!failure) warnIfUnprotected(url, response, options);
    if (!failure && asked === null) return response;
    if (failure?.notTrusted) thrown(failure);
    if (failure && init.signal?.aborted) throw failure;
    const wait = Math.max(asked, Math.random() * pause);
    if (Date.now() + wait >= until) {
      if (failure) throw failure;
      return response;
    }
    await sleep(wait, init.signal).catch(thrown);
  }
}

// Made into bytes once: a form would get another boundary on every try, and a stream can be read only once.
async function bytesOf(init, headers, limitMs) {
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

/** The response and the bytes of its body, unless that is a stream; or the error, and the response if its head came. */
async function attemptOnce(url, request, limitMs, options) {
  const limit = timeLimit(limitMs, request.signal);
  let response;
  try {
    response = await (options.fetch ?? globalThis.fetch)(url, { ...request, signal: limit.signal });
    const streams = options.stream ?? STREAMS.test(response.headers.get("Content-Type") ?? "");
    // A browser gives nothing of a redirect but that it is one.
    if ((streams && response.ok) || response.status < 200) {
      limit.clearTimer();
      return { response };
    }
    const bytes = await response.arrayBuffer();
    limit.clear();
    return { response: withBody(response, bytes), bytes };
  } catch (error) {
    limit.clear();
    return { response, error };
  }
}

const STREAMS = /^(text\/event-stream|application\/(x-ndjson|jsonl))\b/i;

function withBody({ status, statusText, headers, url, redirected }, bytes) {
  const made = new Response([204, 205, 304].includes(status) ? null : bytes, { status, statusText, headers });
  return Object.defineProperties(made, { url: { value: url }, redirected: { value: redirected } });
}

const warned = new Set(); // origins

/** Refusals and errors may come from something in front of the gateway, and say nothing about it. */
function warnIfUnprotected(url, response, options) {
  const said = response.headers.get("Idempotency-Status");
  if (said !== "bypassed" && (said !== null || response.status >= 400 || response.status < 200)) return;
  const { origin } = new URL(response.url || url, globalThis.location?.href);
  if (warned.has(origin)) return;
  warned.add(origin);
  const what = said === null ? "has no Idempotency-Status" : "says Idempotency-Status: bypassed";
  (options.warn ?? console.warn)(`fetchOnce: the answer of ${origin} ${what}: nothing there keeps a retry from being executed ` +
    "twice. Send the request through Once, on a route that covers its method; from a page of another origin, let CORS expose the header.");
}

/** An error for a certificate that was not accepted: nothing was sent, and the next try would be the same. */
function distrust(error, url) {
  const code = error?.cause?.code ?? error?.code ?? "";
  if (!/^(CERT_|ERR_TLS_CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_(GET_ISSUER|VERIFY))/.test(code)) return undefined;
  const { origin } = new URL(url, globalThis.location?.href);
  return Object.assign(new Error(`the certificate of ${origin} is not trusted (${code}): nothing was sent. ` +
    "Name the file of its authority in NODE_EXTRA_CA_CERTS before Node starts, or give a fetch of your own", { cause: error }),
  { notTrusted: true, code });
}

/** The error with its key; a new one for a signal's reason, which others may be given too. */
function withKey(error, key, signal) {
  if (error instanceof Error && Object.isExtensible(error) && !signal?.aborted) return Object.assign(error, { key });
  const own = new Error(error?.message ?? String(error), { cause: error });
  return Object.assign(own, { name: error?.name ?? "AbortError", key });
}

function unlessAborted(promise, signal) {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    promise.then(resolve, reject);
  });
}

/** Milliseconds to wait at least, or null: this is the answer. */
function whenToRepeat(response, bytes) {
  if (response.status !== 409 && !RETRIED_STATUSES.includes(response.status)) return null;
  const given = response.headers.get("Retry-After");
  const { code, retryable } = problemOf(response, bytes);
  if (retryable === false) return null;
  if (response.status === 409) {
    const said = response.headers.get("Idempotency-Status") ?? "";
    const unknown = said === "unknown" || code === "outcome-unknown";
    if (!RETRIED.conflict.includes(code) && !RETRIED.conflict.includes(said) && !unknown) return null;
    if (unknown && given === null) return null;
  }
  if (given === null) return 0;
  const seconds = /^\d+$/.test(given) ? Number(given) : (Date.parse(given) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds * 1000) : 0;
}

/** Of a problem document, or of the error object of some dialects. */
function problemOf(response, bytes) {
  if (!/\bjson\b/.test(response.headers.get("Content-Type") ?? "")) return {};
  try {
    const json = JSON.parse(new TextDecoder().decode(bytes));
    return { code: json?.code ?? json?.error?.code, retryable: json?.retryable };
  } catch {
    return {};
  }
}

function resultOf(status, json) {
  const result = { status: json.status, cached: true, attempt: json.attempt };
  if (status === 200 && json.status === "succeeded") return { ...result, data: json.value };
  if (status === 200) return { ...result, stopReason: json.status, cached: false, retryAfter: json.retry_after };
  if (status === 422) return { status: "mismatch", stopReason: "mismatch", cached: false };
  const error = new OnceError(status, json.code ?? "", json.detail ?? "");
  // It succeeded, and nobody has the value any more.
  if (json.code === "response-not-kept") return { status: "succeeded", cached: true, error };
  return { status: "unavailable", stopReason: "unavailable", cached: false, error };
}

async function askSocket(socketPath, path, text, headers, timeout) {
  const { request } = await import("node:http");
  return new Promise((resolve, reject) => {
    const length = Buffer.byteLength(text);
    const sent = request({ socketPath, path, method: "POST", headers: { ...headers, "content-length": length }, timeout, agent: false });
    sent.on("timeout", () => sent.destroy(new Error(`no answer in ${timeout} ms`)));
    sent.on("error", reject);
    sent.on("response", (response) => {
      const parts = [];
      response.on("data", (part) => parts.push(part));
      response.on("error", reject);
      response.on("end", () => {
        try {
          resolve({ status: response.statusCode, json: JSON.parse(Buffer.concat(parts).toString()) });
        } catch (error) {
          reject(error);
        }
      });
    });
    sent.end(text);
  });
}

function fromEnvironment(tenant) {
  const env = globalThis.process?.env ?? {};
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

/** A signal that is aborted after so long, or with another one. */
function timeLimit(ms, signal) {
  const both = new AbortController();
  const stop = () => both.abort(signal.reason);
  const timer = setTimeout(() => both.abort(new DOMException(`no whole answer in ${ms} ms`, "TimeoutError")), ms);
  const clearTimer = () => clearTimeout(timer);
  if (signal?.aborted) stop();
  signal?.addEventListener("abort", stop, { once: true });
  return { signal: both.signal, clearTimer, clear: () => { clearTimer(); signal?.removeEventListener("abort", stop); } };
}

function sleep(ms, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) reject(signal.reason);
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    }, { once: true });
  });
}

// A promise is {} in JSON: two inputs that differ would be the same work.
function refusePromises(name, value) {
  if (typeof value?.then === "function") throw new TypeError(`${name} is a promise: await it first`);
  return value;
}

// Two inputs that differ must not be the same work: what JSON drops or makes null or {} is refused.
function refuseWhatJsonLoses(values) {
  JSON.stringify(values, function (name, value) {
    const given = this[name]; // before its toJSON()
    const refuse = (what) => { throw new TypeError(`${name} is ${what}: JSON does not hold it`); };
    if (typeof value === "number" && !Number.isFinite(value)) refuse(String(value));
    if (typeof value === "function" || typeof value === "symbol") refuse(`a ${typeof value}`);
    if (Object.prototype.toString.call(given) === "[object Date]" && value === null) refuse("no date");
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    refusePromises(name, value);
    // By the shape of the prototype: a plain object may come from another realm.
    const prototype = Object.getPrototypeOf(value);
    const plain = prototype === null || Object.getPrototypeOf(prototype) === null;
    if (!plain && typeof value.toJSON !== "function") refuse(`a ${prototype.constructor?.name || "class"}`);
    return value;
  });
}

function milliseconds(duration) {
  const match = /^(\d+)(ms|s|m|h|d)$/.exec(duration);
  if (!match) throw new TypeError(`a duration is a text such as "30s", not ${JSON.stringify(duration)}`);
  return Number(match[1]) * UNITS[match[2]];
}

function durationOf(ms) {
  return `${Math.round(ms)}ms`;
}

function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
