// Holds back the handler's writes to a node:http response until the response is recorded, then sends the reply.
//
// A response is collected completely. An event stream, or a response over the limit, is recorded without its body as soon as that is known,
// before its first byte is sent; from then on the handler's bytes are sent directly to the client.
//
// The methods of a response are replaced by shared ones, and never deleted from it: V8 keeps objects fast if their properties always change
// in the same way.
import type { ServerResponse } from "node:http";

import type { Reply } from "./engine.js";
import type { GateClaim } from "./gate.js";
import { STREAMED } from "./options.js";

type Callback = (error?: Error | null) => void;
type Chunk = string | Uint8Array;

/** The state of the response. */
type Phase =
  | "collecting" // the handler writes, nothing is sent
  | "recording" // the claim is being finished
  | "sent" // the handler's bytes go to the client
  | "discarding"; // a problem was sent instead of the handler's response, or the handler destroyed it

const RECORDER = Symbol("once recorder");

type Taken = ServerResponse & { [RECORDER]?: Recorder };

/** Takes over the response until the claim is finished. */
export function record(response: ServerResponse, claim: GateClaim): void {
  new Recorder(response, claim).takeOver();
}

const recorderOf = (response: Taken): Recorder => response[RECORDER] as Recorder;

/** The methods that replace those of a response. */
const METHODS = {
  writeHead(this: Taken, status: number, ...rest: unknown[]): ServerResponse {
    return recorderOf(this).writeHead(status, rest);
  },
  flushHeaders(this: Taken): void {
    recorderOf(this).flushHeaders();
  },
  write(this: Taken, chunk: Chunk, encoding?: BufferEncoding | Callback, callback?: Callback): boolean {
    return recorderOf(this).write(chunk, encoding, callback);
  },
  end(this: Taken, chunk?: Chunk | Callback, encoding?: BufferEncoding | Callback, callback?: Callback): ServerResponse {
    return recorderOf(this).end(chunk, encoding, callback);
  },
  destroy(this: Taken, error?: Error): ServerResponse {
    return recorderOf(this).destroy(error);
  },
};

/** Handlers check this before they write an error page. */
const HEADERS_SENT: PropertyDescriptor & ThisType<Taken> = {
  configurable: true,
  get() {
    return this[RECORDER]?.headersSent ?? Reflect.get(Object.getPrototypeOf(this), "headersSent", this);
  },
};

type Methods = Pick<ServerResponse, keyof typeof METHODS>;

class Recorder {
  private phase: Phase = "collecting";
  private parts: Buffer[] = [];
  private size = 0;
  private headWritten = false;
  private ended = false;
  private reason?: string = undefined;
  private readonly waiting: Callback[] = [];
  private readonly original: Methods;
  /** The recorder of a middleware that took the response over before. */
  private readonly outer?: Recorder;

  constructor(private readonly response: Taken, private readonly claim: GateClaim) {
    const { writeHead, flushHeaders, write, end, destroy } = response;
    this.original = { writeHead, flushHeaders, write, end, destroy };
    this.outer = response[RECORDER];
  }

  takeOver(): void {
    this.response[RECORDER] = this;
    Object.assign(this.response, METHODS);
    Object.defineProperty(this.response, "headersSent", HEADERS_SENT);
  }

  /** Restores the methods that the response had before, including those of other middlewares. */
  private giveBack(): void {
    this.response[RECORDER] = this.outer;
    Object.assign(this.response, this.original);
    this.setFinished(false);
  }

  /** writableEnded has the same value. */
  private setFinished(finished: boolean): void {
    (this.response as { finished: boolean }).finished = finished;
  }

  get headersSent(): boolean {
    return this.headWritten || this.ended;
  }

  writeHead(status: number, rest: unknown[]): ServerResponse {
    const { response } = this;
    response.statusCode = status;
    if (typeof rest[0] === "string") this.reason = rest.shift() as string;
    for (const [name, value] of headersIn(rest[0])) response.setHeader(name, value);
    this.headWritten = true;
    return response;
  }

  flushHeaders(): void {
    this.headWritten = true;
    if (this.isStream()) this.finishWithoutBody();
  }

  write(chunk: Chunk, encoding?: BufferEncoding | Callback, callback?: Callback): boolean {
    const done = typeof encoding === "function" ? encoding : callback;
    if (!this.ended) return this.take(bytesOf(chunk, encoding), done);
    const error = Object.assign(new Error("write after end"), { code: "ERR_STREAM_WRITE_AFTER_END" });
    process.nextTick(() => (done === undefined ? this.response.emit("error", error) : done(error)));
    return false;
  }

