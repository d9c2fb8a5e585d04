// The overview: it moves with real traffic, alerts change, and it can be read in any colours, width and way.
import assert from "node:assert/strict";
import {describe, test} from "node:test";
import {Gateway, openPage, payments, shareGateway, startBackend, tooPale, tooWide, unnamed, until} from "./support.mjs";

const text = (page, selector) => page.locator(selector).textContent();

describe("overview", {concurrency: false}, () => {
  const shared = shareGateway(payments);

  test("charts and figures move with the traffic", async (t) => {
    const {gateway, backend} = shared;
    const page = await openPage(t, gateway.admin);
    await page.waitForSelector('#live[data-state="live"]');
    assert.equal(await text(page, "#figure-rate"), "0");
    const shape = () => page.locator(".chart .area.t-blue").first().getAttribute("points");
    await page.waitForSelector(".chart .area.t-blue", {state: "attached"});
    const before = await shape();
    for (let i = 0; i < 30; ++i) await Promise.all([gateway.pay(`k${i}`), gateway.pay(`k${i}`)]);
    // A browser that pauses must not miss them: they go on until it has seen some.
    let more = 30;
    const withTraffic = (look) => async () => {
      const key = `k${more++}`;
      await Promise.all([gateway.pay(key), gateway.pay(key)]);
      return look();
    };
    await until(withTraffic(async () => (await text(page, "#figure-rate")) !== "0"), "the rate of requests");
    await until(withTraffic(async () => (await shape()) !== before), "the chart to move");
    await until(async () => /%/.test(await text(page, "#figure-hits")), "the hit rate");
    assert.match(await text(page, "#figure-p95"), /(ms|µs|s)$/);
    await until(async () => (await page.locator(".chart .line.t-violet").count()) > 0, "the size of batches");
    assert.match(await text(page, "#store"), /journal/);
    await until(async () => /up/.test(await text(page, "#store .light")), "the store to be up");
    assert.match(await text(page, "#upstreams"), new RegExp(`up${backend.origin}`));
    // The history is there for whoever comes later, and the charts are there as text.
    await until(async () => (await (await fetch(`${gateway.admin}/v1/history`)).json()).points.length >= 2, "a point of the history");
    const later = await openPage(t, gateway.admin);
    await later.waitForSelector('#live[data-state="live"]');
    await later.getByRole("button", {name: "Show as tables"}).click();
    const rows = later.locator(".chart").first().locator("tbody tr");
    assert.ok((await rows.count()) >= 2);
    assert.ok((await later.locator(".chart").first().locator("tbody td").allTextContents()).some((value) => /[1-9]/.test(value)));
  });

  test("an earlier moment is read with the arrow keys", async (t) => {
    const {gateway} = shared;
    const page = await openPage(t, gateway.admin);
    await page.waitForSelector('#live[data-state="live"]');
    const frame = page.locator(".chart .frame").first();
    await frame.focus();
    await page.keyboard.press("Home");
    assert.notEqual(await page.locator(".chart .moment").first().textContent(), "now");
    assert.match(await frame.getAttribute("aria-label"), /Requests per second.*Executed/);
    await page.keyboard.press("Escape");
    assert.equal(await page.locator(".chart .moment").first().textContent(), "now");
  });

  test("alerts fire for what goes wrong, and say so once", async (t) => {
    const backend = await startBackend(t, payments);
    const gateway = await Gateway.start(t, backend, {settings: ["defaults.on_unknown=hold"]});
    const page = await openPage(t, gateway.admin);
    await until(async () => /^No alerts/.test(await text(page, "#alerts-summary")), "no alerts");
    assert.equal((await gateway.pay("lost", "/die")).status, 502);
    const row = page.locator('#alerts-firing [data-name="OnceOutcomesUnknown"]');
    await row.waitFor();
    assert.match(await row.textContent(), /warning.*Outcomes unknown.*with an unknown outcome in 15 minutes: 1/);
    assert.match(await text(page, "#announce"), /Outcomes unknown/);
    // As long as the key is stuck, and it leads there.
    await page.locator('#alerts-firing [data-name="OnceKeysHeldUnknown"]').waitFor();
    assert.match(await text(page, "#alerts-summary"), /^2 of \d+ rules are firing/);
    assert.equal(await text(page, "#figure-unknown"), "1");
    await page.locator("#figure-unknown").click();
    await page.locator("#keys-body tr").first().waitFor();
    assert.equal(await page.getByLabel("State").inputValue(), "unknown");
    await page.locator("#nav-overview").click();
    assert.equal(await page.locator('#alerts-list [data-name="OnceFailuresHigh"]').getAttribute("data-state"), "idle");
    for (let i = 0; i < 24; ++i) assert.equal((await gateway.pay(`f${i}`, "/fail")).status, 500);
    await page.locator('#alerts-firing [data-name="OnceFailuresHigh"]').waitFor();
    backend.stop();
    for (let i = 0; i < 4; ++i) await gateway.pay(`d${i}`);
    await page.locator('#alerts-firing [data-name="OnceUpstreamAllDown"][data-severity="critical"]').waitFor();
    await until(async () => /down/.test(await text(page, "#upstreams")), "the backend to be shown as down");
    assert.deepEqual((await tooPale(page)).found, []);
    const phone = await openPage(t, gateway.admin, {viewport: {width: 360, height: 740}, hasTouch: true, isMobile: true});
    await phone.locator("#alerts-firing li").nth(1).waitFor();
    assert.deepEqual(await tooWide(phone), [], "on a phone");
  });

  test("a gateway that goes away and comes back is noticed", async (t) => {
    const backend = await startBackend(t, payments);
    const first = await Gateway.start(t, backend);
    const page = await openPage(t, first.admin, {expected: [/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET/]});
    await page.waitForSelector('#live[data-state="live"]');
    first.process.kill("SIGTERM");
    await page.waitForSelector('#live[data-state="lost"]');
    await first.ended;
    await Gateway.start(t, backend, {admin: new URL(first.admin).host.replace("localhost", "127.0.0.1")});
    await page.waitForSelector('#live[data-state="live"]');
  });

  test("light and dark, by the system and by hand", async (t) => {
    const {gateway} = shared;
    const page = await openPage(t, gateway.admin, {colorScheme: "dark"});
    await page.waitForSelector('#live[data-state="live"]');
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await ground();
    for (const theme of ["dark", "light"]) {
      await page.emulateMedia({colorScheme: theme});
      const {found, looked} = await tooPale(page);
      assert.deepEqual(found, [], theme);
      assert.ok(looked > 40);
    }
    const light = await ground();
    assert.notEqual(light, dark);
    await page.getByRole("button", {name: "Colours: same as the system"}).click();
    await page.emulateMedia({colorScheme: "dark"});
    assert.equal(await ground(), light);
    await page.reload();
    assert.equal(await ground(), light);
    await page.getByRole("button", {name: "Colours: light"}).click();
    await page.emulateMedia({colorScheme: "light"});
    assert.equal(await ground(), dark);
  });

  test("a phone shows all of it without moving sideways", async (t) => {
    const {gateway} = shared;
    const page = await openPage(t, gateway.admin, {viewport: {width: 360, height: 740}, hasTouch: true, isMobile: true});
    await page.waitForSelector('#live[data-state="live"]');
    assert.deepEqual(await tooWide(page), []);
    await page.locator("#alerts-all summary").click();
    await page.getByRole("button", {name: "Show as tables"}).click();
    assert.deepEqual(await tooWide(page), []);
  });

  test("everything has a name, and motion stops where it is not wanted", async (t) => {
    const {gateway} = shared;
    const page = await openPage(t, gateway.admin);
    await page.waitForSelector('#live[data-state="live"]');
    assert.deepEqual(await unnamed(page), []);
    assert.deepEqual(await page.evaluate(() => document.getAnimations().length), 0);
    for (const landmark of ["banner", "main", "navigation"]) assert.equal(await page.getByRole(landmark).count(), 1, landmark);
    assert.equal(await page.locator("h1:visible").count(), 1);
  });

  test("names that are markup are shown as they are", async (t) => {
    const {gateway} = shared;
    const hostile = '<img src=x onerror="alert(1)"><script>alert(2)</script>';
    const page = await openPage(t, gateway.admin, {blank: true});
    const stats = await gateway.stats();
    stats.version = hostile;
    stats.store.kind = hostile;
    stats.upstreams = [{name: hostile, queued: 0, servers: [{name: hostile, up: true, connections: 1}]}];
    stats.limits = [{name: hostile, used: 1, limit: 2}];
    stats.alerts = [{name: hostile, severity: "warning", title: hostile, state: "firing", detail: hostile}];
    const event = `event: stats\ndata: ${JSON.stringify(stats)}\n\n`;
    await page.route("**/v1/events", (route) => route.fulfill({contentType: "text/event-stream", body: event}));
    await page.goto(gateway.admin);
    await until(async () => (await text(page, "#version")) === hostile, "the name");
    for (const place of ["#store", "#upstreams", "#limits", "#alerts-firing", "#alerts-list"]) assert.ok((await text(page, place)).includes(hostile), place);
    assert.equal(await page.locator("main img, main script").count(), 0);
  });
});
