// What a page does with "once/fetch"; bundle_test.py bundles it and runs the bundle where there is nothing of Node.
import { fetchOnce, streamOnce } from "once/fetch";

globalThis.done = fetchOnce("https://api.example/orders", { method: "POST", body: "{}" }, { firstPauseMs: 1 })
  .then(async (response) => ({ status: response.status, text: await response.text() }));

globalThis.streamed = (async () => {
  const events = [];
  const stream = await streamOnce("https://api.example/chat", { method: "POST", body: "{}" }, { firstPauseMs: 1 });
  for await (const { data } of stream.events()) events.push(data);
  return events;
})();
