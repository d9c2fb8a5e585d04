// A real Node backend that closes its idle connections after 50 ms: just when a gateway may take one for the next request.
// Prints its port. GET /counts answers with how often each key was executed.
const http = require("http");

const limit = 50;
const executions = {};
const server = http.createServer((request, response) => {
  if (request.url === "/counts") return response.end(JSON.stringify(executions));
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const key = request.headers["idempotency-key"];
    executions[key] = (executions[key] || 0) + 1;
    response.writeHead(201, {"Content-Type": "text/plain"});
    // Versions of Node since 2025 wait a second longer than they say; this one means it.
    response.on("finish", () => request.socket.setTimeout(limit));
    response.end(`${key} ${Buffer.concat(parts).length}`);
  });
});
server.keepAliveTimeout = limit;
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit(0)).resume();  // ends with whoever started it
