"""The spawned bridge as a transport: bytes in, bytes out, and an account of how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Callable, Optional

from .errors import BridgeExited, exited

#: Bytes of stderr that an error carries.
STDERR_TAIL = 4096


class BridgeProcess:
    """A bridge process. Writing belongs to one thread, reading to another."""

    def __init__(
        self,
        file: str,
        args: Sequence[str] = (),
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        on_stderr: Optional[Callable[[str], object]] = None,
    ) -> None:
        try:
            self._child = subprocess.Popen(
                [file, "--parent-pid", str(os.getpid()), *args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=None if env is None else dict(env),
                cwd=cwd,
                bufsize=0,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise exited(f"could not be started: {error}") from error
        self.pid = self._child.pid
        self._on_stderr = on_stderr
        self._stderr = b""
        self._drain = threading.Thread(target=self._drain_stderr, name="lean-stderr", daemon=True)
        self._drain.start()

    def read(self) -> bytes:
        """Some bytes of its stdout, or none at the end."""
        assert self._child.stdout is not None
        try:
            return os.read(self._child.stdout.fileno(), 1 << 16)
        except (OSError, ValueError):
            return b""

    def write(self, data: bytes) -> bool:
        """Writes all of the bytes; False once the process takes no more."""
        assert self._child.stdin is not None
        view = memoryview(data)
        try:
            while view:
                view = view[self._child.stdin.write(view) or 0 :]
        except (OSError, ValueError):
            return False
        return True

    def end(self) -> None:
        """Says that nothing more will be sent: the bridge then ends."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.close()
        except OSError:
            pass

    def kill(self) -> None:
        self._child.kill()

    def wait(self, seconds: float) -> bool:
        """Whether the process has ended within that time."""
        try:
            self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def account(self, patience: float) -> BridgeExited:
        """How it ended; it is killed if that takes longer than ``patience`` seconds."""
        if not self.wait(patience):
            self.kill()
            self.wait(10)
        # A grandchild may hold stderr open: what it says later is not waited for.
        self._drain.join(1)
        status = self._child.returncode
        words = self._stderr.decode("utf-8", "replace")
        if status is None:
            return exited("does not end", stderr=words)
        if status >= 0:
            return exited(f"exited with status {status}", exit_status=status, stderr=words)
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return exited(f"was killed by {name}", signal=name, stderr=words)

    def release(self) -> None:
        """Closes stdout, once the process has ended; stdin is the writer's."""
        if self._child.stdout is not None:
            self._child.stdout.close()

    def _drain_stderr(self) -> None:
        assert self._child.stderr is not None
        with self._child.stderr as pipe:
            while True:
                data = pipe.read(4096)
                if not data:
                    return
                self._stderr = (self._stderr + data)[-STDERR_TAIL:]
                if self._on_stderr is not None:
                    try:
                        self._on_stderr(data.decode("utf-8", "replace"))
                    except Exception:  # The listener's mistake must not fill the pipe.
                        sys.excepthook(*sys.exc_info())
