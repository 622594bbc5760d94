"""Test the judging of answers that an application already has, in any session and as attempts of a run."""

from __future__ import annotations

import json
from importlib.util import find_spec
from xml.etree import ElementTree

import pytest

from tests.support.bench import NUMBER, WITHOUT_SLOW_PLUGINS, Bench
from tests.support.project_tests import run_one

CHECKED = """
pytestmark = pytest.mark.jsbench(schema=NUMBER, prompt="echo {text}")

def test_conforms(jsbench):
    answer = jsbench.check(
        '{"n": 1}',
        messages="A number?",
        usage={"prompt_tokens": 9, "completion_tokens": 5},
        model="gpt-4o",
        provider="openai",
        expected={"n": 2},
    )
    assert (answer.instance, answer.text, answer.match.right) == ({"n": 1}, '{"n": 1}', 0)
    assert (answer.usage.input_tokens, answer.timing) == (9, None)

def test_does_not(jsbench):
    jsbench.check({"n": -1})

def test_is_looked_at(jsbench):
    assert jsbench.check(b"[]", check=False, schema={"type": "array"}).verdict.passed
    assert jsbench.check("no", check=False).verdict.failure_type == "syntax_error"

def test_is_wrong(jsbench):
    assert jsbench.check({"n": 1}).instance["n"] == 2
"""


def test_each_is_an_attempt_of_the_run(bench: Bench) -> None:
    result = run_one(bench, CHECKED, "--jsbench-output=out", "--junitxml=junit.xml", "--jsbench-gate=pass_rate>=0.9")

    result.assert_outcomes(passed=2, failed=2)
    assert not (bench.path / "calls.txt").exists()
    records = {one["id"]: one for one in bench.records()}
    assert {name: one["verdict"]["failure_type"] for name, one in records.items()} == {
        "test_conforms": None,
        "test_does_not": "schema_violation",
        "test_is_looked_at": None,
        "test_is_looked_at@2": "syntax_error",
        "test_is_wrong": None,
    }
    first = records["test_conforms"]
    assert first["answered_by"] == {"engine": "application", "model": "gpt-4o", "provider": "openai"}
    assert first["prompt"]["messages"] == [{"role": "user", "content": "A number?"}]
    assert first["generation"]["usage"]["output_tokens"] == 5
    assert (records["test_does_not"]["prompt"], records["test_does_not"]["answered_by"]["model"]) == (None, "unknown")
    assert records["test_is_wrong"]["test_outcome"]["cause"] == "assertion"
    metrics = bench.run_json()["metrics"]
    assert (metrics["passed"], metrics["planned"], metrics["input_tokens"]) == (3, 5, 9)
    assert (metrics["cost"] or 0) > 0 or find_spec("genai_prices") is None
    result.stdout.fnmatch_lines(["gate       pass_rate 3/5 = 0.6, gate >= 0.9: NOT MET"])
    failures = [one.get("type") for one in ElementTree.parse(bench.path / "junit.xml").iter("failure")]
    assert "schema_violation" in failures
    (page,) = bench.path.glob("out/*/report.html")
    assert page.stat().st_size


def test_without_a_run_it_is_judged_all_the_same_and_who_asks_is_skipped(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import pytest\nNUMBER = {'type': 'object', 'properties': {'n': {'minimum': 0}}}\n"
        + CHECKED
        + "def test_asks(jsbench): jsbench.generate(), jsbench.check({'n': -1})\n"
        "def test_asks_too(jsbench): jsbench.check({'n': 1}), jsbench.generate(), jsbench.check({'n': -1})\n"
        "def test_has_an_address(jsbench): jsbench.check({'n': 1}), jsbench.endpoint.url\n"
        "def test_has_more(jsbench): jsbench.check({'n': 1, 'm': 1})\n"
    )

    result = pytester.runpytest_inprocess(*WITHOUT_SLOW_PLUGINS, "-rs")

    result.assert_outcomes(passed=2, failed=3, skipped=3)
    result.stdout.fnmatch_lines(["*schema_violation: $.n: -1 is less than the minimum of 0", "*no engine is set; *"])
    result.stdout.no_fnmatch_line("*jsbench: *")
    # as strictly as a run does
    allowed = pytester.runpytest_inprocess(*WITHOUT_SLOW_PLUGINS, "--jsbench-extra-fields=allow", "-k", "has_more")
    allowed.assert_outcomes(passed=1, deselected=7)


def test_a_run_of_nothing_else_has_the_engine_application(bench: Bench) -> None:
    asks = CHECKED + "def test_asks(jsbench): jsbench.generate(text='1')\n"
    bench.write({"test_one.py": f"import pytest\nNUMBER = {NUMBER!r}\n{asks}"})

    arguments = (
        "--jsbench-engine=application",
        "--jsbench-model=m",
        "--jsbench-output=out",
        "--jsbench-gate=passed>=4",
    )
    result = bench.run_only(*arguments, "test_one.py")

    result.assert_outcomes(passed=2, failed=3)
    run = bench.run_json()
    assert (run["run"]["engine"], run["metrics"]["passed"]) == ("application", 3)
    result.stdout.fnmatch_lines(
        [
            "*api_error (engine): engine 'application' cannot generate answers: pass *",
            "*jsbench: application m *",
            "gate       passed 3, gate >= 4: NOT MET",
        ]
    )


