// examples/chat in a real browser: an answer survives reloads, lost connections and closed pages, and the model is called once.
// chat_test.py starts the example with a model that sends a word when the test says so.
import assert from "node:assert/strict";
import net from "node:net";
import {after, before, describe, test} from "node:test";
import {openPage, startBrowser, stopBrowser, until} from "./support.mjs";

const {CHAT_ONCE: oncePort, CHAT_BACKEND: backendPort} = process.env;
const once = `http://127.0.0.1:${oncePort}`;
const backend = `http://127.0.0.1:${backendPort}`;
const all = 1000; // more words than an answer has
const lost = [/Failed to load resource/]; // the browser's own words for a connection that the test has cut

before(startBrowser);
after(stopBrowser);

const calls = async (question) => (await (await fetch(`${backend}/calls`)).json()).filter((call) => call.question === question);
const send = (question, step) => fetch(`${backend}/words`, {method: "POST", body: JSON.stringify({question, ...step})});

// A page with one question asked, and the requests for its answer. clock: the page's time can be moved.
async function ask(t, question, {origin = once, expected, clock = false} = {}) {
  const page = await openPage(t, origin, {expected, blank: clock});
  if (clock) {
    await page.clock.install();
    await page.goto(origin);
  }
  const requests = [];
  page.on("request", (request) => request.method() === "POST" && requests.push(request));
  await page.getByLabel("Question").fill(question);
  await page.getByRole("button", {name: "Ask", exact: true}).click();
  const [call] = await until(async () => ((found) => found.length > 0 && found)(await calls(question)), "the call");
  return {page, requests, words: call.answer.split(" ")};
}

const shown = (page, index = 0) => page.locator("#turns > li").nth(index);
const text = (page, index) => shown(page, index).locator(".answer").textContent();
const sees = (page, words, index) => until(async () => (await text(page, index)) === words.join(" "), `the page to show ${words.length} words`);
const state = (page, name, index) => until(async () => (await shown(page, index).getAttribute("data-state")) === name, `the page to be ${name}`);

async function ends(page, question, words) {
  await send(question, {count: all});
  await state(page, "whole");
  assert.equal(await text(page), words.join(" "));
  assert.equal((await calls(question)).length, 1);
}

