// clients/typescript/once.mjs in its own runtime: against a real gateway (node_client_test.py starts it), and, for what a
// gateway cannot be made to do, against a server that answers by a script.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { test } from "node:test";

import * as client from "../../clients/typescript/once.mjs";

const { Once, OnceError, RETRIED_STATUSES, fetchOnce, hashText, hashUserText, withIdempotency } = client;
const once = new Once({ url: process.env.ONCE_CLAIMS_URL, token: process.env.ONCE_CLAIMS_TOKEN_LAUNCHBASE });
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const never = () => assert.fail("this work may not run");

async function until(predicate) {
  for (const end = Date.now() + 20_000; Date.now() < end; await sleep(50)) {
    const value = await predicate();
    if (value) return value;
  }
  assert.fail("waited in vain");
}

/** Answers by the script, one step a request, and keeps what came. */
async function scripted(steps) {
  const requests = [];
  const server = createServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => {
      requests.push({ key: request.headers["idempotency-key"], body: Buffer.concat(parts).toString(), at: Date.now() });
      const step = steps[Math.min(requests.length, steps.length) - 1];
      if (step === "hang up") return request.socket.destroy();
      if (step === "say nothing") return undefined;
      const { status, headers = {}, body = "" } = step;
      response.writeHead(status, headers);
      return response.end(body);
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    requests,
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

test("an owner that renews keeps its claim past lease and threshold", async () => {
  const options = { scope: "renews", key: "k", lease: "1s", takeoverAfter: "1s" };
  const slow = once.withIdempotency(options, async () => { await sleep(3500); return "slow"; });
  await sleep(2500);
  assert.equal((await once.withIdempotency(options, never)).status, "in_progress");
  assert.equal((await slow).data, "slow");
});

test("a stale owner's result is refused", async () => {
  const options = { scope: "stale", key: "k", lease: "1s", takeoverAfter: "1s" };
  const stale = await once.claim(options);
  stale.renewing = false;
  clearTimeout(stale.timer);
  const taken = await until(async () => { const claim = await once.claim(options); return claim.acquired && claim; });
  assert.equal((await stale.succeed("stale")).status, "lost");
  assert.ok(stale.lost.aborted);
  assert.equal((await taken.succeed("fresh")).status, "succeeded");
  assert.equal((await once.lookup({ scope: "stale", key: "k" })).data, "fresh");
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

test("hashText knows no white space", () => {
  assert.equal(hashText(" a\n b "), hashText("a b"));
  assert.notEqual(hashText("a b"), hashText("ab"));
});

test("fetchOnce repeats with one key what may be repeated, and honours Retry-After", async () => {
  for (const status of RETRIED_STATUSES) {
    const server = await scripted([{ status, headers: { "Retry-After": "1" } }, { status: 201, body: "made" }]);
    const response = await fetchOnce(server.url, { method: "POST", body: "x" }, { firstPauseMs: 1 });
    assert.equal(response.status, 201, `after ${status}`);
    assert.equal(await response.text(), "made");
    const [first, second, ...more] = server.requests;
    assert.equal(more.length, 0);
    assert.match(first.key, /^[0-9a-f-]{36}$/);
    assert.deepEqual([second.key, second.body], [first.key, "x"]);
    assert.ok(second.at - first.at >= 990, "Retry-After");
    server.close();
  }
});

test("fetchOnce repeats what got no answer", async () => {
  const server = await scripted(["hang up", "say nothing", { status: 200 }]);
  const seen = [];
  const options = { key: "mine", timeoutMs: 300, firstPauseMs: 1, onAttempt: (attempt) => seen.push(attempt) };
  assert.equal((await fetchOnce(server.url, { method: "POST" }, options)).status, 200);
  assert.deepEqual(server.requests.map((request) => request.key), ["mine", "mine", "mine"]);
  assert.deepEqual(seen.map(({ attempt, status }) => [attempt, status]), [[1, undefined], [2, undefined], [3, 200]]);
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

test("fetchOnce gives up at the deadline, with the last answer or the last error", async () => {
  const busy = await scripted([{ status: 503 }]);
  const options = { deadlineMs: 500, firstPauseMs: 50 };
  assert.equal((await fetchOnce(busy.url, { method: "POST" }, options)).status, 503);
  assert.ok(busy.requests.length > 1);
  busy.close();
  const later = await scripted([{ status: 503, headers: { "Retry-After": "3600" } }]);
  assert.equal((await fetchOnce(later.url, { method: "POST" }, options)).status, 503, "no use in waiting for that");
  assert.equal(later.requests.length, 1);
  later.close();
  await assert.rejects(fetchOnce("http://127.0.0.1:9/", { method: "POST" }, options), TypeError);
  const given_up = new AbortController();
  setTimeout(() => given_up.abort(), 100);
  await assert.rejects(fetchOnce("http://127.0.0.1:9/", { method: "POST", signal: given_up.signal }), { name: "AbortError" });
  await assert.rejects(fetchOnce(busy.url, { method: "POST", body: new ReadableStream() }), /stream/);
});

test("fetchOnce through the gateway: in flight, then the same answer", async () => {
  const call = () => fetchOnce(`${process.env.ONCE_URL}/slow`, { method: "POST", body: "{}" }, { key: "slow-1", firstPauseMs: 50 });
  const [first, second] = await Promise.all([call(), sleep(200).then(call)]);
  assert.deepEqual([first.status, second.status], [201, 201]);
  assert.equal(await first.text(), await second.text());
  assert.equal(second.headers.get("Idempotency-Replayed"), "true");
});

test("the types name what is exported, and nothing else", () => {
  const types = readFileSync(new URL("../../clients/typescript/once.d.mts", import.meta.url), "utf8");
  const declared = new Set([...types.matchAll(/^export declare (?:class|function|const) (\w+)/gm)].map((match) => match[1]));
  assert.deepEqual([...declared].sort(), Object.keys(client).sort());
});
