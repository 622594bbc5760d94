from __future__ import annotations

import pytest

from pytest_jsbench.engines.openai.settings import Api
from pytest_jsbench.engines.openai.warm_up import rehearse
from pytest_jsbench.engines.registry import find
from tests.engines import openai_wire
from tests.engines.provider import Provider

pytest.importorskip("openai", reason="the openai engine needs the package openai")


@pytest.mark.parametrize("api", Api)
def test_it_is_read_without_a_network(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        message = "no network in a rehearsal"
        raise AssertionError(message)

    monkeypatch.setattr("socket.getaddrinfo", refused)
    monkeypatch.setattr("socket.socket.connect", refused)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    rehearse.cache_clear()
    rehearse(api)


def test_no_server_sees_it(provider: Provider) -> None:
    rehearse.cache_clear()
    find("openai").build(openai_wire.configured(provider)).close()
    assert not provider.asked
