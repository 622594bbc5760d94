from __future__ import annotations

import pytest

from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.engines.base import Engine, EngineConfig
from pytest_jsbench.engines.registry import find, require_batches
from pytest_jsbench.engines.secrets import build, build_batches
from pytest_jsbench.testing import request
from tests.engines.provider import Provider, json_reply
from tests.engines.speakers import SPEAKERS, Speaker

EACH = pytest.mark.parametrize("speaker", SPEAKERS, ids=[speaker.name for speaker in SPEAKERS])


def engine_of(speaker: Speaker, provider: Provider) -> Engine:
    pytest.importorskip(speaker.package, reason=f"the {speaker.engine} engine needs its package")
    return build(find(speaker.engine), speaker.config(provider))


@EACH
@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_to_another_server_is_not_followed(speaker: Speaker, status: int) -> None:
    with Provider() as provider, Provider() as elsewhere:
        elsewhere.replies.append(speaker.good())
        target = elsewhere.url.replace("//", "//me:Pass-word@") + "/v1?token=Tok"
        provider.json({}, status=status, headers={"location": target})
        engine = engine_of(speaker, provider)
        with pytest.raises(CallError) as caught:
            engine.generate(request())
        engine.close()
        assert elsewhere.asked == []
        assert len(provider.asked) == 1
        assert caught.value.kind is FaultKind.BAD_REQUEST
        assert f"the server points to {elsewhere.url}, away from {provider.url}" in caught.value.message
        assert not any(secret in caught.value.message for secret in ("Pass-word", "Tok", "\n"))


def test_results_of_a_batch_are_fetched_from_no_other_server() -> None:
    pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")
    with Provider() as provider, Provider() as elsewhere:
        elsewhere.json({})
        batch = {"id": "b", "processing_status": "ended", "request_counts": {}, "results_url": f"{elsewhere.url}/r"}
        provider.choose = lambda _: json_reply(batch)
        config = EngineConfig(name="anthropic", model="m", base_url=provider.url, api_key="Key-of-the-user")
        batches = build_batches(require_batches(find("anthropic"), "anthropic"), config)
        with pytest.raises(CallError, match="the server points to"):
            list(batches.results("b"))
        batches.close()
        assert elsewhere.asked == []


def test_a_batch_whose_id_or_words_quote_the_key_shows_it_nowhere() -> None:
    pytest.importorskip("urllib3", reason="whatever asks a provider needs the package urllib3")
    key = "Key-of-the-user"
    with Provider() as provider:
        line = {"custom_id": key, "result": {"type": "errored", "error": {"error": {"type": key, "message": key}}}}
        batch = {"id": key, "processing_status": "ended", "request_counts": {}, "results_url": f"{provider.url}/r"}
        provider.choose = lambda asked: json_reply(line if asked.path == "/r" else batch)
        config = EngineConfig(name="anthropic", model="m", base_url=provider.url, api_key=key)
        batches = build_batches(require_batches(find("anthropic"), "anthropic"), config)
        with pytest.raises(CallError) as caught:
            batches.upload([b'{"custom_id": "a", "params": {}}'])()
        assert key not in caught.value.message
        assert key not in str(list(batches.results("b")))
        batches.close()
