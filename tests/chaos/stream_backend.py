"""The backend of the stream test, a process of its own that is killed at any moment:

    python3 stream_backend.py PORT FILE LIFE

It answers each request with the event stream that the request's body asks for. FILE gets a line for each execution that
begins and for each that is about to send its last byte, so that they can be counted after a kill.
"""
import asyncio
import itertools
import os
import sys
import time

from stream_plan import event, plan_of, whole


class Executions:
    def __init__(self, path, life):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._numbers = itertools.count(1)
        self._life = int(life)

    def begin(self, plan, attempt):
        execution = f"{self._life:04d}.{next(self._numbers):06d}"
        self._write("begun", execution, plan.operation, attempt, f"{time.time():.6f}")
        return execution

    def end(self, plan, execution):
        self._write("ended", execution, plan.operation)

    def _write(self, *words):
        """In one call, so that no kill tears a line."""
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


async def read_request(reader):
    """Its fields, and its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    pairs = (line.split(":", 1) for line in head.split("\r\n")[1:] if line)
    fields = {name.lower(): value.strip() for name, value in pairs}
    return fields, await reader.readexactly(int(fields["content-length"]))


async def answer(executions, fields, body, writer):
    plan = plan_of(body)
    attempt = int(fields["idempotency-attempt"])
    execution = executions.begin(plan, attempt)
    chunked = plan.framing == "chunked"
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(whole(plan, execution))}"
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Execution: {execution}\r\n{framing}\r\n\r\n".encode())
    for number in range(plan.events):
        if attempt == 1 and plan.cut and number == plan.cut:
            raise ConnectionAbortedError("as it was planned")
        data = event(plan, execution, number)
        if number + 1 == plan.events and not chunked:
            executions.end(plan, execution)
        writer.write(b"%x\r\n%s\r\n" % (len(data), data) if chunked else data)
        await writer.drain()
        if plan.pause:
            await asyncio.sleep(plan.pause)
    if chunked:
        executions.end(plan, execution)
        writer.write(b"0\r\n\r\n")


async def serve(port, path, life):
    executions = Executions(path, life)

    async def connected(reader, writer):
        try:
            while True:
                await answer(executions, *await read_request(reader), writer)
        except (asyncio.IncompleteReadError, OSError):
            writer.transport.abort()

    server = await asyncio.start_server(connected, "127.0.0.1", int(port), backlog=512)
    print("listening", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
