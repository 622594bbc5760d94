"""
Count the package's modules that an attempt enters from its start to its record, and those that a run imports.

    python -m benchmarks.trips

The attempts are those of two scripted cases; the first also creates the engine and the judge. Modules that the judging
child process or other threads enter are not counted.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType

import pytest

_PACKAGE = "pytest_jsbench"
_ARGUMENTS = [
    *("-p", f"{_PACKAGE}.plugin", "--jsbench-engine=scripted", "--jsbench-engine-option=answers=answers.json"),
    *("--jsbench-dataset=schemas", "--jsbench-concurrency=1"),
]


class Trips:
    """Profiler that records the modules entered by each attempt."""

    def __init__(self) -> None:
        self.finished: list[set[str]] = []
        self._current: dict[int, set[str]] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(_PACKAGE):
            return
        thread = threading.get_ident()
        if event == "call" and _is(frame.f_code, "run/session.py", "RunSession.ask"):
            self._current[thread] = set()
        if event == "call" and thread in self._current:
            self._current[thread].add(module)
        if event == "return" and _is(frame.f_code, "records/journal.py", "Journal.append"):
            self.finished.append(self._current.pop(thread))


def _is(code: CodeType, file: str, function: str) -> bool:
    return code.co_name == function.rpartition(".")[2] and code.co_filename.endswith(f"{_PACKAGE}/{file}")


def main() -> None:
    """Run two cases, and print the counts and the modules of the last attempt."""
    trips = Trips()
    with tempfile.TemporaryDirectory(prefix="jsbench-trips-") as name, contextlib.chdir(name):
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        Path("answers.json").write_text(json.dumps({"*": {"instance": {"n": 1}}}))
        Path("schemas").mkdir()
        for case in ("first", "later"):
            Path("schemas", f"{case}.json").write_text(json.dumps({"title": case, "required": ["n"]}))
        threading.setprofile(trips)
        with contextlib.redirect_stdout(io.StringIO()):
            pytest.main(_ARGUMENTS)
        threading.setprofile(None)
    imported = [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]
    first, later = map(len, trips.finished)
    print(f"package modules entered by the first attempt: {first}, by the next: {later}; imported: {len(imported)}")
    print("\n".join(sorted(trips.finished[-1])))


if __name__ == "__main__":
    main()
