"""The engine in its process, its models and their sessions."""

from __future__ import annotations

import json
import os
import queue
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, Optional, TypedDict, TypeVar, Union, overload

from . import _aio, errors
from ._adapter import Adapter, adapt_head
from ._bridge_path import find_bridge
from ._checkpoint import Checkpoint, CheckpointLike, load_checkpoint
from ._connection import CREDIT, CancelToken, Connection, Message, Request
from ._generation import Partial, Prefill, Result, Stream, Token, event_of, result_of
from ._many import Branch, Group, close_all, open_all, wait_all
from ._port import BridgePort
from ._process import BridgeProcess
from ._requests import Block, to_json, wire_blocks, wire_options
from ._transport import Transport
from ._types import Type, type_of
from .errors import LeanError

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")

#: Seconds that a greeting may take: long enough for a cold disk and a virus scanner.
GREETING_SECONDS = 20.0
#: Seconds that a bridge may take to end after it was asked to.
CLOSE_SECONDS = 3.0


class StreamOptions(TypedDict, total=False):
    """What every generation may be told."""

    #: Tokens at most; a value of a type ends, whole, within them.
    max_tokens: int
    #: 0, the default, is greedy.
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    repetition_window: int
    seed: int
    #: Text ends before any of these (text types only).
    stop: Union[str, list[str]]
    #: Where to continue from (models only).
    checkpoint: CheckpointLike
    #: Keeps the state after the value: ``Result.checkpoint``.
    keep: bool
    #: Events with the value so far as well, for JSON types.
    partials: bool
    #: Says how sure the model was: ``Result.confidence``.
    confidence: bool
    #: Seconds after which the call ends with ``TimedOut``.
    timeout: float
    #: Ends the call with ``Cancelled`` once it is set.
    cancel: CancelToken


class GenerateOptions(StreamOptions, total=False):
    """The same, and listeners, called in the calling thread; while one runs, the bridge is held back."""

    on_token: Callable[[Token], object]
    on_prefill: Callable[[Prefill], object]
    #: Asks for ``partials`` by itself.
    on_partial: Callable[[Partial], object]


