// fetchOnce() and the client of the claims API, from the installed package: against a real gateway (client_test.py starts it), and
// against a server that answers by a script for what a gateway cannot be made to do.
import assert from "node:assert/strict";
import { closeSync, openSync, readFileSync, writeSync } from "node:fs";
import { createServer } from "node:http";
import { test } from "node:test";
import { runInNewContext } from "node:vm";

import { Once, OnceError, RETRIED_STATUSES, RemoteClaim, fetchOnce, hashText, hashUserText, withIdempotency } from "once";

const once = new Once({ url: process.env.ONCE_CLAIMS_URL, token: process.env.ONCE_CLAIMS_TOKEN_LAUNCHBASE });
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const realSetTimeout = setTimeout;
const sleep = (ms) => new Promise((resolve) => realSetTimeout(resolve, ms));
const never = () => assert.fail("this work may not run");

async function until(predicate) {
  for (const end = Date.now() + 60_000; Date.now() < end; await sleep(50)) {
    const value = await predicate();
    if (value) return value;
  }
  assert.fail("waited in vain");
}

/** Moves on the gateway's clock. */
function moveOn(ms) {
  const skew = Buffer.from(readFileSync(process.env.ONCE_CLOCK));
  skew.writeBigInt64LE(skew.readBigInt64LE() + BigInt(ms));
  const file = openSync(process.env.ONCE_CLOCK, "r+");
  writeSync(file, skew, 0, skew.length, 0);
  closeSync(file);
}

/** What the promise gives, with time and timers that pass only here, by the millisecond. */
async function virtually(t, work) {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  let ended = false;
  const end = () => { ended = true; };
  const promise = work();
  promise.then(end, end);
  for (let ms = 0; !ended && ms < 60_000; ++ms) {
    await new Promise((resolve) => setImmediate(resolve));
    t.mock.timers.tick(1);
  }
  t.mock.timers.reset();
  assert.ok(ended, "a minute was not enough");
  return promise;
}

/** Answers by the script, one step a request, and keeps what came. */
async function scripted(steps) {
  const requests = [];
  const open = []; // responses that have no end yet
  const server = createServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => {
      const { "idempotency-key": key, "content-type": type } = request.headers;
      requests.push({ key, type, headers: request.headers, target: request.url, body: Buffer.concat(parts).toString(), at: Date.now() });
      const step = steps[Math.min(requests.length, steps.length) - 1];
      if (step === "hang up") return request.socket.destroy();
      if (step === "say nothing") return undefined;
      if (step === "break off" || step === "half of it") {
        response.writeHead(200, { "Content-Length": 10 });
        return response.write("half", () => step === "break off" && request.socket.destroy());
      }
      const { status, headers = {}, body = "", afterMs = 0 } = step;
      if (step.open) {
        open.push(response);
        return response.writeHead(status, headers).write(body);
      }
      return setTimeout(() => { response.writeHead(status, headers); response.end(body); }, afterMs);
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    requests,
    open,
    url: `http://127.0.0.1:${server.address().port}/`,
    close: () => { server.closeAllConnections(); server.close(); },
  };
}

test("the usage example of the specification", async () => {
  let runs = 0;
  const userText = "Make it  shorter\n";
  const call = () => withIdempotency({
    tenant: "launchbase",
    scope: "actionRequests.aiProposeCopy",
    inputs: { intakeId: 123, actionRequestId: 456, userTextHash: hashUserText(userText), targetSection: "hero" },
    ttlHours: 24,
    staleTakeoverMinutes: 5,
    operation: async () => ({ ok: true, createdActionRequestIds: [++runs] }),
  });
  const [first, second] = [await call(), await call()];
  assert.deepEqual([first.status, first.data, first.cached], ["succeeded", { ok: true, createdActionRequestIds: [1] }, false]);
  assert.deepEqual([second.status, second.data, second.cached], ["succeeded", first.data, true]);
  assert.equal(runs, 1);
});

test("a hundred callers, one run", async () => {
  let runs = 0;
  const call = () => once.withIdempotency({ scope: "hundred", inputs: { a: 1 }, wait: "30s" }, async () => {
    ++runs;
    await sleep(300);
    return "value";
  });
  const results = await Promise.all(Array.from({ length: 100 }, call));
  assert.equal(runs, 1);
  assert.deepEqual(new Set(results.map((result) => result.data)), new Set(["value"]));
  assert.equal(results.filter((result) => result.cached).length, 99);
});

