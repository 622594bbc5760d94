"""Let pytest's JUnit elements share the parts that are equal in many tests, because pytest keeps them until the end."""

from __future__ import annotations

import functools
from typing import Any
from xml.etree.ElementTree import Element

import pytest

#: Number of properties to share: more than one test has, of the values that many tests have.
_MOST_SHARED = 1024


class JUnitElements:
    """
    Replaces equal parts of the JUnit elements of different tests by the same object.

    pytest keeps the elements of all tests in memory, to write them at the end. An element for a property takes 340
    bytes, and most properties have the same value in many tests; the text of a failure is also in the test's report.
    `activation` creates one object in the process that reports, if pytest writes a JUnit file. pytest calls its hook in
    the main thread, after that of pytest's own plugin, whose private attributes it reads: with a pytest that has other
    attributes, nothing is shared.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._share_property = functools.lru_cache(_MOST_SHARED)(_create_property)
        #: Number of tests whose properties are shared.
        self._done = 0

    @functools.cached_property
    def _reporters(self) -> list[Any]:
        """The list of reporters, one for each test, that pytest's plugin appends to."""
        for plugin in self._config.pluginmanager.get_plugins():
            reporters = getattr(plugin, "node_reporters_ordered", None)
            if isinstance(reporters, list):
                return reporters
        return []

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Share the text of a failure with its report, and at the end of a test its properties with other tests."""
        reporters = self._reporters
        if report.when == "call" and report.failed and reporters:
            _share_text(reporters[-1], report)
        elif report.when == "teardown":
            while self._done < len(reporters) and (case := _finished_case(reporters[self._done])) is not None:
                for group in case.findall("properties"):
                    group[:] = [self._share_property(*entry.items()) for entry in group]
                self._done += 1


def _create_property(*attributes: tuple[str, str]) -> Element:
    return Element("property", dict(attributes))


def _finished_case(reporter: Any) -> Element | None:
    """Return the element of a test that has ended; None before its end."""
    # at the end of a test, pytest replaces all attributes of the reporter by a function that returns the element
    attributes = vars(reporter)
    case = attributes["to_xml"]() if [*attributes] == ["to_xml"] else None
    return case if isinstance(case, Element) else None


def _share_text(reporter: Any, report: pytest.TestReport) -> None:
    """Let the element of a failure have the same text object as the report, if the report has its text in one part."""
    for entry in getattr(getattr(report.longrepr, "reprtraceback", None), "reprentries", ()):
        for node in getattr(reporter, "nodes", ()):
            node.text = next((line for line in getattr(entry, "lines", ()) if line == node.text), node.text)
