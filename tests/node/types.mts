// Compiled, never run: what the types of the package allow and refuse.
import { createServer } from "node:http";

import express from "express";
import Fastify from "fastify";
import { CUSTOMER_SAFE, Gate, Once, computeIdempotencyKey, hashText, withIdempotency } from "once";
import type { Claim, Following, Json, Piece, Result } from "once";
import { once as protect } from "once/express";
import { once as plugin } from "once/fastify";
import { NotStoppedError, StreamBrokenError, fetchOnce, stopOnce, streamOnce, type OnceStream, type ServerSentEvent } from "once/fetch";
import { executionOf, once as handle } from "once/handler";

const once = new Once({ url: "https://claims.example", token: "t", fetch: globalThis.fetch });
const made: Result<{ id: number }> = await once.withIdempotency({ scope: "s", key: "k" }, async (claim: Claim) => ({ id: claim.attempt ?? 0 }));
const id: number | undefined = made.data?.id;
const following: Following = once.follow({ scope: "s", key: "k", wait: "1m" });
for await (const piece of following) ((each: Piece): number => each.attempt + each.number)(piece);
const followed: Json | undefined = following.result?.data;
await once.withIdempotency({ scope: "s", inputs: followed ?? null }, async (claim): Promise<boolean> => claim.progress({ percent: 40 }));
const text: string = hashText("x");
await withIdempotency({ scope: "s", inputs: { id, text }, ttl: "24h", onUnknown: "hold", operation: () => 1, sanitize: CUSTOMER_SAFE });
const key: string = computeIdempotencyKey({ tenant: "t", scope: "s", inputs: { id }, secret: "x".repeat(32) });
const response: Response = await fetchOnce(new URL("https://api.example/"), { method: "POST", body: new FormData() }, {
  keyHeader: "X-Key", deadlineMs: 1, attemptTimeoutMs: 1, stream: false, warn: (message) => message.length,
  onAttempt: ({ attempt, key }) => key.repeat(attempt),
});
response.status.toFixed();
const stream: OnceStream = await streamOnce("https://api.example/", { method: "POST", signal: AbortSignal.timeout(1) }, { idleTimeoutMs: 1, key: "k" });
for await (const event of stream.events()) ((each: ServerSentEvent): string => each.id + each.event + each.data)(event);
for await (const bytes of stream) bytes.byteLength.toFixed(stream.received);
const isStopped: boolean = stream.stopped || await stream.stop({ signal: AbortSignal.timeout(1) });
const isEnded: boolean = isStopped || await stopOnce("https://api.example/", { method: "POST" }, { key: "k", deadlineMs: 1 });
const code = (error: unknown): string | undefined => error instanceof NotStoppedError && !isEnded ? error.code : undefined;
code(stream.key);
const reason = (error: unknown) => error instanceof StreamBrokenError && error.reason === "new-attempt" && error.key.length > 0;
reason(stream.headers.get("Content-Type"));

const gate: Gate = await Gate.open({ store: "memory:", settings: { "defaults.ttl": "48h" } });
const removed: number = await gate.cleanupExpiredKeys();
const middleware = protect({ gate, caller: (request) => request.headers["x-user"] as string | undefined });
express().use(middleware);
createServer((request, answer) => middleware(request, answer, () => answer.end(String(request.complete))));
await Fastify().register(plugin, { config: "once.yaml" });
const POST: (request: Request) => Promise<Response> = handle(async (request) => Response.json({ attempt: executionOf(request)?.attempt }), { gate });
await POST(new Request("https://api.example/", { headers: { "Idempotency-Key": key.repeat(removed) } }));

// @ts-expect-error: a scope is needed
await once.claim({ key: "k" });
// @ts-expect-error: a duration has a unit
await once.claim({ scope: "s", key: "k", ttl: "24" });
// @ts-expect-error: a function is no JSON
await once.claim({ scope: "s", inputs: { f: () => 1 } });
// @ts-expect-error: it is called attemptTimeoutMs
await fetchOnce("https://api.example/", {}, { timeoutMs: 1 });
// @ts-expect-error: it is called idleTimeoutMs
await streamOnce("https://api.example/", {}, { idleMs: 1 });
// @ts-expect-error: not a reason
new StreamBrokenError("lost", "", "", 0);
// @ts-expect-error: redirects are never followed
await fetchOnce("https://api.example/", { redirect: "follow" });
// @ts-expect-error: it is called store
await Gate.open({ stores: "memory:" });
// @ts-expect-error: a rule is a type, a list, a pattern or a function
await withIdempotency({ scope: "s", key: "k", operation: () => 1, sanitize: { allow: { ok: "bool" } } });
