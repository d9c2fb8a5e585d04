"""Draws streams of requests as a client may send them: odd but legal, with one that must be refused, or bent at random."""
import dataclasses

from readers import Seen, sha256
from smuggling_test import CHUNKS, HEADS, HIDDEN, head

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
KEYED = ("POST", "PATCH")
SPACE = ("", " ", "\t", "  ", " \t ")
VALUE = "".join(map(chr, [*range(0x21, 0x7f), *range(0x80, 0x100)])) + " \t" * 10
# What looks like the end of a body, or like what comes behind one.
TEMPTING = (HIDDEN, b"0\r\n\r\n", b"\r\n0\r\n\r\n" + HIDDEN, b"\r\n\r\n", b"5\r\nhello\r\n", b"\0", b"\xff" * 10)
BENT = (b"\r", b"\n", b"\r\n", b"\0", b" ", b"\t", b":", b";", b",", b"0", b"1", b"f", b"x", b"\x0b", b"\x7f", b"\xa0",
        b"Content-Length: 1\r\n", b"Transfer-Encoding: chunked\r\n", b"transfer-encoding:\tchunked\r\n", b"\r\n\r\n")


@dataclasses.dataclass
class Meant:
    """One request of a stream."""
    raw: bytes
    method: str
    seen: Seen | None  # what a backend must see of it; None: nothing, it is a replay
    last: bool = False  # the connection ends behind it


@dataclasses.dataclass
class Drawn:
    """One stream. Nobody knows what a bent one means."""
    number: int
    requests: list
    refused: bytes | None = None  # behind the requests
    what: str = "legal"
    bent: bytes | None = None

    @property
    def raw(self):
        return self.bent or b"".join(each.raw for each in self.requests) + (self.refused or b"")

    @property
    def accepted(self):
        return [each.seen for each in self.requests if each.seen]


