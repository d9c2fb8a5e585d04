// Stands for an external model: slow, expensive, and with more in its response than should be stored. It counts its calls.
//
//   POST /propose   the work     POST /mode {"mode": "answer" | "fail" | "hold"}     GET /calls
import { createServer } from "node:http";

const PORT = Number(process.env.PORT ?? 3001);
let calls = 0;
let mode = "answer";
let held = [];

async function bodyOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return parts.length ? JSON.parse(Buffer.concat(parts).toString()) : {};
}

const answer = (call, prompt) => ({
  ok: true,
  stopReason: "accepted",
  createdActionRequestIds: [900 + call],
  traceId: `trace-${call}`,
  needsHuman: false,
  data: { headline: `Proposal ${call}`, scores: [7, 9], prompt, critique: { tone: "flat", rounds: 3 } },
  provider: "acme-ai",
  model: "tennis-4",
  requestId: `req-${call}`,
  prompt,
  debug: { tokens: 1234 },
  _internal: { systemPrompt: "You are a copywriter." },
  error: { message: "none", stack: "at runAiTennis" },
});

createServer(async (request, response) => {
  const reply = (status, json) => {
    response.writeHead(status, { "Content-Type": "application/json" });
    response.end(JSON.stringify(json) + "\n");
  };
  const body = await bodyOf(request);
  if (request.url === "/calls") return reply(200, { calls, held: held.length });
  if (request.url === "/mode") {
    mode = body.mode;
    if (mode !== "hold") for (const go of held.splice(0)) go();
    return reply(200, { mode });
  }
  const call = ++calls;
  if (mode === "fail") return reply(500, { error: `no capacity for: ${body.prompt}` });
  if (mode === "hold") await new Promise((go) => held.push(go));
  reply(200, answer(call, body.prompt));
}).listen(PORT, "127.0.0.1");
