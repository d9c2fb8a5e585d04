"""examples/ledger with a backend that dies: LEDGER_DEATHS is how likely it is at each step, by the name of the step; it ends the
whole process or takes too long. Otherwise it is the example, unchanged.
"""
import json
import os
import random
import sys
import time

sys.path.insert(0, os.environ["LEDGER_EXAMPLE"])

import ledger  # noqa: E402

DEATHS = json.loads(os.environ["LEDGER_DEATHS"])
SLOW = float(os.environ["LEDGER_SLOW_SECONDS"])
drawn = random.Random()


def step(name):
    if drawn.random() >= DEATHS.get(name, 0):
        return
    if drawn.random() < 0.5:
        os._exit(1)
    time.sleep(drawn.uniform(0.5, 1.5) * SLOW)


class DyingLedger(ledger.Ledger):
    def transfer(self, claim, order):
        step("before")
        answer = super().transfer(claim, order)
        step("committed")
        return answer

    def book(self, cursor, transfer):
        super().book(cursor, transfer)
        step("booked")

    def finish(self, cursor, *outcome):
        super().finish(cursor, *outcome)
        step("finished")


class DyingHandler(ledger.Handler):
    def reply(self, status, answer):
        if drawn.random() < DEATHS.get("half", 0):
            self.wfile.write(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nhalf")
            self.wfile.flush()
            os._exit(1)
        super().reply(status, answer)


ledger.Handler = DyingHandler
ledger.serve(DyingLedger(os.environ["LEDGER_DATABASE"]), int(os.environ["LEDGER_PORT"]))
