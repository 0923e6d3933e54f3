"""Generating: the values, the events on the way to them, and the iterated form."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Optional, TypeVar, Union

from . import errors
from ._checkpoint import Checkpoint
from ._connection import CancelToken, Message, Request
from ._types import Type

if TYPE_CHECKING:
    from ._engine import Engine

T = TypeVar("T")


class Prefill(NamedTuple):
    """How much of the context has been computed, in tokens."""

    done: int
    total: int


class Token(NamedTuple):
    """A step: its token ids, their text (whole characters, possibly none yet), and whether the type left no choice."""

    ids: list[int]
    text: str
    forced: bool


class Partial(NamedTuple):
    """The value so far, if ``partials=True`` asked for it: JSON types only."""

    #: As JSON values, closed so that it parses: strings as they grow, numbers and words once they are whole.
    value: Any
    #: JSON pointer of the innermost value that is being written.
    path: str
    json: str
    #: How many bytes of ``json`` will not change.
    final_bytes: int


Event = Union[Prefill, Token, Partial]


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a generation took: tokens, and seconds."""

    prompt_tokens: int = 0
    #: Tokens of the prompt that did not have to be computed.
    reused_tokens: int = 0
    #: Tokens that the model chose.
    sampled_tokens: int = 0
    #: Tokens that the type left no choice about.
    forced_tokens: int = 0
    #: Of those, tokens that ran together with another one, each of which saved a pass.
    saved_passes: int = 0
    #: Forward passes.
    passes: int = 0
    first_token_seconds: float = 0.0
    total_seconds: float = 0.0


@dataclasses.dataclass(frozen=True)
class Result(Generic[T]):
    """A value and everything about it."""

    value: T
    #: The value's text as generated.
    text: str
    #: ``complete``, ``stop`` or ``length``.
    finish: str
    usage: Usage
    #: The state after the value, if ``keep=True`` asked for it.
    checkpoint: Optional[Checkpoint] = None
    #: How sure the model was, if ``confidence=True`` asked for it: ``{"logprob", "leaves": [{"path", "logprob",
    #: "alternatives": [{"value", "probability"}]}]}``.
    confidence: Optional[dict[str, Any]] = None


class Stream(Generic[T]):
    """A generation that is iterated: the bridge computes no further ahead than its consumer has read (32 events).

    It is its own iterator, so a loop that was left can be taken up again. ``close()``, the end of a ``with`` block, and
    forgetting it all cancel what is left of it. Iterate it in one thread at a time; ``cancel()`` is for any thread.
    """

    def __init__(self, engine: Engine, request: Request, of: Type[T], kept: object = None) -> None:
        self._engine = engine
        self._request = request
        self._events = request.events()
        self._type = of
        self._result: Optional[Result[T]] = None
        self._error: Optional[BaseException] = None
        #: What must live as long as the generation, such as a checkpoint restored for it.
        self._kept = kept

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self._error is not None:
            raise self._error
        while self._result is None:
            event = self._advance()
            if event is not None:
                return event
        raise StopIteration

    def _advance(self) -> Optional[Event]:
        """The next event; None if it is of a kind unknown here, or if there is a result now."""
        try:
            message = next(self._events, None)
            if message is not None:
                return event_of(message)
            assert self._request.answer is not None
            self._result = result_of(self._engine, self._request.answer, self._type)
            return None
        except Exception as error:
            self._error = error
            raise

    def pieces(self) -> Iterator[str]:
        """Only the text, piece by piece."""
        for event in self:
            if isinstance(event, Token) and event.text:
                yield event.text

    def result(self) -> Result[T]:
        """The result; events that were not iterated are let pass."""
        for _ in self:
            pass
        assert self._result is not None
        return self._result

    def checkpoint(self, *, cancel: Optional[CancelToken] = None, timeout: Optional[float] = None) -> Checkpoint:
        """A checkpoint between two tokens: it holds at least the events that were iterated so far."""
        if self._request.ended:
            raise errors.invalid("the generation is not running")
        head = {"generation": self._request.id}
        answer = self._engine.connection.call("CHECKPOINT_TAKE", head, cancel=cancel, timeout=timeout)
        return Checkpoint(self._engine, answer.head["checkpoint"], answer.head["tokens"])

    def cancel(self) -> None:
        """Ends the generation early: whoever iterates it gets ``Cancelled``."""
        self._request.cancel()

    def close(self) -> None:
        """Cancels what is left of it and waits until it has ended, so that its session can go on."""
        self._request.close()
        if self._result is None and self._error is None:
            self._error = errors.cancelled()

    def __enter__(self) -> Stream[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        request = getattr(self, "_request", None)
        if request is not None:
            request.cancel()


def event_of(message: Message) -> Optional[Event]:
    """An event; None for kinds that a newer bridge may send."""
    if message.name == "PREFILL":
        return Prefill(message.head["done"], message.head["total"])
    if message.name == "TOKENS":
        return Token(message.head["ids"], message.tail.decode("utf-8", "replace"), message.head["forced"])
    if message.name == "PARTIAL":
        text = message.tail.decode("utf-8")
        return Partial(json.loads(text), message.head["path"], text, message.head["final_bytes"])
    return None


_USAGE = {field.name for field in dataclasses.fields(Usage)}


def result_of(engine: Engine, answer: Message, of: Type[T]) -> Result[T]:
    """The result in a GENERATED."""
    handle = answer.head["checkpoint"]
    checkpoint = None if handle is None else Checkpoint(engine, handle)
    document: dict[str, Any] = json.loads(answer.tail)
    usage = Usage(**{name: value for name, value in document.get("usage", {}).items() if name in _USAGE})
    try:
        value, confidence = of.build(document["value"]), document.get("confidence")
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        # Only where a resumed value's type was given again, and is another.
        raise errors.invalid(f"the value {document['text'][:80]} does not make a {of}: {error}") from error
    return Result(value, document["text"], document["finish"], usage, checkpoint, confidence)
