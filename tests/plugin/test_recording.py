from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.plugin.conftest import NUMBER, WITHOUT_SLOW_PLUGINS, Bench

TESTS = """
import pytest
NUMBER = {schema!r}

@pytest.mark.jsbench(schema=NUMBER, prompt={prompt!r}, repeats=2)
def test_it(jsbench):
    assert jsbench.generate(text="three").instance == {{"n": 3}}
"""


@pytest.fixture
def own(bench: Bench) -> Bench:
    """One case of the suite, and one test of a project's own that runs twice."""
    bench.case("a")
    bench.case("b", '{"n": -1}')
    bench.answers["test_it"] = '{"n": 3}'
    write_test(bench)
    return bench


def write_test(bench: Bench, *, prompt: str = "Count: {text}", schema: object = NUMBER) -> None:
    bench.write({"test_one.py": TESTS.format(prompt=prompt, schema=schema)})


def run(bench: Bench, *args: str, workers: bool = True) -> pytest.RunResult:
    """Run without an engine, unless the arguments or the ini file name one."""
    quick = ["-p", "no:randomly", *WITHOUT_SLOW_PLUGINS, *(bench.workers if workers else ())]
    return bench.pytester.runpytest_inprocess(*quick, *args)


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.json"))}


def test_what_was_recorded_is_replayed_without_an_engine(own: Bench) -> None:
    own.run("test_one.py", "--jsbench-record=kept").assert_outcomes(passed=2, failed=1)
    recorded = files(own.path / "kept")
    assert list(recorded) == [
        "orders/a.json",
        "orders/b.json",
        "test_one/test_it.json",
        "test_one/test_it~2.json",
    ]
    (own.path / "answers.json").unlink()

    result = run(own, "test_one.py", "--jsbench-replay=kept", "--jsbench-dataset=schemas", "--jsbench-output=out")

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["jsbench: engine recorded, model scripted (json_schema)", "pass rate  3/4*"])
    assert {record["generation"]["type"] for record in own.records()} == {"completion"}
    assert files(own.path / "kept") == recorded


def test_a_changed_prompt_or_schema_says_so_and_how(plain: Bench) -> None:
    plain.case("a")
    plain.answers["test_it"] = '{"n": 3}'
    write_test(plain)
    plain.run("test_one.py", "--jsbench-record=kept")
    again = "record it again with --jsbench-record"

    write_test(plain, prompt="Number: {text}")
    changed_prompt = run(plain, "test_one.py", "--jsbench-replay=kept")
    write_test(plain, schema={**NUMBER, "required": ["n", "m"]})
    changed_schema = run(plain, "test_one.py", "--jsbench-replay=kept")

    changed_prompt.assert_outcomes(failed=1)
    change = 'the prompt is not the recorded one: line 1 was "Count: three", is "Number: three"'
    changed_prompt.stdout.fnmatch_lines([f"E  *api_error (engine): {change}; {again}"])
    changed_schema.stdout.fnmatch_lines(
        [f'E  *the schema is not the recorded one: $.required was [[]"n"], is [[]"n", "m"]; {again}']
    )


def test_the_ini_file_may_replay_and_the_command_line_asks_an_engine_all_the_same(plain: Bench) -> None:
    plain.answers["test_it"] = '{"n": 3}'
    write_test(plain)
    ini = "[pytest]\njsbench_engine = scripted\njsbench_engine_option = answers=answers.json\njsbench_replay = kept\n"
    plain.write({"pytest.ini": ini, "answers.json": json.dumps(plain.answers), "deep/empty.txt": ""})

    run(plain, "--jsbench-record=kept").stdout.fnmatch_lines(["jsbench: engine scripted*"])
    run(plain).stdout.fnmatch_lines(["jsbench: engine recorded*", "*1 passed*"])
    run(plain, "test_one.py", "--jsbench-engine=scripted").stdout.fnmatch_lines(["jsbench: engine scripted*"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["--jsbench-replay=kept", "--jsbench-engine=local"],
            "--jsbench-replay asks recorded answers and --jsbench-engine an engine; leave one of them out",
        ),
        (
            ["--jsbench-replay=kept", "--jsbench-record=kept"],
            "--jsbench-replay asks recorded answers and --jsbench-",
        ),
        (
            ["--jsbench-record=kept"],
            "--jsbench-record needs an engine to record: --jsbench-engine=NAME, or jsb",
        ),
        (
            ["--jsbench-replay=kept"],
            "no recorded answers: */kept is no folder; fill it with --jsbench-record and",
        ),
    ],
)
def test_what_cannot_be_both_is_one_line(plain: Bench, args: list[str], message: str) -> None:
    result = run(plain, *args)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}*"])


def test_a_run_s_own_records_can_be_replayed_too(plain: Bench) -> None:
    plain.case("a")
    plain.answers["test_it"] = '{"n": 3}'
    write_test(plain)
    plain.run("test_one.py", "--jsbench-output=out").assert_outcomes(passed=2)
    (folder,) = (plain.path / "out").iterdir()

    result = run(plain, "test_one.py", f"--jsbench-replay={folder}")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["jsbench: engine replay, model scripted*"])


def test_a_key_reaches_no_recording(plain: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "sk-very-secret")
    plain.case("a")
    plain.answers["test_it"] = '{"n": 3}'
    write_test(plain)

    plain.run("test_one.py", "--jsbench-record=kept", "--jsbench-api-key-env=SECRET_KEY")

    written = files(plain.path / "kept")
    assert written
    assert not any("secret" in text.lower() for text in written.values())
