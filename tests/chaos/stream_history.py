"""What readers saw of streams, and what must hold between it and what the backend did. It knows the wire and the backend's
own notes, and nothing of how Once works.
"""
import collections
import dataclasses
import threading
import time

from stream_plan import event_id, whole

PROBLEMS = {409: ("in-flight", "outcome-unknown", "response-not-kept"), 404: ("key-not-found",)}
RETRIED = (502, 503, 504)


@dataclasses.dataclass
class Operation:
    route: str
    key: str
    plan: object
    oversize: bool  # longer than what is recorded of a stream
    readings: list = dataclasses.field(default_factory=list)

    @property
    def holds(self):
        return self.route == "/hold"


@dataclasses.dataclass
class Reading:
    """One response, as far as it was read. Its end: clean, cut (by the other side), left (by the reader) or stuck."""
    operation: Operation
    gateway: str
    way: str  # how it was asked for
    asked: object = None  # the offset or the id of an event that it should go on behind
    began: float = dataclasses.field(default_factory=time.time)
    status: int = 0
    fields: dict = dataclasses.field(default_factory=dict)
    body: bytes = b""
    code: str = ""
    end: str = "cut"
    ended: float = 0.0
    slow: bool = False
    note: str = ""
    size: int = 0  # of the body, which is forgotten when it has been compared
    executions: set = dataclasses.field(default_factory=set)  # that it may be a reading of

    @property
    def offset(self):
        return int(self.fields.get("idempotency-offset", "0"))

    @property
    def attempt(self):
        return int(self.fields.get("idempotency-attempt", "0"))

    @property
    def reached(self):
        """The place in the stream where it ended. One that goes on behind what there is has not seen that much."""
        return self.offset + self.size if self.size else 0

    def __str__(self):
        told = {name: value for name, value in self.fields.items() if name.startswith(("idempotency", "x-execution"))}
        return (f"{self.operation.key} on {self.operation.route} by {self.way} {self.asked or ''} at gateway {self.gateway}: {self.status} {self.code} "
                f"{told}, bytes {self.offset} to {self.offset + self.size} of {self.operation.plan.length()}, {self.end}{', slow' if self.slow else ''}, "
                f"{self.began:.3f} to {self.ended:.3f}{self.note and chr(10)}{self.note}")


class Notes:
    """What the backend wrote about its executions."""

    def __init__(self, path):
        self._path = path
        self._read = 0
        self.begun = collections.defaultdict(dict)  # by operation and execution: its attempt, and when
        self.ended = set()

    def update(self):
        with open(self._path, "rb") as file:
            file.seek(self._read)
            data = file.read()
        data = data[:data.rfind(b"\n") + 1]
        self._read += len(data)
        for kind, execution, operation, *rest in (line.split() for line in data.decode().splitlines()):
            if kind == "begun":
                self.begun[operation][execution] = (int(rest[0]), float(rest[1]))
            else:
                self.ended.add(execution)


