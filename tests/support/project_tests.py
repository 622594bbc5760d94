"""Run tests of a project, and read the verdict of their run from each output."""

from __future__ import annotations

import html
import json
import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.support.bench import NUMBER, Bench, unless_said

#: Output of runs whose verdict is read.
KEPT = ("--jsbench-output=out", "--junitxml=junit.xml")
#: Parts of a test.
ASKS = "@pytest.mark.jsbench(schema=NUMBER, prompt='echo {text}')\n"
GOOD = "jsbench.generate(text='{\"n\": 1}')"
BAD = "jsbench.generate(text='prose')"
#: A conftest.py that runs each failed test again.
RUN_AGAIN = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        if report.when == "call" and report.failed:
            report.outcome = "rerun"
        item.ihook.pytest_runtest_logreport(report=report)
    runtestprotocol(item, nextitem=nextitem)
    return True
"""


def arguments(bench: Bench, *args: str) -> list[str]:
    return [
        *bench.quick,
        *unless_said(args, "--jsbench-engine=scripted", "--jsbench-engine-option=answers=answering:echo"),
        *args,
    ]


def run(bench: Bench, *args: str) -> pytest.RunResult:
    return bench.pytester.runpytest_inprocess(*arguments(bench, *args))


def run_one(bench: Bench, code: str, *args: str) -> pytest.RunResult:
    """Run one module, whose tests find the schema in `NUMBER`."""
    head = f"import pytest\nNUMBER = {NUMBER!r}\n"
    bench.write({"test_one.py": head + code})
    return run(bench, "test_one.py", *args)


def verdict(bench: Bench, result: pytest.RunResult) -> tuple[str, list[str]]:
    """Return the verdict's status and reasons, which must be the same in every output."""
    folder = bench.run_in()
    found: dict[str, Any] = json.loads((folder / "run.json").read_text())["verdict"]
    status, because = found["status"], found["because"]
    said = f"{status.upper()}: {'; '.join(because)}"
    assert result.ret == found["exit_status"]
    assert "".join(f"verdict    {said}".split()) in "".join("".join(result.outlines).split())
    properties = suite_properties(bench)
    assert (properties["jsbench.verdict"], properties["jsbench.exit_status"]) == (status, str(int(result.ret)))
    assert [value for name, value in properties.items() if name.startswith("jsbench.because.")] == because
    assert f"**{status.upper()}**: `{'`; `'.join(because)}`" in (folder / "summary.md").read_text()
    page = html.unescape((folder / "report.html").read_text())
    assert re.findall("<strong>(PASSED|FAILED|INCOMPLETE)</strong>", page) == [status.upper()]
    assert all(f"<li>{reason}</li>" in page for reason in because)
    return status, because


def suite_properties(bench: Bench) -> dict[str, str]:
    suite = ET.parse(bench.path / "junit.xml").getroot()[0]
    return {one.get("name", ""): one.get("value", "") for one in suite.findall("properties/property")}
