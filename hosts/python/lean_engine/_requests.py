"""Python's names and shapes to the wire's: blocks, options, JSON."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from .errors import invalid

#: A piece of context: a string (plain text: control tokens in it are never parsed), or a dict with one of ``text``,
#: ``raw``, ``json``, ``tokens``, ``chat``.
Block = Union[str, Mapping[str, Any]]
#: A chat message: ``{"role": .., "content": ..}`` with further keys for the model's template, or ``(role, content)``.
MessageLike = Union[Mapping[str, Any], tuple[str, str]]

#: The options of a generation: the engine's, by their names here and on the wire.
_OPTIONS = {
    "max_tokens",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "repetition_window",
    "seed",
    "stop",
    "partials",
    "confidence",
}


def chat(
    messages: Union[str, Iterable[MessageLike]],
    *,
    tools: Optional[list[Any]] = None,
    add_generation_prompt: Optional[bool] = None,
    trusted: Optional[bool] = None,
) -> dict[str, Any]:
    """A block with a whole conversation, rendered with the model's own template; a string is one user message.

    ``tools`` are described to the model as its template does it. Control tokens inside a message stay text unless
    the block is ``trusted``.
    """
    if isinstance(messages, str):
        messages = [("user", messages)]
    document: dict[str, Any] = {"messages": [_message(m) for m in messages]}
    for name, value in (("tools", tools), ("add_generation_prompt", add_generation_prompt), ("trusted", trusted)):
        if value is not None:
            document[name] = value
    return {"chat": document}


def _message(given: MessageLike) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    role, content = given
    return {"role": role, "content": content}


def wire_blocks(blocks: Iterable[Any]) -> list[Any]:
    """Blocks in their wire form; a list among them is spread."""
    wire: list[Any] = []
    for block in blocks:
        if isinstance(block, (list, tuple)):
            wire += wire_blocks(block)
        else:
            wire.append(_wire_block(block))
    return wire


def _wire_block(block: Any) -> Any:
    if isinstance(block, str):
        return {"text": block}
    if not isinstance(block, Mapping):
        raise invalid(f"a block is a string or a dict such as {{'json': ..}}, and not {block!r}; a value goes into 'json'")
    if isinstance(block.get("chat"), (str, list, tuple)):
        return chat(block["chat"], **{str(k): v for k, v in block.items() if k != "chat"})
    if "tokens" in block:
        return {**block, "tokens": [int(token) for token in block["tokens"]]}
    return dict(block)


def wire_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's options in their wire form; None is an absent one."""
    unknown = set(given) - _OPTIONS
    if unknown:
        raise TypeError(f"unknown option {', '.join(sorted(unknown))}; known are {', '.join(sorted(_OPTIONS))}")
    options = {name: value for name, value in given.items() if value is not None}
    if isinstance(options.get("stop"), str):
        options["stop"] = [options["stop"]]
    return options


def to_json(document: Any) -> bytes:
    """A JSON tail. Dataclasses, enums and pydantic models in it become JSON too."""
    try:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
        return text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise invalid(f"the request is no JSON: {error}") from None


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r} has no JSON form")
