"""Test runs with several variants of engine, model and prompt."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from pytest_jsbench.plugin import worker
from pytest_jsbench.run.in_flight import CallsInFlight
from tests.support.bench import NUMBER, Bench, with_workers
from tests.support.run_files import without_times

TABLE = """
[[variants]]
name = "good"
engine = "scripted"
engine_option = { answers = "answering:good" }
[[variants]]
name = "bad"
engine = "scripted"
engine_option = { answers = "answering:bad" }
concurrency = 2
[[variants]]
name = "chatty"
engine = "scripted"
prompt = "chat"
engine_option = { answers = "answering:chatty" }
"""


@pytest.fixture
def asked(bench: Bench) -> Bench:
    """Create four cases and three variants in a table, with a log of the calls."""
    for name in "abcd":
        bench.case(name)
    bench.write({"jsbench.toml": TABLE})
    return bench


def run(bench: Bench, *args: str) -> pytest.RunResult:
    return bench.run_only("--jsbench-dataset=schemas", *args)


def newest(bench: Bench, folder: str) -> Path:
    return max((bench.path / folder).iterdir(), key=lambda path: path.stat().st_mtime_ns)


def by_variant(path: Path) -> dict[str, list[Any]]:
    """Return the records of each variant, read as a separate run."""
    found: dict[str, list[Any]] = {}
    for line in without_times([json.loads(line) for line in (path / "records.jsonl").read_text().splitlines()[1:]]):
        found.setdefault(line.pop("variant", ""), []).append(line)
    return found


@pytest.mark.slow
@with_workers
def test_resumed_run_of_variants_keeps_their_records_apart(asked: Bench) -> None:
    alone = {}
    for name in ("good", "bad", "chatty"):
        run(replace(asked, workers=()), f"--jsbench-variants={name}", f"--jsbench-output={name}")
        alone[name] = by_variant(newest(asked, name))[name]
    asked.calls()

    stopped = run(asked, "--jsbench-variants=all", "--jsbench-output=out", "-x")
    made = asked.calls()
    reported = sum(stopped.parseoutcomes()[end] for end in ("passed", "failed"))
    result = run(asked, "--jsbench-variants=all", "--jsbench-output=out", "--jsbench-resume=out", "--junitxml=j.xml")

    assert stopped.ret in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
    result.assert_outcomes(passed=6, failed=6)
    assert by_variant(newest(asked, "out")) == alone
    # calls in flight when a worker is stopped may be lost; no other call is repeated
    again = asked.calls()
    taken_over = next(int(line.split()[1]) for line in result.outlines if line.startswith("resumed "))
    assert taken_over >= reported
    assert taken_over + len(again) == 12
    assert {*made, *again} == {f"{name} {case}" for name in alone for case in "abcd"}
    header = json.loads((newest(asked, "out") / "records.jsonl").read_text().splitlines()[0])["run"]
    assert [one["variant"] for one in header["variants"]] == ["good", "bad", "chatty"]
    assert (header["engine"], header["prompt"]) == ("scripted", "2 prompts")
    assert 'name="jsbench.variant" value="chatty"' in (asked.path / "j.xml").read_text()


@pytest.mark.slow
def test_a_test_of_each_case_and_variant_is_chosen_as_any_other(asked: Bench) -> None:
    everything = ("--jsbench-variants=good,bad", "--strict-markers")

    result = run(asked, *everything, "-v")
    result.stdout.fnmatch_lines(
        [
            "jsbench: variant good: engine scripted, model scripted (json_schema), 16 in flight",
            "jsbench: variant bad: engine scripted, model scripted (json_schema), 2 in flight",
            "jsbench: dataset schemas, 4 cases in 2 variants, 18 in flight",
            *(f"jsbench::orders::{case}[[]{name}] *" for case in "abcd" for name in ("good", "bad")),
            "*_ jsbench::orders::a[[]bad] _*",
        ]
    )
    run(asked, *everything, "--lf").assert_outcomes(failed=2, deselected=6)
    for chosen, count in (
        (("-k", "bad"), 4),
        (("-m", "jsbench_variant_good"), 4),
        (("jsbench::orders::c[bad]",), 1),
        (("jsbench::orders::c",), 2),
    ):
        found = run(asked, *everything, "--collect-only", "-q", *chosen)
        found.stdout.fnmatch_lines([f"{count}/8 tests collected (*"])


def test_only_variants_whose_tests_run_have_threads(asked: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Mock(side_effect=CallsInFlight)
    monkeypatch.setattr(worker, "CallsInFlight", made)

    run(asked, "--jsbench-variants=all", "-k", "bad").assert_outcomes(passed=2, failed=2, deselected=8)

    assert [call.args for call in made.call_args_list] == [(2,)]


OWN = f"""
import pytest
@pytest.fixture
def asking(jsbench): return jsbench
@pytest.mark.jsbench(schema={NUMBER!r}, prompt="How many of {{what}}?")
@pytest.mark.parametrize("what", ["a", "b"])
def test_own(asking, what):
    assert asking.generate(what=what).instance["n"] > 0
