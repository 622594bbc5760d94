"""Implement the fixtures for the project's tests, and parametrize tests over variants and cases."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_jsbench.core.cases import BrokenCase, Case
from pytest_jsbench.core.text import printable
from pytest_jsbench.fixture.conformance import shared_judge
from pytest_jsbench.fixture.jsbench import Attempts, FixtureQuestion, JSBench
from pytest_jsbench.plugin.context import FIXTURE, RUN_CONTEXT, SHARED, key_of, mark
from pytest_jsbench.plugin.fault_parameters import injecting_of
from pytest_jsbench.plugin.project_tests import PROJECT_TESTS
from pytest_jsbench.plugin.pytest_options import NO_ENGINE, read_judging
from pytest_jsbench.plugin.repeat_rules import read_terms
from pytest_jsbench.records.records import Record
from pytest_jsbench.run.plan import policy_of

if TYPE_CHECKING:
    from pytest_jsbench.fixture.endpoint import Endpoint
    from pytest_jsbench.fixture.jsbench import Answer, JSBench, SharedJSBench
    from pytest_jsbench.plugin.project_tests import ProjectTests


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test over variants and cases; a schema is read only when the test for its case runs."""
    plan = metafunc.config.stash[RUN_CONTEXT].plan
    fixtures = [name for name in (FIXTURE, SHARED) if name in metafunc.fixturenames]
    if fixtures and list(plan.variants) != [""]:
        marked = [
            pytest.param(*[name] * len(fixtures), marks=getattr(pytest.mark, mark("variant", name)), id=name)
            for name, variant in plan.variants.items()
            if variant.rewrite is None  # only cases of the dataset are rewritten
        ]
        metafunc.parametrize(fixtures, marked, indirect=True)
    if "jsbench_case" in metafunc.fixturenames:
        ids = [f"{key.task}-{key.id}" for key in plan.keys]
        metafunc.parametrize("jsbench_case", plan.keys, ids=ids, indirect=True)


def open_fixture(request: pytest.FixtureRequest) -> JSBench:
    """Return the `jsbench` object of a test; skip the test if the run calls no model."""
    __tracebackhide__ = True
    tests = _tests(request)
    made = tests.fixture(request.node)
    request.addfinalizer(partial(tests.close, request.node))
    return made


def open_shared(request: pytest.FixtureRequest) -> SharedJSBench:
    """Return the `jsbench_shared` object; skip the test if the run calls no model."""
    return _tests(request).shared(getattr(request, "param", ""))


def _tests(request: pytest.FixtureRequest) -> ProjectTests:
    if request.config.stash[RUN_CONTEXT].plan.cases.labelled is not None:
        pytest.skip("--jsbench-instances calls no model; omit the option to run a project's own tests")
    return request.config.stash[PROJECT_TESTS]


def load_case(request: pytest.FixtureRequest) -> Case:
    """Return the case for which the test is parametrized; fail or skip the test if the case has no valid schema."""
    case = request.config.stash[RUN_CONTEXT].plan.cases.case(request.param)
    if isinstance(case, BrokenCase):
        skips = request.config.stash[RUN_CONTEXT].settings.selection.skips_invalid
        (pytest.skip if skips else pytest.fail)(f"invalid_schema: {printable(case.problem)}")
    return case


class WithoutRun(JSBench):
    """
    The fixture `jsbench` in a session without an engine: `check` works, and so does an endpoint that injects faults;
    anything else skips the test.
    """

    def _question(self, *_asked: Any) -> NoReturn:
        pytest.skip(NO_ENGINE)


def open_without_run(request: pytest.FixtureRequest) -> JSBench:
    """Return a `jsbench` object that only judges answers passed to `check`; no record is written."""
    item = request.node
    config = request.config
    judging = read_judging(config)
    judge = shared_judge(policy_of(judging))
    comparers = dict(judging.comparer)

    def ask(question: FixtureQuestion) -> Record:
        assert question.given is not None
        return question.given.record(
            question.case, question.prompt, repeat=question.repeat, judge=judge, comparers=comparers
        )

    def serve(endpoint: Endpoint[Answer]) -> tuple[str, str]:
        if not endpoint.injects:
            pytest.skip(NO_ENGINE)
        from pytest_jsbench.fixture.endpoint import EndpointServer

        server = EndpointServer()
        request.addfinalizer(server.close)
        request.addfinalizer(endpoint.close)
        request.addfinalizer(endpoint.require_faults)
        return server.open(endpoint), "example"

    key = key_of(item.nodeid)
    injecting = partial(injecting_of, item, key=key, judge=lambda: judge, stands_in=True, opens_late=True)
    attempts = Attempts(key, ask, serve=serve, injecting=injecting)
    return WithoutRun(read_terms(item), attempts, folder=item.path.parent, rerun=f"pytest {shlex.quote(item.nodeid)}")