test("work that throws has failed, and a retry runs", async () => {
  const error = new RangeError("no");
  const failed = await once.withIdempotency({ scope: "throws", key: "k" }, () => { throw error; });
  assert.deepEqual([failed.status, failed.stopReason, failed.error], ["failed", "failed", error]);
  const again = await once.withIdempotency({ scope: "throws", key: "k" }, () => 7);
  assert.deepEqual([again.status, again.data, again.attempt], ["succeeded", 7, 2]);
});

test("in progress, mismatch and no gateway are results", async () => {
  const holder = await once.claim({ scope: "busy", key: "k", fingerprint: 1 });
  assert.ok(holder.acquired);
  const busy = await once.withIdempotency({ scope: "busy", key: "k", fingerprint: 1 }, never);
  assert.deepEqual([busy.status, busy.stopReason], ["in_progress", "in_progress"]);
  assert.ok(busy.retryAfter >= 1);
  assert.equal((await once.withIdempotency({ scope: "busy", key: "k", fingerprint: 2 }, never)).status, "mismatch");
  await holder.release();
  assert.equal(await once.lookup({ scope: "busy", key: "k" }), null);
  const away = new Once({ url: "http://127.0.0.1:9", patienceMs: 200 });
  assert.equal((await away.withIdempotency({ scope: "busy", key: "k" }, never)).status, "unavailable");
  const nowhere = new Once({ url: "unix:/nowhere.sock", patienceMs: 200 });
  assert.equal((await nowhere.withIdempotency({ scope: "busy", key: "k" }, never)).status, "unavailable");
});

test("an owner that renews keeps its claim past lease and threshold", async (t) => {
  const renewals = async () => {
    const page = await (await fetch(process.env.ONCE_METRICS)).text();
    return Number(/^once_claims_requests_total\{verb="renew",result="done"\} (\d+)$/m.exec(page)[1]);
  };
  const options = { scope: "renews", key: "k", lease: "1m", takeoverAfter: "1m" };
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const slow = await once.claim(options);
  for (let number = 0; number < 5; ++number) {
    const before = await renewals();
    moveOn(30_000);
    await until(async () => { t.mock.timers.tick(21_000); return (await renewals()) > before; });
    assert.equal((await once.withIdempotency(options, never)).status, "in_progress");
  }
  assert.equal((await slow.succeed("slow")).data, "slow");
});

test("a renewal that gets no answer does not cost the lease", (t) => virtually(t, async () => {
  const sent = [];
  const gateway = {
    timeoutMs: 10_000,
    ask: async (target, body, { patienceMs, timeoutMs }) => {
      assert.deepEqual([target, body, patienceMs], ["/v1/claims/c/renew", { lease: "3s" }, 0]);
      sent.push(Date.now());
      const lost = sent.length === 2;
      await new Promise((resolve) => setTimeout(resolve, lost ? timeoutMs : 400));
      if (lost) throw new Error("no answer");
      return { status: sent.length === 5 ? 409 : 200 };
    },
  };
  const began = Date.now();
  const claim = new RemoteClaim(gateway, "3s", { claim: "c", attempt: 1, fence: 1 }, null);
  await new Promise((resolve) => claim.lost.addEventListener("abort", resolve));
  const gaps = sent.map((at, index) => at - (index > 0 ? sent[index - 1] : began));
  // From start to start, a second; after what got no answer in half a second, soon.
  assert.ok(gaps[2] >= 625 && gaps[2] <= 755, String(gaps));
  for (const gap of [gaps[0], gaps[1], gaps[3], gaps[4]]) assert.ok(Math.abs(gap - 1000) <= 5, String(gaps));
}));

test("a value that cannot be recorded is said, and the claim is not failed", async () => {
  const circle = {};
  circle.circle = circle;
  for (const [key, value] of Object.entries({ long: "x".repeat(100_000), longer: "x".repeat(3_000_000), circle, big: 1n })) {
    const result = await once.withIdempotency({ scope: "refused", key }, () => value);
    assert.deepEqual([result.status, result.stopReason, result.reason], ["unavailable", "unavailable", "value-refused"], key);
    assert.equal(result.data, value);
    assert.ok(result.error instanceof (typeof value === "string" ? OnceError : TypeError));
    assert.equal(result.claim.renewing, false);
    assert.doesNotMatch(JSON.stringify({ ...result, data: null }), new RegExp(result.claim.handle));
    assert.equal((await once.lookup({ scope: "refused", key })).status, "in_progress");
    assert.equal((await result.claim.succeed("where it is")).status, "succeeded");
    assert.equal((await once.lookup({ scope: "refused", key })).data, "where it is");
  }
});

