"""Check the list of quarantined cases: its lines, its dates, and what it leaves out of a run."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.metrics.quarantine import Quarantine, QuarantineState, leave_out
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records.records import Missing, MissingReason
from pytest_jsbench.records.runs import Run
from pytest_jsbench.reports.expectations import Expectations
from pytest_jsbench.reports.quarantine_report import facts_of_quarantine
from tests.support import examples
from tests.support.examples import record, replace

TODAY = date(2026, 11, 21)
LIST = """
# may fail for now
t::bad: 2026-11-21: the server drops `minimum`: ticket 4711

t::good: 2026-12-31: was broken
t::open: 2026-12-31: slow
t::late: 2026-11-20: promised for yesterday
t::typo: 2026-12-31: no such case
"""


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    path = tmp_path / "quarantine.txt"
    path.write_text(LIST)
    return path


def key(name: str) -> CaseKey:
    return CaseKey(task="t", id=name)


def run() -> Run:
    return examples.run(
        record("bad", task="t", verdict=examples.VIOLATED),
        record("good", task="t"),
        record("open", task="t", verdict=examples.BROKEN, generation=examples.failed()),
        record("late", task="t", verdict=examples.VIOLATED),
        record("other", task="t"),
    )


def decided(listed: Path, *gates: str, made: Run | None = None) -> Expectations:
    from pytest_jsbench.metrics.gates import Gate

    return Expectations.read(
        [Gate.parse(gate) for gate in gates],
        None,
        keys=(made or run()).planned,
        variants=(made or run()).variants,
        metrics=(),
        repeats=1,
        quarantine=listed,
    )


def test_entry_is_active_up_to_and_including_its_day(listed: Path) -> None:
    def active(today: date) -> set[str]:
        return {each.id for each in Quarantine.read(listed, today).active}

    assert active(TODAY) == {"bad", "good", "open", "typo"}
    assert active(date(2026, 11, 20)) == {"bad", "good", "open", "typo", "late"}
    assert active(date(2026, 11, 22)) == {"good", "open", "typo"}
    assert active(date(2027, 1, 1)) == set()


def test_day_of_a_run_is_that_of_its_start(listed: Path) -> None:
    metadata = examples.metadata(started_at="2026-11-22T00:00:01+00:00")

    assert Quarantine.read(listed).of_run(metadata).today.day == 22


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("t::a 2026-12-31 x", "found 't::a 2026-12-31 x'; expected CASE: YYYY-MM-DD: REASON"),
        ("t::a: 2026-12-31:", "expected CASE: YYYY-MM-DD: REASON"),
        ("t::a: 31.12.2026: x", "expected CASE: YYYY-MM-DD: REASON"),
        ("t::a: 2026-13-31: x", "invalid date 2026-13-31: month must be in 1..12"),
        ("a: 2026-12-31: x", "expected CASE: YYYY-MM-DD: REASON"),
        ("t::a/b: 2026-12-31: x", "not a valid name"),
        ("t::a\x1b[31m: 2026-12-31: x", "expected CASE|not a valid name"),
        ("t::z: 2026-12-31: x", "a second entry for t::z; expected one"),
    ],
)
def test_invalid_line_is_rejected_with_its_number(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text(f"t::z: 2026-12-31: first\n{line}\n")

    with pytest.raises(JSBenchError, match=message) as caught:
        Quarantine.read(path, TODAY)

    assert f"{path}:2: " in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_list_that_cannot_be_read_is_rejected_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(JSBenchError, match=r"^--jsbench-quarantine: .*none\.txt"):
        decided(tmp_path / "none.txt")


def test_reason_has_no_escape_codes(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("t::a: 2026-12-31: red \x1b[31m text\n")

    assert Quarantine.read(path, TODAY).entries[key("a")].reason == "red \\x1b[31m text"


def test_report_states_what_became_of_each_entry(listed: Path) -> None:
    report = decided(listed).decide(run(), summarize(run())).quarantine

    assert report is not None
    assert {each.id: state for each, state in report.states.items()} == {
        "bad": QuarantineState.FAILED,
        "good": QuarantineState.PASSED,
        "open": QuarantineState.UNDECIDED,
        "late": QuarantineState.EXPIRED,
        "typo": QuarantineState.NO_CASE,
    }
    assert report.to_list()[0] == {
        "case": "t::bad",
        "until": "2026-11-21",
        "reason": "the server drops `minimum`: ticket 4711",
        "state": "failed",
    }
    assert [*facts_of_quarantine(report)] == [
        ("quarantine", "3 cases of quarantine.txt left out of the gates and the verdict"),
        ("", "failed, excused: t::bad (2026-11-21: the server drops `minimum`: ticket 4711)"),
        ("", "passed, can be removed from quarantine.txt: t::good"),
        ("", "without a result: t::open"),
        ("", "expired, count again: t::late (2026-11-20: promised for yesterday)"),
        ("", "not among the dataset's cases in this run: t::typo"),
    ]


def test_list_that_is_removed_during_the_run_still_applies(listed: Path) -> None:
    expectations = decided(listed)
    listed.unlink()

    report = expectations.decide(run(), summarize(run())).quarantine

    assert report is not None
    assert report.states[key("bad")] is QuarantineState.FAILED


def test_case_that_passed_in_some_attempts_only_has_failed(listed: Path) -> None:
    made = examples.run(
        record("good", task="t"), replace(record("good", task="t", verdict=examples.VIOLATED), repeat=1), repeats=2
    )

    report = decided(listed, made=made).decide(made, summarize(made)).quarantine

    assert report is not None
    assert report.states[key("good")] is QuarantineState.FAILED


def test_gates_are_decided_without_quarantined_cases(listed: Path) -> None:
    made = run()
    summary = summarize(made)

    decision = decided(listed, "pass_rate>=0.5", "planned==2", "failure_counts.schema_violation<=1").decide(
        made, summary
    )

    assert [result.met for result in decision.gates] == [True, True, True]
    assert decision.deciding is not None
    assert (decision.deciding.total.passed, decision.deciding.total.planned) == (1, 2)
    assert (summary.total.passed, summary.total.planned) == (2, 5)
    assert decision.quarantined == 3


def test_comparison_with_the_baseline_is_made_without_quarantined_cases(listed: Path) -> None:
    before = examples.run(*(record(name, task="t") for name in ("bad", "good", "open", "late", "other", "gone")))
    expectations = replace(decided(listed), baseline=examples.evaluation(before))

    (comparison,) = expectations.decide(run(), summarize(run())).comparisons.values()

    assert comparison.newly_failing == (key("late"),)
    assert comparison.ratchet is not None
    assert comparison.ratchet.broken == (key("late"),)
    assert comparison.ratchet.vanished == (key("gone"),)


def test_case_is_left_out_of_each_variant_and_of_the_plan() -> None:
    variants = examples.variants(small={"model": "s"}, large={"model": "l"})
    records = [replace(record(name, task="t"), variant=one) for name in ("a", "b") for one in ("small", "large")]
    made = examples.run_of_variants(variants, *records)
    missing = Missing(key=key("a"), repeat=1, reason=MissingReason.STOPPED, variant="small")

    kept = leave_out(replace(made, missing=(missing,)), {key("a")})

    assert kept.missing == ()
    assert {name: part.planned for name, part in kept.each().items()} == {"small": (key("b"),), "large": (key("b"),)}
    assert summarize(kept).total.planned == 2
    assert leave_out(made, ()) == made


def test_run_without_a_list_is_decided_as_a_whole() -> None:
    decision = Expectations.read((), None, keys=run().planned, variants=(), metrics=(), repeats=1).decide(
        run(), summarize(run())
    )

    assert (decision.quarantine, decision.deciding, decision.quarantined) == (None, None, 0)
    assert [*decision.facts()] == []
