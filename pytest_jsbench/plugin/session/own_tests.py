"""What a test of the project is: the arguments of its markers, and the case that its attempts are of."""

from __future__ import annotations

import pytest

from pytest_jsbench.core.cases import CaseKey, safe_name
from pytest_jsbench.fixture.marker import MarkerArguments
from pytest_jsbench.plugin.session.context import SHARED


def read_terms(item: pytest.Item) -> MarkerArguments:
    """The arguments of the test's markers; ContractError where one cannot be read."""
    return MarkerArguments.of((mark.args, mark.kwargs) for mark in item.iter_markers("jsbench"))


def key_of(nodeid: str, variant: str = "") -> CaseKey:
    """The case of a test, the same for all variants: its module, dotted, is the task."""
    path, _, name = nodeid.partition("::")
    name, _, parameters = name.partition("[")
    parameters = parameters.removesuffix("]")
    if variant:
        parameters = parameters.removeprefix(variant).removeprefix("-")
    name = name.replace("::", ".") + (f"-{parameters}" if parameters else "")
    return CaseKey(task=safe_name(path.removesuffix(".py").replace("/", ".")), id=safe_name(name))


def key_of_shared(name: str) -> CaseKey:
    """The case of an answer that tests share by this name; no two names are one case, or a further question of one."""
    key = CaseKey(task=SHARED, id=safe_name(name))
    return key if key.number == 1 else CaseKey(task=SHARED, id=safe_name(f"{name}/"))
