from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from enum import Enum
from importlib.resources import files
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.core.cases import CaseKey, Expected
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.files import json_line, parse_json
from pytest_jsbench.core.generations import Generation, GenerationParams
from pytest_jsbench.core.json_values import Digest, Fraction, digest, from_json, to_json
from pytest_jsbench.core.tool_offers import ToolOffer
from pytest_jsbench.records.facts import AttemptFacts, Place
from pytest_jsbench.records.metadata import RunMetadata, parse_line
from pytest_jsbench.records.records import RECORDS_VERSION, AskedBy, Attempt, Record, WrittenPrompt
from pytest_jsbench.records.runs import RunVerdict
from pytest_jsbench.records.transit import SchemaInTransit, Transit
from pytest_jsbench.run.record_keeper import AttemptResult
from pytest_jsbench.values import Match, match
from tests.support import examples, fuzzing
from tests.support.examples import replace

TEXTS = st.text("ab:/é\ud800\x1b\u2028\U0001f600", max_size=6)
JSON = st.recursive(st.none() | st.booleans() | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner))
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXTS,
    int: st.integers(1, 10**6),
    float: st.floats(0, 1e9),
    Fraction: st.floats(0, 1),
    bool: st.booleans(),
    NoneType: st.none(),
    Any: JSON,
    Digest: st.sampled_from([digest("a"), digest("b")]),
    Expected: st.builds(Expected, value=JSON),
    Match: st.builds(match, st.builds(Expected, value=JSON), JSON),
    WrittenPrompt: st.just(examples.record().written_prompt),
    Place: st.builds(Place, path=st.just(Path("records.jsonl")), start=st.integers(0, 9)),
    ToolOffer: st.sampled_from(
        [examples.offer(), examples.offer("find", "count"), examples.offer("find", expected=())]
    ),
    CaseKey: st.sampled_from([examples.record("a").key, examples.record("b", task="other").key]),
}
#: Fields that only the process that created the value needs, or that follow from others.
UNWRITTEN = {"server", "instance", "passed"}


