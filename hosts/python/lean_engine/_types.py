"""Types: what is generated and nothing else. They travel as JSON; the engine parses and enforces them."""

from __future__ import annotations

import enum
import re
import typing
from collections.abc import Mapping
from typing import Any, Callable, Generic, Optional, TypeVar, Union

from ._annotations import is_annotation, understand, unwrapped
from .errors import invalid

T = TypeVar("T")


class Type(Generic[T]):
    """A type whose values are ``T``: made by ``type_of``, ``expr``, ``schema``, ``text``, ``regex``, ``choice``."""

    def __init__(self, source: dict[str, Any], build: Optional[Callable[[Any], T]] = None) -> None:
        #: The wire form: ``{"expr": ..}``, ``{"schema": ..}``, ``{"text": ..}``, ``{"regex": ..}``, ``{"choice": ..}`` or
        #: ``{"tools": ..}``.
        self.source = source
        self._build = build

    def build(self, value: Any) -> T:
        """The Python value of a generated JSON value."""
        return value if self._build is None else self._build(value)

    def __repr__(self) -> str:
        return f"Type({self.source!r})"


def expr(expression: Any) -> Type[Any]:
    """A type expression: a dict whose leaves are strings such as ``"string < 64"``, or such a string."""
    return Type({"expr": expression})


def schema(json_schema: Union[Mapping[str, Any], bool]) -> Type[Any]:
    """A JSON Schema."""
    return Type({"schema": json_schema})


def text(max_chars: Optional[int] = None) -> Type[str]:
    """Unquoted text of at most ``max_chars`` characters, or as long as the budget lasts."""
    return Type({"text": {"max_chars": max_chars}})


def regex(pattern: Union[str, re.Pattern[str]]) -> Type[str]:
    """Unquoted text that an ECMA-262 regular expression matches as a whole."""
    if isinstance(pattern, re.Pattern):
        if pattern.flags & ~re.UNICODE:
            raise invalid(f"regex: the flags of {pattern!r} have no meaning here")
        pattern = pattern.pattern
    return Type({"regex": pattern})


def choice(*choices: str) -> Type[str]:
    """Unquoted text: one of these strings."""
    return Type({"choice": list(choices)})


def tools(
    functions: list[Any],
    *,
    choice: Union[str, Mapping[str, str]] = "auto",
    parallel: bool = True,
    syntax: Optional[str] = None,
) -> Type[dict[str, Any]]:
    """A reply: text, or calls of these tools (in OpenAI's form), written as the model writes them.

    The value is ``{"text": .., "calls": [{"name": .., "arguments": ..}]}``. ``choice`` is ``auto``, ``required`` (one call
    or more) or ``{"tool": name}``. Tools whose schema cannot be enforced are left out.
    """
    return Type({"tools": {"tools": functions, "choice": choice, "parallel": parallel, "syntax": syntax}})


def type_of(given: Any) -> Type[Any]:
    """The type that something stands for; the same that ``generate`` takes as its first argument.

    * a ``Type``;
    * ``str``, a ``Literal`` of strings and an ``Enum`` of strings: unquoted text;
    * a dataclass, pydantic v2 model, ``TypedDict``, ``NamedTuple``, or annotation (``list[int]``, ``Optional[str]``,
      ``Annotated[int, Bounds(ge=0)]``): JSON, of which instances are made;
    * a compiled regular expression: unquoted text;
    * a string or dict: a type expression, unless the dict can only be a JSON Schema. What could be both is an error.
    """
    if isinstance(given, Type):
        return given
    given = unwrapped(given)
    if given is str:
        return text()
    if isinstance(given, re.Pattern):
        return regex(given)
    if isinstance(given, Mapping):
        return _of_mapping(given)
    if isinstance(given, (str, list)):
        return expr(given)
    if not is_annotation(given):
        raise invalid(f"the first argument is a type, such as a dataclass or {{'id': 'number'}}, and not {given!r}")
    words = _words(given)
    if words is not None:
        return Type({"choice": list(words)}, words.__getitem__)
    json_schema, build = understand(given)
    return Type({"schema": json_schema}, build)


def _words(given: Any) -> Optional[dict[str, Any]]:
    """The alternatives of an annotation that is a choice of strings, with the values that they stand for."""
    if typing.get_origin(given) is typing.Literal:
        words = {word: word for word in typing.get_args(given)}
    elif isinstance(given, type) and issubclass(given, enum.Enum):
        words = {member.value: member for member in given}
    else:
        return None
    return words if words and all(type(word) is str for word in words) else None


#: What a JSON Schema may consist of. A dict with any other key is a type expression.
_KEYWORDS = {
    *"$schema $ref $defs $id $anchor $comment definitions title description default examples deprecated".split(),
    *"type enum const properties required items prefixItems additionalItems anyOf oneOf allOf not if then else".split(),
    *"minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format".split(),
    *"minItems maxItems uniqueItems contains additionalProperties patternProperties propertyNames".split(),
    *"minProperties maxProperties dependentRequired dependentSchemas dependencies readOnly writeOnly".split(),
}
_KINDS = {"object", "array", "string", "number", "integer", "boolean", "null"}


def _of_mapping(given: Mapping[str, Any]) -> Type[Any]:
    """A dict: an expression or a schema. Guessing wrong would give values of another type, so doubt is an error."""
    if "$schema" in given:
        return schema(given)
    if not set(given) <= _KEYWORDS:
        return expr(given)
    kind = given.get("type")
    kinds = set(kind) <= _KINDS if isinstance(kind, (list, tuple)) else isinstance(kind, str) and kind in _KINDS
    has_properties = _all_schemas(given.get("properties"))
    alternatives = any(_all_schemas(given.get(key)) for key in ("anyOf", "oneOf", "allOf"))
    if isinstance(given.get("$ref"), str) or alternatives:
        return schema(given)
    if kinds and (has_properties or isinstance(given.get("items"), (dict, bool)) or isinstance(given.get("enum"), list)):
        return schema(given)
    if kinds or has_properties or "const" in given or isinstance(given.get("enum"), list):
        raise invalid(f"{dict(given)!r} may be a type expression or a JSON Schema: say expr(..) or schema(..)")
    return expr(given)


def _all_schemas(given: Any) -> bool:
    """Whether something is a non-empty collection of nothing but schemas."""
    members = list(given.values()) if isinstance(given, dict) else given
    return isinstance(members, list) and bool(members) and all(isinstance(m, (dict, bool)) for m in members)
