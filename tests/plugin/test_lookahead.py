from __future__ import annotations

import queue
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.plugin.items import JSBenchCase
from pytest_jsbench.plugin.worker import LookAhead
from pytest_jsbench.records.records import Attempt

#: Maximum seconds for anything to happen, even on a busy machine.
PATIENCE = 30.0


def case(variant: str = "") -> JSBenchCase:
    item = object.__new__(JSBenchCase)
    item.attempt, item.has_run = Attempt(CaseKey(task="t", id="c"), 0, variant), False
    return item


def ahead(
    items: list[JSBenchCase],
    call: Callable[[JSBenchCase, float], None],
    concurrency: Mapping[str, int],
    *,
    sent: list[int] | None = None,
) -> LookAhead[None]:
    """Return the look-ahead over these items; as in an xdist worker that received `sent`, if given."""
    config: Any = SimpleNamespace(option=SimpleNamespace(maxfail=0), pluginmanager=SimpleNamespace(get_plugins=list))
    if sent is not None:
        config.workerinput = {}
        config.pluginmanager.get_plugins = lambda: [SimpleNamespace(torun=SentTests(sent))]
    session: Any = SimpleNamespace(items=items, config=config)
    return LookAhead(session, call, concurrency=concurrency)


class SentTests:
    """Tests that xdist has sent a worker, in the form of its queue."""

    def __init__(self, indices: list[int]) -> None:
        self.indices = indices

    def lock(self) -> SentTests:
        return self

    def __enter__(self) -> list[int]:
        return self.indices

    def __exit__(self, *_: object) -> None: ...


def test_tests_that_never_ask_do_not_bring_the_calls_ahead_to_a_halt() -> None:
    items = [case() for _ in range(20)]
    called: queue.Queue[int] = queue.Queue()
    lookahead = ahead(items, lambda item, _: called.put(id(item)), {"": 1})

    for item, following in zip(items, [*items[1:], None], strict=True):
        lookahead.advance(item, following)

    assert [called.get(timeout=10) for _ in items] == [id(item) for item in items]


@pytest.mark.parametrize("workers", [False, True])
def test_a_variant_that_waits_does_not_keep_the_others_from_being_called(workers: bool) -> None:
    items = [case(variant) for _ in range(20) for variant in ("slow", "fast")]
    slow, fast = items[::2], items[1::2]
    held: queue.Queue[None] = queue.Queue()
    called: queue.Queue[int] = queue.Queue()

    def call(item: JSBenchCase, _planned_at: float) -> None:
        if item.attempt.variant == "slow":
            held.get(timeout=PATIENCE)
        called.put(id(item))

    lookahead = ahead(items, call, {"slow": 2, "fast": 3}, sent=list(range(2, len(items))) if workers else None)
    lookahead.advance(items[0], items[1])

    # as many fast ones as fit into its queue, though none of the slow ones has ended
    assert {called.get(timeout=PATIENCE) for _ in range(12)} == {id(item) for item in fast[:12]}
    assert called.empty()
    held.put(None)
    assert called.get(timeout=PATIENCE) in {id(item) for item in slow[:2]}
    lookahead.stop()


def test_each_item_is_called_once_whatever_order_the_tests_run_in() -> None:
    items = [case(variant) for _ in range(30) for variant in ("a", "b", "c")]
    called: queue.Queue[int] = queue.Queue()
    lookahead = ahead(items, lambda item, _: called.put(id(item)), {"a": 1, "b": 2, "c": 3})
    order = [*items[40:], *items[:40]]

    for item, following in zip(order, [*order[1:], None], strict=True):
        lookahead.advance(item, following)
        lookahead.result(item)
        item.has_run = True

    assert sorted(called.get(timeout=PATIENCE) for _ in items) == sorted(map(id, items))
    assert called.empty()
