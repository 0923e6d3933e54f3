"""The client over the bridge's echo model: no weights needed."""

import dataclasses
import gc
import os
import pathlib
import pickle
import re
import tempfile
import threading
import time
import unittest

import lean_engine as lean


@dataclasses.dataclass
class User:
    id: int
    name: str
    tags: list[str] = dataclasses.field(default_factory=list)


def words(count):
    return " ".join(f"w{i}" for i in range(count))


class Echo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = lean.spawn()
        cls.addClassCleanup(cls.engine.close)
        cls.echo = cls.engine.load("echo")

    def fails(self, call, *args, code=None, name=None, cls=lean.LeanError, match="", **options):
        with self.assertRaises(cls) as caught:
            call(*args, **options)
        error = caught.exception
        self.assertIn(match, str(error))
        if code is not None:
            self.assertEqual(error.code, code)
        if name is not None:
            self.assertEqual(error.name, name)
        return error


class Values(Echo):
    def test_the_handshake_tells_what_the_bridge_is(self):
        self.assertRegex(self.engine.version, r"^lean \d")
        self.assertIn("echo", self.engine.capabilities)
        self.assertGreater(self.engine.pid, 0)

    def test_load_reports_progress_and_info(self):
        seen = []
        model = self.engine.load("echo?load_steps=3", on_progress=lambda *p: seen.append(p), context=77)
        self.assertEqual(seen, [(0, 3), (1, 3), (2, 3), (3, 3)])
        self.assertEqual(model.info["context_length"], 77)
        model.unload()
        model.unload()
        self.fails(model.generate, str, code=100)

    def test_a_load_can_be_cancelled(self):
        token = threading.Event()
        self.fails(
            self.engine.load,
            "echo?load_steps=1000&load_ms=20",
            cancel=token,
            on_progress=lambda *_: token.set(),
            cls=lean.Cancelled,
        )

    def test_a_path_is_looked_up_from_where_this_program_is(self):
        error = self.fails(self.engine.load, "no/such.gguf", code=200, name="model_io")
        self.assertIn(os.path.join(os.getcwd(), "no", "such.gguf"), str(error))

    def test_generate_gives_an_instance(self):
        tokens = []
        user = User(7, "Ada", ["x"])
        result = self.echo.run(
            User,
            "Invent a user.",
            {"json": user},
            on_token=lambda t: tokens.append(t.text),
            max_tokens=50,
            seed=0,
            temperature=0,
        )
        self.assertEqual(result.value, user)
        self.assertIs(type(result.value), User)
        self.assertEqual(result.finish, "complete")
        self.assertEqual("".join(tokens), result.text)
        self.assertEqual(result.usage.prompt_tokens, 5)
        self.assertIsNone(result.checkpoint)
        self.assertEqual(self.echo.generate(User, "Like this", {"json": {"id": 1, "name": "B"}}), User(1, "B", []))

    def test_every_form_of_a_block_arrives(self):
        blocks = [
            lean.chat([("system", "s"), {"role": "user", "content": "a"}]),
            " b",
            [{"text": " c"}, {"raw": " d"}],
            {"tokens": (5,)},
            {"json": {"x": 1}},
        ]
        self.assertEqual(self.echo.generate(str, *blocks), 'a b c d 5{"x":1}')
        self.assertEqual(self.echo.generate(str, blocks), 'a b c d 5{"x":1}')
        self.assertEqual(self.echo.generate(str, {"chat": [("user", "q")]}), "q")
        self.assertEqual(self.echo.generate(str, {"chat": "q", "add_generation_prompt": True}), "q")
        self.fails(self.echo.generate, str, 5, code=100, match="a block is a string or a dict")
        self.fails(self.echo.generate, str, {"json": object()}, code=100, match="has no JSON form")
        self.fails(self.echo.generate, str, {"json": float("nan")}, code=100)

    def test_text_types(self):
        def said(type_, **options):
            result = self.echo.run(type_, "one two three", **options)
            return result.value, result.finish

        self.assertEqual(said(lean.text(max_chars=5)), ("one t", "complete"))
        self.assertEqual(said(str, stop=" th"), ("one two", "stop"))
        self.assertEqual(said(str, max_tokens=2), ("one two", "length"))
        self.assertEqual(said(lean.choice("three", "four")), ("three", "complete"))
        self.assertEqual(said(re.compile("[a-z ]+")), ("one two three", "complete"))

    def test_many_values_of_one_context(self):
        branches = [lean.Branch(str, " one"), lean.Branch(User, {"json": User(1, "B")}), lean.Branch(str, max_tokens=1)]
        session = self.echo.session()
        session.append("said")
        self.assertEqual(session.generate_many(branches), ["said one", User(1, "B"), "said"])
        self.assertEqual(session.tokens, 1)
        self.assertEqual([r.finish for r in self.echo.run_many([lean.Branch(str, "a b")] * 3, max_tokens=1)], ["length"] * 3)
        self.fails(self.echo.generate_many, [lean.Branch({"id": "nmber"}, "x"), lean.Branch(str, "y")], code=110)
        self.fails(self.echo.generate_many, [], code=100)
        self.fails(self.echo.generate_many, ["a"], code=100)

    def test_two_threads_share_an_engine(self):
        # Each waits for the other's next token: neither can finish unless both go on.
        barrier = threading.Barrier(2)
        values = {}

        def run(name):
            values[name] = self.echo.generate(str, words(60), on_token=lambda _: barrier.wait(20))

        threads = [threading.Thread(target=run, args=(n,)) for n in "ab"]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        self.assertEqual(values, {"a": words(60), "b": words(60)})