def test_check_uses_no_recording_no_earlier_run_and_no_limit(bench: Bench) -> None:
    def code(n: int) -> str:
        return (
            "@pytest.mark.jsbench(schema=NUMBER, prompt='echo {text}')\n"
            "def test_it(jsbench):\n"
            f"    assert jsbench.check({{'n': {n}}}, messages='echo {{\"n\": 7}}').instance == {{'n': {n}}}\n"
            "    assert jsbench.generate(text='{\"n\": 7}').instance == {'n': 7}\n"
        )

    run_one(bench, code(1), "--jsbench-output=out", "--jsbench-record=answers").assert_outcomes(passed=1)
    assert len(list((bench.path / "answers").rglob("*.json"))) == 1

    replayed = bench.run_only("--jsbench-replay=answers", "test_one.py")
    replayed.assert_outcomes(passed=1)
    again = run_one(bench, code(2), "--jsbench-output=again", "--jsbench-resume=out", "--jsbench-rpm=1")
    again.assert_outcomes(passed=1)
    again.stdout.fnmatch_lines(["resumed    1 answer reused from *"])
    assert json.loads(bench.records("again")[0]["generation"]["text"]) == {"n": 2}
    of_run = bench.run_only(f"--jsbench-replay={bench.run_in()}", "test_one.py")
    of_run.assert_outcomes(passed=1)


def test_no_secret_and_no_private_text_of_it_is_written(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-somebody-0123456789")
    code = (
        "import os\n"
        "@pytest.mark.jsbench(schema={'type': 'string'})\n"
        "def test_it(jsbench): jsbench.check('\"' + os.environ['OPENAI_API_KEY'] + '\"')\n"
    )

    run_one(bench, code, "--jsbench-output=out").assert_outcomes(passed=1)
    code = code.replace("os.environ['OPENAI_API_KEY']", "'private'")
    run_one(bench, code, "--jsbench-output=kept", "--jsbench-redact").assert_outcomes(passed=1)

    (one,) = bench.records()
    assert (set(one["generation"]["text"]), one["generation"]["secret_replaced"]) == ({'"', "*"}, True)
    assert "private" not in json.dumps(bench.records("kept"))


OBJECTS = """
from pydantic import BaseModel, Field, SecretStr, computed_field

class Bill(BaseModel):
    model_config = {"extra": "forbid"}
    total: int = Field(validation_alias="in", serialization_alias="out")
    key: SecretStr = Field(min_length=12)

    @computed_field
    def double(self) -> int:
        return 2 * self.total

BILL = Bill.model_validate({"in": 3, "key": "confidential-key"})

@pytest.mark.jsbench(schema=Bill)
def test_object(jsbench):
    answer = jsbench.check(BILL, expected=BILL)
    assert answer.parsed is BILL
    assert answer.match.exact

@pytest.mark.jsbench(schema={"properties": {"out": {"type": "integer"}, "double": {}, "key": {}}})
def test_plain_schema(jsbench):
    assert jsbench.check(BILL).parsed["out"] == 3

@pytest.mark.jsbench(schema=list[Bill])
def test_list(jsbench):
    assert jsbench.check([BILL]).instance[0]["double"] == 6

@pytest.mark.jsbench(schema=Bill, expected=Bill.model_validate({"in": 3, "key": "another-secret"}))
def test_text(jsbench):
    text = '{"in": 3, "key": "another-secret"}'
    assert jsbench.check(text).match.exact
    assert not jsbench.check(text, mode="serialization", check=False).verdict.passed
    assert not jsbench.using(mode="serialization").check(text, check=False).verdict.passed

@pytest.mark.jsbench(schema=Bill, mode="serialization")
def test_marker(jsbench):
    assert jsbench.check('{"out": 3, "double": 6, "key": "************"}').instance["out"] == 3
    assert not jsbench.check('{"in": 3, "key": "another-secret"}', check=False).verdict.passed
"""


def test_objects_are_judged_by_the_schema_of_their_form(bench: Bench) -> None:
    result = run_one(bench, OBJECTS, "--jsbench-output=out")

    result.assert_outcomes(passed=5)
    assert "confidential-key" not in json.dumps(bench.records())


def test_unknown_mode_names_the_modes(bench: Bench) -> None:
    source = """
@pytest.mark.jsbench(schema={}, mode="both")
def test_mode(jsbench):
    jsbench.check("{}")
"""
    result = run_one(bench, source)

    assert "mode: expected 'validation' or 'serialization', found 'both'" in result.stdout.str()
