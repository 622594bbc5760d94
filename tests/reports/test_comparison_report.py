from __future__ import annotations

import json
import re
from typing import Any

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.timing import Timing
from pytest_jsbench.metrics.case_outcomes import CaseOutcome
from pytest_jsbench.metrics.comparison import compare
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records.records import Record
from pytest_jsbench.records.runs import RunStatus, RunVerdict
from pytest_jsbench.records.setting_differences import Setting, differences, settings_of
from pytest_jsbench.reports.breakdown import Grouping, break_down
from pytest_jsbench.reports.comparison_report import (
    apart,
    comparison_markdown,
    facts_of_comparison,
    labels,
    pairs,
    side_by_side,
    to_dict,
)
from pytest_jsbench.reports.run_json import Evaluation, evaluation_of, parse
from pytest_jsbench.reports.terminal import fact_lines, report_lines
from tests.support import examples
from tests.support.examples import replace


def case_outcome(end: str, schema: str = "aa") -> CaseOutcome:
    return CaseOutcome(schema=schema, attempts=(end,))


def test_comparison_lists_broken_fixed_and_unshared_cases_in_80_columns() -> None:
    keys = [CaseKey(task="simple", id=f"c{number}") for number in range(15)]
    before = {key: case_outcome("passed") for key in keys[:12]} | {
        keys[12]: case_outcome("passed", "bb"),
        keys[13]: case_outcome("refusal"),
    }
    now = {key: case_outcome("truncated") for key in keys[:11]} | {
        keys[11]: case_outcome("api_error"),
        keys[12]: case_outcome("passed"),
        keys[14]: case_outcome("passed"),
    }

    lines = fact_lines(facts_of_comparison(compare(before, now), "runs/base"))
    text = " ".join(" ".join(lines).split())

    assert text.startswith("baseline runs/base: 11 fewer of 11 cases pass (-1.000, ")
    assert "a real difference (exact test: p = 0.00098)" in text
    assert "broke 11: simple::c0, simple::c1," in text
    assert "simple::c9, and 1 more" in text
    assert "fixed" not in text
    assert text.endswith("1 undecided in one run, 1 whose schema changed, 1 only in the baseline, 1 only in this run")
    assert max(map(len, lines)) <= 80


def test_hostile_sources_are_shown_as_text() -> None:
    key = CaseKey(task="a", id="b")

    lines = fact_lines(
        facts_of_comparison(
            compare({key: case_outcome("passed")}, {key: case_outcome("refusal")}), "\x1b]0;../../x\x07"
        )
    )

    assert not any(character in "".join(lines) for character in "\x1b\u202e\x07\n")
    assert "\\x1b]0;../../x\\x07" in " ".join(lines)


def evaluation(source: str = "runs/a", **run: Any) -> Evaluation:
    data = examples.metadata(**run).to_dict()
    return parse({"metrics": {"pass_rate": 0.5, "planned": 2}, "run": json.loads(json.dumps(data))}, source=source)


def test_comparison_warns_of_times_that_are_not_the_servers() -> None:
    def run_with(late: float | None) -> Evaluation:
        timing = Timing(tgt=1.0, ttft=0.2, ttft_lateness=late)
        run = examples.run(examples.record("a", generation=replace(examples.completion(), timing=timing)))
        return evaluation_of(run, summarize(run), source="r")

    def shown(*runs: Evaluation) -> str:
        return " ".join(" ".join(report_lines(side_by_side(runs, ["idle", "busy"][: len(runs)]))).split())

    text = shown(run_with(0.01), run_with(0.03))
    assert "warning busy: 30.0 ms of the median TTFT, 200.0 ms, are not the server's" in text
    assert "warning idle" not in text
    assert "not the server's" not in shown(run_with(None), run_with(0.01))


def settings(**changes: Any) -> dict[str, Setting]:
    return settings_of(examples.metadata(**changes).to_dict())


def test_different_settings_are_grouped_by_what_they_affect() -> None:
    other = settings(
        prompt="chat", params={"max_tokens": 50, "temperature": 0.7}, policy={"formats": "ignore"}, concurrency=32
    )

    facts = list(apart(differences([settings(prompt="schema", policy={"formats": "assert"}), other])))

    assert [(name, text) for name, text in facts if name != "warning"] == [
        ("settings", "other answers: prompt schema → chat, temperature default → 0.7, max_tokens 2048 → 50"),
        ("", "other verdicts: judge.formats assert → ignore"),
        ("", "other times: concurrency 1 → 32"),
    ]
    (warning,) = [text for name, text in facts if name == "warning"]
    assert warning.startswith("the runs were judged by different rules (judge.formats), which alone can change ")


