"""Many calls at once, and what is left of them when an engine is closed."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.engines.registry import find
from tests.engines.asking import complete, request
from tests.engines.provider import Provider, kept
from tests.engines.speakers import SPEAKERS, TEXT, Speaker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engines.provider import Asked, Reply

IN_FLIGHT = 64
#: seconds within which anything must have happened, on however busy a machine
PATIENCE = 30.0


def all_at_once(speaker: Speaker) -> Callable[[Asked], Reply]:
    """Each round of answers is given when there are as many questions, and not before."""
    round_ = threading.Barrier(IN_FLIGHT)

    def choose(_: Asked) -> Reply:
        round_.wait(PATIENCE)
        return kept(speaker.good())

    return choose


@pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda speaker: speaker.name)
def test_64_calls_are_in_flight_at_once_and_nothing_is_open_after_closing(provider: Provider, speaker: Speaker) -> None:
    pytest.importorskip(speaker.package, reason=f"the {speaker.engine} engine needs its package")
    provider.choose = all_at_once(speaker)
    config = speaker.config(provider)
    engine = find(config.name).build(config)
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        texts = list(pool.map(lambda _: complete(engine, request(timeout=PATIENCE)).text, range(2 * IN_FLIGHT)))
    assert texts == [TEXT] * (2 * IN_FLIGHT)
    assert len(provider.asked) == 2 * IN_FLIGHT
    engine.close()
    deadline = time.monotonic() + PATIENCE
    while provider.closed < provider.opened and time.monotonic() < deadline:
        time.sleep(0.01)
    assert provider.closed == provider.opened
