// Compiled, never run: what the types of clients/typescript allow and refuse.
import { Claim, Once, fetchOnce, hashText, withIdempotency, type Result } from "./once.mjs";

const once = new Once({ url: "https://claims.example", token: "t", fetch: globalThis.fetch });
const made: Result<{ id: number }> = await once.withIdempotency({ scope: "s", key: "k" }, async (claim: Claim) => ({ id: claim.attempt ?? 0 }));
const id: number | undefined = made.data?.id;
const text: string = hashText("x");
await withIdempotency({ scope: "s", inputs: { id, text }, ttl: "24h", onUnknown: "hold", operation: () => 1 });
const response: Response = await fetchOnce(new URL("https://api.example/"), { method: "POST", body: new FormData() }, {
  keyHeader: "X-Key", deadlineMs: 1, attemptTimeoutMs: 1, stream: false, warn: (message) => message.length,
  onAttempt: ({ attempt, key }) => key.repeat(attempt),
});
response.status.toFixed();

// @ts-expect-error: a scope is needed
await once.claim({ key: "k" });
// @ts-expect-error: a duration has a unit
await once.claim({ scope: "s", key: "k", ttl: "24" });
// @ts-expect-error: a function is no JSON
await once.claim({ scope: "s", inputs: { f: () => 1 } });
// @ts-expect-error: it is called attemptTimeoutMs
await fetchOnce("https://api.example/", {}, { timeoutMs: 1 });
// @ts-expect-error: redirects are never followed
await fetchOnce("https://api.example/", { redirect: "follow" });