def test_late(request):
    request.getfixturevalue("jsbench")
"""


def test_own_tests_run_for_each_variant_with_separate_answers(asked: Bench) -> None:
    asked.write({"test_own.py": OWN})
    variants = "--jsbench-variants=good,bad"

    result = run(asked, variants, "--jsbench-record=kept", "--jsbench-output=out", "test_own.py", "-ktest_own", "-rA")
    asked.calls()
    again = run(asked, variants, "--jsbench-replay=kept", "test_own.py", "-k", "test_own and not late")

    result.assert_outcomes(passed=4, errors=0, failed=1)
    lines = [f"PASSED test_own.py::test_own[[]{name}-{what}]" for name in ("bad", "good") for what in "ab"]
    result.stdout.fnmatch_lines_random([*lines, "*test_late requests the fixture jsbench at run time, so the test*"])
    assert sorted((record["variant"], record["id"]) for record in asked.records()) == [
        ("bad", "test_own-a"),
        ("bad", "test_own-b"),
        ("good", "test_own-a"),
        ("good", "test_own-b"),
    ]
    assert sorted(path.name for path in (asked.path / "kept").iterdir()) == ["bad", "good"]
    again.assert_outcomes(passed=4)
    assert asked.calls() == []


@pytest.mark.slow
def test_a_run_of_variants_is_replayed_variant_by_variant(asked: Bench) -> None:
    run(asked, "--jsbench-variants=all", "--jsbench-output=out")
    asked.calls()

    for variants in (["--jsbench-variants=all"], []):
        result = run(asked, *variants, f"--jsbench-replay={newest(asked, 'out')}", "-rf")

        result.assert_outcomes(passed=6, failed=6)
        result.stdout.fnmatch_lines(["FAILED jsbench::orders::a[[]bad] - schema_violation: *"])
    assert asked.calls() == []


def test_an_error_of_one_variant_names_it(asked: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("urllib3", reason="calls to a provider need the package urllib3")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    asked.write({"jsbench.toml": f'{TABLE}[[variants]]\nname = "paid"\nengine = "openai"\nmodel = "m"\n'})

    for args, said in (
        (("--jsbench-variants=good,paid",), "variant 'paid': engine 'openai' needs a key: set OPENAI_API_KEY"),
        (("--jsbench-variants=good,bad", "--jsbench-max-cost=1"), "variant 'good': --jsbench-max-cost: calls of "),
        (("--jsbench-variants=good,bad", "--jsbench-batch"), "--jsbench-batch: expected one variant, found "),
        (("--jsbench-variants=goods",), "--jsbench-variants: no variant 'goods' in *.toml: did you mean 'good'?"),
    ):
        result = run(asked, *args)

        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: {said}*"])


def test_a_secret_in_a_table_is_in_no_error(asked: Bench) -> None:
    table = '[[variants]]\nname = "a"\nengine = "telling:Factory"\nbase_url = "http://me:hunter2-in-a-table@host/v1"\n'
    asked.write(
        {
            "jsbench.toml": table,
            "telling.py": "def Factory(config): raise ValueError(f'cannot reach {config.base_url}')",
        }
    )

    result = run(asked, "--jsbench-variants=a")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: variant 'a': engine 'telling:Factory' cannot be built: ValueError: cannot *"])
    assert "hunter2" not in result.stdout.str() + result.stderr.str()
