from __future__ import annotations

import base64
import gzip
import io
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pytest_jsbench.cli.main import main
from pytest_jsbench.core.cases import Prompt, safe_name
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.generations import Declined, DeclineReason
from pytest_jsbench.core.messages import Message
from pytest_jsbench.fixture.case_failed import CaseFailed
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records import journal
from pytest_jsbench.records.runs import Run
from pytest_jsbench.reports.comparison_report import side_by_side
from pytest_jsbench.reports.html import comparison
from pytest_jsbench.reports.html.report import render
from pytest_jsbench.reports.junit import complete, suite_properties
from pytest_jsbench.reports.markdown import workflow_commands
from pytest_jsbench.reports.run_json import run_to_dict, write_run
from pytest_jsbench.reports.run_report import report, summary_markdown
from pytest_jsbench.reports.terminal import report_lines
from pytest_jsbench.verdicts import FailureType, Verdict, Violation
from tests.support import examples
from tests.support.examples import record, replace
from tests.support.hostile_texts import HIDDEN, HOSTILE_TEXTS

#: Letters without a visible shape, which no output may contain either.
BLANK = set("\u115f\u3164\ufe0f\U000e0100")
ENOUGH = 120_000
#: Outputs with JSON for programs, which is not truncated.
WHOLE = {"judge of lines", "adapt", "migrate"}


def hostile(text: str) -> Run:
    """Return a run in which every untrusted text is this one."""
    violation = Violation(keyword=text, instance_path=text, schema_path=text, message=text)
    verdict = Verdict(
        failure_type=FailureType.SCHEMA_VIOLATION,
        valid=False,
        message=text,
        reason=None,
        violations=(violation,) * 5,
        extra_fields=(text,) * 9,
    )
    declined = Declined(reason=DeclineReason.REFUSAL, message=text)
    refused = Verdict(failure_type=FailureType.REFUSAL, valid=None, message=text)
    prompt = Prompt(messages=(Message(role="user", content=text),))
    task = safe_name(text)
    said = [
        record(task, task=task, verdict=verdict, generation=examples.completion(text), schema={text: text}),
        record("declined", task=task, verdict=refused, generation=declined),
        record("passed", task=task),
    ]
    records = [replace(one, prompt=prompt, reference={text: text}, tags=(text,)) for one in said]
    metadata = examples.metadata(model=text, provider=text, dataset={"source": text, "cases": 3})
    return examples.of_records(metadata, [one.key for one in records], records)


def saved(folder: Path, run: Run) -> Path:
    folder.mkdir()
    journal.write(folder / "records.jsonl", run.metadata, run.records)
    write_run(folder / "run.json", run_to_dict(run, summarize(run), config_path="pytest.ini"))
    return folder


def said_by(*arguments: object) -> str:
    out = io.StringIO()
    assert main([str(argument) for argument in arguments], out=out) in {0, 1}
    return out.getvalue()


def _terminal(folder: Path, run: Run) -> str:
    lines = report_lines(report(run, summarize(run), keywords=True))
    return "\n".join([*lines, *(str(CaseFailed(one, rerun="pytest")) for one in run.records)])


def _junit(folder: Path, run: Run) -> str:
    path = folder / "junit.xml"
    path.write_text(
        '<testsuites><testsuite failures="0" errors="0"><testcase name="a"><properties>'
        '<property name="jsbench.task" value="t"/></properties></testcase></testsuite></testsuites>'
    )
    complete(path, suite_properties(run, summarize(run), ()), {})
    return "".join(ET.parse(path).getroot().itertext()) + path.read_text("utf-8")


def _plot(folder: Path, run: Run) -> str:
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    return said_by("plot", "--files", saved(folder / "a", run), "--output", folder / "p.png", "--metrics=pass_rate")


def _page(folder: Path, run: Run) -> str:
    pytest.importorskip("jinja2", reason="needs the extra report")
    text = "".join(render(run, summarize(run)))
    assert "<img" not in text
    assert "<script>alert" not in text
    packed = re.findall(r'id="(?:index|chunk\d+)">([A-Za-z0-9+/=]*)</script>', text)
    assert len(packed) == 2
    inner = [json.loads(gzip.decompress(base64.b64decode(one))) for one in packed]
    return "\n".join([text, *_texts(inner)])


def _page_of_comparison(folder: Path, run: Run) -> str:
    pytest.importorskip("jinja2", reason="needs the extra report")
    hostile = run.metadata.dataset["source"]
    runs = [examples.evaluation(each, source=hostile) for each in (run, examples.run(*run.records))]
    names = [hostile, f"{hostile} "]
    text = "".join(comparison.render(runs, names, side_by_side(runs, names)))
    assert "<img" not in text
    assert "<script" not in text
    return text


