// streamOnce(), run by stream_test.py: at a gateway whose connections are cut after so many bytes, and over a fetch() of the test's own.
import assert from "node:assert/strict";
import { test } from "node:test";

import { NotStoppedError, StreamBrokenError, stopOnce, streamOnce } from "once/fetch";

const encode = (text) => new TextEncoder().encode(text);
const sizes = JSON.parse(process.env.ONCE_SIZES);
const pauses = { firstPauseMs: 1, longestPauseMs: 2 };

/** A fetch() with these responses, one per call: a head, and chunks of which an Error cuts it off and a promise is waited for. */
function scripted(...responses) {
  const calls = [];
  const fetch = async (url, { method, headers, signal, body }) => {
    calls.push({ method, offset: headers.get("Idempotency-Offset"), attempt: headers.get("Idempotency-Attempt"), key: headers.get("Idempotency-Key"),
      headers: Object.fromEntries(headers), body: body && new TextDecoder().decode(body) });
    const { status = 200, headers: fields = {}, chunks } = responses[calls.length - 1] ?? { chunks: new TypeError("refused") };
    if (chunks instanceof Error) throw chunks;
    const left = [...chunks];
    const stream = new ReadableStream({
      start: (controller) => signal.addEventListener("abort", () => controller.error(signal.reason)),
      pull: async (controller) => {
        const chunk = await left.shift();
        if (signal.aborted) return;
        if (chunk === undefined) controller.close();
        else if (chunk instanceof Error) controller.error(chunk);
        else controller.enqueue(encode(chunk));
      },
    });
    return new Response(status === 204 ? null : stream, { status, headers: { "Idempotency-Status": "executed", ...fields } });
  };
  return { fetch, calls };
}

const attached = { "Idempotency-Status": "attached" };
const cut = () => new TypeError("terminated");
const post = { method: "POST", body: "{}" };

async function read(script, init = post, options = {}) {
  const stream = await streamOnce("http://api.test/chat", init, { fetch: script.fetch, ...pauses, ...options });
  const seen = { text: "", error: undefined, stream };
  try {
    for await (const bytes of stream) seen.text += new TextDecoder().decode(bytes);
  } catch (error) {
    seen.error = error;
  }
  return seen;
}

test("a connection that is cut at any byte is continued", async () => {
  for (const size of sizes) {
    const stream = await streamOnce(process.env.ONCE_URL, post, { key: `cut-${size}`, ...pauses });
    assert.equal(await stream.text(), process.env.ONCE_BODY, `cut after ${size} bytes`);
  }
});

// tests/python/streaming_test.py has the same.
const EVENT_CASES = [
  ["data: a\n\n", [["", "message", "a"]]],
  ["data: a\r\ndata:b\r\rdata\n\n", [["", "message", "a\nb"], ["", "message", ""]]],
  ["\ufeffdata:  a\n\n", [["", "message", " a"]]],
  ["id: 1\nevent: x\ndata: \u00e9\n\ndata: b\n\nid\ndata: c\n\n", [["1", "x", "\u00e9"], ["1", "message", "b"], ["", "message", "c"]]],
  [": c\nid: 2\0\nretry: 5\nunknown: 1\ndata: a\n\n", [["", "message", "a"]]],
  ["event: x\n\ndata: a\n\ndata: lost\n", [["", "message", "a"]]],
  ["id: 3\n\ndata: a:b: c\r\n\r\n", [["3", "message", "a:b: c"]]],
];

test("events are parsed as the HTML standard says", async () => {
  for (const [text, expected] of EVENT_CASES) {
    const bytes = encode(text);
    for (let size = 1; size <= bytes.length; ++size) {
      const fetch = async () => new Response(new ReadableStream({
        start(controller) {
          for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
          controller.close();
        },
      }), { headers: { "Idempotency-Status": "executed" } });
      const events = [];
      for await (const { id, event, data } of (await streamOnce("http://api.test/", {}, { fetch })).events()) events.push([id, event, data]);
      assert.deepEqual(events, expected, JSON.stringify([text, size]));
    }
  }
});

