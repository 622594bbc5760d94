from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_jsbench.plugin.xdist_scheduling import scheduler

pytest.importorskip("xdist", reason="needs pytest-xdist")

from xdist.remote import Producer


class Node:
    """One of xdist's workers, as its scheduler sees it."""

    id = "gw"

    def __init__(self) -> None:
        self.dies = False
        self.sent: list[int] = []
        self.shutting_down = False
        self.gateway = self

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        if self.dies:
            raise OSError("cannot send (already closed?)")
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_what_a_worker_that_has_just_died_cannot_take_goes_to_the_others(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfig("--tx=2*popen", "--dist=load", "-p", "no:benchmark")
    scheduling = scheduler(config, Producer("test"), ahead=2)
    dying, well = Node(), Node()
    tests = [f"jsbench::t::c{number}" for number in range(8)]
    for node in (dying, well):
        scheduling.add_node(node)
        scheduling.add_node_collection(node, tests)
    scheduling.schedule()
    assert (dying.sent, well.sent) == ([0, 1], [2, 3])

    dying.dies = True
    scheduling.mark_test_complete(dying, 0)
    assert scheduling.remove_node(dying) == tests[1]
    for index in well.sent:  # grows as it goes
        scheduling.mark_test_complete(well, index)

    assert sorted(well.sent) == [2, 3, 4, 5, 6, 7]


def test_what_would_be_paid_for_once_in_each_worker_is_refused(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfig("--tx=2*popen", "--dist=each", "-p", "no:benchmark")

    with pytest.raises(pytest.UsageError, match=r"^--dist=each would make every call .*; use --dist=load$"):
        scheduler(config, Producer("test"), ahead=2)


def test_another_way_of_handing_out_tests_is_xdists_own(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfig("--tx=2*popen", "--dist=worksteal", "-p", "no:benchmark")

    assert scheduler(config, Producer("test"), ahead=2) is None
