from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_jsbench.core.cases import CaseKey, Expected
from pytest_jsbench.core.errors import GateError
from pytest_jsbench.core.text import printable
from pytest_jsbench.formats import load_format_schema
from pytest_jsbench.lab.interchange import every_eval_ever
from pytest_jsbench.metrics.case_outcomes import CaseOutcome
from pytest_jsbench.metrics.comparison import compare
from pytest_jsbench.metrics.gates import Ending, Gate, GateResult, check, check_all, decide
from pytest_jsbench.metrics.metric_names import METRICS
from pytest_jsbench.metrics.summary import Summary, summarize
from pytest_jsbench.records.records import Record
from pytest_jsbench.records.runs import Run, RunStatus, RunVerdict
from pytest_jsbench.reports.html import report
from pytest_jsbench.reports.junit import suite_properties
from pytest_jsbench.reports.markdown import workflow_commands
from pytest_jsbench.reports.run_json import run_to_dict
from pytest_jsbench.reports.run_report import summary_markdown
from pytest_jsbench.values import match
from tests.support import examples, fuzzing
from tests.support.examples import record, replace


def summary(*records: Record) -> Summary:
    return summarize(examples.run(*records))


def broken(name: str, task: str = "simple") -> Record:
    return record(name, task=task, verdict=examples.BROKEN, generation=examples.failed())


def test_least_gate_is_on_the_pass_rate_or_its_difference_from_a_baseline() -> None:
    assert [Gate.least("pass_rate", text).text for text in ("0.9", "1", "0")] == [
        *("pass_rate>=0.9", "pass_rate>=1", "pass_rate>=0")
    ]
    assert Gate.least("baseline.difference", "0.02", -1).text == "baseline.difference>=-0.02"


@pytest.mark.parametrize("text", ["90", "-0.1", "nan", "ninety", ""])
def test_least_gate_rejects_what_is_not_a_rate(text: str) -> None:
    with pytest.raises(GateError, match="from 0 to 1, such as"):
        Gate.least("pass_rate", text)
    with pytest.raises(GateError, match="from 0 to 1, such as"):
        Gate.least("baseline.difference", text, -1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pass_rate", "expected METRIC OP VALUE, such as pass_rate>=0.9 or ttft_p95<=2, found 'pass_rate'"),
        ("pass_rate>=", "expected METRIC OP VALUE"),
        ("pass_rate=>0.9", "expected METRIC OP VALUE"),
        ("pass_rate>=nan", "expected a number after >=, found 'nan'"),
        ("pass_rate>=90", "pass_rate is a rate from 0 to 1, found 90"),
        ("pas_rate>=0.9", "no metric 'pas_rate': did you mean 'pass_rate'?"),
        ("Github_easy.pas_rate>=0.9", "no metric 'pas_rate': did you mean 'pass_rate'?"),
        ("ttft_p96<=2", "no metric 'ttft_p96': did you mean 'ttft_p9"),
        ("PASS_RATE>=0.9", "no metric 'PASS_RATE': did you mean 'pass_rate'?"),
        ("latency<=2", "no metric 'latency': expected a name such as pass_rate, error_rate, ttft_p95, cost"),
        ("mini.pass_rate.ci_lo>=0.9", "no bound of an interval 'ci_lo': did you mean 'ci_low'?"),
        ("keywords.patern.pass_rate>=0.8", "no keyword 'patern': did you mean 'pattern'?"),
        ("baseline.diference>=0", "no figure of a baseline 'diference': did you mean 'difference'?"),
        ("pas_rate.ci_low>=0.9", "'pas_rate.ci_low': no metric 'pas_rate': did you mean 'pass_rate'?"),
        ("fields.n.precison>=0.5", "no figure of fields 'precison': did you mean 'precision'?"),
        ("mini.fields.n.precison.ci_low>=0.5", "no figure of fields 'precison': did you mean 'precision'?"),
        ("keywords.pattern>=0.5", "no figure of keywords 'pattern': expected a name such as attempts, decisions, fa"),
        ("failure_rates.truncatd<=0.1", "no figure of failure_rates 'truncatd': did you mean 'truncated'?"),
        ("pass_at.x>=0.5", "'pass_at.x': expected a number of attempts from 1 to 32, such as pass_at.2, found 'x'"),
        ("simple.pass_hat.0>=0.5", "expected a number of attempts from 1 to 32, such as pass_hat.2, found '0'"),
        ("mini.good>=0.5", "no metric 'mini.good': did you mean 'scores.good'?"),
        ("passe - passd>=0.5", "no metric 'passe': did you mean 'passed'?"),
        ("ttft_p95.ci_low>=0.8", "only a rate has an interval, and ttft_p95 is not a rate"),
    ],
)
def test_invalid_gate_is_one_line_with_a_suggestion(text: str, message: str) -> None:
    with pytest.raises(GateError, match=re.escape(message)):
        Gate.parse(text, ["good"])


