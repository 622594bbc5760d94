"""Tests of --jsbench-reduce, which reduces the first distinct failures at the end of a run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.plugin import failure_reductions
from pytest_jsbench.run.reduction.same_failure import FailurePattern
from tests.support.bench import Bench

TEXT = {"type": "object", "properties": {"acme": {"type": "string"}, "n": {"type": "integer"}}, "required": ["acme"]}
ANSWERS = '''
def empty(request):
    """Answer with an empty text, or 1, for each property; add nothing that is required."""
    schema = request.schema if isinstance(request.schema, dict) else {}
    properties = schema.get("properties", {}).items()
    return {"instance": {name: 1 if part.get("type") == "integer" else "" for name, part in properties}}
'''
CHANGING = '''
def change(request):
    """Answer with empty texts, or with numbers in each second attempt."""
    schema = request.schema if isinstance(request.schema, dict) else {}
    return {"instance": {name: 1 if request.repeat % 2 else "" for name in schema.get("properties", {})}}
'''


def long_text(length: int) -> dict[str, Any]:
    return {**TEXT, "properties": {"acme": {"type": "string", "minLength": length}, "n": {"type": "integer"}}}


@pytest.fixture
def failing(bench: Bench) -> Bench:
    """Write two cases with the same failure, and one with another."""
    for name, schema in {"a": long_text(7), "b": long_text(9), "c": {"minProperties": 1}}.items():
        bench.case(name, schema=json.dumps(schema))
    bench.write({"empties.py": ANSWERS})
    return bench


ENGINE = ("--jsbench-engine=scripted", "--jsbench-engine-option=answers=empties:empty", "--jsbench-output=out")


def test_first_distinct_failures_are_reduced(failing: Bench) -> None:
    result = failing.run(*ENGINE, "--jsbench-reduce=3")

    folder = failing.run_in() / "reduced" / "orders"
    assert sorted(path.name for path in folder.iterdir()) == ["a", "c"]
    assert json.loads((folder / "a" / "reduced.json").read_text("utf-8")) == {"properties": {"a": {"minLength": 1}}}
    reduced = [line for line in result.outlines if line.startswith("reduced")]
    assert [line.split()[1] for line in reduced] == ["orders::a:", "orders::c:"]
    assert "schema_violation (minLength), " in reduced[0]
    result.assert_outcomes(failed=3)


def test_number_of_reductions_is_limited(failing: Bench) -> None:
    result = failing.run(*ENGINE, "--jsbench-reduce=1")

    assert sum(line.startswith("reduced") for line in result.outlines) == 1
    assert [path.name for path in (failing.run_in() / "reduced" / "orders").iterdir()] == ["a"]


def test_failures_of_other_processes_are_reduced(failing: Bench) -> None:
    result = failing.run(*ENGINE, "--jsbench-reduce=1", "-n2")

    assert sum(line.startswith("reduced") for line in result.outlines) == 1


def test_failures_of_a_variant_that_replays_answers_are_passed_over(failing: Bench) -> None:
    failing.run(*ENGINE)
    failing.write(
        {
            "pyproject.toml": f"""
            [tool.pytest.ini_options]
            [[tool.jsbench.variants]]
            name = "before"
            engine = "replay"
            engine_option = {{ records = "{failing.run_in().as_posix()}" }}
            [[tool.jsbench.variants]]
            name = "now"
            engine = "scripted"
            engine_option = {{ answers = "empties:empty" }}
            """
        }
    )

    options = ("--jsbench-dataset=schemas", "--jsbench-output=both", "--jsbench-reduce=1")
    result = failing.run_only("--jsbench-variants=all", *options)

    (line,) = (line for line in result.outlines if line.startswith("reduced"))
    assert "orders::a: schema_violation (minLength)" in line


def test_without_the_option_nothing_is_reduced(failing: Bench) -> None:
    result = failing.run(*ENGINE)

    assert not any(line.startswith("reduced") for line in result.outlines)
    assert not (failing.run_in() / "reduced").exists()


def test_redacted_run_is_not_reduced(failing: Bench) -> None:
    result = failing.run(*ENGINE, "--jsbench-reduce=1", "--jsbench-redact")

    result.stdout.fnmatch_lines(["reduced * nothing was reduced: the run is redacted (--jsbench-redact), and*"])
    assert not (failing.run_in() / "reduced").exists()


def test_network_fault_is_not_reduced(bench: Bench) -> None:
    bench.case("a", {"fault": "connection"})

    result = bench.run("--jsbench-reduce=1", "--jsbench-retries=0")

    result.stdout.fnmatch_lines(["reduced * nothing to reduce: no attempt has a failure that a schema causes"])


def test_attempts_of_one_case_with_different_failures_are_each_reduced(bench: Bench) -> None:
    schema = {"type": "object", "properties": {"acme": {"type": "string", "minLength": 7}}, "required": ["acme"]}
    bench.case("a", schema=json.dumps(schema))
    bench.write({"changing.py": CHANGING})

    result = bench.run(
        "--jsbench-engine=scripted",
        "--jsbench-engine-option=answers=changing:change",
        "--jsbench-output=out",
        "--jsbench-repeats=2",
        "--jsbench-reduce=2",
    )

    reduced = [line for line in result.outlines if line.startswith("reduced")]
    assert ["(minLength)" in reduced[0], "(type)" in reduced[1]] == [True, True]
    folder = bench.run_in() / "reduced" / "orders"
    assert sorted(path.name for path in folder.iterdir()) == ["a", "a~2"]


@pytest.mark.parametrize(
    ("holder", "name", "error", "lines"),
    [
        (
            failure_reductions,
            "make_target",
            KeyboardInterrupt(),
            ["reduced * interrupted: the other failures were not reduced"],
        ),
        (
            failure_reductions,
            "write_files",
            OSError(28, "No space left on device"),
            [f"reduced * orders::{name} was not reduced: OSError: *" for name in "ac"],
        ),
        (
            FailurePattern,
            "of",
            RecordError("the file has changed"),
            ["reduced * ended early: the file has changed"],
        ),
    ],
)
def test_run_is_complete_if_a_reduction_cannot_end(
    failing: Bench, monkeypatch: pytest.MonkeyPatch, holder: object, name: str, error: BaseException, lines: list[str]
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(holder, name, fail)

    result = failing.run(*ENGINE, "--jsbench-reduce=2", "--junit-xml=junit.xml")

    result.stdout.fnmatch_lines(lines)
    assert sum(line.startswith("reduced") for line in result.outlines) == len(lines)
    result.assert_outcomes(failed=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "jsbench." in (failing.path / "junit.xml").read_text("utf-8")
