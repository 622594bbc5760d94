"""Check that each figure is in each output, and name those that are missing."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pytest_jsbench
from pytest_jsbench.core.cases import Expected
from pytest_jsbench.core.generations import FaultKind
from pytest_jsbench.core.timing import Timing
from pytest_jsbench.metrics import figures
from pytest_jsbench.metrics.figures import RATES
from pytest_jsbench.metrics.gates import Ending, Gate, check, decide
from pytest_jsbench.metrics.metric_names import METRICS
from pytest_jsbench.metrics.metrics import Metrics
from pytest_jsbench.metrics.statistics import Rate
from pytest_jsbench.metrics.summary import Summary, summarize
from pytest_jsbench.records.runs import Run, RunStatus
from pytest_jsbench.reports import baselines, comparison_report, junit, run_json, run_report
from pytest_jsbench.reports.html import report
from pytest_jsbench.reports.run_json import run_to_dict
from pytest_jsbench.reports.run_report import facts, summary_markdown
from pytest_jsbench.reports.terminal import fact_lines, report_lines
from pytest_jsbench.values import match
from tests.support import examples
from tests.support.every_output import SCHEMA, answered, ordinary, outputs, side_by_side
from tests.support.examples import replace

#: A heading of the publication, after "Schemas", and a text about one attempt.
PARTS = {"Passed", "called again"}


def labelled() -> Run:
    wrong = examples.record(
        "a", verdict=examples.DECIDED_WRONGLY, generation=examples.decided("v0", "i1"), schema=SCHEMA
    )
    right = examples.record("b", verdict=examples.DECIDED_RIGHTLY, generation=examples.decided("i1"), schema=SCHEMA)
    metadata = examples.metadata(dataset={"source": "labels", "labelled": True})
    records = [replace(record, prompt=None) for record in (wrong, right)]
    return examples.of_records(metadata, [wrong.key, right.key], records)


@pytest.fixture
def paid(monkeypatch: pytest.MonkeyPatch) -> Summary:
    summary = summarize(ordinary())
    return replace(summary, total=examples.with_figures(summary.total, cost=1.25))


def test_every_output_for_people_has_all_facts_of_a_run(paid: Summary, tmp_path: Path) -> None:
    run = ordinary()
    texts = outputs(run, paid, tmp_path)
    subjects = {name for name, _ in facts(run, paid)}

    assert subjects == {
        *("pass rate", "repeats", "flaky", "failures", "classified", "codes", "tokens", "cost", "noted", "retries"),
        *("queue", "disputed", "excluded", "unjudged", "redacted", "resumed", "errors", "sampled"),
    }
    for output in ("terminal", "summary.md", "report.html"):
        page = " ".join(texts[output].replace("&#34;", '"').replace("&lt;", "<").split())
        sentences = [text for name, text in facts(run, paid) if (output, name) != ("report.html", "pass rate")]
        assert [text for text in sentences if text not in page] == [], output


#: For a run of each kind: the name of a figure in data, and its text for people.
FIGURES = {
    ordinary: {
        "temperature": "temperature 0",
        "seed": "temperature 0, seed 5: the attempts at a case are identical",
        "error_rate": "limit reached 1",
        "missing": "limit reached 1",
        "excluded": "1 case with a broken schema",
        "disputed": "1 verdict on which the two validators disagree",
        "unjudged": "1 answer that could not be judged",
        "pass_at_k": "pass@k",
        "pass_hat_k": "pass^k",
        "pass_rate_ci_low": "interval",
        "cost": "$1.25",
        "input_tokens": "150 in",
        "cached_tokens": "(28 of them cached)",
        "reasoning_tokens": "(20 of them reasoning)",
        "retries": "4 failed calls retried",
        "queue_p50": "waited 75.0 s",
        "duplicate_keys": "duplicate_keys 1",
        "adaptation_loss": "adaptation_loss 1",
        "own_code": "own_code 1",
        "own:classify": "own:classify",
        "keywords": "required",
    },
    labelled: {
        "over_constraint": "0.250",
        "under_constraint": "0.500",
        "grammar_compilation_p50": "10.00",
        "wrong_decisions": "3",
        "keywords": "required",
    },
}
#: Facts that JUnit's numbers leave to the properties of each test, and to run.json.
NOT_IN_JUNIT = {"duplicate_keys", "adaptation_loss", "own_code", "own:classify", "keywords", "wrong_decisions"}


@pytest.mark.parametrize("kind", FIGURES)
def test_every_figure_is_in_every_output(kind: Any, tmp_path: Path) -> None:
    run = kind()
    summary = summarize(run)
    if kind is ordinary:
        summary = replace(summary, total=examples.with_figures(summary.total, cost=1.25))
    texts = outputs(run, summary, tmp_path)

    people = [
        (figure, output)
        for figure, said in FIGURES[kind].items()
        for output in ("terminal", "summary.md", "report.html")
        if said not in " ".join(texts[output].split())
    ]
    data = [
        (figure, output)
        for figure in FIGURES[kind]
        for output in ("every_eval_ever", "run.json", "junit")
        if figure not in texts[output] and not (output == "junit" and figure in NOT_IN_JUNIT)
    ]

    assert people + data == []


def test_no_figure_of_the_metrics_can_be_forgotten_in_data(paid: Summary, tmp_path: Path) -> None:
    """Check that a field added to the metrics is in run.json, and so in all outputs made from its figures."""
    figures = paid.total.to_dict()
    every = paid.total.to_dict(every=True)
    unnamed = [name for name in Metrics.computed if not any(key == name or key.startswith(f"{name}_") for key in every)]
    assert unnamed == []
    texts = outputs(ordinary(), paid, tmp_path)
    known = {name: value for name, value in figures.items() if value is not None}
    assert [name for name in known if f'"{name}"' not in texts["every_eval_ever"]] == []
    numbers = [name for name, value in known.items() if isinstance(value, int | float)]
    assert [name for name in numbers if known[name] and f"jsbench.{name}" not in texts["junit"]] == []
    told_to_the_engine = [output for output, text in texts.items() if '"bounded": false' in text.replace("\\", "")]
    assert told_to_the_engine == ["every_eval_ever", "junit", "run.json"]
    evaluation = run_json.read(tmp_path / "run.json")
    compared = side_by_side([evaluation, evaluation], ["x", "y"], verbose=True)
    assert re.search(r"^pass_rate +0\.43 \(\.07-\.86\) +0\.43 \(\.07-\.86\)$", compared, flags=re.MULTILINE)
    shown = [name for name in numbers if not name.endswith(("_ci_low", "_ci_high"))]
    assert [name for name in shown if name[:38] not in compared] == []
    gated = {re.sub(r"_(ci_low|ci_high)$", "", name) for name in numbers}
    assert gated - METRICS == set()


def test_every_output_has_the_differences_from_the_baseline(paid: Summary, tmp_path: Path) -> None:
    run = ordinary()
    before = run_json.parse(run_to_dict(run, paid, config_path="pytest.ini"), source="base.json")
    kept = run_json.parse(baselines.baseline_to_dict(before, paid.outcomes), source="baseline.json")
    now = replace(run.metadata, prompt="chat", versions={"judge": "0"})
    comparison = baselines.against(kept, now, paid)[""]
    sentences = ["prompt schema → chat", "judge 1 → 0", "the runs were judged by different rules (judge)"]

    page = " ".join("".join(report.render(run, paid, comparisons={"": comparison})).split())
    lines = " ".join(" ".join(fact_lines(comparison_report.facts_of_comparison(comparison, "b"))).split())
    for text in (page, lines, summary_markdown(run, paid, comparisons={"": comparison})):
        assert [one for one in sentences if one not in text] == []
    data = comparison.to_dict(source="b")["settings"]
    assert {"name": "prompt", "bears_on": "answers", "values": ["schema", "chat"]} in data


def test_labelled_runs_are_compared_and_gated_by_metrics_of_grammars(tmp_path: Path) -> None:
    summary = summarize(labelled())
    outputs(labelled(), summary, tmp_path)
    again = run_json.read(tmp_path / "run.json")
    compared = side_by_side([again, again], ["x", "y"])
    assert re.search(r"x +1\.00 \(\.16-1\) +0\.25 \(0-\.\d+\) +0\.50 \(\.\d+-\.\d+\) +10\.00 +2", compared)
    kept = baselines.baseline_to_dict(again, again.outcomes or {})["metrics"]
    always = {name for name in RATES if Metrics.computed[name].only_if is None}
    assert {*always, "over_constraint_ci_low", "grammar_compilation_p50", "valid_instances"} <= kept.keys()
    assert summary.keywords["required"].to_dict() | {"failures": None, "decisions": 8, "wrong_decisions": 3} == (
        summary.keywords["required"].to_dict()
    )
    for text in ("over_constraint<=0.3", "keywords.required.wrong_decisions<=3", "grammar_compilation_p50<=1"):
        assert check(Gate.parse(text), summary).met, text
    assert not check(Gate.parse("keywords.required.failures<=0"), summary).met


def test_times_of_grammars_and_masks_are_in_every_output_and_in_gates(tmp_path: Path) -> None:
    timing = Timing(tgt=0.5, grammar_compilation=0.01, compile_time=0.008, masks=(1e-5, 2e-5, 6e-5))
    decided = replace(examples.decided(), timing=timing)
    made = examples.run(examples.record("a", verdict=examples.DECIDED_RIGHTLY, generation=decided))
    run = replace(made, metadata=labelled().metadata)
    summary = summarize(run)

    texts = outputs(run, summary, tmp_path)

    masks = "computed (µs), except the first of each answer: mean 30.0, p50 20.0, p99 59.2, max 60.0 of 3"
    grammars = "compiled (ms): mean 8.00, p50 8.00, p99 8.00, max 8.00 of 1; up to the first mask: mean 10.00"
    for name in ("terminal", "summary.md", "report.html"):
        assert [said for said in (masks, grammars) if said not in " ".join(texts[name].split())] == [], name
    assert "grammar compiled in 10.00 ms, 8.00 without its first mask" in texts["report.html"]
    for name in ("every_eval_ever", "run.json", "junit"):
        assert [one for one in ("mask_time_p50", "compile_time_p50") if one not in texts[name]] == [], name
    assert check(Gate.parse("mask_time_max<=0.0001"), summary).met
    assert check(Gate.parse("compile_time_p50<=0.008"), summary).met
    assert not check(Gate.parse("compile_time_max<=0.007"), summary).met
    again = run_json.read(tmp_path / "run.json")
    assert re.search(r"x .* 10\.00 +20\.0 of 3 +1 +1$", side_by_side([again], ["x"]).splitlines()[-1])


def test_each_median_has_its_number_of_measurements(tmp_path: Path) -> None:
    timing = Timing(tgt=1.0, ttft=None, gct=None)
    unstreamed = [replace(answered(name), generation=replace(examples.completion(), timing=timing)) for name in "cd"]
    run = examples.run(answered("a"), answered("b"), *unstreamed, answered("e"))
    summary = summarize(run)

    texts = outputs(run, summary, tmp_path)
    again = run_json.read(tmp_path / "run.json")

    assert re.search(r"total .* 0\.20 +160\.00 +1\.00 of 5 +0\.80 +3 ", f"{texts['terminal']} ")
    assert "| 0.20 | 160.00 | 1.00 of 5 | 0.80 | 3 |" in texts["summary.md"]
    assert "0.20 160.00 1.00 of 5 0.80 3 " in texts["report.html"]
    assert [again.metrics[f"{time}_count"] for time in ("ttft", "tgt")] == [3, 5]
    assert side_by_side([again], ["x"]).splitlines()[-1].split()[-3:] == ["1.00", "5", "5"]
    kept = baselines.baseline_to_dict(again, again.outcomes or {})["metrics"]
    assert (kept["tgt_p50"], kept["tgt_count"]) == (1.0, 5)
    assert "half of 5 calls waited 75.0 s" in texts["terminal"]
    assert "tgt_p90 1 over 5 values" not in check(Gate.parse("tgt_p90<=2"), summary).message
    assert "tgt_p50 1 over 5 values" in check(Gate.parse("tgt_p50<=2"), summary).message


def test_the_precision_of_a_field_is_in_every_output_and_can_be_a_gate(tmp_path: Path) -> None:
    both, vendor = {"vendor": "a", "total": 1}, {"vendor": "a"}
    answers = [(both, both), (vendor, both), (vendor, {**both, "total": 2}), (both, vendor)]
    records = [
        replace(answered(f"c{at}"), expected=Expected(value=value), match=match(Expected(value=value), answer))
        for at, (value, answer) in enumerate(answers)
    ]
    run = examples.run(*records)
    summary = summarize(run)

    texts = outputs(run, summary, tmp_path)

    field = summary.total.fields["total"]
    counts = [(rate.successes, rate.n) for rate in (field.accuracy, field.precision, field.f1)]
    assert counts == [(1, 2), (1, 3), (2, 5)]
    assert summary.total.fields["vendor"].precision.value == 1.0
    assert "total 1/2 = 0.500 (.01-.99) 0.33 (.01-.91) 0.40" in texts["terminal"]
    assert "| `total` | 1/2 = 0.500 (0.013 to 0.987) | 0.333 (" in texts["summary.md"]
    assert "total 1/2 0.500" in texts["report.html"]
    assert run_json.read(tmp_path / "run.json").figures["fields.total.precision"] == pytest.approx(1 / 3)
    assert check(Gate.parse("fields.total.precision>=0.3"), summary).met
    assert not check(Gate.parse("fields.total.f1.ci_low>=0.3"), summary).met
    older = [replace(record, match=replace(record.match, surplus=None)) for record in records]
    assert summarize(examples.run(*older)).total.fields["total"].precision.value is None


def test_a_metric_of_a_project_s_own_is_in_every_output_and_can_be_a_gate(tmp_path: Path) -> None:
    counts = {"a": (3, 4), "b": (0, 1), "c": (2, 2)}
    run = examples.run(*(answered(name, scores={"acme": count}) for name, count in counts.items()), answered("d"))
    run = replace(run, metadata=replace(run.metadata, metrics=["acme", "silent"]))
    summary = summarize(run)

    texts = outputs(run, summary, tmp_path)
    again = run_json.read(tmp_path / "run.json")

    rate = summary.total.scores["acme"]
    assert (rate.successes, rate.n, rate.design_effect) == (5, 7, 3.0)
    for output in ("terminal", "summary.md", "report.html"):
        assert "acme 5/7 = 0.714 (95 % interval " in texts[output], output
        assert "silent n/a" in texts[output], output
    assert '\\"acme\\": 0.714' in texts["every_eval_ever"]
    assert again.rate("scores.acme") == Rate(value=rate.value, ci_low=rate.ci_low, ci_high=rate.ci_high)
    assert "scores.acme" in side_by_side([again, again], ["x", "y"], verbose=True)
    assert check(Gate.parse("scores.acme>=0.7"), summary).message == "scores.acme 5/7 = 0.7143, gate >= 0.7: met"
    assert check(Gate.parse("simple.scores.acme.ci_low>=0.05"), summary).met
    assert "nothing judged" in check(Gate.parse("scores.other>=0"), summary).message
    broken = examples.record("e", verdict=examples.BROKEN, generation=examples.failed())
    assert not check(Gate.parse("scores.acme>=0.1"), summarize(examples.run(*run.records, broken))).met


def test_no_output_has_rates_of_a_run_with_only_failed_calls() -> None:
    lost = examples.failed(FaultKind.CONNECTION)
    broken = [examples.record(name, task="down", verdict=examples.BROKEN, generation=lost) for name in "abc"]
    run = examples.run(*broken)
    summary = summarize(run)
    gate = check(Gate.parse("pass_rate<=1"), summary)
    verdict = decide(Ending(), summary.total, [gate])

    figures = summary.total.to_dict()
    rates = ("pass_rate", "pass_at_k", "pass_hat_k", "declared_coverage", "empirical_coverage")
    assert [figures[name] for name in rates] == [None] * len(rates)
    assert [figures["error_rate"], figures["planned"], figures["cases"]] == [1.0, 3, 3]
    known = {"api_error": 1.0, "unjudged": 0.0}
    assert figures["failure_rates"] == {**dict.fromkeys(figures["failure_rates"]), **known}
    assert [one.pass_rate.value for one in summary.keywords.values()] == [None] * len(summary.keywords)
    assert (gate.met, gate.undecided) == (False, True)
    assert gate.message == "pass_rate n/a, gate <= 1: NOT MET, nothing judged"
    assert verdict.status is RunStatus.INCOMPLETE
    run = replace(run, verdict=verdict)
    lines = report_lines(run_report.report(run, summary))
    assert [line.split()[1:3] for line in lines if line.startswith(("down", "total"))] == [["n/a", "n/a"]] * 2
    assert "pass rate  n/a (nothing was judged)" in lines
    texts = [summary_markdown(run, summary, [gate]), "".join(report.render(run, summary, [gate])), "\n".join(lines)]
    assert not [text for text in texts if re.search(r"0/3|0 of 3|\b0\.00\b|\b0\.000\b", text)]
    properties = junit.suite_properties(run, summary, (gate,))
    assert not [name for name in properties if name.endswith(("pass_rate", "coverage"))]
    one_answered = summarize(examples.run(*broken, examples.record("d", task="up"))).tasks
    assert [one_answered[task].pass_rate.value for task in ("down", "up")] == [None, 1.0]


#: How an output names the additional figures, and what it leaves out.
IN_TABLES, IN_WORDS = ("Terse!", "Pause!", "Commas!"), ("Terse answers", "Longest pause", "Commas of answers")
IN_DATA = ("terse", "pause_p50", "commas")
NAMES_OF_ROWS = {
    **dict.fromkeys(("terminal", "summary.md", "report.html", "compare", "variants", "history"), IN_TABLES),
    "plot": IN_WORDS,
    "docs": (*IN_TABLES, *IN_WORDS),
    **dict.fromkeys(("run.json", "junit", "history's file", "compare -v", "tables", "gates"), IN_DATA),
    "every_eval_ever": ("pytest-jsbench.terse", "pytest-jsbench.pause", "commas"),
}


@pytest.mark.slow
def test_additional_figure_is_in_every_output(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.additional_figures", str(tmp_path)]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])

    texts = json.loads((tmp_path / "texts.json").read_text())

    assert texts.keys() == NAMES_OF_ROWS.keys()
    lacking = [(output, name) for output, names in NAMES_OF_ROWS.items() for name in names if name not in texts[output]]
    assert lacking == []


@pytest.mark.slow
def test_no_output_names_a_figure_by_hand() -> None:
    texts = {text for row in figures.FIGURES.values() for text in (row.title, row.heading, row.short)} - {""}
    words = {text.casefold() for text in texts if " " in text}
    folder = Path(next(iter(pytest_jsbench.__path__)))
    by_hand = []
    names = "|".join(map(re.escape, words - PARTS))
    before_a_value = re.compile(rf"\b(?:{names})(?: of|:|,| =)? *$", re.IGNORECASE)
    for room in ("reports", "cli", "library", "lab", "plugin"):
        for path in (folder / room).rglob("*.py"):
            nodes = list(ast.walk(ast.parse(path.read_text())))
            constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
            by_hand += [(path.name, text) for text in constants if text in texts or str(text).casefold() in words]
            parts = [part for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values]
            texts_of_parts = [str(part.value) for part in parts if isinstance(part, ast.Constant)]
            by_hand += [(path.name, text) for text in texts_of_parts if before_a_value.search(text)]
    for path in (folder / "reports" / "html" / "page").glob("*.html"):
        named = re.findall(r">([^<>{}]+)</(?:th|dt|caption)>|'([^']+)'", path.read_text())
        by_hand += [(path.name, text) for pair in named for text in pair if text in texts or text.casefold() in words]
    assert [(name, text) for name, text in by_hand if text not in PARTS] == []