test("every attempt has the same key and bytes, and only the rest is asked for", async () => {
  const long = "x".repeat(3000);
  const script = scripted(
    { chunks: cut() },
    { chunks: [long, cut()] },
    { status: 503, chunks: ["busy"] },
    { headers: { ...attached, "Idempotency-Offset": "1976" }, chunks: [`${"x".repeat(1024)}y`, cut()] },
    { headers: attached, chunks: [`${long.slice(0, 7)}`, `${long.slice(7)}yz`] },
  );
  const { text, error } = await read(script);
  assert.equal(error, undefined);
  assert.equal(text, `${long}yz`);
  assert.deepEqual(script.calls.map(({ offset }) => offset), [null, null, "1976", "1976", "1977"]);
  assert.equal(new Set(script.calls.map(({ key, body }) => `${key} ${body}`)).size, 1);
});

test("a retry names the attempt that it has a part of", async () => {
  const first = { "Idempotency-Attempt": "2", "Idempotency-Offset": "5" };
  const script = scripted(
    { headers: first, chunks: ["abc", cut()] },
    { headers: { ...attached, ...first }, chunks: ["abcdef"] },
  );
  const { text, error } = await read(script, { ...post, headers: { "Last-Event-ID": "7", "Idempotency-Attempt": "1" } });
  assert.deepEqual([text, error], ["abcdef", undefined]);
  assert.deepEqual(script.calls.map(({ offset, attempt, headers }) => [offset, attempt, headers["last-event-id"]]),
    [[null, "1", "7"], ["5", "2", undefined]]);
});

test("a part of the caller is followed only by what comes after it", async () => {
  const asked = { ...post, headers: { "Idempotency-Offset": "7", "Idempotency-Attempt": "1" } };
  const { text, error, stream } = await read(scripted({ headers: { ...attached, "Idempotency-Offset": "7" }, chunks: ["abc"] }), asked);
  assert.deepEqual([text, error, stream.received], ["abc", undefined, 10]);
  const others = [{}, { "Idempotency-Offset": "6" }, { "Idempotency-Offset": "8" }, { "Idempotency-Offset": "7", "Idempotency-Attempt": "2" }];
  for (const headers of others) {
    await assert.rejects(read(scripted({ headers: { ...attached, ...headers }, chunks: ["abc"] }), asked, { key: "k" }),
      (error) => error instanceof StreamBrokenError && error.reason === "new-attempt" && error.key === "k", JSON.stringify(headers));
  }
  assert.equal((await read(scripted({ status: 404, chunks: ["none"] }), asked)).text, "none");
});

test("a page of another origin asks for the rest only if it is shown the attempt", async (context) => {
  globalThis.location = { href: "http://page.test/", origin: "http://page.test" };
  context.after(() => { delete globalThis.location; });
  const long = "x".repeat(2000);
  for (const [attempt, offset] of [["1", "976"], [undefined, null]]) {
    const named = attempt === undefined ? {} : { "Idempotency-Attempt": attempt };
    const rest = offset === null ? { headers: attached, chunks: [`${long}y`] }
      : { headers: { ...attached, ...named, "Idempotency-Offset": offset }, chunks: [`${long.slice(976)}y`] };
    const script = scripted({ headers: named, chunks: [long, cut()] }, rest);
    const { text } = await read(script);
    assert.equal(text, `${long}y`);
    assert.equal(script.calls[1].offset, offset);
  }
});

test("an encoded body is read again from its beginning: offsets count the bytes on the wire", async () => {
  const encoded = { "Content-Encoding": "gzip" };
  const script = scripted(
    { headers: encoded, chunks: ["x".repeat(2000), cut()] },
    { headers: { ...attached, ...encoded }, chunks: [`${"x".repeat(2000)}y`] },
  );
  const { text } = await read(script);
  assert.equal(text, `${"x".repeat(2000)}y`);
  assert.equal(script.calls[1].offset, null);
});

