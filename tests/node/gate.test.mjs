// Gate in the versions of Node that process_test.py runs it with: work that is done once, on the store in ONCE_TEST_URL.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Worker } from "node:worker_threads";

import { CUSTOMER_SAFE, Gate, cleanupExpiredKeys, computeIdempotencyKey, sanitized } from "once";

const store = process.env.ONCE_TEST_URL;
const shared = !/^(memory|journal):/.test(store);
const isSql = /^(postgres|mysql):/.test(store);
const scope = `s${process.pid}`;
const gate = await Gate.open({ store, log: "off" });
const never = () => assert.fail("this work may not run");

test("work is done once, and its value is kept", async () => {
  let runs = 0;
  const call = (inputs) => gate.withIdempotency({ tenant: "launchbase", scope, inputs, ttlHours: 24, staleTakeoverMinutes: 5,
    operation: async () => ({ ok: true, ids: [++runs] }) });
  const [first, second] = [await call({ a: 1, b: [2] }), await call({ b: [2], a: 1 })];
  assert.deepEqual([first.status, first.data, first.cached, first.attempt], ["succeeded", { ok: true, ids: [1] }, false, 1]);
  assert.deepEqual([second.status, second.data, second.cached], ["succeeded", first.data, true]);
  assert.equal((await call({ a: 2 })).data.ids[0], 2);
});

test("a hundred callers, one run", async () => {
  let runs = 0;
  let go;
  const running = new Promise((resolve) => { go = resolve; });
  const call = () => gate.withIdempotency({ scope, key: "hundred", wait: "30s" }, async () => { ++runs; await running; return "value"; });
  const calls = Array.from({ length: 100 }, call);
  const busy = await gate.withIdempotency({ scope, key: "hundred" }, never);
  assert.deepEqual([busy.status, busy.stopReason, busy.cached], ["in_progress", "in_progress", false]);
  assert.ok(busy.retryAfter >= 1);
  go();
  const results = await Promise.all(calls);
  assert.equal(runs, 1);
  assert.deepEqual(new Set(results.map(({ data }) => data)), new Set(["value"]));
  assert.equal(results.filter(({ cached }) => cached).length, 99);
});

test("work that throws has failed, says why, and is done again", async () => {
  const error = Object.assign(new Error("a secret"), { stopReason: "provider_unavailable" });
  const failed = await gate.withIdempotency({ scope, key: "throws" }, () => { throw error; });
  assert.deepEqual([failed.status, failed.stopReason, failed.error], ["failed", "provider_unavailable", error]);
  const again = await gate.withIdempotency({ scope, key: "throws" }, ({ attempt }) => attempt);
  assert.deepEqual([again.status, again.data], ["succeeded", 2]);
});

test("mistakes throw, a mismatch and a value that is not JSON are results", async () => {
  await assert.rejects(gate.withIdempotency({ scope }, never), TypeError);
  await assert.rejects(gate.withIdempotency({ scope: "", key: "k" }, never), TypeError);
  await assert.rejects(gate.withIdempotency({ scope, inputs: { f: () => 1 } }, never), TypeError);
  await gate.withIdempotency({ scope, key: "print", fingerprint: { a: 1 } }, () => 1);
  assert.equal((await gate.withIdempotency({ scope, key: "print", fingerprint: { a: 2 } }, never)).status, "mismatch");
  const refused = await gate.withIdempotency({ scope, key: "big" }, () => 1n);
  assert.deepEqual([refused.status, refused.reason], ["unavailable", "value-refused"]);
  assert.equal((await refused.claim.succeed("another")).status, "succeeded");
  assert.equal((await gate.lookup({ scope, key: "big" })).data, "another");
});

test("a claim can be released, and its token is told", async () => {
  const claim = await gate.claim({ scope, key: "released" });
  assert.match(claim.handle, /^[0-9a-f]{64}\.[0-9a-f]{32}$/);
  assert.equal((await gate.lookup({ scope, key: "released" })).status, "in_progress");
  assert.equal((await claim.release()).status, "released");
  assert.equal(await gate.lookup({ scope, key: "released" }), null);
  await assert.rejects(claim.succeed(1), /has ended/);
  const other = await gate.claim({ scope, key: "ttl" });
  await assert.rejects(other.succeed(1, { ttl: "1h" }), TypeError, "not silently for another time than asked");
  assert.equal((await other.succeed(1)).status, "succeeded");
});