def test_pass_at_k_is_not_measured_if_a_case_has_fewer_attempts() -> None:
    found = summary(record("a"))

    assert check(Gate.parse("pass_at.2>=0"), found).message.endswith("NOT MET, a case has fewer attempts")


def test_unknown_task_in_a_gate_is_rejected_with_a_suggestion() -> None:
    gate = Gate.parse("Github_esay.pass_rate>=0.9")

    with pytest.raises(GateError, match="no task or metric 'Github_esay': did you mean 'Github_easy'"):
        gate.resolve(["Github_easy", "simple"], ())
    with pytest.raises(GateError, match=r"'fields\.n': no figure of fields 'n': expected a name such as accuracy"):
        Gate.parse("fields.n>=0.5").resolve(["simple"], ())
    assert Gate.parse("fields.n>=1").resolve(["fields"], ()).name.task == "fields"
    Gate.parse("Github_easy.pass_rate>=0.9").resolve(["Github_easy"], ())
    Gate.parse("pass_rate>=0.9").resolve([], ())


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("pass_rate>=0.5", True),
        ("pass_rate > 0.5", False),
        ("pass_rate==0.5", True),
        ("simple.pass_rate>=1", True),
        ("tasks.simple.pass_rate>=1", True),
        ("v1.2.pass_rate<=0", True),
        ("v1.2.failure_rates.schema_violation<0.5", False),
        ("failure_rates.schema_violation<=0.25", True),
        ("failure_rates.schema_violation.ci_high<=0.25", False),
        ("failure_counts.schema_violation<=1", True),
        ("pass_rate.ci_low>=0.2", False),
        ("pass_rate_ci_low>=0.06", True),
        ("empirical_coverage>=0.75", True),
        ("keywords.minimum.pass_rate>=0.5", True),
        ("keywords.minimum.failures<1", False),
        ("keywords.minimum.attempts==2", True),
        ("ttft_max<=0.2", True),
        ("tgt_max<1", False),
        ("tpot_mean<=80", True),
        ("output_tokens<=44", True),
        ("error_rate<=0", True),
        ("n>=4", True),
        ("n>=5", False),
        ("pass_at_k<=0.5", True),
        ("pass_at.2>=0.1", False),
    ],
)
def test_gate_accepts_any_metric_of_run_task_and_keyword(text: str, met: bool) -> None:
    found = summary(
        record("a", schema={"minimum": 0}),
        record("b"),
        record("c", task="v1.2", schema={"minimum": 0}, verdict=examples.VIOLATED),
        record("d", task="v1.2", verdict=examples.HALLUCINATED),
    )

    result = check(Gate.parse(text), found)

    assert result.met is met, result.message
    assert ("NOT MET" in result.message) is not met


def test_missing_and_broken_attempts_count_as_failures() -> None:
    planned = tuple(CaseKey(task="simple", id=name) for name in "abcd")
    found = summarize(examples.run(record("a"), record("b"), broken("c"), planned=planned))

    assert check(Gate.least("pass_rate", "0.5"), found).met
    result = check(Gate.least("pass_rate", "0.6"), found)
    assert not result.met
    assert result.message == "pass_rate 2/4 = 0.5, gate >= 0.6: NOT MET"


