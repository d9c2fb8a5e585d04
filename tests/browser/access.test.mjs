// Logging in and out, and what a page of somebody else can do with the visitor's browser: nothing.
import assert from "node:assert/strict";
import {describe, test} from "node:test";
import {Gateway, openPage, payments, shareGateway, startBackend, tooPale, tooWide, unnamed, until} from "./support.mjs";

const token = "a-token-that-is-long-enough";
const refused = /status of 401/;

describe("access", {concurrency: false}, () => {
  const shared = shareGateway(payments, {settings: [`admin_token=${token}`]});

  test("the token lets in, another one does not, and logging out ends it", async (t) => {
    const {gateway} = shared;
    const page = await openPage(t, gateway.admin, {expected: [refused]});
    await page.getByLabel("Admin token").waitFor();
    assert.equal(await page.locator("#overview-view").isVisible(), false);
    assert.deepEqual(await unnamed(page), []);
    assert.deepEqual((await tooPale(page)).found, []);
    await page.getByLabel("Admin token").fill("not-the-token-at-all");
    await page.keyboard.press("Enter");
    await page.getByText("Wrong token.").waitFor();
    await page.getByLabel("Admin token").fill(token);
    await page.keyboard.press("Enter");
    await page.waitForSelector('#live[data-state="live"]');
    assert.equal(await page.locator("#login-view").isVisible(), false);
    assert.equal(await page.evaluate(() => document.cookie), "", "scripts cannot read the session");
    // The session outlives the page, and the token is nowhere in it.
    await page.reload();
    await page.waitForSelector('#live[data-state="live"]');
    assert.equal(await page.getByLabel("Admin token").inputValue(), "");
    const [cookie] = await page.context().cookies();
    assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, "Strict", "/"]);
    await page.getByRole("button", {name: "Log out"}).click();
    await page.getByLabel("Admin token").waitFor();
    const again = await fetch(`${gateway.admin}/v1/stats`, {headers: {Cookie: `${cookie.name}=${cookie.value}`}});
    assert.equal(again.status, 401, "the session itself has ended, not only its cookie");
    assert.deepEqual(await page.context().cookies(), []);
  });

  test("a backend behind the gateway never sees the session, which the browser sends to every port", async (t) => {
    const seen = [];
    const backend = await startBackend(t, (request, response) => {
      seen.push(request.headers.cookie);
      response.writeHead(200, {"Content-Type": "text/html", "Set-Cookie": "theme=dark"});
      response.end("<!doctype html><link rel=icon href=data:,><title>shop</title>");
    });
    const gateway = await Gateway.start(t, backend, {settings: [`admin_token=${token}`]});
    const shop = `${gateway.url.replace("127.0.0.1", "localhost")}/shop`;  // the host of the dashboard
    const page = await openPage(t, gateway.admin, {expected: [refused, /a request to/]});
    await page.getByLabel("Admin token").fill(token);
    await page.keyboard.press("Enter");
    await page.waitForSelector('#live[data-state="live"]');
    for (let visit = 0; visit < 2; ++visit) {
      const sent = page.waitForRequest((request) => request.url() === shop);
      await page.goto(shop);
      assert.match((await (await sent).allHeaders()).cookie, /once_admin_session_/, "the browser sent it");
    }
    assert.deepEqual(seen.filter((cookie) => cookie?.includes("once")), []);
    assert.equal(seen.at(-1), "theme=dark");
  });

  test("a session that ends meanwhile leads back to the form", async (t) => {
    const {gateway} = shared;
    const page = await openPage(t, gateway.admin, {expected: [refused], viewport: {width: 360, height: 740}});
    await page.getByLabel("Admin token").fill(token);
    assert.deepEqual(await tooWide(page), []);
    await page.keyboard.press("Enter");
    await page.waitForSelector('#live[data-state="live"]');
    await page.context().clearCookies();
    await page.getByRole("link", {name: "Keys"}).click();
    await page.getByLabel("Admin token").waitFor();
  });

  test("a page of another origin can neither read nor change anything", async (t) => {
    const {gateway} = shared;
    // localhost at another port is the same site: the browser sends the session along, so nothing but our own checks help.
    const foreign = await startBackend(t, (request, response) => {
      response.writeHead(200, {"Content-Type": "text/html"});
      response.end("<!doctype html><title>elsewhere</title><iframe id=frame></iframe><form id=form method=post target=target></form><iframe name=target></iframe>");
    });
    const page = await openPage(t, gateway.admin, {expected: [refused]});
    await page.getByLabel("Admin token").fill(token);
    await page.keyboard.press("Enter");
    await page.waitForSelector('#live[data-state="live"]');
    const other = await page.context().newPage();
    await other.goto(`http://localhost:${foreign.port}/`);
    const sent = [];
    other.on("request", (request) => request.url().startsWith(gateway.admin) && sent.push(request));
    const tried = await other.evaluate(async (admin) => {
      const attempt = async (work) => {
        try {
          return await work();
        } catch {
          return "failed";
        }
      };
      const change = {method: "POST", credentials: "include"};
      return {
        read: await attempt(async () => (await fetch(`${admin}/v1/stats`, {credentials: "include"})).text()),
        blind: await attempt(async () => (await fetch(`${admin}/v1/reload`, {...change, mode: "no-cors"})).type),
        simple: await attempt(async () => (await fetch(`${admin}/v1/reload`, {...change, headers: {"Content-Type": "text/plain"}, body: "{}"})).status),
        forced: await attempt(async () => (await fetch(`${admin}/v1/reload`, {...change, headers: {"Once-Admin": "1"}})).status),
        script: await new Promise((resolve) => {
          const node = document.createElement("script");
          node.src = `${admin}/v1/stats`;
          node.onload = () => resolve("loaded");
          node.onerror = () => resolve("failed");
          document.head.append(node);
        }),
        events: await new Promise((resolve) => {
          const source = new EventSource(`${admin}/v1/events`, {withCredentials: true});
          source.onopen = () => resolve("opened");
          source.onerror = () => (source.close(), resolve("failed"));
        }),
        form: await new Promise((resolve) => {
          const form = document.getElementById("form");
          form.action = `${admin}/v1/reload`;
          document.querySelector("[name=target]").addEventListener("load", () => resolve("sent"));
          form.submit();
        }),
        frame: await new Promise((resolve) => {
          const frame = document.getElementById("frame");
          frame.addEventListener("load", () => resolve(frame.contentDocument === null ? "failed" : "shown"));
          frame.src = `${admin}/`;
        }),
      };
    }, gateway.admin);
    assert.deepEqual(tried, {read: "failed", blind: "failed", simple: "failed", forced: "failed", script: "failed", events: "failed", form: "sent", frame: "failed"});
    assert.ok(sent.length >= 7, "all of it was tried");
    const framed = other.frames().find((frame) => frame !== other.mainFrame() && !frame.url().startsWith("http://localhost"));
    assert.ok(framed === undefined || !(await framed.content()).includes("login-form"), "the page is not shown in a frame");
    // What must not have happened, after something that did.
    const done = await page.evaluate(async () => (await fetch("/v1/reload", {method: "POST", headers: {"Once-Admin": "1"}})).status);
    assert.equal(done, 200);
    await until(() => gateway.lines().some((line) => line.message === "reloaded"), "our own reload");
    assert.equal(gateway.lines().filter((line) => line.message === "reloaded").length, 1);
  });
});
