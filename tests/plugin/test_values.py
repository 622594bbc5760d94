from __future__ import annotations

import json
from xml.etree import ElementTree

from tests.support.bench import NUMBER, Bench

INVOICE = {
    "type": "object",
    "properties": {"total": {"type": "number", "x-jsbench-compare": {"tolerance": 0.01}}, "vendor": {"type": "string"}},
    "required": ["total", "vendor"],
}


def expect(bench: Bench, name: str, value: object) -> None:
    bench.write({f"schemas/orders/{name}.expected.json": json.dumps(value)})


def test_values_are_next_to_the_verdict_in_every_output(bench: Bench) -> None:
    bench.case("right", '{"total": 99.505, "vendor": "ACME"}', schema=INVOICE)
    bench.case("wrong", '{"total": 95.9, "vendor": "ACME"}', schema=INVOICE)
    bench.case("broken", '{"total": 1}', schema=INVOICE)
    bench.case("refused", {"decline": "refusal"}, schema=INVOICE)
    bench.case("unasked")
    for name in ("right", "wrong", "broken", "refused"):
        expect(bench, name, {"total": 99.5, "vendor": "ACME"})

    result = bench.run("--jsbench-output=out", "--jsbench-gate=fields.total.accuracy>=0.5", "--junitxml=junit.xml")

    # a wrong value fails no test
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines(
        [
            "Task *Declared *Values right *",
            "values     3/8 = 0.375 (95 % interval 0.028 to 0.877) right, 3/4 = 0.750 in",
            "           answers that conform; 1/4 = 0.250 answers entirely right; precision",
            "           0.750, F1 0.500; least often right: total 1/4, vendor 2/4",
            "gate       fields.total.accuracy 1/4 = 0.25, gate >= 0.5: NOT MET",
        ]
    )
    metrics = bench.run_json()["metrics"]
    assert (metrics["value_accuracy"], metrics["value_accuracy_conforming"], metrics["exact_match"]) == (
        0.375,
        0.75,
        0.25,
    )
    assert (metrics["fields"]["vendor.right"], metrics["fields"]["vendor.expected"]) == (2, 4)
    records = {one["id"]: one for one in bench.records()}
    assert records["wrong"]["match"]["differences"] == [
        {"path": "$.total", "fault": "wrong", "expected": 99.5, "found": 95.9}
    ]
    assert records["wrong"]["verdict"]["failure_type"] is None
    assert "x-jsbench-compare" not in json.dumps([records["right"]["schema"], records["right"]["prompt"]])
    assert "match" not in records["unasked"]
    cases = ElementTree.parse(bench.path / "junit.xml").iter("property")
    said = sorted(one.get("value", "") for one in cases if one.get("name") == "jsbench.values")
    assert said == ["0/2", "0/2", "1/2", "2/2"]


def test_rows_expect_values_and_an_option_says_how_they_are_compared(bench: Bench) -> None:
    rows = [
        {"id": "a", "schema": NUMBER, "prompt": "?", "expected": {"n": 5}},
        {"id": "bad", "schema": {"x-jsbench-compare": {"near": 1}}, "prompt": "?", "expected": 1},
    ]
    bench.write({"rows.jsonl": "\n".join(map(json.dumps, rows))})
    bench.answers["a"] = '{"n": 6}'

    result = bench.run(
        "--jsbench-dataset=rows.jsonl", "--jsbench-comparer=n=tolerance:1", "-rs", "--jsbench-output=out"
    )

    assert bench.run_json()["run"]["comparers"] == {"n": "tolerance:1"}
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*(bad_comparer): *x-jsbench-compare at /: near: 1; expected tolerance*"])
    result.stdout.fnmatch_lines(["values     1/1 = 1.000 (95 % interval 0.025 to 1.000) right*"])


def test_answers_that_are_there_are_compared_with_what_is_expected_now(bench: Bench) -> None:
    bench.case("a", '{"n": 1}')
    bench.run("--jsbench-output=out")
    expect(bench, "a", {"n": 2})
    bench.answers["a"] = {"fault": "bad_request"}

    result = bench.run("--jsbench-output=again", "--jsbench-resume=out")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["values     0/1 = 0.000 (95 % interval 0.000 to 0.975) right*"])


TEST = """
import pytest
from pytest_jsbench import assert_conforms

N = {"type": "object", "properties": {"n": {"type": "integer", "x-jsbench-compare": {"tolerance": 1}}}}

@pytest.mark.jsbench(schema=N, prompt="{x}", expected={"n": 2})
def test_marker(jsbench):
    assert jsbench.generate(x=1).match.exact
    found = jsbench.generate(x=1, expected={"n": 9, "m": 0}).match
    assert (found.right, found.expected) == (0, 2)

def test_values_alone():
    assert_conforms(N, '{"n": 1}', expected={"n": 2})
    with pytest.raises(AssertionError, match="0 of 1 values are right"):
        assert_conforms(N, '{"n": 1}', expected={"n": 5})
"""


def test_a_project_s_own_test_says_what_it_expects(bench: Bench) -> None:
    bench.write({"test_own.py": TEST})
    bench.case("a")
    bench.answers["*"] = '{"n": 1}'

    result = bench.run("test_own.py", "--jsbench-output=out")

    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["values     1/3 = 0.333 (95 % interval 0.001 to 0.970) right*"])
