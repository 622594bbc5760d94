"""Classifiers: functions of a project that give failed attempts codes; a code never changes a verdict."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import structs

from pytest_jsbench.core.errors import ClassifierError, nearest
from pytest_jsbench.core.extensions import find_function, installed
from pytest_jsbench.core.text import described, printable
from pytest_jsbench.records.records import Record
from pytest_jsbench.verdicts import FailureType

ENTRY_POINTS = "pytest_jsbench.classifiers"
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
#: types with a repr that runs no foreign code
_PLAIN = (str, int, float)
_FAILURE_TYPES = frozenset(kind.value for kind in FailureType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Classifier:
    """A function that gives a failed attempt a code, or None; it is called from several threads."""

    name: str
    #: where it comes from, for messages
    origin: str
    #: takes a copy of the record
    function: Callable[[Record], object]

    def code_of(self, record: Record) -> str | None:
        """The code of a failed attempt, or None; ClassifierError where the function raises or returns no code."""
        try:
            code = self.function(copy.deepcopy(record))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # pytest.skip and sys.exit too: the attempt is paid for, and must not be lost
            message = f"classifier '{self.name}', {self.origin}, raised {described(error)}"
            raise ClassifierError(message, found=described(error), where=self.origin) from error
        if code is None or (isinstance(code, str) and _CODE.fullmatch(code) and code not in _FAILURE_TYPES):
            return code
        shown = printable(repr(code), 80) if isinstance(code, _PLAIN) else f"a {type(code).__name__}"
        expected = "expected None or a code such as 'refusal_in_german', and none of the failure types"
        message = f"classifier '{self.name}', {self.origin}, gave {shown}; {expected}"
        raise ClassifierError(message, found=shown, where=self.origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Classified:
    """A record with its codes, and the errors of the classifiers."""

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
    return Classified(record=structs.replace(record, codes=tuple(codes)), errors=tuple(errors))


def find(named: str | Callable[[Record], object]) -> Classifier:
    """Find the classifier of that name, or take the function of a program; ClassifierError where there is none."""
    if not isinstance(named, str):
        name = getattr(named, "__name__", type(named).__name__)
        return Classifier(name=name, origin="a function of the program", function=named)
    points = installed(ENTRY_POINTS, kind="classifier", error=ClassifierError)
    if (place := find_function(named, points, kind="classifier", error=ClassifierError)) is None:
        form = "package.module:function"
        offer = f"{nearest(named, points)}, or {form}"
        if not points:
            offer = f"expected {form}, for no installed package brings any"
        message = f"unknown classifier '{printable(named)}': {offer}"
        raise ClassifierError(message, found=named, expected=[*points, form])
    origin, function = place
    if not callable(function):
        kind = type(function).__name__
        message = f"classifier '{named}', {origin}, is a {kind}; expected a function that takes a record"
        raise ClassifierError(message, found=kind, expected="a function", where=origin)
    return Classifier(name=named, origin=origin, function=function)
