// Limits which parts of a value may be recorded: allow-lists by member, checked by type, and names that are never kept. A recorded value is
// replayed to every later caller, so it must not contain anything unexpected.
import type { Json } from "./json.js";

/**
 * The type that a member must have: a type, a list of allowed texts, a pattern for texts, a function, or a nested allow-list. "primitives"
 * is a primitive, a list of primitives, or an object whose members are primitives or lists of them; its other members are dropped.
 */
export type Rule =
  | "boolean" | "number" | "integer" | "string" | "boolean[]" | "number[]" | "integer[]" | "string[]" | "primitives"
  | readonly string[]
  | RegExp
  | ((value: unknown) => boolean)
  | { allow: Readonly<Record<string, Rule>> };

export interface SanitizeRules {
  /** Members that are kept if they pass their rule; all others are dropped. */
  allow: Readonly<Record<string, Rule>>;
  /** Names that are never kept, at any depth. The default is BLOCKED_NAMES. */
  block?: readonly string[];
}

export type Sanitize = SanitizeRules | ((value: unknown) => unknown);

export const BLOCKED_NAMES: readonly string[] = Object.freeze(["_internal", "debug", "prompt", "systemPrompt", "userText", "error",
  "message", "stack", "provider", "model", "requestId"]);

/** The fields of an expensive operation that a customer may see. */
export const CUSTOMER_SAFE: SanitizeRules = Object.freeze({
  allow: Object.freeze({
    ok: "boolean",
    stopReason: /^[\w.-]{1,64}$/,
    createdActionRequestIds: "integer[]",
    traceId: /^[\w-]{1,64}$/,
    needsHuman: "boolean",
    cached: "boolean",
    data: "primitives",
  } as const),
});

export function sanitizerOf(sanitize: Sanitize | undefined): (value: unknown) => unknown {
  if (sanitize === undefined) return (value) => value;
  if (typeof sanitize === "function") return sanitize;
  return (value) => sanitized(value, sanitize);
}

/** The allowed members of the value; {} if it is not an object. */
export function sanitized(value: unknown, rules: SanitizeRules): { [name: string]: Json } {
  const blocked = new Set(rules.block ?? BLOCKED_NAMES);
  return allowedMembers(value, rules.allow, blocked);
}

function allowedMembers(value: unknown, allow: Readonly<Record<string, Rule>>, blocked: ReadonlySet<string>): { [name: string]: Json } {
  const kept: { [name: string]: Json } = {};
  if (typeof value !== "object" || value === null || Array.isArray(value)) return kept;
  for (const [name, rule] of Object.entries(allow)) {
    if (blocked.has(name) || !Object.hasOwn(value, name)) continue;
    const member = allowed((value as Record<string, unknown>)[name], rule, blocked);
    if (member !== undefined) kept[name] = member;
  }
  return kept;
}

/** The allowed parts of the value; undefined if there are none. */
function allowed(value: unknown, rule: Rule, blocked: ReadonlySet<string>): Json | undefined {
  if (value === undefined) return undefined;
  if (rule === "primitives") return primitives(value, blocked);
  if (typeof rule === "object" && "allow" in rule) return allowedMembers(value, rule.allow, blocked);
  return passes(value, rule) ? (value as Json) : undefined;
}

function passes(value: unknown, rule: Exclude<Rule, "primitives" | { allow: unknown }>): boolean {
  if (typeof rule === "function") return rule(value);
  if (rule instanceof RegExp) return typeof value === "string" && rule.test(value);
  if (typeof rule !== "string") return typeof value === "string" && rule.includes(value);
  if (rule.endsWith("[]")) {
    return Array.isArray(value) && value.every((item) => passes(item, rule.slice(0, -2) as "boolean" | "number" | "integer" | "string"));
  }
  if (rule === "integer") return Number.isInteger(value);
  if (rule === "number") return Number.isFinite(value);
  return typeof value === rule;
}

function primitives(value: unknown, blocked: ReadonlySet<string>): Json | undefined {
  if (isPrimitive(value)) return value;
  if (Array.isArray(value)) return value.every(isPrimitive) ? value : undefined;
  if (typeof value !== "object" || value === null) return undefined;
  const safe = (member: unknown) => isPrimitive(member) || (Array.isArray(member) && member.every(isPrimitive));
  return Object.fromEntries(Object.entries(value).filter(([name, member]) => !blocked.has(name) && safe(member)));
}

/** An object could have any content, so it does not count as a primitive. */
function isPrimitive(value: unknown): value is null | boolean | number | string {
  return value === null || typeof value === "boolean" || typeof value === "string" || Number.isFinite(value);
}
