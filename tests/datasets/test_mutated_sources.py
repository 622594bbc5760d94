"""Mutate sources of every kind: the result is a case, a broken case or a one-line error, but no traceback or hang."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_jsbench.core.cases import BrokenCase
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.conditions import parse
from pytest_jsbench.datasets.labelled import open_labelled
from pytest_jsbench.engines.scripted import ScriptFile
from pytest_jsbench.prompts.named import PROMPTS, with_shots
from pytest_jsbench.schemas.dialects import DRAFT_2020_12
from pytest_jsbench.schemas.features import SchemaFeatures
from tests.support.dataset_reading import opened
from tests.support.mutations import mutated_bytes, mutated_json, mutated_lines, survive

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/b"}, "c": {"$ref": "other.json#/$defs/d"}, "e": {"enum": [1, "x", None]}},
    "$defs": {"b": {"type": "array", "items": {"$ref": "#"}, "maxItems": 3}},
    "required": ["a"],
}
OTHER = {"$id": "other.json", "$defs": {"d": {"type": "string", "pattern": "^a+$", "maxLength": 10}}}
ROW = {
    "id": "r1", "task": "t", "json_schema": json.dumps(SCHEMA), "messages": [{"role": "user", "content": "x"}],
    "reference": {"a": []}, "tags": ["x"],
}  # fmt: skip
API = {
    "openapi": "3.0.3",
    "info": {"title": "t", "version": "1"},
    "paths": {
        "/a/{id}": {
            "post": {
                "operationId": "make",
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}},
                "responses": {"200": {"$ref": "#/components/responses/R"}},
            }
        }
    },
    "components": {
        "schemas": {
            "A": {"type": "object", "properties": {"b": {"$ref": "#/components/schemas/B"}}, "required": ["b"]},
            "B": {"type": "integer", "nullable": True, "minimum": 1, "exclusiveMinimum": True, "readOnly": True},
        },
        "responses": {"R": {"content": {"application/json": {"schema": {"type": "array"}}}}},
    },
}
TOOLS = {
    "tools": [
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
        {"name": "g", "input_schema": {"type": "object"}, "outputSchema": {"type": "string"}},
        {"type": "web_search", "name": "s"},
    ]
}
YAML = b"""\
type: object
properties: &p
  a: {type: integer, minimum: 1e3}
  "b": *p
required:
  - a
description: >
  folded
  text
"""
CARD = b"""\
---
configs:
- config_name: t
  data_files:
  - split: test
    path: t/test-*
---
text
"""
ANSWERS = {
    "a::b": ["x", {"instance": {"n": 1}, "usage": {"output_tokens": 3}}],
    "*": {"fault": "rate_limit", "delay": 1},
}
LABELLED = {"schema_id": "s", "task": "t", "schema": SCHEMA, "aliases": ["x"]}
INSTANCE = {"id": "i", "schema_id": "s", "valid": True, "data": {"a": []}}

Attempt = Callable[[random.Random, Path], object]


def read_all(source: Path) -> None:
    """Open a source and read each of its cases, as a run does."""
    dataset = opened(source)
    for key in list(dataset.keys())[:20]:
        case = dataset.case(key)
        if isinstance(case, BrokenCase):
            assert "\n" not in case.problem
            continue
        SchemaFeatures.from_schema(case.schema, default_dialect=DRAFT_2020_12.uri)
        PROMPTS["fields"].render(case)
        with_shots(PROMPTS["schema"], 1).render(case)
        json.dumps(case.schema, allow_nan=False)


def document(name: str, data: bytes, mutate: Callable[[bytes, random.Random], bytes]) -> Attempt:
    def attempt(chance: random.Random, root: Path) -> None:
        (root / "other.json").write_text(json.dumps(OTHER))
        (root / name).write_bytes(mutate(data, chance))
        read_all(root)

    return attempt


def parquet(chance: random.Random, root: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    written = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([ROW, ROW | {"id": "r2"}]), written)
    data = mutated_bytes(written.getvalue(), chance)
    # a new name each time, since the child keeps what it has read
    (root / f"rows-{chance.getrandbits(32)}.parquet").write_bytes(data)
    read_all(root / "*.parquet")


def hub(chance: random.Random, root: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    (root / "t").mkdir(exist_ok=True)
    table = pyarrow.table({"json_schema": [json.dumps(SCHEMA)] * 2, "unique_id": ["a", "b"]})
    written = io.BytesIO()
    pyarrow.parquet.write_table(table, written)
    data = written.getvalue()
    card = CARD if chance.random() < 0.5 else mutated_bytes(CARD, chance)
    data = data if card is not CARD else mutated_bytes(data, chance)
    (root / "t" / f"test-{chance.getrandbits(32)}.parquet").write_bytes(data)
    (root / "README.md").write_bytes(card)
    from pytest_jsbench.datasets.sources.hub import check_folder, open_folder

    check_folder(root)
    if (dataset := open_folder(Selection(source=str(root)), root)) is not None:
        for key in dataset.keys():
            dataset.case(key)
        list(dataset.texts())


def labelled(chance: random.Random, root: Path) -> None:
    for name, row in (("schemas.jsonl", LABELLED), ("instances.jsonl", INSTANCE)):
        data = (json.dumps(row) + "\n").encode() * 2
        mutated = mutated_lines(data, chance) if chance.random() < 0.6 else data
        packed = gzip.compress(mutated)
        (root / f"{name}.gz").write_bytes(mutated_bytes(packed, chance) if chance.random() < 0.2 else packed)
    dataset = open_labelled(Selection(source=str(root), labelled=True))
    for key in dataset.keys():
        dataset.case(key)
        dataset.instances(key)


def scripts(chance: random.Random, root: Path) -> None:
    (root / "answers.json").write_bytes(mutated_json(json.dumps(ANSWERS).encode(), chance))
    ScriptFile.from_file(root / "answers.json")


def condition(chance: random.Random, root: Path) -> None:
    text = b"(keywords:pattern and size<4096) or not task:'a*' and depth >= 3"
    parse(mutated_bytes(text, chance).decode("utf-8", "replace"))


READERS: dict[str, Attempt] = {
    "json": document("a.json", json.dumps(SCHEMA).encode(), mutated_json),
    "yaml": document("a.yaml", YAML, mutated_bytes),
    "yaml-flow": document("a.yaml", json.dumps(SCHEMA).encode(), mutated_json),
    "rows": document("rows.jsonl", (json.dumps(ROW) + "\n").encode() * 3, mutated_lines),
    "openapi": document("api.json", json.dumps(API).encode(), mutated_json),
    "tools": document("tools.json", json.dumps(TOOLS).encode(), mutated_json),
    "parquet": parquet,
    "hub": hub,
    "labelled": labelled,
    "scripts": scripts,
    "condition": condition,
}
#: Seeds that once ended in a traceback, by reader.
KEPT: dict[str, tuple[str, ...]] = {
    "json": ("json 315",),
    "openapi": ("openapi 33", "openapi 220", "openapi 369"),
    "hub": ("hub 48",),
}


@pytest.mark.parametrize("reader", READERS)
def test_no_mutation_of_a_source_is_more_than_one_line(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attempt(chance: random.Random) -> None:
        for path in sorted(tmp_path.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        READERS[reader](chance, tmp_path)

    survived = survive(reader, attempt, KEPT.get(reader, ()))

    print(f"{reader}: {survived}")
    assert not survived.broken, str(survived)
    assert survived.slowest[0] < 20, str(survived)
    assert survived.grown < 1_000_000_000, str(survived)
