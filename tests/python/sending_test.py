"""once.send() and once.send_async() over the standard library, requests and httpx: the same rules over each."""
import asyncio
import json
import os
import socket
import subprocess
import unittest
import unittest.mock
import warnings

import httpx
import once
import requests
from once import sending
from once.sending import when_to_repeat
from once.transports import Reply
from support import AppTest, sys
from wire import Backend

ANSWERED = [("Idempotency-Status", "executed")]


def over_standard(url, body, **named):
    return once.send(url, body, **named)


def over_requests(url, body, **named):
    with requests.Session() as session:
        return once.send(url, body, session=session, **named)


def over_httpx(url, body, **named):
    with httpx.Client() as session:
        return once.send(url, body, session=session, **named)


def over_async(url, body, **named):
    return asyncio.run(once.send_async(url, body, **named))


def over_async_session(url, body, **named):
    async def main():
        async with httpx.AsyncClient() as session:
            return await once.send_async(url, body, session=session, **named)

    return asyncio.run(main())


def over_async_without_httpx(url, body, **named):
    with unittest.mock.patch.dict(sys.modules, httpx=None):
        return asyncio.run(once.send_async(url, body, **named))


WAYS = (over_standard, over_requests, over_httpx, over_async, over_async_session, over_async_without_httpx)


class Send(AppTest):
    def backend(self, handler, *answer):
        backend = Backend(lambda request, connection: handler(request, connection, *answer))
        self.addCleanup(backend.stop)
        return backend

    def each(self, story):
        """story(send), over every way."""
        for way in WAYS:
            with self.subTest(way.__name__):
                sending._warned.clear()
                story(way)

    def test_it_sends_again_what_got_no_whole_answer_or_one_that_says_to(self):
        def story(send):
            tries = []

            def handler(request, connection, tries=tries):
                tries.append((request.get("X-Key"), request.body, request.get("X-Mine")))
                if len(tries) == 1:
                    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
                    connection.close()
                elif len(tries) == 2:
                    connection.close()
                elif len(tries) == 3:
                    connection.reply(503, [("Retry-After", "0")])
                elif len(tries) == 4:
                    connection.reply(409, [("Idempotency-Status", "in-flight")])
                else:
                    connection.reply(201, ANSWERED, b"made")

            answer = send(self.backend(handler).origin + "/x?y=1", b"body", key_header="X-Key", headers={"X-Mine": "1"})
            self.assertEqual((answer.status, answer.tries, answer.body), (201, 5, b"made"))
            self.assertEqual(set(tries), {(answer.key, b"body", "1")})

        self.each(story)

    def test_redirects_are_answers(self):
        def story(send):
            backend = self.backend(lambda request, connection: connection.reply(307, [("Location", "/other"), *ANSWERED]))
            self.assertEqual((send(backend.origin + "/", b"x").status, len(backend.requests)), (307, 1))

        self.each(story)

    def test_an_empty_key_is_refused(self):
        def story(send):
            for arguments in ({"key": ""}, {"headers": {"Idempotency-Key": ""}}):
                with self.assertRaisesRegex(ValueError, "the key is empty"):
                    send("http://127.0.0.1:1/", b"x", **arguments)

        self.each(story)

    def test_giving_up_says_what_is_known(self):
        def story(send):
            with socket.socket() as nobody:
                nobody.bind(("127.0.0.1", 0))
                with self.assertRaisesRegex(once.NotAnswered, "nothing was sent, mine") as raised:
                    send(f"http://127.0.0.1:{nobody.getsockname()[1]}/", b"x", key="mine", deadline=0.3)
            self.assertEqual((raised.exception.key, raised.exception.sent), ("mine", False))
            backend = self.backend(lambda request, connection: connection.close())
            with self.assertRaisesRegex(once.NotAnswered, "unknown whether it was executed") as raised:
                send(backend.origin + "/", b"x", key="mine", deadline=0.3)
            self.assertTrue(raised.exception.sent)

        self.each(story)

    def test_an_unprotected_answer_is_warned_of_once(self):
        def story(send):
            for status, fields in ((201, []), (201, [("Idempotency-Status", "bypassed")]), (404, [])):
                backend = self.backend(lambda request, connection, *answer: connection.reply(*answer), status, fields)
                with warnings.catch_warnings(record=True) as seen:
                    warnings.simplefilter("always")
                    for _ in range(2):
                        send(backend.origin + "/", b"x")
                messages = [str(each.message) for each in seen if each.category is once.OnceWarning]
                self.assertEqual(len(messages), 0 if status == 404 else 1)
                self.assertTrue(all("Idempotency-Status" in message and backend.origin in message for message in messages))

        self.each(story)

    def test_a_session_of_something_else_is_refused(self):
        with self.assertRaisesRegex(TypeError, "requests.Session or an httpx.Client"):
            once.send("http://localhost/", b"", session=7)
        with self.assertRaisesRegex(TypeError, "httpx.AsyncClient"):
            asyncio.run(once.send_async("http://localhost/", b"", session=requests.Session()))
        with self.assertRaisesRegex(ValueError, "leave out ca_file"):
            once.send("https://localhost/", b"", session=requests.Session(), ca_file="x")


class Rules(unittest.TestCase):
    def test_what_is_repeated(self):
        held = json.dumps({"retryable": False}).encode()
        for expected, reply in ((None, Reply(200, {}, b"")), (None, Reply(500, {}, b"")), (0.0, Reply(502, {}, b"")),
                                (7.0, Reply(503, {"Retry-After": "7"}, b"")), (None, Reply(503, {}, held)),
                                (None, Reply(503, {"X-Should-Retry": "false"}, b"")), (None, Reply(409, {}, b"")),
                                (0.0, Reply(409, {}, b'{"error": {"code": "idempotency_key_in_use"}}')),
                                (None, Reply(409, {"Idempotency-Status": "unknown"}, b"")),
                                (3.0, Reply(409, {"Idempotency-Status": "unknown", "Retry-After": "3"}, b""))):
            with self.subTest(reply):
                self.assertEqual(when_to_repeat(reply), expected)


class Package(AppTest):
    def test_it_needs_nothing_but_the_standard_library(self):
        program = ("import sys; before = set(sys.modules); import once; "
                   "print(' '.join({name.split('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        said = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, cwd="/").stdout
        self.assertEqual(said.split(), ["once"])

    def test_the_library_is_the_one_in_the_wheel_and_of_the_same_version(self):
        said = self.python("import once; from once import _library; print(_library._path(), _library.library().once_version().decode())")
        self.assertEqual(said, f"{os.path.join(os.path.dirname(once.__file__), 'libonce.so')} {once.__version__}")
        self.assertIn("site-packages", once.__file__)


if __name__ == "__main__":
    unittest.main()