class Engine:
    """The engine, in a process of its own unless told otherwise: ``with lean_engine.spawn() as engine:``."""

    def __init__(
        self,
        *,
        transport: str = "process",
        library: Optional[Union[str, os.PathLike[str]]] = None,
        bridge: Optional[Union[str, os.PathLike[str]]] = None,
        args: Sequence[str] = (),
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        credit: int = CREDIT,
        on_stderr: Optional[Callable[[str], object]] = None,
    ) -> None:
        """Starts ``lean-bridge`` and waits for its greeting.

        ``bridge`` is the binary (see ``find_bridge``), ``credit`` the number of events a request may have on the way
        before the bridge waits for its consumer. With ``transport="port"`` the engine runs inside this process instead,
        from ``library`` (see ``find_library``); everything else is the same, but a crash ends this program, and the
        options of a process are errors. Raises ``BridgeNotFound``, ``BridgeExited``, ``ProtocolError``.
        """
        process: Transport
        if transport == "process":
            if library is not None:
                raise errors.invalid('`library` belongs to transport="port"')
            file = find_bridge(bridge)
            process = BridgeProcess(file, args, env, cwd, on_stderr)
        elif transport == "port":
            if bridge is not None or args or env is not None or cwd is not None or on_stderr is not None:
                raise errors.invalid('`bridge`, `args`, `env`, `cwd` and `on_stderr` belong to transport="process"')
            file = "a port"
            process = BridgePort(library)
        else:
            raise errors.invalid(f'transport: "process" or "port", not {transport!r}')
        self.connection = Connection(process, credit)
        # Ends the process when the last model, session and checkpoint are forgotten too: they refer to the engine.
        weakref.finalize(self, self.connection.hang_up)
        try:
            hello = self.connection.hello.get(timeout=GREETING_SECONDS)
        except queue.Empty:
            process.kill()
            raise errors.exited(f"({file}) did not greet within {GREETING_SECONDS:g} s") from None
        if isinstance(hello, LeanError):
            raise hello
        #: Name and version of the engine.
        self.version: str = hello["engine"]
        #: What this build can do.
        self.capabilities: list[str] = hello["capabilities"]

    @property
    def pid(self) -> int:
        """The bridge's process id."""
        return self.connection.process.pid

    def load(
        self,
        path: Union[str, os.PathLike[str]],
        *,
        backend: Optional[str] = None,
        threads: Optional[int] = None,
        context: Optional[int] = None,
        kv: Optional[str] = None,
        precision: Optional[str] = None,
        on_progress: Optional[Callable[[int, int], object]] = None,
        cancel: Optional[CancelToken] = None,
        timeout: Optional[float] = None,
    ) -> Model:
        """Loads a model file, or ``"echo"``, the model without weights.

        ``backend`` is ``"auto"``, ``"cpu"`` or ``"gpu"``, ``context`` the default tokens of context, ``kv`` the precision of
        keys and values (``"f32"``, ``"f24"``, ``"f16"``, ``"q8_0"``), ``precision`` how exactly it is computed (``"exact"``,
        ``"fast"``); ``on_progress`` is told bytes done and bytes in total.
        """
        head = {
            "path": path if _is_echo(path) else os.path.abspath(os.fspath(path)),
            "backend": backend,
            "threads": threads,
            "context": context,
            "progress": on_progress is not None,
        }
        document = {key: value for key, value in (("kv", kv), ("precision", precision)) if value is not None}
        tail = to_json(document) if document else b""
        request = self.connection.open("LOAD", head, tail, cancel=cancel, timeout=timeout)

        def listen(message: Message) -> None:
            if message.name == "PROGRESS" and on_progress is not None:
                on_progress(message.head["done"], message.head["total"])

        answer = _run(request, listen)
        return Model(self, answer.head["model"], json.loads(answer.tail))

    async def aload(self, path: Union[str, os.PathLike[str]], **options: Any) -> Model:
        """``load`` for asyncio."""
        return await _aio.call(self.load, path, **options)

    def close(self) -> None:
        """Ends the bridge; what still runs is cancelled."""
        connection, process = self.connection, self.connection.process
        connection.shut_down(errors.exited("was closed by this program"), CLOSE_SECONDS)
        if not process.wait(CLOSE_SECONDS):
            process.kill()
        connection.join(CLOSE_SECONDS)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Engine {self.version}, process {self.pid}>"


def spawn(**options: Any) -> Engine:
    """Starts the engine, in a process of its own unless ``transport="port"``; the options are those of ``Engine``."""
    return Engine(**options)