class Streams(Echo):
    def test_events_and_then_the_result(self):
        stream = self.echo.stream(str, "naïve 日本 words")
        events = list(stream)
        self.assertEqual([type(e) for e in events], [lean.Prefill, lean.Token, lean.Token, lean.Token])
        self.assertEqual("".join(e.text for e in events[1:]), "naïve 日本 words")
        self.assertEqual(stream.result().value, "naïve 日本 words")

    def test_pieces_are_the_text(self):
        self.assertEqual(list(self.echo.stream(str, "one two").pieces()), ["one", " two"])

    def test_the_result_without_iterating(self):
        self.assertEqual(self.echo.stream(str, words(500)).result().value, words(500))

    def test_a_consumer_that_stops_reading_stops_the_bridge_and_nobody_else(self):
        stream = self.echo.stream(str, words(500))
        while not isinstance(next(stream), lean.Token):
            pass
        time.sleep(0.1)
        before = stream.checkpoint()
        time.sleep(0.1)
        later = stream.checkpoint()
        self.assertEqual(later.tokens, before.tokens, "it went on without credit")
        self.assertLess(before.tokens, 500 + 64)
        self.assertEqual(self.echo.generate(str, "meanwhile"), "meanwhile")
        stream.close()
        self.fails(stream.result, cls=lean.Cancelled, code=500)
        self.fails(next, stream, cls=lean.Cancelled)

    def test_a_loop_that_was_left_can_be_taken_up_again(self):
        stream = self.echo.stream(str, words(100))
        text = ""
        for event in stream:
            if isinstance(event, lean.Token):
                text += event.text
                if len(text) > 50:
                    break
        self.assertEqual(text + "".join(stream.pieces()), words(100))

    def test_a_stream_that_is_left_or_forgotten_is_cancelled_and_its_session_free(self):
        # Long enough that it cannot end before it is cancelled: it waits for credit.
        session = self.echo.session()
        session.append(words(100))
        with session.stream(str, " more") as stream:
            next(stream)
        session.append(" x")
        for event in session.stream(str, " again"):
            if isinstance(event, lean.Token):
                break
        del stream
        gc.collect()
        session.append(" y")
        self.assertEqual(session.tokens, 102)

    def test_cancel_from_another_thread(self):
        stream = self.engine.load("echo?step_ms=20").stream(str, words(400))
        timer = threading.Timer(0.1, stream.cancel)
        timer.start()
        self.fails(list, stream, cls=lean.Cancelled)
        timer.join()

    def test_an_error_of_a_listener_is_the_calls_error(self):
        def listener(_):
            raise KeyError("mine")

        self.assertRaises(KeyError, self.echo.generate, str, words(400), on_token=listener)


class Cancelling(Echo):
    def setUp(self):
        self.session = self.engine.load("echo?step_ms=30").session()
        self.session.append(words(20))

    def intact(self):
        self.session.append(" more")
        self.assertEqual(self.session.tokens, 21)
        self.assertEqual(self.session.generate(str), words(20) + " more")

    def test_before_the_call(self):
        token = threading.Event()
        token.set()
        self.fails(self.session.generate, str, cancel=token, cls=lean.Cancelled, code=500)
        self.intact()

    def test_during_prefill(self):
        token = threading.Event()
        self.fails(
            self.session.append, words(300), cancel=token, on_prefill=lambda _: token.set(), cls=lean.Cancelled
        )
        self.intact()

    def test_during_decode_from_another_thread(self):
        token = threading.Event()
        timer = threading.Timer(0.2, token.set)
        timer.start()
        error = self.fails(self.session.generate, str, cancel=token, cls=lean.Cancelled)
        self.assertEqual((error.name, error.error_class), ("cancelled", "cancelled"))
        timer.join()
        self.intact()

    def test_a_timeout(self):
        error = self.fails(self.session.generate, str, timeout=0.15, cls=lean.TimedOut, code=501, name="timeout")
        self.assertIsInstance(error, TimeoutError)
        self.intact()

    def test_a_stream_with_a_timeout(self):
        self.fails(list, self.session.stream(str, timeout=0.15), cls=lean.TimedOut)
        self.intact()


