"""The golden vectors of tests/wire, and the reader on arbitrary cuts."""

import json
import math
import pathlib
import random
import unittest

from lean_engine._codec import WireError, decode_head, decode_value, encode_head, encode_value
from lean_engine._frames import FrameReader, frame_bytes
from lean_engine._messages import BY_KIND, MESSAGES

WIRE = pathlib.Path(__file__).resolve().parents[3] / "tests" / "wire"
TABLES = {"messages", "primitives"}
EXACT = 1 << 53


def twin_of(name):
    return json.loads((WIRE / f"{name}.json").read_text("utf-8"))


def readable(value):
    """Integers beyond 2^53 are strings in the twins."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= EXACT:
        return str(value)
    return value


def describe(frame):
    """What the twin says about a frame."""
    known = BY_KIND.get(frame.kind)
    described = {"request": frame.request, "kind": frame.kind, "name": known and known.name, "flags": frame.flags}
    if known is None:
        described["head_hex"] = frame.head.hex()
    else:
        described["head"] = {k: readable(v) for k, v in decode_head(frame.kind, frame.head).items()}
    try:
        described["tail"] = frame.tail.decode("utf-8")
    except UnicodeDecodeError:
        described["tail_hex"] = frame.tail.hex()
    return described


def read_all(data, twin, step):
    """All frames, then the error's name if there is one; bytes arrive in pieces of ``step``."""
    reader = FrameReader(twin["max_frame"], twin["magic"])
    frames = []
    try:
        for at in range(0, len(data), step):
            reader.push(data[at : at + step])
            frames += map(describe, iter(reader.next, None))
        reader.finish()
    except WireError as error:
        return frames, error.name
    return frames, None


def written(frame):
    """A twin's frame, as this client writes it."""
    head = bytes.fromhex(frame["head_hex"]) if frame["name"] is None else encode_head(frame["name"], unreadable(frame))
    tail = bytes.fromhex(frame["tail_hex"]) if "tail_hex" in frame else frame["tail"].encode("utf-8")
    return frame_bytes(frame["request"], frame["kind"], frame["flags"], head, tail)


def unreadable(frame):
    types = dict(MESSAGES[frame["name"]].fields)
    return {k: int(v) if types[k] == "u64" and isinstance(v, str) else v for k, v in frame["head"].items()}


class Vectors(unittest.TestCase):
    names = sorted(p.stem for p in WIRE.glob("*.bin"))

    def test_there_are_vectors_each_with_its_twin(self):
        self.assertGreater(len(self.names), 40)
        self.assertEqual(sorted({p.stem for p in WIRE.glob("*.json")} - TABLES), self.names)

    def check(self, name):
        data, twin = (WIRE / f"{name}.bin").read_bytes(), twin_of(name)
        for step in (max(1, len(data)), 7, 1):
            self.assertEqual(read_all(data, twin, step), (twin["frames"], twin["error"]))
        if twin["error"] is None and name != "hello_newer":
            self.assertEqual(b"".join(map(written, twin["frames"])), data[8:] if twin["magic"] else data)

    def test_the_message_table_is_the_protocols(self):
        table = [(m["name"], m["kind"], [(f["name"], f["type"]) for f in m["fields"]]) for m in twin_of("messages")]
        self.assertEqual([(m.name, m.kind, list(m.fields)) for m in MESSAGES.values()], table)

    def test_primitives_are_postcards(self):
        for case in twin_of("primitives"):
            wire_type, raw = case["type"], bytes.fromhex(case["hex"])
            with self.subTest(case):
                if case.get("error"):
                    self.assertRaises(WireError, decode_value, wire_type, raw)
                    continue
                value = decode_value(wire_type, raw)
                self.assertEqual(value.hex() if wire_type == "bytes" else readable(value), case["value"])
                self.assertEqual(encode_value(wire_type, value), raw)

    def test_what_is_no_value_of_a_field_is_refused(self):
        for fields in ({"model": -1}, {"model": 1 << 32}, {"model": True}, {"model": "1"}, {"modle": 1}):
            with self.subTest(fields):
                self.assertRaises(ValueError, encode_head, "UNLOAD", fields)
        self.assertTrue(math.isnan(decode_value("f64", encode_value("f64", math.nan))))

    def test_any_bytes_give_frames_or_an_error_in_bounded_memory(self):
        chance = random.Random(1)
        for round_ in range(300):
            reader = FrameReader(4096, magic=False)
            try:
                for _ in range(20):
                    limit = 8 if round_ % 2 else 256
                    reader.push(bytes(chance.randrange(limit) if chance.random() < 0.25 else 0 for _ in range(300)))
                    for frame in iter(reader.next, None):
                        if frame.kind in BY_KIND:
                            decode_head(frame.kind, frame.head)
                    self.assertLess(reader.buffered, 4096 + 16)
            except WireError:
                pass


def _vector(name):
    return lambda self: self.check(name)


# A test for each vector, so that each is counted.
for _name in Vectors.names:
    setattr(Vectors, f"test_vector_{_name}", _vector(_name))
