"""
Write every output of a run with an additional figure of each kind: `python -m … FOLDER`.

The figures are added to the source of `Metrics` before any other module has imported it, each as one method.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

MODULE = "pytest_jsbench.metrics.metrics"
#: Comment in the class before its first figure.
PLACE = "    # Rates, in the order of their columns.\n"
#: A rate, a time and a count, each as a method that returns the value of another figure.
METHODS = """
    @metric(RATE, words="Terse answers", is_main=True, heading="Terse!", tables=TASKS | VARIANTS | RUNS)
    def terse(self) -> Proportion:
        return self.pass_rate

    @metric(TIME, words="Longest pause", unit="s", is_main=True, heading="Pause!", tables=TASKS | VARIANTS | RUNS)
    def pause(self) -> Distribution:
        return self.tgt

    @metric(COUNT, words="Commas of answers", is_main=True, heading="Commas!", tables=TASKS | VARIANTS | RUNS)
    def commas(self) -> int:
        return self.cases
"""


def add_figures() -> None:
    """Load the module of the figures with additional methods in its class."""
    spec = importlib.util.find_spec(MODULE)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text("utf-8")
    assert source.count(PLACE) == 1
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    exec(compile(source.replace(PLACE, PLACE + METHODS), spec.origin, "exec"), module.__dict__)


def write(folder: Path) -> None:
    """Write the content of each output, as texts by name."""
    from pytest_jsbench.metrics.gates import Gate, check
    from pytest_jsbench.metrics.summary import summarize
    from pytest_jsbench.reports import plot, run_json
    from pytest_jsbench.reports.history import HistoryLine, Series, report
    from pytest_jsbench.reports.run_report import main_table
    from pytest_jsbench.reports.tables import summary_to_pandas
    from pytest_jsbench.reports.terminal import report_lines
    from tests.support import examples
    from tests.support.every_output import ordinary, outputs, side_by_side
    from tools import reference

    summary = summarize(ordinary())
    texts = outputs(ordinary(), summary, folder)
    again = run_json.read(folder / "run.json")
    line = HistoryLine.of(again)
    of_variants = examples.compared(a="pp", b="pv")
    texts |= {
        "compare": side_by_side([again, again], ["x", "y"]),
        "compare -v": side_by_side([again, again], ["x", "y"], verbose=True),
        "variants": "\n".join(report_lines([main_table(of_variants, summarize(of_variants))])),
        "history": "\n".join(report_lines(report([Series(label="x", lines=(line,), since=())], last=5))),
        "history's file": json.dumps(line.metrics),
        "plot": " ".join(axis.get_title() for axis in plot.picture([again], ["x"]).axes),
        "tables": " ".join(map(str, summary_to_pandas(summary).columns)),
        "docs": reference.figures(),
        "gates": "\n".join(
            check(Gate.parse(f"{name}>=0"), summary).message for name in ("terse", "pause_p50", "commas")
        ),
    }
    (folder / "texts.json").write_text(json.dumps(texts))


if __name__ == "__main__":
    add_figures()
    write(Path(sys.argv[1]))
