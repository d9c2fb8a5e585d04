// server.mjs VARIANT REDIS: a node:http service that answers POST with a little JSON, protected by nothing, by Once, or by
// @node-idempotency/core. GET /cpu is the CPU time of the whole process so far, in microseconds. Prints its port.
import { createServer } from "node:http";

const [variant, redis] = process.argv.slice(2);

async function bodyOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts);
}

function answer(response) {
  response.setHeader("Content-Type", "application/json");
  response.statusCode = 201;
  response.end('{"id":"pay_1","amount":4200,"currency":"EUR","status":"paid","created":1794738720,"note":"thank you"}');
}

const variants = {
  async none() {
    return async (request, response) => {
      await bodyOf(request);
      answer(response);
    };
  },
  async once() {
    const { once } = await import("once/express");
    const middleware = once({ store: redis, log: "off", settings: { "server.connections": "1" } }); // as many as the other has
    await middleware.gate;
    return (request, response) => middleware(request, response, async (error) => {
      if (error) throw error;
      await bodyOf(request);
      answer(response);
    });
  },
  // As its own middlewares for Express and Fastify do it.
  async "node-idempotency"() {
    const { Idempotency } = await import("@node-idempotency/core");
    const { RedisStorageAdapter } = await import("@node-idempotency/storage-adapter-redis");
    const storage = new RedisStorageAdapter({ url: redis });
    await storage.connect();
    const idempotency = new Idempotency(storage, {});
    return async (request, response) => {
      const body = JSON.parse(await bodyOf(request));
      const asked = { headers: request.headers, path: request.url, method: request.method, body, options: {} };
      const kept = await idempotency.onRequest(asked);
      if (kept !== undefined) {
        response.writeHead(kept.additional.status, { "Content-Type": "application/json" });
        return response.end(kept.body);
      }
      const made = '{"id":"pay_1","amount":4200,"currency":"EUR","status":"paid","created":1794738720,"note":"thank you"}';
      await idempotency.onResponse(asked, { body: made, additional: { status: 201 } });
      response.writeHead(201, { "Content-Type": "application/json" });
      return response.end(made);
    };
  },
};

const handler = await variants[variant]();
const server = createServer((request, response) => {
  if (request.url !== "/cpu") return handler(request, response);
  const { user, system } = process.cpuUsage();
  return response.end(String(user + system));
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
