from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tests.support.bench import NUMBER, Bench

TESTS = f"""
import pytest

@pytest.mark.jsbench(schema={NUMBER!r}, prompt="Count: {{text}}", repeats=2)
def test_it(jsbench):
    assert jsbench.generate(text="three").instance == {{"n": 3}}
"""


@pytest.fixture
def own(bench: Bench) -> Bench:
    """Make two cases of the suite, and one test of a project's own that runs twice."""
    bench.case("a")
    bench.case("b", '{"n": -1}')
    bench.answers["test_it"] = '{"n": 3}'
    bench.write({"test_one.py": TESTS})
    return bench


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.json"))}


def test_what_was_recorded_is_replayed_without_an_engine(own: Bench) -> None:
    own.run("test_one.py", "--jsbench-record=kept").assert_outcomes(passed=2, failed=1)
    recorded = files(own.path / "kept")
    assert list(recorded) == ["orders/a.json", "orders/b.json", "test_one/test_it.json", "test_one/test_it~2.json"]
    (own.path / "answers.json").unlink()

    result = own.run_only("test_one.py", "--jsbench-replay=kept", "--jsbench-dataset=schemas", "--jsbench-output=out")

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["jsbench: engine recorded, model scripted (json_schema)", "pass rate  3/4*"])
    assert {record["generation"]["type"] for record in own.records()} == {"completion"}
    assert files(own.path / "kept") == recorded


def test_engine_on_the_command_line_overrides_replay_in_the_ini_file(bench: Bench) -> None:
    bench.answers["test_it"] = '{"n": 3}'
    bench.write({"test_one.py": TESTS})
    ini = "[pytest]\njsbench_engine = scripted\njsbench_engine_option = answers=answers.json\njsbench_replay = kept\n"
    bench.write({"pytest.ini": ini, "answers.json": json.dumps(bench.answers), "deep/empty.txt": ""})

    bench.run_only("--jsbench-record=kept").stdout.fnmatch_lines(["jsbench: engine scripted*"])
    bench.run_only().stdout.fnmatch_lines(["jsbench: engine recorded*", "*1 passed*"])
    bench.run_only("test_one.py", "--jsbench-engine=scripted").stdout.fnmatch_lines(["jsbench: engine scripted*"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["--jsbench-replay=kept", "--jsbench-engine=local"],
            "--jsbench-replay uses recorded answers, and excludes --jsbench-engine; remove one",
        ),
        (
            ["--jsbench-replay=kept", "--jsbench-record-mode=new"],
            "--jsbench-record-mode=new needs a directory for recorded answers; add --jsb",
        ),
        (["--jsbench-record=kept"], "--jsbench-record needs an engine: add --jsbench-engine=NAME, or set jsb"),
        (
            ["--jsbench-replay=kept"],
            "no recorded answers: */kept is not a directory; fill it with --jsbench-record and",
        ),
    ],
)
def test_what_cannot_be_both_is_one_line(bench: Bench, args: list[str], message: str) -> None:
    result = bench.run_only(*args)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}*"])


ANY_ORDER = """
import asyncio, pytest
pytestmark = pytest.mark.anyio
@pytest.fixture
def anyio_backend(): return "asyncio"
ORDER = {order!r}
@pytest.mark.jsbench(schema=True, prompt="echo {{n}}", {terms})
async def test_it(jsbench):
    async def one(n):
        for _ in range(ORDER.index(n)):
            await asyncio.sleep(0)
        assert (await jsbench.agenerate(n=n)).instance == n
    await asyncio.gather(*map(one, (1, 2, 3)))
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("anyio") is None, reason="needs the package anyio")
def test_replayed_concurrent_questions_get_their_own_answers(bench: Bench) -> None:
    def write(order: list[int], terms: str = "") -> None:
        bench.write({"test_one.py": ANY_ORDER.format(order=order, terms=terms)})

    bench.plugins = ("anyio",)
    answers = ("test_one.py", "--jsbench-engine=scripted", "--jsbench-engine-option=answers=answering:echo")
    write([1, 2, 3])
    bench.run_only(*answers, "--jsbench-record=kept").assert_outcomes(passed=1)
    bench.run_only(*answers, "--jsbench-output=runs").assert_outcomes(passed=1)
    (bench.path / "answering.py").unlink()

    write([3, 1, 2])
    for source in ("kept", "runs"):
        folder = next((bench.path / source).iterdir()) if source == "runs" else source
        bench.run_only("test_one.py", f"--jsbench-replay={folder}").assert_outcomes(passed=1)
    write([2, 3, 1], "temperature=0.5")
    changed = bench.run_only("test_one.py", "--jsbench-replay=kept")
    strict = bench.run_only("test_one.py", "--jsbench-replay=kept", "--jsbench-replay-strict")

    changed.assert_outcomes(passed=1)
    changed.stdout.fnmatch_lines(
        ["settings   3 answers were recorded with other settings (temperature was not*", "*0.5)*"]
    )
    strict.assert_outcomes(failed=1)
    strict.stdout.fnmatch_lines(["E *the settings differ from the recording: temperature was not set, is 0.5; *"])


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("anyio") is None, reason="needs the package anyio")
def test_resumed_concurrent_questions_get_their_own_answers(bench: Bench) -> None:
    bench.plugins = ("anyio",)
    answers = ("test_one.py", "--jsbench-engine=scripted", "--jsbench-engine-option=answers=answering:echo")
    bench.write({"test_one.py": ANY_ORDER.format(order=[1, 2, 3], terms="")})
    bench.run_only(*answers, "--jsbench-output=runs").assert_outcomes(passed=1)

    bench.write({"test_one.py": ANY_ORDER.format(order=[3, 1, 2], terms="")})
    again = bench.run_only(*answers, "--jsbench-output=on", "--jsbench-resume=runs")

    again.assert_outcomes(passed=1)
    assert len(bench.calls()) == 3
    texts = {record["id"]: record["generation"]["text"] for record in bench.records("on")}
    assert sorted(texts.values()) == ["1", "2", "3"]
