// Follows the progress of work that another process does: the iterator that Once.follow() returns.
import type { Duration } from "./duration.js";
import type { Json } from "./json.js";
import { sleep } from "./timing.js";
import type { Result, WorkName } from "./work.js";

// Shorter than the limits of proxies.
const LONGEST_POLL_MS = 20_000;

export interface FollowOptions extends WorkName {
  /** How long to follow at most. The default is 5m. */
  wait?: Duration;
}

/** A piece of progress. Number 0 begins an attempt: earlier pieces are of an attempt that was given up. */
export interface Piece {
  data: Json;
  number: number;
  attempt: number;
}

interface Read {
  json: Record<string, any>;
  result: Result<Json> | null;
}

/** Pieces of progress as they are made, for one `for await`. */
export class Following implements AsyncIterable<Piece> {
  /**
   * The state of the work when the loop has ended: succeeded with its value, failed, unknown, in_progress if the wait timed out,
   * unavailable if the gateway could not be reached. null: it was never claimed, or was released.
   */
  result: Result<Json> | null = null;

  /** @internal */
  constructor(
    private readonly check: () => Promise<void>,
    private readonly read: (place: object, waitsMs: number) => Promise<Read>,
    private readonly waitMs: number,
  ) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<Piece, void, undefined> {
    await this.check();
    const until = Date.now() + this.waitMs;
    for (let place = {}; ; ) {
      const began = Date.now();
      const left = Math.max(0, until - began);
      const poll = Math.min(left, LONGEST_POLL_MS);
      const { json, result } = await this.read(place, poll);
      const progress: Json[] = json.progress ?? [];
      if (json.next !== undefined) place = { from: json.next, fence: json.fence };
      for (const [index, data] of progress.entries()) yield { data, number: json.from + index, attempt: json.attempt };
      if (progress.length > 0) continue;
      if (json.status !== "in_progress" || left === 0) {
        this.result = result;
        return;
      }
      // The gateway responded at once: too many clients wait there.
      if (Date.now() - began < poll / 2) await sleep(Math.min(poll, 100 + Math.random() * 900));
    }
  }
}
