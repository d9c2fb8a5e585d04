// One browser for all of it. ONCE_BROWSER_ONLY names the files to run, such as overview,access.
import {after, before} from "node:test";
import {startBrowser, stopBrowser} from "./support.mjs";

before(startBrowser);
after(stopBrowser);

const only = process.env.ONCE_BROWSER_ONLY;
for (const name of only ? only.split(",") : ["overview", "access", "keys", "streams", "images"]) await import(`./${name}.test.mjs`);
