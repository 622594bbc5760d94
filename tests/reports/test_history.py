from __future__ import annotations

import json
import multiprocessing
import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.json_values import to_json
from pytest_jsbench.formats import load_format_schema
from pytest_jsbench.metrics.comparison import compare
from pytest_jsbench.reports import markdown
from pytest_jsbench.reports.history import History, HistoryLine, WrittenCases, add, report
from pytest_jsbench.reports.run_json import Evaluation, parse
from pytest_jsbench.reports.terminal import report_lines
from tests.support import examples
from tests.support.examples import replace
from tests.support.mutations import mutated_lines, survive

ENDS = {"p": examples.PASSED, "f": examples.VIOLATED, "?": examples.BROKEN}


def evaluation(*ends: str, day: int = 1, schema: Any = True, **metadata: Any) -> Evaluation:
    """
    Return a run of that day with these outcomes per case and attempt: `p` passed, `f` failed, `?`
    was not answered.
    """
    records = [
        replace(
            examples.record(
                f"c{at}", verdict=ENDS[end], schema=schema, generation=examples.failed() if end == "?" else None
            ),
            repeat=number,
        )
        for number, attempts in enumerate(ends)
        for at, end in enumerate(attempts)
    ]
    known = {"run_id": f"run{day}", "started_at": f"2026-11-{day:02}T10:00:00+00:00", **metadata}
    return examples.evaluation(examples.run(*records, **known), f"runs/run{day}")


def kept(path: Path, *evaluations: Evaluation, label: str | None = None) -> History:
    add(path, [HistoryLine.of(one, label) for one in evaluations])
    return History.read(path)


def report_of(history: History, **changes: Any) -> str:
    return " ".join(" ".join(report_lines(report(history.series, last=10), **changes)).split())


def test_a_line_is_small_conforms_to_the_published_schema_and_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    line = HistoryLine.of(evaluation("pf?" * 100, engine="recorded"))
    measured = HistoryLine.of(evaluation("pf?" * 100))

    assert add(path, [line]) == ([line], History(lines=(), warnings=()))

    (text,) = path.read_text().splitlines()
    jsonschema.validate(json.loads(text), load_format_schema("history"))
    assert History.read(path).lines == (line,)
    small = HistoryLine.of(evaluation("pf?", engine="recorded"))
    assert len(text) < len(json.dumps(to_json(small))) + 300
    assert len(json.dumps(to_json(measured))) < len(text) + 300 * 50
    assert WrittenCases.of(evaluation("pf?"), most_measured=3).measures
    assert not WrittenCases.of(evaluation("pf?"), most_measured=2).measures


def test_run_added_twice_is_one_line_of_a_history(tmp_path: Path) -> None:
    path, one = tmp_path / "h.jsonl", HistoryLine.of(evaluation("pf"))

    add(path, [one])
    added, _ = add(path, [one, HistoryLine.of(evaluation("pp", day=2)), replace(one, variant="b")])

    assert [line.variant for line in added] == ["", "b"]
    assert len(path.read_text().splitlines()) == 3


def test_bits_give_the_same_difference_as_whole_runs(tmp_path: Path) -> None:
    chance = random.Random(6)
    for repeats, others in ((1, 1), (1, 1), (2, 3), (3, 3), (4, 3)):
        first, second = (
            evaluation(*["".join(chance.choices("ppf?", k=12)) for _ in range(count)]) for count in (repeats, others)
        )

        before, now = HistoryLine.of(first), HistoryLine.of(second)

        change = now.since(before).difference

        assert now.cases.changes_since(before.cases) == (change.rose, change.fell)
        assert change.repeated is (others > 1)
        assert change == compare(first.outcomes or {}, second.outcomes or {}).difference
    better = kept(tmp_path / "h.jsonl", *[evaluation(*["ppf"] * day, "pff", day=day) for day in (1, 2)])
    assert "the share of attempts that pass is 0.167 higher over 3 cases" in report_of(better)
    assert "9 0 +1 -0" in report_of(better)


def test_history_shows_a_server_that_stalls_only_by_ratios_of_cases(tmp_path: Path) -> None:
    before, now = (evaluation("p" * 8, day=day) for day in (1, 2))
    stalled = {
        key: replace(outcome, measures={**outcome.measures, "tpot": (160.0,)})
        for key, outcome in (now.outcomes or {}).items()
    }

    history = kept(tmp_path / "h.jsonl", before, replace(now, outcomes=stalled))

    text = report_of(history)
    assert "the same verdict on each of 8 cases" in text
    assert "TTFT 1.00 (1.00 to 1.00 over 8 cases); TPOT 2.00 (2.00 to 2.00 over 8 cases): longer; TGT 1.00" in text
    (since,) = history.series[0].to_dict()["since"]
    assert since["ratios"]["tpot"] == to_json(compare(before.outcomes or {}, stalled).ratios["tpot"])


