"""Search for the first failing candidate, with several calls in flight and a rule for each candidate's answers."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pytest_jsbench.run.in_flight import CallsInFlight
from pytest_jsbench.run.reduction.asking import Asker, CandidateReply, ReductionStopped
from pytest_jsbench.run.reduction.candidate import Candidate
from pytest_jsbench.run.reduction.sequential_test import Rule

#: Number of undecided answers to one candidate after which it is rejected.
_MOST_UNDECIDED = 3
#: Number of undecided answers in a row after which the search ends.
_MOST_IN_A_ROW = 10


@dataclass(slots=True, kw_only=True)
class CandidateTest:
    """Counts of the answers to one candidate; the decisions of earlier searches are kept."""

    candidate: Candidate
    failures: int = 0
    others: int = 0
    undecided: int = 0
    asked: int = 0
    in_flight: int = 0
    #: Message of the last failure that is the same.
    message: str = ""

    def count(self, reply: CandidateReply) -> None:
        """Add a reply to the counts."""
        self.in_flight -= 1
        if reply.fails is None:
            self.undecided += 1
        elif reply.fails:
            self.failures += 1
            self.message = reply.message
        else:
            self.others += 1

    def decide(self, rule: Rule) -> bool | None:
        """Return whether the candidate still fails; None if more answers are needed."""
        return False if self.undecided >= _MOST_UNDECIDED else rule.decide(self.failures, self.others)


class Search:
    """
    Finds failing candidates by calls in several threads; used by one thread, which also closes it.

    Candidates after the first undecided one are asked about in advance if calls are free; the result is the same as
    with one call at a time, as far as the engine's answers are.
    """

    def __init__(self, asker: Asker, *, concurrency: int, accepted: Callable[[Candidate], object]) -> None:
        self._asker = asker
        self._concurrency = concurrency
        self._accepted = accepted
        self._calls: CallsInFlight[CandidateReply] = CallsInFlight(concurrency)
        self._done: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
        self._tests: dict[str, CandidateTest] = {}
        self._in_flight = 0
        self._undecided_in_a_row = 0

    def find_failing(self, candidates: Iterable[Candidate], rule: Rule) -> Candidate | None:
        """Return the first candidate that still fails by this rule; None if there is none."""
        waiting = iter(candidates)
        open_tests: list[CandidateTest] = []
        while True:
            while open_tests and open_tests[0].decide(rule) is False:
                del open_tests[0]
            if open_tests and open_tests[0].decide(rule):
                self._accepted(open_tests[0].candidate)
                return open_tests[0].candidate
            self._start_calls(open_tests, waiting, rule)
            if not open_tests and self._in_flight < self._concurrency:
                return None
            # without open tests, all threads are busy with calls of an earlier search
            if not open_tests or open_tests[0].decide(rule) is None:
                self._take_one()

    def _start_calls(self, open_tests: list[CandidateTest], waiting: Iterator[Candidate], rule: Rule) -> None:
        """Start calls until all threads are busy: for the earliest undecided candidates first, then for new ones."""
        while self._in_flight < self._concurrency:
            undecided = [test for test in open_tests if test.decide(rule) is None]
            idle = next((test for test in undecided if not test.in_flight), None)
            if idle is not None:
                self._start_call(idle)
                continue
            if any(test.decide(rule) for test in open_tests):  # later candidates cannot be the first
                return
            candidate = next(waiting, None)
            if candidate is None:
                return
            open_tests.append(self.test_of(candidate))

    def test_of(self, candidate: Candidate) -> CandidateTest:
        """Return the counts for a candidate, from an earlier search if it was asked about."""
        return self._tests.setdefault(candidate.digest, CandidateTest(candidate=candidate))

    def ask_until(self, candidate: Candidate, decide: Callable[[int, int], bool | None]) -> tuple[bool, CandidateTest]:
        """Ask anew about a candidate until the rule decides; earlier answers do not count."""
        before = self.test_of(candidate)
        test = CandidateTest(candidate=candidate, message=before.message)
        while True:
            decision = False if test.undecided >= _MOST_UNDECIDED else decide(test.failures, test.others)
            if decision is not None:
                return decision, test
            reply = self._asker.ask(candidate, before.asked)
            before.asked += 1
            test.in_flight += 1
            test.count(reply)

    def _start_call(self, test: CandidateTest) -> None:
        key = (test.candidate.digest, test.asked)
        test.asked += 1
        test.in_flight += 1
        self._in_flight += 1

        def call() -> CandidateReply:
            try:
                return self._asker.ask(test.candidate, key[1])
            finally:
                self._done.put(key)

        self._calls.add(key, call)

    def _take_one(self) -> None:
        key = self._done.get()
        self._in_flight -= 1
        reply = self._calls.take(key)
        self._tests[key[0]].count(reply)
        self._undecided_in_a_row = self._undecided_in_a_row + 1 if reply.fails is None else 0
        if self._undecided_in_a_row >= _MOST_IN_A_ROW:
            raise ReductionStopped(f"{_MOST_IN_A_ROW} calls in a row decided nothing; the last: {reply.message}")

    def close(self) -> None:
        """Start no more calls; those in flight are not awaited."""
        self._calls.stop()
