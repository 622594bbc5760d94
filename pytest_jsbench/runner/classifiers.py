"""Classifiers: a project's own names for how attempts failed; they stand beside a verdict and never change it."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_jsbench.core.errors import ClassifierError, nearest
from pytest_jsbench.core.extensions import find_function, installed
from pytest_jsbench.core.text import described, printable
from pytest_jsbench.runs.records import Record
from pytest_jsbench.verdicts import FailureType

ENTRY_POINTS = "pytest_jsbench.classifiers"
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
#: what writes itself without running foreign code, and is not long
_PLAIN = (str, int, float)
_FAILURE_TYPES = frozenset(kind.value for kind in FailureType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Classifier:
    """What gives a failed attempt a code of the project's own, or None."""

    name: str
    #: where it comes from, for messages
    origin: str
    #: called from several threads, with a copy of the record
    function: Callable[[Record], object]

    def code_of(self, record: Record) -> str | None:
        """The code of a failed attempt; ClassifierError, in one line, where there is none to be had."""
        try:
            code = self.function(copy.deepcopy(record))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # pytest.skip and sys.exit too: the attempt is paid for, and must not be lost
            raise ClassifierError(self._said(f"raised {described(error)}")) from error
        if code is None or (isinstance(code, str) and _CODE.fullmatch(code) and code not in _FAILURE_TYPES):
            return code
        found = printable(repr(code), 80) if isinstance(code, _PLAIN) else f"a {type(code).__name__}"
        expected = "expected None or a code such as 'refusal_in_german', and none of the failure types"
        raise ClassifierError(self._said(f"gave {found}; {expected}"))

    def _said(self, what: str) -> str:
        return f"classifier '{self.name}', {self.origin}, {what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """A record with its codes, and what went wrong on the way to them."""

    record: Record
    errors: tuple[str, ...] = ()


def classify(record: Record, classifiers: Sequence[Classifier]) -> Classified:
    """The record with the codes of all classifiers; none where it passed, or nothing could be asked."""
    if not (classifiers or record.codes):
        return Classified(record=record)
    codes: list[str] = []
    errors: list[str] = []
    for classifier in () if record.verdict.passed or record.excluded else classifiers:
        try:
            code = classifier.code_of(record)
        except ClassifierError as error:
            errors.append(str(error))
            continue
        if code is not None and code not in codes:
            codes.append(code)
    return Classified(record=replace(record, codes=tuple(codes)), errors=tuple(errors))


def find(name: str) -> Classifier:
    """The classifier of that name; ClassifierError says what else was expected."""
    points = installed(ENTRY_POINTS, kind="classifier", error=ClassifierError)
    if (found := find_function(name, points, kind="classifier", error=ClassifierError)) is not None:
        return _classifier(name, *found)
    own = "package.module:function"
    known = f"{nearest(name, points)}, or {own}" if points else f"expected {own}, for no installed package brings any"
    message = f"unknown classifier '{printable(name)}': {known}"
    raise ClassifierError(message)


def _classifier(name: str, source: str, found: object) -> Classifier:
    if not callable(found):
        message = f"classifier '{name}', {source}, is a {type(found).__name__}; expected a function that takes a record"
        raise ClassifierError(message)
    return Classifier(name=name, origin=source, function=found)
