// load.mjs PORT COUNT PREFIX: sends COUNT keyed requests on 32 connections and prints the CPU time that the server spent on each, in
// microseconds. The same PREFIX again gives the same keys.
import { Agent, request } from "node:http";

const [port, count, prefix] = process.argv.slice(2);
const CONNECTIONS = 32;
const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
const BODY = '{"amount":4200,"currency":"EUR","customer":"cus_123","description":"a book about once"}';

function send(method, path, headers, body) {
  return new Promise((resolve, reject) => {
    const sent = request({ port, host: "127.0.0.1", method, path, headers, agent }, (response) => {
      let text = "";
      response.on("data", (part) => { text += part; });
      response.on("end", () => resolve({ status: response.statusCode, text }));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

const cpu = async () => Number((await send("GET", "/cpu", {})).text);
const before = await cpu();
let next = 0;
await Promise.all(Array.from({ length: CONNECTIONS }, async () => {
  while (next < count) {
    const headers = { "Content-Type": "application/json", "Content-Length": BODY.length, "Idempotency-Key": `${prefix}-${next++}` };
    const { status, text } = await send("POST", "/payments", headers, BODY);
    if (status !== 201) throw new Error(`${status} ${text}`);
  }
}));
console.log((await cpu() - before) / count);
agent.destroy();
