"""Schemas and answers to judge: built-in ones, and public ones if the data is available."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import load_builtin, open_builtin
from tests.support.public_data import DATA, labelled

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Schemas of the public benchmark, in the layout of its repository on the Hugging Face Hub.
SCHEMAS = DATA / "JSONSchemaBench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer, and the schema to judge it against."""

    schema: dict[str, Any]
    schema_text: str
    text: str

    @classmethod
    def of(cls, schema: dict[str, Any], text: str) -> Answer:
        return cls(schema=schema, schema_text=json.dumps(schema), text=text)


def builtin_answers() -> Iterator[Answer]:
    """Yield each valid and invalid answer of the built-in schemas."""
    for key in open_builtin(Selection()).keys():
        case = load_builtin(key)
        for each in (*({"instance": valid} for valid in case["valid"]), *case["invalid"]):
            text = each["text"] if "text" in each else json.dumps(each["instance"])
            yield Answer.of(case["schema"], text)


def labelled_answers() -> Iterator[Answer]:
    """Yield every third labelled answer to real schemas."""
    for _, schema, text, _ in labelled(every=3):
        if isinstance(schema, dict):
            yield Answer.of(schema, text)


def real_schemas() -> Iterator[dict[str, Any]]:
    """Yield all schemas of the public benchmark."""
    from pyarrow import parquet

    for path in sorted(SCHEMAS.glob("*/*.parquet")):
        for text in parquet.read_table(path, columns=["json_schema"]).column("json_schema").to_pylist():
            yield json.loads(text)
