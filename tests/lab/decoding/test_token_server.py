from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator

import pytest

from pytest_jsbench.lab.decoding.token_server import Slots, slots_folder

pytest.importorskip("filelock", reason="comes with the extras outlines and xgrammar")


@pytest.fixture
def key(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server's key of this test alone; its folder of locks is removed."""
    key = f"{tmp_path_factory.getbasetemp()}-{request.node.name}"
    yield key
    shutil.rmtree(slots_folder(key), ignore_errors=True)


def test_a_slot_is_lent_to_one_at_a_time_whoever_asks(key: str) -> None:
    # two objects, as two processes have them
    here, there = Slots(2, key=key), Slots(2, key=key)
    with here.lent() as first, there.lent() as second:
        assert {first, second} == {0, 1}
        waiting = threading.Event()

        def wait() -> None:
            with here.lent():
                waiting.set()

        thread = threading.Thread(target=wait)
        thread.start()
        assert not waiting.wait(0.1)
    assert waiting.wait(5)
    thread.join()


def test_servers_have_slots_of_their_own(key: str) -> None:
    assert slots_folder(key) != slots_folder(f"{key}!")
    assert key not in str(slots_folder(key))
