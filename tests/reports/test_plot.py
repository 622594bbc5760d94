from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.reports.history import History, HistoryLine
from pytest_jsbench.reports.plot import _columns, picture, picture_of_history, save
from pytest_jsbench.reports.run_json import Evaluation, parse
from tests.support import examples
from tests.support.examples import record, replace
from tests.support.public_data import OPENADAPT_EVALS

pytestmark = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs the extra plot")


def evaluation(**metrics: Any) -> Evaluation:
    return parse({"backend": "b", "config_path": "c", "metrics": metrics}, source="e.json")


def panels(figure: Any) -> dict[str, Any]:
    return {axis.get_title().splitlines()[0]: axis for axis in figure.axes if axis.get_title()}


def texts(axis: Any) -> list[str]:
    return [text.get_text() for text in axis.texts]


def test_third_party_metrics_have_panels_and_null_has_no_bar() -> None:
    drawn = panels(picture([evaluation(acc=0.5, err=None, new=0), evaluation(acc=None, err=2)], ["a", "b"]))

    assert list(drawn) == ["acc", "err", "new"]
    assert [len(axis.patches) for axis in drawn.values()] == [1, 1, 1]
    assert texts(drawn["acc"]) == ["0.5", "n/a"]
    assert texts(drawn["err"]) == ["n/a", "2"]
    assert texts(drawn["new"]) == ["0", "n/a"]


@pytest.mark.parametrize(
    ("metric", "direction"),
    [
        ("mean_coord_error", "↓ lower is better"),
        ("ttft_p95", "↓ lower is better"),
        ("cost", "↓ lower is better"),
        ("failure_rates.truncated", "↓ lower is better"),
        ("invented", "↓ lower is better"),
        ("fields.cost.accuracy", "↑ higher is better"),
        ("fields.cost.right", "(a count)"),
        ("click_hit_rate", "↑ higher is better"),
        ("coord_error_count", "(a count)"),
        ("wobble", "(direction not known)"),
    ],
)
def test_the_direction_of_a_metric_is_marked(metric: str, direction: str) -> None:
    (axis,) = picture([evaluation(**{metric: 1})], ["a"]).axes

    assert axis.get_title().splitlines() == [metric, direction]


def test_intervals_are_whiskers_of_either_spelling() -> None:
    figure = picture([evaluation(a=0.5, a_ci_low=0.4, a_ci_high=0.7), evaluation(a=0.5, a_ci=[0.1, 0.9])], ["x", "y"])

    (axis,) = figure.axes
    ends = [sorted(point for path in bars.get_paths() for point in path.vertices[:, 1]) for bars in axis.collections]
    assert [(one[0], one[-1]) for one in ends] == [pytest.approx((0.4, 0.7)), pytest.approx((0.1, 0.9))]


@pytest.mark.parametrize(("bars", "degrees"), [(8, 0), (9, 90)])
def test_values_of_many_bars_are_vertical_and_do_not_overlap(bars: int, degrees: int) -> None:
    (axis,) = picture([evaluation(a=0.0333)] * bars, [f"run {at}" for at in range(bars)]).axes

    assert {text.get_rotation() for text in axis.texts if text.get_text() == "0.0333"} == {degrees}


def test_plot_of_a_run_has_the_main_metrics_and_its_failures() -> None:
    summary = summarize(examples.run(record("a"), record("b", verdict=examples.VIOLATED)))
    figures = summary.total.to_dict()
    one = evaluation(**figures)

    drawn = list(panels(picture([one], ["m"])))

    assert drawn[:4] == ["Pass rate", "Declared coverage", "Empirical coverage", "Time to first token, median"]
    assert drawn[-1] == "Failure rates: schema violation"
    assert "Cost" not in drawn
    assert not {"Value accuracy", "Exact match"} & {*drawn}
    few = {name: figures[name] for name in ("pass_rate", "planned", "tgt_p95")} | {"value_accuracy": 0.5}
    assert list(panels(picture([evaluation(**few)], ["m"]))) == ["Pass rate", "Value accuracy"]
    assert len(panels(picture([evaluation(**few)], ["m"], ["all"]))) == 4
    with pytest.raises(JSBenchError, match="no metric 'pas_rate' in any of the files"):
        picture([one], ["m"], ["pas_rate"])


def test_a_hostile_label_or_metric_is_text_and_no_formula(tmp_path: Path) -> None:
    hostile = "$\\frac{$ \x1b[31m\u202e\U0001f4a9" + "x" * 500

    runs = [evaluation(**{hostile: 1.0}), evaluation(**{hostile: 2.0})]
    save(picture(runs, [hostile, "b"]), tmp_path / "deep" / "x.png")

    assert (tmp_path / "deep" / "x.png").read_bytes().startswith(b"\x89PNG")


