"""Test applications that meet faults of the endpoint: without an engine, over an engine, and over recordings."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.applications import run
from tests.support.bench import NUMBER, Bench, with_workers

#: An application that calls again after an error of the server, and reads its answer; and options for its tests.
READING = f"""
import json
import pytest
from application import ask, text_of

NUMBER = {NUMBER!r}

class Failed(Exception):
    pass

def read(url, **how):
    for _ in range(3):
        status, body = ask(url, "a number", NUMBER, **how)
        if status == 200:
            return json.loads(text_of((status, body)))["n"]
    raise Failed(status)
"""
ALL = f"""{READING}
@pytest.mark.jsbench_faults("rate_limit", "truncate", "wrong_tool", "extra_field")
def test_it_copes(jsbench, jsbench_fault):
    with jsbench.endpoint.faults.watch() as watched:
        number = read(jsbench.endpoint.openai_url)
    expected = {{"rate_limit": "recovered", "truncate": "raised", "extra_field": "returned"}}
    assert watched.coping == expected[str(jsbench_fault)]
"""
SCRIPTED = ("--jsbench-engine=scripted", "--jsbench-engine-option=answers=answers.json")


def scripted(bench: Bench, answers: Any) -> tuple[str, ...]:
    bench.write({"answers.json": json.dumps(answers)})
    return SCRIPTED


def run_test(bench: Bench, text: str, *args: str) -> pytest.RunResult:
    bench.write({"test_app.py": text})
    return run(bench, "test_app.py", *args)


def test_faults_need_no_engine(bench: Bench) -> None:
    result = run_test(bench, ALL, "-rs")
    result.assert_outcomes(passed=3, skipped=1)
    result.stdout.fnmatch_lines(
        ["SKIPPED*the fault wrong_tool does not apply: the application's call was not answered with a tool call"]
    )


def test_endpoint_without_engine_and_faults_skips(bench: Bench) -> None:
    result = run_test(bench, f"{READING}\ndef test_it_reads(jsbench):\n    read(jsbench.endpoint.openai_url)\n", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*no engine is set*"])


def test_expected_answer_follows_the_fault(bench: Bench) -> None:
    text = f"""{READING}
@pytest.mark.jsbench(expected={{"n": 42}})
def test_it_reads(jsbench):
    jsbench.endpoint.faults.server_error(times=1)
    with jsbench.endpoint.faults.watch() as watched:
        assert read(jsbench.endpoint.openai_url) == 42
    assert watched.retries == 1

@pytest.mark.jsbench(schema={{"type": "string", "pattern": "^x+$"}})
def test_it_reads_a_pattern(jsbench):
    jsbench.endpoint.faults.server_error(times=1)
    with pytest.raises(Exception, match="no example of the answer: `pattern` needs an example"):
        with jsbench.endpoint.faults.watch():
            read(jsbench.endpoint.openai_url)
"""
    run_test(bench, text).assert_outcomes(passed=2)


def test_scripted_engine_answers_an_application(bench: Bench) -> None:
    text = f"""{READING}
def test_it_reads(jsbench):
    assert read(jsbench.endpoint.openai_url) == 7
    (answer,) = jsbench.endpoint.answers
    assert answer.verdict.passed

def test_it_streams(jsbench):
    status, body = ask(jsbench.endpoint.openai_url, "a number", NUMBER, stream=True)
    assert (status, body.count("data: "), body.endswith("data: [DONE]\\n\\n")) == (200, 7, True)
"""
    result = run_test(bench, text, *scripted(bench, {"*": '{"n":7}'}), "--jsbench-output=out")
    result.assert_outcomes(passed=2)
    assert [one["verdict"]["valid"] for one in bench.records()] == [True, True]


def test_faults_change_the_engines_answers(bench: Bench) -> None:
    text = f"""{READING}
@pytest.mark.jsbench_faults("extra_field", "cut_after", rate_limit={{"times": 3, "retry_after": None}})
def test_it_reads(jsbench, jsbench_fault):
    with jsbench.endpoint.faults.watch() as watched:
        assert read(jsbench.endpoint.openai_url) == 7
    if jsbench_fault.name == "extra_field":
        assert (watched.coping, watched.error) == ("returned", None)
        (answer,) = jsbench.endpoint.answers
        assert answer.text == '{{"n":7}}'
    else:
        assert watched.coping == "raised"
        assert watched.reports[0].error == {{"rate_limit": "Failed", "cut_after": "IncompleteRead"}}[jsbench_fault.name]
