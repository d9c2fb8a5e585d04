// The table of keys: a key that is stuck is found, looked at and settled, and the retry gets its answer.
import assert from "node:assert/strict";
import {describe, test} from "node:test";
import {Gateway, openPage, payments, shareGateway, startBackend, tooPale, tooWide, unnamed, until} from "./support.mjs";

const hold = ["defaults.on_unknown=hold"];
const caller = {headers: {Authorization: "Bearer alice"}};

const seen = [];
function remembered(request, response, body) {
  seen.push(request.url);
  payments(request, response, body);
}

const rows = (page) => page.locator("#keys-body tr");
const openKeys = (t, gateway, options) => openPage(t, `${gateway.admin}/#keys`, options);

// A key whose outcome nobody knows, and how often the backend was asked for it.
async function stuck({gateway}, key) {
  const target = `/die/${key}`;
  const pay = () => gateway.pay(key, target, caller);
  assert.equal((await pay()).status, 502);
  assert.equal((await pay()).status, 409);
  const found = await fetch(`${gateway.admin}/v1/keys/find`, {method: "POST", headers: {"Once-Admin": "1"},
    body: JSON.stringify({key, method: "POST", path: target, host: new URL(gateway.url).host, headers: [["Authorization", "Bearer alice"]]})});
  assert.equal(found.status, 200);
  return {pay, target, id: (await found.json()).id, times: () => seen.filter((url) => url === target).length};
}
const open = (page, id) => page.locator(`tr[data-id="${id}"]`).getByRole("button").click();

async function confirm(page, action, reason = "looked at the ledger") {
  await page.locator(`#key-dialog [data-action=${action}]`).click();
  await page.locator("#a-reason").fill(reason);
  await page.locator("#a-by").fill("an operator");
}

