"""What a project's own tests may ask for."""

from __future__ import annotations

import pytest

from pytest_jsbench.cases import BrokenCase, Case
from pytest_jsbench.plugin.activation import ACTIVE


def parametrize(metafunc: pytest.Metafunc) -> None:
    """One test per case, by the case's key: the schema itself is read only when the test runs."""
    keys = metafunc.config.stash[ACTIVE].keys
    metafunc.parametrize("jsbench_case", keys, ids=[f"{key.task}-{key.id}" for key in keys], indirect=True)


def load_case(request: pytest.FixtureRequest) -> Case:
    """The case of the test's key; skips where its row holds no JSON Schema."""
    case = request.config.stash[ACTIVE].selected.dataset.case(request.param)
    if isinstance(case, BrokenCase):
        pytest.skip(f"invalid_schema: {case.problem}")
    return case