"""
    result = run_test(bench, text, *scripted(bench, {"*": '{"n":7}'}), "--jsbench-output=out")
    result.assert_outcomes(passed=3)
    # the records have the engine's own answers; the rejected calls have reached no engine
    assert {one["id"]: one["generation"]["text"] for one in bench.records()} == {
        "test_it_reads-extra_field": '{"n":7}',
        "test_it_reads-cut_after": '{"n":7}',
    }


def test_faults_are_not_recorded_and_change_recordings(bench: Bench) -> None:
    text = f"""{READING}
@pytest.mark.jsbench_faults("truncate", "extra_field")
def test_it_reads(jsbench):
    with jsbench.endpoint.faults.watch() as watched:
        assert read(jsbench.endpoint.openai_url) == 7
    assert watched.coping in ("raised", "returned")
"""
    scripted(bench, {"*": '{"n":7}'})
    run_test(bench, text, *SCRIPTED, "--jsbench-record=answers").assert_outcomes(passed=2)
    recorded = sorted(bench.path.glob("answers/*/*.json"))
    assert [path.stem for path in recorded] == ["test_it_reads-extra_field", "test_it_reads-truncate"]
    assert all(json.loads(path.read_text())["answer"]["text"] == ['{"n":7}'] for path in recorded)
    recorded[1].unlink()  # the recording of the same function with another fault is replayed
    run_test(bench, text, "--jsbench-replay=answers").assert_outcomes(passed=2)


def test_recording_answers_again_after_a_fault(bench: Bench) -> None:
    text = f"""{READING}
@pytest.mark.jsbench_faults("truncate")
def test_it_reads(jsbench):
    with jsbench.endpoint.faults.watch() as watched:
        with pytest.raises(json.JSONDecodeError):
            read(jsbench.endpoint.openai_url)
        assert read(jsbench.endpoint.openai_url) == 7
    assert watched.coping == "recovered"
"""
    scripted(bench, {"*": '{"n":7}'})
    run_test(bench, text, *SCRIPTED, "--jsbench-record=answers").assert_outcomes(passed=1)
    first, second = sorted(bench.path.glob("answers/*/*.json"))
    second.unlink()  # as recorded without the fault
    assert first.stem == "test_it_reads-truncate"
    run_test(bench, text, "--jsbench-replay=answers").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("marker", "problem"),
    [
        ('"refusee"', "unknown fault 'refusee': did you mean 'refuse'*"),
        ('refuse="twice"', "*refuse: expected a dict of arguments, found 'twice'"),
    ],
)
def test_invalid_marker_is_a_collection_error(bench: Bench, marker: str, problem: str) -> None:
    result = run_test(bench, f"{READING}\n@pytest.mark.jsbench_faults({marker})\ndef test_it(jsbench):\n    pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*test_app.py::test_it: {problem}"])


def test_marker_without_the_fixture_does_nothing(bench: Bench) -> None:
    text = "import pytest\npytestmark = pytest.mark.jsbench_faults\ndef test_other():\n    pass\n"
    run_test(bench, text, "--strict-markers").assert_outcomes(passed=1)


def test_fault_that_no_call_meets_fails_the_test(bench: Bench) -> None:
    text = f"{READING}\n@pytest.mark.jsbench_faults('refuse')\ndef test_it(jsbench):\n    jsbench.endpoint.openai_url\n"
    result = run_test(bench, text, *scripted(bench, {"*": '{"n":7}'}))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the fault refuse was not injected: the application made no call*"])
    run_test(bench, text).assert_outcomes(passed=1, errors=1)


REPORTED = f"""{READING}
@pytest.mark.jsbench_faults("rate_limit", "truncate", "wrong_tool", "extra_field")
def test_it_copes(jsbench):
    with jsbench.endpoint.faults.watch():
        read(jsbench.endpoint.openai_url)

