// withIdempotency() and cleanupExpiredKeys() for the engine that the environment configures: ONCE_CLAIMS_URL for a gateway's claims API, or
// ONCE_STORE (with ONCE_CONFIG, if there is a file) for the engine in this process.
import { onceFromEnvironment } from "./claims.js";
import { Gate } from "./gate.js";
import { runOnce, type Claims, type Result, type RunOptions, type Work } from "./work.js";

let opening: Promise<Gate> | undefined;

/** The gate of ONCE_STORE and ONCE_CONFIG, opened by the first call. */
export function gateFromEnvironment(): Promise<Gate> {
  const { ONCE_STORE: store, ONCE_CONFIG: config } = process.env;
  if (!store && !config) {
    throw new TypeError("set ONCE_STORE, for example to postgres://…, or ONCE_CONFIG, or ONCE_CLAIMS_URL; or use Gate.open()");
  }
  opening ??= Gate.open({ store: store || undefined, config: config || undefined }).catch((error) => {
    opening = undefined; // The next call tries again.
    throw error;
  });
  return opening;
}

/** Runs the work unless it was done or is in progress. Throws only for mistakes in the program; everything else is a status. */
export function withIdempotency<T>(options: RunOptions & { operation: Work<T> }): Promise<Result<T>>;
export function withIdempotency<T>(options: RunOptions, work: Work<T>): Promise<Result<T>>;
export async function withIdempotency<T>(options: RunOptions & { operation?: Work<T> }, work?: Work<T>): Promise<Result<T>> {
  const claims: Claims = process.env.ONCE_CLAIMS_URL ? onceFromEnvironment(options.tenant) : await gateFromEnvironment();
  return runOnce(claims, options, work);
}

/** Removes expired records now, and returns their number. For a daily job; a gate also does this by itself. */
export async function cleanupExpiredKeys(): Promise<number> {
  return (await gateFromEnvironment()).cleanupExpiredKeys();
}