def test_real_files_of_another_project_are_drawn(tmp_path: Path) -> None:
    files = sorted(OPENADAPT_EVALS.glob("*.json"))
    if not files:
        pytest.skip("shared/data/openadapt_evals is not there")
    from pytest_jsbench.reports.run_json import read

    figure = picture([read(path) for path in files], [path.stem for path in files])

    assert len(panels(figure)) == 7
    assert texts(panels(figure)["click_hit_rate"]).count("n/a") == 6


def test_file_that_cannot_be_plotted_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(JSBenchError, match=r"x\.docx cannot be drawn: .*expected a name that ends in \.png"):
        save(picture([evaluation(a=1)], ["a"]), tmp_path / "x.docx")
    (tmp_path / "file").touch()
    with pytest.raises(JSBenchError, match="cannot write"):
        save(picture([evaluation(a=1)], ["a"]), tmp_path / "file" / "x.png")


def test_missing_matplotlib_is_one_line_with_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(JSBenchError, match=r"pip install 'pytest-jsbench\[plot\]'"):
        save(picture([evaluation(a=1)], ["a"]), tmp_path / "x.png")


@pytest.mark.parametrize("panels", range(1, 40))
def test_no_panel_is_alone_in_the_last_row(panels: int) -> None:
    columns = _columns(panels)

    assert columns <= 5
    assert panels <= columns or panels % columns != 1


def test_plot_has_the_settings_in_which_runs_differ() -> None:
    runs = [run_evaluation(prompt=name, params={"max_tokens": most}) for name, most in (("schema", 9), ("chat", 5))]

    (legend,) = picture(runs, ["a", "b"]).legends

    assert legend.get_title().get_text() == "differing in prompt, max_tokens"


def run_evaluation(**metadata: Any) -> Evaluation:
    return examples.evaluation(examples.run(record("a"), record("b", verdict=examples.VIOLATED), **metadata))


def test_plot_of_a_history_has_a_line_per_label_and_escapes_formulas() -> None:
    entries = [
        HistoryLine.of(run_evaluation(run_id=f"r{day}", started_at=f"2026-11-0{day}T10:00:00+00:00"), label)
        for label, days in (("$one$", (1, 2)), ("two", (3,)))
        for day in days
    ]

    figure = picture_of_history(History(lines=tuple(entries), warnings=()).series)

    (axis,) = figure.axes
    assert axis.get_title().splitlines() == ["Pass rate over time, with 95 % intervals", "↑ higher is better"]
    assert [len(line.lines[0].get_xdata()) for line in axis.containers] == [2, 1]
    low, high = axis.containers[1].lines[2][0].get_segments()[0][:, 1]
    assert (low, high) == pytest.approx((0.0126, 0.9874), abs=1e-4)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["\\$one\\$", "two"]


def test_no_line_joins_runs_that_cannot_be_compared() -> None:
    first = HistoryLine.of(run_evaluation())
    other = replace(first.cases, digest="sha256:" + "0" * 64)
    undecided = replace(first.cases, passed="0", undecided=f"{(1 << first.cases.count) - 1:x}")
    changes: list[dict[str, Any]] = [{}, {}, {"cases": other}, {}, {"verdict": "incomplete"}, {"cases": undecided}]
    entries = [
        replace(first, **change, run={**first.run, "run_id": f"r{day}", "started_at": f"2026-11-0{day}T10:00:00+00:00"})
        for day, change in enumerate(changes, 1)
    ]

    (axis,) = picture_of_history(History(lines=tuple(entries), warnings=()).series).axes

    gaps = [value != value for value in axis.containers[0].lines[0].get_ydata()]
    assert gaps == [False, False, True, False, True, False, True, False, True, False]


def test_plot_of_a_long_history_has_a_band_instead_of_whiskers() -> None:
    entry = HistoryLine.of(run_evaluation())
    days = [
        replace(entry, run={**entry.run, "run_id": f"r{day}", "started_at": f"{2000 + day}-11-01T10:00:00+00:00"})
        for day in range(61)
    ]

    figure = picture_of_history(History(lines=(replace(entry, label="short"), *days), warnings=()).series)

    (axis,), (legend,) = figure.axes, figure.legends
    names = {text.get_text(): type(one).__name__ for text, one in zip(legend.texts, legend.legend_handles, strict=True)}
    assert names == {"short": "LineCollection", entry.label: "Line2D"}
    assert len(axis.lines[-1].get_xdata()) == 61
    band = axis.collections[-1]
    heights = band.get_paths()[0].vertices[:, 1]
    assert (min(heights), max(heights)) == pytest.approx((0.0126, 0.9874), abs=1e-3)
