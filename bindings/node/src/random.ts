// Random keys and nonces. Browsers and Node 19 have a global `crypto`; for Node 18, random_node.ts provides one.

interface RandomSource {
  randomUUID(): string;
  getRandomValues(bytes: Uint8Array): Uint8Array;
}

let source: RandomSource | undefined = globalThis.crypto as RandomSource | undefined;

export function useRandomSource(other: RandomSource): void {
  source ??= other;
}

function random(): RandomSource {
  if (source === undefined) throw new Error("this runtime has no global `crypto`; pass a `key` of your own");
  return source;
}

export function randomKey(): string {
  return random().randomUUID();
}

/** 128 random bits in hex. */
export function randomNonce(): string {
  return Array.from(random().getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
