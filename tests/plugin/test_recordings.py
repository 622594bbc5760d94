"""Test recordings kept with a project: adding missing ones, and deleting unused ones."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from pytest_jsbench.cli.main import main
from pytest_jsbench.engines.recorded import recordings
from tests.support.bench import COUNTED, NUMBER, Bench

TEST = """
@pytest.mark.jsbench(schema=NUMBER, prompt="echo {{text}}")
def test_{name}(jsbench):
    {body}
"""
ASKS = "jsbench.generate(text={text!r})"


def write(bench: Bench, **bodies: str) -> None:
    tests = "".join(TEST.format(name=name, body=body) for name, body in bodies.items())
    bench.write({"test_one.py": f"import pytest\nNUMBER = {NUMBER!r}\n{tests}"})


def asks(*texts: str) -> str:
    return "; ".join(ASKS.format(text=text) for text in texts)


def run(bench: Bench, *args: str) -> pytest.RunResult:
    if any(arg.startswith("--jsbench-record=") for arg in args):
        (bench.path / "answers.json").write_text(json.dumps(bench.answers))
        args = (*args, "--jsbench-engine=scripted", "--jsbench-engine-option=answers=answers.json")
    return bench.run_only(*args)


#: Lets the disk be full after three files, in this process and in each worker.
FULL = """
import errno, itertools
from pytest_jsbench.core import files
from pytest_jsbench.core.errors import JournalError
from pytest_jsbench.engines.recorded import recordings

written = itertools.count(1)

def write(path, text, shared):
    if next(written) > 3:
        raise JournalError(f"cannot write {path}") from OSError(errno.ENOSPC, "No space left on device")
    files.write_atomically(path, text, shared=shared)

recordings.write_atomically = write
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bench", "mode", "own"), [("plain", "new", True), ("xdist", "all", False)], indirect=["bench"]
)
def test_disk_filled_by_recordings_stops_calls_and_loses_no_answer(bench: Bench, mode: str, *, own: bool) -> None:
    bench.write({"conftest.py": FULL, "answers.json": "{}"})
    dataset = [] if own else ["--jsbench-dataset=schemas"]
    if own:
        write(bench, **{f"t{number:02}": asks(str(number)) for number in range(40)})
    for number in range(0 if own else 40):
        bench.case(f"c{number:02}")
    engine = ("--jsbench-engine=scripted", COUNTED, "--jsbench-concurrency=2")
    options = (*bench.quick, *engine, *dataset, "--jsbench-output=out")

    result = bench.pytester.runpytest_subprocess(*options, "--jsbench-record=kept", f"--jsbench-record-mode={mode}")

    processes = 2 if bench.workers else 1
    calls = bench.calls()
    assert len(names(bench)) == 3 * processes
    assert len(calls) <= 3 * processes + 2 * processes
    assert [record["generation"]["type"] for record in bench.records()] == ["completion"] * len(calls)
    assert bench.run_json()["metrics"]["missing_reasons"]["disk"] == 40 - len(calls)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = " ".join("".join(result.outlines).split())
    assert text.count("kept: No space left on device; no more calls") == 1


@pytest.mark.parametrize(("place", "mode"), [("file", "new"), ("link", "all"), ("full", "new")])
def test_unwritable_recordings_directory_is_refused_before_any_call(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, place: str, mode: str
) -> None:
    bench.write({"elsewhere/x": "", **({"kept": ""} if place == "file" else {"kept/y": ""})})
    if place == "link":
        (bench.path / "kept/orders").symlink_to(bench.path / "elsewhere", target_is_directory=True)
    if place == "full":
        full = OSError(errno.ENOSPC, "No space left on device")
        monkeypatch.setattr(recordings, "try_writing", Mock(side_effect=full))
    bench.case("c01")
    record = ("--jsbench-record=kept", f"--jsbench-record-mode={mode}")

    result = bench.run(COUNTED, *record)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    reason = {"link": "*kept/orders: it leads out of *", "full": "*kept: No space left on device; choose a writable *"}
    result.stderr.fnmatch_lines(
        ["ERROR: cannot write to " + reason.get(place, "*kept: File exists; choose a writable *")]
    )
    assert not (bench.path / "calls.txt").exists()


def names(bench: Bench) -> list[str]:
    return sorted(path.stem for path in (bench.path / "kept").rglob("*.json"))