const brokenBy = {
  "new-attempt": [
    { chunks: ["abc"] },
    { headers: attached, chunks: ["xyzabc"] },
    { headers: attached, chunks: ["ab"] },
    { headers: { "Idempotency-Status": "bypassed" }, chunks: ["abcdef"] },
    { headers: { ...attached, "Idempotency-Offset": "7" }, chunks: ["abcdef"] },
    { status: 201, headers: attached, chunks: ["abcdef"] },
    { headers: { ...attached, "Idempotency-Attempt": "2" }, chunks: ["abcdef"] },
  ],
  "outcome-unknown": [
    { headers: { "Idempotency-Status": "unknown" }, chunks: ["abc", cut()] },
    { status: 409, headers: { "Content-Type": "application/problem+json" }, chunks: ['{"code": "outcome-unknown"}'] },
  ],
  refused: [{ status: 409, headers: { "Content-Type": "application/problem+json" }, chunks: ['{"code": "response-not-kept"}'] }],
};

test("a stream that cannot be continued says why", async () => {
  for (const [reason, responses] of Object.entries(brokenBy)) {
    for (const response of responses) {
      const { text, error, stream } = await read(scripted({ headers: { "Idempotency-Attempt": "1" }, chunks: ["abc", cut()] }, response));
      assert.ok(error instanceof StreamBrokenError, JSON.stringify(response));
      assert.deepEqual([error.reason, error.key, error.received, text], [reason, stream.key, 3, "abc"], JSON.stringify(response));
    }
  }
  const unprotected = await read(scripted({ headers: { "Idempotency-Status": "bypassed" }, chunks: ["abc", cut()] }), post, { warn: () => {} });
  assert.equal(unprotected.error.reason, "not-protected");
  const lost = await read(scripted({ chunks: ["abc", cut()] }), post, { deadlineMs: 50 });
  assert.equal(lost.error.reason, "gave-up");
});

test("the bytes of an unknown outcome that were not read yet are given before its error", async () => {
  const { text, error } = await read(scripted({ chunks: ["abc", cut()] }, { headers: { "Idempotency-Status": "unknown" }, chunks: ["abcdef", cut()] }));
  assert.deepEqual([text, error.reason, error.received], ["abcdef", "outcome-unknown", 6]);
});

test("another response is given as it is", async () => {
  const { text, error, stream } = await read(scripted({ status: 404, chunks: ["none"] }));
  assert.deepEqual([stream.status, stream.ok, text, error], [404, false, "none", undefined]);
});

test("a signal ends it at the head, in the body and between two connections", async () => {
  const never = new Promise(() => {});
  const early = new AbortController();
  early.abort(new Error("no longer wanted"));
  await assert.rejects(streamOnce("http://api.test/", { signal: early.signal }, { key: "k", fetch: scripted({ chunks: early.signal.reason }).fetch }),
    { message: "no longer wanted", key: "k" });
  const late = new AbortController();
  const script = scripted({ chunks: ["abc", never] });
  const stream = await streamOnce("http://api.test/", { ...post, signal: late.signal }, { key: "k", fetch: script.fetch });
  let text = "";
  await assert.rejects(async () => {
    for await (const bytes of stream) {
      text += new TextDecoder().decode(bytes);
      late.abort(new Error("no longer wanted"));
    }
  }, { message: "no longer wanted", key: "k" });
  const paused = new AbortController();
  const between = scripted({ chunks: ["abc", cut()] });
  const ended = read(between, { ...post, signal: paused.signal }, {
    firstPauseMs: 1e6, longestPauseMs: 1e6, deadlineMs: 1e7, onAttempt: () => setTimeout(() => paused.abort(new Error("enough")), 20) });
  assert.equal((await ended).error.message, "enough");
  assert.deepEqual([text, script.calls.length, between.calls.length], ["abc", 1, 1]);
});

const stopped = { status: 204, headers: { "Idempotency-Stopped": "true" }, chunks: [] };
const never = () => new Promise(() => {});

