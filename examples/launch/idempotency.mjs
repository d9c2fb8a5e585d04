// Expensive work that happens once: withIdempotency() on Once's claims API, and a filter for the stored result.
//
// Once decides who owns the work, for how long, who may take it over, and that a late owner cannot record anything. This
// service decides which fields are customer-safe, before anything is recorded.
import { hashUserText, withIdempotency as once } from "../../clients/typescript/once.mjs";

export { hashUserText };

const isBoolean = (value) => typeof value === "boolean";

/** Nothing else is ever stored, and these only if they are what they should be. */
const ALLOWED = {
  ok: isBoolean,
  stopReason: (value) => STOP_REASONS.includes(value),
  createdActionRequestIds: (value) => Array.isArray(value) && value.every(Number.isInteger),
  traceId: (value) => typeof value === "string" && /^[\w-]{1,64}$/.test(value),
  needsHuman: isBoolean,
  cached: isBoolean,
};

export const STOP_REASONS = ["accepted", "needs_human", "max_rounds", "in_progress", "failed"];

/** Not even inside of `data`. */
const BLOCKED = new Set(["_internal", "debug", "prompt", "systemPrompt", "userText", "error", "message", "stack", "provider",
  "model", "requestId"]);

/**
 * @typedef {object} Response
 * @property {boolean} [ok]
 * @property {string} [stopReason] one of STOP_REASONS
 * @property {number[]} [createdActionRequestIds]
 * @property {string} [traceId]
 * @property {boolean} [needsHuman]
 * @property {boolean} [cached]
 * @property {unknown} [data] customer-safe primitives, alone, in a list or as the members of one object
 */

/**
 * Like the client's function of the same name, but records and returns only the customer-safe part of the operation's
 * result, to the first caller and all later ones. Does not throw for run-time failures.
 *
 * @param {import("../../clients/typescript/once.d.mts").ClaimOptions & { operation: () => Promise<object> }} options
 * @returns {Promise<import("../../clients/typescript/once.d.mts").Result<Response>>}
 */
export async function withIdempotency({ operation, ...options }) {
  const result = await once(options, async () => customerSafe(await operation()));
  if (result.status === "succeeded") result.data = { ...result.data, cached: result.cached };
  return result;
}

/** @returns {Response} */
export function customerSafe(response) {
  const kept = Object.fromEntries(Object.entries(ALLOWED).filter(([name, isRight]) => isRight(response[name]))
    .map(([name]) => [name, response[name]]));
  const data = safeData(response.data);
  return data === undefined ? kept : { ...kept, data };
}

function safeData(data) {
  if (data === undefined || isSafe(data)) return data;
  if (typeof data !== "object" || Array.isArray(data)) return undefined;
  return Object.fromEntries(Object.entries(data).filter(([name, value]) => !BLOCKED.has(name) && isSafe(value)));
}

/** A primitive, or a list of them. An object could mean anything. */
function isSafe(value) {
  if (Array.isArray(value)) return value.every((item) => !Array.isArray(item) && isSafe(item));
  return value === null || ["boolean", "number", "string"].includes(typeof value);
}
