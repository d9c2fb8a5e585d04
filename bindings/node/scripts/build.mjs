// Builds the package in this folder: dist/ for ES modules and CommonJS, and prebuilds/ with the addon and the library.
//
//   npm ci --ignore-scripts && ONCE_LIBRARY=build/release/libonce.so npm run build && npm pack
//
// ONCE_LIBRARY is the libonce.so to bundle; without it the package has none and uses the system's. ONCE_INCLUDE is the folder of
// once/once.h; by default that of the repository.
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { compile } from "./compile.mjs";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..");
const PREBUILT = join(ROOT, "prebuilds", `${process.platform}-${process.arch}`);
const CJS = join(ROOT, "dist", "cjs");

function tsc(...options) {
  const compiler = join(ROOT, "node_modules", "typescript", "bin", "tsc");
  const done = spawnSync(process.execPath, [compiler, "-p", ROOT, ...options], { stdio: "inherit" });
  if (done.status !== 0) process.exit(1);
}

function buildJavaScript() {
  rmSync(join(ROOT, "dist"), { recursive: true, force: true });
  tsc();
  tsc("--outDir", CJS, "--module", "commonjs", "--moduleResolution", "node10");
  writeFileSync(join(CJS, "package.json"), '{ "type": "commonjs" }\n');
}

function buildAddon() {
  const include = process.env.ONCE_INCLUDE || join(ROOT, "..", "..", "include");
  copyFileSync(join(include, "once", "once.h"), join(ROOT, "native", "once.h"));
  rmSync(PREBUILT, { recursive: true, force: true });
  mkdirSync(PREBUILT, { recursive: true });
  const failed = compile(PREBUILT);
  if (failed !== undefined) {
    console.error(failed);
    process.exit(1);
  }
  if (process.env.ONCE_LIBRARY) copyFileSync(process.env.ONCE_LIBRARY, join(PREBUILT, "libonce.so"));
}

buildJavaScript();
buildAddon();