@pytest.fixture
def recorded(bench: Bench) -> Bench:
    """Create two tests, the second with two calls, and their recorded answers."""
    bench.answers = dict.fromkeys(("test_a", "test_b", "test_b@2", "test_b@3", "test_c"), '{"n": 1}')
    write(bench, a=asks("a"), b=asks("b1", "b2"))
    run(bench, "--jsbench-record=kept").assert_outcomes(passed=2)
    return bench


def test_only_what_is_missing_is_asked_and_the_rest_is_free(recorded: Bench) -> None:
    write(recorded, a=asks("a"), b=asks("b2", "b3", "b1"), c=asks("c"))
    recorded.answers = dict.fromkeys(recorded.answers, '{"n": 2}')

    result = run(recorded, "--jsbench-record=kept", "--jsbench-record-mode=new", "--jsbench-output=out")

    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["recorded   3 of 5 answers from recordings, without calls and cost"])
    texts = {one["id"]: one["generation"]["text"] for one in recorded.records()}
    assert texts == {
        "test_a": '{"n": 1}',
        "test_b": '{"n": 1}',
        "test_b@2": '{"n": 2}',
        "test_b@3": '{"n": 1}',
        "test_c": '{"n": 2}',
    }
    by = {one["id"] for one in recorded.records() if (one["answered_by"] or {}).get("engine") == "recorded"}
    assert by == {"test_a", "test_b", "test_b@3"}
    run(recorded, "--jsbench-replay=kept").assert_outcomes(passed=3)


def test_a_remembered_answer_is_taken_over_by_a_run_that_goes_on(bench: Bench) -> None:
    bench.answers = {"test_a": '{"n": 1}'}
    write(bench, a=asks("a"))
    run(bench, "--jsbench-record=kept")
    fill_up = ["--jsbench-record=kept", "--jsbench-record-mode=new"]
    run(bench, *fill_up, "--jsbench-output=out").assert_outcomes(passed=1)

    result = run(bench, *fill_up, "--jsbench-resume=out")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["resumed    1 answer reused from *"])


def test_each_variant_has_its_own_answers_and_leftovers(bench: Bench) -> None:
    bench.answers = {"test_a": '{"n": 1}', "test_b": '{"n": 1}'}
    write(bench, a=asks("a"), b=asks("b"))
    ways = ["--jsbench-temperature=0", "--jsbench-temperature=1"]
    run(bench, *ways, "--jsbench-record=kept").assert_outcomes(passed=4)
    write(bench, a=asks("a"))

    result = run(bench, *ways, "--jsbench-record=kept", "--jsbench-record-mode=new", "--jsbench-output=out")

    result.stdout.fnmatch_lines(["recorded   2 of 2 answers from recordings, without calls and cost"])
    noted = json.loads((bench.run_in() / "recordings.json").read_text())["unasked"]
    assert set(noted) == {f"temperature-{one}/test_one/test_b.json" for one in (0, 1)}