@pytest.mark.parametrize(
    "text",
    [
        # One of four calls failed: its answer might have violated its schema, been slow, or cost anything.
        "empirical_coverage>=0.8",
        "failure_rates.schema_violation<=0.2",
        "failure_counts.truncated<=0",
        "tgt_max<=10",
        "declared_coverage_excluding_errors>=0.9",
        "keywords.minimum.failures<=0",
        "output_tokens<=100",
        "order_kept>=0.8",
        "disputed<=0",
    ],
)
def test_incomplete_run_meets_a_gate_only_for_any_missing_outcomes(text: str) -> None:
    kept = replace(examples.PASSED, order_kept=True)
    made = [record(name, schema={"minimum": 0}, verdict=kept) for name in "abc"]
    complete = summary(*made)
    incomplete = summary(*made, broken("d"))

    assert check(Gate.parse(text), complete).met
    result = check(Gate.parse(text), incomplete)
    assert not result.met
    assert "the run is incomplete" in result.message


@pytest.mark.parametrize("text", ["valid_rejected<=0", "invalid_accepted<=0"])
def test_grammar_may_decide_wrongly_in_an_attempt_without_decisions(text: str) -> None:
    made = record("a", verdict=examples.DECIDED_RIGHTLY, generation=examples.decided())

    assert check(Gate.parse(text), summary(made)).met
    assert check(Gate.parse(text), summary(made, broken("d"))).undecided


@pytest.mark.parametrize("text", ["pass_rate_nontrivial>=0.5", "pass_rate_nontrivial.ci_low>=0.01", "floor<=0"])
def test_missing_case_may_be_trivial_or_not(text: str) -> None:
    records = [record("a", verdict=replace(examples.PASSED, trivial=()))]
    planned = tuple(CaseKey(task="simple", id=name) for name in "abcd")

    assert check(Gate.parse(text), summarize(examples.run(*records))).met
    result = check(Gate.parse(text), summarize(examples.run(*records, planned=planned)))
    assert not result.met
    assert "the run is incomplete" in result.message


@pytest.mark.parametrize("text", ["pass_rate>=0.75", "empirical_coverage>=0.75", "failure_rates.truncated<=0.25"])
def test_missing_attempts_do_not_matter_if_the_gate_is_met_anyway(text: str) -> None:
    result = check(Gate.parse(text), summary(record("a"), record("b"), record("c"), broken("d")))

    assert result.met
    assert result.message.endswith("met for any outcome of the attempts without an answer")


@pytest.mark.parametrize(
    "records",
    [(), (record("a", verdict=examples.EXCLUDED),), (broken("a"),), (record("a", verdict=examples.UNJUDGED),)],
    ids=["no records", "all excluded", "all broken", "all unjudged"],
)
@pytest.mark.parametrize(
    "text", ["pass_rate>=0", "failure_rates.truncated<=1", "error_rate<=1", "keywords.type.failures<=9"]
)
def test_a_gate_on_nothing_judged_is_never_met(records: tuple[Record, ...], text: str) -> None:
    result = check(Gate.parse(text), summary(*records))

    assert not result.met
    assert "nothing judged" in result.message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ttft_p95<=9", "nothing measured"),
        ("output_tokens<=9", "nothing reported"),
        ("cost<=9", "nothing reported"),
        ("hard.pass_rate>=0", "nothing judged"),
        ("baseline.difference>=-1", "nothing to compare"),
    ],
)
def test_gate_on_an_unmeasured_metric_is_not_met(text: str, reason: str) -> None:
    result = check(Gate.parse(text), summary(record("a", generation=examples.completion(ttft=None, tokens=None))))

    assert not result.met
    assert result.message.endswith(f"NOT MET, {reason}")


