// The entry "once": everything for Node except the middlewares, which have their own entries. Browsers import "once/fetch".
import "./random_node.js";

export * from "./fetch.js";
export { Once, OnceError, RemoteClaim, onceFromEnvironment, type OnceOptions } from "./claims.js";
export { Following, type FollowOptions, type Piece } from "./following.js";
export { cleanupExpiredKeys, gateFromEnvironment, withIdempotency } from "./environment.js";
export { Gate, GateClaim } from "./gate.js";
export type { Begun, Ending, GateOptions, GateRequest, GateResponse, Reply, Settled } from "./gate.js";
export { computeIdempotencyKey, hashText, hashUserText, requireSecret } from "./key.js";
export { BLOCKED_NAMES, CUSTOMER_SAFE, sanitized, type Rule, type Sanitize, type SanitizeRules } from "./sanitize.js";
export type { Duration } from "./duration.js";
export type { Json } from "./json.js";
export type { Claim, ClaimOptions, OnUnknown, Result, RunOptions, Status, Work, WorkName } from "./work.js";
