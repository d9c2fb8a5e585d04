// bundle.mjs NAME: bundles browser_entry.mjs with webpack, esbuild or Vite, and runs the bundle as a browser would: in a realm without
// require, process or Buffer. Prints what it sent, what it got, and the names of Node that are in the bundle.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createContext, runInContext } from "node:vm";

const here = process.cwd();
const entry = join(here, "browser_entry.mjs");
const out = join(here, `bundle-${process.argv[2]}`);

const bundlers = {
  async webpack() {
    const webpack = createRequire(join(here, "x.js"))("webpack");
    const settings = { mode: "production", target: "web", entry, output: { path: out, filename: "bundle.js" } };
    await new Promise((resolve, reject) => webpack(settings, (error, stats) => {
      if (error || stats.hasErrors()) reject(error ?? new Error(stats.toString()));
      else resolve();
    }));
  },
  async esbuild() {
    const { build } = await import("esbuild");
    await build({ entryPoints: [entry], bundle: true, format: "iife", platform: "browser", outfile: join(out, "bundle.js") });
  },
  async vite() {
    const { build } = await import("vite");
    const lib = { entry, formats: ["iife"], name: "bundle", fileName: () => "bundle.js" };
    await build({ root: here, configFile: false, logLevel: "error", build: { outDir: out, lib } });
  },
};

await bundlers[process.argv[2]]();
const code = readFileSync(join(out, "bundle.js"), "utf8");

const sent = [];
const chats = [];
// A stream that breaks after its first event, of an API of another origin: the page is not shown an Idempotency-Offset.
function chat(init) {
  chats.push({ key: init.headers.get("Idempotency-Key"), offset: init.headers.get("Idempotency-Offset") });
  const parts = chats.length === 1 ? ["data: a\n\n", undefined] : ["data: a\n\nda", "ta: b\n\n"];
  const body = new ReadableStream({
    pull(controller) {
      if (parts.length === 0) controller.close();
      else if (parts[0] === undefined) controller.error(new TypeError("network error"));
      else controller.enqueue(new TextEncoder().encode(parts.shift()));
    },
  });
  return new Response(body, { headers: { "Idempotency-Status": chats.length === 1 ? "executed" : "attached" } });
}
async function fetch(url, init) {
  if (String(url).endsWith("/chat")) return chat(init);
  sent.push({ url: String(url), key: init.headers.get("Idempotency-Key"), body: new TextDecoder().decode(init.body) });
  if (sent.length === 1) throw new TypeError("Failed to fetch");
  return new Response("made", { status: 201, headers: { "Idempotency-Status": "executed" } });
}
const { crypto = (await import("node:crypto")).webcrypto } = globalThis;
const page = createContext({ fetch, crypto, Headers, Response, URL, location: new URL("https://page.example/"), AbortController, DOMException, TextDecoder, setTimeout, clearTimeout, console });
page.globalThis = page;
runInContext(code, page);
const got = await page.done;
const events = await page.streamed;
console.log(JSON.stringify({ sent, got, chats, events, nodeNames: code.match(/node:[a-z_]+|\brequire\(|\bprocess\.|\bBuffer\b/g) ?? [] }));
