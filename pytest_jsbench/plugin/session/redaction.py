"""What `--jsbench-redact` takes from pytest's own reports: values in tracebacks, captured output, what packages log."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.fixture.jsbench import CaseFailed

if TYPE_CHECKING:
    from pytest_jsbench.runs.redaction import Redaction

#: the packages that log what they send and get
_LOGGERS = ("openai", "anthropic", "google_genai", "httpx", "httpx2", "httpcore", "httpcore2", "urllib3")


class Withheld(Exception):
    """A test of the project failed; its error is not shown because it may quote a prompt or an answer."""


def quieten(config: pytest.Config) -> None:
    """Let the packages that call models log warnings and errors only, while the session lasts."""
    for logger in map(logging.getLogger, _LOGGERS):
        config.add_cleanup(partial(logger.setLevel, logger.level))
        logger.setLevel(logging.WARNING)


def withhold(
    report: pytest.TestReport, item: pytest.Item, call: pytest.CallInfo[None], redaction: Redaction, *, rerun: str
) -> None:
    """Reduce the report of a project's test to the place and kind of its failure, and an answer to its digest."""
    report.sections.clear()
    if call.excinfo is None or isinstance(call.excinfo.value, pytest.skip.Exception):
        return
    place, line = _place(item, call.excinfo)
    failed = call.excinfo.value
    words: Exception
    if isinstance(failed, CaseFailed):
        words = CaseFailed(redaction.record(failed.record), rerun=rerun)
        headline = words.headline
    else:
        where = f"{Path(place).name}:{line}"
        headline = f"{type(failed).__name__} at {where}: what it says is left out (--jsbench-redact)"
        words = Withheld(headline)
    try:
        raise words
    except type(words) as error:
        shown = pytest.ExceptionInfo.from_exception(error).getrepr(style="value", chain=False)
    if (crash := shown.reprcrash) is not None:
        crash.path, crash.lineno, crash.message = place, line, headline
    report.longrepr = shown


def _place(item: pytest.Item, found: pytest.ExceptionInfo[BaseException]) -> tuple[str, int]:
    """The last line of the test's own file that the error went through."""
    entries = [entry for entry in found.traceback if entry.path == item.path] or list(found.traceback)
    return str(entries[-1].path), entries[-1].lineno + 1
