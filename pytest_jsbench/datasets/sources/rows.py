"""
Rows: of a table, or the lines of a JSON Lines file.

Each is a schema, or an object that holds one beside its id, task, messages, expected instance, reference and tags.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, time
from functools import partial
from pathlib import Path
from typing import Any

from pytest_jsbench.core.cases import Case, CaseKey, Expected
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import FileReader, Unreadable, parse_json
from pytest_jsbench.core.json_values import json_type
from pytest_jsbench.core.messages import Message, check_encodable, read_messages
from pytest_jsbench.datasets.base import LeftOut, ListedCase, as_schema, schema_case, with_comparers
from pytest_jsbench.datasets.documents import LARGEST_SCHEMA
from pytest_jsbench.datasets.sources import tools
from pytest_jsbench.datasets.sources.tools import format_schema
from pytest_jsbench.values import may_name_comparers

#: what the column, or field, of each part may be called; the first that is there counts
SCHEMA_NAMES = ("json_schema", "schema")
ID_NAMES = ("unique_id", "id", "record_id")
#: of a row of the Structured Output Benchmark, beside its schema
_ASKED = ("context", "question", "ground_truth")
OTHER_NAMES = ("task", "prompt", "messages", "expected", "reference", "tags", *_ASKED)


def listed(
    row: Callable[[], Any], named: object, *, task: str, name: str, where: str, only_schema: bool = False
) -> ListedCase:
    """
    The case of a row that is read when it is asked for; Unreadable where it cannot be.

    `named` is the row as far as its task and name go, for which `task` and `name` stand where it has none.
    """
    return ListedCase(
        task=_text(named, "task") or task,
        name=next((text for field in ID_NAMES if (text := _text(named, field)) is not None), name),
        where=where,
        read=partial(_read, row),
        text=partial(_schema_text, row) if only_schema else None,
    )


def of_table(table: Any, *, task: str, place: str) -> Iterator[ListedCase]:
    """The rows of a table of `datasets`, of which only names and tasks are read now."""
    only_schema = are_schemas(table.column_names)
    wanted = [name for name in (*ID_NAMES, "task") if name in table.column_names]
    names: Iterable[Mapping[str, Any]] = table.select_columns(wanted) if wanted else [{}] * len(table)
    for number, named in enumerate(names):
        row, where = partial(table.__getitem__, number), f"{place} row {number}"
        yield listed(row, named, task=task, name=f"row-{number}", where=where, only_schema=only_schema)


def are_schemas(columns: Iterable[str]) -> bool:
    """Tell whether the rows of these columns are nothing but a schema each, with its name and task."""
    return {"task", *SCHEMA_NAMES, *ID_NAMES}.issuperset(columns)


def schema_column(columns: Sequence[object], table: str) -> str:
    """The column that holds the schemas; DatasetError where the table has none."""
    held = next((name for name in SCHEMA_NAMES if name in columns), None)
    if held is None:
        named = ", ".join(map(str, columns))
        message = f"{table} has no column {' or '.join(SCHEMA_NAMES)}; its columns are {named}"
        raise DatasetError(message, found=tuple(columns), expected=SCHEMA_NAMES)
    return held


def is_row(value: object) -> bool:
    """Tell whether an object has the fields of a row, and is not the definition of a tool or a response format."""
    if not isinstance(value, Mapping) or value.get("type") == "json_schema":
        return False
    if any(name in value for name in SCHEMA_NAMES):
        return True
    # a request with tools has messages too
    return any(name in value for name in ("prompt", "messages", "unique_id")) and tools.read_definitions(value) is None


def _read(row: Callable[[], Any], key: CaseKey) -> Case:
    return case_of(key, row())


def _schema_text(row: Callable[[], Mapping[str, Any]]) -> object:
    try:
        held = row()
    except Unreadable:
        return None  # it is said when the case is read
    return next((held[name] for name in SCHEMA_NAMES if name in held), None)


def case_of(key: CaseKey, row: object) -> Case:
    """The row's case; Unreadable where a part of it is not what it must be."""
    if isinstance(row, Mapping) and row.keys() >= {"record_id", "json_schema", *_ASKED}:
        row = _of_benchmark(row)
    if not isinstance(row, Mapping) or (held := _schema_name(row)) is None:
        return schema_case(key, row)
    value = row[held]
    schema = parse_json(value, largest=LARGEST_SCHEMA) if isinstance(value, str) else value
    case = Case(
        key=key,
        schema=as_schema(format_schema(schema)),
        messages=_messages(row),
        reference=as_json(row.get("reference"), "reference"),
        expected=_expected(row, as_text=isinstance(value, str)),
        tags=_tags(row.get("tags")),
    )
    as_is = case.expected is None and isinstance(value, str) and not may_name_comparers(value)
    return case if as_is else with_comparers(case)


