// The entry "once/fetch" for Node. Bundlers for browsers use fetch.ts itself.
import "./random_node.js";

export * from "./fetch.js";
