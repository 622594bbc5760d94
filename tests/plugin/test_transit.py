"""Test how the schemas that an application sends to the endpoint are compared with those that its test declares."""

from __future__ import annotations

import json

import pytest

from tests.support.applications import run
from tests.support.bench import NUMBER, Bench, with_workers

LOOSE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
STRICT = {**NUMBER, "additionalProperties": False}
TESTS = f"""
import pytest
from application import ask, call

NUMBER = {NUMBER!r}
LOOSE = {LOOSE!r}
STRICT = {STRICT!r}

@pytest.mark.jsbench(schema=NUMBER)
def test_strict(jsbench):
    ask(jsbench.endpoint.openai_url, "a number", STRICT)
    (answer,) = jsbench.endpoint.answers
    assert (answer.transit.relation, answer.transit.added) == ("narrower", ("/additionalProperties",))

@pytest.mark.jsbench(schema=NUMBER, check=False)
def test_loose(jsbench):
    ask(jsbench.endpoint.openai_url, "a number", LOOSE)
    (answer,) = jsbench.endpoint.answers
    assert (answer.transit.relation, answer.transit.lost) == ("wider", ("/properties/n/minimum",))
    assert answer.transit.schemas[0].accepted

def test_undeclared(jsbench):
    ask(jsbench.endpoint.openai_url, "a number", STRICT)
    (answer,) = jsbench.endpoint.answers
    assert answer.transit is None

def test_declared(jsbench, tmp_path):
    (tmp_path / "number.json").write_text('{{"type": "object"}}')
    jsbench.endpoint.declare(tmp_path / "number.json", tools={{"save": NUMBER}}, strict=True)
    tool = {{"type": "function", "function": {{"name": "save", "parameters": LOOSE}}}}
    ask(jsbench.endpoint.openai_url, "a number", LOOSE, tools=[tool])
    (answer,) = jsbench.endpoint.answers
    assert [(each.tool, each.relation) for each in answer.transit.schemas] == [("", "narrower"), ("save", "wider")]
    assert answer.transit.lost == ("/strict", "/tools/save/strict", "/tools/save/properties/n/minimum")
"""
FAILS = f"""
import pytest
from application import ask

@pytest.mark.jsbench(schema={NUMBER!r})
def test_it(jsbench):
    ask(jsbench.endpoint.openai_url, "a number", {LOOSE!r})
"""


def arguments(bench: Bench, answer: str) -> tuple[str, ...]:
    bench.write({"answers.json": json.dumps({"*": answer})})
    return "--jsbench-engine=scripted", "--jsbench-engine-option=answers=answers.json", "--jsbench-output=out"


@with_workers
def test_comparison_is_recorded_and_counted(bench: Bench) -> None:
    bench.write({"test_app.py": TESTS})
    result = run(bench, "test_app.py", *arguments(bench, '{"n": 1}'))

    result.assert_outcomes(passed=4)
    records = {one["id"]: one for one in bench.records()}
    assert "transit" not in records["test_undeclared"]
    assert records["test_strict"]["transit"]["schemas"][0]["place"] == "/response_format/json_schema/schema"
    assert bench.run_json()["metrics"]["transit"] == {
        "equal": 0,
        "narrower": 1,
        "wider": 2,
        "different": 0,
        "unknown": 0,
        "absent": 0,
    }
    result.stdout.fnmatch_lines(["schemas * 3 calls compared with the declared schema: wider 2"])


def test_failed_answer_names_what_the_schema_lost(bench: Bench) -> None:
    bench.write({"test_app.py": FAILS})
    result = run(bench, "test_app.py", *arguments(bench, '{"n": -1}'))

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*schema: the schema that reached the endpoint accepts more values * (lost /properties/n/minimum)"]
    )


@pytest.mark.parametrize(
    ("gate", "status", "message"),
    [
        ("transit.wider<=2", 0, "transit.wider 2, gate <= 2: met"),
        ("transit.wider<=0", 1, "transit.wider 2, gate <= 0: NOT MET"),
    ],
)
def test_gate_decides_about_wider_schemas(bench: Bench, gate: str, status: int, message: str) -> None:
    bench.write({"test_app.py": TESTS})
    result = run(bench, "test_app.py", *arguments(bench, '{"n": 1}'), f"--jsbench-gate={gate}")

    assert result.ret == status
    result.stdout.fnmatch_lines([f"gate * {message}"])


def test_nothing_changes_without_a_declaration(bench: Bench) -> None:
    text = FAILS.replace("@pytest.mark.jsbench", "#")
    bench.write({"test_app.py": text})
    result = run(bench, "test_app.py", *arguments(bench, '{"n": 1}'), "--jsbench-gate=transit.wider<=0")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["gate * transit.wider n/a, gate <= 0: NOT MET, no schema was compared"])
    result.stdout.no_fnmatch_line("schemas *")
    (record,) = bench.records()
    assert "transit" not in record


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("'missing.json'", "*cannot read the schema *missing.json: *"),
        ("{'const': {1, 2}}", "*declare(): not a JSON Schema: *"),
        ("3", "*not a schema: *"),
    ],
)
def test_invalid_declaration_is_an_error_of_the_test(bench: Bench, declared: str, message: str) -> None:
    bench.write({"test_app.py": f"def test_it(jsbench):\n    jsbench.endpoint.declare({declared})\n"})
    result = run(bench, "test_app.py", *arguments(bench, '{"n": 1}'))

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([message])
