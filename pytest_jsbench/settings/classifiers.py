"""Functions of a project that give failed attempts codes, or count of each answer; they never change a verdict."""

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

#: that a metric may count of one answer
_MOST_COUNTED = 1_000_000_000
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_FAILURE_TYPES = frozenset(kind.value for kind in FailureType)


@dataclass(frozen=True, slots=True, kw_only=True)
class Classifier:
    """A function that says something of an attempt, or None; it is called from several threads."""

    name: str
    #: where it comes from, for messages
    origin: str
    #: takes a copy of the record
    function: Callable[[Record], object]
    #: it is a metric, which counts of each answer how many of how many; others give failed attempts a code
    counts: bool = False

    def code_of(self, record: Record) -> str | None:
        """The code of a failed attempt, or None; ClassifierError where the function raises or returns no code."""
        code = self._result(record)
        if code is None or (isinstance(code, str) and _CODE.fullmatch(code) and code not in _FAILURE_TYPES):
            return code
        raise self._odd(code, "expected None or a code such as 'refusal_in_german', and none of the failure types")

    def count_of(self, record: Record) -> tuple[int, int] | None:
        """Count how many of how many, or None; ClassifierError where the function raises or returns anything else."""
        match count := self._result(record):
            case None:
                return None
            case bool():
                return int(count), 1
            case (int(part), int(whole)) if 0 <= part <= whole <= _MOST_COUNTED:
                return part, whole
        raise self._odd(count, "expected None, True, False, or how many of how many, such as (3, 4)")

    def _result(self, record: Record) -> object:
        try:
            return self.function(copy.deepcopy(record))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # pytest.skip and sys.exit too: the attempt is paid for, and must not be lost
            message = f"{self._title} raised {described(error)}"
            raise ClassifierError(message, found=described(error), where=self.origin) from error

    def _odd(self, result: object, expected: str) -> ClassifierError:
        shown = plain_value(result)
        return ClassifierError(f"{self._title} gave {shown}; {expected}", found=shown, where=self.origin)

    @property
    def _title(self) -> str:
        return f"{'metric' if self.counts else 'classifier'} '{self.name}', {self.origin},"


def classify(record: Record, classifiers: Sequence[Classifier]) -> tuple[Record, tuple[str, ...]]:
    """
    Give a record that failed the codes of all classifiers, and one whose call held what metrics count.

    Returned beside it are the errors of the classifiers.
    """
    codes: dict[str, None] = {}
    scores: dict[str, tuple[int, int]] = {}
    errors: list[str] = []
    failed, answered = not record.verdict.passed, not isinstance(record.generation, Failed)
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
    """Find the classifier or metric of that name, or take a program's function; ClassifierError where there is none."""
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
        none = f"expected {form}, for no installed package brings any"
        offer = f"{nearest(named, points)}, or {form}" if points else none
        message = f"unknown classifier or metric '{printable(named)}': {offer}"
        raise ClassifierError(message, found=named, expected=[*points, form])
    origin, function = place
    return Classifier(name=named, origin=origin, function=function, counts=counts)
