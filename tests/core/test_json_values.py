from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests import examples


def test_threads_that_read_a_type_first_at_the_same_time_leave_the_process_alive(tmp_path: Path) -> None:
    record = examples.record("a", verdict=examples.VIOLATED)
    (tmp_path / "record.json").write_text(json.dumps(record.to_dict()))
    program = """
import json, sys, threading
from pytest_jsbench.core.json_values import from_json
from pytest_jsbench.records.records import Record
from tests import examples
sys.setswitchinterval(1e-5)
data, start = json.load(open(sys.argv[1])), threading.Barrier(16)
threads = [threading.Thread(target=lambda: (start.wait(), from_json(Record, data))) for _ in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
    # without a lock nine of ten processes crash
    for _ in range(3):
        subprocess.run([sys.executable, "-c", program, tmp_path / "record.json"], check=True)