def test_unused_recordings_are_reported_listed_and_pruned_on_request(
    recorded: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    write(recorded, b=asks("b2"))

    result = run(recorded, "--jsbench-replay=kept", "--jsbench-output=out")

    result.stdout.fnmatch_lines(["unused     2 recorded answers not used by any test; list them with jsbench*"])
    arguments = ["recordings", str(recorded.path / "kept"), "--run", str(recorded.run_in())]
    capsys.readouterr()
    assert main(arguments) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [Path(line).stem for line in listed[:-1]] == ["test_a", "test_b"]
    assert listed[-1] == "2 recordings not used by any test: --prune deletes them"
    assert names(recorded) == ["test_a", "test_b", "test_b@2"]
    assert main([*arguments, "--prune"]) == 0
    assert names(recorded) == ["test_b@2"]
    result = run(recorded, "--jsbench-replay=kept")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("unused *")


@pytest.mark.parametrize(("dataset", "unasked"), [(False, 1), (True, 2)])
def test_a_dataset_s_recordings_are_looked_at_where_the_run_has_one(bench: Bench, dataset: bool, unasked: int) -> None:
    bench.case("one")
    bench.case("two")
    bench.answers |= dict.fromkeys(("test_a", "test_b"), '{"n": 1}')
    write(bench, a=asks("a"), b=asks("b"))
    run(bench, "--jsbench-dataset=schemas", "--jsbench-record=kept", "test_one.py").assert_outcomes(passed=4)
    (bench.path / "schemas" / "orders" / "two.json").unlink()
    write(bench, b=asks("b"))
    bench.write({"pytest.ini": "[pytest]\njsbench_dataset = schemas\n" if dataset else "[pytest]\n"})

    result = run(bench, "--jsbench-replay=kept")

    result.assert_outcomes(passed=2 if dataset else 1)
    result.stdout.fnmatch_lines([f"unused     {unasked} recorded answer*"])


#: Options that run only some of the tests.
PARTS = (["test_one.py"], ["-k", "test_b"], ["--deselect=test_one.py::test_x"], ["--ignore=deep"], ["-x"])


@pytest.mark.slow
def test_a_run_of_a_part_says_nothing_of_what_it_did_not_ask_for(bench: Bench) -> None:
    bench.answers = dict.fromkeys(("test_a", "test_b"), '{"n": 1}')
    write(bench, a=asks("a"), b=asks("b"))
    run(bench, "--jsbench-record=kept")
    write(bench, b=asks("b"), x="pass")
    run(bench, "--jsbench-replay=kept").stdout.fnmatch_lines(["unused     1 recorded answer *"])

    for arguments in PARTS:
        write(bench, b=asks("b"), x="assert not 'stopped'" if "-x" in arguments else "pass")
        run(bench, "--jsbench-replay=kept", *arguments).stdout.no_fnmatch_line("unused *")
    write(bench, b=asks("b"), x="pass")
    bench.write({"test_two.py": "import pytest\npytest.skip('not here', allow_module_level=True)\n"})
    run(bench, "--jsbench-replay=kept").stdout.no_fnmatch_line("unused *")


PARAMETERS = """
import pytest

@pytest.mark.parametrize(("text", "expected"), {rows})
@pytest.mark.jsbench(schema={schema}, prompt="echo {{text}}")
def test_a(jsbench, text, expected):
    assert jsbench.generate(text=text).instance["n"] == expected
"""
ENGINE = ("--jsbench-engine=scripted", "--jsbench-engine-option=answers=answering:numbered", "--jsbench-record=kept")


def parameters(bench: Bench, *rows: tuple[str, object]) -> None:
    bench.write({"test_one.py": PARAMETERS.format(rows=rows, schema=NUMBER)})


@pytest.mark.slow
def test_recording_is_found_if_another_parameter_of_the_test_changes(bench: Bench) -> None:
    parameters(bench, ("1", 7), ("2", 7))
    bench.run_only(*ENGINE, "--jsbench-output=out").assert_outcomes(failed=2)
    parameters(bench, ("2", 2), ("1", 1))

    replayed = run(bench, "--jsbench-replay=kept")
    of_run = run(bench, "test_one.py", "--jsbench-engine=replay", "--jsbench-engine-option=records=out")
    new = bench.run_only(*ENGINE, "--jsbench-record-mode=new")

    for result in (replayed, of_run, new):
        result.assert_outcomes(passed=2)
        result.stdout.no_fnmatch_line("unused *")
    assert len(bench.calls()) == 2
    assert names(bench) == ["test_a-1-7", "test_a-2-7"]

    again = bench.run_only(*ENGINE)

    assert names(bench) == ["test_a-1-1", "test_a-1-7", "test_a-2-2", "test_a-2-7"]
    again.stdout.fnmatch_lines(["unused     2 recorded answers not used by any test; *"])


def test_each_set_of_parameters_has_its_own_answer_to_an_equal_question(bench: Bench) -> None:
    parameters(bench, ("1", 1), ("1", 2), ("3", 3))

    bench.run_only(*ENGINE, "--jsbench-record-mode=new").assert_outcomes(passed=2, failed=1)

    assert names(bench) == ["test_a-1-1", "test_a-1-2", "test_a-3-3"]


def test_a_test_that_did_not_pass_keeps_all_of_its_recordings(bench: Bench) -> None:
    bench.answers = dict.fromkeys(("test_a", "test_b", "test_b@2", "test_c", "test_d"), '{"n": 1}')
    write(bench, a=asks("a"), b=asks("b1", "b2"), c=asks("c"), d=asks("d"))
    run(bench, "--jsbench-record=kept").assert_outcomes(passed=4)
    write(bench, a="pytest.skip()", b=f"{asks('b1')}; assert not 1; {asks('b2')}", c=asks("c"))

    result = run(bench, "--jsbench-replay=kept")

    result.assert_outcomes(passed=1, failed=1, skipped=1)
    result.stdout.fnmatch_lines(["unused     1 recorded answer not used by any test; *"])