// Between the browser and Once: a line that can be cut and mended.
async function startLine(t) {
  const ends = new Set();
  const line = {up: true, refused: 0};
  let last = [];
  const server = net.createServer((browser) => {
    browser.on("error", () => {});
    if (!line.up) {
      ++line.refused;
      return browser.resetAndDestroy();
    }
    const gateway = net.connect(oncePort, "127.0.0.1");
    gateway.on("data", () => (last = [browser, gateway]));
    for (const [from, to] of [[browser, gateway], [gateway, browser]]) {
      ends.add(from);
      from.on("error", () => to.destroy());
      from.on("close", () => ends.delete(from) && to.destroy());
      from.pipe(to);
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  line.origin = `http://127.0.0.1:${server.address().port}`;
  line.cut = () => {
    line.up = false;
    for (const end of ends) end.resetAndDestroy();
  };
  line.mend = () => (line.up = true);
  // Nothing comes any more on the connection that was used last. The idle ones end, or the browser would try them first.
  line.stall = () => {
    const stalled = last;
    for (const end of stalled) end.unpipe().pause();
    for (const end of ends) if (!stalled.includes(end)) end.destroy();
  };
  t.after(() => {
    line.cut();
    server.close();
  });
  return line;
}

// Each story has a question and a browser context of its own, so that they can run side by side.
describe("chat", {concurrency: 3}, () => {
  test("a reload in the middle goes on with the answer", async (t) => {
    const question = "What does a reload cost?";
    const {page, requests, words} = await ask(t, question);
    await send(question, {count: 3});
    await sees(page, words.slice(0, 3));
    await page.reload();
    const again = await until(() => requests[1]?.response(), "the page to ask again");
    assert.equal(again.headers()["idempotency-status"], "attached");
    await sees(page, words.slice(0, 3));
    await send(question, {count: 2});
    await sees(page, words.slice(0, 5));
    await ends(page, question, words);
    const [first, second] = requests.map((request) => request.headers());
    assert.equal(requests.length, 2);
    assert.equal(second["idempotency-key"], first["idempotency-key"]);
    assert.equal(requests[1].postData(), requests[0].postData());
    assert.match(second["last-event-id"], /\/3$/);
  });

  test("a connection that is cut in the middle is replaced, and the words of the meantime are there", async (t) => {
    const question = "What if the line is cut?";
    const line = await startLine(t);
    const {page, requests, words} = await ask(t, question, {origin: line.origin, expected: lost});
    await send(question, {count: 3});
    await sees(page, words.slice(0, 3));
    line.cut();
    await state(page, "offline");
    await until(() => line.refused > 0, "the page to try in vain");
    await send(question, {count: 4});
    await until(async () => (await calls(question))[0].words === 7, "the model to go on");
    assert.equal(await text(page), words.slice(0, 3).join(" "));
    line.mend();
    await sees(page, words.slice(0, 7));
    await ends(page, question, words);
    assert.match(requests.at(-1).headers()["last-event-id"], /\/3$/);
  });

  test("without a network the page waits for it", async (t) => {
    const question = "What if the train is in a tunnel?";
    const {page, requests, words} = await ask(t, question, {expected: lost, clock: true});
    await send(question, {count: 2});
    await sees(page, words.slice(0, 2));
    await page.context().setOffline(true);
    await state(page, "offline");
    await send(question, {count: 5});
    await until(async () => (await calls(question))[0].words === 7, "the model to go on");
    await page.clock.fastForward(10_000);
    assert.equal(requests.length, 1, "it does not try while it is offline");
    await page.context().setOffline(false);
    await sees(page, words.slice(0, 7));
    await ends(page, question, words);
  });

  test("a connection that is dead without an error is replaced after a silence", async (t) => {
    const question = "What if nothing comes any more?";
    const line = await startLine(t);
    const {page, words} = await ask(t, question, {origin: line.origin, clock: true});
    await send(question, {count: 3});
    await sees(page, words.slice(0, 3));
    line.stall();
    await send(question, {count: 2});
    await until(async () => (await calls(question))[0].words === 5, "the model to go on");
    assert.equal(await text(page), words.slice(0, 3).join(" "));
    await page.clock.fastForward(31_000);
    await sees(page, words.slice(0, 5));
    await ends(page, question, words);
  });

  test("an answer that ended while the page was closed is there when it is opened", async (t) => {
    const question = "What if nobody is reading?";
    const {page, words} = await ask(t, question);
    await send(question, {count: 1});
    await sees(page, words.slice(0, 1));
    await page.close();
    await send(question, {count: all});
    await until(async () => (await calls(question))[0].words === words.length, "the model to end");
    const back = await page.context().newPage();
    await back.goto(once);
    await state(back, "whole");
    assert.equal(await text(back), words.join(" "));
    assert.equal((await calls(question)).length, 1);
  });

  test("an event that is not in the stream starts the text anew", async (t) => {
    const question = "What if the id is of another stream?";
    const {page, words} = await ask(t, question);
    await send(question, {count: 3});
    await sees(page, words.slice(0, 3));
    const line = page.url();
    await page.goto("about:blank"); // nothing is saved any more
    const changed = await page.context().newPage();
    await changed.route("**/chat.js", (route) => route.fulfill({contentType: "text/javascript", body: ""}));
    await changed.goto(line);
    await changed.evaluate(() => {
      const name = Object.keys(localStorage).find((item) => item.startsWith("chat/turn/"));
      localStorage.setItem(name, JSON.stringify({...JSON.parse(localStorage.getItem(name)), text: "words of another stream", lastEventId: "x/1"}));
    });
    await changed.close();
    await page.goto(line);
    await sees(page, words.slice(0, 3));
    await ends(page, question, words);
  });

  test("an answer that broke off is not asked for again by itself", async (t) => {
    const question = "What if the model dies?";
    const {page, words} = await ask(t, question, {expected: lost});
    await send(question, {count: 3});
    await sees(page, words.slice(0, 3));
    await send(question, {cut: true});
    await state(page, "broken");
    assert.equal(await text(page), words.slice(0, 3).join(" "));
    assert.equal((await calls(question)).length, 1);
    await page.reload();
    await state(page, "broken");
    await shown(page).getByRole("button", {name: "Ask again"}).click();
    await send(question, {count: all});
    await state(page, "whole", 1);
    assert.equal(await text(page, 1), words.join(" "));
    assert.equal((await calls(question)).length, 2);
  });

  test("an answer that was stopped is shown as stopped", async (t) => {
    const question = "What if I have read enough?";
    const {page, requests, words} = await ask(t, question, {expected: lost});
    await send(question, {count: 3});
    await sees(page, words.slice(0, 3));
    const {authorization, "idempotency-key": key} = requests[0].headers();
    const stop = await fetch(requests[0].url(), {method: "DELETE", headers: {authorization, "idempotency-key": key, "idempotency-stop": "POST"}});
    assert.deepEqual([stop.status, stop.headers.get("idempotency-stopped")], [204, "true"]);
    await state(page, "stopped");
    assert.equal(await text(page), words.slice(0, 3).join(" "));
    assert.match(await shown(page).locator(".state").textContent(), /was stopped/);
    await page.reload();
    await state(page, "stopped");
    assert.equal((await calls(question)).length, 1);
    await send(question, {cut: true}); // the model waits for the test
  });
});