  end(chunk?: Chunk | Callback, encoding?: BufferEncoding | Callback, callback?: Callback): ServerResponse {
    const done = [chunk, encoding, callback].find((argument): argument is Callback => typeof argument === "function");
    if (done !== undefined) this.response.once("finish", done);
    if (this.ended) return this.response;
    if (chunk != null && typeof chunk !== "function") this.take(bytesOf(chunk, encoding));
    this.ended = true;
    if (this.phase !== "discarding") this.setFinished(true);
    if (this.phase === "collecting") void this.finish(this.parts.length === 1 ? this.parts[0] : Buffer.concat(this.parts));
    return this.response;
  }

  // The handler gave up without a response: it is unknown what it did. Not called for a client that leaves, which changes nothing.
  destroy(error?: Error): ServerResponse {
    this.giveBack();
    if (this.phase === "collecting") void this.claim.abandon().catch(() => undefined);
    this.phase = "discarding";
    return this.response.destroy(error);
  }

  /** Returns whether the handler may continue to write at once. */
  private take(part: Buffer, done?: Callback): boolean {
    this.headWritten = true;
    if (this.phase === "discarding") {
      if (done !== undefined) process.nextTick(done);
      return true;
    }
    this.parts.push(part);
    this.size += part.length;
    if (this.size > this.claim.maxBody || this.isStream()) this.finishWithoutBody();
    if (done !== undefined) this.waiting.push(done);
    if (this.phase === "recording") return false; // "drain" follows
    for (const written of this.waiting.splice(0)) process.nextTick(written);
    return true;
  }

  private isStream(): boolean {
    return STREAMED.test(String(this.response.getHeader("content-type") ?? ""));
  }

  private finishWithoutBody(): void {
    if (this.phase === "collecting") void this.finish(undefined);
  }

  private async finish(body: Buffer | undefined): Promise<void> {
    this.phase = "recording";
    try {
      const { statusCode: status } = this.response;
      this.send(await this.claim.finish({ status, reason: this.reason, fields: fieldsOf(this.response), body }));
    } catch (error) {
      // The gate was closed, or the response is not valid HTTP. It may not be recorded, so nothing may be sent.
      if (this.phase === "recording") this.destroy(error as Error);
    }
  }

  private send(reply: Reply): void {
    if (this.phase !== "recording") return; // destroyed meanwhile
    const { response } = this;
    this.giveBack();
    for (const name of response.getHeaderNames()) response.removeHeader(name);
    writeReplyHead(response, reply);
    if (reply.bodyIsYours) {
      this.phase = "sent";
      for (const part of this.parts) response.write(part);
      if (this.ended) response.end();
    } else {
      this.phase = "discarding";
      response.end(reply.body);
      if (!this.ended) this.discard();
    }
    this.parts = [];
    for (const done of this.waiting.splice(0)) done();
    if (!this.ended) response.emit("drain");
  }

  /** Discards the bytes that the handler still writes. */
  private discard(): void {
    this.response[RECORDER] = this;
    Object.assign(this.response, { write: METHODS.write, end: METHODS.end });
  }
}

/** Writes the status, the reason and the fields of a reply, replacing fields that were set before. */
export function writeReplyHead(response: ServerResponse, { status, reason, fields }: Pick<Reply, "status" | "reason" | "fields">): void {
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    if (isRepeated(fields, i)) response.appendHeader(name, fields[i + 1] as string);
    else response.setHeader(name, fields[i + 1] as string);
  }
  response.statusCode = status;
  if (reason !== "") response.statusMessage = reason;
}

function isRepeated(fields: readonly string[], index: number): boolean {
  for (let i = 0; i < index; i += 2) if (fields[i] === fields[index]) return true;
  return false;
}

function bytesOf(chunk: Chunk, encoding: unknown): Buffer {
  if (typeof chunk === "string") return Buffer.from(chunk, typeof encoding === "string" ? (encoding as BufferEncoding) : "utf8");
  return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
}

/** The fields in the third argument of writeHead(): an object, a list of pairs, or a flat list. */
function headersIn(headers: unknown): [string, string | string[]][] {
  if (!Array.isArray(headers)) return Object.entries((headers ?? {}) as Record<string, string | string[]>).filter(([, value]) => value !== undefined);
  if (Array.isArray(headers[0])) return headers as [string, string | string[]][];
  const pairs = new Map<string, string[]>();
  for (let i = 0; i < headers.length; i += 2) pairs.set(headers[i], [...(pairs.get(headers[i]) ?? []), String(headers[i + 1])]);
  return [...pairs];
}

/** Names and values alternate; a name that was set with a list has one field for each value. */
function fieldsOf(response: ServerResponse): string[] {
  const fields: string[] = [];
  for (const name of response.getHeaderNames()) {
    const value = response.getHeader(name) as number | string | string[];
    for (const one of Array.isArray(value) ? value : [value]) fields.push(name, String(one));
  }
  return fields;
}
