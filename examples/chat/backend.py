#!/usr/bin/python3
"""A stand-in for a language model that is slow and expensive. It knows nothing of keys.

    backend.py [--port 9000] [--pace 0.2] [--by-hand]

    GET  /                       the page
    POST /v1/chat/completions    an answer as server-sent events, one word each, in the chunks of OpenAI's API
    GET  /calls                  the ledger: every call that was paid for
    POST /words                  with --by-hand: {"question": …, "count": 3} sends three words,
                                 {"question": …, "cut": true} breaks the connection
"""
import argparse
import collections
import http.server
import json
import pathlib
import queue
import threading

PAGE = pathlib.Path(__file__).resolve().parent / "page"
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
ANSWER = ("You asked: {} That is a good question, and a slow model takes its time. Every word of this answer was paid for when the "
          "call began, so it would be a pity to lose it because a train went into a tunnel or somebody pressed reload.")
WORD, CUT = "word", "cut"


class Model:
    def __init__(self, pace, by_hand):
        self.pace = pace
        self.by_hand = by_hand
        self.lock = threading.Lock()
        self.calls = []
        self.steps = collections.defaultdict(queue.Queue)  # by question
        self.pause = threading.Event()  # never set: its wait() is the time between two words

    def begin(self, question):
        with self.lock:
            call = {"id": f"chatcmpl-{len(self.calls) + 1}", "question": question, "answer": ANSWER.format(question), "words": 0}
            self.calls.append(call)
        return call

    def next_step(self, question):
        """Returns when the next word may be sent."""
        if self.by_hand:
            with self.lock:
                steps = self.steps[question]
            return steps.get()
        self.pause.wait(self.pace)
        return WORD

    def step(self, question, count=0, cut=False):
        with self.lock:
            steps = self.steps[question]
        for step in [WORD] * count + [CUT] * cut:
            steps.put(step)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model = None

    def do_GET(self):
        if self.path == "/calls":
            with self.model.lock:
                self.reply(200, self.model.calls)
            return
        name = "index.html" if self.path == "/" else self.path.removeprefix("/")
        if name in {file.name for file in PAGE.iterdir()}:
            self.send(200, TYPES[pathlib.Path(name).suffix], (PAGE / name).read_bytes())
        else:
            self.reply(404, {"error": {"message": "there is no such page"}})

    def do_POST(self):
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"null")
        if self.path == "/words" and self.model.by_hand:
            self.model.step(**document)
            self.reply(200, document)
        elif self.path != "/v1/chat/completions":
            self.reply(404, {"error": {"message": "there is no such page"}})
        elif not document.get("stream"):
            self.reply(400, {"error": {"message": "this model only streams"}})
        else:
            self.answer(self.model.begin(document["messages"][-1]["content"]), document.get("model", "slow"))

    def answer(self, call, model):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, word in enumerate(call["answer"].split(" "), 1):
            if self.model.next_step(call["question"]) == CUT:
                self.close_connection = True  # in the middle of a chunked body
                return
            delta = {"content": word if number == 1 else " " + word}
            self.event({"delta": delta, "finish_reason": None}, call, model, number)
            call["words"] = number
        self.event({"delta": {}, "finish_reason": "stop"}, call, model, call["words"] + 1)
        self.chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def event(self, choice, call, model, number):
        data = {"id": call["id"], "object": "chat.completion.chunk", "model": model, "choices": [{"index": 0, **choice}]}
        self.chunk(f"id: {call['id']}/{number}\ndata: {json.dumps(data)}\n\n".encode())

    def chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def reply(self, status, document):
        self.send(status, "application/json", json.dumps(document).encode() + b"\n")

    def send(self, status, content_type, body):
        self.send_response(status)
        for name, value in {"Content-Type": content_type, "Content-Length": len(body), "Cache-Control": "no-cache"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """The gateway has an access log."""


def main():
    parser = argparse.ArgumentParser(description="A stand-in for a slow language model.")
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--pace", type=float, default=0.2, help="seconds from word to word")
    parser.add_argument("--by-hand", action="store_true", help="a word is sent when POST /words asks for it")
    given = parser.parse_args()
    handler = type("ModelHandler", (Handler,), {"model": Model(given.pace, given.by_hand)})
    with http.server.ThreadingHTTPServer(("127.0.0.1", given.port), handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
