"""What carries the protocol's bytes to a bridge and back: a process (``_process``) or a port (``_port``)."""

from __future__ import annotations

from typing import Protocol

from .errors import BridgeExited


class Transport(Protocol):
    """Bytes in, bytes out, and an account of how the bridge ended. Writing belongs to one thread, reading to another."""

    #: The process that the bridge runs in.
    pid: int

    def read(self) -> bytes:
        """Some bytes from the bridge, or none at the end."""

    def write(self, data: bytes) -> bool:
        """Writes all of the bytes; False once the bridge takes no more."""

    def end(self) -> None:
        """Says that nothing more will be sent: the bridge then ends."""

    def kill(self) -> None:
        """Ends the bridge at once."""

    def wait(self, seconds: float) -> bool:
        """Whether the bridge has ended within that time."""

    def account(self, patience: float) -> BridgeExited:
        """How it ended; it is killed if that takes longer than ``patience`` seconds."""

    def release(self) -> None:
        """Frees what is left of it, once it has ended."""