test("progress is followed until the value is there", async () => {
  const work = { scope: "followed", key: "k" };
  const claim = await once.claim({ ...work, lease: "1m" });
  assert.deepEqual(await Promise.all([claim.progress({ percent: 10 }), claim.progress("half"), claim.progress(null)]), [true, true, true]);
  const following = once.follow(work);
  const seen = [];
  for await (const { attempt, number, data } of following) {
    seen.push([attempt, number, data]);
    if (number === 2) await claim.progress("more");
    if (number === 3) await claim.succeed("imported");
  }
  assert.deepEqual(seen, [[1, 0, { percent: 10 }], [1, 1, "half"], [1, 2, null], [1, 3, "more"]]);
  assert.deepEqual([following.result.status, following.result.data, following.result.cached], ["succeeded", "imported", true]);
  assert.equal(await claim.progress("late"), false);
});

test("work goes on without progress that is not recorded", async () => {
  const work = { scope: "unfollowed", key: "k" };
  const claim = await once.claim({ ...work, lease: "1m" });
  assert.equal(await claim.progress("x".repeat(70_000)), false, "claims.max_body");
  await assert.rejects(claim.progress(new Map()), TypeError);
  const { ask } = once;
  once.ask = async (...args) => { await ask.apply(once, args); throw new Error("cut off"); };
  assert.equal(await claim.progress("a"), false);
  delete once.ask;
  assert.equal(await claim.progress("b"), true);
  const pieces = [];
  const following = once.follow({ ...work, wait: "0s" });
  for await (const { data } of following) pieces.push(data);
  assert.deepEqual([pieces, following.result.status], [["a", "b"], "in_progress"], "each once, in order");
  await claim.release();
  const nothing = once.follow(work);
  for await (const piece of nothing) assert.fail(piece);
  assert.equal(nothing.result, null);
  assert.throws(() => once.follow({ scope: "s" }), TypeError);
  const away = new Once({ url: "http://127.0.0.1:9", patienceMs: 0 }).follow(work);
  for await (const piece of away) assert.fail(piece);
  assert.equal(away.result.status, "unavailable");
});

test("a follower begins again with the next attempt", async () => {
  const work = { scope: "refollowed", key: "k" };
  const stale = await once.claim({ ...work, lease: "1m", onUnknown: "retry" });
  await stale.progress("first");
  const following = once.follow(work)[Symbol.asyncIterator]();
  assert.equal((await following.next()).value.data, "first");
  moveOn(61_000);
  const fresh = await once.claim({ ...work, lease: "1m", onUnknown: "retry" });
  assert.equal(await stale.progress("late"), false);
  assert.equal(stale.lost.aborted, true);
  assert.equal((await stale.succeed("stale")).status, "lost");
  await fresh.progress("second");
  assert.deepEqual((await following.next()).value, { data: "second", number: 0, attempt: 2 });
  await fresh.release();
  await following.return();
});

test("tenants are apart, and mistakes throw", async () => {
  const call = (tenant) => withIdempotency({ tenant, scope: "tenants", key: "k", operation: () => tenant });
  assert.equal((await call("launchbase")).data, "launchbase");
  assert.equal((await call("umbrella")).data, "umbrella");
  const wrong = new Once({ url: process.env.ONCE_CLAIMS_URL, token: "wrong" });
  await assert.rejects(wrong.withIdempotency({ scope: "tenants", key: "k" }, never), OnceError);
  await assert.rejects(once.withIdempotency({ scope: "tenants" }, never), TypeError);
  await assert.rejects(once.withIdempotency({ scope: "tenants", inputs: { hash: Promise.resolve(1) } }, never), /promise/);
});