@pytest.mark.jsbench_faults("refuse")
def test_it_catches(jsbench):
    with pytest.raises(TypeError):
        read(jsbench.endpoint.openai_url)
"""
MATRIX = {
    "test_it_copes-rate_limit": ("rate_limit", "recovered", 2, ""),
    "test_it_copes-truncate": ("truncate", "raised", 0, "JSONDecodeError"),
    "test_it_copes-extra_field": ("extra_field", "returned", 0, ""),
    "test_it_catches-refuse": ("refuse", "unobserved", 0, ""),
}


def matrix(bench: Bench) -> dict[str, tuple[Any, ...]]:
    reports = bench.run_json()["run"]["fault_reports"]
    return {one["id"]: (one["fault"], one["coping"], len(one["waits"]), one["error"]) for one in reports}


@with_workers
def test_report_says_how_the_application_coped(bench: Bench) -> None:
    args = ("--jsbench-engine=application", "--jsbench-output=out", "--junitxml=junit.xml")
    result = run_test(bench, REPORTED, *args)
    result.assert_outcomes(passed=4, skipped=1)
    assert result.ret == 0
    assert matrix(bench) == MATRIX
    metrics = bench.run_json()["metrics"]
    assert metrics["coping"] == {"recovered": 1, "raised": 1, "returned": 1, "hung": 0, "unobserved": 1}
    assert (metrics["planned"], metrics["passed"], metrics["pass_rate"]) == (0, 0, None)
    result.stdout.fnmatch_lines(
        [
            "faults * 4 injected: recovered 1, raised 1, returned 1, unobserved 1",
            "*rate_limit: recovered; called again 2 times, after *",
            "*Retry-After 0.1 s was ignored in 1 test",
            "*truncate: raised; JSONDecodeError",
            "*extra_field: returned without an exception after a broken or missing*",
            "*refuse: unobserved; call the application within*",
            "verdict * PASSED: no attempt was made, and no test failed with 4 injected",
        ]
    )
    cases = ElementTree.parse(bench.path / "junit.xml").iter("testcase")
    properties = {
        case.get("name"): {one.get("name"): one.get("value") for one in case.iter("property")} for case in cases
    }
    assert properties["test_it_copes[rate_limit]"] == {
        "jsbench.faults": "rate_limit",
        "jsbench.coping": "recovered",
        "jsbench.fault_retries": "2",
    }
    assert properties["test_it_copes[wrong_tool]"] == {}


@pytest.mark.parametrize(
    ("gate", "status", "message"),
    [
        ("coping.returned<=1", 0, "coping.returned 1, gate <= 1: met"),
        ("coping.returned<=0", 1, "coping.returned 1, gate <= 0: NOT MET"),
        ("coping.hung<=0", 0, "coping.hung 0, gate <= 0: met"),
    ],
)
def test_gate_decides_about_the_matrix(bench: Bench, gate: str, status: int, message: str) -> None:
    result = run_test(bench, REPORTED, "--jsbench-engine=application", f"--jsbench-gate={gate}")
    assert result.ret == status
    result.stdout.fnmatch_lines([f"gate * {message}"])


def test_gate_without_faults_is_not_met(bench: Bench) -> None:
    text = f"{READING}\ndef test_it_reads(jsbench):\n    assert read(jsbench.endpoint.openai_url) == 7\n"
    answers = scripted(bench, {"*": '{"n":7}'})
    result = run_test(bench, text, *answers, "--jsbench-gate=coping.returned<=0", "--jsbench-output=out")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["gate *coping.returned n/a, gate <= 0: NOT MET, no fault was injected"])
    result.stdout.no_fnmatch_line("faults *")
    assert "fault_reports" not in bench.run_json()["run"]


def test_attempts_count_without_the_faults(bench: Bench) -> None:
    answers = scripted(bench, {"*": '{"n":7}'})
    result = run_test(bench, REPORTED, *answers, "--jsbench-output=out")
    assert matrix(bench) == MATRIX
    metrics = bench.run_json()["metrics"]
    # the engine's own answers, also behind a fault; a refusal and a rejected call are none
    assert (metrics["planned"], metrics["passed"], metrics["failed"]) == (4, 4, 0)
    assert result.ret == 0


def test_failed_test_keeps_its_faults(bench: Bench) -> None:
    text = f"""{READING}
