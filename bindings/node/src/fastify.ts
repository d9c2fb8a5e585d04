// The entry "once/fastify": a plugin that protects every route whose method and path the configuration covers.
//
//   await app.register(once, { store: "journal:data" });
import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";

import { collect } from "./body.js";
import type { Reply } from "./engine.js";
import { gateRequest } from "./express.js";
import type { Gate, GateClaim } from "./gate.js";
import { gateOf, RESERVED_FIELDS, STREAMED, type Execution, type MiddlewareOptions } from "./options.js";
import { writeReplyHead } from "./recorder.js";

// The parts of Fastify that the plugin uses; Fastify itself is not needed to install the package.
interface FastifyRequestLike {
  raw: IncomingMessage;
  headers: IncomingMessage["headers"];
  idempotency?: Execution | null;
}

interface FastifyReplyLike {
  raw: ServerResponse;
  statusCode: number;
  code(status: number): unknown;
  header(name: string, value: unknown): unknown;
  removeHeader(name: string): unknown;
  getHeaders(): Record<string, number | string | string[] | undefined>;
  hijack(): unknown;
}

export type FastifyOptions = MiddlewareOptions<any>;

/** The claim of each request, until it is finished. */
const claims = new WeakMap<object, GateClaim>();

async function plugin(app: any, options: FastifyOptions): Promise<void> {
  const gate = await gateOf(options);
  app.decorateRequest("idempotency", null);
  app.addHook("preParsing", (request: FastifyRequestLike, reply: FastifyReplyLike, payload: Readable) =>
    begin(gate, options, request, reply, payload));
  app.addHook("onSend", (request: FastifyRequestLike, reply: FastifyReplyLike, payload: unknown) => finish(request, reply, payload));
  app.addHook("onResponse", async (request: FastifyRequestLike, reply: FastifyReplyLike) => abandonHijacked(request, reply));
  if (options.gate === undefined) app.addHook("onClose", () => gate.close());
}

/** The plugin, for app.register(). It applies to the whole app that registers it. */
export const once: (app: any, options: FastifyOptions) => Promise<void> = Object.assign(plugin, {
  [Symbol.for("skip-override")]: true,
  [Symbol.for("fastify.display-name")]: "once",
});

export default once;

async function begin(
  gate: Gate, options: FastifyOptions, request: FastifyRequestLike, reply: FastifyReplyLike, payload: Readable,
): Promise<unknown> {
  const asked = gateRequest(request.raw);
  asked.caller = await options.caller?.(request);
  for (const name of RESERVED_FIELDS) delete request.headers[name];
  const most = gate.neededBody(asked);
  let stream = payload;
  if (most >= 0) {
    asked.body = await readUpTo(payload, most + 1);
    // Fastify compares this with Content-Length.
    stream = Object.assign(Readable.from([asked.body], { objectMode: false }), { receivedEncodedLength: asked.body.length });
  }
  const { begun: beginning, cancel } = gate.beginCancellable(asked);
  reply.raw.once("close", cancel);
  const begun = await beginning;
  reply.raw.off("close", cancel);
  switch (begun.kind) {
    case "reply":
      sendNow(reply, begun.reply);
      return reply;
    case "cancelled":
      reply.hijack();
      return reply;
    case "pass":
      setFields(reply, begun.fields);
      return stream;
    case "claim": {
      const { claim } = begun;
      for (let i = 0; i < claim.fields.length; i += 2) request.headers[(claim.fields[i] as string).toLowerCase()] = claim.fields[i + 1];
      claims.set(request, claim);
      request.idempotency = claim;
      return stream;
    }
  }
}

async function readUpTo(payload: Readable, most: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of payload as AsyncIterable<Buffer>) {
    parts.push(part);
    size += part.length;
    if (size >= most) break;
  }
  return Buffer.concat(parts);
}

// Bypasses Fastify's serializers, which would add a Content-Type.
function sendNow(reply: FastifyReplyLike, answer: Reply): void {
  reply.hijack();
  for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) reply.raw.setHeader(name, value);
  writeReplyHead(reply.raw, answer);
  reply.raw.end(answer.body);
}

function setFields(reply: FastifyReplyLike, fields: readonly string[]): void {
  for (let i = 0; i < fields.length; i += 2) reply.header(fields[i] as string, fields[i + 1]);
}

/** The payload to send instead of the handler's. */
async function finish(request: FastifyRequestLike, reply: FastifyReplyLike, payload: unknown): Promise<unknown> {
  const claim = claims.get(request);
  if (claim === undefined) return payload;
  claims.delete(request);
  const streamed = STREAMED.test(String(reply.getHeaders()["content-type"] ?? ""));
  const { body, rest } = await bytesOf(payload, streamed ? -1 : claim.maxBody);
  const answer = await claim.finish({ status: reply.statusCode, fields: fieldsOf(reply), body });
  for (const name of Object.keys(reply.getHeaders())) reply.removeHeader(name);
  reply.code(answer.status);
  reply.raw.statusMessage = answer.reason;
  for (const [name, value] of valuesByName(answer.fields)) reply.header(name, value);
  if (answer.bodyIsYours) return rest;
  return answer.body.length === 0 ? null : answer.body;
}

/** The whole payload if it has at most `most` bytes; `rest` returns all of it in either case. */
async function bytesOf(payload: unknown, most: number): Promise<{ body?: Buffer; rest?: unknown }> {
  if (payload == null) return { body: Buffer.alloc(0), rest: null };
  if (typeof payload === "string" || payload instanceof Uint8Array) {
    const body = typeof payload === "string" ? Buffer.from(payload) : Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength);
    return most < 0 ? { rest: body } : { body, rest: body };
  }
  const stream = payload as AsyncIterable<Uint8Array | string>;
  if (typeof stream[Symbol.asyncIterator] !== "function") throw new TypeError("once: a response of this type cannot be recorded");
  return most < 0 ? { rest: payload } : collect(stream, most);
}

function fieldsOf(reply: FastifyReplyLike): string[] {
  return Object.entries(reply.getHeaders()).flatMap(([name, value]) =>
    value === undefined ? [] : (Array.isArray(value) ? value : [value]).flatMap((one) => [name, String(one)]));
}

function valuesByName(fields: readonly string[]): Map<string, string | string[]> {
  const values = new Map<string, string | string[]>();
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    const before = values.get(name);
    values.set(name, before === undefined ? (fields[i + 1] as string) : [before, fields[i + 1] as string].flat());
  }
  return values;
}

// For a handler that called reply.hijack() and wrote to reply.raw: its response is unknown. If the client has left, the handler is still
// running.
function abandonHijacked(request: FastifyRequestLike, reply: FastifyReplyLike): void {
  const claim = claims.get(request);
  if (claim === undefined || !reply.raw.writableEnded) return;
  claims.delete(request);
  void claim.abandon().catch(() => undefined);
}
