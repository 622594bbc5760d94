from __future__ import annotations

import queue
from types import SimpleNamespace
from typing import Any

from pytest_jsbench.plugin.worker.items import JSBenchCase
from pytest_jsbench.plugin.worker.lookahead import LookAhead


def test_tests_that_never_ask_do_not_bring_the_calls_ahead_to_a_halt() -> None:
    items = [object.__new__(JSBenchCase) for _ in range(20)]
    called: queue.Queue[int] = queue.Queue()
    config = SimpleNamespace(option=SimpleNamespace(maxfail=0), pluginmanager=SimpleNamespace(get_plugins=list))
    session: Any = SimpleNamespace(items=items, config=config)
    lookahead: LookAhead[None] = LookAhead(session, lambda item, _: called.put(id(item)), concurrency=1)

    for item, following in zip(items, [*items[1:], None], strict=True):
        lookahead.advance(item, following)

    assert [called.get(timeout=10) for _ in items] == [id(item) for item in items]
