from __future__ import annotations

import io
import json
import random
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.adaptation import Inexpressible
from pytest_jsbench.adaptation.adapter import CannotBound, adapt_within, adapter, bound_within
from pytest_jsbench.adaptation.bounding import bound_schema
from pytest_jsbench.adaptation.narrowing import adapt
from pytest_jsbench.adaptation.subsets import SUBSETS
from pytest_jsbench.cli.main import main
from pytest_jsbench.core import guarded_calls
from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.prompts.named import PROMPTS
from tests.support.counting import calls_of
from tests.support.mutations import mutated, survive, text_of
from tests.support.random_schemas import chain, lowered_one_by_one, wide

#: A few thousand paths, which take the adapter seconds and a validator no time.
SLOW = chain(12, alike=False)
SCHEMAS: tuple[Any, ...] = (
    chain(4), chain(3, alike=False, type="object"), lowered_one_by_one(4),
    {"type": "object", "properties": {"a": {"type": ["string", "null"], "pattern": "^a+$", "maxLength": 5}, "b": {
        "oneOf": [{"required": ["x"]}, {"properties": {"k": {"const": 1}}, "required": ["k"]}]}},
     "patternProperties": {"^x-": {"type": "integer", "minimum": 1}}, "required": ["a"], "minProperties": 1,
     "dependentSchemas": {"a": {"properties": {"c": {"enum": [1, "x", None]}}}}},
    {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"n": {"properties": {
        "next": {"$ref": "#/definitions/n"}}}}, "items": [{"$ref": "#/definitions/n"}], "additionalItems": False},
    {"type": "array", "prefixItems": [{}], "contains": {"const": 1}, "uniqueItems": True, "minItems": 2,
     "if": {"minItems": 3}, "then": {"maxItems": 4}, "else": {"not": {"type": "null"}}},
)  # fmt: skip


@pytest.mark.parametrize("mode", ["narrow", "relax"])
@pytest.mark.parametrize("subset", SUBSETS)
def test_child_process_adapts_as_this_process_does(subset: str, mode: Any) -> None:
    for schema in SCHEMAS:
        assert adapt_within(schema, subset, mode) == adapt(schema, SUBSETS[subset], mode)
        assert bound_within(schema) == bound_schema(schema)


@pytest.mark.parametrize("subset", SUBSETS)
def test_equal_choices_are_adapted_once_each(subset: str) -> None:
    def calls(length: int) -> int:
        return calls_of(lambda: adapt(chain(length), SUBSETS[subset], "narrow"))

    calls(1)
    assert calls(10) < 4 * calls(5)  # 32 times as many paths


def test_outline_of_each_reference_is_made_once() -> None:
    def calls(levels: int) -> int:
        return calls_of(lambda: bound_schema(wide(levels, 4)))

    calls(1)
    assert calls(6) < 4 * calls(3)  # 64 times as many paths


def test_adapting_too_slow_a_schema_is_inexpressible_and_the_next_works() -> None:
    adapt_within(True, "openai", "narrow")
    started = time.perf_counter()
    found = adapt_within(SLOW, "openai", "narrow", seconds=0.2)
    assert time.perf_counter() - started < 5
    assert found == Inexpressible(keyword="", path="", message="the schema cannot be adapted within 0.2 s")
    assert not isinstance(adapt_within({"type": "object", "properties": {}}, "openai", "narrow"), Inexpressible)


def test_a_run_adapts_within_the_bounds() -> None:
    adapts = adapter("relax:anthropic", seconds=0.2)
    assert adapts is not None
    found = adapts(SLOW)
    assert isinstance(found, Inexpressible)
    assert found.message == "the schema cannot be adapted within 0.2 s"


def test_command_reports_schemas_that_take_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_jsbench.cli.adapt.adapt_within", partial(adapt_within, seconds=0.2))
    (tmp_path / "slow.json").write_text(json.dumps(SLOW))
    out = io.StringIO()
    assert main(["adapt", str(tmp_path), "--subset=openai"], out=out) == 1
    assert (
        out.getvalue().splitlines()[-1]
        == "openai@2026-08: first obstacle: (the schema cannot be adapted within 0.2 s) 1"
    )


def test_schema_that_takes_too_long_to_bound_is_reported() -> None:
    bound_within({})
    with pytest.raises(CannotBound, match=r"^the schema cannot be narrowed for a small model within 0\.2 s$"):
        bound_within(lowered_one_by_one(900), seconds=0.2)


def test_internal_error_in_the_adaptation_is_not_the_schemas_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineError, match="internal error in the adaptation: KeyError"):
        adapt_within({}, "nobody", "narrow")


def test_mutated_schemas_break_no_adaptation_bounds_or_display() -> None:
    def attempt(chance: random.Random) -> None:
        schema = json.loads(text_of(mutated(chance.choice(SCHEMAS), chance)))
        subset, mode = chance.choice(list(SUBSETS)), chance.choice(["narrow", "relax"])
        try:
            adapt_within(schema, subset, mode, seconds=2)  # type: ignore[arg-type]  # one of two words
            bound_within(schema, seconds=2)
        except CannotBound:
            pass
        except EngineError as error:
            raise AssertionError(str(error)) from error
        for prompt in PROMPTS.values():
            prompt.render(Case(key=CaseKey(task="t", id="i"), schema=schema))

    def readable(chance: random.Random) -> None:
        try:
            attempt(chance)
        except (ValueError, RecursionError) as error:
            # the reader rejects invalid JSON and values that are nested too deeply
            if isinstance(error, json.JSONDecodeError) or "digits" in str(error) or isinstance(error, RecursionError):
                return
            raise

    survived = survive("adapt", readable, kept=("adapt 161", "adapt 440", "adapt 577"))
    assert not survived.broken, str(survived)
    assert survived.slowest[0] < 30, str(survived)
    assert survived.grown < 1 << 30, str(survived)
    assert guarded_calls.guarded_calls().call("tests.support.child_functions:peak", seconds=10) < 1 << 30