def _texts(value: object) -> Iterator[str]:
    """Yield all texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _judged(folder: Path, run: Run) -> str:
    """Return lines of schema and text with unchecked ids."""
    message = run.metadata.dataset["source"]
    path = folder / "lines.jsonl"
    one = {"id": message, "schema": {"enum": [message], "required": [message], "type": message}, "text": message}
    other = {
        "id": message,
        "schema": {"const": message, "pattern": message, "additionalProperties": False},
        "text": '{"a": 1}',
    }
    path.write_text(f"{json.dumps(one)}\n{json.dumps(other)}\n")
    return said_by("judge", path, "-v") + said_by("judge", path, "--json")


def _adapted(folder: Path, run: Run) -> str:
    message = run.metadata.dataset["source"]
    schema = {
        "type": "object",
        "title": message,
        "properties": {message: {"not": {"const": message}}},
        message: message,
    }
    path = folder / "lines.jsonl"
    path.write_text(json.dumps({"id": message, "task": message, "schema": schema}) + "\n")
    return said_by("adapt", path, "-v") + said_by("adapt", path, "--json", "--mode=relax")


def _migrated(folder: Path, run: Run) -> str:
    # Lone surrogates are rejected when the file is read.
    message = run.metadata.dataset["source"].encode(errors="replace").decode()
    path = folder / "old.json"
    path.write_text(json.dumps({"backend": message, "model": message, "metrics": {"accuracy": 1, message: 1}}))
    return said_by("migrate", path) + said_by("compare", path, path, "-v") + said_by("compare", path, path, "--json")


def _everywhere(folder: Path, run: Run) -> str:
    """Return the output of commands that convert files, and check that they write only to the given directory."""
    one = saved(folder / "a", run)
    lines = [
        said_by("export", one, "-o", folder / "out"),
        said_by("export", one, "-o", folder / "out", "--version=0.2.0", "--developer=../.."),
        said_by("merge", one, "-o", folder / "out" / "merged"),
    ]
    assert {path.name for path in folder.iterdir()} == {"a", "out"}
    return "".join(lines)


#: Every way to display a run, with the displayed text.
OUTPUTS: dict[str, Callable[[Path, Run], str]] = {
    "terminal": _terminal,
    "JUnit": _junit,
    "summary.md": lambda _, run: summary_markdown(run, summarize(run)),
    "annotations": lambda _, run: "\n".join(workflow_commands(run)),
    "report.html": _page,
    "page of compare": _page_of_comparison,
    "compare": lambda folder, run: said_by("compare", saved(folder / "a", run), saved(folder / "b", run), "-v"),
    "baseline": lambda folder, run: said_by("baseline", saved(folder / "a", run), "-o", folder / "b.json"),
    "judge": lambda folder, run: said_by("judge", saved(folder / "a", run), "-v"),
    "judge of lines": _judged,
    "adapt": _adapted,
    "migrate": _migrated,
    "plot": _plot,
    "export and merge": _everywhere,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE_TEXTS)
@pytest.mark.parametrize("output", OUTPUTS)
def test_hostile_text_stays_text_in_every_output(tmp_path: Path, output: str, kind: str) -> None:
    shown = OUTPUTS[output](tmp_path, hostile(HOSTILE_TEXTS[kind]))

    assert shown
    assert not {c for c in set(shown) if unicodedata.category(c) in HIDDEN} - {"\n"}
    assert "##[" not in shown
    assert "##vso[" not in shown
    assert not BLANK & set(shown)
    shown.encode()
    assert output == "annotations" or not [line for line in shown.split("\n") if line.lstrip().startswith("::")]
    assert len(shown) < ENOUGH or output in WHOLE


def test_files_have_no_unescaped_hidden_characters(tmp_path: Path) -> None:
    run = hostile("".join(HOSTILE_TEXTS[kind] for kind in ("markup", "escape codes", "bidi", "commands", "path")))
    one = saved(tmp_path / "a", run)
    said_by("baseline", one, "-o", tmp_path / "baseline.json")
    said_by("export", one, "-o", tmp_path / "out")

    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 5
    for path in files:
        text = path.read_text("utf-8")
        assert not {c for c in set(text) if unicodedata.category(c) in HIDDEN} - {"\n"}, path


def test_error_of_a_command_is_one_safe_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(tmp_path / "\x1b[31m\u202e\n::error::.json")]) == 2

    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert not {c for c in error if unicodedata.category(c) in HIDDEN} - {"\n"}


COMMANDS = ("judge", "merge", "report", "export", "baseline", "compare")


def printed_by(command: str, run: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return everything that a command prints for the run (given twice if it compares) and an output path."""
    runs = [str(run)] * (1 + (command == "compare"))
    target = [] if command in {"judge", "compare"} else ["-o", str(run.parent / "out")]
    main([command, *runs, *target], out=(out := io.StringIO()))
    return out.getvalue() + capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_reports_the_damaged_line_that_it_skips(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    folder = saved(tmp_path / "a", examples.run(record("a"), record("b")))
    (folder / "run.json").unlink()
    path = folder / "records.jsonl"
    header, first, last = path.read_text().splitlines(keepends=True)
    path.write_text(header + first[:40] + "\n" + last)

    assert "records.jsonl:2: " in " ".join(printed_by(command, folder, capsys).split())


@pytest.mark.parametrize("place", ["id", "task", "plan"])
@pytest.mark.parametrize("command", COMMANDS)
def test_record_with_a_command_as_name_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, place: str
) -> None:
    name = "::stop-commands::x"
    run = examples.run(record("a"), record("b"))
    folder = saved(tmp_path / "a", run)
    (folder / "run.json").unlink()
    path = folder / "records.jsonl"
    header, line, last = map(json.loads, path.read_text().splitlines())
    if place == "plan":
        header["run"]["plan"] = {name: [name]}
    else:
        line[place] = name
    path.write_text(f"{json.dumps(header)}\n{json.dumps(line)}\n{json.dumps(last)}\n")

    printed = printed_by(command, folder, capsys)
    assert not [line for line in printed.split("\n") if line.lstrip().startswith("::")]
    assert "expected letters, digits and any of" in printed


def test_message_of_any_error_is_one_safe_line() -> None:
    error = JSBenchError("\n::error::x \x1b[31m ##[error]" + "x" * 5000 + "; the next step")

    assert str(error).startswith("\\n::error::x \\x1b[31m #\\x23[error]x")
    assert str(error).endswith("; the next step")
    assert len(str(error)) == 2000
