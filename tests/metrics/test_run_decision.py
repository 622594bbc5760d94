from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.text import printable
from pytest_jsbench.metrics.gates import Gate, GateResult, check
from pytest_jsbench.metrics.run_decision import Ending, decide
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.reports import every_eval_ever
from pytest_jsbench.reports.html import report
from pytest_jsbench.reports.junit import suite_properties
from pytest_jsbench.reports.markdown import summary_markdown, workflow_commands
from pytest_jsbench.reports.run_json import run_to_dict
from pytest_jsbench.runs.records import Record, Run
from pytest_jsbench.runs.run_verdict import RunStatus, RunVerdict
from tests import examples
from tests.examples import record

SCHEMA = jsonschema.Draft202012Validator(
    json.loads(files("pytest_jsbench.formats").joinpath("run.schema.json").read_text("utf-8"))
)
KINDS: dict[str, Record] = {
    "passed": record(),
    "violated": record(verdict=examples.VIOLATED),
    "invented": record(verdict=examples.HALLUCINATED),
    "excluded": record(verdict=examples.EXCLUDED),
    "broken": record(verdict=examples.BROKEN, generation=examples.failed()),
    "unjudged": record(verdict=examples.UNJUDGED),
    "declined": record(verdict=examples.UNSUPPORTED, generation=examples.declined()),
}
GATES = [
    "pass_rate>=0.9",
    "pass_rate>=0",
    "pass_rate.ci_low>=0.3",
    "failure_rates.truncated<=0.1",
    "n>=3",
    "error_rate<=0",
    "simple.pass_rate>=0.5",
    "cost<=1",
]
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=300) | st.sampled_from(
    ["a.py::t failed", "::error::x", "<script>&amp;`|", "\x1b[31m", "50 % %0A"]
)
ENDINGS = st.builds(
    Ending,
    exit_status=st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5, 6]),
    answers=st.lists(TEXT, max_size=12).map(tuple),
    failures=st.lists(TEXT, max_size=12).map(tuple),
    lacking=st.lists(TEXT, max_size=1).map(tuple),
    deselected=st.integers(0, 2),
)
#: as every output says it: status, exit status, reasons
Said = tuple[str, int | None, list[str] | str]


@st.composite
def ended(draw: st.DrawFn) -> tuple[Run, list[GateResult], Ending]:
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), max_size=6))
    records = [
        replace(KINDS[kind], key=CaseKey(task=draw(st.sampled_from(["simple", "hard"])), id=f"c{number}"))
        for number, kind in enumerate(kinds)
    ]
    lost = tuple(CaseKey(task="simple", id=f"lost{number}") for number in range(draw(st.integers(0, 2))))
    run = examples.run(*records, planned=(*(one.key for one in records), *lost))
    summary = summarize(run)
    gates = [check(Gate.parse(text), summary) for text in draw(st.lists(st.sampled_from(GATES), max_size=3))]
    return run, gates, draw(ENDINGS)


@given(ended())
def test_a_verdict_passes_no_run_in_which_anything_is_wrong_and_says_why_in_lines(
    found: tuple[Run, list[GateResult], Ending],
) -> None:
    run, gates, ending = found
    total = summarize(run).total

    verdict = decide(ending, total, gates)

    assert verdict.passed is (verdict.exit_status == 0)
    assert verdict.because
    assert all(printable(reason, 200) == reason for reason in verdict.because)
    if verdict.passed:
        assert all(gate.met for gate in gates)
        assert not ending.failures
        assert not ending.lacking
        assert ending.exit_status in {0, 1, 5} if gates else ending.exit_status == 0
        assert gates or (total.complete and total.planned)
    elif verdict.status is RunStatus.INCOMPLETE:
        assert not ending.failures
        assert all(gate.met or gate.undecided for gate in gates)
    if ending.exit_status not in {0, 1, 5}:
        assert verdict.exit_status == ending.exit_status


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=ended())
def test_every_output_says_the_same_verdict(tmp_path: Path, found: tuple[Run, list[GateResult], Ending]) -> None:
    run, gates, ending = found
    summary = summarize(run)
    verdict = decide(ending, summary.total, gates)
    run = replace(run, verdict=verdict)

    data = run_to_dict(run, summary, config_path="unknown", gates=gates)
    SCHEMA.validate(data)
    assert RunVerdict.from_run_json(json.loads(json.dumps(data))) == verdict
    reasons = list(verdict.because)
    assert _of_page(report.render(run, summary, gates)) == (verdict.status.upper(), reasons)
    assert _of_markdown(summary_markdown(run, summary, gates)) == (verdict.status.upper(), reasons)
    properties = suite_properties(run, summary, tuple(gates))
    said = [value for name, value in properties.items() if name.startswith("jsbench.because.")]
    assert (properties["jsbench.verdict"], said) == (verdict.status, reasons)
    assert properties["jsbench.exit_status"] == str(verdict.exit_status)
    first = workflow_commands(run)[0]
    assert unquote(first.partition("title=jsbench::")[2]) == verdict.text
    assert first.startswith("::notice") is verdict.passed
    if any(one.prompt is not None for one in run.records):
        details = _details(every_eval_ever.write(tmp_path, run, summary))
        assert (details["verdict"], json.loads(details["verdict_because"])) == (verdict.status, reasons)
        assert details["verdict_exit_status"] == str(verdict.exit_status)


def _of_page(page: str) -> tuple[str, list[str]]:
    found = re.search(
        r'<p class="verdict (?:good|bad)"><strong>(\w+)</strong></p>\s*<ul.*?>(.*?)</ul>', page, re.DOTALL
    )
    assert found is not None
    return found.group(1), [html.unescape(one) for one in re.findall(r"<li>(.*?)</li>", found.group(2))]


def _of_markdown(text: str) -> tuple[str, list[str]]:
    """The status, and what stands in code spans, as CommonMark takes them."""
    (line,) = re.findall(r"^\*\*(PASSED|FAILED|INCOMPLETE)\*\*: (.*)$", text, re.MULTILINE)
    spans = [span for _, span in re.findall(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)", line[1])]
    return line[0], [
        span[1:-1] if span.startswith(" ") and span.endswith(" ") and span.strip() else span for span in spans
    ]


def _details(path: Path) -> dict[str, Any]:
    details: dict[str, Any] = json.loads(path.read_text("utf-8"))["source_metadata"]["additional_details"]
    return details


@pytest.mark.parametrize("data", [None, [], {}, {"status": "won", "exit_status": 0, "because": []}])
def test_what_is_no_verdict_is_refused_in_one_line(data: object) -> None:
    with pytest.raises(RecordError, match="a verdict is not"):
        RunVerdict.from_dict(data)


def test_a_file_that_is_older_than_verdicts_has_none() -> None:
    assert RunVerdict.from_run_json({"schema_version": "1.2"}) is None


def test_a_gate_that_only_lacks_attempts_leaves_the_run_incomplete_and_one_that_fails_fails_it() -> None:
    planned = tuple(CaseKey(task="simple", id=name) for name in "abc")
    summary = summarize(examples.run(replace(record(), key=planned[0]), planned=planned))
    low, high = (check(Gate.parse(text), summary) for text in ("pass_rate>=0.9", "failure_rates.truncated>=0.9"))

    assert decide(Ending(), summary.total, [low]).text == (
        "INCOMPLETE: the gate is not met, for too little was measured: pass_rate>=0.9"
    )
    assert decide(Ending(), summary.total, [high]).text.startswith("FAILED: the gate is not met: failure_rates")
