"""Reject fixtures and requests that cannot be combined with `repeats` or `min_pass` in a marker."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from pytest_jsbench.core.errors import ContractError
from pytest_jsbench.fixture.marker import MarkerArguments
from pytest_jsbench.plugin.context import FIXTURE, uses

SUBTESTS = "subtests"

#: Stash key for whether the test function of an item is running.
_RUNNING = pytest.StashKey[bool]()


class RepeatsRefused(ContractError):
    """Raised if a test requests a fixture in a way that excludes repeats; the remaining repeats do not run."""


def read_terms(item: pytest.Item) -> MarkerArguments:
    """Read the arguments of the test's `jsbench` markers; raise ContractError if an argument is invalid."""
    return MarkerArguments.of((mark.args, mark.kwargs) for mark in item.iter_markers("jsbench"))


def check_subtests(item: pytest.Item, terms: MarkerArguments) -> None:
    """Raise RepeatsRefused if a test with `min_pass` uses the fixture `subtests`."""
    if uses(item, SUBTESTS):
        _refuse_min_pass(terms)


def check_is_argument(item: pytest.Item, terms: MarkerArguments) -> None:
    """Raise RepeatsRefused if a test with several repeats requests the fixture `jsbench` only while it runs."""
    __tracebackhide__ = True
    if terms.repeats > 1 and item.stash.get(_RUNNING, False):
        raise RepeatsRefused(
            f"repeats={terms.repeats} needs the fixture {FIXTURE} before the test runs: "
            "make the fixture an argument of the test instead of calling getfixturevalue"
        )


class RepeatRules:
    """
    Checks fixtures that tests request with `getfixturevalue`, which are not among the test's arguments.

    `activation` creates one object in every process. pytest calls its hooks in the main thread: after each fixture is
    set up and around each test function.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """Raise RepeatsRefused if a test with `min_pass` requests the fixture `subtests`."""
        __tracebackhide__ = True
        value = yield  # set up the fixture before raising an error, as pytest expects
        if fixturedef.argname == SUBTESTS and isinstance(request.node, pytest.Item):
            _refuse_min_pass(read_terms(request.node))
        return value

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        """Note in the item's stash that the test function is running."""
        __tracebackhide__ = True
        pyfuncitem.stash[_RUNNING] = True
        try:
            return (yield)
        finally:
            pyfuncitem.stash[_RUNNING] = False


def _refuse_min_pass(terms: MarkerArguments) -> None:
    """Raise RepeatsRefused if `min_pass` allows failures: pytest fails the test if any subtest fails."""
    __tracebackhide__ = True
    if terms.min_pass is not None and terms.min_pass < terms.repeats:
        raise RepeatsRefused(
            f"min_pass={terms.min_pass} of repeats={terms.repeats} cannot be combined with the fixture subtests, since "
            "pytest fails a test if any subtest failed: remove min_pass, or assert without subtests"
        )
