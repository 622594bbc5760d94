"""The fixtures of the project's tests, and the parametrization over the cases."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.core.cases import BrokenCase, Case
from pytest_jsbench.core.text import printable
from pytest_jsbench.plugin.session.cases import variant_mark
from pytest_jsbench.plugin.session.context import FIXTURE, RUN_CONTEXT, SHARED
from pytest_jsbench.plugin.worker.project_tests import PROJECT_TESTS

if TYPE_CHECKING:
    from pytest_jsbench.fixture.jsbench import JSBench, SharedJSBench
    from pytest_jsbench.plugin.worker.project_tests import ProjectTests


def parametrize(metafunc: pytest.Metafunc) -> None:
    """One test per variant, and per case by its key: the schema itself is read only when the test runs."""
    plan = metafunc.config.stash[RUN_CONTEXT].plan
    asking = [name for name in (FIXTURE, SHARED) if name in metafunc.fixturenames]
    if asking and list(plan.variants) != [""]:
        marked = [
            pytest.param(*[name] * len(asking), marks=getattr(pytest.mark, variant_mark(name)), id=name)
            for name in plan.variants
        ]
        metafunc.parametrize(asking, marked, indirect=True)
    if "jsbench_case" in metafunc.fixturenames:
        ids = [f"{key.task}-{key.id}" for key in plan.keys]
        metafunc.parametrize("jsbench_case", plan.keys, ids=ids, indirect=True)


def open_fixture(request: pytest.FixtureRequest) -> JSBench:
    """Make the object through which a test asks the run's engine; skip where no model is called."""
    tests = _tests(request)
    made = tests.fixture(request.node)
    request.addfinalizer(partial(tests.close, request.node))
    return made


def open_shared(request: pytest.FixtureRequest) -> SharedJSBench:
    """Make the object through which fixtures ask for several tests; skip where no model is called."""
    return _tests(request).shared(getattr(request, "param", ""))


def _tests(request: pytest.FixtureRequest) -> ProjectTests:
    if request.config.stash[RUN_CONTEXT].plan.cases.labelled is not None:
        pytest.skip("--jsbench-instances calls no model; leave it out to run a project's own tests")
    return request.config.stash[PROJECT_TESTS]


def load_case(request: pytest.FixtureRequest) -> Case:
    """The case of the test's key; skips where its row holds no JSON Schema."""
    case = request.config.stash[RUN_CONTEXT].plan.cases.case(request.param)
    if isinstance(case, BrokenCase):
        skips = request.config.stash[RUN_CONTEXT].settings.selection.skips_invalid
        (pytest.skip if skips else pytest.fail)(f"invalid_schema: {printable(case.problem)}")
    return case
