// The server suite of Durable Streams against SUITE_URL. Its own command finds no test files as it is installed.
import { runConformanceTests } from "@durable-streams/server-conformance-tests";
import * as fc from "fast-check";

fc.configureGlobal({ seed: Number(process.env.SUITE_SEED) }); // the same draws on both sides
runConformanceTests({ baseUrl: process.env.SUITE_URL, subscriptions: false });
