// Live streams on the overview: one is seen while it goes on, and stopped.
import assert from "node:assert/strict";
import {describe, test} from "node:test";
import {openPage, shareGateway, tooPale, tooWide, unnamed, until} from "./support.mjs";

const told = "data: one\n\n";

// It never ends by itself.
function chat(request, response) {
  response.writeHead(200, {"Content-Type": "text/event-stream"});
  response.write(told);
}

describe("streams", {concurrency: false}, () => {
  const shared = shareGateway(chat);

  test("a stream is listed while it goes on, and an operator stops it", async (t) => {
    const {gateway} = shared;
    const page = await openPage(t, gateway.admin);
    await page.waitForSelector('#live[data-state="live"]');
    assert.equal(await page.locator("#streams").isVisible(), false);
    const caller = {headers: {Authorization: "Bearer alice"}};
    const reading = await gateway.pay("talk", "/chat", caller);
    const reader = reading.body.getReader();
    assert.equal(new TextDecoder().decode((await reader.read()).value), told);
    const row = page.locator("#streams-body tr");
    await row.waitFor();
    assert.match(await row.textContent(), /\/\*\*.*ago.*11 B1Stop/);
    assert.deepEqual(await unnamed(page), []);
    assert.deepEqual((await tooPale(page)).found, []);
    await page.setViewportSize({width: 360, height: 700});
    await until(async () => (await tooWide(page)).length === 0, "the page to be drawn for the new width");
    await row.getByRole("button", {name: /^Stop the stream/}).click();
    await page.locator("#action-dialog").getByText(/The part that was recorded becomes the response/).waitFor();
    await page.locator("#a-reason").fill("runs away");
    await page.getByRole("button", {name: "Stop", exact: true}).click();
    await assert.rejects(async () => {
      while (!(await reader.read()).done);
    }, "the reader is cut off");
    await until(async () => !(await page.locator("#streams").isVisible()), "the list to be empty");
    const retry = await gateway.pay("talk", "/chat", caller);
    assert.equal(retry.headers.get("Idempotency-Stopped"), "true");
    assert.equal(await retry.text(), told);
    await until(() => gateway.lines().some((line) => line.message === "audit" && line.action === "stop" && line.result === "done"), "the line of the audit");
  });
});
