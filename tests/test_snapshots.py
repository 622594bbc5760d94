"""Compare the outputs of runs of each kind, and of commands, with reviewed files."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.bench import Bench
from tests.support.commands import of_variants, ran, run, shown
from tests.support.enforcing_server import Enforcing
from tests.support.faulty_chat import PLANTED, FaultyChat
from tests.support.kinds_of_runs import RUNS
from tests.support.output_texts import text_of_json, text_of_junit, text_of_page, text_of_terminal, without_times
from tests.support.provider import Provider
from tests.support.snapshots import FOLDER, Snapshots

pytest.importorskip("jinja2", reason="needs the extra report")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="paths have backslashes there")


@pytest.fixture
def snapshots(request: pytest.FixtureRequest, pytester: pytest.Pytester) -> Snapshots:
    return Snapshots(root=pytester.path, is_updating=request.config.getoption("--update-snapshots"))


@pytest.mark.parametrize("name", RUNS)
def test_outputs_of_a_run_are_as_reviewed(
    name: str, bench: Bench, snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    kind = RUNS[name]
    arguments = kind.prepare(bench)
    bench.write({"answers.json": json.dumps(bench.answers)})

    result = bench.run_only(*arguments, "--jsbench-output=out", "--junitxml=junit.xml")

    assert result.ret == kind.status
    folder = bench.run_in()
    texts = {
        "terminal.txt": text_of_terminal(result),
        "summary.md": (folder / "summary.md").read_text("utf-8"),
        "report.txt": text_of_page((folder / "report.html").read_text("utf-8")),
        "junit.xml": text_of_junit(bench.path / "junit.xml"),
        "run.json": text_of_json((folder / "run.json").read_text("utf-8")),
    }
    snapshots.check({f"{name}.{output}": without_times(texts[output]) for output in kind.outputs})


def three_runs(folder: Path) -> tuple[Path, ...]:
    return (
        run(folder / "a.json", "flash", 18, cost=0.008),
        run(folder / "b.json", "turbo", 8, cost=0.004),
        run(folder / "c.json", "mini", 17),
    )


def compare(folder: Path) -> str:
    return shown("compare", *three_runs(folder))


def store_nightly_runs(folder: Path) -> Path:
    for number, ends in enumerate(("pppppp", "pppppv", "vvvvvv")):
        path = of_variants(folder / f"run{number}", gpt="pppppp", mini=ends) / "run.json"
        path.write_text(path.read_text("utf-8").replace("2026-11-21T", f"2026-11-2{number}T"), "utf-8")
    return folder


def show_history(folder: Path) -> str:
    return shown("history", "--file", store_nightly_runs(folder / "runs"))


def show_history_as_markdown(folder: Path) -> str:
    return shown("history", "--file", store_nightly_runs(folder / "runs"), "--markdown")


def plan(folder: Path) -> str:
    return shown("plan", run(folder / "a.json", "m", 18, cost=0.4), "--repeats", "3")


def judge(folder: Path) -> str:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "required": ["n"]}
    lines: list[dict[str, object]] = [
        {"schema": schema, "text": '{"n": 1}', "id": "good"},
        {"schema": schema, "text": '{"n": -1}', "id": "low\x1b[31m"},
        {"schema": schema, "text": '{"n": 1, "n": 2}'},
        {"schema": schema, "text": '{"n": 1, "more": true}'},
        {"schema": schema, "text": 'Sure! {"n": 1}'},
        {"schema": True, "text": '{"n": ', "truncated": True},
    ]
    path = folder / "answers.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return ran("judge", path, "-v")[1]


def list_engines(_folder: Path) -> str:
    """List engines and presets, without the installed extensions, which are those of the machine."""
    return shown("engines").partition("\nExtension")[0]


def show_preset(_folder: Path) -> str:
    return shown("engines", "groq")


def adapt(folder: Path) -> str:
    number = {"type": "integer"}
    closed = {"type": "object", "properties": {"n": number}, "required": ["n"], "additionalProperties": False}
    unique = {"type": "array", "items": number, "uniqueItems": True, "minItems": 2}
    schemas = {
        "closed": closed,
        "open": {"type": "object", "properties": {"n": number}},
        "unique": {**closed, "properties": {"n": unique}},
    }
    (folder / "schemas").mkdir()
    for name, schema in schemas.items():
        (folder / "schemas" / f"{name}.json").write_text(json.dumps(schema))
    (folder / "schemas" / "broken.json").write_text("nonsense")
    return ran("adapt", folder / "schemas", "-v")[1]


def probe(_folder: Path) -> str:
    """Probe a server that enforces each schema, one that drops the keyword minimum, and one with a fault of tools."""
    pytest.importorskip("urllib3", reason="calls to providers need the package urllib3")
    texts = []
    with Provider() as provider:
        arguments = ("--engine=openai", f"--base-url={provider.url}/v1", "--model=m", "--format=json_schema")
        for server in (Enforcing(), Enforcing(drops=lambda asked: "minimum" in str(asked))):
            provider.choose = server
            texts.append(ran("probe", *arguments, "--calls=3", "--concurrency=1", "--checks=none")[1])
        provider.choose = FaultyChat(PLANTED["format dropped next to tools"])
        texts.append(ran("probe", *arguments, "--calls=3", "--concurrency=1", "--keywords=none")[1])
    # the probe asks for random names and numbers
    return re.sub(
        r'(?<=")[a-z]{8}(?=")|(?<="no-)[a-z]{8}\b|(?<=\$\.)[a-z]{8}\b',
        "NAME",
        re.sub(r"\d{5,}", "NUMBER", "\n".join(texts)),
    )


COMMANDS: dict[str, Callable[[Path], str]] = {
    "compare.txt": compare,
    "history.txt": show_history,
    "history.md": show_history_as_markdown,
    "plan.txt": plan,
    "judge.txt": judge,
    "engines.txt": list_engines,
    "engines-preset.txt": show_preset,
    "adapt.txt": adapt,
    "probe.txt": probe,
}


@pytest.mark.parametrize("name", COMMANDS)
def test_output_of_a_command_is_as_reviewed(
    name: str, pytester: pytest.Pytester, snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("OPENAI_API_KEY", "any")

    snapshots.check({name: COMMANDS[name](pytester.path)})


def test_each_snapshot_is_compared() -> None:
    """Fail for a file that no test compares: it would be reviewed, and hold for nothing."""
    compared = {f"{name}.{output}" for name, kind in RUNS.items() for output in kind.outputs}
    assert {path.name for path in FOLDER.iterdir()} == compared | COMMANDS.keys()


def test_snapshot_that_differs_or_is_missing_fails_with_the_differences(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    texts = {"a.txt": "one\nthree", "b.txt": f"in {tmp_path}"}

    with pytest.raises(pytest.fail.Exception) as failure:
        Snapshots(folder=tmp_path, root=tmp_path, is_updating=False).check(texts)

    found = [line for line in str(failure.value).splitlines() if line[:1] in "-+"]
    expected = ["--- snapshots/a.txt", "+++ found", "-two", "+three", "--- snapshots/b.txt", "+++ found", "+in /ROOT"]
    assert [line for line in found if line] == expected
    Snapshots(folder=tmp_path, root=tmp_path, is_updating=True).check(texts)
    Snapshots(folder=tmp_path, root=tmp_path, is_updating=False).check(texts)
