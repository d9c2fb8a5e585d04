// stream.mjs URL OPTIONS: reads a keyed stream with streamOnce(). Prints a line of JSON for its head, each event, and its end or error.
import { streamOnce } from "once/fetch";

const say = (what) => console.log(JSON.stringify(what));
const { headers = {}, ...options } = JSON.parse(process.argv[3] ?? "{}");
const pauses = { firstPauseMs: 1, longestPauseMs: 10 };
try {
  const stream = await streamOnce(process.argv[2], { method: "POST", body: "{}", headers }, { ...pauses, ...options });
  say({ head: { status: stream.status, key: stream.key, model: stream.headers.get("X-Model") } });
  for await (const event of stream.events()) say({ event });
  say({ end: stream.received });
} catch ({ name, reason, key, received, status, code, message }) {
  say({ error: { name, reason, key, received, status, code, message } });
}
