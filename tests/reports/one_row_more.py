"""
Write every output of a run with an additional figure of each kind: `python -m … FOLDER`.

The rows are added to the source of the table before any other module has imported it, as if they were part of it.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from operator import attrgetter
from pathlib import Path

TABLE = "pytest_jsbench.metrics.figures"
#: By the tuple of the table to extend: the row, and the source of its value.
ROWS = {
    "_RATES": ('Figure("terse", RATE, "Terse answers", is_main=True, heading="Terse!", tables={tables}),', "pass_rate"),
    "_TIMES": ('Figure("pause", TIME, "Longest pause", "s", is_main=True, heading="Pause!", tables={tables}),', "tgt"),
    "_COUNTS": (
        'Figure("commas", COUNT, "Commas of answers", is_main=True, heading="Commas!", tables={tables}),',
        "cases",
    ),
}
TABLES = "TASKS | VARIANTS | RUNS"


def add_rows() -> None:
    """Load the table with the additional rows, and give the metrics their values."""
    spec = importlib.util.find_spec(TABLE)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text("utf-8")
    for place, (row, _) in ROWS.items():
        assert source.count(f"\n{place} = (\n") == 1
        source = source.replace(f"\n{place} = (\n", f"\n{place} = (\n    {row.format(tables=TABLES)}\n")
    module = importlib.util.module_from_spec(spec)
    sys.modules[TABLE] = module
    exec(compile(source, spec.origin, "exec"), module.__dict__)
    from pytest_jsbench.metrics.metrics import Metrics

    for row, like in ROWS.values():
        setattr(Metrics, row.split('"')[1], property(attrgetter(like)))


def write(folder: Path) -> None:
    """Write the content of each output, as texts by name."""
    from pytest_jsbench.metrics.gates import Gate, check
    from pytest_jsbench.metrics.summary import summarize
    from pytest_jsbench.reports import plot, run_json
    from pytest_jsbench.reports.history import HistoryLine, Series, report
    from pytest_jsbench.reports.run_report import main_table
    from pytest_jsbench.reports.tables import summary_to_pandas
    from pytest_jsbench.reports.terminal import report_lines
    from tests import examples
    from tests.docs import reference
    from tests.reports.test_every_output import ordinary, outputs, side_by_side

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
    add_rows()
    write(Path(sys.argv[1]))
