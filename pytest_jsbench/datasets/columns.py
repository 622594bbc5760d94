"""Define the columns of tables of cases, and convert their values to JSON values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time
from typing import Any

from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import Unreadable

#: Maximum number of cases in a dataset, since each case becomes a test.
MOST_CASES = 500_000
#: Accepted names of the field with the schema, and of the field with the id; the first name in a row is used.
SCHEMA_NAMES = ("json_schema", "schema")
ID_NAMES = ("unique_id", "id", "record_id")
#: Fields of a row of the Structured Output Benchmark, in addition to its schema.
BENCHMARK_FIELDS = ("context", "question", "ground_truth")
OTHER_NAMES = ("task", "prompt", "messages", "expected", "reference", "tags", *BENCHMARK_FIELDS)


def are_schemas(columns: Iterable[str]) -> bool:
    """Return whether rows with these columns contain nothing but a schema and, optionally, its name and task."""
    return {"task", *SCHEMA_NAMES, *ID_NAMES}.issuperset(columns)


def schema_column(columns: Sequence[object], table: str) -> str:
    """Return the name of the column with the schemas; raise DatasetError if the table has none."""
    column = next((name for name in SCHEMA_NAMES if name in columns), None)
    if column is None:
        names = ", ".join(map(str, columns))
        message = f"{table} has no column {' or '.join(SCHEMA_NAMES)}; its columns are {names}"
        raise DatasetError(message, found=tuple(columns), expected=SCHEMA_NAMES)
    return column


def as_json(value: Any, column: str) -> Any:
    """Return a cell as a JSON value, with dates and times as ISO 8601 text; raise Unreadable for other types."""
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
