"""Python types to JSON Schema, and JSON values back to instances of those types.

Each annotation becomes a ``Node``: its schema, whether a JSON value is one of its own (which tells the members of a
union apart), and how to build the Python value.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import json
import types
import typing
from typing import Any, Callable, NamedTuple, Optional, Union

from .errors import refused_type

_UNION_TYPES = {Union, getattr(types, "UnionType", Union)}
_LISTS = {list, collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Iterable}
_MAPPINGS = {dict, collections.abc.Mapping, collections.abc.MutableMapping}
_SETS = {set, frozenset, collections.abc.Set, collections.abc.MutableSet}


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Limits of a type, for ``Annotated[int, Bounds(ge=1, le=10)]``.

    The limits of ``annotated_types`` and of pydantic's ``Field`` are understood as well.
    """

    ge: Optional[float] = None
    gt: Optional[float] = None
    le: Optional[float] = None
    lt: Optional[float] = None
    multiple_of: Optional[float] = None
    min_length: Optional[int] = None
    max_length: Optional[int] = None
    pattern: Optional[str] = None
    format: Optional[str] = None


class Node(NamedTuple):
    """An annotation, understood."""

    schema: dict[str, Any]
    accepts: Callable[[Any], bool]
    build: Callable[[Any], Any]


class _Field(NamedTuple):
    """A member of an object: the JSON key, the name in Python, and whether it must be there."""

    key: str
    name: str
    node: Node
    required: bool


def understand(annotation: Any) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """The JSON Schema of an annotation, and the function that makes its instances from JSON values."""
    walk = _Walk()
    node = walk.node(annotation, "the type")
    schema = dict(node.schema)
    if walk.defs:
        schema["$defs"] = walk.defs
    return schema, node.build


def is_pydantic(annotation: Any) -> bool:
    """Whether it is a pydantic v2 model; noticed without importing pydantic."""
    return isinstance(annotation, type) and hasattr(annotation, "model_json_schema") and hasattr(annotation, "model_validate")


def is_typed_dict(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, dict) and hasattr(annotation, "__required_keys__")


def is_annotation(given: Any) -> bool:
    """Whether something is a Python type or annotation, and not a type in one of lean's own notations."""
    return given is None or given is Any or isinstance(given, type) or typing.get_origin(given) is not None


