// service.mjs FRAMEWORK OPTIONS: an API with the package's middleware in its own process, for the tests. OPTIONS is the JSON of the
// middleware's options. Prints {"port": …} when it listens.
//
// Every POST but /go is one execution, which is counted. A body with "hold" waits for POST /go before it is answered.
import { createServer } from "node:http";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { Readable } from "node:stream";

const [framework, json] = process.argv.slice(2);
const options = JSON.parse(json ?? "{}");
const calls = [];
const waiting = [];
let failures = 0;

/** {status, headers, body} for a request: body is bytes, or a stream. */
async function work(path, text, attempt) {
  if (path === "/go") {
    for (const go of waiting.splice(0)) go();
    return { status: 200, body: "gone on" };
  }
  const asked = text === "" ? {} : JSON.parse(text);
  calls.push({ path, attempt });
  if (asked.hold) await new Promise((go) => waiting.push(go));
  const made = { number: calls.length, attempt, bytes: Buffer.byteLength(text) };
  switch (path) {
    case "/fails-once": return failures++ === 0 ? { status: 500, body: "no" } : { status: 200, body: "yes" };
    case "/throws": throw new Error("in the handler");
    case "/large": return { status: 200, body: "x".repeat(asked.size) };
    case "/stream": return { status: 200, body: Readable.from(Array.from({ length: asked.parts }, () => Buffer.alloc(65536, "y"))) };
    case "/cookies": return { status: 200, headers: { "Set-Cookie": ["a=1", "b=2"], "X-Made": "7" }, body: "cookies" };
    case "/events": return { status: 200, headers: { "Content-Type": "text/event-stream" }, body: Readable.from(events()) };
    default: return { status: 201, headers: { "Content-Type": "application/json" }, body: JSON.stringify(made) };
  }
}

async function* events() {
  yield "data: first\n\n";
  await new Promise((go) => waiting.push(go));
  yield "data: last\n\n";
}

const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();

/** Unprotected: what the service has seen. */
function seen() {
  return JSON.stringify({ calls, waiting: waiting.length, longestDelayMs: delay.max / 1e6 });
}

const frameworks = {
  async express() {
    const { default: express } = await import("express");
    const { once } = await import("once/express");
    const app = express();
    app.use((request, response, next) => { response.setHeader("X-Outer", "set before"); next(); });
    const middleware = once({ ...options, caller: callerOf });
    await middleware.gate;
    app.use(middleware);
    app.use(express.text({ type: () => true, limit: "100mb" }));
    app.get("/seen", (request, response) => response.type("json").send(seen()));
    app.post("/destroys", (request, response) => { calls.push({ path: "/destroys" }); response.destroy(); });
    app.post(/.*/, async (request, response) => {
      const { status, headers = {}, body } = await work(request.path, request.body || "", request.idempotency?.attempt);
      response.status(status).set(headers);
      if (body instanceof Readable) body.pipe(response);
      else response.send(body);
    });
    app.use((error, request, response, next) => response.headersSent ? next(error) : response.status(500).send(error.message));
    return createServer(app);
  },
  async http() {
    const { once } = await import("once/express");
    const middleware = once(options);
    await middleware.gate;
    return createServer((request, response) => middleware(request, response, async (error) => {
      if (error) return response.writeHead(500).end(String(error.message));
      if (request.url === "/seen") return response.end(seen());
      let text = "";
      for await (const part of request) text += part;
      const { status, headers, body } = await work(request.url, text, request.idempotency?.attempt);
      response.writeHead(status, headers);
      return body instanceof Readable ? body.pipe(response) : response.end(body);
    }));
  },
  async fastify() {
    const { default: Fastify } = await import("fastify");
    const { once } = await import("once/fastify");
    const app = Fastify({ bodyLimit: 100 << 20, forceCloseConnections: true });
    app.addHook("onRequest", async (request, reply) => { reply.header("X-Outer", "set before"); });
    await app.register(once, { ...options, caller: callerOf });
    app.removeAllContentTypeParsers();
    app.addContentTypeParser("*", { parseAs: "string" }, (request, body, done) => done(null, body));
    app.get("/seen", async (request, reply) => reply.type("application/json").send(seen()));
    app.post("/destroys", (request, reply) => { calls.push({ path: "/destroys" }); reply.hijack(); reply.raw.end("hijacked"); });
    app.post("/*", async (request, reply) => {
      const { status, headers = {}, body } = await work(request.url, request.body ?? "", request.idempotency?.attempt);
      return reply.code(status).headers(headers).send(body);
    });
    await app.ready();
    return app.server;
  },
  async handler() {
    const { executionOf, once } = await import("once/handler");
    const { Gate } = await import("once");
    const gate = await Gate.open(options);
    const handler = once(async (request) => {
      const path = new URL(request.url).pathname;
      if (path === "/seen") return new Response(seen());
      const { status, headers = {}, body } = await work(path, await request.text(), executionOf(request)?.attempt);
      const made = new Headers(Object.entries(headers).flatMap(([name, value]) => [value].flat().map((one) => [name, one])));
      return new Response(body instanceof Readable ? Readable.toWeb(body) : body, { status, headers: made });
    }, { gate, caller: callerOf });
    return createServer((request, response) => answerWith(handler, request, response));
  },
};

function callerOf(request) {
  const name = typeof request.headers.get === "function" ? request.headers.get("x-user") : request.headers["x-user"];
  return name ?? undefined;
}

/** As adapters between node:http and fetch do it. */
async function answerWith(handler, request, response) {
  const bodiless = request.method === "GET" || request.method === "HEAD";
  const body = bodiless ? undefined : Readable.toWeb(request);
  const url = `http://${request.headers.host}${request.url}`;
  try {
    const made = await handler(new Request(url, { method: request.method, headers: request.headers, body, duplex: "half" }));
    for (const [name, value] of made.headers) if (name !== "set-cookie") response.setHeader(name, value);
    if (made.headers.getSetCookie().length > 0) response.setHeader("Set-Cookie", made.headers.getSetCookie());
    response.writeHead(made.status);
    for await (const part of made.body ?? []) response.write(part);
    response.end();
  } catch (error) {
    if (response.headersSent) response.destroy();
    else response.writeHead(500).end(error.message);
  }
}

const server = await frameworks[framework]();
server.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ port: server.address().port })));
process.on("SIGTERM", () => process.exit(0));