test("a tenant that is named is the one that is used, or it throws", async () => {
  const { ONCE_CLAIMS_URL: url, ONCE_CLAIMS_TOKEN_LAUNCHBASE: token, ONCE_CLAIMS_TOKEN_UMBRELLA: other } = process.env;
  const call = (tenant) => withIdempotency({ tenant, scope: "whose", key: "k", operation: () => "done" });
  process.env.ONCE_CLAIMS_TOKEN = token;
  process.env.ONCE_CLAIMS_TOKEN_A_B = other;
  try {
    assert.equal((await call(undefined)).status, "succeeded");
    assert.equal((await call("a-b")).cached, false, "a token of its own");
    await assert.rejects(call("nobody"), { name: "TypeError", message: /ONCE_CLAIMS_TOKEN_NOBODY/ });
    await assert.rejects(call("local"), TypeError);
    for (const name of ["a_b", "a.b", "A-B", "a b", "", null]) {
      await assert.rejects(call(name), { name: "TypeError", message: /variable of its own/ }, String(name));
    }
    process.env.ONCE_CLAIMS_URL = process.env.ONCE_SOCKET;
    assert.equal((await call("local")).cached, false);
    await assert.rejects(call("nobody"), TypeError);
    await assert.rejects(call("umbrella"), { name: "TypeError", message: /has no tokens/ });
    process.env.ONCE_CLAIMS_URL = process.env.ONCE_SOCKET_WITH_TOKENS;
    assert.deepEqual([(await call("umbrella")).cached, (await call("launchbase")).cached], [false, false]);
  } finally {
    process.env.ONCE_CLAIMS_URL = url;
    delete process.env.ONCE_CLAIMS_TOKEN;
    delete process.env.ONCE_CLAIMS_TOKEN_A_B;
  }
  const options = { scope: "whose", key: "k", tenant: "umbrella" };
  const umbrella = new Once({ url, token: other, tenant: "umbrella" });
  assert.equal((await umbrella.withIdempotency(options, never)).cached, true);
  for (const another of [once, new Once({ url, token, tenant: "launchbase" }), new Once({ url: process.env.ONCE_SOCKET })]) {
    await assert.rejects(another.withIdempotency(options, never), { name: "TypeError", message: /not for "umbrella"/ });
    await assert.rejects(another.claim(options), TypeError);
    await assert.rejects(another.lookup(options), TypeError);
  }
  assert.throws(() => new Once({ url, tenant: "umbrella" }), TypeError);
  assert.throws(() => new Once({ url: process.env.ONCE_SOCKET, tenant: "umbrella" }), TypeError);
});

test("inputs that JSON would make alike are refused", async () => {
  class Point { constructor() { this.x = 1; } }
  const objects = [new Map([[1, 2]]), new Set(), /x/, new Point(), new Date(NaN), new Error("e")];
  for (const value of [NaN, Infinity, () => 1, Symbol("s"), ...objects]) {
    for (const member of [{ inputs: { deep: [value] } }, { key: "k", fingerprint: value }]) {
      await assert.rejects(once.withIdempotency({ scope: "lossy", ...member }, never), TypeError, String(value));
    }
    await assert.rejects(once.lookup({ scope: "lossy", inputs: [value] }), TypeError);
  }
  class Money { toJSON() { return { cents: 7 }; } }
  const bare = Object.assign(Object.create(null), { a: 1 });
  class Lossy { toJSON() { return new Map(); } }
  await assert.rejects(once.claim({ scope: "lossy", inputs: new Lossy() }), TypeError);
  const inputs = { at: new Date(0), money: new Money(), elsewhere: runInNewContext("({ a: [1] })"), bare, none: undefined };
  assert.equal((await once.withIdempotency({ scope: "lossy", inputs }, () => 1)).status, "succeeded");
});

test("inputs and hashes are the same in every language", async () => {
  const { texts, inputs } = JSON.parse(readFileSync(process.env.ONCE_LANGUAGES, "utf8"));
  for (const { text, hash } of texts) assert.equal(hashText(text), hash, JSON.stringify(text));
  assert.equal((await once.lookup({ scope: "languages", inputs }))?.data, "from Python");
});

test("fetchOnce repeats with one key what may be repeated, and honours Retry-After", async () => {
  for (const status of RETRIED_STATUSES) {
    const headers = status === 503 ? { "Retry-After": "1" } : {};
    const server = await scripted([{ status, headers }, { status: 201, body: "made" }]);
    const response = await fetchOnce(server.url, { method: "POST", body: "x" }, { firstPauseMs: 1 });
    assert.equal(response.status, 201, `after ${status}`);
    assert.equal(await response.text(), "made");
    const [first, second, ...more] = server.requests;
    assert.equal(more.length, 0);
    assert.match(first.key, UUID);
    assert.deepEqual([second.key, second.body], [first.key, "x"]);
    if (status === 503) assert.ok(second.at - first.at >= 990, "Retry-After");
    server.close();
  }
});

