"""Python types: the schema that they become, what the engine says of it, and the instances that come back."""

import collections.abc
import dataclasses
import enum
import json
import typing
import unittest
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional, TypedDict, Union

import lean_engine as lean
from lean_engine import Bounds
from lean_engine._annotations import understand

try:
    import pydantic
except ImportError:
    pydantic = None

SKIP_PYDANTIC = "SKIPPED: pydantic is not installed"


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Point:
    x: float
    y: float


@dataclasses.dataclass
class Circle:
    center: Point
    radius: Annotated[float, Bounds(gt=0, le=100)]
    color: Color = Color.RED


@dataclasses.dataclass
class Tree:
    label: str
    children: "list[Tree]" = dataclasses.field(default_factory=list)
    depth: int = dataclasses.field(default=0, init=False)


class Movie(TypedDict):
    title: str
    year: int


class Partial(Movie, total=False):
    rating: Annotated[int, Bounds(ge=1, le=5)]


class Pair(NamedTuple):
    left: str
    right: int = 3


UserId = NewType("UserId", int)

#: annotation, schema (None: see the test of references), a JSON value, the Python value
CASES = [
    (int, {"type": "integer"}, 5, 5),
    (float, {"type": "number"}, 5, 5.0),
    (bool, {"type": "boolean"}, True, True),
    (None, {"type": "null"}, None, None),
    (Any, {}, [1, {"a": None}], [1, {"a": None}]),
    (UserId, {"type": "integer"}, 5, 5),
    (list[int], {"type": "array", "items": {"type": "integer"}}, [1, 2], [1, 2]),
    (typing.List[int], {"type": "array", "items": {"type": "integer"}}, [1, 2], [1, 2]),
    (collections.abc.Sequence[str], {"type": "array", "items": {"type": "string"}}, ["a"], ["a"]),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [1, 2], (1, 2)),
    (
        tuple[int, str],
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        [1, "a"],
        (1, "a"),
    ),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": 1}),
    (dict, {"type": "object", "additionalProperties": True}, {"a": 1}, {"a": 1}),
    (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, None),
    (Union[int, list[float]], None, [1], [1.0]),
    (Literal[1, "a", None, True], {"enum": [1, "a", None, True]}, True, True),
    (Level, {"enum": [1, 2]}, 2, Level.HIGH),
    (list[Color], {"type": "array", "items": {"enum": ["red", "blue"]}}, ["blue"], [Color.BLUE]),
    (Annotated[int, Bounds(ge=1, lt=10)], {"type": "integer", "minimum": 1, "exclusiveMaximum": 10}, 5, 5),
    (Annotated[list[int], Bounds(min_length=1)], {"type": "array", "items": {"type": "integer"}, "minItems": 1}, [1], [1]),
    (Annotated[str, Bounds(pattern="^a+$")], {"type": "string", "pattern": "^a+$"}, "aa", "aa"),
    (Annotated[str, "a note"], {"type": "string"}, "aa", "aa"),
    (Point, None, {"x": 1, "y": 2.5}, Point(1.0, 2.5)),
    (
        Circle,
        None,
        {"center": {"x": 0, "y": 0}, "radius": 1.5, "color": "blue"},
        Circle(Point(0.0, 0.0), 1.5, Color.BLUE),
    ),
    (Circle, None, {"center": {"x": 0, "y": 0}, "radius": 1}, Circle(Point(0.0, 0.0), 1.0)),
    (Tree, None, {"label": "a", "children": [{"label": "b"}]}, Tree("a", [Tree("b")])),
    (Movie, None, {"title": "a", "year": 1}, {"title": "a", "year": 1}),
    (Partial, None, {"title": "a", "year": 1, "rating": 5}, {"title": "a", "year": 1, "rating": 5}),
    (Pair, None, {"left": "a"}, Pair("a", 3)),
    (Union[Point, Pair, Movie], None, {"left": "a", "right": 1}, Pair("a", 1)),
    (list[Union[Point, Tree]], None, [{"label": "a"}, {"x": 1, "y": 1}], [Tree("a"), Point(1.0, 1.0)]),
]


