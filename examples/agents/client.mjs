// The good and the bad client side by side: both try to make one task, and both retry.
//
//   client.mjs good|bad URL TITLE [PLATFORM AGENT]
//
// The result is one line on standard output; every attempt is a line on standard error.
import { fetchOnce } from "once/fetch";

const ATTEMPTS = 5;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;

/** One key for one logical operation: fetchOnce() makes it before the first attempt and sends it with each. */
export async function good(url, init, onAttempt) {
  return fetchOnce(url, init, { firstPauseMs: FIRST_PAUSE_MS, longestPauseMs: LONGEST_PAUSE_MS, deadlineMs: 30_000, onAttempt });
}

/** A new key for every HTTP request: the same loop, and every retry is a new operation. */
export async function bad(url, init, onAttempt) {
  for (let attempt = 1; ; ++attempt) {
    const key = crypto.randomUUID();
    let response;
    try {
      response = await fetch(url, { ...init, headers: { ...init.headers, "Idempotency-Key": key } });
    } catch {
      // No response: retry, as after a 5xx.
    }
    onAttempt({ attempt, key, status: response?.status });
    if (attempt === ATTEMPTS || (response && response.status < 500 && response.status !== 429)) return response;
    const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (attempt - 1));
    await new Promise((wake) => setTimeout(wake, Math.random() * pause));
  }
}

async function main(which, url, title, platform = "acme", agent = "robin") {
  const client = { good, bad }[which];
  const init = {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Platform-Id": platform, "X-Agent-Id": agent },
    body: JSON.stringify({ title }),
  };
  const response = await client(url, init, ({ attempt, key, status }) => {
    console.error(`attempt ${attempt}: ${status ?? "no answer"}, key ${key}`);
  }).catch((error) => console.log(`no answer: go on with key ${error.key}`));
  if (!response) return;
  const unknown = response.headers.get("Idempotency-Status") === "unknown";
  if (response.ok) console.log(`made task ${(await response.json()).id}`);
  else console.log(`${response.status}: ${unknown ? "nobody knows whether it was made" : "not made"}`);
}

const [which, url, title, platform, agent] = process.argv.slice(2);
if (title !== undefined) await main(which, url, title, platform, agent);
