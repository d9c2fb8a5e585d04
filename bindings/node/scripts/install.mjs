// Runs when the package is installed: builds the addon from source if no prebuilt one can be loaded. It never fails the installation:
// "once/fetch" and "once/claims" need no addon, and the first call of any other entry reports that it is missing.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { compile } from "./compile.mjs";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..");

function loads(file) {
  try {
    createRequire(import.meta.url)(file);
    return true;
  } catch {
    return false;
  }
}

const prebuilt = join(ROOT, "prebuilds", `${process.platform}-${process.arch}`, "once.node");
// In the repository there is no header beside the sources before the first build.
const hasSources = existsSync(join(ROOT, "native", "once.h"));
if (hasSources && (process.env.npm_config_build_from_source || !loads(prebuilt))) {
  const failed = compile(join(ROOT, "build"));
  if (failed !== undefined) {
    console.warn(`once: the addon could not be built, so the middlewares and Gate will not work. fetchOnce() and the claims API do.\n${failed}`);
  }
}