class _Generator:
    """What models and sessions have in common."""

    _engine: Engine

    def _open(
        self,
        of: Optional[Type[Any]],
        blocks: Sequence[Any],
        events: bool,
        options: Mapping[str, Any],
        group: Optional[Group] = None,
    ) -> tuple[Request, object]:
        """Sends a GENERATE, or a member of a group; also returns what must live as long as it."""
        raise NotImplementedError

    @overload
    def generate(self, type_: Union[type[T], Type[T]], /, *blocks: Block, **options: Unpack[GenerateOptions]) -> T: ...
    @overload
    def generate(self, type_: Any, /, *blocks: Block, **options: Unpack[GenerateOptions]) -> Any: ...
    def generate(self, type_: Any, /, *blocks: Any, **options: Any) -> Any:
        """A value of the type, which follows the blocks: see ``type_of`` for types and ``GenerateOptions`` for options."""
        return self.run(type_, *blocks, **options).value

    @overload
    def run(self, type_: Union[type[T], Type[T]], /, *blocks: Block, **options: Unpack[GenerateOptions]) -> Result[T]: ...
    @overload
    def run(self, type_: Any, /, *blocks: Block, **options: Unpack[GenerateOptions]) -> Result[Any]: ...
    def run(self, type_: Any, /, *blocks: Any, **options: Any) -> Result[Any]:
        """The same as ``generate``, with text, usage, how it finished and, if kept, the checkpoint."""
        return self._finish(type_of(type_), True, blocks, options)

    @overload
    def stream(self, type_: Union[type[T], Type[T]], /, *blocks: Block, **options: Unpack[StreamOptions]) -> Stream[T]: ...
    @overload
    def stream(self, type_: Any, /, *blocks: Block, **options: Unpack[StreamOptions]) -> Stream[Any]: ...
    def stream(self, type_: Any, /, *blocks: Any, **options: Any) -> Stream[Any]:
        """The same, iterated event by event."""
        of = type_of(type_)
        request, kept = self._open(of, blocks, True, options)
        return Stream(self._engine, request, of, kept)

    def generate_many(self, branches: Sequence[Branch], **common: Any) -> list[Any]:
        """Several values, 63 at most, that continue this context: a pass over the weights serves all of them.

        Each is what it would be alone. ``common`` are options of all of them; a session stays as it is. If one fails,
        the others are cancelled and its error is raised.
        """
        return [result.value for result in self.run_many(branches, **common)]

    def run_many(self, branches: Sequence[Branch], **common: Any) -> list[Result[Any]]:
        """The same as ``generate_many``, with everything about each value."""
        types: list[Type[Any]] = []
        kept: list[object] = []

        def open_one(branch: Branch, group: Group) -> Request:
            types.append(type_of(branch.type))
            request, needed = self._open(types[-1], branch.blocks, False, {**common, **branch.options}, group)
            kept.append(needed)
            return request

        requests = open_all(branches, open_one, self._engine.connection.groups)
        try:
            return [result_of(self._engine, answer, of) for answer, of in zip(wait_all(requests), types)]
        finally:
            close_all(requests)

    async def agenerate(self, type_: Any, /, *blocks: Any, **options: Any) -> Any:
        """``generate`` for asyncio; cancelling the task cancels the generation."""
        return await _aio.call(self.generate, type_, *blocks, **options)

    async def arun(self, type_: Any, /, *blocks: Any, **options: Any) -> Result[Any]:
        """``run`` for asyncio."""
        return await _aio.call(self.run, type_, *blocks, **options)

    def astream(self, type_: Any, /, *blocks: Any, **options: Any) -> _aio.AsyncStream:
        """``stream`` for asyncio: ``async for event in ..``, then ``await stream.result()``."""
        return _aio.AsyncStream(lambda: self.stream(type_, *blocks, **options))

    def _finish(self, of: Type[Any], given: bool, blocks: Sequence[Any], options: dict[str, Any]) -> Result[Any]:
        listeners: dict[Any, Callable[[Any], object]] = {
            kind: options.pop(name)
            for name, kind in (("on_token", Token), ("on_prefill", Prefill), ("on_partial", Partial))
            if options.get(name) is not None
        }
        if Partial in listeners:
            options.setdefault("partials", True)
        request, kept = self._open(of if given else None, blocks, bool(listeners), options)

        def listen(message: Message) -> None:
            event = event_of(message)
            listener = listeners.get(type(event))
            if listener is not None:
                listener(event)

        answer = _run(request, listen)
        del kept
        return result_of(self._engine, answer, of)


