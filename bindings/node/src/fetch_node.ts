// The entry "once/fetch" on Node. Bundlers for browsers take fetch.ts itself.
import "./random_node.js";

export * from "./fetch.js";
