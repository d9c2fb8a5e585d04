"""once.ClaimsClient in an event loop, and what interrupts it, against the real gateway."""
import asyncio
import contextlib
import threading
import unittest

from support import ClaimsTest
from wire import DEADLINE, wait_until

from once import ClaimsClient

OPTIONS = {"scope": "jobs", "key": "k", "lease": "1m", "takeover_after": "3m"}


async def cancelled(task):
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return task.cancelled()


class Async(ClaimsTest):
    def setUp(self):
        super().setUp()
        self.time = self.clock()
        self.once = ClaimsClient(self.start(clock=self.time)[1].url)

    def play(self, story):
        async def limited():
            return await asyncio.wait_for(story(), DEADLINE)

        return asyncio.run(limited())

    def assert_left_to_lapse(self):
        """Nobody may do it again at once; after the lease and the threshold somebody may."""
        self.assertEqual(self.once.run(self.fail, **OPTIONS).status, "in_progress")
        self.time.advance(61)  # nothing renews it
        self.assertEqual(self.once.run(self.fail, **OPTIONS).status, "in_progress")
        self.time.advance(180)
        again = self.once.run(lambda: "second", **OPTIONS)
        self.assertEqual((again.value, again.attempt), ("second", 2))

    def test_an_async_function_is_run_once_and_waiting_blocks_nobody(self):
        runs = []

        async def story():
            go = asyncio.Event()

            @self.once.with_idempotency(scope="square", wait="1m")
            async def square(number):
                """Squares."""
                runs.append(number)
                await go.wait()
                return number * number

            first = asyncio.create_task(square(3))
            while not runs:
                await asyncio.sleep(0.01)
            others = [asyncio.create_task(square(number=3)) for _ in range(50)]
            await asyncio.sleep(0.1)
            go.set()  # only a loop that is not blocked gets here
            self.assertEqual(square.__doc__, "Squares.")
            return await asyncio.gather(first, *others)

        results = self.play(story)
        self.assertEqual(([result.value for result in results], runs), ([9] * 51, [3]))
        self.assertEqual(sum(result.cached for result in results), 50)

    def test_cancelled_work_may_have_begun_so_its_claim_is_left_to_lapse(self):
        async def story():
            began = asyncio.Event()

            async def work():
                began.set()
                await asyncio.Event().wait()

            task = asyncio.create_task(self.once.run_async(work, **OPTIONS))
            await began.wait()
            self.assertTrue(await cancelled(task))

        self.play(story)
        self.assert_left_to_lapse()

    def test_a_block_that_is_cancelled_leaves_its_claim_to_lapse(self):
        claims = []

        async def story():
            async def work():
                async with self.once.with_idempotency(**OPTIONS) as claim:
                    claims.append(claim)
                    await asyncio.Event().wait()

            task = asyncio.create_task(work())
            while not claims:
                await asyncio.sleep(0.01)
            self.assertTrue(await cancelled(task))

        self.play(story)
        self.assertEqual(claims[0].result.status, "unknown")
        self.assert_left_to_lapse()

    def test_a_thread_that_is_interrupted_leaves_its_claim_to_lapse(self):
        def work():
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.once.run(work, **OPTIONS)
        self.assert_left_to_lapse()

    def test_cancelled_before_the_work_begins_the_claim_is_given_back(self):
        holder = self.once.claim(**OPTIONS)

        async def story():
            task = asyncio.create_task(self.once.run_async(self.fail, **OPTIONS, wait="1m"))
            while not any(thread.name == "once-call" for thread in threading.enumerate()):
                await asyncio.sleep(0.01)
            self.assertTrue(await cancelled(task))

        self.play(story)
        holder.fail("on purpose")  # now the one who waited gets it, and nobody is there to use it
        result = wait_until(lambda: (tried := self.once.run(lambda: "done", **OPTIONS)).ok and tried, what="the claim to be free")
        self.assertEqual(result.value, "done")

    def test_a_result_that_is_being_recorded_is_recorded_although_its_task_is_cancelled(self):
        go, ask, recording = threading.Event(), self.once._ask, threading.Event()
        self.addCleanup(go.set)

        def slow(method, target, *args, **named):
            if target.endswith("/succeed"):
                recording.set()
                go.wait(DEADLINE)
            return ask(method, target, *args, **named)

        self.once._ask = slow

        async def story():
            async def work():
                return "done"

            task = asyncio.create_task(self.once.run_async(work, **OPTIONS))
            while not recording.is_set():
                await asyncio.sleep(0.01)
            self.assertTrue(await cancelled(task))

        self.play(story)
        go.set()
        wait_until(lambda: self.once.lookup(scope="jobs", key="k").value == "done", what="the record")

    def test_as_a_context_manager_of_tasks(self):
        async def story():
            shared = self.once.with_idempotency(scope="imports", key="k")
            inside, leave = asyncio.Event(), asyncio.Event()

            async def owner():
                async with shared as claim:
                    claim.value = "owner's"
                    inside.set()
                    await leave.wait()
                return claim.result

            task = asyncio.create_task(owner())
            await inside.wait()
            async with shared as other:
                self.assertEqual((other.acquired, other.result.status), (False, "in_progress"))
            leave.set()
            self.assertEqual((await task).value, "owner's")
            with self.assertRaises(KeyError):
                async with self.once.with_idempotency(scope="imports", key="other") as claim:
                    raise KeyError("x")
            self.assertEqual(claim.result.status, "failed")

        self.play(story)

    def test_what_can_never_work_is_a_type_error_before_anything_is_claimed(self):
        async def work():
            self.fail()

        with self.assertRaisesRegex(TypeError, "run_async"):
            self.once.run(work, **OPTIONS)
        self.assertIsNone(self.once.lookup(scope="jobs", key="k"))
        with self.assertRaisesRegex(TypeError, "run_async"):
            self.once.run(lambda: work(), **OPTIONS)
        self.assertEqual(self.once.lookup(scope="jobs", key="k").status, "failed")

        def generator():
            yield 1

        with self.assertRaisesRegex(TypeError, "generator"):
            self.once.with_idempotency(scope="jobs")(generator)


if __name__ == "__main__":
    unittest.main()