def _of_benchmark(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row of the Structured Output Benchmark in our names: it asks a question about a context."""
    schema, expected = row["json_schema"], row["ground_truth"]
    shown = schema if isinstance(schema, str) else json.dumps(schema)
    if not isinstance(row["question"], str) or not isinstance(row["context"], str):
        raise Unreadable("question and context are not both text", reason="bad_row")
    question = f"{row['question']}\n\n{row['context']}\n\nAnswer with JSON that conforms to this schema:\n{shown}"
    return {
        "json_schema": schema,
        "prompt": question,
        "expected": parse_json(expected) if isinstance(expected, str) else expected,
    }


def _text(row: object, name: str) -> str | None:
    value = row.get(name) if isinstance(row, Mapping) else None
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _schema_name(row: Mapping[str, Any]) -> str | None:
    there = [name for name in SCHEMA_NAMES if name in row]
    if there:
        return next((name for name in there if row[name] is not None), there[0])
    if strangers := [name for name in ("prompt", "messages", "unique_id") if name in row]:
        message = f"{' and '.join(strangers)} without a schema; expected a field {' or '.join(SCHEMA_NAMES)}"
        raise Unreadable(message, reason="not_a_schema")
    return None


def as_json(value: Any, column: str) -> Any:
    """Return a cell as a JSON value, with dates and times as ISO 8601 text; Unreadable names the column."""
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {name: as_json(part, column) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(part, column) for part in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    message = f"column {column} has a value of type {type(value).__name__}, which JSON does not have; store it as text"
    raise Unreadable(message, reason="bad_row")


def _expected(row: Mapping[str, Any], *, as_text: bool) -> Expected | None:
    """The instance that the row expects; where its schema is text, so is this, and null is none, as in a table."""
    value = row.get("expected")
    if "expected" not in row or (value is None and as_text):
        return None
    if not as_text or not isinstance(value, str):
        return Expected(value=as_json(value, "expected"))
    try:
        return Expected(value=parse_json(value))
    except Unreadable as error:
        raise Unreadable(f"column expected: {error.problem}", reason=error.reason) from None


def _messages(row: Mapping[str, Any]) -> tuple[Message, ...]:
    prompt, messages = row.get("prompt"), row.get("messages")
    if prompt is not None and messages is not None:
        raise Unreadable("both prompt and messages; expected one of them", reason="bad_row")
    if prompt is not None and not isinstance(prompt, str):
        raise Unreadable(f"prompt is a JSON {json_type(prompt)}; expected text", reason="bad_row")
    try:
        if prompt is None:
            return () if messages is None else read_messages(messages, exact=False)
        check_encodable(prompt, "prompt")
    except ValueError as error:
        raise Unreadable(str(error), reason="bad_row") from None
    return (Message(role="user", content=prompt),)


def _tags(tags: object) -> tuple[str, ...]:
    if tags is None:
        return ()
    if isinstance(tags, list) and all(isinstance(tag, str) for tag in tags):
        return tuple(tags)
    raise Unreadable("tags are no list of texts", reason="bad_row")


_BOM = b"\xef\xbb\xbf"


def find_lines(reader: FileReader, path: Path, *, task: str) -> Iterator[ListedCase | LeftOut]:
    """The rows of the file, of each only its place; the task, where a row names none of its own, is the given one."""
    defined = tools.Definitions(many=True)
    try:
        for line in reader.read_lines(path):
            if line.data is not None and not line.data.removeprefix(_BOM).strip():
                continue
            row = partial(_parse_line, reader, path, line.start, line.size)
            place = f"{path} line {line.number}"
            value = _peek(line.data)
            found = None if is_row(value) else tools.read_definitions(value)
            if found is None:
                yield listed(row, value, task=task, name=f"line-{line.number}", where=place)
                continue
            for definition in found.schemas:
                name = f"line-{line.number}" if definition.name is None else definition.name
                read = partial(_read_definition, row, definition)
                yield ListedCase(task=task, name=name, where=place, read=read)
            defined.add(found)
    except Unreadable as error:
        raise DatasetError(str(error)) from None
    if defined.left_out or defined.messages or defined.has_next:
        yield from defined.notes(str(path))


def _read_definition(row: Callable[[], object], definition: tools.Definition, key: CaseKey) -> Case:
    return tools.case_of(row(), definition, key)


def _peek(line: bytes | None) -> object:
    """The row as far as its name and task go; whatever is wrong with it is said when it is read."""
    try:
        return None if line is None else parse_json(line)
    except Unreadable:
        return None


def _parse_line(reader: FileReader, path: Path, start: int, size: int) -> object:
    return parse_json(reader.read_part(path, start, size))