describe("keys", {concurrency: false}, () => {
  const shared = shareGateway(remembered, {settings: hold});

  test("a stuck key is found, inspected and resolved, and the retry gets the answer", async (t) => {
    const {gateway} = shared;
    const {pay, id, times} = await stuck(shared, "order-1");
    assert.equal((await gateway.pay("order-2", "/payments", caller)).status, 201);
    const page = await openKeys(t, gateway);
    await until(async () => (await rows(page).count()) === 2, "both keys");
    await page.getByLabel("State").selectOption("unknown");
    await until(async () => (await rows(page).count()) === 1, "the one that is stuck, without another click");
    assert.match(await rows(page).first().textContent(), /Unknown/);
    await open(page, id);
    const dialog = page.locator("#key-dialog");
    await dialog.waitFor();
    assert.match(await dialog.textContent(), /Attempt1.*Ownernone/);
    assert.doesNotMatch(await dialog.textContent(), /Body kept/, "there is none to keep yet");
    assert.deepEqual(await unnamed(page), []);
    assert.deepEqual((await tooPale(page)).found, []);
    await confirm(page, "resolve");
    assert.match(await page.locator("#action-dialog").textContent(), /Every retry until the key expires gets the response above/);
    assert.deepEqual((await tooPale(page)).found, []);
    await page.locator("#a-status").fill("201");
    await page.getByRole("button", {name: "Resolve", exact: true}).click();
    assert.match(await page.locator("#action-dialog .error").textContent(), /An empty body is not JSON/);
    await page.locator("#a-body").fill("{half");
    await page.getByRole("button", {name: "Resolve", exact: true}).click();
    assert.match(await page.locator("#action-dialog .error").textContent(), /not JSON/);
    await page.locator("#a-body").fill('{"settled":"by hand"}');
    await page.getByRole("button", {name: "Resolve", exact: true}).click();
    await until(async () => /Succeeded/.test(await dialog.textContent()), "the key to be settled");
    const retry = await pay();
    assert.equal(retry.status, 201);
    assert.equal(retry.headers.get("Idempotency-Status"), "replayed");
    assert.deepEqual(await retry.json(), {settled: "by hand"});
    assert.equal(times(), 1, "the backend was asked once");
    // The answer is shown on demand only.
    assert.equal(await dialog.locator("pre").count(), 0);
    await dialog.getByRole("button", {name: "Show the recorded response"}).click();
    await dialog.locator("pre").waitFor();
    assert.match(await dialog.locator("pre").textContent(), /Status 201[^]*by hand/);
    // Who did it is in the log.
    await until(() => gateway.lines().some((line) => line.message === "audit" && line.by === "an operator"), "the line of the audit");
  });

  for (const action of ["release", "forget"]) {
    test(`after ${action} the next request executes anew`, async (t) => {
      const {pay, id, times} = await stuck(shared, action);
      const page = await openKeys(t, shared.gateway);
      await open(page, id);
      await confirm(page, action);
      assert.match(await page.locator("#action-effect").textContent(), /executes/);
      await page.locator("#action-dialog button[type=submit]").click();
      await until(async () => !(await page.locator("#action-dialog").isVisible()), "the end of it");
      assert.equal((await pay()).status, 502);
      assert.equal(times(), 2);
    });
  }

  test("resolved as failed, the retry executes", async (t) => {
    const {pay, id, times} = await stuck(shared, "failed");
    const page = await openKeys(t, shared.gateway);
    await open(page, id);
    await confirm(page, "resolve");
    await page.getByLabel("It failed, nothing was done").check();
    assert.match(await page.locator("#action-effect").textContent(), /The next retry is sent to the backend/);
    assert.equal(await page.locator("#a-body").isVisible(), false);
    await page.getByRole("button", {name: "Resolve", exact: true}).click();
    await until(async () => /Failed/.test(await page.locator("#key-dialog").textContent()), "the key to have failed");
    await pay();
    assert.equal(times(), 2);
  });

  test("resolved without a response, the retry is told so and not executed", async (t) => {
    const {pay, id, times} = await stuck(shared, "without");
    const page = await openKeys(t, shared.gateway);
    await open(page, id);
    await confirm(page, "resolve");
    await page.getByLabel("the response is unknown").check();
    assert.match(await page.locator("#action-effect").textContent(), /response-not-kept/);
    assert.equal(await page.locator("#a-body").isVisible(), false);
    await page.getByRole("button", {name: "Resolve", exact: true}).click();
    await until(async () => /Body keptno/.test(await page.locator("#key-dialog").textContent()), "the key to have succeeded");
    const retry = await pay();
    assert.deepEqual([retry.status, (await retry.json()).code], [409, "response-not-kept"]);
    assert.equal(times(), 1);
  });

  test("a key that changed meanwhile is left alone, and a reason is needed", async (t) => {
    const {gateway} = shared;
    const {pay, id, times} = await stuck(shared, "changed");
    const page = await openKeys(t, gateway, {expected: [/status of 409/]});
    await open(page, id);
    await page.locator("#key-dialog [data-action=release]").click();
    await page.locator("#action-dialog button[type=submit]").click();
    assert.equal(await page.locator("#a-reason").evaluate((field) => field.validity.valueMissing), true);
    await page.locator("#a-reason").fill("too late");
    // Somebody else was faster.
    const key = await (await fetch(`${gateway.admin}/v1/keys/${id}`)).json();
    const other = await fetch(`${gateway.admin}/v1/keys/${id}/resolve`, {method: "POST", headers: {"Once-Admin": "1"},
      body: JSON.stringify({version: key.version, state: "succeeded", response: {status: 200, headers: [], body: "first"}, reason: "r", by: "b"})});
    assert.equal(other.status, 200);
    await page.locator("#action-dialog button[type=submit]").click();
    await until(async () => /look at the key again/.test(await page.locator("#action-dialog .error").textContent()), "the refusal");
    assert.equal(await (await pay()).text(), "first");
    assert.equal(times(), 1);
  });

  test("a key is found by what the client sent, and by nothing else", async (t) => {
    const {gateway} = shared;
    const {id, target} = await stuck(shared, "secret-key-to-find");
    const page = await openKeys(t, gateway, {expected: [/status of 404/]});
    await page.getByRole("button", {name: "Find by raw key…"}).click();
    await page.getByLabel("Key", {exact: true}).fill("secret-key-to-find");
    await page.getByLabel("Path").fill(target);
    await page.getByLabel(/Host/).fill(new URL(gateway.url).host);
    await page.keyboard.press("Enter");
    await page.getByText("There is no such key.").waitFor();
    await page.getByLabel(/Headers/).fill("Authorization: Bearer alice");
    await page.locator("#find-form button[type=submit]").click();
    await page.locator("#key-dialog").waitFor();
    assert.match(await page.locator("#key-dialog").textContent(), new RegExp(id));
    assert.ok(!/"[^"]*alice/.test(gateway.stderr));
    assert.ok(!(await page.content()).includes("Bearer alice") || (await page.locator("#find-headers").inputValue()) === "", "what was typed is gone");
  });

  test("more keys than a page holds are paged through", async (t) => {
    const {gateway} = shared;
    for (let i = 0; i < 60; i += 10) await Promise.all(Array.from({length: 10}, (_, j) => gateway.pay(`k${i + j}`, "/many")));
    const page = await openKeys(t, gateway, {blank: true});
    await page.route("**/v1/keys?*", (route) => route.continue({url: route.request().url().replace("limit=500", "limit=50")}));
    await page.goto(`${gateway.admin}/#keys`);
    await rows(page).first().waitFor();
    const more = page.getByRole("button", {name: "More"});
    await more.waitFor();
    while (await more.isVisible()) {
      const before = await rows(page).count();
      await more.click();
      await until(async () => (await rows(page).count()) > before || !(await more.isVisible()), "more keys");
    }
    const ids = await rows(page).evaluateAll((all) => all.map((row) => row.dataset.id));
    assert.ok(ids.length >= 60, `${ids.length}`);
    assert.equal(new Set(ids).size, ids.length);
    await page.getByLabel("Age").selectOption("older_than=24h");
    await page.getByRole("button", {name: "Search"}).click();
    await page.getByText("No key matches these filters.").waitFor();
  });

  test("the newest keys come first, and the button of a column sorts by it", async (t) => {
    const {gateway} = shared;
    for (const name of ["b", "a", "c"]) assert.equal((await gateway.pay(`sorted-${name}`, `/sorted/${name}`, caller)).status, 201);
    const page = await openKeys(t, gateway);
    const paths = async () => (await page.locator('#keys-body td[data-label="Request"]').allTextContents()).filter((text) => text.includes("/sorted/"));
    await rows(page).first().waitFor();
    assert.deepEqual(await paths(), ["POST /sorted/c", "POST /sorted/a", "POST /sorted/b"]);
    const request = page.locator('th[data-sort="request"]');
    await request.getByRole("button").click();
    assert.equal(await request.getAttribute("aria-sort"), "ascending");
    assert.deepEqual(await paths(), ["POST /sorted/a", "POST /sorted/b", "POST /sorted/c"]);
    await request.getByRole("button").click();
    assert.equal(await request.getAttribute("aria-sort"), "descending");
    assert.deepEqual(await paths(), ["POST /sorted/c", "POST /sorted/b", "POST /sorted/a"]);
    assert.equal(await page.locator('th[data-sort="started"]').getAttribute("aria-sort"), null);
    await rows(page).first().getByRole("button").click();
    await page.locator("#key-dialog").waitFor();
    assert.match(await page.locator("#key-dialog").textContent(), /RequestPOST \/.*Request id[0-9a-f]{32}Caller[0-9a-f]{16}/);
  });

  test("with the keyboard alone", async (t) => {
    const {gateway} = shared;
    const {pay, id, times} = await stuck(shared, "keyboard");
    const page = await openPage(t, gateway.admin);
    await page.waitForSelector('#live[data-state="live"]');
    const focused = () => page.evaluate(() => {
      const {id, dataset, className} = document.activeElement;
      return id || dataset.action || document.activeElement.closest("tr")?.dataset.id || className;
    });
    const tabTo = async (wanted) => {
      for (let i = 0; i < 120; ++i) {
        await page.keyboard.press("Tab");
        const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
        if ((await focused()) !== wanted) continue;
        assert.notEqual(outline, "none", `${wanted} shows that it has the focus`);
        return;
      }
      assert.fail(`${wanted} cannot be reached`);
    };
    await tabTo("nav-keys");
    await page.keyboard.press("Enter");
    await tabTo("f-state");
    // Not by typing its name: a browser that is slow takes the letters for several words.
    const state = page.getByLabel("State");
    for (let i = 0; i < 9 && (await state.inputValue()) !== "unknown"; ++i) await page.keyboard.press("ArrowDown");
    assert.equal(await state.inputValue(), "unknown");
    await page.keyboard.press("Enter");
    await page.locator(`tr[data-id="${id}"]`).waitFor();
    await tabTo(id);
    await page.keyboard.press("Enter");
    await page.locator("#key-dialog").waitFor();
    await page.keyboard.press("Escape");
    assert.equal(await focused(), id, "the focus is where it was");
    await page.keyboard.press("Enter");
    await page.locator("#key-dialog").waitFor();
    await tabTo("release");
    await page.keyboard.press("Enter");
    await tabTo("a-reason");
    await page.keyboard.type("by hand");
    await page.keyboard.press("Enter");
    await until(async () => !(await page.locator("#action-dialog").isVisible()), "the release");
    await pay();
    assert.equal(times(), 2);
  });

  test("all that fit the filters are settled at once, and what changed meanwhile is left alone", async (t) => {
    const backend = await startBackend(t, remembered);
    const gateway = await Gateway.start(t, backend, {settings: hold});
    const many = [];
    for (let i = 0; i < 103; ++i) many.push(await stuck({gateway}, `many-${i}`));
    assert.equal((await gateway.pay("fine", "/payments", caller)).status, 201);
    const page = await openKeys(t, gateway);
    await page.getByLabel("State").selectOption("unsettled");
    await page.getByRole("button", {name: "Settle all matching keys…"}).click();
    const dialog = page.locator("#bulk-dialog");
    await until(async () => /103 keys: 103 unknown\. Routes: 103 \/\*\*/.test(await dialog.textContent()), "the count");
    const submit = dialog.locator("button[type=submit]");
    assert.equal(await submit.isDisabled(), true, "nothing is chosen yet");
    await dialog.getByLabel("Release them").check();
    assert.match(await page.locator("#bulk-effect").textContent(), /executes/);
    assert.equal(await submit.textContent(), "Release 103 keys");
    assert.deepEqual(await unnamed(page), []);
    assert.deepEqual((await tooPale(page)).found, []);
    await submit.click();
    assert.equal(await page.locator("#bulk-reason").evaluate((reason) => reason.validity.valueMissing), true, "a reason is needed");
    await page.locator("#bulk-reason").fill("after the crash");
    await page.locator("#bulk-by").fill("an operator");
    await submit.click();
    assert.equal(await page.locator("#bulk-sure").evaluate((sure) => sure.validity.valueMissing), true, "and a yes");
    // Somebody else was faster with one of them.
    const key = await (await fetch(`${gateway.admin}/v1/keys/${many[7].id}`)).json();
    const other = await fetch(`${gateway.admin}/v1/keys/${many[7].id}/resolve`, {method: "POST", headers: {"Once-Admin": "1"},
      body: JSON.stringify({version: key.version, state: "succeeded", response: {status: 299, headers: [], body: "first"}, reason: "r", by: "b"})});
    assert.equal(other.status, 200);
    await page.locator("#bulk-sure").check();
    await submit.click();
    await until(async () => /Released 102 keys\. 1 key had changed/.test(await dialog.textContent()), "the result");
    assert.match(await dialog.locator(".problems").textContent(), new RegExp(many[7].id.slice(0, 16)));
    assert.deepEqual((await tooPale(page)).found, []);
    await dialog.getByRole("button", {name: "Close"}).click();
    await until(async () => (await rows(page).count()) === 0, "the table to be up to date");
    assert.equal((await many[7].pay()).status, 299);
    assert.equal((await many[8].pay()).status, 502, "executed again");
    assert.equal(many[8].times(), 2);
    const lines = gateway.lines().filter((line) => line.message === "audit" && line.reason === "after the crash");
    assert.equal(lines.length, 103);
  });

  test("on a phone nothing is cut off", async (t) => {
    const {id} = await stuck(shared, "phone");
    const page = await openKeys(t, shared.gateway, {viewport: {width: 360, height: 740}, hasTouch: true, isMobile: true});
    await page.getByLabel("State").selectOption("unknown");
    await page.getByRole("button", {name: "Search"}).click();
    await page.locator(`tr[data-id="${id}"]`).waitFor();
    assert.deepEqual(await tooWide(page), []);
    await open(page, id);
    await page.locator("#key-dialog").waitFor();
    assert.deepEqual(await tooWide(page), []);
    await page.locator("#key-dialog [data-action=resolve]").click();
    assert.deepEqual(await tooWide(page), []);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await page.getByRole("button", {name: "Settle all matching keys…"}).click();
    await until(async () => /1 unknown|unknown\./.test(await page.locator("#bulk-counted").textContent()), "the count");
    assert.deepEqual(await tooWide(page), []);
  });

  test("what clients and backends wrote is text, whatever it looks like", async (t) => {
    const hostile = '<img src=x onerror="alert(1)"><script>alert(2)</script>';
    const backend = await startBackend(t, (request, response) => response.writeHead(201, {"X-Note": hostile, "Content-Type": "text/html"}).end(hostile));
    const gateway = await Gateway.start(t, backend);
    await gateway.pay("k", "/%3Csvg/onload=alert(3)%3E");
    const page = await openKeys(t, gateway, {blank: true});
    await page.route("**/v1/keys?*", async (route) => {
      const answer = await (await route.fetch()).json();
      for (const key of answer.keys) Object.assign(key, {route: hostile, path: hostile, caller: hostile});
      await route.fulfill({json: answer});
    });
    await page.goto(`${gateway.admin}/#keys`);
    await rows(page).first().waitFor();
    assert.ok((await rows(page).first().textContent()).includes(hostile));
    await rows(page).first().getByRole("button").click();
    await page.getByRole("button", {name: "Show the recorded response"}).click();
    await page.locator("#key-dialog pre").waitFor();
    assert.ok((await page.locator("#key-dialog pre").textContent()).includes(hostile));
    assert.equal(await page.locator("main img, main script, main svg:not(.plot), dialog img, dialog script").count(), 0);
  });
});
