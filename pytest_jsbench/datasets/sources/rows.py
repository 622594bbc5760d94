"""
Read cases from the rows of a table or the lines of a JSON Lines file.

Each row is a schema, or an object with a schema and optionally its id, task, messages, expected instance, reference and
tags.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pytest_jsbench.core.cases import Case, CaseKey, Expected
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import FileReader, Unreadable, parse_json
from pytest_jsbench.core.json_values import json_type
from pytest_jsbench.core.messages import Message, check_encodable, read_messages
from pytest_jsbench.datasets.base import ListedCase, SkippedPart, as_schema, schema_case, with_comparers
from pytest_jsbench.datasets.columns import BENCHMARK_FIELDS, ID_NAMES, SCHEMA_NAMES, are_schemas, as_json
from pytest_jsbench.datasets.documents import LARGEST_SCHEMA
from pytest_jsbench.datasets.sources import tool_cases, tools
from pytest_jsbench.datasets.sources.tools import format_schema


def list_row(
    row: Callable[[], Any], fields: object, *, task: str, name: str, where: str, only_schema: bool = False
) -> ListedCase:
    """
    Return the entry for a row. `row` reads the row on request, and raises Unreadable if that fails.

    `fields` may contain the row's task and name; otherwise `task` and `name` are used.
    """
    texts: Mapping[str, object] = fields if isinstance(fields, Mapping) else {}
    listed = _ListedRow(row)
    return ListedCase(
        task=_text(texts, "task") or task,
        name=next((text for field in ID_NAMES if (text := _text(texts, field)) is not None), name),
        where=where,
        read=listed.read,
        text=listed.schema_text if only_schema else None,
    )


class _ListedRow:
    """A row that is read on request, as a case or only its schema's text; each row has one, so it is small."""

    __slots__ = ("_row",)

    def __init__(self, row: Callable[[], Any]) -> None:
        self._row = row

    def read(self, key: CaseKey) -> Case:
        return case_of(key, self._row())

    def schema_text(self) -> object:
        try:
            fields = self._row()
        except Unreadable:
            return None  # reported when the case is read
        return next((fields[name] for name in SCHEMA_NAMES if name in fields), None)


def table_cases(table: Any, *, task: str, place: str) -> Iterator[ListedCase]:
    """Yield the rows of a `datasets` table; only their names and tasks are read at first."""
    only_schema = are_schemas(table.column_names)
    wanted = [name for name in (*ID_NAMES, "task") if name in table.column_names]
    names: Iterable[Mapping[str, Any]] = table.select_columns(wanted) if wanted else [{}] * len(table)
    for number, fields in enumerate(names):
        row = partial(table.__getitem__, number)
        where = f"{place} row {number}"
        yield list_row(row, fields, task=task, name=f"row-{number}", where=where, only_schema=only_schema)


def is_row(value: object) -> bool:
    """Return whether an object has the fields of a row, and is not a tool definition or a response format."""
    if not isinstance(value, Mapping) or value.get("type") == "json_schema":
        return False
    if tool_cases.is_row(value) or any(name in value for name in SCHEMA_NAMES):
        return True
    # requests with tools have messages, too
    return any(name in value for name in ("prompt", "messages", "unique_id")) and tools.read_definitions(value) is None


def case_of(key: CaseKey, row: object) -> Case:
    """Return the case of a row; raise Unreadable if a part of the row is invalid."""
    if isinstance(row, Mapping) and tool_cases.is_row(row):
        return tool_cases.case_of(key, row)
    if isinstance(row, Mapping) and row.keys() >= {"record_id", "json_schema", *BENCHMARK_FIELDS}:
        row = _convert_benchmark_row(row)
    schema_name = _schema_name(row) if isinstance(row, Mapping) else None
    if not isinstance(row, Mapping) or schema_name is None:
        return schema_case(key, row)
    value = row[schema_name]
    schema = parse_json(value, largest=LARGEST_SCHEMA) if isinstance(value, str) else value
    case = Case(
        key=key,
        schema=as_schema(format_schema(schema)),
        messages=_messages(row),
        reference=as_json(row.get("reference"), "reference"),
        expected=_read_expected(row, as_text=isinstance(value, str)),
        tags=_tags(row.get("tags")),
    )
    return with_comparers(case)


