from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
from msgspec import Meta

from pytest_jsbench.core.json_values import from_json
from tests import examples

Names = dict[Annotated[str, Meta(pattern="^a$")], int]


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


@pytest.mark.parametrize(
    ("kind", "data", "problem"),
    [
        (Names, {"b": 1}, "a key of the whole is wrong: expected str matching regex '^a$'"),
        (dict[str, Names], {"x": {"b": 1}}, "a key of [...] is wrong: expected str matching regex '^a$'"),
        (Names, {"a": "1"}, "[...] is wrong: expected int, got str"),
    ],
)
def test_what_is_wrong_of_a_key_is_said_of_it(kind: Any, data: object, problem: str) -> None:
    with pytest.raises(ValueError, match="wrong: expected") as caught:
        from_json(kind, data)

    assert str(caught.value) == problem
