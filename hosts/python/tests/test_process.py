"""Processes that die well: no orphans, and every pending call ends with an account."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from unittest import mock

import lean_engine as lean

PACKAGE = pathlib.Path(__file__).resolve().parents[1]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return True


def gone(pid, seconds=20):
    """Whether a process ends; there is ample time, since the machine may be busy."""
    end = time.monotonic() + seconds
    while alive(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def python(script, **options):
    """A Python program that uses this package."""
    code = "import lean_engine as lean, os, sys, threading, time\n" + textwrap.dedent(script)
    env = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    return subprocess.Popen(
        [sys.executable, "-u", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, **options
    )


@unittest.skipIf(os.name == "nt", "SKIPPED: written for POSIX")
class Hosts(unittest.TestCase):
    """What becomes of the bridge when this program ends."""

    def finish(self, script):
        host = python(script)
        out, err = host.communicate(timeout=60)
        return host.returncode, out, err

    def test_a_program_that_forgets_to_close_ends_and_its_bridge_too(self):
        code, out, err = self.finish(
            """
            engine = lean.spawn()
            model = engine.load("echo?step_ms=20")
            print(engine.pid, model.generate(str, "one two"))
            """
        )
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(out.endswith(" one two\n"), out)
        self.assertTrue(gone(int(out.split()[0])))

    def test_a_program_that_is_killed_takes_its_bridge_along(self):
        # Without --parent-pid doing the work: the end of stdin suffices.
        for extra in ("", "import lean_engine._process as p; p.os.getpid = lambda: 1\n"):
            host = python(
                extra
                + textwrap.dedent(
                    """
                    engine = lean.spawn()
                    model = engine.load("echo?step_ms=60000")
                    print(engine.pid)
                    model.generate(str, "one two")
                    """
                )
            )
            with host:
                pid = int(host.stdout.readline())
                self.assertTrue(alive(pid))
                host.kill()
            self.assertTrue(gone(pid), "an orphan is left")

    def test_ctrl_c_ends_the_call_and_not_the_bridge(self):
        host = python(
            """
            # Also where whoever runs the tests ignores Ctrl-C, as a shell does for what it starts in the background.
            import signal
            signal.signal(signal.SIGINT, signal.default_int_handler)
            with lean.spawn() as engine:
                session = engine.load("echo?step_ms=100").session()
                session.append("one")
                try:
                    print("ready")
                    session.generate(str, "two " * 2000)
                except KeyboardInterrupt:
                    session.append(" more")
                    print(session.generate(str), engine.pid)
            """,
            start_new_session=True,
        )
        self.assertEqual(host.stdout.readline(), "ready\n")
        time.sleep(0.5)
        os.killpg(host.pid, signal.SIGINT)
        out, err = host.communicate(timeout=60)
        self.assertEqual(host.returncode, 0, err)
        self.assertTrue(out.startswith("one more "), out)
        self.assertTrue(gone(int(out.split()[-1])))

    def test_an_engine_that_is_forgotten_ends(self):
        engine = lean.spawn()
        model = engine.load("echo")
        pid, process = engine.pid, engine.connection.process
        del engine
        self.assertEqual(model.generate(str, "still here"), "still here")
        del model
        self.assertTrue(process.wait(20))
        self.assertTrue(gone(pid))

    @unittest.skipUnless(hasattr(os, "fork"), "SKIPPED: no fork here")
    def test_a_forked_process_is_told_to_spawn_its_own(self):
        code, out, err = self.finish(
            """
            import warnings; warnings.simplefilter("ignore")
            with lean.spawn() as engine:
                model = engine.load("echo")
                child = os.fork()
                if child == 0:
                    try:
                        model.generate(str, "x")
                    except lean.InputError as error:
                        print(error)
                    os._exit(0)
                os.waitpid(child, 0)
                print(model.generate(str, "parent"))
            """
        )
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, "forked.*spawn one of its own\nparent\n")


@unittest.skipIf(os.name == "nt", "SKIPPED: written for POSIX")
class Bridges(unittest.TestCase):
    """What becomes of calls when the bridge ends or misbehaves."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lean-python-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def pretend(self, script):
        """A program in the bridge's place."""
        file = self.folder / "bridge"
        setup = f"import sys, time\nsys.path.insert(0, {str(PACKAGE)!r})\n"
        file.write_text(f"#!{sys.executable}\n{setup}{textwrap.dedent(script)}")
        file.chmod(0o755)
        return file

    GREETING = """
from lean_engine._frames import MAGIC, message_bytes
hello = {"major": 1, "engine": "pretender", "max_frame": 1 << 20, **HELLO}
sys.stdout.buffer.write(MAGIC + message_bytes(0, "HELLO", hello))
sys.stdout.buffer.flush()
"""

    def test_a_killed_bridge_ends_every_pending_call_with_an_account(self):
        engine = lean.spawn()
        model = engine.load("echo?step_ms=60000")
        caught = []

        def run(call):
            try:
                call()
            except lean.LeanError as error:
                caught.append(error)

        stream = model.stream(str, "stream")
        calls = [lambda: model.generate(str, "call"), lambda: model.generate(str, "b", timeout=60), lambda: list(stream)]
        threads = [threading.Thread(target=run, args=(call,)) for call in calls]
        for t in threads:
            t.start()
        time.sleep(0.2)
        os.kill(engine.pid, signal.SIGKILL)
        for t in threads:
            t.join(20)
        run(lambda: model.generate(str))
        run(lambda: engine.load("echo"))
        self.assertEqual(len(caught), 5)
        self.assertEqual(len(set(map(id, caught))), 5)
        for error in caught:
            self.assertIsInstance(error, lean.BridgeExited)
            self.assertEqual((error.code, error.name, error.signal), (691, "bridge_exited", "SIGKILL"))
            self.assertTrue(error.retryable)
            self.assertIn("killed by SIGKILL", str(error))
        engine.close()
        engine.close()

    def test_a_new_bridge_goes_on_from_a_checkpoint(self):
        text = " ".join(f"w{i}" for i in range(100))
        file = self.folder / "state.lean"
        engine = lean.spawn()
        stream = engine.load("echo").stream(str, text)
        for _ in range(30):
            next(stream)
        stream.checkpoint().save(file)
        os.kill(engine.pid, signal.SIGKILL)
        with self.assertRaises(lean.BridgeExited):
            stream.result()
        with lean.spawn() as other:
            self.assertEqual(other.load("echo").resume(file).value, text)

    def test_last_words_on_stderr_are_part_of_the_error(self):
        heard = []
        bridge = self.pretend("print('cannot map the frobnicator', file=sys.stderr); sys.exit(7)")
        with self.assertRaises(lean.BridgeExited) as caught:
            lean.spawn(bridge=bridge, on_stderr=heard.append)
        self.assertEqual(caught.exception.exit_status, 7)
        self.assertIn("status 7\nIts last words:\ncannot map the frobnicator", str(caught.exception))
        self.assertEqual("".join(heard), "cannot map the frobnicator\n")

    def test_text_on_stdout_is_a_protocol_error_and_no_hang(self):
        bridge = self.pretend("print('Hello from a library', flush=True); time.sleep(60)")
        with self.assertRaisesRegex(lean.ProtocolError, "Hello from a library") as caught:
            lean.spawn(bridge=bridge)
        self.assertEqual((caught.exception.code, caught.exception.signal), (600, "SIGKILL"))

    def test_a_bridge_of_another_version_is_refused_by_naming_both(self):
        bridge = self.pretend(self.GREETING.replace("**HELLO", "'major': 2, 'minor_max': 5") + "sys.stdin.read()")
        with self.assertRaisesRegex(lean.ProtocolError, r"1\.0.*pretender.*2\.0 to 2\.5") as caught:
            lean.spawn(bridge=bridge)
        self.assertEqual(caught.exception.name, "version")

    def test_malformed_frames_end_the_connection_and_the_bridge(self):
        bridge = self.pretend(
            self.GREETING.replace("**HELLO", "")
            + "sys.stdin.buffer.read(16 + 4 + 16)\n"
            + "sys.stdout.buffer.write(bytes([255]) * 16)\nsys.stdout.buffer.flush()\nsys.stdin.read()"
        )
        engine = lean.spawn(bridge=bridge)
        with self.assertRaises(lean.ProtocolError) as caught:
            engine.load("echo")
        self.assertEqual(caught.exception.code, 600)
        # It may have been killed instead of ending by itself, if the machine is slow.
        self.assertTrue(caught.exception.exit_status == 0 or caught.exception.signal == "SIGKILL")
        self.assertTrue(gone(engine.pid))
        with self.assertRaises(lean.ProtocolError):
            engine.load("echo")

    def test_a_missing_bridge_says_what_to_do(self):
        nowhere = str(self.folder / "nowhere")
        with self.assertRaisesRegex(lean.BridgeNotFound, "the `bridge` argument names .*nowhere"):
            lean.spawn(bridge=nowhere)
        with mock.patch.dict(os.environ, {"LEAN_BRIDGE": nowhere}):
            with self.assertRaisesRegex(lean.BridgeNotFound, "LEAN_BRIDGE names .*nowhere"):
                lean.find_bridge()
        plain = self.folder / "plain.txt"
        plain.write_text("no program")
        with self.assertRaisesRegex(lean.BridgeExited, "could not be started"):
            lean.spawn(bridge=plain)

    def test_where_the_bridge_is_looked_for(self):
        copy = self.folder / "site" / "lean_engine"
        shutil.copytree(PACKAGE / "lean_engine", copy, ignore=shutil.ignore_patterns("__pycache__", "bin"))
        on_path = self.folder / "path" / "lean-bridge"
        on_path.parent.mkdir()
        look = [sys.executable, "-c", "import lean_engine\ntry: print(lean_engine.find_bridge())\nexcept Exception as e: print(e)"]
        env = {k: v for k, v in os.environ.items() if k != "LEAN_BRIDGE"}
        env.update(PYTHONPATH=str(copy.parent), PATH=f"{on_path.parent}:/usr/bin:/bin")

        def found():
            return subprocess.run(look, env=env, cwd=self.folder, capture_output=True, text=True, check=True).stdout.strip()

        self.assertRegex(found(), "Install a wheel of lean-engine .* set LEAN_BRIDGE")
        on_path.write_text("")
        on_path.chmod(0o755)
        self.assertEqual(found(), str(on_path))
        (copy / "bin").mkdir()
        (copy / "bin" / "lean-bridge").write_text("")
        self.assertEqual(found(), str(copy / "bin" / "lean-bridge"))

    def test_close_cancels_what_runs_and_waits_for_the_end(self):
        engine = lean.spawn()
        stream = engine.load("echo?step_ms=60000").stream(str, "one")
        engine.close()
        self.assertFalse(alive(engine.pid))
        with self.assertRaises(lean.Cancelled):
            stream.result()
        with self.assertRaisesRegex(lean.BridgeExited, "closed"):
            engine.load("echo")

    def test_no_thread_is_left(self):
        before = threading.active_count()
        for _ in range(3):
            with lean.spawn() as engine:
                engine.load("echo")
        end = time.monotonic() + 10
        while threading.active_count() > before and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(threading.active_count(), before)


if __name__ == "__main__":
    unittest.main()
