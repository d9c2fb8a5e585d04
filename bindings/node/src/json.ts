// JSON for keys: refuses values that JSON would drop or confuse, and writes the engine's canonical form (src/core/json_canonical.hpp).

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json | undefined };

/** A promise is {} in JSON, so two different inputs would be the same operation. */
export function refusePromises(name: string, value: unknown): unknown {
  if (typeof (value as { then?: unknown } | null)?.then === "function") throw new TypeError(`${name} is a promise: await it first`);
  return value;
}

/** Throws for values that JSON drops or turns into null or {}: two different inputs must not become one operation. */
export function refuseWhatJsonLoses(values: Record<string, unknown>): void {
  JSON.stringify(values, function (this: Record<string, unknown>, name: string, value: unknown) {
    const given = this[name]; // before its toJSON()
    const refuse = (what: string): never => { throw new TypeError(`${name} is ${what}, which JSON cannot hold`); };
    if (typeof value === "number" && !Number.isFinite(value)) refuse(String(value));
    if (typeof value === "function" || typeof value === "symbol") refuse(`a ${typeof value}`);
    if (Object.prototype.toString.call(given) === "[object Date]" && value === null) refuse("an invalid date");
    if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
    refusePromises(name, value);
    // Checks the shape of the prototype: a plain object may come from another realm.
    const prototype = Object.getPrototypeOf(value);
    const plain = prototype === null || Object.getPrototypeOf(prototype) === null;
    if (!plain && typeof (value as { toJSON?: unknown }).toJSON !== "function") refuse(`a ${prototype.constructor?.name || "class"}`);
    return value;
  });
}

/**
 * One text for all spellings of a value: members sorted by UTF-16 code units as in RFC 8785, no white space, and numbers as exact decimals:
 * digits without zeros at their end, then the exponent unless it is 0. 1.5 is 15e-1, 100 is 1e2.
 */
export function canonicalJson(value: Json): string {
  refuseWhatJsonLoses({ value });
  return write(JSON.parse(JSON.stringify(value)) as Json);
}

function write(value: Json): string {
  if (typeof value === "number") return decimal(value);
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(write).join(",")}]`;
  const members = Object.keys(value).sort();
  return `{${members.map((name) => `${JSON.stringify(name)}:${write(value[name] as Json)}`).join(",")}}`;
}

function decimal(value: number): string {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/.exec(String(value)) ?? [];
  const digits = (whole + fraction).replace(/^0+/, "");
  if (digits === "") return "0";
  const short = digits.replace(/0+$/, "");
  const power = Number(exponent) - fraction.length + digits.length - short.length;
  return sign + short + (power === 0 ? "" : `e${power}`);
}
