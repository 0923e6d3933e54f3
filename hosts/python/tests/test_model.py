"""The same client on real weights: a tiny model of the fixtures, and SmolLM2 where it is present."""

import dataclasses
import enum
import os
import pathlib
import threading
import unittest
from typing import Annotated, Literal, Optional, Union

import lean_engine as lean

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
TINY = REPOSITORY / "tests" / "fixtures" / "models" / "llama-hd64-tied.s1.q4_1.gguf"
SMOL = pathlib.Path(os.environ.get("LEAN_MODEL_DIR") or REPOSITORY / ".cache" / "models")
SMOL = SMOL / "SmolLM2-135M-Instruct.Q4_1.gguf"


class Kind(enum.Enum):
    BUG = "bug"
    FEATURE = "feature"


@dataclasses.dataclass
class Author:
    name: Annotated[str, lean.Bounds(min_length=1, max_length=12)]
    age: Annotated[int, lean.Bounds(ge=0, le=150)]

    def check(self):
        assert type(self.name) is str and 1 <= len(self.name) <= 12, self
        assert type(self.age) is int and 0 <= self.age <= 150, self


@dataclasses.dataclass
class Ticket:
    kind: Kind
    author: Author
    score: Annotated[float, lean.Bounds(ge=0, le=1)]
    tags: Annotated[list[Literal["a", "b", "c"]], lean.Bounds(max_length=3)]
    reply: Union[bool, Author, None]
    note: Optional[Annotated[str, lean.Bounds(max_length=5)]] = None

    def check(self):
        assert type(self.kind) is Kind, self
        self.author.check()
        assert type(self.score) is float and 0 <= self.score <= 1, self
        assert len(self.tags) <= 3 and set(self.tags) <= {"a", "b", "c"}, self
        assert self.reply is None or type(self.reply) is bool or self.reply.check() is None, self
        assert self.note is None or len(self.note) <= 5, self


class Tiny(unittest.TestCase):
    """Random weights say anything: what comes out is of the type all the same."""

    @classmethod
    def setUpClass(cls):
        cls.engine = lean.spawn()
        cls.addClassCleanup(cls.engine.close)
        cls.model = cls.engine.load(TINY)

    def test_every_value_is_of_its_type(self):
        for seed in range(5):
            result = self.model.run(Ticket, "A ticket: ", max_tokens=120, seed=seed, temperature=1.5)
            self.assertIs(type(result.value), Ticket)
            result.value.check()
            self.assertEqual(result.finish, "complete")

    def test_partial_values(self):
        stream = self.model.stream(Ticket, "A ticket: ", max_tokens=80, seed=1, temperature=1, partials=True)
        partials = [event for event in stream if isinstance(event, lean.Partial)]
        result = stream.result()
        self.assertEqual(partials[-1].json, result.text)
        self.assertIn("/author/name", [p.path for p in partials])
        text = result.text.encode("utf-8")
        for partial in partials:
            self.assertTrue(text.startswith(partial.json.encode("utf-8")[: partial.final_bytes]), partial)
        seen = []
        self.model.generate(Author, "x", max_tokens=40, on_partial=seen.append)
        self.assertTrue(seen and all(isinstance(p, lean.Partial) for p in seen))

    def test_many_values_are_what_each_would_be_alone(self):
        def branch(seed):
            return lean.Branch(Author, "An author: ", seed=seed)

        many = self.model.generate_many([branch(1), branch(2)], temperature=1.0, max_tokens=40)
        alone = [self.model.generate(Author, "An author: ", seed=n, temperature=1.0, max_tokens=40) for n in (1, 2)]
        self.assertEqual(many, alone)

    def test_what_a_model_has_done_and_the_precision_of_its_keys(self):
        with self.engine.load(TINY, kv="f16") as model:
            model.generate(str, "x", max_tokens=2)
            self.assertGreater(model.stats()["passes"], 0)
            model.set_prefix_cache(0)
            session = model.session()
            session.append("x")
            session.set_adapters([])
            with self.assertRaises(lean.InputError):
                model.load_adapter("no/such/adapter.gguf")
            data = session.checkpoint().to_bytes()
        self.assertRaises(lean.LeanError, self.model.restore, data)
        for policy, restored in (("convert", "converted"), ("reprefill", "reprefilled")):
            checkpoint = self.model.restore(data, policy=policy)
            self.assertEqual((checkpoint.restored, checkpoint.tokens), (restored, session.tokens))
            self.model.generate(str, checkpoint=checkpoint, max_tokens=2)
        self.assertRaises(lean.InputError, self.model.restore, data, policy="about")
        with self.assertRaises(lean.LeanError):
            self.engine.load(TINY, kv="f17")
        with self.assertRaises(lean.LeanError):
            self.engine.load(TINY, precision="rough")

    def test_the_same_seed_gives_the_same_value(self):
        values = [self.model.generate(list[Author], "x", max_tokens=60, seed=3, temperature=1) for _ in range(2)]
        self.assertEqual(*values)

    def test_a_checkpoint_of_another_model_is_refused(self):
        echo = self.engine.load("echo")
        kept = self.model.run(str, "Hi", max_tokens=1, keep=True).checkpoint
        for source in (kept, kept.to_bytes()):
            with self.assertRaises(lean.InputError) as caught:
                echo.generate(str, checkpoint=source)
            self.assertIn(caught.exception.code, (300, 301))

    def test_a_fork_and_a_restored_session_go_on_alike(self):
        session = self.model.session()
        session.append("Once upon a time")
        data = session.checkpoint().to_bytes()
        restored = self.model.session(checkpoint=data)
        texts = [s.generate(str, max_tokens=8) for s in (session.fork(), session, restored)]
        self.assertEqual(texts, texts[:1] * 3)


@unittest.skipUnless(SMOL.exists(), f"SKIPPED: there is no {SMOL}")
class Smol(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Little credit: a stream that nobody reads waits, so that the middle of a value can be met on any machine.
        cls.engine = lean.spawn(credit=4)
        cls.addClassCleanup(cls.engine.close)
        cls.model = cls.engine.load(SMOL)

    def test_a_typed_value(self):
        tokens = []
        chat = lean.chat("Invent an author as JSON.")
        result = self.model.run(Author, chat, on_token=lambda t: tokens.append(t.text))
        result.value.check()
        self.assertEqual("".join(tokens), result.text)
        self.assertGreater(result.usage.sampled_tokens, 0)
        self.assertGreater(result.usage.forced_tokens, 0)

    def test_a_checkpoint_inside_a_value_in_another_process(self):
        stream = self.model.stream(Author, lean.chat("Invent an author as JSON."))
        for _ in range(4):
            next(e for e in stream if isinstance(e, lean.Token))
        data = stream.checkpoint().to_bytes()
        whole = stream.result()
        with lean.spawn() as other:
            again = other.load(SMOL).resume(data, type_=Author)
        self.assertEqual((again.value, again.text), (whole.value, whole.text))

    def test_cancelling_a_long_prefill_leaves_the_session_usable(self):
        session = self.model.session()
        session.append("Once upon a time")
        before = session.tokens
        token = threading.Event()
        long = "The quick brown fox jumps over the lazy dog. " * 100
        with self.assertRaises(lean.Cancelled):
            session.append(long, cancel=token, on_prefill=lambda _: token.set())
        session.append(" there was")
        self.assertTrue(before < session.tokens < before + 10)


if __name__ == "__main__":
    unittest.main()
