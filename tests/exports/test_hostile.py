from __future__ import annotations

import io
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pytest_jsbench import journal
from pytest_jsbench.cli import main
from pytest_jsbench.exports.junit import complete, suite_properties
from pytest_jsbench.exports.markdown import summary_markdown, workflow_commands
from pytest_jsbench.exports.report import render
from pytest_jsbench.exports.runjson import run_to_dict, write_run
from pytest_jsbench.exports.table import details, keyword_table, table
from pytest_jsbench.failures import failure_text
from pytest_jsbench.generations import Declined, DeclineReason
from pytest_jsbench.prompts import Message, Prompt
from pytest_jsbench.records import Run
from pytest_jsbench.summaries import summarize
from pytest_jsbench.verdicts import FailureType, Verdict, Violation
from tests import examples
from tests.examples import record

#: what a model, a schema or a file may say
KINDS = {
    "markup": "</script><script>alert(1)</script><img src=x onerror=alert(1)>`|*[a](javascript:alert(1))",
    "escape codes": "\x1b[31m\x1b]0;title\x07\x9b2J\r\x00\x08",
    "bidi": "\u202egpj.exe\u2066\u200f\u2028",
    "commands": "\n::error::x\n##[stop-commands]x",
    "path": "../../../../x/../..",
    "huge": "x" * 200_000,
}
#: what no output may hold, but for the line breaks that are its own
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
ENOUGH = 120_000


def hostile(text: str) -> Run:
    """A run in which every word that is not ours is the text."""
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
    said = [
        record(text, task=text, verdict=verdict, generation=examples.completion(text), schema={text: text}),
        record("declined", task=text, verdict=refused, generation=declined),
        record("passed", task=text),
    ]
    records = tuple(replace(one, prompt=prompt, reference={text: text}, tags=(text,)) for one in said)
    metadata = examples.metadata(model=text, provider=text, dataset={"source": text, "cases": 3})
    return Run(metadata=metadata, planned=tuple(one.key for one in records), records=records)


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
    summary = summarize(run)
    lines = [*keyword_table(summary), *table(summary), *details(run, summary)]
    return "\n".join([*lines, *(failure_text(one, rerun="pytest") for one in run.records)])


def _junit(folder: Path, run: Run) -> str:
    path = folder / "junit.xml"
    path.write_text(
        '<testsuites><testsuite failures="0" errors="0"><testcase name="a"><properties>'
        '<property name="jsbench.task" value="t"/></properties></testcase></testsuite></testsuites>'
    )
    complete(path, suite_properties(run, summarize(run), (), verdict="failed"), {})
    return "".join(ET.parse(path).getroot().itertext()) + path.read_text("utf-8")


def _plot(folder: Path, run: Run) -> str:
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    return said_by("plot", "--files", saved(folder / "a", run), "--output", folder / "p.png", "--metrics=pass_rate")


def _page(folder: Path, run: Run) -> str:
    pytest.importorskip("jinja2", reason="needs the extra report")
    text = render(run, summarize(run))
    assert "<img" not in text
    assert "<script>alert" not in text
    return text


def _everywhere(folder: Path, run: Run) -> str:
    """What the commands say that convert, and that write nothing but below the folder that is named."""
    one = saved(folder / "a", run)
    lines = [
        said_by("export", one, "-o", folder / "out"),
        said_by("export", one, "-o", folder / "out", "--version=0.2.0", "--developer=../.."),
        said_by("merge", one, "-o", folder / "out" / "merged"),
    ]
    assert {path.name for path in folder.iterdir()} == {"a", "out"}
    return "".join(lines)


#: each way that a run is shown, and what it says
OUTPUTS: dict[str, Callable[[Path, Run], str]] = {
    "terminal": _terminal,
    "JUnit": _junit,
    "summary.md": lambda _, run: summary_markdown(run, summarize(run)),
    "annotations": lambda _, run: "\n".join(workflow_commands(run, level="error")),
    "report.html": _page,
    "compare": lambda folder, run: said_by("compare", saved(folder / "a", run), saved(folder / "b", run), "-v"),
    "baseline": lambda folder, run: said_by("baseline", saved(folder / "a", run), "-o", folder / "b.json"),
    "judge": lambda folder, run: said_by("judge", saved(folder / "a", run), "-v"),
    "plot": _plot,
    "export and merge": _everywhere,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("output", OUTPUTS)
def test_whatever_is_said_is_text_in_every_output(tmp_path: Path, output: str, kind: str) -> None:
    shown = OUTPUTS[output](tmp_path, hostile(KINDS[kind]))

    assert shown
    assert not {c for c in set(shown) if unicodedata.category(c) in HIDDEN} - {"\n"}
    assert output == "JUnit" or "##[" not in shown
    assert output == "annotations" or not [line for line in shown.split("\n") if line.lstrip().startswith("::")]
    assert len(shown) < ENOUGH


def test_nothing_hidden_is_written_as_it_is_into_a_file(tmp_path: Path) -> None:
    run = hostile("".join(KINDS[kind] for kind in ("markup", "escape codes", "bidi", "commands", "path")))
    one = saved(tmp_path / "a", run)
    said_by("baseline", one, "-o", tmp_path / "baseline.json")
    said_by("export", one, "-o", tmp_path / "out")

    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 5
    for path in files:
        text = path.read_text("utf-8")
        assert not {c for c in set(text) if unicodedata.category(c) in HIDDEN} - {"\n"}, path


def test_an_error_of_a_command_is_one_line_that_can_be_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(tmp_path / "\x1b[31m\u202e\n::error::.json")]) == 2

    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert not {c for c in error if unicodedata.category(c) in HIDDEN} - {"\n"}
