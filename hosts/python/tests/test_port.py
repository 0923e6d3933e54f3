"""The engine inside this process: the same client over a port."""

import gc
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from dataclasses import dataclass
from unittest import mock

import lean_engine as lean


@dataclass
class User:
    id: int
    name: str


def port(**options):
    return lean.spawn(transport="port", **options)


class Port(unittest.TestCase):
    def test_it_runs_in_this_process(self):
        with port() as engine:
            self.assertEqual(engine.pid, os.getpid())
            self.assertIn("echo", engine.capabilities)
            model = engine.load("echo")
            self.assertEqual(model.generate(str, "one two three"), "one two three")
            self.assertEqual(model.generate(User, '{"id":7,"name":"Ada"}'), User(7, "Ada"))

    def test_both_transports_give_the_same_events(self):
        events = []
        for transport in ("process", "port"):
            with lean.spawn(transport=transport) as engine:
                stream = engine.load("echo").stream(str, "one two three four")
                events.append([repr(event) for event in stream])
        self.assertEqual(events[0], events[1])

    def test_errors_keep_their_codes(self):
        with port() as engine:
            with self.assertRaises(lean.InputError) as caught:
                engine.load("echo").generate({"type": "nothing"}, "a")
            self.assertEqual(caught.exception.name, "type")
            with self.assertRaises(lean.LeanError) as caught:
                engine.load("/nowhere/model.gguf")
            self.assertEqual(caught.exception.name, "model_io")

    def test_checkpoints_go_from_a_port_to_a_process(self):
        with tempfile.TemporaryDirectory() as folder, port() as here, lean.spawn() as there:
            path = os.path.join(folder, "state")
            session = here.load("echo").session()
            session.append("one two")
            session.checkpoint().save(path)
            model = there.load("echo")
            self.assertEqual(model.generate(str, checkpoint=path), "one two")

    def test_a_call_that_waits_is_cancelled(self):
        with port() as engine:
            model = engine.load("echo?step_ms=60000")
            with self.assertRaises(lean.TimedOut):
                model.generate(str, "a b c", timeout=0.01)
            cancel = threading.Event()
            stream = model.stream(str, "a b c", cancel=cancel)
            cancel.set()
            with self.assertRaises(lean.Cancelled):
                list(stream)

    def test_closing_ends_what_runs_and_all_threads(self):
        before = _threads()
        engine = port()
        model = engine.load("echo?step_ms=60000")
        failures = []

        def wait():
            try:
                model.generate(str, "a b c")
            except lean.LeanError as error:
                failures.append(error)

        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        engine.close()
        for thread in threads:
            thread.join()
        self.assertEqual(len(failures), 3)
        with self.assertRaises(lean.BridgeExited):
            engine.load("echo")
        engine.close()
        del engine, model
        gc.collect()
        # The system may list a thread for a moment after it was joined.
        late = time.monotonic() + 60
        while _threads() > before and time.monotonic() < late:
            time.sleep(0.01)
        self.assertEqual(_threads(), before)

    def test_several_at_once(self):
        engines = [port() for _ in range(4)]
        models = [engine.load("echo") for engine in engines]
        self.assertEqual([m.generate(str, f"number {i}") for i, m in enumerate(models)], [f"number {i}" for i in range(4)])
        for engine in engines:
            engine.close()

    def test_options_belong_to_their_transport(self):
        for options, word in (
            ({"transport": "pigeon"}, "pigeon"),
            ({"transport": "port", "bridge": "/bin/true"}, "bridge"),
            ({"transport": "port", "on_stderr": print}, "on_stderr"),
            ({"library": "liblean.so"}, "library"),
        ):
            with self.subTest(options), self.assertRaises(lean.InputError) as caught:
                lean.spawn(**options)
            self.assertIn(word, str(caught.exception))

    def test_a_library_that_is_missing_or_none_is_named(self):
        for library in ("/nowhere/liblean.so", __file__):
            with self.subTest(library), self.assertRaises(lean.BridgeNotFound) as caught:
                port(library=library)
            self.assertIn(library, str(caught.exception))
        with mock.patch.dict(os.environ, {"LEAN_LIBRARY": "/nowhere/at/all"}), self.assertRaises(lean.BridgeNotFound) as caught:
            port()
        self.assertIn("LEAN_LIBRARY", str(caught.exception))

    def test_programs_end_with_ports_open(self):
        program = """
            import lean_engine as lean, os, sys, threading
            engine = lean.spawn(transport="port")
            model = engine.load("echo?step_ms=60000")
            stream = model.stream(str, "a b")
            if "forked" in sys.argv and os.fork() == 0:
                del stream, model, engine
                sys.exit(0)
            if "forked" in sys.argv:
                os.wait()
            print("end")
        """
        for argument in ("plain", "forked") if hasattr(os, "fork") else ("plain",):
            with self.subTest(argument):
                run = subprocess.run(
                    [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), argument], capture_output=True, text=True, timeout=60
                )
                self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "end\n", ""))


def _threads():
    """Threads of ports in this process, where that can be seen."""
    folder = "/proc/self/task"
    if not os.path.isdir(folder):
        return 0
    count = 0
    for task in os.listdir(folder):
        try:
            with open(f"{folder}/{task}/comm", encoding="ascii") as file:
                count += file.read().startswith(("lean-port", "lean-request"))
        except OSError:
            pass
    return count


if __name__ == "__main__":
    unittest.main()
