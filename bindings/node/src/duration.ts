// Durations as in the configuration file: "24h", "30s", "500ms".

/** A number and its unit: ms, s, m, h or d. */
export type Duration = `${number}${"ms" | "s" | "m" | "h" | "d"}`;

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export function milliseconds(duration: Duration): number {
  const match = /^(\d+)(ms|s|m|h|d)$/.exec(duration);
  if (match === null) throw new TypeError(`a duration is a text such as "30s", not ${JSON.stringify(duration)}`);
  return Number(match[1]) * (UNITS[match[2] as string] as number);
}

export function durationOf(ms: number): Duration {
  return `${Math.round(ms)}ms`;
}

export function hours(count: number): Duration {
  return durationOf(count * 3_600_000);
}

export function minutes(count: number): Duration {
  return durationOf(count * 60_000);
}
