// What a page does with "once/fetch"; bundle_test.py bundles it and runs the bundle where there is nothing of Node.
import { fetchOnce } from "once/fetch";

globalThis.done = fetchOnce("https://api.example/orders", { method: "POST", body: "{}" }, { firstPauseMs: 1 })
  .then(async (response) => ({ status: response.status, text: await response.text() }));
