from __future__ import annotations

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.metrics.comparison import CaseOutcome, compare
from pytest_jsbench.reports.comparison_table import changes, judged_apart


def ended(end: str, schema: str = "aa") -> CaseOutcome:
    return CaseOutcome(schema=schema, attempts=(end,))


def test_what_broke_was_mended_or_is_not_shared_is_said_within_eighty_columns() -> None:
    keys = [CaseKey(task="simple", id=f"c{number}") for number in range(15)]
    before = {key: ended("passed") for key in keys[:12]} | {keys[12]: ended("passed", "bb"), keys[13]: ended("refusal")}
    now = {key: ended("truncated") for key in keys[:11]} | {
        keys[11]: ended("api_error"),
        keys[12]: ended("passed"),
        keys[14]: ended("passed"),
    }

    lines = changes(compare(before, now), "runs/base")
    text = " ".join(" ".join(lines).split())

    assert text.startswith("baseline runs/base: 11 fewer of 11 cases pass (-1.000, ")
    assert "a real difference (exact test: p = 0.00098)" in text
    assert "broke 11: simple::c0, simple::c1," in text
    assert "simple::c9, and 1 more" in text
    assert "mended" not in text
    assert text.endswith("1 undecided in one run, 1 whose schema changed, 1 only in the baseline, 1 only in this run")
    assert max(map(len, lines)) <= 80


def test_hostile_sources_are_shown_as_text() -> None:
    key = CaseKey(task="a", id="b")

    lines = changes(compare({key: ended("passed")}, {key: ended("refusal")}), "\x1b]0;../../x\x07")

    assert not any(character in "".join(lines) for character in "\x1b\u202e\x07\n")
    assert "\\x1b]0;../../x\\x07" in " ".join(lines)


def test_runs_judged_by_different_rules_are_named_as_such() -> None:
    assert judged_apart("2", None, "2") == []
    assert "judged by different rules (versions 1, 2)" in " ".join(" ".join(judged_apart("2", "1")).split())
