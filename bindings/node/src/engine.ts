// An open engine: calls are sent with a tag, and the result of each arrives as one event with the same tag. Nothing here blocks or runs on
// another thread; the addon polls the library's descriptor on this thread's event loop.
import { load } from "./load.cjs";

/** A pointer of the addon. */
export type Handle = { readonly __once: unique symbol };

/** The kind of a reply: the value of its Idempotency-Status. */
export type Ending = "executed" | "replayed" | "in-flight" | "mismatch" | "unknown" | "bypassed" | "rejected" | "passed";

/** How the claim of a reply ended. */
export type Settled = "none" | "succeeded" | "failed" | "unknown" | "released" | "lost" | "unrecorded";

export interface Reply {
  status: number;
  reason: string;
  /** Names and values alternate. */
  fields: string[];
  body: Buffer;
  ending: Ending;
  settled: Settled;
  /** 0: none. */
  attempt: number;
  /** The response was finished without its body, which must still be sent. */
  bodyIsYours: boolean;
}

export interface ClaimInfo {
  handle: Handle;
  attempt: number;
  isProtected: boolean;
  fence: number;
  token: string;
  operation: string;
  requestId: string;
  fields: string[];
  maxBody: number;
}

export interface Outcome {
  status: string;
  reason: string;
  detail: string;
  value: Buffer;
  cached: boolean;
  attempt: number;
  fence: number;
  retryAfterMs: number;
  code: number;
}

export type EngineEvent =
  | { kind: "reply" | "pass"; reply: Reply }
  | { kind: "claim"; claim: ClaimInfo }
  | { kind: "outcome"; outcome: Outcome }
  | { kind: "swept"; removed: number; failed?: string }
  | { kind: "cancelled" | "stopped" };

export interface EngineOptions {
  /** Path of the YAML file. */
  config?: string;
  /** Override settings of the file: { store: "journal:data", "defaults.ttl": "48h" }. */
  settings?: Readonly<Record<string, string>>;
  /** Where log lines are written: "stderr", "off", or a function that receives each line as JSON. */
  log?: "stderr" | "off" | ((line: string) => void);
}

const REPLY = 1, CLAIM = 2, PASS = 3, OUTCOME = 4, CANCELLED = 5, SWEPT = 6, STOPPED = 7, LOG = 8;
const LOG_EVENTS = 0, LOG_STDERR = 1, LOG_OFF = 2;
const ENDINGS: readonly Ending[] = ["passed", "executed", "replayed", "in-flight", "mismatch", "unknown", "bypassed", "rejected", "passed"];
const SETTLED: readonly Settled[] = ["none", "succeeded", "failed", "unknown", "released", "lost", "unrecorded"];

interface Waiting {
  resolve(event: EngineEvent): void;
  reject(error: unknown): void;
}

export class Engine {
  private nextTag = 1;
  private readonly waiting = new Map<number, Waiting>();

  private constructor(private readonly native: any, private readonly onLog: ((line: string) => void) | undefined) {}
  private handle!: Handle;

  static async open({ config, settings = {}, log = "stderr" }: EngineOptions): Promise<Engine> {
    const native = load();
    const engine = new Engine(native, typeof log === "function" ? log : undefined);
    const parts = Object.entries(settings).flat();
    const mode = typeof log === "function" ? LOG_EVENTS : log === "off" ? LOG_OFF : LOG_STDERR;
    engine.handle = await native.open(config, undefined, joined(parts), parts.length, mode, engine.deliver.bind(engine));
    return engine;
  }

  /** Calls a function of the addon that takes the engine and a tag, and waits for its event. */
  ask(verb: string, ...rest: unknown[]): Promise<EngineEvent> {
    return this.call(verb, this.handle, rest);
  }

  /** The same for a function that takes a claim and a tag. */
  askClaim(verb: string, claim: Handle, ...rest: unknown[]): Promise<EngineEvent> {
    return this.call(verb, claim, rest);
  }

  /** Like ask(), with a function that cancels the call; the event still comes. */
  askCancellable(verb: string, ...rest: unknown[]): { answer: Promise<EngineEvent>; cancel: () => void } {
    const tag = this.nextTag;
    return { answer: this.ask(verb, ...rest), cancel: () => this.native.cancel(this.handle, tag) };
  }

  /** Calls a function of the addon that returns its result at once. */
  now(verb: string, ...rest: unknown[]): any {
    return this.native[verb](this.handle, ...rest);
  }

  freeClaim(claim: Handle): void {
    this.native.freeClaim(claim);
  }

  isLost(claim: Handle): boolean {
    return this.native.isLost(claim);
  }

  /** Waits until all requests in progress have ended and are recorded, at most for `timeoutMs`. */
  async close(timeoutMs: number): Promise<void> {
    const began = Date.now();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const timeout = new Promise<void>((resolve) => { timer = setTimeout(resolve, timeoutMs); });
    await Promise.race([this.ask("stop"), timeout]);
    clearTimeout(timer);
    const left = Math.max(0, timeoutMs - (Date.now() - began));
    await this.native.close(this.handle, left);
    for (const { reject } of this.waiting.values()) reject(Object.assign(new Error("the engine was closed"), { code: "stopped" }));
    this.waiting.clear();
  }

  private call(verb: string, handle: Handle, rest: unknown[]): Promise<EngineEvent> {
    const tag = this.nextTag++;
    return new Promise((resolve, reject) => {
      this.native[verb](handle, tag, ...rest);
      this.waiting.set(tag, { resolve, reject });
    });
  }

  // Called by the addon. The order of the arguments is that in events.c.
  private deliver(kind: number, tag: number, ...members: any[]): void {
    if (kind === LOG) {
      this.onLog?.(members[1]);
      return;
    }
    const waiting = this.waiting.get(tag);
    this.waiting.delete(tag);
    waiting?.resolve(eventOf(kind, members));
  }
}

function eventOf(kind: number, members: any[]): EngineEvent {
  switch (kind) {
    case REPLY: return { kind: "reply", reply: replyOf(members) };
    case PASS: return { kind: "pass", reply: replyOf(members) };
    case CLAIM: {
      const [handle, attempt, isProtected, fence, token, operation, requestId, fields, maxBody] = members;
      const claim = { handle, attempt, isProtected: isProtected === 1, fence, token, operation, requestId, fields: split(fields), maxBody };
      return { kind: "claim", claim };
    }
    case OUTCOME: {
      const [status, reason, detail, value, cached, attempt, fence, retryAfterMs, code] = members;
      return { kind: "outcome", outcome: { status, reason, detail, value, cached: cached === 1, attempt, fence, retryAfterMs, code } };
    }
    case SWEPT: return { kind: "swept", removed: members[0], failed: members[1] };
    case STOPPED: return { kind: "stopped" };
    case CANCELLED: return { kind: "cancelled" };
    default: throw new Error(`the library sent an event of the unknown kind ${kind}`);
  }
}

function replyOf([status, ending, settled, attempt, reason, fields, body, bodyIsYours]: any[]): Reply {
  return {
    status, reason, fields: split(fields), body, attempt, bodyIsYours: bodyIsYours === 1,
    ending: ENDINGS[ending] as Ending, settled: SETTLED[settled] as Settled,
  };
}

/** Each part with a NUL after it: the addon reads one string faster than a list. It refuses parts that contain a NUL. */
export function joined(parts: readonly string[]): string {
  return parts.length === 0 ? "" : parts.join("\0") + "\0";
}

function split(text: string): string[] {
  return text === "" ? [] : text.slice(0, -1).split("\0");
}
