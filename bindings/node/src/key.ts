// Keys from inputs: computeIdempotencyKey() returns the operation's id in the store, in hex.
import { createHash, createHmac } from "node:crypto";

import { canonicalJson } from "./json.js";
import type { WorkName } from "./work.js";

const LEAST_SECRET_BYTES = 16;

/** A hash to use in inputs instead of a user's text: it cannot be read back, and white space does not matter. */
export function hashText(text: string): string {
  return createHash("sha256").update(text.trim().replace(/\s+/g, " ")).digest("hex");
}

export { hashText as hashUserText };

/** The secret, or an error that explains how to create one. A service should call this when it starts. */
export function requireSecret(secret = process.env.ONCE_SECRET): string {
  if (secret === undefined || secret === "") throw new TypeError("set ONCE_SECRET, for example to the output of: openssl rand -hex 32");
  if (Buffer.byteLength(secret) < LEAST_SECRET_BYTES) throw new TypeError(`the secret has fewer than ${LEAST_SECRET_BYTES} bytes`);
  return secret;
}

/**
 * HMAC-SHA-256 of tenant, scope and the key or the canonical form of the inputs, in hex. Equal inputs give equal keys, whatever the order
 * of their members; keys cannot be guessed without the secret. Hash texts of users first: hashUserText().
 */
export function computeIdempotencyKey({ tenant = "local", scope, key, inputs, secret }: WorkName & { secret?: string }): string {
  if ((key === undefined) === (inputs === undefined)) throw new TypeError("exactly one of key and inputs is needed");
  const kind = key === undefined ? "inputs" : "key";
  const last = key ?? canonicalJson(inputs as Exclude<typeof inputs, undefined>);
  const scopeParts = ["claims", tenant, scope, kind];
  const hmac = createHmac("sha256", requireSecret(secret));
  for (const part of ["once operation 1", littleEndian(scopeParts.length), ...scopeParts, last]) {
    const bytes = Buffer.from(part);
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(bytes.length));
    hmac.update(length).update(bytes);
  }
  return hmac.digest("hex");
}

function littleEndian(count: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(count));
  return bytes;
}