def values_of(hint: Any, **chosen: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy for any value of a type, with all fields of the package's own types, except for given ones."""
    parts = get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if get_origin(hint) is Annotated:
        return values_of(parts[0])
    if get_origin(hint) in (Union, UnionType):
        return st.one_of([values_of(part) for part in parts])
    if get_origin(hint) is tuple:
        if parts[-1] is not ...:
            return st.tuples(*map(values_of, parts))
        return st.lists(values_of(parts[0]), max_size=2).map(tuple)
    if get_origin(hint) is Mapping:
        return st.dictionaries(TEXTS, values_of(parts[1]), max_size=2)
    if get_origin(hint) is Literal or issubclass(hint, Enum):
        return st.sampled_from(parts or tuple(hint))
    hints = get_type_hints(hint, include_extras=True)
    others = {name: values_of(hints[name]) for name in hints if name not in {*chosen, *UNWRITTEN}}
    return st.builds(hint, **others, **chosen)


PLAIN[GenerationParams] = values_of(GenerationParams, tool_choice=st.sampled_from([None, "auto", "required", "none"]))
PLAIN[Transit] = st.lists(values_of(SchemaInTransit), min_size=1, max_size=2).map(
    lambda schemas: Transit(schemas=tuple(schemas))
)
RECORDS = PLAIN[Record] = values_of(
    Record, task=st.just("t"), id=st.just("a"), variant=st.sampled_from(["", "gpt-5+low.v1"])
)


@pytest.mark.slow
@fuzzing.examples(100)
@given(RECORDS)
def test_record_and_outcome_round_trip_to_disk_and_to_another_process(record: Record) -> None:
    line = parse_json(record.to_line())
    assert record.to_line() == json_line(record.to_dict())
    outcomes = [AttemptFacts.of(record.kept), AttemptFacts.of(record, Place(path=Path("records.jsonl"), start=7))]

    assert list(line_validator().iter_errors(line)) == []
    assert parse_line(line) == record.kept
    assert [from_json(AttemptFacts, parse_json(json_line(to_json(each)))) for each in outcomes] == outcomes


@pytest.mark.slow
@pytest.mark.parametrize("kind", [AttemptFacts, RunVerdict, Generation, AttemptResult])
@fuzzing.examples(100)
@given(data=st.data())
def test_every_value_round_trips(kind: Any, data: st.DataObject) -> None:
    value = data.draw(values_of(kind))

    assert from_json(kind, parse_json(json_line(to_json(value)))) == value


@pytest.mark.parametrize("path", [("generation", "usage"), ("verdict",), ("asked_by",), ()])
def test_records_ignore_new_fields_and_name_missing_ones(path: Sequence[str]) -> None:
    line = replace(examples.record("a"), asked_by=AskedBy(test="t", terms="x")).to_dict()
    place = line
    for name in path:
        place = place[name]
    place |= {"of_tomorrow": {"n": [None]}}
    assert Record.from_dict(line) == replace(examples.record("a"), asked_by=AskedBy(test="t", terms="x"))


@functools.cache
def line_validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(files("pytest_jsbench.formats").joinpath("records.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


@pytest.mark.parametrize(
    "broken",
    [
        {"verdict": {}},
        {"generation": {"type": "guess"}},
        {"prompt": {"digest": digest("a"), "messages": []}},
        {"schema_digest": "md5:0"},
    ],
)
def test_invalid_record_is_rejected_by_the_reader_and_the_schema(broken: dict[str, Any]) -> None:
    line = examples.record().to_dict() | broken

    with pytest.raises(RecordError, match=f"not a record of pytest-jsbench: {next(iter(broken))}"):
        Record.from_dict(line)
    with pytest.raises(jsonschema.ValidationError):
        line_validator().validate(line)


@pytest.mark.parametrize(
    ("field", "value"), [("model", 5), ("dataset", "x"), ("started_at", "yesterday"), ("plan", {"simple": "abc"})]
)
def test_header_with_a_wrong_type_is_rejected(field: str, value: object) -> None:
    with pytest.raises(RecordError, match=field if field != "started_at" else "not the header of a run"):
        parse_line({"type": "run", "run": examples.metadata().to_dict() | {field: value}})


@pytest.mark.parametrize(
    "metadata",
    [
        examples.metadata(details={"bounded": True}),
        examples.variants(
            a={"params": {"max_tokens": 50, "seed": 1}, "shots": 2}, b={"model": "n", "response_format": "text"}
        ),
    ],
)
def test_a_header_survives_json_and_conforms_to_the_published_schema(metadata: RunMetadata) -> None:
    header = json.loads(json.dumps(metadata.to_dict()))

    line_validator().validate({"type": "run", "records_version": RECORDS_VERSION, "run": header})
    assert RunMetadata.from_dict(header) == metadata
    with pytest.raises(RecordError, match=r"not the header of a run.*has no engine"):
        RunMetadata.from_dict({name: value for name, value in header.items() if name != "engine"})


def test_a_run_without_variants_is_written_as_before() -> None:
    written = examples.metadata().to_dict().keys() | examples.record().to_dict().keys()

    assert written.isdisjoint({"variant", "variants"})


@pytest.mark.parametrize("name", ["a b", "x/../y", "a::b", "", "\x1b[31m", "n" * 201, 5])
def test_invalid_variant_name_is_rejected(name: object) -> None:
    run = {**examples.variants(a={}).to_dict()}
    run["variants"] = [{**run["variants"][0], "variant": name}]

    with pytest.raises(RecordError):
        parse_line({"type": "run", "run": run})
    if name:
        with pytest.raises(RecordError, match=r"is not a valid variant name|variant is 5"):
            Record.from_dict({**examples.record().to_dict(), "variant": name})


def test_duplicate_variant_names_are_rejected() -> None:
    run = examples.variants(a={}).to_dict()

    with pytest.raises(RecordError, match="two variants have the same name"):
        RunMetadata.from_dict({**run, "variants": run["variants"] * 2})


def test_shared_plan_of_variants_is_written_once() -> None:
    metadata = examples.variants(a={}, b={"model": "n"})
    shared = [Attempt(examples.record().key, repeat, name) for name in "ab" for repeat in (0, 1)]

    alike, unlike = metadata.with_plan(shared), metadata.with_plan(shared[:3])

    assert alike.plan == {"simple": ["order", "order"]}
    assert [one["plan"] for one in alike.to_dict()["variants"]] == [None, None]
    assert unlike.plan is None
    assert [len(unlike.of_variant(name).planned() or ()) for name in "ab"] == [2, 1]
    assert [len(one.planned() or ()) for one in (alike, unlike)] == [4, 3]
    assert metadata.planned() is None


def test_comparers_of_a_record_are_read_and_invalid_ones_rejected() -> None:
    data = examples.record("a").to_dict()

    assert Record.from_dict(data | {"expected": {"value": None}}).expected == Expected(value=None)
    with pytest.raises(RecordError, match="near: 1; expected tolerance"):
        Record.from_dict(data | {"expected": {"value": 1, "comparers": {"/items": {"near": 1}}}})
