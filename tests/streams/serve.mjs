// The reference server of Durable Streams, in memory, on a free port, which it prints.
import { DurableStreamTestServer } from "@durable-streams/server";

// Half a second of long-poll is what upstream runs its own suite with.
const server = new DurableStreamTestServer({ port: 0, host: "127.0.0.1", longPollTimeout: 500 });
console.log(await server.start());
