// Reads the body of a request, and leaves it for later parsers.
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";

export type Read = { body: Buffer } | "gone";

/** Whether the request has a body, according to its head. */
export function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

const NOTHING = Buffer.alloc(0);
const MOST_AT_HAND = 64 << 10;

/** The body, if it is small and has arrived completely: then needsBody() need not be asked. The body stays in the request. */
export function bodyAtHand(request: IncomingMessage): Buffer | undefined {
  if (!hasBody(request)) return NOTHING;
  const { complete, headers, readableDidRead, readableEncoding, readableLength } = request;
  const isWhole = complete || readableLength === Number(headers["content-length"]);
  if (!isWhole || readableLength === 0 || readableLength > MOST_AT_HAND || readableDidRead || readableEncoding !== null) return undefined;
  const body = request.read() as Buffer;
  request.unshift(body);
  return body;
}

/**
 * Reads at most one byte more than `most`. The bytes are put back into the request, so that a body parser can read them again. "gone": the
 * client closed the connection before the body was complete.
 */
export function peekBody(request: IncomingMessage, most: number): Promise<Read> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let size = 0;
    const end = (read: Read | Error) => {
      request.off("readable", take).off("error", end).off("close", gone);
      if (read instanceof Error) reject(read);
      else resolve(read);
    };
    const gone = () => end("gone");
    const take = () => {
      for (let part: Buffer | null; size <= most && (part = request.read() as Buffer | null) !== null;) {
        parts.push(part);
        size += part.length;
      }
      if (size <= most && !request.complete) return;
      const body = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
      // In the same turn as the last read(): after "end" nothing can be put back.
      if (size > 0) request.unshift(body);
      end({ body });
    };
    request.on("readable", take).on("error", end).on("close", gone);
  });
}

/** The whole stream, or undefined if it has more than `most` bytes; then `rest` returns all of it. */
export async function collect(stream: AsyncIterable<Uint8Array | string>, most: number): Promise<{ body?: Buffer; rest: Readable }> {
  const parts: Buffer[] = [];
  let size = 0;
  const iterator = stream[Symbol.asyncIterator]();
  for (;;) {
    const { value, done } = await iterator.next();
    if (done === true) {
      const body = Buffer.concat(parts);
      return { body, rest: Readable.from([body]) };
    }
    const part = typeof value === "string" ? Buffer.from(value) : Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    parts.push(part);
    size += part.length;
    if (size > most) return { rest: Readable.from(resume(parts, iterator)) };
  }
}

async function* resume(parts: Buffer[], iterator: AsyncIterator<Uint8Array | string>): AsyncGenerator<Uint8Array | string> {
  yield* parts;
  for (;;) {
    const { value, done } = await iterator.next();
    if (done === true) return;
    yield value;
  }
}
