"""Everything that lean reports: ``LeanError`` and a subclass for each of the protocol's classes."""

from __future__ import annotations

import json
from typing import Any, Optional


class LeanError(Exception):
    """An error of the engine, of the bridge, or of the way there.

    * ``code``: stable number, the same in every interface of lean;
    * ``name``: the code's short name, such as ``context_overflow``;
    * ``error_class``: what to do about it: ``protocol``, ``input``, ``resource``, ``cancelled`` or ``internal``;
    * ``retryable``: whether the same call may succeed later;
    * ``details``: the error's own numbers, such as ``{"needed": 5, "available": 4}``;
    * ``exit_status``, ``signal``, ``stderr``: how the bridge ended and its last lines, where that is why.
    """

    error_class = "unknown"

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        name: str = "unknown",
        retryable: bool = False,
        details: Optional[dict[str, Any]] = None,
        exit_status: Optional[int] = None,
        signal: Optional[str] = None,
        stderr: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.name = name
        self.retryable = retryable
        self.details: dict[str, Any] = details or {}
        self.exit_status = exit_status
        self.signal = signal
        self.stderr = stderr

    def copy(self) -> LeanError:
        """The same error anew: every pending call raises an object of its own, with its own traceback."""
        other = self.__class__.__new__(self.__class__, *self.args)
        other.args = self.args
        other.__dict__.update(self.__dict__)
        other.__cause__ = self.__cause__
        return other


class ProtocolError(LeanError):
    """The bridge and this client do not understand each other: a bug, or versions that do not match."""

    error_class = "protocol"


class InputError(LeanError, ValueError):
    """The request cannot be carried out as it is: an argument, a type, a model file, a checkpoint."""

    error_class = "input"


class ResourceError(LeanError):
    """Memory, a device, a file, a limit."""

    error_class = "resource"


class BridgeNotFound(ResourceError):
    """No bridge binary was found; the message says where it was looked for and what to install."""


class BridgeExited(ResourceError):
    """The bridge process ended, or never began. Start another one and go on from a checkpoint."""


class Cancelled(LeanError):
    """The caller, or the end of the engine, cancelled the call. A session is as it was before it."""

    error_class = "cancelled"


class TimedOut(Cancelled, TimeoutError):
    """The call's ``timeout`` passed. A session is as it was before the call."""


class InternalError(LeanError):
    """A bug in lean."""

    error_class = "internal"


_CLASSES = {1: ProtocolError, 2: InputError, 3: ResourceError, 4: Cancelled, 5: InternalError}


def from_frame(head: dict[str, Any], tail: bytes) -> LeanError:
    """The error of an ERROR frame."""
    try:
        details = json.loads(tail) if tail else None
    except ValueError:
        # The numbers are an extra: the error itself must arrive.
        details = None
    make = TimedOut if head["code"] == 501 else _CLASSES.get(head["class"], LeanError)
    return make(
        head["message"],
        code=head["code"],
        name=head["name"],
        retryable=head["retryable"],
        details=details if isinstance(details, dict) else None,
    )


def invalid(message: str) -> InputError:
    """A wrong argument, noticed before anything was sent."""
    return InputError(message, code=100, name="invalid_argument")


def refused_type(at: str, reason: str) -> InputError:
    """A Python type that says nothing about JSON."""
    return InputError(f"type error at {at}: {reason}", code=110, name="type", details={"at": at, "reason": reason})


def cancelled() -> Cancelled:
    return Cancelled("cancelled", code=500, name="cancelled")


def timed_out(seconds: float) -> TimedOut:
    return TimedOut(f"timed out after {seconds:g} s", code=501, name="timeout", retryable=True)


def wire_failure(cause: Exception) -> ProtocolError:
    """The bytes from the bridge were no frames."""
    return ProtocolError(f"the bridge does not speak the protocol: {cause}", code=600, name="protocol")


def version_mismatch(message: str) -> ProtocolError:
    return ProtocolError(message, code=601, name="version")


def not_found(message: str) -> BridgeNotFound:
    return BridgeNotFound(message, code=690, name="bridge_not_found")


def exited(how: str, exit_status: Optional[int] = None, signal: Optional[str] = None, stderr: str = "") -> BridgeExited:
    """The account of a bridge that is gone."""
    words = stderr.rstrip()
    return BridgeExited(
        f"the bridge {how}" + (f"\nIts last words:\n{words}" if words else ""),
        code=691,
        name="bridge_exited",
        retryable=True,
        exit_status=exit_status,
        signal=signal,
        stderr=stderr,
    )
