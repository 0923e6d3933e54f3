"""The conformance scripts of tests/wire/conformance, over a spawned bridge and over a port: see the README there."""

import json
import os
import pathlib
import queue
import tempfile
import threading
import unittest
import zlib

from lean_engine._bridge_path import find_bridge
from lean_engine._codec import decode_head, encode_head
from lean_engine._frames import CRITICAL, FrameReader, frame_bytes
from lean_engine._messages import BY_KIND, MESSAGES
from lean_engine._port import BridgePort
from lean_engine._process import BridgeProcess

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
SCRIPTS = REPOSITORY / "tests" / "wire" / "conformance"
SMOL = pathlib.Path(os.environ.get("LEAN_MODEL_DIR") or REPOSITORY / ".cache" / "models").resolve()
SMOL = SMOL / "SmolLM2-135M-Instruct.Q4_1.gguf"
#: Seconds that a frame, or the bridge's end, may take.
PATIENCE = 60
WITH_JSON = {"LOADED", "INFO", "GENERATED", "ADAPTER", "ERROR"}
WITH_TEXT = {"TOKENS", "PARTIAL"}
TRANSPORTS = {"process": lambda: BridgeProcess(find_bridge()), "port": BridgePort}
TIMES = {"first_token_seconds", "total_seconds", "tokens_per_second"}


class Player:
    """One run of a script."""

    def __init__(self, head, folder, transport):
        self.head = head
        self.places = {"{dir}": str(folder), "{repo}": str(REPOSITORY), "{smol}": str(SMOL)}
        self.kept = {}
        self.open = {}
        self.incoming = queue.Queue()
        self.ended = False
        self.process = TRANSPORTS[transport]()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        reader = FrameReader(magic=True)
        while True:
            data = self.process.read()
            if not data:
                self.incoming.put(None)
                return
            reader.push(data)
            for frame in iter(reader.next, None):
                self.incoming.put(frame)

    # ---- sending

    def send(self, frame):
        name = frame.get("name")
        kind = MESSAGES[name].kind if name else frame["kind"]
        quiet = name in ("HELLO_ACK", "CANCEL", "CREDIT")
        tail = self.tail_of(frame)
        fields = self.replaced(frame.get("head", {}), False)
        if fields.get("digest") == "DIGEST":
            fields["digest"] = zlib.crc32(self.kept[frame["kept"]])
        head = encode_head(name, fields) if name else b""
        self.write(frame_bytes(frame["request"], kind, frame.get("flags", 0 if quiet else CRITICAL), head, tail))

    def write(self, data):
        # What is written to a bridge that has ended is nobody's: the script says what must come back.
        self.process.write(data)

    def tail_of(self, frame):
        if "json" in frame:
            text = json.dumps(self.replaced(frame["json"], False), ensure_ascii=False, separators=(",", ":"))
            return text.encode("utf-8")
        if "kept" in frame:
            blob = bytearray(self.kept[frame["kept"]])
            if "flip" in frame:
                blob[frame["flip"]] ^= 1
            return bytes(blob[frame.get("from", 0) : frame.get("to", len(blob))])
        return frame.get("text", "").encode("utf-8")

    # ---- receiving

    def next_of(self, request):
        """The next frame of a request; those of others wait for their turn."""
        while not self.open.get(request):
            try:
                frame = self.incoming.get(timeout=PATIENCE)
            except queue.Empty:
                raise AssertionError(f"no frame of request {request} within {PATIENCE} s") from None
            if frame is None:
                raise AssertionError(f"the stream ended before a frame of request {request}: {self.process.account(PATIENCE)}")
            self.open.setdefault(frame.request, []).append(frame)
        return self.open[request].pop(0)

    def described(self, frame):
        known = BY_KIND.get(frame.kind)
        name = known.name if known else None
        told = {"request": frame.request, **({"name": name} if name else {"kind": frame.kind})}
        if frame.flags:
            told["flags"] = frame.flags
        head = decode_head(frame.kind, frame.head) if known else {}
        if head:
            told["head"] = self.replaced(head, True)
        if not frame.tail:
            return told
        if name in WITH_JSON:
            told["json"] = self.replaced(timeless(json.loads(frame.tail)), True)
        elif name in WITH_TEXT:
            told["text"] = frame.tail.decode("utf-8")
        else:
            told["bytes"] = {"size": len(frame.tail), "crc32": zlib.crc32(frame.tail)}
        return told

    def replaced(self, value, back):
        """A value with the places filled in, or back."""
        if isinstance(value, str):
            for name, place in self.places.items():
                value = value.replace(place, name) if back else value.replace(name, place)
            return value
        if isinstance(value, dict):
            return {k: self.replaced(v, back) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.replaced(v, back) for v in value]
        return value

    # ---- the script

    def handshake(self):
        if self.next_of(0).kind != MESSAGES["HELLO"].kind:
            raise AssertionError("the first frame is no HELLO")
        ack = {"minor": 0, "credit": self.head.get("credit", 32), "max_frame": self.head.get("max_frame")}
        self.send({"request": 0, "name": "HELLO_ACK", "head": ack})

    def step(self, step):
        """Carries out a step; for an ``expect`` returns what was received."""
        if "send" in step:
            self.send(step["send"])
        elif "send_hex" in step:
            self.write(bytes.fromhex(step["send_hex"]))
        elif "expect" in step:
            frame = self.next_of(step["expect"]["request"])
            if "keep" in step["expect"]:
                self.kept[step["expect"]["keep"]] = self.kept.get(step["expect"]["keep"], b"") + frame.tail
            return self.described(frame)
        elif "close" in step:
            self.process.end()
        elif "end" in step:
            self.end(step["end"])
        else:
            raise AssertionError(f"a step of no kind: {step}")
        return None

    def end(self, status):
        self.ended = True
        try:
            frame = self.incoming.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"the stream did not end within {PATIENCE} s") from None
        left = [f for frames in self.open.values() for f in frames] + ([frame] if frame else [])
        if left:
            raise AssertionError(f"not expected: {[self.described(f) for f in left]}")
        account = self.process.account(PATIENCE)
        if account.exit_status != status:
            raise AssertionError(f"exit status {status} was expected: {account}")

    def finish(self):
        if not self.ended:
            last = 0x7FFF_FFFF
            self.send({"request": last, "name": "SHUTDOWN"})
            if self.described(self.next_of(last)).get("name") != "OK":
                raise AssertionError("SHUTDOWN failed")
            self.end(0)

    def stop(self):
        self.process.kill()
        self.process.end()
        self.process.account(PATIENCE)
        self.process.release()


