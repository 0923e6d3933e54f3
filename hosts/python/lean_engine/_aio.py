"""asyncio over the blocking client: a thread for each call, and cancellation of the task cancels the call."""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import Any, Callable, Optional, TypeVar

from ._checkpoint import Checkpoint
from ._connection import CancelToken
from ._generation import Event, Result, Stream

T = TypeVar("T")


class _Either:
    """Set once either the task or the caller's own token is."""

    def __init__(self, own: Optional[CancelToken]) -> None:
        self.task = threading.Event()
        self._own = own

    def is_set(self) -> bool:
        return self.task.is_set() or (self._own is not None and self._own.is_set())


class _Worker:
    """A thread that runs calls for a coroutine, one after the other. A daemon: it does not hold up the interpreter."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: queue.SimpleQueue[Optional[tuple[Callable[[], Any], asyncio.Future[Any]]]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="lean-async", daemon=True).start()

    def start(self, call: Callable[[], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        self._calls.put((call, future))
        return future

    def stop(self) -> None:
        self._calls.put(None)

    def _work(self) -> None:
        while True:
            job = self._calls.get()
            if job is None:
                return
            call, future = job
            try:
                result = call()
            except BaseException as error:
                self._settle(future, future.set_exception, error)
            else:
                self._settle(future, future.set_result, result)

    def _settle(self, future: asyncio.Future[Any], settle: Callable[[Any], None], outcome: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(lambda: None if future.done() else settle(outcome))
        except RuntimeError:
            pass  # The loop was closed: nobody waits any more.


async def _finish(future: asyncio.Future[T], cancel: Callable[[], None]) -> T:
    """Awaits a call; if the task is cancelled, so is the call, and its end is awaited, for its session's sake."""
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        cancel()
        await asyncio.wait([future])
        if not future.cancelled():
            future.exception()  # Seen: it is the cancellation's echo.
        raise


async def call(function: Callable[..., T], *args: Any, **options: Any) -> T:
    """Awaits a blocking call of this client."""
    either = _Either(options.get("cancel"))
    worker = _Worker()
    try:
        future = worker.start(lambda: function(*args, **{**options, "cancel": either}))
        return await _finish(future, either.task.set)
    finally:
        worker.stop()


class AsyncStream:
    """A ``Stream`` for asyncio. ``aclose()``, the end of ``async with``, and forgetting it cancel what is left of it."""

    def __init__(self, open_stream: Callable[[], Stream[Any]]) -> None:
        self._open = open_stream
        self._stream: Optional[Stream[Any]] = None
        self._worker: Optional[_Worker] = None

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> Event:
        event = await self._run(lambda stream: next(stream, None))
        if event is None:
            raise StopAsyncIteration
        return event

    async def result(self) -> Result[Any]:
        """The result; events that were not iterated are let pass."""
        return await self._run(lambda stream: stream.result())

    async def checkpoint(self) -> Checkpoint:
        """A checkpoint between two tokens: it holds at least the events that were iterated so far."""
        return await self._run(lambda stream: stream.checkpoint())

    def cancel(self) -> None:
        """Ends the generation early: whoever iterates it gets ``Cancelled``."""
        if self._stream is not None:
            self._stream.cancel()

    async def aclose(self) -> None:
        """Cancels what is left of it and waits until it has ended."""
        if self._stream is not None:
            await self._run(lambda stream: stream.close())

    async def _run(self, step: Callable[[Stream[Any]], T]) -> T:
        if self._worker is None:
            self._worker = _Worker()
        return await _finish(self._worker.start(lambda: step(self._opened())), self.cancel)

    def _opened(self) -> Stream[Any]:
        if self._stream is None:
            self._stream = self._open()
        return self._stream

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        self.cancel()
        if self._worker is not None:
            self._worker.stop()
