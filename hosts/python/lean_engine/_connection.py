"""Handshake, requests, events with credit, cancellation: the protocol over a bridge process or a port.

Two threads serve a connection: one reads frames and hands them to the requests they belong to, one writes frames; a
process has a third, which drains stderr. Events are handled in the thread that made the call. Only the writer writes, so that an exception
in a caller (Ctrl-C) cannot leave half a frame behind, and a finaliser, which may run anywhere, only has to queue.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple, Optional, Protocol, Union

from . import errors
from ._codec import WireError, decode_head
from ._frames import CRITICAL, END, ERROR, MAX_FRAME_DEFAULT, Frame, FrameReader, message_bytes
from ._messages import BY_KIND, MAJOR, MINOR
from ._slots import Slots, places_for
from ._transport import Transport
from .errors import LeanError

#: Events that a request may have on the way: the bridge waits for a consumer that is this far behind.
CREDIT = 32
#: Seconds a bridge that broke the protocol may take to end by itself.
EXIT_SECONDS = 1.0
#: Seconds that the end of a cancelled request is waited for; it takes one step, or a layer of a prefill.
CANCEL_SECONDS = 5.0
#: Seconds between two looks at a caller's cancel token.
LOOK_SECONDS = 0.01


class CancelToken(Protocol):
    """What cancels a call once it is set: a ``threading.Event``, or anything with its ``is_set``."""

    def is_set(self) -> bool:
        """Whether the call is not wanted any more."""


class Message(NamedTuple):
    """A decoded frame."""

    name: str
    head: dict[str, Any]
    tail: bytes


#: Seconds beyond which a limit is none.
_FOREVER = 1e9


class Request:
    """An open request: an iterator over its events whose ``answer`` is set at the end."""

    def __init__(self, connection: Connection, cancel: Optional[CancelToken], timeout: Optional[float]) -> None:
        if timeout is not None and not timeout >= 0:
            raise errors.invalid(f"timeout: seconds, 0 or more, or None for no limit, and not {timeout!r}")
        self.id = 0
        self.answer: Optional[Message] = None
        #: Whether its end was taken; it may have arrived before.
        self.ended = False
        self._over = threading.Event()
        self.cancelled = False
        self._connection = connection
        self._token = cancel
        self._timeout = timeout
        # Waiting functions take no more than some thousands of years.
        self._deadline = None if timeout is None or timeout > _FOREVER else time.monotonic() + timeout
        self._expired = False
        self._consumed = 0
        #: Messages and whether they are the last; an error always is.
        self._inbox: queue.SimpleQueue[tuple[Union[Message, LeanError], bool]] = queue.SimpleQueue()

    def put(self, message: Message) -> None:
        """Hands an event over; the reader's part."""
        self._inbox.put((message, False))

    def finish(self, outcome: Union[Message, LeanError]) -> None:
        """Hands the end over; the reader's part."""
        self._inbox.put((outcome, True))
        self._over.set()

    @property
    def over(self) -> bool:
        """Whether its end has arrived."""
        return self._over.is_set()

    def cancel(self) -> None:
        """Ends the request early; it then fails with ``Cancelled``. Takes no lock: a finaliser may call it."""
        if not self.cancelled and not self.over:
            self.cancelled = True
            self._connection.send(message_bytes(self.id, "CANCEL", {}))

    def look(self) -> None:
        """Cancels if the caller's token or deadline says so."""
        if self.cancelled:
            return
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._expired = True
            self.cancel()
        elif self._token is not None and self._token.is_set():
            self.cancel()

    def events(self) -> Iterator[Message]:
        """The events one by one; credit for one is given back when the next is asked for."""
        while True:
            message = self._take()
            if message is None:
                return
            yield message
            self._give_back()

    def wait(self) -> Message:
        """The answer; events on the way are let pass."""
        for _ in self.events():
            pass
        assert self.answer is not None
        return self.answer

    def close(self) -> None:
        """Cancels it and waits for its end, so that its session is free again."""
        self.cancel()
        self.settle(CANCEL_SECONDS)

    def settle(self, seconds: float) -> None:
        """Waits for its end to arrive."""
        self._over.wait(seconds)

    def _take(self) -> Optional[Message]:
        while True:
            self.look()
            received, self.ended = self._receive()
            if isinstance(received, LeanError):
                if self._expired and isinstance(received, errors.Cancelled):
                    raise errors.timed_out(self._timeout or 0)
                raise received
            if self.ended:
                self.answer = received
                return None
            # What crosses a cancellation is nobody's any more.
            if received is not None and not self.cancelled:
                return received

    def given_up(self) -> Optional[LeanError]:
        """Why it is not to be sent any more, if it waits for its turn."""
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return errors.timed_out(self._timeout or 0)
        return errors.cancelled() if self._token is not None and self._token.is_set() else None

    def patience(self) -> Optional[float]:
        """Seconds until the caller's token and deadline have to be looked at."""
        wait = None if self.cancelled or self._token is None else LOOK_SECONDS
        if self._deadline is not None and not self.cancelled:
            left = max(0.0, self._deadline - time.monotonic())
            wait = left if wait is None else min(wait, left)
        return wait

    def _receive(self) -> tuple[Union[Message, LeanError, None], bool]:
        try:
            return self._inbox.get(timeout=self.patience())
        except queue.Empty:
            return None, False

    def _give_back(self) -> None:
        """Gives credit back in halves of what there was, so that a token does not cost a frame each way."""
        self._consumed += 1
        if self._consumed >= max(1, self._connection.credit // 2) and not self.cancelled:
            self._connection.send(message_bytes(self.id, "CREDIT", {"events": self._consumed}))
            self._consumed = 0


#: What the writer is asked to do: write, do something, or (None) hang up.
_Job = Union[bytes, Callable[[], None], None]


class Connection:
    """A connection to a bridge, in a process or a port."""

    def __init__(self, process: Transport, credit: int = CREDIT) -> None:
        self.process = process
        self.credit = credit
        self.hello: queue.SimpleQueue[Union[dict[str, Any], LeanError]] = queue.SimpleQueue()
        self._reader = FrameReader()
        self._requests: dict[int, Request] = {}
        self._next_id = 0
        self._over: Optional[LeanError] = None
        #: Whether the process is gone and all calls know.
        self._done = False
        self._lock = threading.Lock()
        self._slots = Slots()
        #: Members of a group wait for each other: two groups that take their places at once would for ever.
        self.groups = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._owner = os.getpid()
        self._reading = threading.Thread(target=self._read, name="lean-reader", daemon=True)
        self._reading.start()
        threading.Thread(target=self._write, name="lean-writer", daemon=True).start()

    @property
    def max_frame(self) -> int:
        """The most bytes that a frame's body may have."""
        return self._reader.max_frame

    def open(
        self,
        name: str,
        head: dict[str, Any],
        tail: bytes = b"",
        *,
        cancel: Optional[CancelToken] = None,
        timeout: Optional[float] = None,
    ) -> Request:
        """Sends a request, once there is a place for it."""
        if os.getpid() != self._owner:
            raise errors.invalid("this process was forked from the one that spawned the engine: spawn one of its own")
        request = Request(self, cancel, timeout)
        if cancel is not None and cancel.is_set():
            raise errors.cancelled()
        try:
            frame = message_bytes(0, name, head, tail, CRITICAL)
        except ValueError as error:
            raise errors.invalid(str(error)) from None
        if len(frame) - 16 > self.max_frame:
            raise errors.invalid(f"the request has {len(frame)} bytes; at most {self.max_frame} fit a frame")
        self._enter(request, places_for(name))
        self._begin(request, frame)
        return request

    def _enter(self, request: Request, places: int) -> None:
        """Waits for a place."""
        told: queue.SimpleQueue[Optional[LeanError]] = queue.SimpleQueue()
        ticket = self._slots.enter(places, told.put)
        try:
            over = self._turn(request, told)
        except BaseException:
            # Ctrl-C as well gives the place back, if it was given meanwhile.
            if not self._slots.forget(ticket):
                try:
                    given = told.get(timeout=1) is None
                except queue.Empty:
                    given = True
                if given:
                    self._slots.leave()
            raise
        if over is not None:
            raise over.copy()

    @staticmethod
    def _turn(request: Request, told: queue.SimpleQueue[Optional[LeanError]]) -> Optional[LeanError]:
        while True:
            try:
                return told.get(timeout=request.patience())
            except queue.Empty:
                error = request.given_up()
                if error is not None:
                    raise error from None

    def _begin(self, request: Request, frame: bytes) -> None:
        """Sends a request whose place was taken."""
        with self._lock:
            over = self._over
            if over is None:
                self._number(request, frame)
        if over is not None:
            self._slots.leave()
            raise over.copy()

    def _number(self, request: Request, frame: bytes) -> None:
        """Gives it an id that is free, and queues it. The lock is held."""
        self._next_id = self._next_id % 0x7FFF_FFFF + 1
        while self._next_id in self._requests:
            self._next_id = self._next_id % 0x7FFF_FFFF + 1
        request.id = self._next_id
        self._requests[request.id] = request
        self._jobs.put(frame[:4] + request.id.to_bytes(4, "little") + frame[8:])

    def call(self, name: str, head: dict[str, Any], tail: bytes = b"", **options: Any) -> Message:
        """Sends a request and waits for its answer; whatever interrupts the wait cancels it."""
        request = self.open(name, head, tail, **options)
        try:
            return request.wait()
        finally:
            request.close()

    def send(self, frame: bytes) -> None:
        """Queues a frame."""
        self._jobs.put(frame)

    def send_now(self, frame: bytes) -> None:
        """Queues a frame and waits until it was written, or cannot be: what uploads are held back by."""
        written = threading.Event()
        self._jobs.put(frame)
        self._jobs.put(written.set)
        while not written.wait(0.1):
            if self._over is not None:
                return

    def post(self, name: str, head: dict[str, Any]) -> None:
        """Sends a request that nobody waits for, in its turn. Only queues, since finalisers call it in any thread."""

        def begin(over: Optional[LeanError]) -> None:
            if over is None:
                try:
                    self._begin(Request(self, None, None), message_bytes(0, name, head, b"", CRITICAL))
                except LeanError:
                    pass

        def job() -> None:
            self._slots.enter(places_for(name), begin)

        self._jobs.put(job)

    def hang_up(self) -> None:
        """Ends the bridge's stdin, and with it the bridge."""
        self._jobs.put(None)

    def shut_down(self, error: LeanError, seconds: float) -> None:
        """Ends everything in good order; from now on every call fails with this error."""
        try:
            request = self.open("SHUTDOWN", {})
        except LeanError:
            return
        with self._lock:
            self._over = self._over or error
        self._slots.close(error)
        request.settle(seconds)
        self.hang_up()

    def join(self, seconds: float) -> None:
        """Waits until every call has been told of the end."""
        self._reading.join(seconds)

    def _write(self) -> None:
        going = True
        while True:
            job = self._jobs.get()
            if job is None:
                going = False
                self.process.end()
                if self._done:
                    return
            elif callable(job):
                job()
            elif going:
                try:
                    going = self.process.write(job)
                except LeanError:
                    # The port failed: whoever waits is told by the end of what is read.
                    going = False
                    self.process.end()

    def _read(self) -> None:
        error: Optional[LeanError] = None
        try:
            while error is None:
                data = self.process.read()
                if not data:
                    break
                self._reader.push(data)
                error = self._frames()
        except WireError as failure:
            error = errors.wire_failure(failure)
        except Exception as failure:  # A bug here must not leave callers waiting.
            error = errors.InternalError(f"the client failed: {failure!r}", code=900, name="internal")
            error.__cause__ = failure
        if error is not None:
            # No more can be understood: the bridge has to go, and its account of itself joins the error.
            self.hang_up()
        account = self.process.account(EXIT_SECONDS)
        if error is None:
            error = account
        else:
            error.exit_status, error.signal, error.stderr = account.exit_status, account.signal, account.stderr
        self._fail(error)
        self.process.release()

    def _frames(self) -> Optional[LeanError]:
        """Handles what has arrived; returns the error that ends the connection."""
        while True:
            frame = self._reader.next()
            if frame is None:
                return None
            error = self._frame(frame)
            if error is not None:
                return error

    def _frame(self, frame: Frame) -> Optional[LeanError]:
        known = BY_KIND.get(frame.kind)
        if known is None and not frame.flags & END:
            return None
        head = decode_head(frame.kind, frame.head) if known else {}
        message = Message(known.name if known else "", head, frame.tail)
        if frame.request == 0:
            return self._control(message)
        if not frame.flags & END:
            with self._lock:
                request = self._requests.get(frame.request)
            if request is not None:
                request.put(message)
            return None
        with self._lock:
            request = self._requests.pop(frame.request, None)
        if request is not None:
            request.finish(_outcome(frame, message))
            self._slots.leave()
        return None

    def _control(self, message: Message) -> Optional[LeanError]:
        if message.name == "ERROR":
            return errors.from_frame(message.head, message.tail)
        if message.name != "HELLO":
            return None
        hello = message.head
        if hello["major"] != MAJOR or not hello["minor_min"] <= MINOR <= hello["minor_max"]:
            return errors.version_mismatch(
                f"this client speaks protocol {MAJOR}.{MINOR}, the bridge ({hello['engine']}) "
                f"{hello['major']}.{hello['minor_min']} to {hello['major']}.{hello['minor_max']}"
            )
        self._reader.max_frame = min(hello["max_frame"], MAX_FRAME_DEFAULT)
        max_frame = MAX_FRAME_DEFAULT if hello["max_frame"] > MAX_FRAME_DEFAULT else None
        self.send(message_bytes(0, "HELLO_ACK", {"minor": MINOR, "credit": self.credit, "max_frame": max_frame}))
        self.hello.put(hello)
        return None

    def _fail(self, error: LeanError) -> None:
        with self._lock:
            self._over = self._over or error
            pending, self._requests = list(self._requests.values()), {}
        self._slots.close(error)
        self.hello.put(error.copy())
        for request in pending:
            request.finish(error.copy())
        # The writer may be waiting: it has to see that it is over.
        self._done = True
        self.hang_up()


def _outcome(frame: Frame, message: Message) -> Union[Message, LeanError]:
    if message.name == "ERROR":
        return errors.from_frame(message.head, message.tail)
    if not message.name or frame.flags & ERROR:
        return errors.ProtocolError("the bridge answered with a kind unknown here", code=602, name="unknown_kind")
    return message