test("fetchOnce repeats what got no answer", async () => {
  const server = await scripted(["hang up", "say nothing", { status: 200 }]);
  const seen = [];
  const options = { key: "mine", attemptTimeoutMs: 300, firstPauseMs: 1, onAttempt: (attempt) => seen.push(attempt) };
  assert.equal((await fetchOnce(server.url, { method: "POST" }, options)).status, 200);
  server.close();
  // On a machine that pauses, more of them than two get no answer in time.
  assert.ok(server.requests.length >= 3);
  assert.deepEqual(new Set(server.requests.map((request) => request.key)), new Set(["mine"]));
  assert.deepEqual(seen.map(({ attempt }) => attempt), seen.map((_, index) => index + 1));
  assert.deepEqual(seen.map(({ status }) => status), [...seen.slice(1).map(() => undefined), 200]);
  assert.deepEqual(new Set(seen.map(({ key }) => key)), new Set(["mine"]));
});

test("fetchOnce repeats an answer whose body breaks off or does not end in time", async () => {
  const server = await scripted(["break off", "half of it", { status: 201, headers: { "X-A": "b" }, body: "whole" }]);
  const seen = [];
  const options = { attemptTimeoutMs: 300, firstPauseMs: 1, onAttempt: (attempt) => seen.push(attempt) };
  const response = await fetchOnce(server.url, { method: "POST" }, options);
  assert.deepEqual([response.status, response.headers.get("X-A"), response.url], [201, "b", server.url]);
  assert.equal(await response.text(), "whole");
  assert.equal(new Set(server.requests.map((request) => request.key)).size, 1);
  assert.ok(seen.length >= 3);
  for (const { error } of seen.slice(0, -1)) assert.equal(error.key, server.requests[0].key);
  server.close();
});

test("the deadline covers bodies, the answer's and the request's", async () => {
  const server = await scripted(["half of it"]);
  const limits = { key: "k", deadlineMs: 300, attemptTimeoutMs: 60_000 };
  await assert.rejects(fetchOnce(server.url, { method: "POST" }, limits), { name: "TimeoutError", key: "k" });
  const endless = new ReadableStream();
  await assert.rejects(fetchOnce(server.url, { method: "POST", body: endless }, limits), { name: "TimeoutError", key: "k" });
  assert.ok(server.requests.length <= 1);
  server.close();
});

test("a stream of events is given as it comes, and no time limit ends it", async (t) => {
  for (const [type, options] of [["text/event-stream; charset=utf-8", {}], ["text/plain", { stream: true }]]) {
    const server = await scripted([{ status: 200, headers: { "Content-Type": type }, body: "data: 1\n\n", open: true }]);
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const response = await fetchOnce(server.url, { method: "POST" }, options);
    const reader = response.body.getReader();
    assert.equal(Buffer.from((await reader.read()).value).toString(), "data: 1\n\n");
    t.mock.timers.tick(3_600_000); // longer than any limit
    t.mock.timers.reset();
    server.open[0].end("data: 2\n\n");
    assert.equal(Buffer.from((await reader.read()).value).toString(), "data: 2\n\n");
    assert.equal((await reader.read()).done, true);
    server.close();
  }
});

test("fetchOnce sends the key under the name it is told", async () => {
  const server = await scripted([{ status: 503 }, { status: 200 }]);
  await fetchOnce(server.url, { method: "POST" }, { keyHeader: "X-Request-Token", key: "mine", firstPauseMs: 1 });
  assert.deepEqual(server.requests.map(({ key, headers }) => [key, headers["x-request-token"]]), Array(2).fill([undefined, "mine"]));
  server.close();
});

test("fetchOnce warns once per origin of answers that do not say that the key counts", async () => {
  const warnings = [];
  const warn = (message) => warnings.push(message);
  for (const headers of [{}, { "Idempotency-Status": "bypassed" }]) {
    const server = await scripted([{ status: 200, headers }]);
    for (let i = 0; i < 2; ++i) await fetchOnce(server.url, { method: "POST" }, { warn });
    assert.equal(warnings.length, 1);
    assert.match(warnings[0], /Idempotency-Status/);
    assert.ok(warnings.pop().includes(new URL(server.url).origin));
    server.close();
  }
  const refusing = await scripted([{ status: 404 }]);
  await fetchOnce(refusing.url, { method: "POST" }, { warn });
  refusing.close();
  await fetchOnce(`${process.env.ONCE_URL}/quiet`, { method: "POST" }, { warn });
  assert.deepEqual(warnings, []);
});

