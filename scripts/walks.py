"""Validates what random walks generated with Python's jsonschema, a second opinion that shares no code with the engine.

    LEAN_WALKS=20000 LEAN_WALKS_OUT=walks.jsonl cargo test --workspace --lib -- --ignored --nocapture many_walks
    pip install "jsonschema[format]"
    python scripts/walks.py walks.jsonl

Numbers are read as decimals, as the engine counts them. Patterns that Python's `re` does not take, or takes in another
sense (backslash p, `[^]`, digits in Unicode), are compared in ASCII, or counted as not compared.
"""

import json
import re
import sys
from decimal import Decimal

from jsonschema import FormatChecker, validators
from jsonschema.exceptions import ValidationError

DRAFTS = {
    "Draft4": validators.Draft4Validator,
    "Draft6": validators.Draft6Validator,
    "Draft7": validators.Draft7Validator,
    "Draft2019": validators.Draft201909Validator,
    "Draft2020": validators.Draft202012Validator,
}
skipped = set()


def pattern(_, source, instance, __):
    """ECMA-262's notation, as far as `re` has it: `$` is the very end, and classes are ASCII."""
    if not isinstance(instance, str):
        return
    python = re.sub(r"(?<!\\)\$", r"\\Z", source.replace("[^]", r"[\s\S]"))
    python = re.sub(r"\(\?<(?![=!])", "(?P<", python)
    try:
        found = re.search(python, instance, re.ASCII)
    except re.error:
        skipped.add(source)
        return
    if not found:
        yield ValidationError(f"{instance!r} does not match {source!r}")


def relative_pointer(text):
    """As the draft has it; the package's own check refuses numbers such as 101."""
    return not isinstance(text, str) or re.fullmatch(r"(0|[1-9][0-9]*)([+-](0|[1-9][0-9]*))?(#|(/([^~/]|~[01])*)*)", text) is not None


def formats(draft):
    """The checks of one draft: the general checker has draft 3's `time` too, which is another format."""
    checker = FormatChecker(())
    checker.checkers = {**draft.FORMAT_CHECKER.checkers, "relative-json-pointer": (relative_pointer, ())}
    return checker


def main(path):
    values = invalid = 0
    for line in open(path, encoding="utf-8"):
        case = json.loads(line, parse_float=Decimal)
        schema = case["schema"]
        if isinstance(schema, dict):
            schema.pop("$schema", None)
        draft = validators.extend(DRAFTS[case["draft"]], {"pattern": pattern})
        validator = draft(schema, format_checker=formats(DRAFTS[case["draft"]]))
        for text in case["values"]:
            values += 1
            value = json.loads(text, parse_float=Decimal)
            error = next(validator.iter_errors(value), None)
            if error is not None:
                invalid += 1
                print(f"{case['name']}: {text}: {error.message}")
    print(f"{values} values, {invalid} invalid; patterns not compared: {sorted(skipped)}")
    return 1 if invalid else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