def test_selection_settings_do_not_differ_between_program_and_plugin() -> None:
    records = [examples.record(f"c{at}") for at in range(3)]

    def made(*records: Record, **dataset: Any) -> Evaluation:
        run = examples.run(*records, dataset={"source": "builtin", **dataset})
        return evaluation_of(run, summarize(run), source="r")

    plugin = made(*records, where=["size<200"], limit=3)
    program = made(*records, where=[], steps=["filter size<200", "slice :3"])
    fewer = made(*records[:2], where=[], steps=["filter size<100"])

    assert to_dict([plugin, program], ["a", "b"])["settings"] == []
    (pair,) = pairs([plugin, program], ["a", "b"])
    assert pair.comparison.settings == ()
    assert {one["name"] for one in to_dict([plugin, fewer], ["a", "b"])["settings"]} == {"where", "steps"}


def test_comparison_of_a_grammar_with_a_model_has_a_warning() -> None:
    labelled = settings(dataset={"source": "builtin", "labelled": True})

    facts = list(apart(differences([settings(dataset={"source": "builtin", "labelled": False}), labelled])))

    assert [text for name, text in facts if name == "warning"] == [
        "one run has decisions of grammars, another has answers of a model: they cannot be compared"
    ]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([{"model": "a"}, {"model": "b"}], ["a", "b"]),
        ([{"prompt": "schema"}, {"prompt": "chat"}], ["prompt schema", "prompt chat"]),
        (
            [{"model": "a"}, {"model": "b"}, {"model": "b", "response_format": "text"}],
            ["a, json_schema", "b, json_schema", "b, text"],
        ),
        (
            [{"params": {"temperature": None}}, {"params": {"temperature": 0.0}}, {"params": {"temperature": 1.5}}],
            ["temperature default", "temperature 0", "temperature 1.5"],
        ),
        ([{"details": {"bounded": True}}, {"details": {"bounded": False}}], ["bounded true", "bounded false"]),
        (
            [{"prompt": "p.txt", "prompt_digest": "sha256:" + digit * 64} for digit in "ab"],
            ["prompt_digest sha256:aaaaaaaaaaaa", "prompt_digest sha256:bbbbbbbbbbbb"],
        ),
        (
            [{"concurrency": 1, "run_id": "one"}, {"concurrency": 9, "run_id": "two"}],
            ["concurrency 1", "concurrency 9"],
        ),
        ([{"run_id": "one"}, {"run_id": "two"}], ["m (one)", "m (two)"]),
        ([{}, {}], ["m (runs/0)", "m (runs/1)"]),
        ([{}], ["m"]),
        ([{"engine": "outlines", "dataset": {"labelled": True}}], ["outlines"]),
    ],
)
def test_labels_have_the_distinguishing_settings(runs: list[dict[str, Any]], expected: list[str]) -> None:
    assert labels([evaluation(f"runs/{at}", **run) for at, run in enumerate(runs)]) == expected


def test_no_two_labels_are_equal_whatever_is_given() -> None:
    runs = [evaluation("runs/a"), evaluation("runs/a"), evaluation("runs/b", prompt="chat")]

    assert len(set(labels(runs, ["x", "x", "x"]))) == 3
    assert len(set(labels(runs))) == 3


def test_invalid_setting_in_an_untrusted_file_is_ignored() -> None:
    strange = parse(
        {"metrics": {"pass_rate": 0.5}, "run": {"model": ["\x1b", {}], "policy": 3, "params": {"seed": {"a": 1}}}},
        source="x.json",
    )
    hostile = evaluation("y", prompt="\x1b[31m\n::error::x" + "p" * 500)

    text = "\n".join(report_lines(side_by_side([strange, hostile, evaluation("z")], ["a", "b", "c"], verbose=True)))

    assert "\x1b" not in text
    assert "prompt" in text
    assert "not known" in text


def test_incomplete_run_is_reported_with_its_missing_attempts() -> None:
    whole, broken = evaluation("a", model="a"), evaluation("b", model="b")
    broken = replace(broken, metrics={**broken.metrics, "planned": 12, "errors": 7, "unjudged": 1})

    text = " ".join(" ".join(report_lines(side_by_side([whole, broken], ["a", "b"], verbose=False))).split())

    assert "incomplete b: 7 of 12 attempts without an answer, 1 unjudged" in text
    assert "incomplete a" not in text


def test_name_too_long_for_the_table_is_listed_below() -> None:
    lines = report_lines(side_by_side([evaluation()], ["SmolLM2-135M-Instruct.Q4_1" * 2], verbose=False))

    assert lines[3].startswith("[1] SmolLM2-135M-Instruct.Q4_1SmolLM2")
    assert lines[4:6] == ["", f"[1]        {'SmolLM2-135M-Instruct.Q4_1' * 2}"]


