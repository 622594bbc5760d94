from __future__ import annotations

import pytest

from tests.plugin.conftest import Bench

OWN = """
def ids(path, run, summary):
    path.write_text(" ".join(f"{record.key.id}:{record.verdict.passed}" for record in run.records))

def broken(path, run, summary):
    raise ValueError("no room")
"""


def test_a_run_is_written_in_every_format_that_was_asked_for(bench: Bench) -> None:
    bench.case("a")
    bench.case("b", '{"n": -1}')
    bench.write({"own_format.py": OWN})

    result = bench.run(
        "--jsbench-export=own_format:ids=new/ids.txt",
        "--jsbench-export=own_format:broken=nowhere",
        "--jsbench-export=every_eval_ever=shared",
    )

    assert (bench.path / "new" / "ids.txt").read_text() == "a:True b:False"
    assert len(list((bench.path / "shared").rglob("*.json"))) == 1
    result.stdout.fnmatch_lines(["warning    exporter 'own_format:broken', a function of your own, could not write"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
