"""
Read single-turn rows of the Berkeley Function Calling Leaderboard (BFCL) with functions in Python.

A file `BFCL_v4_CATEGORY.json` has a row per line: `id`, `question` (one conversation) and `function` (definitions with
BFCL's own names of types). The acceptable arguments are in `possible_answer/`, in a file of the same name. Format and
rules: `ast_checker` of bfcl-eval 2026.3.23.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, assert_never

from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import FileReader, Line, Unreadable, parse_json
from pytest_jsbench.core.json_values import json_type
from pytest_jsbench.core.messages import read_messages
from pytest_jsbench.core.text import printable
from pytest_jsbench.core.tool_offers import ExpectedCall, OfferedTool, ToolOffer
from pytest_jsbench.datasets.base import ListedCase, SkippedPart
from pytest_jsbench.datasets.sources.bfcl_answers import expect_call, find_contradiction

_FILE = re.compile(r"BFCL_v\d{1,3}_(?P<category>\w{1,100})\.json")
#: Directory of the acceptable answers, next to the questions.
_ANSWERS = "possible_answer"
#: JSON Schema types of BFCL's names of types. Source: GORILLA_TO_OPENAPI of bfcl-eval, as far as Python's rows use it.
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}
#: Additions to descriptions by which bfcl-eval tells the model about its types.
_FLOAT_HINT = " This is a float type value."
_LANGUAGE_HINT = " Note that the provided function is in Python 3 syntax."
#: Field of BFCL's schemas that JSON Schema does not define: whether a parameter is optional, which `required` says too.
_OPTIONAL = "optional"


class _Right(Enum):
    """What is right in the rows of a category."""

    LISTED_CALLS = "listed calls"
    SOME_CALL = "some call"
    NO_CALL = "no call"


_CATEGORIES = {
    **dict.fromkeys(("simple", "simple_python", "multiple", "parallel", "parallel_multiple"), _Right.LISTED_CALLS),
    **dict.fromkeys(("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple"), _Right.LISTED_CALLS),
    "irrelevance": _Right.NO_CALL,
    "live_irrelevance": _Right.NO_CALL,
    "live_relevance": _Right.SOME_CALL,
}


class _Place(NamedTuple):
    """A line of a file."""

    path: Path
    start: int
    size: int


def is_suite_file(path: Path) -> bool:
    """Return whether a file has BFCL's name for a file of questions or answers."""
    return _FILE.fullmatch(path.name) is not None


def find_other_files(paths: Iterable[Path]) -> set[Path]:
    """Return the files in the directories next to BFCL's questions: answers, documentation, and unused questions."""
    all_paths = list(paths)
    homes = {path.parent for path in all_paths if is_suite_file(path) and path.parent.name != _ANSWERS}
    return {path for path in all_paths if not homes.isdisjoint(path.parent.parents)}


def find_cases(reader: FileReader, path: Path) -> Iterator[ListedCase | SkippedPart]:
    """Yield an entry for each row of a file of questions; other files than those of single turns are skipped."""
    if path.parent.name == _ANSWERS:
        yield SkippedPart(f"{path}: skipped, as it has the answers; set the directory of the questions above it")
        return
    named = _FILE.fullmatch(path.name)
    category = "" if named is None else named["category"]
    right = _CATEGORIES.get(category)
    if right is None:
        yield SkippedPart(f"{path}: skipped, as only single-turn rows with Python functions are read")
        return
    answers: dict[str, _Place] = {}
    if right is _Right.LISTED_CALLS:
        answers = {name: place for name, place, _ in _list_lines(reader, path.parent / _ANSWERS / path.name)}
    for name, place, number in _list_lines(reader, path):
        read = partial(_read_case, reader, place, answers.get(name), right)
        yield ListedCase(task=category, name=name, where=f"{path} line {number}", read=read)


def _list_lines(reader: FileReader, path: Path) -> Iterator[tuple[str, _Place, int]]:
    """Yield the row's id, or else its number, the place and the number of each line that is not blank."""
    try:
        for line in reader.read_lines(path):
            if line.data is None or line.data.strip():
                yield _find_id(line) or f"line-{line.number}", _Place(path, line.start, line.size), line.number
    except Unreadable as error:
        raise DatasetError(str(error)) from None


def _find_id(line: Line) -> str | None:
    try:
        row = None if line.data is None else parse_json(line.data)
    except Unreadable:
        return None  # reported when the case is read
    name = row.get("id") if isinstance(row, Mapping) else None
    return name if isinstance(name, str) else None


def _read_row(reader: FileReader, place: _Place) -> Mapping[str, Any]:
    row = parse_json(reader.read_part(*place))
    if not isinstance(row, Mapping):
        raise Unreadable(f"the row is a JSON {json_type(row)}; expected an object", reason="bad_row")
    return row