def test_a_sentence_names_long_runs_by_their_numbers() -> None:
    names = [f"SmolLM2-135M-Instruct.Q4_1 {at}" for at in "ab"]

    lines = report_lines(side_by_side([judged(passed=9), judged("b", passed=3)], names))

    assert next(line for line in lines if line.startswith("compared ")).startswith("compared   [2] against [1]: ")


#: Markup, a mention, a link, a reference, hidden text and a workflow command.
HOSTILE = "`x` <b>@octocat</b> [a](https://evil.example) #1 | <!-- jsbench:gate --> \n::error::x ##[error] \x1b[31m$x$"


def judged(source: str = "a", *, passed: int = 3, because: str = "gate not met", **run: Any) -> Evaluation:
    records = [
        examples.record(f"c{at}", verdict=examples.PASSED if at < passed else examples.VIOLATED) for at in range(3)
    ]
    verdict = RunVerdict.of(RunStatus.FAILED, 1, [because])
    return examples.evaluation(replace(examples.run(*records, **run), verdict=verdict), source)


def test_comment_has_marker_verdict_difference_and_settings() -> None:
    runs = [judged(prompt="schema"), judged(passed=1, prompt="chat")]

    text = comparison_markdown(runs, ["base", "new"], comment="gate", by=break_down(runs, Grouping.TASK))

    assert text.splitlines()[0] == "<!-- jsbench:gate -->"
    assert "### jsbench: `new`\n\n**FAILED**: `gate not met`\n" in text
    assert "| `new` | 0.333 (0.008 to 0.906) | 1.00 | 3 |" in text
    assert "- compared: `new against base: 2 fewer of 3 cases pass (" in text
    assert "- broke: `2: simple::c1, simple::c2`\n" in text
    assert "| `simple` | 3 | 1.000 (0.292 to 1.000) | 0.333 (0.008 to 0.906) |" in text
    assert "<summary>1 setting differs</summary>" in text
    assert "| `prompt` | `answers` | `schema` | `chat` |" in text
    assert comparison_markdown(runs, ["base", "new"]).startswith("### jsbench: `new`")


def test_untrusted_text_of_a_run_is_not_markup() -> None:
    runs = [judged(prompt="schema"), judged(passed=1, because=HOSTILE, prompt=HOSTILE, model=HOSTILE)]

    text = comparison_markdown(runs, ["base", HOSTILE], comment="gate", by=break_down(runs, Grouping.TASK))

    plain = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    for one in ("octocat", "evil", "<b>", "::error", "##[", "$x$", "#1"):
        assert one not in plain, one
    assert plain.count("<!--") == 1
    assert "\x1b" not in text
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} <= {4, 5, 6}


@pytest.mark.slow
def test_comment_fits_github_and_counts_omitted_sections() -> None:
    settings = {f"option{at}": "x" * 40 for at in range(900)}
    runs = [judged(details=settings), judged(details=dict.fromkeys(settings, "y" * 40))]

    text = comparison_markdown(runs, ["a", "b"], comment="gate")

    assert len(text) < 65_536
    assert "option1`" not in text
    assert text.endswith("\n\n1 more section omitted\n")
    assert len(comparison_markdown(runs, ["a", "b"])) > 65_536


@pytest.mark.parametrize("name", ["", "a b", "a-->", "a--b", "-a", "a\n", "x" * 101, "<b>"])
def test_marker_rejects_names_that_could_end_it(name: str) -> None:
    with pytest.raises(JSBenchError, match="invalid name of a comment"):
        comparison_markdown([judged()], ["a"], comment=name)


def test_table_of_all_metrics_shows_full_names() -> None:
    figures = {"declared_coverage_excluding_errors": 0.833333, "fields.customer.address.postal_code.accuracy": 0.833333}
    runs = [parse({"metrics": figures | {"pass_rate": 0.5, "planned": 8}}, source=f"{at}.json") for at in range(5)]

    lines = report_lines(side_by_side(runs, list("abcde"), verbose=True))

    assert max(map(len, lines)) <= 80
    assert figures.keys() <= {line.split()[0] for line in lines if line}


def test_incomplete_runs_are_reported_by_distinct_names() -> None:
    run = parse({"metrics": {"pass_rate": 0.5, "planned": 8, "errors": 1, "unjudged": 0}}, source="a.json")
    names = ["a run of the nightly gate, main", "a run of the nightly gate, here"]

    text = comparison_markdown([run, run], names)

    assert all(f"- incomplete: `{name}: 1 of 8 attempts without an answer" in text for name in names)