test("only what is allowed is kept", async () => {
  const value = {
    ok: true, stopReason: "accepted", createdActionRequestIds: [1, 2], traceId: "t-1", needsHuman: false, extra: 1, prompt: "secret",
    data: { headline: "h", scores: [1, 2], prompt: "secret", nested: { a: 1 } }, error: { message: "m", stack: "s" }, model: "m",
  };
  const safe = { ok: true, stopReason: "accepted", createdActionRequestIds: [1, 2], traceId: "t-1", needsHuman: false,
    data: { headline: "h", scores: [1, 2] } };
  const run = () => gate.withIdempotency({ scope, key: "safe", sanitize: CUSTOMER_SAFE }, () => value);
  assert.deepEqual((await run()).data, safe);
  assert.deepEqual((await run()).data, safe);
  assert.deepEqual(sanitized({ ok: "yes", ids: [1.5], deep: { a: 1, b: "x" } },
    { allow: { ok: "boolean", ids: "integer[]", deep: { allow: { a: "number" } } } }), { deep: { a: 1 } });
  assert.deepEqual(sanitized({ kind: "a", other: "z" }, { allow: { kind: ["a", "b"], other: ["a"] } }), { kind: "a" });
});

test("keys are those of the store, whatever computes them", async () => {
  const works = [{ scope, key: "k" }, { tenant: "t", scope, inputs: { b: ["é\u2028\u007f\u0001"], a: null, "\ufffd": {}, "😀": true } },
    ...[1, 100, 2.5, 1e21, -0, 0.1, -1e-7, 1e300, 5e-324, 123e10, -120.5].map((inputs) => ({ scope, inputs }))];
  for (const work of works) assert.equal(computeIdempotencyKey(work), gate.computeKey(work));
  assert.notEqual(computeIdempotencyKey(works[0]), computeIdempotencyKey({ ...works[0], tenant: "other" }));
  assert.throws(() => computeIdempotencyKey({ ...works[0], secret: "" }), /ONCE_SECRET/);
  assert.throws(() => computeIdempotencyKey({ ...works[0], secret: "short" }), /bytes/);
});

test("workers have gates of their own", { skip: !shared && "the store belongs to one gate" }, async () => {
  const code = `
    const { workerData: { store, scope }, parentPort } = require("node:worker_threads");
    const { Gate } = require("once");
    (async () => {
      const gate = await Gate.open({ store, log: "off" });
      const result = await gate.withIdempotency({ scope, key: "workers", wait: "30s" }, () => "by a worker");
      parentPort.postMessage(result);
      // It ends with the gate open, and a claim that is held.
      await gate.claim({ scope, key: "held by " + Math.random() });
    })();`;
  const results = await Promise.all(Array.from({ length: 3 }, () => new Promise((resolve, reject) => {
    const worker = new Worker(code, { eval: true, workerData: { store, scope } });
    let result;
    worker.on("message", (message) => { result = message; });
    worker.on("error", reject);
    worker.on("exit", (status) => (status === 0 ? resolve(result) : reject(new Error(`exit ${status}`))));
  })));
  assert.deepEqual(results.map(({ data }) => data), Array(3).fill("by a worker"));
  assert.equal(results.filter(({ cached }) => !cached).length, 1);
});

test("a wrong configuration says every mistake", async () => {
  const mistakes = { "defaults.ttl": "soon", "defaults.on_unknown": "guess" };
  await assert.rejects(Gate.open({ store: "memory:", settings: mistakes, log: "off" }), (error) => {
    assert.equal(error.code, "config");
    assert.match(error.message, /ttl/);
    assert.match(error.message, /on_unknown/);
    return true;
  });
  await assert.rejects(Gate.open({ config: "/nowhere/once.yaml", log: "off" }), { code: "config" });
});

test("metrics, log lines and the sweep", async () => {
  assert.match(gate.metrics(), /^# HELP once_/m);
  assert.equal(typeof await gate.cleanupExpiredKeys(), "number");
  const lines = [];
  const other = await Gate.open({ store: "memory:", log: (line) => lines.push(JSON.parse(line)) });
  await other.close();
  await assert.rejects(other.claim({ scope, key: "k" }), { code: "stopped" });
});

test("expired keys of an SQL store are removed", { skip: !isSql && "other stores need no sweep" }, async () => {
  await gate.withIdempotency({ scope, key: "short", ttl: "1s" }, () => 1);
  process.env.ONCE_STORE = store;
  const until = Date.now() + 60_000;
  let removed = 0;
  while (removed === 0 && Date.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    removed = await cleanupExpiredKeys();
  }
  assert.ok(removed >= 1);
});

test("closing waits for work, and not longer than it may", async () => {
  const other = await Gate.open({ store: "memory:", log: "off" });
  const claim = await other.claim({ scope, key: "closing" });
  let closed = false;
  const closing = other.close("60s").then(() => { closed = true; });
  await assert.rejects(other.claim({ scope, key: "new" }), { code: "stopped" });
  assert.equal(closed, false);
  assert.equal((await claim.succeed(1)).status, "succeeded");
  await closing;
  const hasty = await Gate.open({ store: "memory:", log: "off" });
  await hasty.claim({ scope, key: "held" });
  await hasty.close("50ms");
});

test("the gate closes", async () => {
  await gate.close();
});