def repeated(*counts: int, broke: int = 0) -> Summary:
    """
    Return cases with four attempts each and this number of passed ones; the last of the first case
    may have failed.
    """
    attempts = [
        replace(record(f"c{at}", verdict=examples.PASSED if number < count else examples.VIOLATED), repeat=number)
        for at, count in enumerate(counts)
        for number in range(4)
    ]
    return summary(*[replace(broken("c0"), repeat=3) if broke and at == 3 else one for at, one in enumerate(attempts)])


INCOMPLETE = "the run is incomplete"
ALL = summary(*(record(name) for name in "abcd"))


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param(
            ALL,
            summary(*(record(name) for name in "abc"), record("d", verdict=examples.VIOLATED)),
            {"baseline.difference>=-0.25": "met", "baseline.difference>=-0.2": "NOT MET"}
            | {"baseline.newly_failing<=0": "NOT MET", "baseline.newly_failing<=1": "met"}
            | {"baseline.p_value>=0.05": "met", "baseline.difference.ci_low>=-0.2": "NOT MET"},
            id="one case broke",
        ),
        pytest.param(
            ALL,
            summary(*(record(name) for name in "abc"), broken("d")),
            {"baseline.difference>=-0.25": "met", "baseline.difference>=-0.2": INCOMPLETE},
            id="a broken call counts as a regression",
        ),
        pytest.param(
            repeated(4, 4, 4, 4, 4, 0, 0, 0, 0, 0),
            repeated(*[3] * 10),
            {"baseline.difference>=-0.02": "baseline.difference +0.25, gate >= -0.02: met"}
            | {"baseline.newly_failing<=5": "met", "baseline.newly_failing<=4": "NOT MET"},
            id="a higher pass rate is no regression though fewer cases pass each time",
        ),
        pytest.param(
            repeated(4),
            repeated(3, broke=1),
            {"baseline.difference>=-0.25": "met", "baseline.difference>=-0.2": INCOMPLETE}
            | {"baseline.newly_failing<=0": "NOT MET"},
            id="a failed attempt may have passed or failed next to others at its case",
        ),
    ],
)
def test_gates_compare_a_run_with_its_baseline(before: Summary, now: Summary, expected: dict[str, str]) -> None:
    comparison = {"": compare(before.outcomes, now.outcomes)}

    for text, content in expected.items():
        result = check(Gate.parse(text), now, comparison)
        assert content in result.message, text
        assert result.met is content.endswith("met"), text


def test_a_test_that_never_ended_may_have_failed() -> None:
    passed = CaseOutcome(schema="aa", attempts=("passed",), tests=(True,))
    broke = CaseOutcome(schema="aa", attempts=("api_error",))
    first, second = (CaseKey(task="t", id=name) for name in "ab")
    comparison = compare({first: passed, second: passed}, {first: passed, second: broke})

    result = check(Gate.parse("baseline.tests.difference>=0"), summary(record("a")), {"": comparison})

    assert not result.met
    assert INCOMPLETE in result.message
    assert not check(Gate.parse("baseline.tests.worse<=0"), summary(record("a")), {"": comparison}).met


def test_a_mean_over_one_document_meets_no_gate_on_its_lower_bound() -> None:
    found = match(Expected(value={"a": 1}), {"a": 1})
    now = summary(replace(record("a"), match=found))

    result = check(Gate.parse("value_accuracy_mean.ci_low>=0"), now)

    assert not result.met
    assert result.message.endswith("NOT MET, a single case has no interval")
    assert check(Gate.parse("value_accuracy_mean>=1"), now).met


SCHEMA = jsonschema.Draft202012Validator(load_format_schema("run"))
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


