"""Checked by mypy, never run: what the types of the Python package allow and refuse."""
import datetime
import ssl

from once import (Answer, Claim, ClaimsClient, Following, Guard, Middleware, Reply, Request, Result, ServerSentEvent, StreamBroken,
                  hash_text, idempotent, send, send_async, stream, stream_async)

once = ClaimsClient("https://claims.example", token="t", ca_file="ca.pem")
result: Result = once.run(lambda: 1, scope="s", inputs={"text": hash_text("x")}, wait=datetime.timedelta(seconds=3))
claim: Claim = once.claim(scope="s", key="k", ttl="24h")
attempt: int = claim.attempt
recorded: bool = claim.progress({"percent": 40})
following: Following = once.follow(scope="s", inputs={"a": 1}, wait="1m")
for piece in following:
    numbered: tuple[int, int] = (piece.attempt, piece.number)
ended: Result = following.result or result


async def follow() -> bool:
    async for piece in once.follow(scope="s", key="k"):
        print(piece.data)
    return await claim.progress_async("text")


found = once.lookup(scope="s", key="k")
status: str = found.status if found is not None else "none"


@once.with_idempotency(scope="s")
def square(number: int) -> int:
    return number * number


@once.with_idempotency(scope="s", key="k")
async def cube(number: int) -> int:
    return number ** 3


async def work() -> int:
    return 1


async def story() -> None:
    async with once.with_idempotency(scope="s", key="k") as held:
        held.value = 7
    other: Result = await once.run_async(work, scope="s", key="k")
    assert other.ok
    later: Answer = await send_async("https://api.example/", b"x", key="k")
    assert later.replayed
    async with stream_async("https://api.example/", b"x", timeout=1.0) as streamed:
        async for event in streamed.events():
            assert event.data
        whole: bytes = await streamed.read()
        assert whole


with once.with_idempotency(scope="s", key="k") as block:
    acquired: bool = block.acquired

answer: Answer = send("https://api.example/", b"x", key="k", ssl_context=ssl.create_default_context())
body: bytes = answer.body


def read_events(url: str) -> "list[ServerSentEvent]":
    try:
        with stream(url, b"x", key="k", deadline=1.0) as got:
            parts: "list[bytes]" = list(got)
            assert parts and got.status == 200
            return list(got.events())
    except StreamBroken as error:
        assert error.reason == "new-attempt" and error.received > 0 and error.key
        return []


guard = Guard("memory:", settings={"defaults.ttl": "1h"})
shared: Result = Guard(gate=guard.gate).run(lambda: 1, scope="s", key="k", wait="1s")
operation: str = guard.compute_key(scope="s", inputs=[1])
begun = guard.gate.begin(Request(b"POST", b"/", [(b"host", b"x")]))
told: int = begun.status if isinstance(begun, Reply) else 0
application = Middleware(None, "once.yaml", caller=lambda scope: "me")


@idempotent(scope="s", guard=guard)
def twice(number: int) -> int:
    return number * 2


stream("https://api.example/", idle=1)  # type: ignore[call-arg]
Guard(7)  # type: ignore[arg-type]
once.claim(key="k")  # type: ignore[call-arg]
once.run(7, scope="s", key="k")  # type: ignore[arg-type]
once.claim(scope="s", key=7)  # type: ignore[arg-type]
send("https://api.example/", open("x"))  # type: ignore[arg-type]
