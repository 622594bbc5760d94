"""
Call a project's own classifiers and metrics.

A classifier gives a failed attempt a code; a metric counts something in each answer. Neither changes a verdict.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import structs

from pytest_jsbench.core.errors import ClassifierError, nearest
from pytest_jsbench.core.extensions import find_function, installed
from pytest_jsbench.core.generations import Failed
from pytest_jsbench.core.text import described, plain_value, printable
from pytest_jsbench.records.records import Record
from pytest_jsbench.verdicts import FailureType

#: Maximum count that a metric may return for one answer.
_MOST_COUNTED = 1_000_000_000
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_FAILURE_TYPES = frozenset(kind.value for kind in FailureType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Classifier:
    """A function that classifies or counts an attempt; it is called from several threads."""

    name: str
    #: Source of the classifier, as shown in messages.
    origin: str
    #: Function that is called with a copy of the record.
    function: Callable[[Record], object]
    #: Whether the function is a metric, which returns a part and a whole for each answer, rather than a classifier.
    counts: bool = False

    def code_of(self, record: Record) -> str | None:
        """Return the code of a failed attempt, or None; raise ClassifierError if the function fails."""
        code = self._result(record)
        if code is None or (isinstance(code, str) and _CODE.fullmatch(code) and code not in _FAILURE_TYPES):
            return code
        raise self._unexpected(code, "expected None or a code such as 'refusal_in_german' that is not a failure type")

    def count_of(self, record: Record) -> tuple[int, int] | None:
        """
        Return the part and the whole that a metric counts in an answer, or None; raise ClassifierError if the function
        fails.
        """
        match count := self._result(record):
            case None:
                return None
            case bool():
                return int(count), 1
            case (int(part), int(whole)) if 0 <= part <= whole <= _MOST_COUNTED:
                return part, whole
        raise self._unexpected(count, "expected None, True, False, or a part and its whole, such as (3, 4)")

    def _result(self, record: Record) -> object:
        try:
            return self.function(copy.deepcopy(record))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # This includes pytest.skip and sys.exit, because an answer that has been paid for must be kept.
            message = f"{self._title} raised {described(error)}"
            raise ClassifierError(message, found=described(error), where=self.origin) from error

    def _unexpected(self, result: object, expected: str) -> ClassifierError:
        shown = plain_value(result)
        return ClassifierError(f"{self._title} returned {shown}; {expected}", found=shown, where=self.origin)

    @property
    def _title(self) -> str:
        return f"{'metric' if self.counts else 'classifier'} '{self.name}', {self.origin},"


def classify(record: Record, classifiers: Sequence[Classifier]) -> tuple[Record, tuple[str, ...]]:
    """
    Return the record with the codes of a failed attempt and the counts of an answer, and the errors
    of the functions.
    """
    codes: dict[str, None] = {}
    scores: dict[str, tuple[int, int]] = {}
    errors: list[str] = []
    failed = not record.verdict.passed
    answered = not isinstance(record.generation, Failed)
    for classifier in () if record.excluded else classifiers:
        try:
            if classifier.counts and answered and (count := classifier.count_of(record)) is not None:
                scores[classifier.name] = count
            elif not classifier.counts and failed and (code := classifier.code_of(record)) is not None:
                codes[code] = None
        except ClassifierError as error:
            errors.append(str(error))
    return structs.replace(record, codes=tuple(codes), scores=scores), tuple(errors)


def find(named: str | Callable[[Record], object]) -> Classifier:
    """
    Return the classifier or metric with this name, or wrap a function; raise ClassifierError if the
    name is unknown.
    """
    if not isinstance(named, str):
        name = getattr(named, "__name__", type(named).__name__)
        return Classifier(name=name, origin="a function of the program", function=named)
    metrics = installed("metric", error=ClassifierError)
    classifiers = installed("classifier", error=ClassifierError)
    points = metrics | classifiers
    counts = named in metrics and named not in classifiers
    kind = "metric" if counts else "classifier"
    place = find_function(named, points, kind=kind, takes="a record", error=ClassifierError)
    if place is None:
        form = "package.module:function"
        none = f"expected {form}; no installed package provides a classifier or a metric"
        offer = f"{nearest(named, points)}, or {form}" if points else none
        message = f"unknown classifier or metric '{printable(named)}': {offer}"
        raise ClassifierError(message, found=named, expected=[*points, form])
    origin, function = place
    return Classifier(name=named, origin=origin, function=function, counts=counts)
