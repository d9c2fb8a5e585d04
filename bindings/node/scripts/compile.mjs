// Compiles the addon with the C compiler of the machine (CC, or cc). Node's own headers are not needed: node-api-headers has those of
// Node-API, which every version of Node since 18 supports.
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..");
const SOURCES = ["addon.c", "arguments.c", "events.c", "gate.c", "library.c"];

/** Compiles native/ into `folder`/once.node. Returns the error, or undefined. */
export function compile(folder) {
  const { include_dir: headers } = createRequire(import.meta.url)("node-api-headers");
  mkdirSync(folder, { recursive: true });
  const command = [
    "-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-DNAPI_VERSION=8", "-I", headers,
    ...SOURCES.map((source) => join(ROOT, "native", source)), "-o", join(folder, "once.node"), "-ldl", "-lpthread",
  ];
  const done = spawnSync(process.env.CC || "cc", command, { encoding: "utf8" });
  if (done.error !== undefined) return `the C compiler could not be started: ${done.error.message}`;
  if (done.status !== 0) return done.stderr;
  if (done.stderr !== "") process.stderr.write(done.stderr);
  return undefined;
}