class History:
    def __init__(self, notes, in_trouble):
        self._notes = notes
        self._in_trouble = in_trouble  # whether a gateway or its store was in trouble between two moments
        self._lock = threading.Lock()
        self._operations = []
        self.peace = False  # from when on nothing is excused by trouble
        self.violations = []
        self.counts = collections.Counter()

    def begin(self, operation):
        with self._lock:
            self._operations.append(operation)

    def add(self, reading):
        """Judges it by all that came before."""
        with self._lock:
            self._notes.update()
            self.counts[reading.end if reading.status == 200 else f"{reading.status} {reading.code}"] += 1
            reading.size = len(reading.body)
            if reading.end == "stuck":
                self._say("nothing came and nothing ended", reading)
            elif reading.status == 200:
                self._judge_stream(reading)
            elif reading.status and reading.end == "clean":
                self._judge_problem(reading)
            reading.body = b""
            reading.operation.readings.append(reading)

    def _say(self, what, *readings):
        self.violations.append("\n  ".join([what, *map(str, readings)]))

    def _judge_stream(self, reading):
        operation = reading.operation
        self.counts[f"{reading.way} {reading.fields.get('idempotency-status')}"] += 1
        if reading.fields.get("idempotency-status") not in ("executed", "attached", "replayed", "unknown"):
            self._say("a stream without a status", reading)
        begun = self._notes.begun[operation.plan.operation]
        reading.executions = {execution for execution in begun if self._may_be_of(reading, execution)}
        if not reading.executions:
            self._say(f"bytes that no execution sent, {sorted(begun)}: {self._first_difference(reading, begun)}", reading)
            return
        self._judge_resume(reading)
        if reading.attempt:
            self._judge_attempt(reading)
        if reading.end == "clean":
            self._judge_end(reading)
        elif reading.end == "cut" and not operation.oversize and not reading.slow:
            self._judge_cut(reading)

    def _may_be_of(self, reading, execution):
        if execution != reading.fields.get("x-execution", execution):
            return False
        expected = whole(reading.operation.plan, execution)
        return expected[reading.offset:reading.offset + reading.size] == reading.body

    def _first_difference(self, reading, begun):
        told = reading.fields.get("x-execution")
        if told not in begun:
            return f"the head is of {told}"
        expected = whole(reading.operation.plan, told)[reading.offset:]
        at = next((i for i, (one, other) in enumerate(zip(reading.body, expected)) if one != other), len(expected))
        return f"at {reading.offset + at} {reading.body[at:at + 80]!r} instead of {expected[at:at + 80]!r}"

    def _judge_resume(self, reading):
        """It goes on where it was asked to, or begins anew."""
        if reading.offset == 0:
            return
        plan = reading.operation.plan
        expected = {reading.asked} if reading.way == "offset" else set()
        if reading.way == "event":
            length = plan.length() // plan.events
            expected = {length * (number + 1) for execution in reading.executions for number in range(plan.events)
                        if event_id(plan, execution, number) == reading.asked}
        if reading.offset not in expected:
            self._say(f"it should begin at 0 or {sorted(expected)}", reading)

    def _judge_attempt(self, reading):
        """All readings of an attempt are of one execution, so of two of them one is a prefix of the other."""
        left = reading.executions
        for other in reading.operation.readings:
            if other.attempt == reading.attempt and other.status == 200 and other.executions:
                left = left & other.executions
                if not left:
                    self._say(f"two readings of attempt {reading.attempt} differ", other, reading)
                    return
        begun = self._notes.begun[reading.operation.plan.operation]
        if all(begun[execution][0] > reading.attempt for execution in left):
            self._say("an attempt shows an execution of a later one", reading)

    def _judge_end(self, reading):
        if reading.offset + reading.size != reading.operation.plan.length():
            self._say("a clean end of a part", reading)
        if not reading.executions & self._notes.ended:
            self._say("a clean end of a stream that the backend did not finish", reading)

    def _judge_cut(self, reading):
        """What an earlier reader saw is a prefix of what a later one gets, unless that one was disturbed."""
        if not self.peace and self._in_trouble(reading.gateway, reading.began, reading.ended):
            return
        self.counts["cut in peace"] += 1
        for other in reading.operation.readings:
            earlier = other.ended < reading.began and other.attempt == reading.attempt and other.status == 200
            if earlier and max(reading.offset, reading.reached) < other.reached:
                self._say("a later reader gets less than an earlier one saw", other, reading)

    def _judge_problem(self, reading):
        operation = reading.operation
        seen = [other for other in operation.readings if other.status == 200 and other.ended < reading.began]
        if reading.status not in RETRIED and reading.code not in PROBLEMS.get(reading.status, ()):
            self._say("an answer that was not expected", reading)
        if reading.code == "response-not-kept" and not operation.oversize:
            self._say("a stream that is not too long was not kept", reading)
        if reading.code == "key-not-found" and (reading.way != "lookup" or seen):
            self._say("a key that was used is not found", *seen[:1], reading)

    def seen(self, operation):
        """Whether somebody saw the beginning of a stream: the head is recorded before it is told."""
        with self._lock:
            return any(reading.status == 200 for reading in operation.readings)

    def check_all(self):
        """When everything is over."""
        with self._lock:
            self._notes.update()
            for operation in self._operations:
                self._judge_executions(operation)

    def _judge_executions(self, operation):
        begun = self._notes.begun.get(operation.plan.operation, {})
        if operation.holds and len(begun) > 1:
            self._say(f"held, and executed {len(begun)} times: {begun}", *operation.readings)
        ends = [reading for reading in operation.readings if reading.status == 200 and reading.end == "clean"]
        for reading in ends:
            # A request that a stalled network delivers late is of an earlier attempt.
            told = max((begun[each][0] for each in reading.executions), default=0)
            after = [each for each, (attempt, at) in begun.items() if at > reading.ended and attempt > told]
            if after:
                self._say(f"executed again, as {after}, after its end was told", reading)
        if len({frozenset(reading.executions) for reading in ends}) > 1 and not set.intersection(*(each.executions for each in ends)):
            self._say("two ends that differ", *ends)

    def executed_again(self):
        return sum(len(begun) > 1 for begun in self._notes.begun.values())

    def executions(self):
        return sum(len(begun) for begun in self._notes.begun.values())