def _convert_benchmark_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert a row of the Structured Output Benchmark, which is a question about a context, to a row with a prompt."""
    schema = row["json_schema"]
    expected = row["ground_truth"]
    schema_text = schema if isinstance(schema, str) else json.dumps(schema)
    if not isinstance(row["question"], str) or not isinstance(row["context"], str):
        raise Unreadable("expected question and context as text", reason="bad_row")
    question = f"{row['question']}\n\n{row['context']}\n\nAnswer with JSON that conforms to this schema:\n{schema_text}"
    return {
        "json_schema": schema,
        "prompt": question,
        "expected": parse_json(expected) if isinstance(expected, str) else expected,
    }


def _text(fields: Mapping[str, object], name: str) -> str | None:
    value = fields.get(name)
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _schema_name(row: Mapping[str, Any]) -> str | None:
    present = [name for name in SCHEMA_NAMES if name in row]
    if present:
        return next((name for name in present if row[name] is not None), present[0])
    other_fields = [name for name in ("prompt", "messages", "unique_id") if name in row]
    if other_fields:
        message = f"{' and '.join(other_fields)} without a schema; expected a field {' or '.join(SCHEMA_NAMES)}"
        raise Unreadable(message, reason="not_a_schema")
    return None


def _read_expected(row: Mapping[str, Any], *, as_text: bool) -> Expected | None:
    """
    Return the expected instance of a row.

    If the schema is text, the instance is JSON text, too, and null means that the row has no expected instance.
    """
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
    prompt = row.get("prompt")
    messages = row.get("messages")
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
    raise Unreadable("tags are not a list of texts", reason="bad_row")


_BOM = b"\xef\xbb\xbf"


class RowLine(NamedTuple):
    """A line of a file that is not blank."""

    number: int
    #: The row if the line can be parsed, for its name and task; errors are reported when the case is read.
    value: object
    #: Reads the row again; raises Unreadable if that fails.
    read: Callable[[], object]


def list_lines(reader: FileReader, path: Path) -> Iterator[RowLine]:
    """Yield the lines of a file that are not blank; raise DatasetError if the file cannot be read."""
    try:
        for line in reader.read_lines(path):
            if line.data is not None and not line.data.removeprefix(_BOM).strip():
                continue
            read = partial(_parse_line, reader, path, line.start, line.size)
            yield RowLine(line.number, _parse_or_none(line.data), read)
    except Unreadable as error:
        raise DatasetError(str(error)) from None


def find_lines(reader: FileReader, path: Path, *, task: str) -> Iterator[ListedCase | SkippedPart]:
    """Yield an entry for each row of the file; `task` is used for rows without a task."""
    defined = tools.Definitions(many=True)
    for line in list_lines(reader, path):
        place = f"{path} line {line.number}"
        definitions = None if is_row(line.value) else tools.read_definitions(line.value)
        if definitions is None:
            yield list_row(line.read, line.value, task=task, name=f"line-{line.number}", where=place)
            continue
        for definition in definitions.schemas:
            name = f"line-{line.number}" if definition.name is None else definition.name
            read = partial(_read_definition, line.read, definition)
            yield ListedCase(task=task, name=name, where=place, read=read)
        defined.add(definitions)
    if defined.skipped or defined.messages or defined.cursor:
        yield from defined.notes(str(path))


def _read_definition(row: Callable[[], object], definition: tools.Definition, key: CaseKey) -> Case:
    return tools.case_of(row(), definition, key)


def _parse_or_none(line: bytes | None) -> object:
    """Return the row if it can be parsed."""
    try:
        return None if line is None else parse_json(line)
    except Unreadable:
        return None


def _parse_line(reader: FileReader, path: Path, start: int, size: int) -> object:
    return parse_json(reader.read_part(path, start, size))
