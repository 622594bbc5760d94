from __future__ import annotations

import re
from pathlib import Path

from tests.support.bench import Bench, both_ways

#: Prints what pytest keeps of each ended test when the session ends.
KEPT = """
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    plugins = session.config.pluginmanager.get_plugins()
    for xml in [plugin for plugin in plugins if hasattr(plugin, "node_reporters_ordered")]:
        print("kept", sorted({len(reporter.to_xml()) for reporter in xml.node_reporters_ordered}))
"""
#: Lets pytest keep its elements, as without the plugin.
WITHOUT = """
def pytest_collection(session):
    session.config.pluginmanager.unregister(name="jsbench-junit-storage")
"""
OWN = """
def test_fails(record_property):
    record_property("seen", "<& é>")
    assert False, "no & <tag>"

def test_broken(missing_fixture): pass
"""


def _comparable(path: Path) -> str:
    text = re.sub(r'(time|timestamp|tgt_s" value|ttft_s" value|queue_s" value)="[^"]*"', "", path.read_text("utf-8"))
    return re.sub(r'<property name="jsbench[^>]*/>|0x[0-9a-f]+', "", text)


@both_ways
def test_junit_file_is_the_same_as_from_memory(mixed: Bench) -> None:
    mixed.write({"test_own.py": OWN})
    options = (".", "--jsbench-invalid-schemas=skip", "--override-ini=junit_family=xunit1")
    mixed.run("--junitxml=stored.xml", *options)
    mixed.write({"conftest.py": WITHOUT})
    mixed.run("--junitxml=kept.xml", *options)

    stored = _comparable(mixed.path / "stored.xml")
    assert stored.count("<testcase") == 11
    assert "no &amp; &lt;tag&gt;" in stored
    if not mixed.workers:  # the order of xdist's tests varies
        assert stored == _comparable(mixed.path / "kept.xml")


def test_elements_of_ended_tests_are_not_kept_in_memory(mixed: Bench) -> None:
    mixed.write({"conftest.py": KEPT})

    result = mixed.run("--junitxml=junit.xml", "-s")

    result.stdout.fnmatch_lines(["*kept [[]0]"])


def test_elements_stay_in_memory_if_the_disk_is_full(mixed: Bench) -> None:
    full = """
class Full:
    def add(self, text): raise OSError(28, "No space left on device")

def pytest_collection(session):
    session.config.pluginmanager.get_plugin("jsbench-junit-storage")._storage = Full()
"""
    mixed.write({"conftest.py": full})

    mixed.run("--junitxml=junit.xml")

    text = (mixed.path / "junit.xml").read_text("utf-8")
    assert text.count("<testcase") == 9
    assert "I would rather not" in text


def test_file_of_an_earlier_run_is_left_if_pytest_writes_none(mixed: Bench) -> None:
    broken = """
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    raise RuntimeError("broken plugin")
"""
    mixed.write({"conftest.py": broken, "junit.xml": "<testsuites><testsuite/></testsuites>"})

    mixed.run("--junitxml=junit.xml", "-p", "no:cacheprovider")

    assert "testcase" not in (mixed.path / "junit.xml").read_text("utf-8")
