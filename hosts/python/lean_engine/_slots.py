"""How many requests are open at once: the bridge refuses more than 64; here the next ones wait for their turn."""

from __future__ import annotations

import threading
from typing import Callable, Optional

from .errors import LeanError

#: The bridge's own limit, which only the end may take up fully.
OPEN_MAX = 64


def places_for(name: str) -> int:
    """How many requests may be open for one of this kind to be sent.

    Those that stay open for as long as the caller likes leave a few places to those that always end, such as the
    checkpoint of a stream that is not read on.
    """
    if name in ("GENERATE", "SESSION_APPEND", "LOAD"):
        return OPEN_MAX - 8
    return OPEN_MAX if name == "SHUTDOWN" else OPEN_MAX - 1


#: Told once its turn has come, or (with an error) that it never will.
_Start = Callable[[Optional[LeanError]], None]


class Ticket:
    """A place in the queue."""

    def __init__(self, places: int, start: _Start) -> None:
        self.places = places
        self.start = start


class Slots:
    """The open requests' places, and the queue for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._waiting: list[Ticket] = []
        self._over: Optional[LeanError] = None

    def enter(self, places: int, start: _Start) -> Ticket:
        """Calls ``start``, in any thread, once one more request may be open."""
        ticket = Ticket(places, start)
        with self._lock:
            over = self._over if places < OPEN_MAX else None
            if over is None:
                self._waiting.append(ticket)
            ready = self._admitted()
        if over is not None:
            start(over)
        self._begin(ready)
        return ticket

    def leave(self) -> None:
        """A request has ended."""
        with self._lock:
            self._open -= 1
            ready = self._admitted()
        self._begin(ready)

    def forget(self, ticket: Ticket) -> bool:
        """Gives up waiting; false if its turn had come."""
        with self._lock:
            waited = ticket in self._waiting
            if waited:
                self._waiting.remove(ticket)
        return waited

    def close(self, error: LeanError) -> None:
        """From now on nobody enters; who waits hears of it."""
        with self._lock:
            self._over = self._over or error
            left, self._waiting = self._waiting, []
        for ticket in left:
            ticket.start(error)

    def _admitted(self) -> list[Ticket]:
        """Takes those out of the queue whose turn it is. The lock is held."""
        ready = []
        for ticket in list(self._waiting):
            if self._open < ticket.places:
                self._open += 1
                self._waiting.remove(ticket)
                ready.append(ticket)
        return ready

    @staticmethod
    def _begin(ready: list[Ticket]) -> None:
        for ticket in ready:
            ticket.start(None)