test("over https, with the authority in NODE_EXTRA_CA_CERTS", async () => {
  const response = await fetchOnce(`${process.env.ONCE_HTTPS_URL}/secure`, { method: "POST" }, { warn: never });
  assert.equal(response.headers.get("Idempotency-Status"), "executed");
  const secure = new Once({ url: process.env.ONCE_CLAIMS_HTTPS_URL, token: process.env.ONCE_CLAIMS_TOKEN_LAUNCHBASE });
  assert.equal((await secure.withIdempotency({ scope: "https", key: "k" }, () => 1)).data, 1);
  assert.equal((await once.lookup({ scope: "https", key: "k" })).data, 1);

  const url = process.env.ONCE_UNTRUSTED_URL;
  const attempts = [];
  const options = { key: "k", onAttempt: (attempt) => attempts.push(attempt) };
  await assert.rejects(fetchOnce(url, { method: "POST" }, options), { key: "k", notTrusted: true, message: /NODE_EXTRA_CA_CERTS/ });
  assert.equal(attempts.length, 1);
  const refused = await new Once({ url, token: "x".repeat(20) }).withIdempotency({ scope: "https", key: "k" }, never);
  assert.deepEqual([refused.status, refused.error.notTrusted], ["unavailable", true]);
  const own = { url: "https://anywhere", token: "x", fetch: async () => Response.json({ status: "none" }) };
  assert.equal(await new Once(own).lookup({ scope: "https", key: "k" }), null);
});

test("fetchOnce sends the same bytes on every try", async () => {
  const form = new FormData();
  form.set("file", new Blob(["content"], { type: "text/csv" }), "a.csv");
  const stream = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode("pie"));
      controller.enqueue(new TextEncoder().encode("ces"));
      controller.close();
    },
  });
  for (const [body, type, sent] of [
    [form, /^multipart\/form-data; boundary=/, /content/], [stream, undefined, /^pieces$/],
    [new URLSearchParams({ a: "b" }), /urlencoded/, /^a=b$/], ["text", /^text\/plain/, /^text$/],
    [new Blob(["{}"], { type: "application/json" }), /^application\/json$/, /^\{\}$/],
  ]) {
    const server = await scripted([{ status: 503 }, "hang up", { status: 200 }]);
    assert.equal((await fetchOnce(server.url, { method: "POST", body }, { firstPauseMs: 1 })).status, 200);
    const [first, ...again] = server.requests;
    assert.match(first.body, sent);
    if (type) assert.match(first.type, type); else assert.equal(first.type, undefined);
    assert.deepEqual(again.map((request) => [request.body, request.type]), [[first.body, first.type], [first.body, first.type]]);
    server.close();
  }
  const server = await scripted([{ status: 200 }]);
  await fetchOnce(server.url, { method: "POST", body: "{}", headers: { "Content-Type": "application/json" } });
  assert.equal(server.requests[0].type, "application/json");
  server.close();
});

test("fetchOnce tells the key with whatever it throws", async () => {
  const options = { deadlineMs: 100, firstPauseMs: 1 };
  const lost = await fetchOnce("http://127.0.0.1:9/", { method: "POST" }, options).catch((error) => error);
  assert.match(lost.key, UUID);
  const frozen = () => { throw Object.freeze(new RangeError("no")); };
  await assert.rejects(fetchOnce("http://x/", {}, { ...options, key: "mine", fetch: frozen }), { key: "mine", name: "RangeError" });
  const silent = await scripted(["say nothing"]);
  for (const reason of [undefined, "stop", new RangeError("enough")]) {
    const given_up = new AbortController();
    setTimeout(() => given_up.abort(reason), 100);
    // Two that share a signal have a key each.
    const errors = await Promise.all(["one", "two"].map((key) =>
      fetchOnce(silent.url, { method: "POST", signal: given_up.signal }, { key }).catch((error) => error)));
    assert.deepEqual(errors.map((error) => error.key), ["one", "two"]);
    assert.deepEqual(errors.map((error) => error.cause), [given_up.signal.reason, given_up.signal.reason]);
  }
  const stuck = new AbortController();
  setTimeout(() => stuck.abort(), 100);
  const sent = fetchOnce(silent.url, { method: "POST", body: new ReadableStream(), signal: stuck.signal }, { key: "k" });
  await assert.rejects(sent, { name: "AbortError", key: "k" });
  silent.close();
});