class Model(_Generator):
    """A loaded model. Freed when it and its sessions are collected, or with ``unload()``."""

    def __init__(self, engine: Engine, handle: int, info: dict[str, Any]) -> None:
        #: What it is and where it runs: architecture, name, backend, context_length and so on.
        self.info = info
        self._engine = engine
        self._handle = handle
        self._forgotten = weakref.finalize(self, engine.connection.post, "UNLOAD", {"model": handle})
        self._forgotten.atexit = False

    def session(
        self,
        *,
        checkpoint: Optional[CheckpointLike] = None,
        context: Optional[int] = None,
        cancel: Optional[CancelToken] = None,
        timeout: Optional[float] = None,
    ) -> Session:
        """A session: a sequence that is appended to and generated from. ``context`` is the tokens it can hold."""
        start = None if checkpoint is None else self.restore(checkpoint, cancel=cancel, timeout=timeout)
        head = {
            "model": self._handle,
            "checkpoint": None if start is None else start.handle_on(self._engine),
            "context": context,
        }
        answer = self._engine.connection.call("SESSION_OPEN", head, cancel=cancel, timeout=timeout)
        return Session(self._engine, answer.head)

    def restore(
        self,
        source: CheckpointLike,
        *,
        policy: Optional[str] = None,
        cancel: Optional[CancelToken] = None,
        timeout: Optional[float] = None,
    ) -> Checkpoint:
        """A checkpoint from its bytes or from a file, checked against this model.

        ``policy`` says what may be done to a state of another exactness class, such as another backend's: nothing
        (``exact``, the default: it is refused), take it over as it is (``convert``), or take its tokens and compute the
        state again (``reprefill``). The checkpoint's ``restored`` then says what was done.
        """
        return load_checkpoint(
            self._engine, self._handle, source, policy=policy, cancel=cancel, timeout=timeout
        )

    def load_adapter(self, path: Union[str, os.PathLike[str]], *, timeout: Optional[float] = None) -> Adapter:
        """A LoRA adapter for its sessions: a .gguf file, or PEFT's folder."""
        head = {"model": self._handle, "path": os.path.abspath(os.fspath(path))}
        answer = self._engine.connection.call("ADAPTER_LOAD", head, timeout=timeout)
        return Adapter(self._engine, answer.head["adapter"], json.loads(answer.tail))

    def stats(self) -> dict[str, Any]:
        """What it has done since it was loaded, and the memory it takes."""
        answer = self._engine.connection.call("MODEL_STATS", {"model": self._handle})
        return dict(json.loads(answer.tail))

    def set_prefix_cache(self, size: int) -> None:
        """Bytes of state kept of earlier contexts, so that one that begins alike is not computed again; 0 is off."""
        self._engine.connection.call("MODEL_PREFIX_CACHE", {"model": self._handle, "bytes": size})

    def resume(self, checkpoint: CheckpointLike, *, type_: Any = None, **options: Any) -> Result[Any]:
        """Goes on with the value that a checkpoint was taken in.

        The checkpoint knows the type; given again as ``type_``, it makes the value an instance.
        """
        return self._finish(_again(type_), False, (), {**options, "checkpoint": checkpoint})

    def unload(self) -> None:
        """Frees it now; what runs on it, or was opened on it, keeps what it needs."""
        if self._forgotten.detach():
            self._engine.connection.call("UNLOAD", {"model": self._handle})

    def _open(
        self,
        of: Optional[Type[Any]],
        blocks: Sequence[Any],
        events: bool,
        options: Mapping[str, Any],
        group: Optional[Group] = None,
    ) -> tuple[Request, object]:
        given, wait = _split(options)
        checkpoint = given.pop("checkpoint", None)
        keep = bool(given.pop("keep", False))
        tail = _document(of, blocks, given)
        start = None if checkpoint is None else self.restore(checkpoint, **wait)
        head = {
            "model": self._handle,
            "checkpoint": None if start is None else start.handle_on(self._engine),
            "keep": keep,
            "events": events,
            **(group._asdict() if group else {}),
        }
        name = "GENERATE_BRANCH" if group else "GENERATE"
        return self._engine.connection.open(name, head, tail, **wait), (self, start)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.unload()

    def __repr__(self) -> str:
        return f"<Model {self.info.get('name')!r}>"


