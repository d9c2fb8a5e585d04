"""Progress with once.ClaimsClient: claim.progress() and follow(), against the real gateway."""
import asyncio
import threading
import unittest
import unittest.mock

from support import ClaimsTest
from wire import DEADLINE, wait_until

from once import ClaimsClient, claims as once_claims

WORK = {"scope": "imports", "key": "k"}
TERMS = {**WORK, "lease": "1m", "on_unknown": "retry"}


class Progress(ClaimsTest):
    def client(self, *settings, **named):
        self.gateway, api = self.start(*settings, **named)
        return ClaimsClient(api.url)

    def test_pieces_are_followed_until_the_value_is_there(self):
        once = self.client()
        claim = once.claim(**TERMS)
        self.assertTrue(claim.progress({"percent": 10}))
        self.assertTrue(claim.progress("half"))
        following, seen = once.follow(**WORK), []
        follower = threading.Thread(target=lambda: seen.extend((piece.attempt, piece.number, piece.data) for piece in following))
        follower.start()
        wait_until(lambda: len(seen) == 2, what="what is there already")
        self.assertTrue(claim.progress(None))
        wait_until(lambda: len(seen) == 3, what="a piece while it waits")
        claim.succeed("imported")
        follower.join()
        self.assertEqual(seen, [(1, 0, {"percent": 10}), (1, 1, "half"), (1, 2, None)])
        self.assertEqual((following.result.status, following.result.value, following.result.cached), ("succeeded", "imported", True))
        self.assertEqual(list(following), [], "it has ended")

    def test_an_event_loop_is_not_blocked(self):
        once = self.client()

        async def story():
            claim, seen = await once.claim_async(**TERMS), []

            async def follow():
                following = once.follow(**WORK)
                async for piece in following:
                    seen.append(piece.data)
                return following.result

            follower = asyncio.ensure_future(follow())
            for number in range(3):
                self.assertTrue(await claim.progress_async(number))
                while len(seen) <= number:
                    await asyncio.sleep(0.01)
            await claim.succeed_async("imported")
            return seen, await follower

        seen, result = asyncio.run(asyncio.wait_for(story(), DEADLINE))
        self.assertEqual((seen, result.value), ([0, 1, 2], "imported"))

    def test_a_piece_whose_answer_was_lost_is_there_once_and_before_the_next(self):
        once = self.client()
        claim = once.claim(**TERMS)
        really = once._ask_once

        def loses_the_answer(*args):
            really(*args)
            raise OSError("cut off")

        with unittest.mock.patch.object(once_claims, "_PATIENCE_FOR_PROGRESS", 0):
            with unittest.mock.patch.object(once, "_ask_once", loses_the_answer):
                self.assertFalse(claim.progress("a"))
            with unittest.mock.patch.object(once, "_ask_once", side_effect=OSError("away")):
                self.assertFalse(claim.progress("never sent"))
        self.assertTrue(claim.progress("b"))
        self.assertEqual([piece.data for piece in once.follow(**WORK, wait=0)], ["a", "b"])

    def test_work_goes_on_without_progress_that_is_not_recorded(self):
        once = self.client("claims.max_body=1KiB")
        claim = once.claim(**TERMS)
        self.assertTrue(claim.progress("x" * 700))
        self.assertFalse(claim.progress("x" * 700))
        self.assertTrue(claim.progress("x"), "the limit is for the piece that is too much")
        for mistake in (object(), float("nan")):
            with self.assertRaises((TypeError, ValueError)):
                claim.progress(mistake)
        self.assertFalse(claim.lost.is_set())
        following = once.follow(**WORK, wait=0)
        self.assertEqual([len(piece.data) for piece in following], [700, 1])
        self.assertEqual(following.result.status, "in_progress")
        self.assertTrue(claim.succeed(1).ok)
        self.assertFalse(claim.progress("late"))

    def test_an_owner_that_was_taken_over_learns_it_and_followers_begin_again(self):
        clock = self.clock()
        once = self.client(clock=clock)
        stale = once.claim(**TERMS)
        stale.progress("first")
        following = once.follow(**WORK)
        self.assertEqual(next(following).data, "first")
        clock.advance(61)
        fresh = once.claim(**TERMS)
        self.assertTrue(fresh.acquired)
        self.assertFalse(stale.progress("late"))
        self.assertTrue(stale.lost.is_set())
        self.assertEqual(stale.succeed("stale").status, "lost")
        fresh.progress("second")
        piece = next(following)
        self.assertEqual((piece.data, piece.number, piece.attempt), ("second", 0, 2))
        fresh.fail()
        self.assertEqual(list(following), [])
        self.assertEqual(following.result.status, "failed")

    def test_what_cannot_be_followed_is_said(self):
        once = self.client("claims.max_waiting=0")
        nothing = once.follow(**WORK)
        self.assertEqual((list(nothing), nothing.result), ([], None))
        for name in ({}, {"key": "k", "inputs": 1}):
            with self.assertRaises(ValueError):
                once.follow(scope="imports", **name)
        claim = once.claim(**TERMS)
        busy = once.follow(**WORK, wait="200ms")
        self.assertEqual((list(busy), busy.result.status), ([], "in_progress"))
        self.assertGreater(self.gateway.metrics()["once_claims_waits_refused_total"], 0)
        claim.release()
        away = ClaimsClient("http://127.0.0.1:9", patience=0).follow(**WORK)
        self.assertEqual((list(away), away.result.status), ([], "unavailable"))


if __name__ == "__main__":
    unittest.main()
