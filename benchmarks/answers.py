"""Schemas and answers to judge: those that come with the package, and public ones where they are at hand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import load_builtin, open_builtin
from tests.verdicts.data import DATA, labelled

if TYPE_CHECKING:
    from collections.abc import Iterator

#: the public benchmark's schemas, in the layout of its repository at the hub
SCHEMAS = DATA / "JSONSchemaBench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer, and the schema that it is judged by."""

    schema: dict[str, Any]
    schema_text: str
    text: str

    @classmethod
    def of(cls, schema: dict[str, Any], text: str) -> Answer:
        return cls(schema=schema, schema_text=json.dumps(schema), text=text)


def builtin_answers() -> Iterator[Answer]:
    """Every answer that comes with the built-in schemas, valid or not."""
    for key in open_builtin(Selection()).keys():
        case = load_builtin(key)
        for each in (*({"instance": valid} for valid in case["valid"]), *case["invalid"]):
            text = each["text"] if "text" in each else json.dumps(each["instance"])
            yield Answer.of(case["schema"], text)


def labelled_answers() -> Iterator[Answer]:
    """The labelled answers to real schemas, one in three."""
    for _, schema, text, _ in labelled(every=3):
        if isinstance(schema, dict):
            yield Answer.of(schema, text)


def real_schemas() -> Iterator[dict[str, Any]]:
    """All schemas of the public benchmark."""
    from pyarrow import parquet

    for path in sorted(SCHEMAS.glob("*/*.parquet")):
        for text in parquet.read_table(path, columns=["json_schema"]).column("json_schema").to_pylist():
            yield json.loads(text)
