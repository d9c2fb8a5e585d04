// The service: POST /actionRequests/aiProposeCopy asks a model for a better text. Each call of the model costs money, so a
// request that is clicked twice, reloaded or retried after a timeout makes one call.
//
//   PORT, PROVIDER_URL, ONCE_CLAIMS_URL, ONCE_CLAIMS_TOKEN_LAUNCHBASE; TTL_HOURS, STALE_TAKEOVER_MINUTES, LEASE
import { createServer } from "node:http";
import type { Duration } from "once";

import { hashUserText, withIdempotency, WorkError, type SafeResponse } from "./idempotency.mjs";

const TTL_HOURS = Number(process.env.TTL_HOURS ?? 24); // 168, 7 days, where people come back later
const STALE_TAKEOVER_MINUTES = Number(process.env.STALE_TAKEOVER_MINUTES ?? 5);
const LEASE = (process.env.LEASE ?? "30s") as Duration;
const PORT = Number(process.env.PORT ?? 3000);

for (const name of ["PROVIDER_URL", "ONCE_CLAIMS_URL", "ONCE_CLAIMS_TOKEN_LAUNCHBASE"]) {
  if (!process.env[name]) {
    console.error(`${name} is missing`);
    process.exit(1);
  }
}

const getSystemMeta = () => ({ service: "launchbase", pid: process.pid });

interface Proposal {
  intakeId: number;
  actionRequestId: number;
  userText: string;
  targetSection: string;
}

/** What costs money. Its answer has much that no customer should see. */
async function runAiTennis({ userText, targetSection }: Proposal): Promise<SafeResponse> {
  const response = await fetch(`${process.env.PROVIDER_URL}/propose`, {
    method: "POST",
    body: JSON.stringify({ prompt: `Improve this ${targetSection}: ${userText}` }),
  });
  if (!response.ok) throw new WorkError("provider_error", `the provider answered ${response.status} to: ${userText}`);
  return (await response.json()) as SafeResponse;
}

async function aiProposeCopy(proposal: Proposal): Promise<object> {
  const { intakeId, actionRequestId, userText, targetSection } = proposal;
  const result = await withIdempotency({
    tenant: "launchbase",
    scope: "actionRequests.aiProposeCopy",
    inputs: { intakeId, actionRequestId, userTextHash: hashUserText(userText), targetSection },
    ttlHours: TTL_HOURS,
    staleTakeoverMinutes: STALE_TAKEOVER_MINUTES,
    lease: LEASE,
    operation: () => runAiTennis(proposal),
  });
  if (result.status === "succeeded") return result.data ?? {}; // from cache or fresh
  return { ok: false, stopReason: result.stopReason ?? "unknown", meta: getSystemMeta() };
}

const server = createServer(async (request, response) => {
  const reply = (status: number, json: object) => {
    response.writeHead(status, { "Content-Type": "application/json" });
    response.end(JSON.stringify(json) + "\n");
  };
  if (request.method !== "POST" || request.url !== "/actionRequests/aiProposeCopy") return reply(404, { ok: false });
  try {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    reply(200, await aiProposeCopy(JSON.parse(Buffer.concat(parts).toString())));
  } catch (error) {
    // An error in the request or in this program. Failures of the work are results, not exceptions.
    reply(400, { ok: false, stopReason: error instanceof Error ? error.name : "unknown" });
  }
});
server.listen(PORT, "127.0.0.1", () => console.log(`listening on ${PORT}`));
