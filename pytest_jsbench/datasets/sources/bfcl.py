"""
Read single-turn rows of the Berkeley Function Calling Leaderboard (BFCL) with functions in Python.

A file `BFCL_v4_CATEGORY.json` has a row per line: `id`, `question` (one conversation) and `function` (definitions with
BFCL's own names of types). The acceptable arguments are in `possible_answer/`, in a file of the same name. Format and
rules: `ast_checker` of bfcl-eval 2026.3.23.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, assert_never

from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.files import FileReader, Unreadable
from pytest_jsbench.core.json_values import as_mapping, json_type
from pytest_jsbench.core.messages import read_messages
from pytest_jsbench.core.text import printable
from pytest_jsbench.core.tool_offers import ExpectedCall, OfferedTool, ToolOffer
from pytest_jsbench.datasets.base import ListedCase, SkippedPart
from pytest_jsbench.datasets.source_names import category_of_bfcl
from pytest_jsbench.datasets.sources import rows
from pytest_jsbench.datasets.sources.bfcl_answers import expect_call, find_contradiction

#: Directory of the acceptable answers, next to the questions.
_ANSWERS = "possible_answer"
#: Directories next to the questions without questions of a single turn.
_WITHOUT_QUESTIONS = frozenset({_ANSWERS, "multi_turn_func_doc", "memory_prereq_conversation", "unused_datasets"})
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


def find_other_files(paths: Iterable[Path]) -> set[Path]:
    """Return the files in BFCL's own directories next to its questions: answers, documentation, unused questions."""
    all_paths = list(paths)
    homes = {path.parent for path in all_paths if category_of_bfcl(path) and path.parent.name != _ANSWERS}
    others = {home / name for home in homes for name in _WITHOUT_QUESTIONS}
    return {path for path in all_paths if not others.isdisjoint(path.parents)}


def find_cases(reader: FileReader, path: Path) -> Iterator[ListedCase | SkippedPart]:
    """Yield an entry for each row of a file of questions; other files than those of single turns are skipped."""
    if path.parent.name == _ANSWERS:
        yield SkippedPart(f"{path}: skipped, as it has the answers; set the directory of the questions above it")
        return
    category = category_of_bfcl(path)
    right = None if category is None else _CATEGORIES.get(category)
    if category is None or right is None:
        yield SkippedPart(f"{path}: skipped, as only single-turn rows with Python functions are read")
        return
    answers: dict[str, Callable[[], object]] = {}
    if right is _Right.LISTED_CALLS:
        answers = {_find_id(row) or "": row.read for row in rows.list_lines(reader, path.parent / _ANSWERS / path.name)}
    for row in rows.list_lines(reader, path):
        name = _find_id(row) or f"line-{row.number}"
        read = partial(_read_case, row.read, answers.get(name), path, right)
        yield ListedCase(task=category, name=name, where=f"{path} line {row.number}", read=read)


def _find_id(row: rows.RowLine) -> str | None:
    name = as_mapping(row.value).get("id")
    return name if isinstance(name, str) else None


def _read_row(read: Callable[[], object]) -> Mapping[str, Any]:
    row = read()
    if not isinstance(row, Mapping):
        raise Unreadable(f"the row is a JSON {json_type(row)}; expected an object", reason="bad_row")
    return row


def _read_case(
    read: Callable[[], object], read_answer: Callable[[], object] | None, path: Path, right: _Right, key: CaseKey
) -> Case:
    row = _read_row(read)
    functions = _read_functions(row.get("function"))
    expected: tuple[ExpectedCall, ...] | None = None
    match right:
        case _Right.LISTED_CALLS:
            if read_answer is None:
                message = f"no answer to this row in {_ANSWERS}/{path.name}; expected a line with the same id"
                raise Unreadable(message, reason="bad_row")
            expected = _read_expected(_read_row(read_answer), functions)
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
