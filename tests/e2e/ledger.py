"""What a backend did, what clients were told, and what must hold between the two, whatever crashed in between.

The backend's side is a Ledger of Executions, the clients' side a list of Asked; check_all() compares them.
"""
import collections
import dataclasses
import threading
import time

from harness import kept_part
from wire import Response


@dataclasses.dataclass
class Execution:
    """Once asked the backend for something, and the backend did it."""
    fence: int
    attempt: int
    generation: str  # the process that asked for it
    request_id: str
    status: int
    body: bytes = dataclasses.field(repr=False)
    arrived: float = dataclasses.field(default_factory=time.time)
    replied: float = 0.0  # or gave up; if the backend keeps book of it
    store: str = ""  # whose fences it counts with
    disturbed: str = ""  # by what its answer was kept from arriving, as far as the backend knows


@dataclasses.dataclass
class Asked:
    """One operation of a client."""
    path: str
    key: str
    body: bytes = dataclasses.field(repr=False)
    caller: str = ""
    sent: dict = dataclasses.field(default_factory=dict)  # when, by request id
    answer: Response | None = dataclasses.field(default=None, repr=False)  # the first one that told the outcome
    answered: float = 0.0
    held: bool = False  # its outcome is unknown, and stays so unless its owner only stood still
    bodiless: bool = False  # the disk was full: that it succeeded is recorded, and not its response

    @property
    def operation(self):
        return self.caller, self.path, self.key

    def settle(self, response):
        self.answer, self.answered, self.held = response, time.time(), False


class Ledger:
    """What was done, by operation, in the order in which it was done."""

    def __init__(self):
        self.executions = collections.defaultdict(list)
        self.lock = threading.Lock()

    def record(self, operation, request, **named):
        """Under the lock."""
        execution = Execution(int(request.get("Idempotency-Fence")), int(request.get("Idempotency-Attempt")),
                              request_id=request.get("X-Request-Id"), **named)
        self.executions[operation].append(execution)
        return execution

    def executed_again(self):
        return sum(len(executions) > 1 for executions in self.executions.values())


def check_retry(test, asked, response):
    """What was told is told again, byte for byte; what is held stays held."""
    if asked.held or asked.bodiless:
        code = "outcome-unknown" if asked.held else "response-not-kept"
        test.assertEqual((response.status, response.code), (409, code), asked.key)
        return
    test.assertEqual(response.get("Idempotency-Status"), "replayed", (asked, response.head))
    test.assertTrue(kept_part(response) == kept_part(asked.answer), (asked, response.head, asked.answer.head))


def check_all(test, ledger, asked, why_not_again, shared=False):
    """why_not_again(asked, earlier, later) says what is wrong with a second execution, if something is. Failures are no
    matter for it: after these a second one is right. shared: whether several processes use one store at a time."""
    for each in asked:
        executions = sorted(ledger.executions[each.operation], key=lambda execution: execution.fence)
        with test.subTest(each.operation, asked=each, executions=executions):
            check_operation(test, each, executions, why_not_again, shared)


def answered_execution(asked, executions, why_not_again, shared):
    """The execution whose response is the answer: the last one.

    There is one exception, on a shared store. A process stands still, its lease ends, and others execute again. If no outcome
    of theirs is recorded, the next claim may be granted to a retry at the first process. That starts nothing beside what it
    is running (docs/reference/guarantees.md, 1): its own execution gets the claim, and its response becomes the outcome. Once
    an outcome is recorded no claim is granted, so what was recorded or told is never replaced. The stories are
    StoodStill.* in tests/unit/gateway/exchange/exchange_stood_still_test.cpp.

    So the answer of an earlier execution is right only if its process has not executed again, and if a claim could be granted
    after the last execution."""
    last = executions[-1]
    for at, told in enumerate(executions[:-1]):
        others_only = told.generation not in {later.generation for later in executions[at + 1:]}
        if not (shared and others_only and told.body == asked.answer.body):
            continue
        handed = dataclasses.replace(told, arrived=asked.answered)
        if last.status == 500 or why_not_again(asked, last, handed) is None:
            return told
    return last


def check_operation(test, asked, executions, why_not_again, shared):
    fences = [(each.store, each.fence) for each in executions]
    test.assertEqual(len(fences), len(set(fences)), "a fence was given out twice")
    attempts = [each.attempt for each in executions]
    test.assertEqual(attempts, sorted(set(attempts)))
    for earlier, later in zip(executions, executions[1:]):
        if earlier.status != 500:
            test.assertNotEqual(asked.path, "/hold", "executed again although it was held")
            test.assertIsNone(why_not_again(asked, earlier, later))
    if asked.held or asked.bodiless and asked.answer is None:
        return
    # It is of the execution whose response it must be, its own, and nothing was executed after it was told.
    test.assertIsNotNone(asked.answer, "it never got an answer")
    test.assertTrue(executions, "told, but never executed")
    told = answered_execution(asked, executions, why_not_again, shared)
    test.assertEqual(asked.answer.body, told.body)
    original = asked.answer.get("Original-Request-Id") or asked.answer.get("X-Request-Id")
    test.assertEqual(original, told.request_id)
    for each in executions:
        test.assertLessEqual(each.arrived, asked.answered, "executed after it was told")
