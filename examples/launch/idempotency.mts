// Expensive work that happens once: withIdempotency() of the package `once`, with what may be kept of its result.
//
// Once and its table decide who owns the work, for how long, and who may take it over. What is customer-safe is this service's own
// business, so it is decided here, before anything is recorded.
import { hashUserText, withIdempotency as once, type ClaimOptions, type Result, type SanitizeRules } from "once";

export { hashUserText };

export const STOP_REASONS = ["accepted", "needs_human", "max_rounds", "in_progress", "failed"] as const;

/** Nothing else is ever stored, and these only if they are what they should be. Names in BLOCKED_NAMES are dropped from `data`, too. */
export const RESPONSE: SanitizeRules = {
  allow: {
    ok: "boolean",
    stopReason: STOP_REASONS,
    createdActionRequestIds: "integer[]",
    traceId: /^[\w-]{1,64}$/,
    needsHuman: "boolean",
    cached: "boolean",
    data: "primitives",
  },
};

export interface SafeResponse {
  ok?: boolean;
  stopReason?: string;
  createdActionRequestIds?: number[];
  traceId?: string;
  needsHuman?: boolean;
  cached?: boolean;
  /** Primitives, alone, in a list or as the members of one object. */
  data?: unknown;
}

/** What went wrong with the work, in a word that customers may see. */
export class WorkError extends Error {
  constructor(readonly stopReason: string, message: string) {
    super(message);
  }
}

/** As in the package, with the customer-safe part of what the operation returned for the first caller and every later one. */
export async function withIdempotency(options: ClaimOptions & { operation: () => Promise<SafeResponse> }): Promise<Result<SafeResponse>> {
  const result = await once<SafeResponse>({ ...options, sanitize: RESPONSE });
  if (result.status === "succeeded") result.data = { ...result.data, cached: result.cached };
  return result;
}