test("fetchOnce never follows, whatever it is told", async () => {
  const server = await scripted([{ status: 307, headers: { Location: "/elsewhere" } }]);
  for (const redirect of ["follow", "error"]) {
    assert.equal((await fetchOnce(server.url, { method: "POST", body: "x", redirect })).status, 307);
  }
  assert.deepEqual(server.requests.map((request) => request.target), ["/", "/"]);
  server.close();
});

test("fetchOnce gives every other answer as it is", async () => {
  const problem = (status, json, headers = {}) =>
    ({ status, headers: { "Content-Type": "application/problem+json", ...headers }, body: JSON.stringify(json) });
  for (const step of [
    { status: 200 }, { status: 302, headers: { Location: "/elsewhere" } }, { status: 400 }, { status: 404 }, { status: 409 },
    { status: 422 }, { status: 500 }, problem(409, { code: "outcome-unknown" }), problem(409, { code: "response-not-kept" }),
    problem(409, { code: "in-flight", retryable: false }), problem(504, { code: "gateway-timeout", retryable: false }),
    { status: 409, headers: { "Idempotency-Status": "unknown" } },
  ]) {
    const server = await scripted([step]);
    assert.equal((await fetchOnce(server.url, { method: "POST" })).status, step.status);
    assert.equal(server.requests.length, 1, `${step.status} is an answer`);
    server.close();
  }
});

test("fetchOnce comes back after a 409 that time settles", async () => {
  const json = { "Content-Type": "application/json" };
  for (const step of [
    { status: 409, headers: { "Idempotency-Status": "in-flight" } },
    { status: 409, headers: json, body: '{"code":"in-flight"}' },
    { status: 409, headers: json, body: '{"error":{"code":"idempotency_key_in_use"}}' },
    { status: 409, headers: { ...json, "Retry-After": "0" }, body: '{"code":"outcome-unknown","retryable":true}' },
  ]) {
    const server = await scripted([step, { status: 201 }]);
    assert.equal((await fetchOnce(server.url, { method: "POST" }, { firstPauseMs: 1 })).status, 201, JSON.stringify(step));
    server.close();
  }
});

test("fetchOnce gives up at the deadline, with the last answer or the last error", async (t) => {
  const asked = [];
  const by = (answer) => ({ deadlineMs: 500, firstPauseMs: 50, fetch: async () => { asked.push(Date.now()); return answer(); } });
  const busy = by(() => new Response(null, { status: 503 }));
  assert.equal((await virtually(t, () => fetchOnce("http://busy/", { method: "POST" }, busy))).status, 503);
  const away = by(() => { throw new TypeError("fetch failed"); });
  const end = asked.length;
  await assert.rejects(virtually(t, () => fetchOnce("http://away/", { method: "POST" }, away)), TypeError);
  for (const times of [asked.slice(0, end), asked.slice(end)]) {
    assert.ok(times.length > 1 && times.at(-1) - times[0] < 500, String(times));
  }
  const later = await scripted([{ status: 503, headers: { "Retry-After": "3600" } }]);
  const patient = { deadlineMs: 60_000, firstPauseMs: 50 };
  assert.equal((await fetchOnce(later.url, { method: "POST" }, patient)).status, 503, "no use in waiting for that");
  assert.equal(later.requests.length, 1);
  later.close();
  const given_up = new AbortController();
  setTimeout(() => given_up.abort(), 100);
  await assert.rejects(fetchOnce("http://127.0.0.1:9/", { method: "POST", signal: given_up.signal }), { name: "AbortError" });
});

test("fetchOnce through the gateway: in flight, then the same answer", async () => {
  const call = () => fetchOnce(`${process.env.ONCE_URL}/slow`, { method: "POST", body: "{}" }, { key: "slow-1", firstPauseMs: 50 });
  const [first, second] = await Promise.all([call(), call()]);
  assert.deepEqual([first.status, second.status], [201, 201]);
  assert.equal(await first.text(), await second.text());
  const replayed = [first, second].map((answer) => answer.headers.get("Idempotency-Replayed"));
  assert.deepEqual(new Set(replayed), new Set([null, "true"]), "one was executed, the other waited for it");
});
