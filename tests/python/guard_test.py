"""once.Guard and @once.idempotent, in processes as a user has them."""
import json
import signal
import subprocess
import unittest

from support import SERVER, AppTest, sys

OPEN = """
import asyncio, json, os, threading
import once
SETTINGS = json.loads(os.environ["APP_SETTINGS"])
guard = once.Guard(settings=SETTINGS)
"""


class GuardTest(AppTest):
    def told(self, program, **over):
        """What the program prints as JSON."""
        return json.loads(self.python(OPEN + program, **over))


class Run(GuardTest):
    def test_work_is_done_once_and_its_value_kept(self):
        said = self.told("""
made = []
results = [guard.run(lambda: made.append(1) or {"made": len(made)}, scope="jobs", inputs={"n": 1.0}) for _ in range(2)]
again = guard.run(lambda: 1 / 0, scope="jobs", inputs={"n": 1})
print(json.dumps([[r.status, r.value, r.cached, r.attempt] for r in (*results, again)]))
""")
        self.assertEqual(said, [["succeeded", {"made": 1}, False, 1], *2 * [["succeeded", {"made": 1}, True, 1]]])

    def test_many_loops_and_threads_share_a_guard(self):
        said = self.told("""
def loop(number):
    async def main():
        results = await asyncio.gather(*[guard.run_async(make, scope="jobs", key=str(n), wait="30s") for n in range(20)])
        assert all(r.ok for r in results), results
    made = []
    async def make():
        done.append(1)
        return number
    asyncio.run(main(), debug=True)  # refuses calls from threads of others
def plain():
    for n in range(20):
        assert guard.run(lambda: done.append(1), scope="jobs", key=str(n), wait="30s").ok
done = []
threads = [threading.Thread(target=loop, args=(n,)) for n in range(4)] + [threading.Thread(target=plain) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(done))
""")
        self.assertEqual(said, 20)

    def test_failed_work_is_done_again_and_the_error_is_kept(self):
        said = self.told("""
failed = guard.run(lambda: 1 / 0, scope="jobs", key="k")
again = guard.run(lambda: 7, scope="jobs", key="k")
print(json.dumps([failed.status, type(failed.error).__name__, again.status, again.attempt]))
""")
        self.assertEqual(said, ["failed", "ZeroDivisionError", "succeeded", 2])

    def test_work_in_progress_and_another_fingerprint(self):
        said = self.told("""
claim = guard.claim(scope="jobs", key="k", fingerprint="a")
busy = guard.run(lambda: 1, scope="jobs", key="k", fingerprint="a")
other = guard.run(lambda: 1, scope="jobs", key="k", fingerprint="b")
done = claim.succeed([1])
found = guard.lookup(scope="jobs", key="k", fingerprint="a")
print(json.dumps([busy.status, busy.retry_after > 0, other.status, done.status, found.value, guard.lookup(scope="jobs", key="x")]))
""")
        self.assertEqual(said, ["in_progress", True, "mismatch", "succeeded", [1], None])

    def test_released_work_was_never_claimed(self):
        said = self.told("""
claim = guard.claim(scope="jobs", key="k")
released = claim.release()
again = guard.run(lambda: 7, scope="jobs", key="k")
print(json.dumps([released.status, again.status, again.value]))
""")
        self.assertEqual(said, ["released", "succeeded", 7])

    def test_a_value_that_is_no_json_can_be_replaced(self):
        said = self.told("""
result = guard.run(lambda: {1, 2}, scope="jobs", key="k")
fixed = result.claim.succeed([1, 2])
print(json.dumps([result.status, result.reason, fixed.status, guard.run(lambda: 0, scope="jobs", key="k").value]))
""")
        self.assertEqual(said, ["unavailable", "value-refused", "succeeded", [1, 2]])

    def test_what_may_be_stored(self):
        said = self.told("""
run = lambda: guard.run(lambda: {"ok": True, "prompt": "secret", "data": {"prompt": "x", "n": 1}}, scope="jobs", key="k",
                        store_only=["ok", "data"], never_store=["prompt"])
run()
print(json.dumps(run().value))
""")
        self.assertEqual(said, {"ok": True, "data": {"n": 1}})

    def test_the_decorator_and_the_blocks(self):
        said = self.told("""
calls = []
@once.idempotent(scope="squares")
def square(number, times=1):
    calls.append(number)
    return number ** 2
once.configure(settings={**SETTINGS, "store": "memory:"})
first, again = square(7), square(number=7, times=1)
@once.idempotent(scope="cubes", guard=guard)
async def cube(number):
    return number ** 3
with guard.with_idempotency(scope="blocks", key="k") as claim:
    claim.value = 7
async def main():
    async with guard.with_idempotency(scope="blocks", key="k") as claim:
        return (await cube(3)).value, claim.acquired, claim.result.value
print(json.dumps([first.value, again.cached, calls, asyncio.run(main())]))
""")
        self.assertEqual(said, [49, True, [7], [27, False, 7]])

    def test_a_cancelled_task_gives_its_claim_back_before_the_work_and_lets_it_lapse_after(self):
        said = self.told("""
async def main():
    begun = asyncio.Event()
    async def work():
        begun.set()
        await asyncio.Event().wait()
    task = asyncio.create_task(guard.run_async(work, scope="jobs", key="k", on_unknown="hold"))
    await begun.wait()
    waiting = asyncio.create_task(guard.run_async(work, scope="jobs", key="k", wait="60s"))
    await asyncio.sleep(0)
    waiting.cancel()
    task.cancel()
    outcomes = await asyncio.gather(task, waiting, return_exceptions=True)
    return [type(each).__name__ for each in outcomes]
print(json.dumps(asyncio.run(main())))
""")
        self.assertEqual(said, ["CancelledError", "CancelledError"])

    def test_a_claim_that_another_thread_drains_as_its_wait_is_cancelled_is_released(self):
        said = self.told("""
from once.events import Handle
gate, released = guard.gate, []
came = Handle.__new__(Handle)
came._pointer = None
class Drained(dict):  # the event comes at the moment in which nobody waits for it any more
    def pop(self, tag, *default):
        waiter = super().pop(tag, *default)
        if waiter is not None:
            gate._arrived(tag, came)
        return waiter
async def main():
    held = guard.claim(scope="jobs", key="k")
    waiting = asyncio.create_task(guard.claim_async(scope="jobs", key="k", wait="60s"))
    while not gate._waiters:
        await asyncio.sleep(0)
    gate._waiters, gate._release_unused = Drained(gate._waiters), released.append
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
asyncio.run(main())
print(json.dumps(released == [came]))
""")
        self.assertTrue(said)

    def test_ctrl_c_ends_a_long_wait(self):
        program = OPEN + """
claim = guard.claim(scope="jobs", key="k")
try:
    print("waiting", flush=True)
    guard.run(lambda: 1, scope="jobs", key="k", wait="10m")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
        with subprocess.Popen([sys.executable, "-c", program], cwd=self.data, env=self.environment(self.settings()), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            self.assertEqual(process.stdout.readline(), "waiting\n")
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.stdout.read(), "interrupted\n")

    def test_mistakes_raise(self):
        for call, text in (("guard.claim(scope='s')", "key= or inputs="), ("guard.claim(scope='s', key='k', on_unknown='x')", "on_unknown"),
                           ("guard.run(main, scope='s', key='k')", "run_async"), ("guard.claim(scope='', key='k')", "scope"),
                           ("once.Gate(settings={'store': 'nowhere:'})", "store"), ("once.Gate('missing.yaml')", "missing.yaml")):
            with self.subTest(call):
                said = self.python(OPEN + f"async def main(): pass\ntry:\n    {call}\nexcept Exception as error:\n    print(error)\n")
                self.assertIn(text, said)


class Sharing(GuardTest):
    @unittest.skipUnless(SERVER, "only SQL stores are swept")
    def test_a_sweep_that_fails_raises(self):
        said = self.told(f"""
import psycopg2
database = psycopg2.connect({SERVER!r})
database.autocommit = True
sql = database.cursor().execute
first = guard.gate.sweep()
sql("ALTER TABLE once_operations RENAME TO elsewhere")
try:
    second = guard.gate.sweep()
except once.OnceError as error:
    second = error.code
finally:
    sql("ALTER TABLE elsewhere RENAME TO once_operations")
print(json.dumps([isinstance(first, int), second]))
""")
        self.assertEqual(said, [True, "unavailable"])

    @unittest.skipUnless(SERVER, "needs once_finish()")
    def test_an_outcome_is_recorded_in_a_transaction_of_ones_own(self):
        said = self.told(f"""
import psycopg2
claim = guard.claim(scope="jobs", key="k")
with psycopg2.connect({SERVER!r}) as connection, connection.cursor() as cursor:
    cursor.execute("SELECT once_finish(%s, 200, %s, %s)", (claim.handle, json.dumps({{"Content-Type": "application/json"}}), '{{"n": 1}}'))
print(json.dumps([claim.recorded().value, guard.run(lambda: 0, scope="jobs", key="k").value]))
""")
        self.assertEqual(said, [{"n": 1}, {"n": 1}])


if __name__ == "__main__":
    unittest.main()
