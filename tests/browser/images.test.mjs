// The pictures in docs/operate/dashboard.md. Made anew with ONCE_UPDATE_DOCS=1; otherwise they must be there.
import assert from "node:assert/strict";
import {mkdirSync, readFileSync} from "node:fs";
import path from "node:path";
import {describe, test} from "node:test";
import {Gateway, openPage, startBackend, until} from "./support.mjs";

const folder = path.join(process.env.ONCE_SOURCE, "docs", "images");
const names = ["dashboard-light.png", "dashboard-dark.png", "dashboard-phone.png", "dashboard-keys.png"];
const trafficSeconds = Number(process.env.ONCE_IMAGE_SECONDS ?? 60);

// A shop on an ordinary day: most of it is new, some of it is retried, some of it fails.
async function traffic(gateway, end, name) {
  for (let i = 0; Date.now() < end; ++i) {
    const wave = 3 + Math.round(2.5 * Math.sin(i / 9)) + (i % 5);
    const work = [];
    for (let j = 0; j < wave; ++j) {
      const key = `${name}-${i}-${j}`;
      const send = () => gateway.pay(key, j % 3 === 0 ? "/orders" : "/payments");
      work.push(send().then(() => (j % 2 === 0 ? send() : null)));
    }
    if (i % 37 === 36) work.push(gateway.pay(`${name}-f-${i}`, "/fail"));
    work.push(fetch(`${gateway.url}/catalogue`));
    await Promise.all(work);
    await new Promise((resolve) => setTimeout(resolve, 80 + 60 * Math.random()));
  }
}

describe("images", () => {
  test("the documentation shows the dashboard", async (t) => {
    if (process.env.ONCE_UPDATE_DOCS === "1") await make(t);
    for (const name of names) {
      const bytes = readFileSync(path.join(folder, name));
      assert.equal(bytes.subarray(1, 4).toString(), "PNG", name);
      assert.ok(bytes.length > 10_000, name);
    }
  });
});

async function make(t) {
  mkdirSync(folder, {recursive: true});
  const backend = await startBackend(t, (request, response) => {
    if (request.url.startsWith("/die")) return response.destroy();
    const wait = Math.random() < 0.05 ? 60 : 3 + 14 * Math.random();
    setTimeout(() => response.writeHead(request.url.startsWith("/fail") ? 500 : 201, {"Content-Type": "application/json"}).end('{"id":"p-1"}'), wait);
  });
  const gateway = await Gateway.start(t, backend, {config: "routes:\n  - path: /payments\n    on_unknown: hold\n  - path: /orders\n  - path: /**\n    on_unknown: hold\n"});
  await traffic(gateway, Date.now() + trafficSeconds * 1000, "before");
  await gateway.pay("stuck", "/die");
  const going = traffic(gateway, Date.now() + 12_000, "now");
  const options = {viewport: {width: 1440, height: 1020}, deviceScaleFactor: 1.5};
  for (const colorScheme of ["light", "dark"]) {
    const page = await openPage(t, gateway.admin, {...options, colorScheme});
    await page.locator("#alerts-firing li").first().waitFor();
    await until(async () => (await page.locator(".chart .line").count()) > 4, "lines");
    await page.screenshot({path: path.join(folder, `dashboard-${colorScheme}.png`)});
  }
  const phone = await openPage(t, gateway.admin, {viewport: {width: 360, height: 780}, deviceScaleFactor: 2, isMobile: true, colorScheme: "light"});
  await phone.locator("#alerts-firing li").first().waitFor();
  await phone.screenshot({path: path.join(folder, "dashboard-phone.png")});
  await going;
  const keys = await openPage(t, `${gateway.admin}/#keys`, {...options, viewport: {width: 1440, height: 900}, colorScheme: "light"});
  await keys.getByLabel("State").selectOption("unknown");
  await keys.getByRole("button", {name: "Search"}).click();
  await until(async () => (await keys.locator("#keys-body tr").count()) === 1, "the stuck key");
  await keys.locator("#keys-body button").first().click();
  await keys.locator("#key-dialog [data-action=resolve]").click();
  await keys.locator("#a-reason").fill("The ledger has the payment");
  await keys.screenshot({path: path.join(folder, "dashboard-keys.png")});
}
