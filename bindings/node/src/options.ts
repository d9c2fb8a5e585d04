// Options that the middlewares share.
import { Gate, type GateClaim, type GateOptions } from "./gate.js";

export interface MiddlewareOptions<Request> extends GateOptions {
  /** An open gate, if the program has one; otherwise the middleware opens one with the other options. */
  gate?: Gate | Promise<Gate>;
  /**
   * Who sends the request, as your program has verified it: a user or an organisation. It replaces the route's `caller`. Without it the
   * route's `caller` counts, by default the Authorization header.
   */
  caller?: (request: Request) => string | undefined | Promise<string | undefined>;
}

/** The gate of the options. A gate that cannot be opened and that nobody waits for ends the process: mistakes show at the start. */
export function gateOf(options: MiddlewareOptions<never>): Promise<Gate> {
  const { gate, config, store, settings, log } = options;
  return gate === undefined ? Gate.open({ config, store, settings, log }) : Promise.resolve(gate);
}

/** What a handler may know of its claim. */
export type Execution = Pick<GateClaim, "attempt" | "fence" | "token" | "operation" | "requestId" | "isProtected" | "lost">;

/** Fields that only Once may set: a handler trusts them. */
export const RESERVED_FIELDS: readonly string[] = ["idempotency-attempt", "idempotency-fence", "idempotency-claim"];

/** Responses that are sent as they come, and not recorded: a client waits for their first event, not for their end. */
export const STREAMED = /^(text\/event-stream|application\/(x-ndjson|jsonl))\b/i;
