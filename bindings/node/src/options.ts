// Options that the middlewares share.
import { Gate, type GateClaim, type GateOptions } from "./gate.js";

export interface MiddlewareOptions<Request> extends GateOptions {
  /** An open gate, if the program has one; otherwise the middleware opens one with the other options. */
  gate?: Gate | Promise<Gate>;
  /**
   * The caller as your program has verified it: a user or an organisation. It replaces the route's `caller`, which is the Authorization
   * header by default.
   */
  caller?: (request: Request) => string | undefined | Promise<string | undefined>;
}

/** The gate of the options. If a gate cannot be opened and no code handles that, the process ends: mistakes show at the start. */
export function gateOf(options: MiddlewareOptions<never>): Promise<Gate> {
  const { gate, config, store, settings, log } = options;
  return gate === undefined ? Gate.open({ config, store, settings, log }) : Promise.resolve(gate);
}

/** The parts of a claim that a handler can read. */
export type Execution = Pick<GateClaim, "attempt" | "fence" | "token" | "operation" | "requestId" | "isProtected" | "lost">;

/** Fields that only Once may set, because handlers trust them. */
export const RESERVED_FIELDS: readonly string[] = ["idempotency-attempt", "idempotency-fence", "idempotency-claim"];

/** Responses that are sent as they arrive, and not recorded: a client waits for their first event, not for their end. */
export const STREAMED = /^(text\/event-stream|application\/(x-ndjson|jsonl))\b/i;
