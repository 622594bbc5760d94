from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench import EvaluatedRun, JSBenchError, Run, load_run, plot_runs, summarize
from tests.support import examples
from tests.support.examples import record, replace
from tests.support.hostile_texts import HOSTILE_TEXTS


def a_run(**changes: object) -> EvaluatedRun:
    run = examples.run(record("good"), record("bad", verdict=examples.VIOLATED))
    return EvaluatedRun.of_run(replace(run, metadata=examples.metadata(**changes)))


def test_evaluated_run_is_a_run_with_a_one_line_repr() -> None:
    run = a_run()

    assert isinstance(run, Run)
    assert summarize(run).total == run.summary.total
    assert repr(run) == "<run of scripted m: 2 attempts, pass rate 0.50, in memory>"
    assert "Empirical" in str(run)
    assert "total" in repr(run.summary)


def test_a_notebook_shows_the_table_that_a_terminal_does() -> None:
    shown = a_run().summary._repr_html_()

    assert shown.startswith("<table>")
    assert "<th>Empirical coverage" in shown
    assert shown.count("<tr>") == 1 + 2
    assert "2 attempts, pass rate 0.50" in a_run()._repr_html_()


def test_displayed_run_has_facts_and_reasons_of_failed_calls() -> None:
    broken = replace(examples.failed(), message="no answer in 1 s; more with --jsbench-engine-option slots=2")
    run = examples.run(record("good"), record("down", verdict=examples.BROKEN, generation=broken))
    shown = EvaluatedRun.of_run(run)

    for text in (str(shown), shown._repr_html_()):
        words = " ".join(text.replace(":", "").split())
        assert "1 attempt with a failed call; simple" in words
        assert "down timeout no answer in 1 s; more with slots=2" in words
        assert "pass rate 1/2 = 0.500 (95 % interval 0.013 to 0.987)" in words
        assert "errors 1 of 2 attempts (timeout 1) the figures are incomplete" in words


def test_run_of_variants_has_a_row_for_each() -> None:
    shown = EvaluatedRun.of_run(examples.compared(better="pp", worse="pv"))

    assert "worse against better" in str(shown)
    assert "worse against better" in shown._repr_html_()
    assert [row.split("<")[0].strip() for row in shown._repr_html_().split("<tr><td>")[1:]] == ["better", "worse"]


@pytest.mark.parametrize("message", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_untrusted_names_are_escaped_in_html(message: str) -> None:
    run = replace(a_run(model=message), warnings=(message,))

    for shown in (run._repr_html_(), run.summary._repr_html_()):
        plain = shown.replace("<br>", "")
        assert "<script" not in plain
        assert "<img" not in plain
        assert not {"\x1b", "\x07", "\x00", "\u202e", "\u2028"} & set(plain)
    assert not {"\x1b", "\x07", "\u202e"} & set(repr(run) + str(run))


def test_runs_are_drawn_side_by_side_and_a_run_alone() -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plot")

    figure = plot_runs({"free": a_run(), "constrained": a_run()}, ["pass_rate", "ttft_p50"])
    assert len(figure.axes) >= 2
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"free", "constrained"}
    alone = a_run().plot(["pass_rate"])
    assert alone.axes
    assert pickle.loads(pickle.dumps(alone))._repr_png_().startswith(b"\x89PNG")  # in a notebook without pyplot
    with pytest.raises(JSBenchError, match="expected a mapping of names to runs"):
        plot_runs({})


def test_load_run_rejects_other_files_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(JSBenchError, match="no run at"):
        load_run(tmp_path / "nowhere")


def test_run_is_checked_against_gates_and_a_baseline(tmp_path: Path) -> None:
    run = a_run()

    met, unmeasured = run.check("pass_rate>=0.5", "grammar_compilation_p50<=1")
    assert met.met
    assert str(met) == "pass_rate 1/2 = 0.5, gate >= 0.5: met"
    assert repr(met) == f"<{met}>"
    assert not unmeasured.met
    (same,) = run.check("baseline.newly_failing<=0", baseline=a_run())
    assert same.met
    for gates, message in (
        ((), "no gate: expected conditions such as"),
        ((0.9,), "a gate is a float; expected a text such as"),
        (("baseline.difference>=0",), r"needs a baseline; expected run.check\(…, baseline=RUN\)"),
    ):
        with pytest.raises(JSBenchError, match=message):
            run.check(*gates)
    with pytest.raises(JSBenchError, match="cannot be read: No such file"):
        run.check("pass_rate>=0", baseline=tmp_path / "none")


def test_two_runs_are_compared_case_by_case(tmp_path: Path) -> None:
    better, worse = (EvaluatedRun.of_run(examples.compared(m=ends).each()["m"]) for ends in ("p" * 9, "v" * 9))

    found = worse.compare(better)

    assert len(found.newly_failing) == 9
    assert found.real
    assert repr(found) == f"<{found.sentence}>"
    assert found.sentence.startswith("9 fewer of 9 cases pass")
    with pytest.raises(JSBenchError, match=r"variants \(a, b\); select one, as in .*of_variant\('a'\)"):
        EvaluatedRun.of_run(examples.compared(a="p", b="v")).compare(better)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run: run.compare(7), "EvaluatedRun.compare: baseline is 7; expected a run, or its path"),
        (lambda run: run.check("baseline.n>0", baseline=7), "check: baseline is 7; expected a run, or its path"),
        (lambda run: load_run(run.warnings), "load_run: path is (); expected a path"),
        (lambda run: plot_runs(run), "runs is an EvaluatedRun; expected a mapping of names to runs"),
        (lambda run: plot_runs({"a": run.warnings}), "runs is a dict; expected a mapping"),
        (
            lambda run: run.plot(metric="pass_rate"),
            "EvaluatedRun.plot has no argument 'metric': did you mean 'metrics'",
        ),
        (lambda run: summarize(run.warnings), "summarize: run is (); expected a run"),
        (lambda run: run.to_csv("none/run.csv"), "cannot write none/run.csv: there is no directory none; create it"),
        (lambda run: run.to_csv("."), "cannot write .: it is a directory; name a file"),
        (lambda run: run.to_parquet("none/run.parquet"), "cannot write none/run.parquet: there is no directory none"),
    ],
)
def test_invalid_use_of_a_run_is_one_line(call: Callable[[Any], object], message: str) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra frames")
    with pytest.raises(JSBenchError) as refused:
        call(a_run())

    assert message in str(refused.value)


def test_a_run_becomes_a_dataset_for_a_hub() -> None:
    datasets = pytest.importorskip("datasets", reason="needs the extra datasets")

    made = a_run().to_dataset()

    assert isinstance(made, datasets.Dataset)
    assert made["id"][:] == ["good", "bad"]