class State(Echo):
    def test_sessions_append_fork_generate_and_set_their_context(self):
        session = self.echo.session()
        session.append("one", " two")
        branch = session.fork()
        self.assertEqual(session.generate(str), "one two")
        branch.append(" 3")
        self.assertEqual(branch.generate(str), "one two 3")
        branch.set_context("one", " zwei")
        self.assertEqual(branch.tokens, 2)
        session.close()
        session.close()
        self.fails(session.append, "x", code=100)
        self.fails(branch.generate, str, checkpoint=branch.checkpoint(), code=100, match="open one from the checkpoint")

    def test_a_session_is_cut(self):
        session = self.echo.session()
        session.append("one two three four")
        session.drop_range(1, 2)
        self.assertEqual(session.tokens, 3)
        session.truncate(2)
        self.assertEqual(session.generate(str), "one three")

    def test_checkpoints_in_a_value_as_bytes_and_files_in_another_process(self):
        stream = self.echo.stream(str, words(100))
        for _ in range(20):
            next(stream)
        inside = stream.checkpoint()
        stream.close()
        data = inside.to_bytes()
        with tempfile.TemporaryDirectory() as folder, lean.spawn() as other:
            file = pathlib.Path(folder, "inside.lean")
            self.assertEqual(inside.save(file), len(data))
            self.assertEqual(os.listdir(folder), ["inside.lean"])
            elsewhere = other.load("echo")
            for source in (data, bytearray(data), file, str(file)):
                self.assertEqual(elsewhere.resume(source).value, words(100))
            self.fails(elsewhere.resume, inside, match="another bridge process")
            session = elsewhere.session(checkpoint=data)
            self.assertEqual(session.resume().value, words(100))
            self.fails(session.resume, match="no value is in progress")

    def test_a_value_that_goes_on_is_an_instance_if_its_type_is_given(self):
        user = User(7, "Ada", ["x" * 30] * 200)  # More tokens than it has credit for.
        stream = self.echo.stream(User, {"json": user})
        next(e for e in stream if isinstance(e, lean.Token))
        inside = stream.checkpoint()
        stream.close()
        self.assertEqual(self.echo.resume(inside, type_=User).value, user)
        self.assertEqual(self.echo.resume(inside).value, dataclasses.asdict(user))

    def test_checkpoints_larger_than_a_chunk_damaged_and_dropped(self):
        roomy = self.engine.load("echo", context=30_000)
        result = roomy.run(lean.text(max_chars=1), "x" * 600_000, keep=True)
        data = result.checkpoint.to_bytes()
        self.assertGreater(len(data), 600_000)
        restored = self.echo.restore(data)
        self.assertEqual(restored.to_bytes(), data)
        restored.drop()
        restored.drop()
        self.fails(restored.to_bytes, match="dropped")
        damaged = bytearray(data)
        damaged[20] ^= 1
        self.fails(self.echo.restore, bytes(damaged), code=300, name="bad_checkpoint", cls=lean.InputError)
        self.fails(self.echo.restore, b"", code=300)
        self.fails(self.echo.restore, 5, code=100)

    def test_forgotten_handles_are_freed(self):
        connection = self.engine.connection
        model = self.engine.load("echo")
        session = model.session()
        checkpoint = session.checkpoint()
        # Questions that free nothing themselves; the bridge answers them beside the frees, in no order.
        questions = [
            ("SESSION_OPEN", {"model": self.echo._handle, "checkpoint": checkpoint._handle, "context": None}),
            ("CHECKPOINT_TAKE", {"session": session._handle, "generation": None}),
            ("MODEL_INFO", {"model": model._handle}),
        ]
        del model, session, checkpoint
        gc.collect()
        for name, head in questions:
            self.assertTrue(self.becomes_unknown(connection, name, head), name)

    def becomes_unknown(self, connection, name, head):
        for _ in range(400):
            try:
                connection.call(name, head)
            except lean.LeanError as error:
                if error.code == 100:
                    return True
            time.sleep(0.02)
        return False


class Errors(Echo):
    def test_they_carry_code_name_class_and_numbers(self):
        small = self.engine.load("echo", context=4)
        error = self.fails(small.generate, str, "a b c d e", cls=lean.InputError, code=130, name="context_overflow")
        self.assertIsInstance(error, ValueError)
        self.assertEqual((error.error_class, error.retryable), ("input", False))
        self.assertEqual(error.details, {"needed": 5, "available": 4})
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), str(again), again.__dict__), (type(error), str(error), error.__dict__))

    def test_wrong_arguments(self):
        with self.assertRaisesRegex(TypeError, "unknown option temprature"):
            self.echo.generate(str, temprature=1)
        self.fails(self.echo.generate, User, {"json": {"id": 1, "name": ""}}, max_tokens=0.5, code=100)
        self.fails(self.echo.generate, str, "x" * 2_000_000, code=100, match="fit a frame")
        self.fails(self.echo.generate, 5, code=100, match="the first argument is a type")
        self.fails(self.engine.load, "echo", threads=-1, code=100, match="threads")

    def test_a_type_that_cannot_be_enforced_is_refused_and_says_where(self):
        error = self.fails(self.echo.generate, {"id": "nmber"}, {"json": {"id": 1}}, code=110, name="type")
        self.assertIn("character 1 of /id", error.details["at"])

    def test_a_panic_in_the_bridge_is_an_error_of_one_call(self):
        bad = self.engine.load("echo?panic_at=1")
        self.fails(bad.generate, str, "one two", cls=lean.InternalError, code=901)
        self.assertEqual(self.echo.generate(str, "fine"), "fine")


if __name__ == "__main__":
    unittest.main()
