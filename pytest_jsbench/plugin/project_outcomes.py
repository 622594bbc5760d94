"""Determine the outcome of a project's test from its error, and redact the report of the test."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.core.text import describe_error
from pytest_jsbench.fixture.case_failed import CaseFailed
from pytest_jsbench.fixture.contract import TypeRefused, describe_refusal, is_refusal
from pytest_jsbench.records.records import Cause, End, ProjectTestOutcome

if TYPE_CHECKING:
    from pytest_jsbench.records.redaction import Redaction

#: Beginning of pytest-timeout's failure message.
_TIMED_OUT = re.compile(r"Timeout \(?>\d")
#: Beginning of pytest's explanation of the values in a failed assertion, in a message joined to one line.
_WHERE = re.compile(r" \+ +where ")
_FAILED = pytest.fail.Exception


def of_report(
    report: pytest.TestReport, error: BaseException | None, clean: Callable[[str], str]
) -> ProjectTestOutcome:
    """Return the outcome of a test from the report and the error of its last phase; `clean` masks secrets."""
    if report.passed:
        return ProjectTestOutcome(end=End.PASSED)
    if hasattr(report, "wasxfail"):
        return ProjectTestOutcome(end=End.XFAILED, message=one_line(clean(str(report.wasxfail))))
    if error is None:  # a test marked xfail(strict=True) passed
        return ProjectTestOutcome(end=End.FAILED, cause=Cause.ASSERTION, message=one_line(clean(str(report.longrepr))))
    return of_error(error, clean)


def of_error(error: BaseException | None, clean: Callable[[str], str]) -> ProjectTestOutcome:
    """Return the outcome of a test function from the error that it raised; None means that it passed."""
    if error is None:
        return ProjectTestOutcome(end=End.PASSED)
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    # a skip or xfail decides the outcome, even if the test raised it while handling another error
    decided = isinstance(error, pytest.skip.Exception | pytest.xfail.Exception)
    if not decided and _cause(error) is Cause.ERROR:
        error = _informative_error(error)
    # remove pytest's explanation of values, because it repeats the answer
    message = _WHERE.split(describe_error(error), maxsplit=1)[0].removeprefix(f"{type(error).__name__}: ")
    cause = None
    field = None
    match error:
        case pytest.skip.Exception():
            end = End.SKIPPED
        case pytest.xfail.Exception():
            end = End.XFAILED
        case _:
            end = End.FAILED
            cause = _cause(error)
    if isinstance(error, CaseFailed):
        message = error.headline
    elif isinstance(error, TypeRefused):
        field = error.where if isinstance(error.where, str) else None
        message = str(error.found)
    elif cause is Cause.TYPE_REFUSED:
        field, message = describe_refusal(error)
    elif cause is Cause.ERROR:
        message = describe_error(error)
    return ProjectTestOutcome(
        end=end, cause=cause, field=field and one_line(clean(field)), message=one_line(clean(message))
    )


def _informative_error(error: BaseException) -> BaseException:
    """Return the first error in the exception chain that is about an answer; if there is none, the error itself."""
    inner: BaseException | None = error
    seen: set[int] = set()
    while inner is not None and id(inner) not in seen:
        if _cause(inner) in (Cause.ANSWER, Cause.TYPE_REFUSED):
            return inner
        seen.add(id(inner))
        inner = inner.__cause__ or inner.__context__
    return error


def _cause(error: BaseException) -> Cause:
    if isinstance(error, CaseFailed):
        return Cause.ANSWER
    if isinstance(error, TypeRefused) or is_refusal(error):
        return Cause.TYPE_REFUSED
    if isinstance(error, TimeoutError) or (isinstance(error, _FAILED) and _TIMED_OUT.match(str(error))):
        return Cause.TIMEOUT
    return Cause.ASSERTION if isinstance(error, AssertionError | _FAILED) else Cause.ERROR


class RedactedError(Exception):
    """Replaces the error of a failed project test, since the error may quote a prompt or an answer."""


def redact_report(
    report: pytest.TestReport, item: pytest.Item, call: pytest.CallInfo[None], redaction: Redaction, *, rerun: str
) -> None:
    """Reduce the report of a project's test to the line and type of the error, with a digest in place of an answer."""
    report.sections.clear()
    if call.excinfo is None or isinstance(call.excinfo.value, pytest.skip.Exception):
        return
    failed = call.excinfo.value
    traceback = call.excinfo.traceback
    # the innermost line of the test's own file
    last = ([entry for entry in traceback if entry.path == item.path] or list(traceback))[-1]
    place = str(last.path)
    line = last.lineno + 1
    shown: Exception
    if isinstance(failed, CaseFailed):
        shown = CaseFailed(redaction.record(failed.record), rerun=rerun)
        headline = shown.headline
    else:
        where = f"{Path(place).name}:{line}"
        headline = f"{type(failed).__name__} at {where}: message redacted (--jsbench-redact)"
        shown = RedactedError(headline)
    try:
        raise shown
    except type(shown) as error:
        longrepr = pytest.ExceptionInfo.from_exception(error).getrepr(style="value", chain=False)
    crash = longrepr.reprcrash
    if crash is not None:
        crash.path, crash.lineno, crash.message = place, line, headline
    report.longrepr = longrepr
