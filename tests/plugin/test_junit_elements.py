from __future__ import annotations

import re

from tests.support.bench import Bench

#: Prints the number of properties in JUnit's elements, of different objects among them, and of failures whose text is
#: the same object as that of their report.
PRINTING = """
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    (log,) = (one for one in session.config.pluginmanager.get_plugins() if hasattr(one, "node_reporters_ordered"))
    cases = [reporter.to_xml() for reporter in log.node_reporters_ordered]
    properties = [entry for case in cases for entry in case.iter("property")]
    texts = [node.text for case in cases for node in case.iter("failure")]
    reports = session.config.pluginmanager.get_plugin("terminalreporter").stats["failed"]
    lines = [line for report in reports for line in report.longrepr.reprtraceback.reprentries[0].lines]
    same = sum(text is line for text, line in zip(texts, lines, strict=True))
    print("shared", len(properties), len({id(entry) for entry in properties}), same, flush=True)
"""


def _without_times(bench: Bench) -> str:
    text = (bench.path / "junit.xml").read_text("utf-8")
    return re.sub(r'(time|timestamp|_s|run_id)"( value)?="[^"]*"|time="[^"]*"|timestamp="[^"]*"', "", text)


def _add_failing_cases(bench: Bench) -> None:
    for number in range(10):
        bench.case(f"c{number}", '{"n": "x"}')


def test_tests_share_equal_properties_and_texts_of_failures(bench: Bench) -> None:
    bench.write({"conftest.py": PRINTING})
    _add_failing_cases(bench)

    result = bench.run("--junitxml=junit.xml", "-s")

    (line,) = (line for line in result.outlines if "shared" in line)
    properties, different, same = map(int, line.rpartition("shared ")[2].split())
    assert properties == 60
    assert different <= 33  # each test has its own name and two times; task, failure type and keyword are shared
    assert same == 10


def test_file_is_the_same_without_sharing(bench: Bench) -> None:
    _add_failing_cases(bench)
    bench.case("right")

    bench.run("--junitxml=junit.xml")
    shared = _without_times(bench)
    bench.run("--junitxml=junit.xml", "-p", "no:jsbench-junit-elements")

    assert shared.count("<property ") > 40
    assert re.findall("<testcase.*", shared) == re.findall("<testcase.*", _without_times(bench))
