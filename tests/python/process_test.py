"""Processes: fork, multiprocessing, gunicorn with --preload, the end of a process in the middle of something."""
import unittest

from guard_test import OPEN
from support import SERVER, AppTest, Asked, sys


class Processes(AppTest):
    def ends(self, program):
        """Runs to its end within the deadline; what it prints."""
        return self.python(OPEN + program)

    def test_a_child_that_does_not_touch_it_ends_by_itself(self):
        said = self.ends("""
guard.run(lambda: 1, scope="jobs", key="before")
child = os.fork()
if child == 0:
    raise SystemExit(7)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), guard.run(lambda: 2, scope="jobs", key="after").value)
""")
        self.assertEqual(said, "7 2")

    def test_a_child_of_fork_uses_a_shared_store_and_is_told_why_it_cannot_use_a_journal(self):
        said = self.ends("""
guard.run(lambda: 1, scope="jobs", key="k")
child = os.fork()
if child == 0:
    try:
        print("child", guard.run(lambda: 2, scope="jobs", key="k").value, flush=True)
    except once.OnceError as error:
        print("child", error.code, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print("parent", guard.run(lambda: 2, scope="jobs", key="k").value)
""")
        self.assertEqual(said, "child 1\nparent 1" if SERVER else "child unavailable\nparent 1")

    @unittest.skipUnless(SERVER, "a journal belongs to one process")
    def test_an_event_loop_in_a_child(self):
        said = self.ends("""
async def main():
    async def work(): return os.getpid()
    return (await guard.run_async(work, scope="jobs", key="k")).value
mine = asyncio.run(main())
guard.gate._lock.acquire()  # as another thread may at that moment: nobody releases it in the child
child = os.fork()
if child == 0:
    print(asyncio.run(main()) == mine, flush=True)
    os._exit(0)
guard.gate._lock.release()
os.waitpid(child, 0)
""")
        self.assertEqual(said, "True")

    @unittest.skipUnless(SERVER, "a journal belongs to one process")
    def test_a_pool_of_processes_does_each_piece_of_work_once(self):
        (self.data / "jobs.py").write_text(OPEN + """
def work(number):
    def make():
        with open("executions", "a") as file:
            file.write("x\\n")
        return number
    return guard.run(make, scope="pool", key=str(number), wait="60s").value
""")
        for method in ("fork", "spawn"):
            with self.subTest(method):
                before = self.executions()
                said = self.python(f"""
import multiprocessing, sys
sys.path.insert(0, ".")
import jobs
if __name__ == "__main__":
    jobs.guard.run(lambda: 1, scope="opened", key="k")
    with multiprocessing.get_context({method!r}).Pool(4) as pool:
        print(sorted(pool.map(jobs.work, [n % 10 + 100 * {before} for n in range(40)])) == sorted(n % 10 + 100 * {before} for n in range(40)))
""")
                self.assertEqual((said, self.executions() - before), ("True", 10))

    def test_the_process_ends_while_threads_and_tasks_are_busy(self):
        said = self.ends("""
held = guard.claim(scope="jobs", key="held")
def wait():
    guard.run(lambda: 1, scope="jobs", key="held", wait="10m")
threading.Thread(target=wait, daemon=True).start()
async def main():
    began = asyncio.Event()
    async def work():
        began.set()
        await asyncio.sleep(600)
    task = asyncio.create_task(guard.run_async(work, scope="jobs", key="task"))
    await began.wait()
asyncio.run(main())
print("end")
""")
        self.assertEqual(said, "end")

    def test_a_closed_gate_says_so(self):
        said = self.ends("""
guard.close()
try:
    guard.run(lambda: 1, scope="jobs", key="k")
except once.OnceError as error:
    print(error.code)
""")
        self.assertEqual(said, "stopped")


class Preload(AppTest):
    @unittest.skipUnless(SERVER, "a journal belongs to one process")
    def test_workers_of_gunicorn_share_what_was_loaded_before_they_were_forked(self):
        app = self.start(sys.executable, "-m", "gunicorn", "flask_app:app", "--preload", "--workers", "3", "--threads", "4", "--bind",
                         "127.0.0.1:PORT", "--log-level", "warning")
        asked = [Asked(app, "POST", "/slow", key="k") for _ in range(6)]
        self.begun()
        self.let_go()
        self.assertEqual({(each.answer.status, each.answer.body) for each in asked}.__len__(), 1)
        self.assertEqual(self.executions(), 1)
        self.assertEqual(app.stop(), 0)

    @unittest.skipIf(SERVER, "a shared store works")
    def test_on_a_journal_the_worker_says_why_not(self):
        app = self.start(sys.executable, "-m", "gunicorn", "flask_app:app", "--preload", "--bind", "127.0.0.1:PORT")
        answer = app.ask("POST", "/orders", body={}, key="k")
        self.assertIn(answer.status, (500, 503))
        self.assertEqual(self.executions(), 0)
        self.assertIn("journal", app.said)


if __name__ == "__main__":
    unittest.main()
