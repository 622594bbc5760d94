"""
Call the classifiers and metrics that a project or an installed package provides.

A classifier assigns a code to a failed attempt; a metric counts something in each answer. Verdicts do not change.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import structs

from pytest_jsbench.core.errors import ClassifierError, nearest
from pytest_jsbench.core.extensions import find_entry_points, find_function
from pytest_jsbench.core.generations import Failed
from pytest_jsbench.core.text import describe_error, plain_value, printable
from pytest_jsbench.records.records import Record
from pytest_jsbench.verdicts import FailureType

#: Maximum count that a metric may return for one answer.
_MOST_COUNTED = 1_000_000_000
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_FAILURE_TYPES = frozenset(kind.value for kind in FailureType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Classifier:
    """A classifier or a metric: a function that takes a record, and is called in several threads."""

    name: str
    #: Where the function comes from, such as its package, for messages.
    origin: str
    #: Function that takes a copy of the record.
    function: Callable[[Record], object]
    #: Whether the function is a metric rather than a classifier. A metric returns two counts for an answer: a part, and
    #: the whole of the part.
    counts: bool = False

    def code_of(self, record: Record) -> str | None:
        """Return the classifier's code for a failed attempt, or None; raise ClassifierError if the function fails."""
        code = self._result(record)
        if code is None or (isinstance(code, str) and _CODE.fullmatch(code) and code not in _FAILURE_TYPES):
            return code
        raise self._unexpected(code, "expected None or a code such as 'refusal_in_german' that is not a failure type")

    def count_of(self, record: Record) -> tuple[int, int] | None:
        """
        Return the metric's counts for an answer (a part and its whole), or None; raise ClassifierError if the function
        fails.
        """
        match count := self._result(record):
            case None:
                return None
            case bool():
                return int(count), 1
            case (int(part), int(whole)) if 0 <= part <= whole <= _MOST_COUNTED:
                return part, whole
        raise self._unexpected(count, "expected None, True, False, or two counts, such as (3, 4) for 3 of 4")

    def _result(self, record: Record) -> object:
        try:
            return self.function(copy.deepcopy(record))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # pytest.skip and sys.exit are caught too, because an answer that has been paid for must not be lost.
            message = f"{self._title} raised {describe_error(error)}"
            raise ClassifierError(message, found=describe_error(error), where=self.origin) from error

    def _unexpected(self, result: object, expected: str) -> ClassifierError:
        shown = plain_value(result)
        return ClassifierError(f"{self._title} returned {shown}; {expected}", found=shown, where=self.origin)

    @property
    def _title(self) -> str:
        return f"{'metric' if self.counts else 'classifier'} '{self.name}', {self.origin},"


def classify(record: Record, classifiers: Sequence[Classifier]) -> tuple[Record, tuple[str, ...]]:
    """Return the record with the classifiers' codes and the metrics' counts, and the errors of failed functions."""
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
    Return the classifier or metric with this name, or the given function as a classifier; raise ClassifierError if the
    name is unknown.
    """
    if not isinstance(named, str):
        name = getattr(named, "__name__", type(named).__name__)
        return Classifier(name=name, origin="a function of the program", function=named)
    metrics = find_entry_points("metric", error=ClassifierError)
    classifiers = find_entry_points("classifier", error=ClassifierError)
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
