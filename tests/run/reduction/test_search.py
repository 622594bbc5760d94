from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from pytest_jsbench.run.reduction.asking import CandidateReply, ReductionStopped
from pytest_jsbench.run.reduction.candidate import Candidate
from pytest_jsbench.run.reduction.search import Search
from pytest_jsbench.run.reduction.sequential_test import OneAnswer, rule_for

CANDIDATES = [Candidate(schema={"minimum": number}) for number in range(12)]


class Answers:
    """An asker with the given answers, which counts its calls by candidate."""

    deterministic = True

    def __init__(self, answer: Callable[[int, int], bool | None]) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self.asked: list[tuple[int, int]] = []

    @property
    def calls(self) -> int:
        return len(self.asked)

    def release_reserve(self) -> None: ...

    def ask(self, candidate: Candidate, number: int) -> CandidateReply:
        assert isinstance(candidate.schema, dict)
        place = candidate.schema["minimum"]
        with self._lock:
            self.asked.append((place, number))
        return CandidateReply(fails=self._answer(place, number), message=str(place))


@pytest.mark.parametrize("concurrency", [1, 3, 20])
def test_first_failing_candidate_is_found_with_any_concurrency(concurrency: int) -> None:
    answers = Answers(lambda place, _: place in (5, 7, 8))
    accepted: list[Candidate] = []
    search = Search(answers, concurrency=concurrency, accepted=accepted.append)

    first = search.find_failing(CANDIDATES, OneAnswer())
    second = search.find_failing(CANDIDATES[6:], OneAnswer())
    third = search.find_failing(CANDIDATES[9:], OneAnswer())
    search.close()

    assert [first, second, third] == [CANDIDATES[5], CANDIDATES[7], None]
    assert accepted == [CANDIDATES[5], CANDIDATES[7]]
    assert len(set(answers.asked)) == len(answers.asked) <= 12
    if concurrency == 1:
        assert answers.asked == [(place, 0) for place in range(8)] + [(place, 0) for place in range(9, 12)]


def test_failing_by_chance_is_decided_by_several_answers() -> None:
    answers = Answers(lambda place, number: place == 3 or (place == 1 and number == 0))
    search = Search(answers, concurrency=2, accepted=lambda _: None)

    found = search.find_failing(CANDIDATES[:5], rule_for(3, 0))
    search.close()

    assert found == CANDIDATES[3]
    assert sum(place == 1 for place, _ in answers.asked) == 3


def test_undecided_answers_reject_a_candidate_and_end_a_search() -> None:
    answers = Answers(lambda place, _: None if place else True)
    search = Search(answers, concurrency=1, accepted=lambda _: None)

    assert search.find_failing(CANDIDATES[1:3], OneAnswer()) is None
    assert len(answers.asked) == 6
    with pytest.raises(ReductionStopped, match="10 calls in a row decided nothing"):
        search.find_failing(CANDIDATES[3:], OneAnswer())
    search.close()


def test_new_answers_confirm_a_candidate() -> None:
    answers = Answers(lambda _, number: number < 2)
    search = Search(answers, concurrency=1, accepted=lambda _: None)
    rule = rule_for(3, 0)

    assert search.find_failing(CANDIDATES[:1], rule) == CANDIDATES[0]
    confirmed, test = search.ask_until(CANDIDATES[0], rule.decide)
    search.close()

    assert not confirmed
    assert (test.failures, test.others) == (0, 1)