@fuzzing.examples(200)
@given(ended())
def test_verdict_passes_no_run_with_a_problem_and_lists_the_reasons(
    found: tuple[Run, list[GateResult], Ending],
) -> None:
    run, gates, ending = found
    total = summarize(run).total

    verdict = decide(ending, total, gates)

    assert verdict.passed is (verdict.exit_status == 0)
    assert verdict.because
    assert all(printable(reason, 2000) == reason for reason in verdict.because)
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
def test_every_output_has_the_same_verdict(tmp_path: Path, found: tuple[Run, list[GateResult], Ending]) -> None:
    run, gates, ending = found
    summary = summarize(run)
    verdict = decide(ending, summary.total, gates)
    run = replace(run, verdict=verdict)

    data = run_to_dict(run, summary, config_path="unknown", gates=gates)
    SCHEMA.validate(data)
    assert RunVerdict.from_run_json(json.loads(json.dumps(data))) == verdict
    reasons = list(verdict.because)
    assert _of_page("".join(report.render(run, summary, gates))) == (verdict.status.upper(), reasons)
    assert _of_markdown(summary_markdown(run, summary, gates)) == (verdict.status.upper(), reasons)
    properties = suite_properties(run, summary, tuple(gates))
    message = [value for name, value in properties.items() if name.startswith("jsbench.because.")]
    assert (properties["jsbench.verdict"], message) == (verdict.status, reasons)
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
        r'<h1 class="verdict (?:good|bad)"><strong>(\w+)</strong>.*?<ul class="because">(.*?)</ul>', page, re.DOTALL
    )
    assert found is not None
    return found.group(1), [html.unescape(one) for one in re.findall(r"<li>(.*?)</li>", found.group(2))]