class _Walk:
    """One pass over an annotation; classes become entries of ``$defs``, so that they may be recursive."""

    def __init__(self) -> None:
        self.defs: dict[str, Any] = {}
        self._classes: dict[Any, Node] = {}

    def node(self, annotation: Any, at: str) -> Node:
        """The node of any annotation; ``at`` says where it stands."""
        annotation = unwrapped(annotation)
        simple = _SIMPLE.get(annotation) if isinstance(annotation, (type, type(None))) else None
        if simple is not None:
            return simple
        if annotation is Any or annotation is object:
            return Node({}, lambda value: True, _same)
        origin, args = typing.get_origin(annotation), typing.get_args(annotation)
        if hasattr(annotation, "__metadata__"):
            return self._annotated(args[0], annotation.__metadata__, at)
        if origin is typing.Literal:
            return _choice(list(args), [_plain(a) for a in args], at)
        if origin in _UNION_TYPES:
            return self._union(args, at)
        if origin is tuple or annotation is tuple:
            return self._tuple(args, at)
        if origin in _LISTS or annotation in _LISTS:
            return self._list(args[0] if args else Any, at)
        if origin in _MAPPINGS or annotation is dict:
            return self._mapping(args, at)
        if origin in _SETS or annotation in _SETS:
            raise refused_type(at, "a set cannot be enforced exactly: use a list")
        if isinstance(annotation, type) or isinstance(origin, type):
            return self._class(annotation, at)
        raise refused_type(at, f"{annotation!r} says nothing about JSON")

    def _annotated(self, inner: Any, metadata: tuple[Any, ...], at: str) -> Node:
        node = self.node(inner, at)
        return node._replace(schema={**node.schema, **_bounds(metadata, node.schema, at)})

    def _union(self, args: tuple[Any, ...], at: str) -> Node:
        members = [self.node(a, at) for a in args]

        def build(value: Any) -> Any:
            return next((m for m in members if m.accepts(value)), members[-1]).build(value)

        accepts = lambda value: any(m.accepts(value) for m in members)  # noqa: E731
        return Node({"anyOf": [m.schema for m in members]}, accepts, build)

    def _list(self, item: Any, at: str) -> Node:
        node = self.node(item, f"{at}[]")
        return Node(
            {"type": "array", "items": node.schema},
            lambda value: isinstance(value, list) and all(map(node.accepts, value)),
            lambda value: [node.build(v) for v in value],
        )

    def _tuple(self, args: tuple[Any, ...], at: str) -> Node:
        if not args or (len(args) == 2 and args[1] is Ellipsis):
            items = self._list(args[0] if args else Any, at)
            return items._replace(build=lambda value: tuple(items.build(value)))
        nodes = [] if args == ((),) else [self.node(a, f"{at}[{i}]") for i, a in enumerate(args)]
        count = len(nodes)
        schema = {"type": "array", "prefixItems": [n.schema for n in nodes], "minItems": count, "maxItems": count}
        return Node(
            schema if nodes else {"type": "array", "maxItems": 0},
            lambda value: isinstance(value, list) and len(value) == count and all(n.accepts(v) for n, v in zip(nodes, value)),
            lambda value: tuple(n.build(v) for n, v in zip(nodes, value)),
        )

    def _mapping(self, args: tuple[Any, ...], at: str) -> Node:
        if args and unwrapped(args[0]) is not str:
            raise refused_type(at, "the keys of a JSON object are strings")
        node = self.node(args[1] if args else Any, f"{at}{{}}")
        return Node(
            {"type": "object", "additionalProperties": node.schema or True},
            lambda value: isinstance(value, dict) and all(map(node.accepts, value.values())),
            lambda value: {k: node.build(v) for k, v in value.items()},
        )

    def _class(self, cls: Any, at: str) -> Node:
        known = self._classes.get(cls)
        if known is not None:
            return known
        if isinstance(cls, type) and issubclass(cls, enum.Enum):
            return _choice(list(cls), [_plain(m.value) for m in cls], at)
        if is_pydantic(cls):
            return self._pydantic(cls)
        return self._object(cls, at)

    def _object(self, cls: Any, at: str) -> Node:
        """A dataclass, a ``TypedDict`` or a ``NamedTuple``."""
        if typing.get_origin(cls) is not None:
            raise refused_type(at, f"{cls!r}: generic classes are not understood; a pydantic model may be generic")
        name = self._name(cls.__name__)
        fields: list[_Field] = []
        make = dict if is_typed_dict(cls) else cls

        def accepts(value: Any) -> bool:
            if not isinstance(value, dict) or not value.keys() <= {f.key for f in fields}:
                return False
            return all(f.node.accepts(value[f.key]) if f.key in value else not f.required for f in fields)

        def build(value: Any) -> Any:
            return make(**{f.name: f.node.build(value[f.key]) for f in fields if f.key in value})

        # Before the fields, since they may be of this class.
        node = self._classes[cls] = Node({"$ref": f"#/$defs/{name}"}, accepts, build)
        fields += [_Field(n, n, self.node(a, f"{at}.{n}"), required) for n, a, required in _members(cls, at)]
        self.defs[name] = {
            "type": "object",
            "properties": {f.key: f.node.schema for f in fields},
            "required": [f.key for f in fields if f.required],
            "additionalProperties": False,
        }
        return node

    def _pydantic(self, cls: Any) -> Node:
        name = self._name(cls.__name__)
        schema = cls.model_json_schema(ref_template=f"#/$defs/{name}.{{model}}")
        for inner, definition in schema.pop("$defs", {}).items():
            self.defs[f"{name}.{inner}"] = definition
        self.defs[name] = schema

        def accepts(value: Any) -> bool:
            try:
                # Strict, or a number in a string would pass for a number; as JSON, or strict would refuse a date.
                cls.model_validate_json(json.dumps(value), strict=True)
            except ValueError:
                return False
            return True

        node = self._classes[cls] = Node({"$ref": f"#/$defs/{name}"}, accepts, cls.model_validate)
        return node

    def _name(self, wanted: str) -> str:
        """A name for ``$defs``: two classes may be called the same."""
        name, count = wanted, 1
        while name in self.defs:
            count += 1
            name = f"{wanted}{count}"
        self.defs[name] = {}
        return name


def _same(value: Any) -> Any:
    return value


