from __future__ import annotations

import copy
import pickle

import pytest

from pytest_jsbench.plugin.text_storage import StoredLines, TextStorage
from tests.support.bench import Bench, both_ways

#: Writes the reports of failures to a file as other plugins do, when they come and again at the end of the session.
SERIALIZING = """
import json

import pytest

kept = []

def write(config, report):
    data = config.hook.pytest_report_to_serializable(config=config, report=report)
    with open("reports.jsonl", "a") as file:
        file.write(json.dumps(data["longrepr"]["reprtraceback"]["reprentries"][0]["data"]["lines"]) + "\\n")

class Keeping:
    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.failed:
            kept.append(report)
            write(self.config, report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        for report in kept:
            write(session.config, report)

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        keeping = Keeping()
        keeping.config = config
        config.pluginmanager.register(keeping)
"""
SHARING = """
def pytest_terminal_summary(terminalreporter):
    stats = terminalreporter.stats
    (call,), (setup, teardown) = stats["failed"], stats[""]
    print("shared", call.keywords is teardown.keywords, call.user_properties is teardown.user_properties)
    print("own", setup.keywords == call.keywords, setup.user_properties)
"""


@pytest.fixture
def storage(pytestconfig: pytest.Config) -> TextStorage:
    return TextStorage(pytestconfig)


def test_stored_lines_are_a_sequence(storage: TextStorage) -> None:
    storage.add("before")
    lines = StoredLines(storage.add("a é\n\n  b"))
    storage.add("after")
    assert [*lines] == ["a é", "", "  b"]
    assert lines == ["a é", "", "  b"]
    assert (len(lines), lines[2], lines[1:], bool(lines)) == (3, "  b", ["", "  b"], True)


@pytest.mark.parametrize("clone", [copy.deepcopy, copy.copy, lambda lines: pickle.loads(pickle.dumps(lines))])
def test_copies_of_stored_lines_are_lists(storage: TextStorage, clone: object) -> None:
    assert callable(clone)
    copied = clone(StoredLines(storage.add("a\nb")))
    assert type(copied) is list
    assert copied == ["a", "b"]


@both_ways
def test_reports_of_failures_can_be_serialized_at_any_time(mixed: Bench) -> None:
    mixed.write({"conftest.py": SERIALIZING})

    mixed.run("--jsbench-invalid-schemas=skip")

    first, then = [], []
    lines = (mixed.path / "reports.jsonl").read_text("utf-8").splitlines()
    first, then = lines[: len(lines) // 2], lines[len(lines) // 2 :]
    assert first == then
    assert len(first) == 7
    assert any("syntax_error" in line for line in first)


def test_reports_of_a_case_share_equal_parts(bench: Bench) -> None:
    bench.case("a", "no JSON")
    bench.write({"conftest.py": SHARING})

    result = bench.run("-s")

    result.stdout.fnmatch_lines(["*shared True True", "own False [[][]]"])
