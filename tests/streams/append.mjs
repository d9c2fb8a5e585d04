// append.mjs URL KEY JSON: appends with the protocol's own client, which retries by itself what got no answer. A key is drawn for every
// append and stays with its retries: headers are made once per append. Prints how many attempts failed.
import { DurableStream } from "@durable-streams/client";

const [url, key, json] = process.argv.slice(2);
let failed = 0;
const stream = new DurableStream({
  url,
  contentType: "application/json",
  batching: false,
  headers: { "Idempotency-Key": () => key },
  backoffOptions: { initialDelay: 1, maxDelay: 20, multiplier: 2, maxRetries: 20, onFailedAttempt: () => { ++failed; } },
});
await stream.append(json);
console.log(JSON.stringify({ failed }));
