"""What the backend of the stream test sends, byte for byte: the backend sends it, and the checker expects it.

Every event says which operation, execution and event it is, and has a checksum. All executions of an operation have the
same length, because the name of an execution has a fixed width.
"""
import dataclasses
import functools
import hashlib
import json
import zlib


@dataclasses.dataclass(frozen=True)
class Plan:
    """The body of a request: it says how it is to be answered."""
    operation: str
    events: int
    size: int  # of an event, about
    pause: float  # seconds between two events
    framing: str  # chunked or length
    cut: int  # the first attempt breaks off behind so many events; 0: it does not

    def body(self):
        return json.dumps(dataclasses.asdict(self)).encode()

    def length(self):
        return self.events * len(event(self, "0000.000000", 0))


def plan_of(body):
    return Plan(**json.loads(body))


def event_id(plan, execution, number):
    return f"{plan.operation}/{execution}/{number:06d}"


def event(plan, execution, number):
    name = event_id(plan, execution, number)
    filler = hashlib.shake_128(name.encode()).hexdigest(max(1, plan.size // 2))
    text = f"{plan.operation} {execution} {number:06d} {filler}"
    return f"id: {name}\ndata: {text} {zlib.crc32(text.encode()):08x}\n\n".encode()


@functools.lru_cache(maxsize=64)
def whole(plan, execution):
    return b"".join(event(plan, execution, number) for number in range(plan.events))