def test_newest_line_is_compared_with_the_last_one_of_its_cases(tmp_path: Path) -> None:
    runs = [
        evaluation("p" * 10, day=1),
        evaluation("p" * 10, day=2, schema={"minimum": 1}),
        evaluation("ffffffffpp", day=3),
    ]

    history = kept(tmp_path / "h.jsonl", *runs)

    text = report_of(history)
    assert "newest since 2026-11-01 10:00: 8 fewer of 10 cases pass (-0.800, " in text
    assert "a real difference (exact test: p = 0.0078)" in text
    assert "2026-11-02 1.00 (.69-1) 1.00 10 10 0 other cases" in text
    assert "10 0 +0 -8" in text


def test_history_has_a_table_per_label_with_adjusted_p_values(tmp_path: Path) -> None:
    runs = [evaluation(ends, day=day) for day, ends in ((1, "p" * 6), (2, "f" * 6))]
    more = [evaluation("pf", day=day, prompt="chat") for day in (3, 4)]

    alone, both = kept(tmp_path / "a.jsonl", *runs), kept(tmp_path / "b.jsonl", *runs, *more)

    assert [one.label for one in both.series] == ["scripted, m, json_schema", "scripted, m, json_schema, prompt chat"]
    assert [[since.comparison.real for since in history.series[0].since] for history in (alone, both)] == [
        [True],
        [False],
    ]
    assert report_of(both).count("p-values adjusted for 2 comparisons (Holm)") == 1
    assert "p-values" not in report_of(alone)


def test_equal_variant_names_of_different_models_have_own_labels() -> None:
    runs = [evaluation("pf", model=model) for model in ("a", "b")]
    variants = [replace(each, run={**each.run, "variant": "cool"}) for each in runs]

    assert [HistoryLine.of(one).label for one in variants] == [
        "scripted, a, json_schema [cool]",
        "scripted, b, json_schema [cool]",
    ]
    assert HistoryLine.of(variants[0], "nightly").label == "nightly cool"


def test_gradual_change_is_detected_against_the_first_line(tmp_path: Path) -> None:
    runs = [evaluation("p" * (20 - 4 * day) + "f" * 4 * day, day=day) for day in (1, 2, 3, 4)]

    (series,) = kept(tmp_path / "h.jsonl", *runs).series

    assert [(since.before.run["run_id"], since.comparison.real) for since in series.since] == [
        ("run3", False),
        ("run1", True),
    ]
    text = report_of(History(lines=series.lines, warnings=()))
    assert "newest since 2026-11-03 10:00: 4 fewer of 20 cases pass" in text
    assert "and since 2026-11-01 10:00: 12 fewer of 20 cases pass" in text


def test_changed_setting_under_a_given_label_is_reported(tmp_path: Path) -> None:
    runs = [evaluation("pf", day=1), evaluation("pf", day=2, prompt="chat", versions={"judge": "7"})]

    text = report_of(kept(tmp_path / "h.jsonl", *runs, label="nightly"))

    assert "label nightly" in text
    assert "the same verdict on each of 2 cases" in text
    assert "prompt schema → chat" in text
    assert "the runs were judged by different rules (judge)" in text


def test_each_line_has_the_settings_changed_since_the_previous(tmp_path: Path) -> None:
    dataset = {"source": "builtin", "split": "test"}
    runs = [
        evaluation("pf", day=1, dataset={**dataset, "where": ["size<9"]}),
        evaluation("pf", day=2, dataset={**dataset, "where": [], "steps": ["filter size<9"]}, concurrency=3),
        evaluation("pp", day=3, prompt="chat", concurrency=3),
        evaluation("pfp", day=4, prompt="chat", concurrency=3, dataset={**dataset, "limit": 3}),
    ]

    history = kept(tmp_path / "h.jsonl", *runs, label="nightly")

    text = report_of(history)
    assert "changed 2026-11-02 10:00: other times: concurrency 1 → 3 " in text
    assert "changed 2026-11-03 10:00: other answers: prompt schema → chat" in text
    assert "changed 2026-11-04 10:00: other cases: limit " in text
    changes = [[one["name"] for one in line["changes"]] for line in history.series[0].to_dict()["lines"]]
    assert changes[:3] == [[], ["concurrency"], ["prompt"]]
    assert "changed 2026-11-02" not in " ".join(report_lines(report(history.series, last=2)))


