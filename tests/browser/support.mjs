// What every browser test works with: the real binary, a backend of the test's own making, and a real browser that
// reports everything that should not happen on a page.
import assert from "node:assert/strict";
import {spawn} from "node:child_process";
import {mkdtempSync, readFileSync, rmSync, openSync, writeFileSync} from "node:fs";
import http from "node:http";
import {tmpdir} from "node:os";
import path from "node:path";
import {after, before} from "node:test";
import {chromium} from "playwright-core";

export const deadline = 60_000;

// Until `look` gives something; never longer than the deadline.
export async function until(look, what) {
  const end = Date.now() + deadline;
  while (Date.now() < end) {
    const seen = await look();
    if (seen) return seen;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`waited in vain for ${what}`);
}

// handler: (request, response, body). What it destroys is a backend that dies.
export async function startBackend(t, handler) {
  const server = http.createServer((request, response) => {
    const pieces = [];
    request.on("data", (piece) => pieces.push(piece));
    request.on("end", () => handler(request, response, Buffer.concat(pieces).toString()));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return {port: server.address().port, origin: `http://127.0.0.1:${server.address().port}`, stop: () => (server.closeAllConnections(), server.close())};
}

export class Gateway {
  static async start(t, backend, {settings = [], config = null, admin = "127.0.0.1:0"} = {}) {
    const gateway = new Gateway();
    gateway.folder = mkdtempSync(path.join(tmpdir(), "once-browser-"));
    const log = openSync(path.join(gateway.folder, "stderr"), "w");
    const options = ["timeouts.drain=70s", ...settings].flatMap((setting) => ["--set", setting]);
    if (config !== null) {
      writeFileSync(path.join(gateway.folder, "once.yaml"), config);
      options.push("--config", "once.yaml");
    }
    // It ends with the test, even with one that is killed for taking too long.
    gateway.process = spawn("setpriv", ["--pdeathsig", "KILL", process.env.ONCE_BINARY, "serve", "--listen", "127.0.0.1:0", "--admin", admin,
      "--upstream", backend.origin, ...options], {cwd: gateway.folder, stdio: ["ignore", "ignore", log]});
    gateway.ended = new Promise((resolve) => gateway.process.on("exit", resolve));
    t.after(() => gateway.stop());
    const listening = await until(() => {
      assert.equal(gateway.process.exitCode, null, gateway.stderr);
      return gateway.lines().find((line) => line.message === "listening");
    }, "the gateway to listen");
    gateway.url = `http://${listening.address}`;
    gateway.admin = `http://localhost:${listening.admin.split(":").at(-1)}`;
    return gateway;
  }

  get stderr() {
    return readFileSync(path.join(this.folder, "stderr"), "utf8");
  }
  lines() {
    return this.stderr.split("\n").filter((line) => line.startsWith("{") && line.endsWith("}")).map((line) => JSON.parse(line));
  }

  // A request with a key through the gateway.
  async pay(key, target = "/payments", {body = '{"amount":1}', headers = {}} = {}) {
    return fetch(this.url + target, {method: "POST", body, headers: {"Idempotency-Key": key, "Content-Type": "application/json", ...headers}});
  }
  async stats(headers = {}) {
    return (await fetch(`${this.admin}/v1/stats`, {headers})).json();
  }

  async stop() {
    this.process.kill("SIGTERM");
    const code = await this.ended;
    const said = this.stderr;
    rmSync(this.folder, {recursive: true});
    assert.equal(code, 0, said);
    assert.doesNotMatch(said, /Sanitizer|runtime error:|invariant broken/);
  }
}

// In a describe(): one gateway for all of its tests, in `gateway` and `backend` of what is returned.
export function shareGateway(handler, options) {
  const shared = {};
  const ends = [];
  const endAll = async () => {
    while (ends.length) await ends.shift()();
  };
  before(async () => {
    const t = {after: (end) => ends.unshift(end)};
    try {
      shared.backend = await startBackend(t, handler);
      shared.gateway = await Gateway.start(t, shared.backend, options);
    } catch (error) {
      await endAll().catch(() => {});
      throw error;
    }
  });
  after(endAll);
  return shared;
}

// A backend. /fail: 500; /die: takes the request and drops the connection; anything else: 201.
export function payments(request, response) {
  if (request.url.startsWith("/die")) return response.destroy();
  response.writeHead(request.url.startsWith("/fail") ? 500 : 201, {"Content-Type": "application/json"});
  response.end(JSON.stringify({path: request.url}));
}

let browser = null;
export async function startBrowser() {
  browser = await chromium.launch({
    executablePath: process.env.ONCE_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync"],
  });
}
export const stopBrowser = () => browser?.close();

// A page of its own. When the test ends: no error on the console, no broken policy, no request to anybody else.
// `expected`: what the test itself provokes.
export async function openPage(t, url, {expected = [], ...options} = {}) {
  const context = await browser.newContext({viewport: {width: 1440, height: 960}, reducedMotion: "reduce", ...options});
  const page = await context.newPage();
  page.setDefaultTimeout(deadline);
  const wrong = [];
  const origin = new URL(url).origin;
  page.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("request", (request) => new URL(request.url()).origin === origin || wrong.push(`a request to ${request.url()}`));
  page.on("dialog", (dialog) => {
    wrong.push(`a script ran: ${dialog.message()}`);
    dialog.dismiss();
  });
  await page.addInitScript(() => addEventListener("securitypolicyviolation", (event) => console.error(`policy broken: ${event.violatedDirective}`)));
  t.after(async () => {
    await context.close();
    assert.deepEqual(wrong.filter((text) => !expected.some((pattern) => pattern.test(text))), []);
  });
  if (!options.blank) await page.goto(url);
  return page;
}

// Says what does not fit into the width of the window.
export const tooWide = (page) => page.evaluate(() => {
  const width = document.documentElement.clientWidth;
  const wide = [...document.querySelectorAll("body *")].filter((node) => {
    const box = node.getBoundingClientRect();
    return box.width > 0 && box.right > width + 0.5 && !node.closest(".numbers, .unseen, .skip, thead");
  }).map((node) => `${node.tagName}.${node.className.baseVal ?? node.className} ends at ${node.getBoundingClientRect().right}`);
  if (document.documentElement.scrollWidth > width) wide.unshift(`the page is ${document.documentElement.scrollWidth} wide`);
  return wide;
});

// Text whose contrast with what is behind it is below 4.5 (3 if it is large), as WCAG computes it.
export const tooPale = (page) => page.evaluate(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return {rgb: [r, g, b], a: a / 255};
  };
  const luminance = (rgb) => rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const color = rgba(getComputedStyle(node).backgroundColor);
      if (color.a === 1) return color.rgb;
    }
    return [255, 255, 255];
  };
  const found = [];
  const seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || seen.has(node) || !node.checkVisibility() || node.closest(".unseen, .skip, :disabled, script, noscript")) continue;
    seen.add(node);
    const style = getComputedStyle(node);
    const text = luminance(rgba(node instanceof SVGElement ? style.fill : style.color).rgb);
    const behind = luminance(ground(node));
    const ratio = (Math.max(text, behind) + 0.05) / (Math.min(text, behind) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) found.push(`${ratio.toFixed(2)}: ${node.tagName}.${node.className.baseVal ?? node.className} "${node.textContent.trim().slice(0, 30)}"`);
  }
  return {found, looked: seen.size};
});

// Controls that a screen reader could not name.
export const unnamed = (page) => page.evaluate(() => [...document.querySelectorAll("button, a, input, select, textarea, meter, dialog[open]")]
  .filter((node) => node.checkVisibility())
  .filter((node) => !(node.ariaLabel || node.labels?.length || node.textContent.trim() || document.getElementById(node.getAttribute("aria-labelledby"))?.textContent.trim()))
  .map((node) => node.outerHTML.slice(0, 120)));
