"""Answers stand: a test that a plugin runs again, asking the same, gets what it was answered the first time."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_jsbench.core.generations import Failed
from pytest_jsbench.runs.records import Record

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.fixture.jsbench import Question
    from pytest_jsbench.plugin.session.transport import AttemptResult
    from pytest_jsbench.runs.records import Attempt, Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What became of one attempt."""

    #: as it is written and shown
    outcome: AttemptResult
    #: as its test is to see it, though nobody else
    result: Record | Missing

    @classmethod
    def of(cls, outcome: AttemptResult) -> Heard:
        """What the test may see as it is written."""
        return cls(outcome=outcome, result=outcome.result)


class StandingAnswers:
    """What the earlier runs of one test were answered; usable from any thread."""

    def __init__(self, key: CaseKey) -> None:
        self._key = key
        self._heard: dict[Attempt, Heard] = {}
        #: those that the test's present run has, or is about to have
        self._taken: set[Attempt] = set()
        self._lock = threading.Lock()

    def begin(self) -> None:
        """The test runs again."""
        with self._lock:
            self._taken.clear()

    def take(self, question: Question, same: Callable[[Record], bool]) -> Heard | None:
        """What an earlier run of the test was answered to this; None where it did not ask, or its call broke."""
        first = (question.case.key, question.repeat)
        with self._lock:
            for attempt in dict.fromkeys([first, *self._heard]):
                heard = self._heard.get(attempt)
                if heard is None or attempt in self._taken or attempt[1] != question.repeat:
                    continue
                if isinstance(heard.result, Record) and same(heard.result):
                    self._taken.add(attempt)
                    return heard
        return None

    def number(self, question: Question) -> Question:
        """The question under a name that no other answer of the test has: one more attempt, and none in its stead."""
        key = question.case.key
        with self._lock:
            numbers = (dataclasses.replace(self._key, id=f"{self._key.id}@{number}") for number in itertools.count(2))
            for name in itertools.chain([key], numbers):
                attempt = (name, question.repeat)
                if attempt not in self._heard and attempt not in self._taken:
                    self._taken.add(attempt)
                    break
        return dataclasses.replace(question, case=dataclasses.replace(question.case, key=name))

    def keep(self, heard: Heard) -> None:
        """From now on this answer stands; a broken call is none, and what is no question has none."""
        result = heard.result
        if isinstance(result, Record) and result.prompt is not None and not isinstance(result.generation, Failed):
            with self._lock:
                self._heard[result.attempt] = heard