def test_damaged_lines_are_skipped_and_counted_without_damaging_others(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    kept(path, evaluation("pf", day=1), evaluation("pf", day=2))
    path.write_text(path.read_text() + '<<<<<<< HEAD\n{"schema_version": "1.0", "la')

    added, known = add(path, [HistoryLine.of(evaluation("pp", day=3))])

    assert len(added) == 1
    assert [line.run["run_id"] for line in History.read(path).lines] == ["run1", "run2", "run3"]
    (warning,) = known.warnings
    assert warning.startswith(f"{path}:3: not JSON")
    assert "this is the first of 2 damaged lines, which are all skipped" in warning


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"label": 5}', "label is 5: expected str, got int"),
        ('{"label": "m"}', "the whole has no "),
        ("[1]", "the whole is an array: expected object, got array"),
    ],
)
def test_invalid_history_line_is_rejected_and_the_file_kept(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(line + "\n")

    with pytest.raises(JSBenchError) as caught:
        add(path, [HistoryLine.of(evaluation("p"))])

    assert message in str(caught.value)
    assert f"{path}:1" in str(caught.value)
    assert path.read_text() == line + "\n"


@pytest.mark.parametrize(
    ("bits", "message"),
    [
        ({"passed": "ff"}, "must cover 2 cases"),
        ({"undecided": "3"}, "must cover 2 cases"),
        ({"count": 10_000_000, "attempts": 10_000_000}, "must cover 10000000 cases with 10000000 attempts"),
        ({"measures": {"ttft": [1.0]}}, "each list in cases.measures must have 2 values"),
    ],
)
def test_inconsistent_bits_of_a_history_are_rejected(bits: dict[str, Any], message: str) -> None:
    data = to_json(HistoryLine.of(evaluation("pp")))
    data["cases"] |= bits

    with pytest.raises(JSBenchError, match=message):
        HistoryLine.from_dict(data)


def test_hostile_history_is_shown_safely_or_rejected(tmp_path: Path) -> None:
    path, hostile = tmp_path / "h.jsonl", tmp_path / "hostile.jsonl"
    kept(path, evaluation("pf", day=1), evaluation("p?", day=2, prompt="\x1b[31m\n::error::x"))
    data = path.read_bytes()

    def attempt(chance: random.Random) -> None:
        hostile.write_bytes(mutated_lines(data, chance))
        history = History.read(hostile).series
        assert "\x1b" not in "\n".join(report_lines(report(history, last=5)))
        assert "\x1b" not in markdown.report(report(history, last=5))
        json.dumps({"series": [one.to_dict() for one in history]})

    survived = survive("histories", attempt)
    assert not survived.broken, str(survived)


def _add_many(path: Path, first: int) -> None:
    line = HistoryLine.of(evaluation("pf"))
    for number in range(first, first + 20):
        add(path, [replace(line, run={**line.run, "run_id": f"r{number}"})])


@pytest.mark.slow
def test_concurrent_additions_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_add_many, args=(path, first)) for first in (0, 10)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert [worker.exitcode for worker in workers] == [0, 0]
    names = [json.loads(line)["run"]["run_id"] for line in path.read_text().splitlines()]
    assert sorted(names) == sorted(f"r{number}" for number in range(30))


def test_evaluation_without_a_run_is_no_history_line() -> None:
    with pytest.raises(JSBenchError, match="does not identify its run"):
        HistoryLine.of(parse({"metrics": {"n": 1}}, source="x.json"))


def test_history_has_a_column_and_plot_of_values_if_any_are_expected(tmp_path: Path) -> None:
    before, now = evaluation("pp"), evaluation("pp", day=2)
    valued = replace(now, metrics={**now.metrics, "value_accuracy": 0.75, "value_accuracy_ci_low": 0.5})

    assert "Values" not in report_of(kept(tmp_path / "none.jsonl", before, now))
    history = kept(tmp_path / "some.jsonl", before, valued)

    (series,) = history.series
    assert series.lines[1].metrics["value_accuracy"] == 0.75
    assert "Run Pass rate Values TGT" in report_of(history)
    assert "(.16-1) 0.75 1.00 2 2 0 +0 -0" in report_of(history)
