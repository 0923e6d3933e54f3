"""More at once than the bridge takes."""

import concurrent.futures
import gc
import threading
import time
import unittest

import lean_engine as lean


class Load(unittest.TestCase):
    def setUp(self):
        self.engine = lean.spawn()
        self.addCleanup(self.engine.close)

    def test_calls_wait_for_their_turn_and_what_they_leave_behind_is_freed(self):
        model = self.engine.load("echo?step_ms=1")

        def call(i):
            session = model.session()
            session.append(f"call {i}")
            session.checkpoint()
            # Forgotten, not closed: a finaliser's request waits for its turn as well.
            return session.generate(str)

        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            values = list(pool.map(call, range(200)))
        self.assertEqual(values, [f"call {i}" for i in range(200)])
        gc.collect()
        left = set(range(1, 201))
        end = time.monotonic() + 20
        while left and time.monotonic() < end:
            for session in list(left):
                try:
                    forked = self.engine.connection.call("SESSION_FORK", {"session": session})
                    self.engine.connection.call("SESSION_CLOSE", {"session": forked.head["session"]})
                except lean.LeanError as error:
                    self.assertEqual(error.code, 100)
                    left.discard(session)
        self.assertEqual(left, set())

    def test_streams_that_are_not_read_leave_places_to_what_ends(self):
        model = self.engine.load("echo")
        words = " ".join(f"w{i}" for i in range(200))
        streams = [model.stream(str, words) for _ in range(56)]
        session = model.session()
        self.assertEqual(session.checkpoint().tokens, 0)
        with self.assertRaises(lean.TimedOut):
            model.generate(str, "late", timeout=0.05)
        cancel = threading.Event()
        threading.Timer(0.05, cancel.set).start()
        with self.assertRaises(lean.Cancelled):
            model.generate(str, "late", cancel=cancel)
        for stream in streams:
            stream.close()
        self.assertEqual(model.generate(str, "in time"), "in time")
        self.assertEqual(model.generate_many([lean.Branch(str, f"{i}") for i in range(63)])[62], "62")

    def test_closing_ends_those_that_wait(self):
        model = self.engine.load("echo?step_ms=60000")
        with concurrent.futures.ThreadPoolExecutor(70) as pool:
            calls = [pool.submit(model.generate, str, "a b") for _ in range(70)]
            time.sleep(0.1)
            self.engine.close()
            for call in calls:
                self.assertIsInstance(call.exception(), lean.LeanError)


if __name__ == "__main__":
    unittest.main()
