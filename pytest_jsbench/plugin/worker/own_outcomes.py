"""Reads from pytest how a test of the project ended."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from pytest_jsbench.core.secrets import one_line
from pytest_jsbench.core.text import described
from pytest_jsbench.fixture.contract import TypeRefused, is_refusal, refused
from pytest_jsbench.fixture.jsbench import CaseFailed
from pytest_jsbench.records.records import Cause, End, OwnOutcome

#: what pytest-timeout says when it fails a test
_TIMED_OUT = re.compile(r"Timeout \(?>\d")
#: on one line, where pytest begins to say where the values of an assertion are from
_WHERE = re.compile(r" \+ +where ")
_FAILED = pytest.fail.Exception


def of_report(report: pytest.TestReport, error: BaseException | None, clean: Callable[[str], str]) -> OwnOutcome:
    """The outcome of a test whose last phase has ended with this report; `clean` takes secrets out of a message."""
    if report.passed:
        return OwnOutcome(end=End.PASSED)
    if hasattr(report, "wasxfail"):
        return OwnOutcome(end=End.XFAILED, message=one_line(clean(str(report.wasxfail))))
    if error is None:  # a test that was to fail has passed
        return OwnOutcome(end=End.FAILED, cause=Cause.ASSERTION, message=one_line(clean(str(report.longrepr))))
    return of_error(error, clean)


def of_error(error: BaseException | None, clean: Callable[[str], str]) -> OwnOutcome:
    """The outcome of one repeat of a test, which has raised this."""
    if error is None:
        return OwnOutcome(end=End.PASSED)
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if _cause(error) is Cause.ERROR:
        error = _telling(error)
    # without pytest's lines on where each value is from, which repeat the answer
    said = _WHERE.split(described(error), maxsplit=1)[0].removeprefix(f"{type(error).__name__}: ")
    cause, field = None, None
    match error:
        case pytest.skip.Exception():
            end = End.SKIPPED
        case pytest.xfail.Exception():
            end = End.XFAILED
        case _:
            end, cause = End.FAILED, _cause(error)
    if isinstance(error, CaseFailed):
        said = error.headline
    elif isinstance(error, TypeRefused):
        field = error.where if isinstance(error.where, str) else None
        said = str(error.found)
    elif cause is Cause.TYPE_REFUSED:
        field, said = refused(error)
    elif cause is Cause.ERROR:
        said = described(error)
    return OwnOutcome(end=end, cause=cause, field=field and one_line(clean(field)), message=one_line(clean(said)))


def _telling(error: BaseException) -> BaseException:
    """Of an exception and those that it was raised from, the first that says what an answer was; or itself."""
    chain = [error]
    while (inner := chain[-1].__cause__ or chain[-1].__context__) is not None and all(
        one is not inner for one in chain
    ):
        chain.append(inner)
    return next((one for one in chain if _cause(one) in (Cause.ANSWER, Cause.TYPE_REFUSED)), error)


def _cause(error: BaseException) -> Cause:
    if isinstance(error, CaseFailed):
        return Cause.ANSWER
    if isinstance(error, TypeRefused) or is_refusal(error):
        return Cause.TYPE_REFUSED
    if isinstance(error, TimeoutError) or (isinstance(error, _FAILED) and _TIMED_OUT.match(str(error))):
        return Cause.TIMEOUT
    return Cause.ASSERTION if isinstance(error, AssertionError | _FAILED) else Cause.ERROR