_SIMPLE: dict[Any, Node] = {
    str: Node({"type": "string"}, lambda v: isinstance(v, str), _same),
    bool: Node({"type": "boolean"}, lambda v: isinstance(v, bool), _same),
    int: Node({"type": "integer"}, lambda v: isinstance(v, int) and not isinstance(v, bool), int),
    float: Node({"type": "number"}, lambda v: isinstance(v, (int, float)) and not isinstance(v, bool), float),
    type(None): Node({"type": "null"}, lambda v: v is None, _same),
}
_SIMPLE[None] = _SIMPLE[type(None)]


def unwrapped(annotation: Any) -> Any:
    """Without what changes nothing about the value: names, ``Required``, ``Final``, ``ClassVar`` and the like."""
    while True:
        origin = typing.get_origin(annotation)
        if getattr(origin, "_name", None) in ("Required", "NotRequired", "ReadOnly", "Final"):
            annotation = typing.get_args(annotation)[0]
        elif hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return annotation


def _members(cls: Any, at: str) -> list[tuple[str, Any, bool]]:
    """The fields of a class: name, annotation, and whether it is required."""
    is_dataclass = dataclasses.is_dataclass(cls)
    if not is_dataclass and not is_typed_dict(cls) and not hasattr(cls, "_field_defaults"):
        raise refused_type(at, f"{cls.__name__} is neither a dataclass nor a TypedDict, NamedTuple, Enum or pydantic model")
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise refused_type(at, f"{error}: the annotations of {cls.__name__} must be visible where it is defined") from None
    if is_dataclass:
        missing = dataclasses.MISSING
        return [
            (f.name, hints[f.name], f.default is missing and f.default_factory is missing)
            for f in dataclasses.fields(cls)
            if f.init
        ]
    if is_typed_dict(cls):
        return [(name, hint, _required(cls, name, hint)) for name, hint in hints.items()]
    return [(name, hints[name], name not in cls._field_defaults) for name in cls._fields]


def _required(cls: Any, name: str, hint: Any) -> bool:
    """Whether a TypedDict's key is required. The class itself cannot tell if its annotations are strings."""
    marker = getattr(typing.get_origin(hint), "_name", None)
    if marker in ("Required", "NotRequired"):
        return bool(marker == "Required")
    return bool(name in cls.__required_keys__)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


def _choice(members: list[Any], values: list[Any], at: str) -> Node:
    """One of some constants."""
    for value in values:
        if not isinstance(value, (str, int, float, bool, type(None))):
            raise refused_type(at, f"{value!r} is no JSON constant")
    if not values:
        raise refused_type(at, "there is nothing to choose from")

    def find(value: Any) -> Optional[int]:
        # 1 is not True here, although Python says so.
        matches = (i for i, v in enumerate(values) if v == value and isinstance(v, bool) == isinstance(value, bool))
        return next(matches, None)

    def build(value: Any) -> Any:
        index = find(value)
        return value if index is None else members[index]

    return Node({"enum": values}, lambda value: find(value) is not None, build)


#: Limits by their names in Python: for numbers, texts, arrays and objects.
_NUMERIC = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum", "multiple_of": "multipleOf"}
_LENGTHS = {
    "string": {"min_length": "minLength", "max_length": "maxLength"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}


def _bounds(metadata: tuple[Any, ...], schema: dict[str, Any], at: str) -> dict[str, Any]:
    """The keywords that the metadata of an ``Annotated`` stand for; what lean does not know is nobody's limit."""
    kind = schema.get("type")
    found: dict[str, Any] = {}
    for item in metadata:
        if hasattr(item, "metadata") and not isinstance(item, Bounds):
            found.update(_bounds(tuple(item.metadata), schema, at))
        for name in (*_NUMERIC, "min_length", "max_length", "pattern", "format"):
            value = getattr(item, name, None)
            if value is None or callable(value):
                continue
            if name in _NUMERIC and kind in ("integer", "number"):
                found[_NUMERIC[name]] = value
            elif name in ("pattern", "format") and kind == "string":
                found[name] = getattr(value, "pattern", value)
            elif name in _LENGTHS.get(kind or "", {}):
                found[_LENGTHS[kind or ""][name]] = value
            else:
                raise refused_type(at, f"{name} does not limit {kind or 'this type'}")
    return found
