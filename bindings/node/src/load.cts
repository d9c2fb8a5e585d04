// Finds and loads the addon and the library. CommonJS, because only `require` loads addons; both builds of the package use it.
import { existsSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(__dirname, "..", "..");
const PREBUILT = join(ROOT, "prebuilds", `${process.platform}-${process.arch}`);
const BUILT = join(ROOT, "build");

/** Built by the install script if no prebuilt addon fits. */
function addonFile(): string {
  for (const folder of [BUILT, PREBUILT]) {
    const file = join(folder, "once.node");
    if (existsSync(file)) return file;
  }
  throw new Error(`once: there is no addon for ${process.platform}-${process.arch}. Install libonce and a C compiler, then run: npm rebuild once`);
}

/** ONCE_LIBRARY, the library in the package, or the system's. */
function libraryFile(): string {
  const bundled = join(PREBUILT, "libonce.so");
  return process.env.ONCE_LIBRARY || (existsSync(bundled) ? bundled : "libonce.so.0");
}

let addon: any;

/** The functions of native/addon.c. Throws if they cannot be loaded. */
export function load(): any {
  if (addon === undefined) {
    const loaded = require(addonFile());
    loaded.load(libraryFile());
    addon = loaded;
  }
  return addon;
}
