// Time limits and pauses that end early when a signal is aborted. Runs in browsers, too.

export interface TimeLimit {
  signal: AbortSignal;
  /** Removes the time limit; the other signal still counts. */
  clearTimer(): void;
  clear(): void;
}

/** A signal that is aborted after `ms`, or together with the given one. */
export function timeLimit(ms: number, signal?: AbortSignal | null): TimeLimit {
  const both = new AbortController();
  const stop = () => both.abort(signal?.reason);
  const timer = setTimeout(() => both.abort(new DOMException(`no complete response in ${ms} ms`, "TimeoutError")), ms);
  const clearTimer = () => clearTimeout(timer);
  if (signal?.aborted) stop();
  signal?.addEventListener("abort", stop, { once: true });
  return {
    signal: both.signal,
    clearTimer,
    clear: () => {
      clearTimer();
      signal?.removeEventListener("abort", stop);
    },
  };
}

export function sleep(ms: number, signal?: AbortSignal | null): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) reject(signal.reason);
    const timer = setTimeout(done, ms);
    function done(): void {
      signal?.removeEventListener("abort", stop);
      resolve();
    }
    function stop(): void {
      clearTimeout(timer);
      reject(signal?.reason);
    }
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** The promise's value, or the signal's reason if that comes first. */
export function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    promise.then(resolve, reject);
  });
}