def _of_markdown(text: str) -> tuple[str, list[str]]:
    """Return the status and the content of code spans, as CommonMark reads them."""
    (line,) = re.findall(r"^\*\*(PASSED|FAILED|INCOMPLETE)\*\*: (.*)$", text, re.MULTILINE)
    spans = [span for _, span in re.findall(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)", line[1])]
    return line[0], [
        span[1:-1] if span.startswith(" ") and span.endswith(" ") and span.strip() else span for span in spans
    ]


def _details(path: Path) -> dict[str, Any]:
    details: dict[str, Any] = json.loads(path.read_text("utf-8"))["source_metadata"]["additional_details"]
    return details


def test_file_of_an_old_version_has_no_verdict() -> None:
    assert RunVerdict.from_run_json({"schema_version": "1.2"}) is None


def test_gate_without_attempts_is_incomplete_and_unmet_gate_fails() -> None:
    planned = tuple(CaseKey(task="simple", id=name) for name in "abc")
    summary = summarize(examples.run(replace(record(), key=planned[0]), planned=planned))
    low, high = (check(Gate.parse(text), summary) for text in ("pass_rate>=0.9", "failure_rates.truncated>=0.9"))

    assert decide(Ending(), summary.total, [low]).text == (
        "INCOMPLETE: the gate is not met, because too little was measured: pass_rate>=0.9"
    )
    assert decide(Ending(), summary.total, [high]).text.startswith("FAILED: the gate is not met: failure_rates")


def test_gate_error_has_found_and_expected_values_for_programs() -> None:
    with pytest.raises(GateError) as raised:
        Gate.parse("pas_rate>=0.9")

    assert raised.value.found == "pas_rate"
    assert raised.value.expected == sorted(METRICS)
    assert raised.value.where == "pas_rate"
    assert str(raised.value).count("'pas_rate'") == 1


def of_variants() -> Summary:
    return summarize(examples.compared(gpt="pppp", **{"gpt-5.1": "ppvv", "mini": "pvvb"}))


def resolved(text: str, tasks: Sequence[str] | None = ("simple",)) -> Gate:
    return Gate.parse(text).resolve(tasks, ["gpt", "gpt-5.1", "mini"])


@pytest.mark.parametrize(
    ("text", "met", "content"),
    [
        ("gpt.pass_rate>=1", True, "gpt.pass_rate 4/4 = 1"),
        ("gpt-5.1.pass_rate>=0.6", False, "gpt-5.1.pass_rate 2/4 = 0.5"),
        ("variants.gpt-5.1.pass_rate>=0.5", True, "2/4 = 0.5"),
        ("gpt-5.1.simple.pass_rate>=0.5", True, "2/4 = 0.5"),
        ("gpt-5.1.keywords.minimum.failures<=2", True, "gpt-5.1.keywords.minimum.failures 2"),
        ("gpt-5.1.pass_rate.ci_low>=0.2", False, "0.06759"),
        ("pass_rate>=0.5", True, "7/12"),
        (
            "gpt.pass_rate - gpt-5.1.pass_rate <= 0.5",
            True,
            "gpt.pass_rate - gpt-5.1.pass_rate +0.5 (4/4 = 1; 2/4 = 0.5)",
        ),
        ("gpt.tgt_p50 - gpt-5.1.tgt_p50<=0.1", True, "+0 (1 over 4 values; 1 over 4 values)"),
        ("gpt-5.1.pass_rate - gpt.pass_rate >= -0.4", False, "-0.5"),
        ("gpt.pass_rate - mini.pass_rate >= 0.6", False, "the run is incomplete"),
        ("gpt.pass_rate - mini.pass_rate >= 0.5", True, "for any outcome of the attempts without an answer"),
        ("gpt.cost - mini.cost <= 1", False, "nothing reported"),
    ],
)
def test_a_gate_is_on_a_variant_or_on_the_difference_of_two(text: str, met: bool, content: str) -> None:
    gate = resolved(text)

    result = check(gate, of_variants())

    assert (result.met, result.undecided) == (met, not met and ("incomplete" in content or "nothing" in content))
    assert content in result.message


@pytest.mark.parametrize(
    ("text", "tasks", "message"),
    [
        ("gtp.pass_rate>=1", ("simple",), "no task, variant or metric 'gtp': did you mean 'gpt'?"),
        ("variants.gtp.pass_rate>=1", ("simple",), "no variant 'gtp': did you mean 'gpt'?"),
        ("gtp.baseline.difference>=0", ("simple",), "no variant 'gtp': did you mean 'gpt'?"),
        ("gpt.simpel.pass_rate>=1", ("simple",), "no task or metric 'simpel': did you mean 'simple'?"),
        ("gpt.pass_rate-mini.pass_rate<=1", ("simple",), "simple; a difference needs spaces around the minus"),
        ("tasks.gpt.pass_rate>=1", ("simple",), "no task or metric 'gpt'"),
        (
            "gpt.pass_rate>=1",
            ("gpt",),
            "'gpt' is a variant and 'gpt' is a task: write 'variants.gpt.pass_rate' or 'tasks.gpt.pass_rate'",
        ),
        ("gpt.pass_rate - mini.tgt_p50 >= 0", ("simple",), "a difference needs the same metric"),
        ("gpt.pass_rate -mini.pass_rate >= 0", ("simple",), "expected METRIC OP VALUE"),
        ("gpt.pass_rate - mini.pass_rate >= 2", ("simple",), "is a rate from 0 to 1"),
    ],
)
def test_gate_with_an_unknown_or_ambiguous_name_is_rejected(text: str, tasks: Sequence[str], message: str) -> None:
    with pytest.raises(GateError) as caught:
        resolved(text, tasks)

    assert message in str(caught.value)


def test_prefix_distinguishes_a_task_from_a_variant_of_the_same_name() -> None:
    assert resolved("tasks.gpt.pass_rate>=1", ("gpt",)).name.task == "gpt"
    assert resolved("variants.gpt.pass_rate>=1", ("gpt",)).name.variant == "gpt"


def test_gate_may_name_any_task_while_tasks_are_unknown() -> None:
    gate = resolved("test_it.pass_rate>=1", None)

    assert (gate.name.task, gate.name.variant) == ("test_it", None)
    assert resolved("gpt.test_it.pass_rate>=1", None).name.task == "test_it"


def test_a_gate_on_a_field_may_name_a_task() -> None:
    record_of = {task: examples.record(f"{task}-a", task=task) for task in ("right", "wrong")}
    expected = {"right": Expected(value=1), "wrong": Expected(value=2)}
    records = (
        replace(record, match=match(expected[task], 1), expected=expected[task]) for task, record in record_of.items()
    )
    found = summarize(examples.run(*records))
    gates = ("right.fields.$.accuracy>=1", "tasks.wrong.fields.$.accuracy>=1", "fields.$.accuracy>=0.5")

    results = check_all([Gate.parse(text).resolve(["right", "wrong"], ()) for text in gates], found)

    assert [one.met for one in results] == [True, False, True]
    assert resolved("simple.fields.accuracy.accuracy>=1", None).name.task == "simple"
    with pytest.raises(GateError, match="no task or variant 'rihgt': did you mean 'right'"):
        Gate.parse("rihgt.fields.$.accuracy>=1").resolve(["right", "wrong"], ())


def test_gate_on_the_baseline_applies_to_each_variant() -> None:
    now = of_variants()
    before = summarize(examples.compared(gpt="pppp", **{"gpt-5.1": "pppp"})).variants
    comparisons = {name: compare(before[name].outcomes, now.variants[name].outcomes) for name in before}

    results = check_all(
        [Gate.least("baseline.difference", "0.2", -1), Gate.parse("gpt.baseline.newly_failing<=0")], now, comparisons
    )

    assert [(one.gate.text, one.met) for one in results] == [
        ("gpt.baseline.difference>=-0.2", True),
        ("gpt-5.1.baseline.difference>=-0.2", False),
        ("gpt.baseline.newly_failing<=0", True),
    ]


def test_verdict_names_some_failing_tests_in_full_and_counts_the_others() -> None:
    run = examples.run(record())
    total = summarize(run).total
    names = tuple(f"tests/test_{'long' * 60}.py::test_contract[{number}]" for number in range(62))

    some, many = (decide(Ending(answers=failing), total, []) for failing in (names[:2], names))

    assert some.because == (f"2 tests failed: {names[0]}, {names[1]}",)
    assert many.because == (f"62 tests failed: {', '.join(names[:5])}, and 57 more",)
    broken_call = summarize(examples.run(record(), record("b", generation=examples.failed()))).total
    with_error = decide(Ending(answers=names), broken_call, [])
    named = f"62 tests failed by their answers: {', '.join(names[:5])}, and 57 more"
    assert with_error.because == (named, "1 attempt of 2 without an answer")
    broken = decide(Ending(broken_schemas=names), total, [])
    assert broken.because == (f"62 tests with a broken schema: {', '.join(names[:5])}, and 57 more",)
    run = replace(run, verdict=many)
    assert suite_properties(run, summarize(run), ())["jsbench.because.1"] == many.because[0]
    assert _of_page("".join(report.render(run, summarize(run), ())))[1] == [*many.because]
    assert _of_markdown(summary_markdown(run, summarize(run), ()))[1] == [*many.because]


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("baseline.tpot_p50.ratio<=1.1", False),
        ("baseline.tpot_p50.ratio.ci_high<=3", True),
        ("baseline.ttft_p50.ratio<=1.1", True),
        ("baseline.cost.ratio<=1.1", False),
    ],
)
def test_a_gate_is_on_the_ratio_of_a_time_to_the_baselines(text: str, met: bool) -> None:
    six = summary(*map(record, "abcdef"))
    before, now = (
        {name: replace(one, measures={"ttft": (0.1,), "tpot": (tpot,)}) for name, one in six.outcomes.items()}
        for tpot in (20.0, 50.0)
    )

    result = check(Gate.parse(text), six, {"": compare(before, now)})

    assert result.met is met, result.message


def test_a_quantile_that_the_count_does_not_carry_meets_no_gate() -> None:
    found = summary(*(record(f"c{at}") for at in range(19)))

    assert check(Gate.parse("tgt_p95<=100"), found).message.endswith(
        "a 95th percentile needs 20 values, found 19; use the median (_p50) instead"
    )
    assert check(Gate.parse("tgt_p90<=100"), found).met