def _read_case(reader: FileReader, place: _Place, answer: _Place | None, right: _Right, key: CaseKey) -> Case:
    row = _read_row(reader, place)
    functions = _read_functions(row.get("function"))
    expected: tuple[ExpectedCall, ...] | None = None
    match right:
        case _Right.LISTED_CALLS:
            if answer is None:
                message = f"no answer to this row in {_ANSWERS}/{place.path.name}; expected a line with the same id"
                raise Unreadable(message, reason="bad_row")
            expected = _read_expected(_read_row(reader, answer), functions)
        case _Right.NO_CALL:
            expected = ()
        case _Right.SOME_CALL:
            pass
        case _:
            assert_never(right)
    try:
        offer = ToolOffer(
            tools=tuple(_offer(name, function) for name, function in functions.items()),
            expected=expected,
            some_call=right is _Right.SOME_CALL,
        )
        messages = read_messages(_read_turn(row.get("question")), exact=False)
    except ValueError as error:
        raise Unreadable(str(error), reason="bad_row") from None
    return Case(key=key, schema=True, messages=messages, offer=offer)


def _read_turn(question: object) -> object:
    """Return the messages of the only turn."""
    if isinstance(question, list) and len(question) == 1:
        return question[0]
    found = f"{len(question)} turns" if isinstance(question, list) else f"a JSON {json_type(question)}"
    raise Unreadable(f"question is {found}; expected a list with one turn", reason="bad_row")


def _read_functions(functions: object) -> dict[str, Mapping[str, Any]]:
    """Return the definitions of the functions by the names under which they are offered."""
    if not isinstance(functions, list):
        raise Unreadable(f"function is a JSON {json_type(functions)}; expected a list", reason="bad_row")
    by_name: dict[str, Mapping[str, Any]] = {}
    for number, function in enumerate(functions):
        if not isinstance(function, Mapping) or not isinstance(function.get("parameters"), Mapping):
            message = f"function[{number}] has no parameters; expected name, description and parameters"
            raise Unreadable(message, reason="bad_row")
        name = _convert_name(str(function.get("name")))
        if name in by_name:
            message = f"two functions have the name '{printable(name, 60)}'; expected different names"
            raise Unreadable(message, reason="bad_row")
        by_name[name] = function
    return by_name


def _convert_name(name: str) -> str:
    """Return the name without dots, which providers reject in the names of tools."""
    return name.replace(".", "_")


def _offer(name: str, function: Mapping[str, Any]) -> OfferedTool:
    return OfferedTool(
        name=name,
        description=f"{function.get('description') or ''}{_LANGUAGE_HINT}",
        parameters=convert_schema(function["parameters"]),
    )


def convert_schema(schema: Any) -> Any:
    """Return the JSON Schema of a schema with BFCL's names of types, as bfcl-eval sends it to a model."""
    if not isinstance(schema, Mapping):
        return schema
    converted = {keyword: value for keyword, value in schema.items() if keyword != _OPTIONAL}
    kind = schema.get("type")
    if isinstance(kind, str):
        converted["type"] = _TYPES.get(kind, kind)
    if isinstance(schema.get("properties"), Mapping):
        converted["properties"] = {name: _convert_property(each) for name, each in schema["properties"].items()}
    if "items" in schema:
        converted["items"] = convert_schema(schema["items"])
    return converted


def _convert_property(schema: Any) -> Any:
    converted = convert_schema(schema)
    if isinstance(schema, Mapping) and schema.get("type") == "float":
        converted["description"] = f"{schema.get('description') or ''}{_FLOAT_HINT}"
    return converted


def _read_expected(answer: Mapping[str, Any], functions: Mapping[str, Mapping[str, Any]]) -> tuple[ExpectedCall, ...]:
    """Return the calls of an answer; raise Unreadable if no conforming call is among the acceptable ones."""
    truth = answer.get("ground_truth")
    if not isinstance(truth, list) or not truth:
        raise Unreadable("ground_truth is not a list of calls", reason="bad_row")
    calls = []
    for call in truth:
        if not isinstance(call, Mapping) or len(call) != 1:
            raise Unreadable("ground_truth is not a list of objects with one call each", reason="bad_row")
        ((function, arguments),) = call.items()
        name = _convert_name(function)
        if name not in functions or not isinstance(arguments, Mapping):
            message = f"ground_truth is not a call of a function of the row: '{printable(function, 60)}'"
            raise Unreadable(message, reason="bad_row")
        parameters = functions[name]["parameters"]
        contradiction = find_contradiction(arguments, parameters, convert_schema(parameters))
        if contradiction:
            message = f"no acceptable call of '{printable(name, 60)}' conforms to the function's own schema"
            raise Unreadable(f"{message}: {contradiction}", reason="bad_row")
        calls.append(expect_call(name, arguments, parameters))
    return tuple(calls)