class Schemas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        engine = lean.spawn()
        cls.addClassCleanup(engine.close)
        cls.echo = engine.load("echo")

    def test_each_annotation_its_schema_and_its_values(self):
        for annotation, schema, value, instance in CASES:
            with self.subTest(annotation):
                understood, build = understand(annotation)
                if schema is not None:
                    self.assertEqual(understood, schema)
                # The engine takes the schema as one it can enforce exactly, and the value as one of it.
                result = self.echo.run(annotation, {"json": value})
                self.assertEqual(json.loads(result.text), value)
                self.assertEqual(result.value, instance)
                self.assertIs(type(result.value), type(instance))

    def test_classes_are_closed_objects_behind_references(self):
        schema, _ = understand(list[Tree])
        self.assertEqual(
            schema,
            {
                "type": "array",
                "items": {"$ref": "#/$defs/Tree"},
                "$defs": {
                    "Tree": {
                        "type": "object",
                        "properties": {
                            "label": {"type": "string"},
                            "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
                        },
                        "required": ["label"],
                        "additionalProperties": False,
                    }
                },
            },
        )

    def test_two_classes_of_the_same_name(self):
        other = dataclasses.make_dataclass("Point", [("z", int)])
        result = self.echo.generate(tuple[Point, other], {"json": [{"x": 1, "y": 2}, {"z": 3}]})
        self.assertEqual(result, (Point(1.0, 2.0), other(3)))

    def test_strings_at_the_top_are_unquoted(self):
        self.assertEqual(lean.type_of(str).source, {"text": {"max_chars": None}})
        self.assertEqual(lean.type_of(Literal["yes", "no"]).source, {"choice": ["yes", "no"]})
        self.assertEqual(self.echo.generate(Literal["yes", "no"], "say no"), "no")
        self.assertEqual(self.echo.generate(Color, "it is blue"), Color.BLUE)

    def test_what_says_nothing_about_json_is_refused_and_named(self):
        generic = dataclasses.make_dataclass("Outer", [("inner", dict[str, set[int]])])
        cases = [
            (generic, r"the type\.inner\{\}: a set"),
            (dict[int, str], "keys of a JSON object are strings"),
            (complex, "complex is neither a dataclass nor"),
            (Literal[b"x"], "no JSON constant"),
            (Annotated[int, Bounds(min_length=1)], "min_length does not limit integer"),
            (Annotated[Optional[int], Bounds(ge=1)], "ge does not limit this type"),
            (collections.abc.Callable[[], int], "generic classes|nothing about JSON"),
        ]
        for annotation, match in cases:
            with self.subTest(annotation):
                with self.assertRaisesRegex(lean.InputError, match) as caught:
                    lean.type_of(annotation)
                self.assertEqual(caught.exception.code, 110)

    def test_dicts_are_expressions_or_schemas_and_doubt_is_an_error(self):
        expressions = [
            {"id": "number", "name?": "string"},
            {"title": "string", "description": "string"},
            {"type": "'bug' | 'feature'", "title": "string"},
            {"type": "string", "name": "string"},
            {"items": {"id": "number"}, "title": "string"},
            "string < 64",
        ]
        schemas = [
            {"$schema": "https://json-schema.org/draft/2020-12/schema"},
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"type": "array", "items": {"type": "string"}},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}},
        ]
        for given in expressions:
            self.assertEqual(lean.type_of(given).source, {"expr": given})
        for given in schemas:
            self.assertEqual(lean.type_of(given).source, {"schema": given})
        for given in ({"type": "string"}, {"const": 5}, {"enum": ["a"]}, {"properties": {"a": {"type": "number"}}}):
            with self.subTest(given), self.assertRaisesRegex(lean.InputError, "may be a type expression or a JSON Schema"):
                lean.type_of(given)
        self.assertEqual(self.echo.generate(lean.schema({"type": "string"}), {"json": "a"}), "a")
        self.assertEqual(self.echo.generate(lean.expr({"type": "string"}), {"json": {"type": "a"}}), {"type": "a"})


if pydantic is not None:

    class Address(pydantic.BaseModel):
        street: str
        zip_code: Annotated[str, pydantic.Field(pattern="^[0-9]{5}$")]

    class Person(pydantic.BaseModel):
        name: Annotated[str, pydantic.Field(max_length=20)]
        age: Annotated[int, pydantic.Field(ge=0, le=150)]
        addresses: list[Address] = []
        friends: "list[Person]" = []

    @dataclasses.dataclass
    class Team:
        lead: Person
        size: Annotated[int, pydantic.Field(ge=1)]


@unittest.skipIf(pydantic is None, SKIP_PYDANTIC)
class Pydantic(unittest.TestCase):
    def setUp(self):
        engine = lean.spawn()
        self.addCleanup(engine.close)
        self.echo = engine.load("echo")
        self.address = {"street": "s", "zip_code": "12345"}
        self.person = {"name": "Ada", "age": 36, "addresses": [self.address], "friends": [{"name": "B", "age": 1}]}

    def test_a_model(self):
        value = self.echo.generate(Person, {"json": self.person})
        self.assertEqual(value, Person.model_validate(self.person))
        self.assertEqual(self.echo.generate(Person, {"json": value}), value)

    def test_models_inside_other_types(self):
        team = self.echo.generate(Team, {"json": {"lead": self.person, "size": 3}})
        self.assertEqual(team, Team(Person.model_validate(self.person), 3))
        both = self.echo.generate(list[Union[Address, Person]], {"json": [self.person, self.address]})
        self.assertEqual(both, [Person.model_validate(self.person), Address.model_validate(self.address)])

    def test_its_limits_are_enforced(self):
        self.assertEqual(understand(Team)[0]["$defs"]["Team"]["properties"]["size"], {"type": "integer", "minimum": 1})
        schema = understand(list[Person])[0]
        self.assertIn("Person.Address", schema["$defs"])


if __name__ == "__main__":
    unittest.main()