test("stop() asks as the caller did, and ends the loop wherever it is", async () => {
  const init = { ...post, headers: { Authorization: "me", "Content-Type": "a/b", "Idempotency-Offset": "0" } };
  const places = {
    reading: scripted({ chunks: ["abc", never()] }, { status: 503, chunks: ["busy"] }, stopped),
    paused: scripted({ chunks: ["abc", cut()] }, stopped),
  };
  for (const [place, script] of Object.entries(places)) {
    const options = { fetch: script.fetch, ...pauses, ...(place === "paused" ? { firstPauseMs: 1e9, longestPauseMs: 1e9, deadlineMs: 1e10 } : {}) };
    const stream = await streamOnce("http://api.test/chat", init, options);
    assert.equal(stream.stopped, false);
    let text = "";
    for await (const bytes of stream) {
      text += new TextDecoder().decode(bytes);
      setTimeout(() => stream.stop().then((isStopped) => assert.equal(isStopped, true)), 10);
    }
    assert.deepEqual([text, stream.stopped], ["abc", true], place);
    const stop = script.calls.find(({ method }) => method === "DELETE");
    assert.deepEqual([stop.key, stop.body, stop.headers.authorization, stop.headers["idempotency-stop"]], [stream.key, undefined, "me", "POST"], place);
    assert.deepEqual([stop.headers["content-type"], stop.headers["idempotency-offset"]], [undefined, undefined]);
  }
});

test("a stop that comes too late, is refused or is not safe leaves the stream as it is", async () => {
  const late = { status: 204, headers: { "Idempotency-Stopped": "false" }, chunks: [] };
  const unknown = { status: 404, headers: { "Content-Type": "application/problem+json" }, chunks: ['{"code": "key-not-found"}'] };
  const start = async (response, headers = {}) => {
    let end;
    const script = scripted({ headers, chunks: ["abc", new Promise((resolve) => { end = () => resolve("def"); })] }, response);
    const stream = await streamOnce("http://api.test/chat", post, { fetch: script.fetch, ...pauses, warn: () => {} });
    return { stream, end, script };
  };
  const first = await start(late);
  assert.equal(await first.stream.stop(), false);
  first.end();
  assert.deepEqual([await first.stream.text(), first.stream.stopped], ["abcdef", false]);
  const second = await start(unknown);
  await assert.rejects(second.stream.stop(), (error) => error instanceof NotStoppedError && error.status === 404 && error.code === "key-not-found");
  second.end();
  assert.equal(await second.stream.text(), "abcdef");
  const third = await start(stopped, { "Idempotency-Status": "bypassed" });
  await assert.rejects(third.stream.stop(), NotStoppedError);
  assert.equal(third.script.calls.length, 1);
  third.stream.close();
});

test("stopOnce() needs a key and a server that says what it did", async () => {
  const ignorant = scripted({ status: 204, headers: { "Idempotency-Status": "executed" }, chunks: [] });
  await assert.rejects(stopOnce("http://api.test/", post, { key: "k", fetch: ignorant.fetch }), NotStoppedError);
  await assert.rejects(stopOnce("http://api.test/", post, { fetch: ignorant.fetch }), TypeError);
  assert.equal(await stopOnce("http://api.test/", { method: "patch" }, { key: "k", fetch: scripted(stopped).fetch }), true);
});

test("a stream that somebody else stopped ends cleanly and says so", async () => {
  const said = { "Idempotency-Status": "replayed", "Idempotency-Stopped": "true" };
  const { text, error, stream } = await read(scripted({ chunks: ["abc", cut()] }, { headers: said, chunks: ["abcd"] }));
  assert.deepEqual([text, error, stream.stopped], ["abcd", undefined, true]);
});

test("it is read once, and leaving the loop closes the connection", async () => {
  let isClosed = false;
  const fetch = async (_, { signal }) => {
    signal.addEventListener("abort", () => { isClosed = true; });
    return new Response(new ReadableStream({ pull: (controller) => controller.enqueue(encode("data: a\n\n")) }),
      { headers: { "Idempotency-Status": "executed" } });
  };
  const stream = await streamOnce("http://api.test/", post, { fetch });
  for await (const { data } of stream.events()) {
    assert.equal(data, "a");
    break;
  }
  assert.equal(isClosed, true);
  assert.throws(() => stream[Symbol.asyncIterator](), /read once/);
});
