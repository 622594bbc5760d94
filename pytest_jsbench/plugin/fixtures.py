"""What a project's own tests may ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from pytest_jsbench.core.cases import BrokenCase, Case
from pytest_jsbench.core.text import printable
from pytest_jsbench.plugin.session.context import RUN_CONTEXT
from pytest_jsbench.plugin.worker.project_tests import NAME

if TYPE_CHECKING:
    from pytest_jsbench.fixture.jsbench import JSBench
    from pytest_jsbench.plugin.worker.project_tests import ProjectTests


def parametrize(metafunc: pytest.Metafunc) -> None:
    """One test per case, by the case's key: the schema itself is read only when the test runs."""
    keys = metafunc.config.stash[RUN_CONTEXT].keys
    metafunc.parametrize("jsbench_case", keys, ids=[f"{key.task}-{key.id}" for key in keys], indirect=True)


def open_fixture(request: pytest.FixtureRequest) -> JSBench:
    """What the test asks the run's engine through; skips where the run calls none."""
    if request.config.stash[RUN_CONTEXT].selected.labelled is not None:
        pytest.skip("--jsbench-instances calls no model; leave it out to run a project's own tests")
    own_tests = request.config.pluginmanager.get_plugin(NAME)
    return cast("ProjectTests", own_tests).fixture(request.node)


def load_case(request: pytest.FixtureRequest) -> Case:
    """The case of the test's key; skips where its row holds no JSON Schema."""
    case = request.config.stash[RUN_CONTEXT].selected.dataset.case(request.param)
    if isinstance(case, BrokenCase):
        pytest.skip(f"invalid_schema: {printable(case.problem)}")
    return case
