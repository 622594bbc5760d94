"""Keep the JUnit elements of ended tests on disk, since pytest keeps them in memory until the end of the session."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pytest_jsbench.plugin.text_storage import StoredText, TextStorage


class _Stored:
    """The place of an element; pytest gets the placeholder in place of the element."""

    __slots__ = ("placeholder", "text")

    def __init__(self, text: StoredText, placeholder: ElementTree.Element) -> None:
        self.text = text
        self.placeholder = placeholder

    def to_xml(self) -> ElementTree.Element:
        """Return the placeholder; pytest calls this method when it writes its file."""
        return self.placeholder


class JUnitStorage:
    """
    Moves the JUnit element of each ended test to a temporary file.

    `activation` creates one object in the process that reports, if pytest writes a JUnit file. pytest calls its hooks
    in the main thread: after each test, and at the end of the session around pytest's own writing, where the elements
    replace their placeholders, so that the file is the one that pytest would have written. For 9,557 failed attempts,
    pytest's elements take 49 MB, and writing them at once another 68 MB.

    pytest's `LogXML` is found by its attributes. An element that cannot be stored stays in memory.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._storage = TextStorage(config)
        # the random name cannot be in a file of another run
        self._placeholder = ElementTree.Element(f"jsbench-{secrets.token_hex(8)}")
        self._xml: Any = None
        #: Number of entries of pytest's list that were seen, and positions of those among them that had not ended.
        self._seen = 0
        self._open: list[int] = []

    @pytest.hookimpl
    def pytest_sessionstart(self) -> None:
        """Find pytest's object for the JUnit file, which is registered by now."""
        plugins = self._config.pluginmanager.get_plugins()
        self._xml = next((plugin for plugin in plugins if hasattr(plugin, "node_reporters_ordered")), None)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        """Store the elements of the tests that have ended."""
        if self._xml is None:
            return
        reporters = self._xml.node_reporters_ordered
        waiting = [*self._open, *range(self._seen, len(reporters))]
        self._seen = len(reporters)
        self._open = [position for position in waiting if not self._store(reporters, position)]

    def _store(self, reporters: list[Any], position: int) -> bool:
        """Replace an entry of pytest's list by the place of its element; return False if its test has not ended."""
        reporter = reporters[position]
        # at the end of a test, pytest removes all attributes but a function that returns the element
        if vars(reporter).keys() != {"to_xml"}:
            return False
        with suppress(OSError, ValueError, TypeError):  # pytest reports an element that cannot be written
            text = self._storage.add(ElementTree.tostring(reporter.to_xml(), encoding="unicode"))
            reporters[position] = _Stored(text, self._placeholder)
        return True

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self) -> Any:
        """Put the elements into the file that pytest has written."""
        try:
            return (yield)
        finally:
            if self._xml is not None:
                self._fill_in(Path(self._xml.logfile), self._xml.node_reporters_ordered)

    def _fill_in(self, path: Path, reporters: list[Any]) -> None:
        """Replace the placeholders in pytest's file; leave a file without them, such as that of an earlier run."""
        stored = [reporter for reporter in reporters if isinstance(reporter, _Stored)]
        if not stored or not path.is_file():
            return
        mark = ElementTree.tostring(self._placeholder)
        first, *others = path.read_bytes().split(mark)
        if len(others) != len(stored):
            return
        with path.open("wb") as file:
            file.write(first)
            for element, after in zip(stored, others, strict=True):
                file.write(element.text.read())
                file.write(after)