class Draw:
    def __init__(self, random):
        self.random = random

    def stream(self, number):
        requests = [self.request(f"/s{number}/r{count}") for count in range(self.random.randint(1, 5))]
        if self.random.random() < 0.3:
            what, refused = self.refused()
            return Drawn(number, requests, refused + HIDDEN, what)
        if self.random.random() < 0.3:
            # Twice the same, with a key: the second is answered without the backend.
            first = self.request(f"/s{number}/twice", method="POST", key=f"twice-{number}")
            requests += [first, Meant(first.raw, first.method, None)]
        if self.random.random() < 0.1:
            requests.append(self.request(f"/s{number}/last", old=True))
        return Drawn(number, requests)

    def bent(self, number):
        """Bytes put in or taken out, but not in the first lines: what is bent there is mostly another target."""
        requests = [self.request(f"/s{number}/r{count}") for count in range(self.random.randint(1, 5))]
        raws = [bytearray(each.raw) for each in requests]
        for _ in range(self.random.choice((1, 1, 1, 2, 5))):
            raw = self.random.choice(raws)
            begin = raw.index(b"\r\n", 4)
            at = self.random.randint(begin, min(len(raw), begin + self.random.choice((500, 5000))))
            raw[at:at + self.random.choice((0, 0, 1, 2))] = self.random.choice(BENT)
        return Drawn(number, requests, what="bent", bent=b"".join(raws))

    def cased(self, name):
        return self.random.choice((name, name.lower(), name.upper(), name.swapcase()))

    def line(self, name, value):
        return f"{self.cased(name)}:{self.random.choice(SPACE)}{value}{self.random.choice(SPACE)}\r\n".encode("latin-1")

    def value(self):
        size = self.random.choice((0, 1, 5, 20, 20, 100, 3000 if self.random.random() < 0.05 else 9))
        return "".join(self.random.choices(VALUE, k=size)).strip(" \t")

    def target(self, path):
        tail = self.random.choice(("", "", "?", "?a=b&c=%41", "?q=/../x//y", "/a;b=c,d|e^f`g{h}", "/%C3%A4/%2F", "//x",
                                   "?" + "long" * self.random.choice((10, 900))))
        return path + tail

    def body(self):
        size = self.random.choice((0, 1, 2, 15, 16, 17, 300, 4096, 70_000 if self.random.random() < 0.1 else 33))
        body = self.random.randbytes(size)
        if self.random.random() < 0.4:
            at = self.random.randint(0, len(body))
            body = body[:at] + self.random.choice(TEMPTING) + body[at:]
        return body

    def chunked(self, body):
        out, at = b"", 0
        while at < len(body):
            size = min(len(body) - at, self.random.choice((1, 2, 9, 10, 15, 16, 255, 4097, len(body))))
            out += self.size_line(size) + body[at:at + size] + b"\r\n"
            at += size
        trailers = b"".join(self.line(name, "1") for name in self.random.choice(
            ((), (), ("X-Trailer",), ("X-F-Trailer", "Content-Length"), ("Host", "Transfer-Encoding"))))
        return out + self.size_line(0) + trailers + b"\r\n"

    def size_line(self, size):
        digits = self.random.choice(("%x", "%X", "%04x", "%07X")) % size
        extension = self.random.choice(("", "", "", ";a", ";a=b", ';a="b c";d', ";" + "x" * 200))
        return f"{digits}{extension}\r\n".encode()

    def request(self, path, method=None, key=None, old=False):
        random = self.random
        method = method or random.choice(METHODS)
        target = self.target(path)
        body = self.body() if method in ("POST", "PUT", "PATCH", "DELETE") or random.random() < 0.1 else None
        if method == "HEAD" or random.random() < 0.1:
            body = None
        own = [(f"X-F-{random.choice('abcDEF')}_{random.randint(0, 9)}", self.value())
               for _ in range(random.choice((0, 1, 2, 3, 8, 40)))]
        # Only spaces before the host: nginx takes a tab for a part of it, and refuses.
        lines = [(0, f"{self.cased('Host')}:{' ' * random.randint(0, 2)}api.test\r\n".encode())]
        lines += [(at, self.line(*each)) for at, each in enumerate(own)]
        others = [self.line("Accept", "*/*"), self.line("X.odd!#$%&'*+^`|~", "1"), self.line("Cookie", "a=b; c=d"),
                  self.line("TE", "trailers"), self.line("Connection", "X-Hop" if old else "X-Hop, keep-alive"),
                  self.line("X-Hop", "1")]
        lines += [(random.randint(0, 40), line) for line in others if random.random() < 0.2]
        if key is None and random.random() < 0.5:
            key = path.strip("/").replace("/", "-")
        if key is not None:
            lines.append((random.randint(0, 40), self.line("Idempotency-Key", random.choice(('%s', '"%s"')) % key)))
        raw = b""
        if body is not None:
            if random.random() < 0.5 and not old:
                lines.append((random.randint(0, 40), self.line("Transfer-Encoding", self.cased("chunked"))))
                raw = self.chunked(body)
            else:
                length = random.choice(("%d", "%d", "%05d", "%09d")) % len(body)
                lines.append((random.randint(0, 40), self.line("Content-Length", length)))
                raw = body
            if random.random() < 0.15 and not old:
                lines.append((random.randint(0, 40), self.line("Expect", "100-continue")))
        lines.sort(key=lambda each: each[0])
        first = f"{method} {target} HTTP/1.{0 if old else 1}\r\n".encode()
        empty = random.choice((b"", b"", b"", b"\r\n", b"\r\n\r\n"))
        fields = tuple((name.lower(), value) for name, value in own)
        return Meant(empty + first + b"".join(line for _, line in lines) + b"\r\n" + raw, method,
                     Seen(method, target, sha256(body or b""), fields), last=old)

    def refused(self):
        """Its name, and the bytes."""
        if self.random.random() < 0.6:
            what = self.random.choice(sorted(HEADS))
            return what, HEADS[what][0]
        what = self.random.choice(sorted(CHUNKS))
        key = [f"Idempotency-Key: {self.random.random()}".encode()] if self.random.random() < 0.5 else []
        return what, head(b"Transfer-Encoding: chunked", *key, first=b"POST /refused HTTP/1.1") + CHUNKS[what]
