// Node's own HTTP parser as a reader of bytes: a line of JSON for every whole request, and for everything that is wrong.
// Prints its port first. Every line says which connection it is about, by the port of its other end.
const crypto = require("crypto");
const http = require("http");

const say = (socket, what) => console.log(JSON.stringify({port: socket.remotePort, ...what}));

const read = (request, response) => {
  const number = request.socket.requests = (request.socket.requests || 0) + 1;  // ends may come in another order
  const hash = crypto.createHash("sha256");
  request.on("data", (part) => hash.update(part));
  request.on("aborted", () => say(request.socket, {problem: "incomplete", target: request.url}));
  request.on("error", () => {});  // told as aborted
  request.on("end", () => {
    say(request.socket, {number, method: request.method, target: request.url,
                         fields: request.rawHeaders, body: hash.digest("hex")});
    response.end();
  });
};

const server = http.createServer({maxHeaderSize: 1 << 17, keepAliveTimeout: 60000}, read);
server.on("checkExpectation", read);  // another one than 100-continue does not change where a request ends
server.on("clientError", (error, socket) => {
  say(socket, {problem: error.code});
  socket.destroy();
});
for (const name of ["upgrade", "connect"]) {
  server.on(name, (request, socket) => {
    say(socket, {problem: name, target: request.url});
    socket.destroy();
  });
}
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit(0)).resume();  // ends with whoever started it