@pytest.mark.jsbench_faults("extra_field")
def test_it_copes(jsbench):
    with jsbench.endpoint.faults.watch() as watched:
        read(jsbench.endpoint.openai_url)
    assert watched.coping in ("recovered", "raised")
"""
    result = run_test(bench, text, "--jsbench-engine=application", "--jsbench-output=out")
    assert result.ret == 1
    assert matrix(bench) == {"test_it_copes-extra_field": ("extra_field", "returned", 0, "")}
    result.stdout.no_fnmatch_line("*failed without a call of the engine*")
    assert bench.run_json()["metrics"]["tests_passed"] is None  # neither this test nor a passed one counts


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("careless(url).bit_length()", "AttributeError: 'NoneType' object has no attribute 'bit_length'"),
        ("assert careless(url) == 7", "assert None == 7"),
    ],
)
def test_error_of_the_test_itself_is_not_the_applications(bench: Bench, line: str, error: str) -> None:
    text = f"""{READING}
def careless(url):
    try:
        return read(url)
    except TypeError:
        return None

@pytest.mark.jsbench_faults("refuse")
def test_it_copes(jsbench):
    url = jsbench.endpoint.openai_url
    with jsbench.endpoint.faults.watch():
        {line}
"""
    args = ("--jsbench-engine=application", "--jsbench-output=out", "--jsbench-gate=coping.returned<=0")
    result = run_test(bench, text, *args)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*{error}", "gate * coping.returned 1, gate <= 0: NOT MET"])
    assert matrix(bench) == {"test_it_copes-refuse": ("refuse", "returned", 0, "")}


def test_test_that_is_skipped_in_a_watched_block_is_unobserved(bench: Bench) -> None:
    text = f"""{READING}
@pytest.mark.jsbench_faults("extra_field")
def test_it_copes(jsbench):
    with jsbench.endpoint.faults.watch():
        read(jsbench.endpoint.openai_url)
        pytest.skip("not today")
"""
    run_test(bench, text, "--jsbench-engine=application", "--jsbench-output=out").assert_outcomes(skipped=1)
    assert matrix(bench) == {"test_it_copes-extra_field": ("extra_field", "unobserved", 0, "")}


def test_example_that_does_not_conform_is_no_fault(bench: Bench) -> None:
    text = f"""{READING}
@pytest.mark.jsbench(expected={{"m": 42}})
@pytest.mark.jsbench_faults("truncate")
def test_it_copes(jsbench):
    with jsbench.endpoint.faults.watch():
        read(jsbench.endpoint.openai_url)
"""
    result = run_test(bench, text, "--jsbench-engine=application", "--jsbench-output=out")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*the marker's `expected` does not conform: schema_violation: *; complete it, or set an engine",
        ]
    )
    assert "fault_reports" not in bench.run_json()["run"]


def test_application_engine_answers_tests_without_faults(bench: Bench) -> None:
    text = f"""{READING}
@pytest.mark.jsbench(expected={{"n": 42}})
def test_it_reads(jsbench):
    assert read(jsbench.endpoint.openai_url) == 42

def test_it_reads_an_example(jsbench):
    assert read(jsbench.endpoint.openai_url) == 1
    assert jsbench.endpoint.answers == ()
"""
    result = run_test(bench, text, "--jsbench-engine=application", "--jsbench-output=out")
    result.assert_outcomes(passed=2)
    assert (result.ret, bench.lines()) == (0, [])


def test_repeats_meet_the_fault_again(bench: Bench) -> None:
    text = f"""{READING}
@pytest.mark.jsbench(repeats=2)
@pytest.mark.jsbench_faults("server_error")
def test_it_copes(jsbench):
    with jsbench.endpoint.faults.watch() as watched:
        read(jsbench.endpoint.openai_url)
    assert (watched.coping, watched.retries) == ("recovered", 2)
"""
    run_test(bench, text, "--jsbench-engine=application", "--jsbench-output=out").assert_outcomes(passed=1)
    reports = bench.run_json()["run"]["fault_reports"]
    assert [(one["repeat"], one["injected"]) for one in reports] == [(0, 2), (1, 2)]
