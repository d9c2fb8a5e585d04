// The entry "once/express": middleware for Express, Connect and plain node:http servers.
//
//   app.use(once({ store: "journal:data" }));   // before the body parsers
import type { IncomingMessage, ServerResponse } from "node:http";
import type { TLSSocket } from "node:tls";

import { bodyAtHand, hasBody, peekBody } from "./body.js";
import type { Gate, GateClaim, GateRequest } from "./gate.js";
import { gateOf, RESERVED_FIELDS, type Execution, type MiddlewareOptions } from "./options.js";
import { record, writeReplyHead } from "./recorder.js";

export interface OnceRequest extends IncomingMessage {
  /** The attempt of a protected request, and the token for once_finish(). */
  idempotency?: Execution;
  /** Express: the target before routers remove their prefix. */
  originalUrl?: string;
  /** The raw body, if a body parser ran before and kept it. */
  rawBody?: Buffer;
}

export type Next = (error?: unknown) => void;

export interface Middleware<Request extends OnceRequest = OnceRequest> {
  (request: Request, response: ServerResponse, next: Next): void;
  /** The gate, once it is open. */
  readonly gate: Promise<Gate>;
}

export type ExpressOptions<Request extends OnceRequest = OnceRequest> = MiddlewareOptions<Request>;

/** Protects every request whose route in the configuration honours keys. Other requests pass. */
export function once<Request extends OnceRequest = OnceRequest>(options: ExpressOptions<Request> = {}): Middleware<Request> {
  const gate = gateOf(options);
  const middleware = (request: Request, response: ServerResponse, next: Next): void => {
    handle(gate, options, request, response).then((run) => { if (run) next(); }, next);
  };
  return Object.assign(middleware, { gate });
}

export default once;

/** Returns whether to run the handler. */
async function handle<Request extends OnceRequest>(
  opening: Promise<Gate>, options: ExpressOptions<Request>, request: Request, response: ServerResponse,
): Promise<boolean> {
  const gate = await opening;
  const asked = gateRequest(request);
  if (options.caller !== undefined) asked.caller = await options.caller(request);
  for (const name of RESERVED_FIELDS) if (name in request.headers) delete request.headers[name];
  asked.body = bodyAtHand(request);
  if (asked.body === undefined) {
    const most = gate.neededBody(asked);
    if (most >= 0) {
      const body = await wholeBody(request, most);
      if (body === undefined) return false;
      asked.body = body;
    }
  }
  const { begun: beginning, cancel } = gate.beginCancellable(asked);
  response.once("close", cancel);
  const begun = await beginning;
  response.off("close", cancel);
  switch (begun.kind) {
    case "reply":
      writeReplyHead(response, begun.reply);
      response.end(begun.reply.body);
      return false;
    case "cancelled":
      return false;
    case "pass":
      writeReplyHead(response, { status: response.statusCode, reason: "", fields: begun.fields });
      return true;
    case "claim":
      execute(begun.claim, request, response);
      return true;
  }
}

function execute(claim: GateClaim, request: OnceRequest, response: ServerResponse): void {
  for (let i = 0; i < claim.fields.length; i += 2) request.headers[(claim.fields[i] as string).toLowerCase()] = claim.fields[i + 1];
  request.idempotency = claim;
  record(response, claim);
}

/** undefined: the client has left. */
async function wholeBody(request: OnceRequest, most: number): Promise<Buffer | undefined> {
  if (Buffer.isBuffer(request.rawBody)) return request.rawBody;
  if (!hasBody(request)) return Buffer.alloc(0);
  if (request.readableDidRead || request.readableEnded) {
    throw new Error("once: the body was read before this middleware ran. Use it before the body parsers, or let the parser keep the " +
      "bytes in request.rawBody");
  }
  const read = await peekBody(request, most);
  return read === "gone" ? undefined : read.body;
}

/** @internal */
export function gateRequest(request: OnceRequest): GateRequest {
  const socket = request.socket as TLSSocket;
  const asked: GateRequest = {
    method: request.method ?? "GET",
    target: request.originalUrl ?? request.url ?? "/",
    fields: request.rawHeaders,
    peer: socket.remoteAddress,
    scheme: socket.encrypted ? "https" : "http",
  };
  if (socket.encrypted && socket.authorized) {
    const { subject, issuer } = socket.getPeerX509Certificate?.() ?? {};
    asked.tlsSubject = rfc2253(subject);
    asked.tlsIssuer = rfc2253(issuer);
  }
  return asked;
}

/** Node lists the parts of a distinguished name with the most general one first; RFC 2253 begins with the most specific one. */
function rfc2253(name: string | undefined): string | undefined {
  return name?.split("\n").reverse().join(",");
}
