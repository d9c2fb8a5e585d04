"""Streams under a key through the SDKs of language models, unchanged, as npm has them: each event arrives when it is sent, a retry
attaches or gets the recorded stream, and the backend is called once."""
import json
import os
import pathlib
import queue
import subprocess
import threading
import unittest

import npm
from harness import EndToEnd
from wire import DEADLINE, wait_until

SOURCE = pathlib.Path(__file__).resolve().parent
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"
WORDS = ("paid", "for", "once")


def data(document, name=None):
    lines = ([f"event: {name}"] if name else []) + [f"data: {json.dumps(document)}", "", ""]
    return "\n".join(lines).encode()


class OpenAi:
    """POST /v1/chat/completions, which the `ai` package asks too."""

    opening = b""
    closing = data({"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
                    "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}) + b"data: [DONE]\n\n"

    @staticmethod
    def word(text):
        return data({"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
                     "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})


class Anthropic:
    """POST /v1/messages"""

    opening = data({"type": "message_start", "message": {
        "id": "m-1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None, "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1}}}, "message_start") + data(
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}, "content_block_start")
    closing = data({"type": "content_block_stop", "index": 0}, "content_block_stop") + data(
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 3}},
        "message_delta") + data({"type": "message_stop"}, "message_stop")

    @staticmethod
    def word(text):
        return data({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}, "content_block_delta")


LIBRARIES = {"openai": OpenAi, "anthropic": Anthropic, "ai": OpenAi}


class Script:
    """A backend whose bytes are sent when the test says so. None ends the response, False breaks the connection."""

    def __init__(self):
        self.parts = queue.Queue()

    def tell(self, *parts):
        for part in parts:
            self.parts.put(part)

    def __call__(self, _, connection):
        while (part := self.parts.get(timeout=DEADLINE)) is not None:
            if part is False:
                connection.reset()
                return
            connection.send(part if part == HEAD else f"{len(part):x}\r\n".encode() + part + b"\r\n")
        connection.send(LAST)


class Reader:
    """A program that reads a stream with a library, and its lines as they come."""

    def __init__(self, folder, gateway, library, key="k", timeout_ms=60_000):
        command = ["node", "stream.mjs", library, f"http://127.0.0.1:{gateway.port}", key, str(timeout_ms)]
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], cwd=folder, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        self.reading = threading.Thread(target=self.read)
        self.reading.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))

    def next(self):
        return self.lines.get(timeout=DEADLINE)

    def texts(self, count):
        return [self.next().get("text") for _ in range(count)]

    def kill(self):
        self.process.kill()
        self.close()

    def close(self):
        self.process.wait(DEADLINE)
        self.reading.join()
        self.process.stdout.close()
        self.process.stderr.close()


class Streams(EndToEnd):
    @classmethod
    def setUpClass(cls):
        cls.packages = npm.install(SOURCE, pathlib.Path(os.environ["ONCE_SDKS_FOLDER"]), ["send.mjs", "stream.mjs"])

    def start(self, library):
        """(wire format, script, backend, gateway)"""
        script = Script()
        backend = self.backend(script)
        # Anthropic's SDK says who it is with X-Api-Key.
        gateway = self.gateway(backend, "defaults.record.stream=auto", f"defaults.caller=header:{'X-Api-Key' if library == 'anthropic' else 'Authorization'}")
        return LIBRARIES[library], script, backend, gateway

    def read(self, gateway, library, **named):
        reader = Reader(self.packages, gateway, library, **named)
        self.addCleanup(reader.kill)
        return reader

    def begun(self, library):
        """As start(), with a reader that has the first word."""
        wire, script, backend, gateway = self.start(library)
        first = self.read(gateway, library)
        script.tell(HEAD, wire.opening or b": hello\n\n", wire.word(WORDS[0]))
        self.assertEqual(first.texts(1), [WORDS[0]])
        return wire, script, backend, gateway, first

    def test_events_arrive_one_by_one_and_retries_attach_and_replay(self):
        for library in LIBRARIES:
            with self.subTest(library):
                wire, script, backend, gateway, first = self.begun(library)
                script.tell(wire.word(WORDS[1]))
                self.assertEqual(first.texts(1), [WORDS[1]])
                second = self.read(gateway, library)
                self.assertEqual(second.texts(2), list(WORDS[:2]))
                script.tell(wire.word(WORDS[2]))
                self.assertEqual((first.texts(1), second.texts(1)), ([WORDS[2]], [WORDS[2]]))
                script.tell(wire.closing, None)
                self.assertEqual(self.end(first), {"end": True, "status": "executed"})
                self.assertEqual(self.end(second), {"end": True, "status": "attached"})
                third = self.read(gateway, library)
                self.assertEqual(third.texts(3), list(WORDS))
                self.assertEqual(self.end(third), {"end": True, "status": "replayed"})
                self.assertEqual(len(backend.executions()), 1)

    def end(self, reader):
        """The last line; the OpenAI format's closing chunk has no text."""
        while "end" not in (line := reader.next()):
            self.assertFalse(line.get("text"), line)
        return line

    def test_the_retry_of_the_sdk_itself_attaches(self):
        """Before the head has come, the SDK gives up on its first try and sends the request again."""
        for library in ("openai", "anthropic"):
            with self.subTest(library):
                wire, script, backend, gateway = self.start(library)
                reader = self.read(gateway, library, timeout_ms=1500)
                wait_until(lambda gateway=gateway: gateway.metrics()["once_waiting"] == 1, what="the retry to wait for the first try")
                script.tell(HEAD, wire.opening or b": hello\n\n", *map(wire.word, WORDS), wire.closing, None)
                self.assertEqual(reader.texts(3), list(WORDS))
                self.assertIn(self.end(reader)["status"], ("attached", "replayed"))
                self.assertEqual(len(backend.executions()), 1)

    def test_a_stream_that_broke_off_is_an_error_and_no_short_answer(self):
        for library in LIBRARIES:
            with self.subTest(library):
                _, script, backend, gateway, first = self.begun(library)
                script.tell(False)
                self.assertIn("error", self.end(first))
                again = self.read(gateway, library)
                self.assertEqual(again.texts(1), [WORDS[0]])
                self.assertIn("error", self.end(again))
                self.assertEqual(len(backend.executions()), 1)


if __name__ == "__main__":
    unittest.main()