def timeless(document):
    if isinstance(document, dict):
        return {k: 0 if k in TIMES else timeless(v) for k, v in document.items()}
    return [timeless(v) for v in document] if isinstance(document, list) else document


def same(want, got):
    """Whether something is what was expected; 1 is 1.0 here, but not True."""
    if want == "<any>":
        return True
    if isinstance(want, dict):
        return isinstance(got, dict) and want.keys() == got.keys() and all(same(v, got[k]) for k, v in want.items())
    if isinstance(want, list):
        return isinstance(got, list) and len(want) == len(got) and all(map(same, want, got))
    return want == got and isinstance(want, bool) == isinstance(got, bool)


def wanted(frame):
    return {k: v for k, v in frame.items() if k != "keep"}


def merged(want, got):
    """What was received, as the script's author wants it written: what may be anything stays so."""
    if want == "<any>":
        return want
    if isinstance(want, dict) and isinstance(got, dict):
        return {k: merged(want[k], v) if k in want else v for k, v in got.items()}
    return got


def lines_of(path):
    return path.read_text("utf-8").splitlines()


def is_step(line):
    return bool(line.strip()) and not line.startswith("#")


class Conformance(unittest.TestCase):
    def play(self, path, transport):
        lines = lines_of(path)
        head = json.loads(lines[0])
        if head.get("model") == "smol" and not SMOL.exists():
            self.skipTest(f"SKIPPED: there is no {SMOL}")
        update = os.environ.get("UPDATE_GOLDEN") == "1" and transport == "process"
        with tempfile.TemporaryDirectory() as folder:
            player = Player(head, pathlib.Path(folder).resolve(), transport)
            self.addCleanup(player.stop)
            if head.get("handshake", True):
                player.handshake()
            for number, line in enumerate(lines[1:], 2):
                if not is_step(line):
                    continue
                step = json.loads(line)
                got = player.step(step)
                if got is None:
                    continue
                if update:
                    keep = {"keep": step["expect"]["keep"]} if "keep" in step["expect"] else {}
                    got = {**merged(step["expect"], got), **keep}
                    lines[number - 1] = json.dumps({"expect": got}, ensure_ascii=False)
                elif not same(wanted(step["expect"]), got):
                    self.fail(f"{path.name}:{number}\nexpected {json.dumps(wanted(step['expect']))}\ngot      {json.dumps(got)}")
            player.finish()
        if update:
            path.write_text("\n".join(lines) + "\n", "utf-8")

    def test_there_are_scripts(self):
        self.assertGreater(len(list(SCRIPTS.glob("*.jsonl"))), 25)


def _script(path, transport):
    return lambda self: self.play(path, transport)


# A test for each script and transport, so that each is counted.
for _path in sorted(SCRIPTS.glob("*.jsonl")):
    for _transport in TRANSPORTS:
        setattr(Conformance, f"test_{_path.stem}_over_{_transport}", _script(_path, _transport))


if __name__ == "__main__":
    unittest.main()