class Session(_Generator):
    """One sequence. A call that fails or is cancelled leaves it as it was. One call at a time."""

    def __init__(self, engine: Engine, opened: dict[str, Any]) -> None:
        #: Tokens it held after the last append.
        self.tokens: int = opened["tokens"]
        self._engine = engine
        self._handle: int = opened["session"]
        self._last: Optional[Request] = None
        self._forgotten = weakref.finalize(self, engine.connection.post, "SESSION_CLOSE", {"session": self._handle})
        self._forgotten.atexit = False

    def append(self, *blocks: Block, **options: Any) -> None:
        """Appends blocks. Options: ``on_prefill``, ``cancel``, ``timeout``."""
        self._append(blocks, False, **options)

    def set_context(self, *blocks: Block, **options: Any) -> None:
        """Makes blocks the whole context; what is equal so far is kept."""
        self._append(blocks, True, **options)

    def truncate(self, length: int) -> None:
        """Keeps the first ``length`` tokens."""
        self.drop_range(length)

    def drop_range(self, begin: int, end: Optional[int] = None) -> None:
        """Removes the tokens from ``begin`` up to, but not including, ``end``; what follows is computed again."""
        head = {"session": self._handle, "begin": begin, "end": end}
        self.tokens = self._call("SESSION_CUT", head).head["tokens"]

    def set_adapters(self, adapters: Sequence[Union[Adapter, tuple[Adapter, float]]]) -> None:
        """Runs with these adapters (or pairs with a scale) and no others from now on; its tokens are run again."""
        self.tokens = self._call("SESSION_ADAPT", adapt_head(self._engine, self._handle, adapters)).head["tokens"]

    def resume(self, *, type_: Any = None, **options: Any) -> Result[Any]:
        """Goes on with the value that the session's checkpoint was taken in; see ``Model.resume``."""
        return self._finish(_again(type_), False, (), options)

    def checkpoint(self) -> Checkpoint:
        """The state now."""
        answer = self._call("CHECKPOINT_TAKE", {"session": self._handle})
        return Checkpoint(self._engine, answer.head["checkpoint"], answer.head["tokens"])

    def fork(self) -> Session:
        """A second session with the same content."""
        return Session(self._engine, self._call("SESSION_FORK", {"session": self._handle}).head)

    def close(self) -> None:
        """Frees it now."""
        if self._forgotten.detach():
            self._call("SESSION_CLOSE", {"session": self._handle})

    async def aappend(self, *blocks: Block, **options: Any) -> None:
        """``append`` for asyncio."""
        await _aio.call(self.append, *blocks, **options)

    def _append(
        self,
        blocks: Sequence[Any],
        replace: bool,
        *,
        on_prefill: Optional[Callable[[Prefill], object]] = None,
        cancel: Optional[CancelToken] = None,
        timeout: Optional[float] = None,
    ) -> None:
        tail = to_json({"blocks": wire_blocks(blocks)})
        head = {"session": self._handle, "replace": replace}
        request = self._send("SESSION_APPEND", head, tail, cancel=cancel, timeout=timeout)

        def listen(message: Message) -> None:
            if message.name == "PREFILL" and on_prefill is not None:
                on_prefill(Prefill(message.head["done"], message.head["total"]))

        self.tokens = _run(request, listen).head["tokens"]

    def _open(
        self,
        of: Optional[Type[Any]],
        blocks: Sequence[Any],
        events: bool,
        options: Mapping[str, Any],
        group: Optional[Group] = None,
    ) -> tuple[Request, object]:
        given, wait = _split(options)
        if given.pop("checkpoint", None) is not None:
            raise errors.invalid("a session goes on where it is: open one from the checkpoint instead")
        head: dict[str, Any] = {"session": self._handle, "keep": bool(given.pop("keep", False)), "events": events}
        if group is not None:
            # The session stays as it is, and its members are waited for.
            head.update(group._asdict())
            return self._send("GENERATE_BRANCH", head, _document(of, blocks, given), **wait), self
        self._last = self._send("GENERATE", head, _document(of, blocks, given), **wait)
        return self._last, self

    def _send(self, name: str, head: dict[str, Any], tail: bytes = b"", **wait: Any) -> Request:
        # A stream that was left is cancelled but may not have ended: the session would be busy.
        if self._last is not None and self._last.cancelled:
            self._last.close()
        return self._engine.connection.open(name, head, tail, **wait)

    def _call(self, name: str, head: dict[str, Any]) -> Message:
        return _run(self._send(name, head), None)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Session {self._handle} of {self.tokens} tokens>"


def _is_echo(path: Any) -> bool:
    return isinstance(path, str) and (path == "echo" or path.startswith("echo?"))


def _again(type_: Any) -> Type[Any]:
    """The type of a value that goes on, as far as this side has to know it."""
    return Type({}) if type_ is None else type_of(type_)


def _document(of: Optional[Type[Any]], blocks: Sequence[Any], options: Mapping[str, Any]) -> bytes:
    document = {"blocks": wire_blocks(blocks), "options": wire_options(options)}
    if of is not None:
        document["type"] = of.source
    return to_json(document)


def _split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is said about the generation, and how it is waited for."""
    given = dict(options)
    wait: dict[str, Any] = {name: given.pop(name) for name in ("cancel", "timeout") if name in given}
    return given, wait


def _run(request: Request, listen: Optional[Callable[[Message], None]]) -> Message:
    """Waits for the answer, with events on the way; whatever interrupts that cancels the request."""
    try:
        for message in request.events():
            if listen is not None:
                listen(message)
    finally:
        request.close()
    assert request.answer is not None
    return request.answer
