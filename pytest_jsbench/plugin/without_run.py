"""The fixture `jsbench` where no engine is named: nobody is asked, and an answer that a test hands in is judged."""

from __future__ import annotations

import shlex
from typing import Any, NoReturn

import pytest

from pytest_jsbench.fixture.conformance import shared_judge
from pytest_jsbench.fixture.jsbench import Attempts, JSBench, Question
from pytest_jsbench.plugin.options import NO_ENGINE, read_judging
from pytest_jsbench.plugin.session.context import key_of, read_terms
from pytest_jsbench.records.records import Record
from pytest_jsbench.settings.plan import policy_of


class WithoutRun(JSBench):
    """Skips the test where it would ask."""

    @property
    def endpoint(self) -> NoReturn:
        """There is none."""
        pytest.skip(NO_ENGINE)

    def _question(self, *_asked: Any) -> NoReturn:
        pytest.skip(NO_ENGINE)


def open_without_run(request: pytest.FixtureRequest) -> JSBench:
    """Make the object by which a test has its answers judged, as strictly as a run would; no record is written."""
    item, config = request.node, request.config
    values = read_judging(config)
    judge, comparers = shared_judge(policy_of(values)), dict(values["comparer"])

    def ask(question: Question) -> Record:
        assert question.given is not None
        given = question.given
        return given.record(
            given.generation,
            question.case,
            question.prompt,
            repeat=question.repeat,
            judge=judge,
            comparers=comparers,
        )

    def serve(_: object) -> NoReturn:
        pytest.skip(NO_ENGINE)

    attempts = Attempts(key_of(item.nodeid), ask, serve=serve)
    return WithoutRun(read_terms(item), attempts, folder=item.path.parent, rerun=f"pytest {shlex.quote(item.nodeid)}")
