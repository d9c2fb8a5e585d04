// The entry "once/handler": protects handlers in the style of fetch, from a Request to a Response, as in Hono, Next.js route handlers and
// others.
//
//   export const POST = once(async (request) => Response.json(await pay(request)), { store: "postgres://…" });
import { collect } from "./body.js";
import type { GateClaim, GateRequest } from "./gate.js";
import { gateOf, RESERVED_FIELDS, STREAMED, type Execution, type MiddlewareOptions } from "./options.js";

export interface HandlerOptions<Rest extends unknown[] = unknown[]> extends MiddlewareOptions<Request> {
  /** The numeric address of the client, if a limit or a caller needs it. */
  peer?: (request: Request, ...rest: Rest) => string | undefined;
}

export type Handler<Rest extends unknown[] = unknown[]> = (request: Request, ...rest: Rest) => Response | Promise<Response>;

const executions = new WeakMap<Request, Execution>();

/** The attempt of the request that a protected handler received, and the token for once_finish(). */
export function executionOf(request: Request): Execution | undefined {
  return executions.get(request);
}

/** Returns the handler, executed once per key. */
export function once<Rest extends unknown[]>(
  handler: Handler<Rest>, options: HandlerOptions<Rest> = {},
): (request: Request, ...rest: Rest) => Promise<Response> {
  const opening = gateOf(options);
  return async (request, ...rest) => {
    const gate = await opening;
    const asked = await gateRequest(request, options, rest);
    const most = gate.neededBody(asked);
    if (most >= 0) asked.body = await readUpTo(request, most + 1);
    const begun = await gate.begin(asked, request.signal);
    switch (begun.kind) {
      case "reply": return responseOf(begun.reply.status, begun.reply.reason, begun.reply.fields, begun.reply.body);
      case "cancelled": return new Response(null, { status: 499, statusText: "Client Closed Request" });
      case "pass": return withFields(await handler(withoutReserved(request), ...rest), begun.fields);
      case "claim": return execute(begun.claim, handler, requestFor(begun.claim, request, asked.body), rest);
    }
  };
}

export default once;

async function execute<Rest extends unknown[]>(claim: GateClaim, handler: Handler<Rest>, request: Request, rest: Rest): Promise<Response> {
  let made: Response;
  executions.set(request, claim);
  try {
    made = await handler(request, ...rest);
  } catch (error) {
    // The framework sends a 500, which is a failure: a retry executes again.
    await claim.finish({ status: 500, fields: [], body: Buffer.alloc(0) });
    throw error;
  }
  const streamed = STREAMED.test(made.headers.get("Content-Type") ?? "");
  const { body, rest: unread } = await bodyOf(made, streamed ? -1 : claim.maxBody);
  const reply = await claim.finish({ status: made.status, reason: made.statusText, fields: fieldsOf(made.headers), body });
  return responseOf(reply.status, reply.reason, reply.fields, reply.bodyIsYours ? unread : reply.body);
}

async function gateRequest<Rest extends unknown[]>(request: Request, options: HandlerOptions<Rest>, rest: Rest): Promise<GateRequest> {
  const url = new URL(request.url);
  const fields = fieldsOf(request.headers);
  if (!request.headers.has("Host")) fields.push("Host", url.host);
  return {
    method: request.method,
    target: url.pathname + url.search,
    fields,
    scheme: url.protocol === "https:" ? "https" : "http",
    peer: options.peer?.(request, ...rest),
    caller: await options.caller?.(request),
    repeatedFields: "joined",
  };
}

async function readUpTo(request: Request, most: number): Promise<Buffer> {
  if (request.body === null) return Buffer.alloc(0);
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of request.body as unknown as AsyncIterable<Uint8Array>) {
    parts.push(part);
    size += part.length;
    if (size >= most) break;
  }
  return Buffer.concat(parts);
}

/** Adds the body, which was read before, and the fields that a backend behind the gateway would get. */
function requestFor(claim: GateClaim, request: Request, body?: Buffer): Request {
  const headers = new Headers(request.headers);
  for (const name of RESERVED_FIELDS) headers.delete(name);
  for (let i = 0; i < claim.fields.length; i += 2) headers.set(claim.fields[i] as string, claim.fields[i + 1] as string);
  const bodiless = request.method === "GET" || request.method === "HEAD" || body === undefined || body.length === 0;
  // Without the signal of the request: a client that leaves does not cancel the handler.
  return new Request(request.url, { method: request.method, headers, body: bodiless ? undefined : new Uint8Array(body) });
}

function withoutReserved(request: Request): Request {
  if (!RESERVED_FIELDS.some((name) => request.headers.has(name))) return request;
  const clean = new Request(request);
  for (const name of RESERVED_FIELDS) clean.headers.delete(name);
  return clean;
}

async function bodyOf(response: Response, most: number): Promise<{ body?: Buffer; rest?: BodyInit | null }> {
  if (response.body === null) return { body: Buffer.alloc(0), rest: null };
  if (most < 0) return { rest: response.body };
  const { body, rest } = await collect(response.body as unknown as AsyncIterable<Uint8Array>, most);
  return { body, rest: rest as unknown as BodyInit };
}

function fieldsOf(headers: Headers): string[] {
  const fields: string[] = [];
  for (const [name, value] of headers) if (name !== "set-cookie") fields.push(name, value);
  for (const cookie of headers.getSetCookie?.() ?? []) fields.push("set-cookie", cookie);
  return fields;
}

function responseOf(status: number, statusText: string, fields: readonly string[], body: BodyInit | Buffer | null | undefined): Response {
  const headers = new Headers();
  for (let i = 0; i < fields.length; i += 2) headers.append(fields[i] as string, fields[i + 1] as string);
  const bodiless = status === 204 || status === 205 || status === 304;
  return new Response(bodiless ? null : (body as BodyInit), { status, statusText, headers });
}

/** A response of fetch() has headers that cannot be changed, so a new one is made. */
function withFields(response: Response, fields: readonly string[]): Response {
  if (fields.length === 0) return response;
  const made = new Response(response.body, response);
  for (let i = 0; i < fields.length; i += 2) made.headers.set(fields[i] as string, fields[i + 1] as string);
  return made;
}
