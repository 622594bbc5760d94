from __future__ import annotations

import json
import logging
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest.mock import ANY

import pytest

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import Declined, DeclineReason, FaultKind
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.registry import find
from tests.support.anthropic_wire import TEXT, delta, error_body, start, stop, whole
from tests.support.cloud_wire import (
    AWS,
    BEDROCK,
    MODEL,
    SECRET,
    VERTEX,
    bedrock,
    bedrock_stream,
    exception,
    frame,
    vertex,
)
from tests.support.engine_calls import CITY, completion_of, fault, fault_of, generation_of, request
from tests.support.engine_contract import SLOW, EngineContract
from tests.support.provider import Asked, Provider, Reply, json_reply

pytest.importorskip("urllib3", reason="provider engines need the package urllib3")
pytest.importorskip("botocore", reason="the engine anthropic-bedrock needs the package botocore")
pytest.importorskip("google.auth", reason="the engine anthropic-vertex needs the package google-auth")

ANSWER = (start(), delta('{"city": '), delta('"Oslo"}'), stop())


@pytest.fixture
def fetching(provider: Provider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials of a machine outside Google's cloud, which are exchanged for a token."""
    (tmp_path / "subject").write_text("token-of-the-machine")
    held = {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/p",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{provider.url}/token",
        "credential_source": {"file": str(tmp_path / "subject")},
    }
    (tmp_path / "adc.json").write_text(json.dumps(held))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "adc.json"))
    # otherwise the library requests it
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p-1")


@pytest.fixture
def signing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)


class TestBedrockKeepsTheContract(EngineContract):
    @pytest.fixture(params=["in frames", "signed"])
    def config(self, request: pytest.FixtureRequest, provider: Provider) -> EngineConfig:
        if request.param == "in frames":
            provider.replies.append(bedrock_stream(start(), delta('{"city": "Oslo"}'), stop(), pause=SLOW))
            return bedrock(provider)
        request.getfixturevalue("signing")
        provider.json(whole(TEXT), silence=SLOW)
        return bedrock(provider, api_key=None, options={"stream": False})


BODY = {
    "anthropic_version": ANY,  # set by the SDK
    "messages": [{"role": "user", "content": "Name a city, as JSON."}],
    "max_tokens": 7,
    "output_config": {"format": {"type": "json_schema", "schema": CITY}},
}


def test_cloud_request_has_the_model_in_its_path(provider: Provider) -> None:
    provider.replies.append(bedrock_stream(*ANSWER))
    provider.stream(*ANSWER)
    for config in (bedrock(provider), vertex(provider)):
        answer = completion_of(config, request(max_tokens=7))
        assert (answer.text, answer.usage.output_tokens) == ('{"city": "Oslo"}', 9)
    of_bedrock, of_vertex = provider.asked
    assert of_bedrock.path == f"/model/{MODEL}/invoke-with-response-stream"
    assert of_vertex.path == "/v1/projects/p-1/locations/global/publishers/anthropic/models/m:streamRawPredict"
    assert [asked.headers["authorization"] for asked in provider.asked] == [f"Bearer {SECRET}"] * 2
    assert (of_bedrock.body, of_vertex.body) == (BODY, {**BODY, "stream": True})


@pytest.mark.usefixtures("signing")
def test_bedrock_request_is_signed_without_a_key(provider: Provider) -> None:
    provider.json(whole(TEXT))
    completion_of(bedrock(provider, api_key=None, options={"stream": False}))
    (asked,) = provider.asked
    assert asked.path == f"/model/{MODEL}/invoke"
    assert asked.headers["authorization"].startswith(f"AWS4-HMAC-SHA256 Credential={AWS['AWS_ACCESS_KEY_ID']}/")
    assert "/eu-west-1/bedrock/aws4_request, " in asked.headers["authorization"]
    assert asked.headers["x-amz-security-token"] == AWS["AWS_SESSION_TOKEN"]


def test_profile_provides_credentials_and_region(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text("[profile bench]\nregion = ap-south-1\n")
    lines = "[bench]\naws_access_key_id = AKIAOFTHEFILE0123456\naws_secret_access_key = never-sent\n"
    (tmp_path / "credentials").write_text(lines)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    provider.json(whole(TEXT))
    options = {"profile": "bench", "stream": False}
    completion_of(replace(bedrock(provider, api_key=None), options=options))
    (asked,) = provider.asked
    assert "Credential=AKIAOFTHEFILE0123456/" in asked.headers["authorization"]
    assert "/ap-south-1/bedrock/" in asked.headers["authorization"]


@pytest.mark.usefixtures("fetching")
def test_vertex_token_is_fetched_and_redacted(provider: Provider) -> None:
    token = "ya29.fetched-0123456789"

    def choose(asked: Asked) -> Reply:
        if asked.path == "/token":
            kind = "urn:ietf:params:oauth:token-type:access_token"
            held = {"access_token": token, "issued_token_type": kind, "token_type": "Bearer", "expires_in": 3600}
            return json_reply(held)
        return json_reply(error_body(f"no such thing for {token}"), status=400)

    provider.choose = choose
    with closing(find("anthropic-vertex").build(vertex(provider, api_key=None))) as engine:
        messages = [fault(engine).message for _ in range(2)]
    assert messages == ["no such thing for [key]"] * 2
    assert [asked.path for asked in provider.asked].count("/token") == 1
    assert provider.asked[-1].headers["authorization"] == f"Bearer {token}"


REVOKED = {"error": "invalid_grant", "error_description": "Token has been expired or revoked."}


@pytest.mark.usefixtures("fetching")
@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (json_reply(REVOKED, status=400), FaultKind.AUTH, "no credentials: OAuthError: "),
        (Reply(pieces=()), FaultKind.CONNECTION, ""),
    ],
)
def test_failed_token_fetch_is_an_auth_or_connection_fault(
    provider: Provider, reply: Reply, kind: FaultKind, message: str
) -> None:
    provider.replies.append(reply)
    error = fault_of(vertex(provider, api_key=None))
    assert error.kind is kind
    assert error.message.startswith(message)


@pytest.mark.usefixtures("signing")
def test_credentials_of_a_call_are_in_no_answer_message_or_log(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    def quoting(asked: Asked) -> Reply:
        held = f"{asked.headers['authorization']} {asked.headers['x-amz-security-token']}"
        if len(provider.asked) == 1:
            return json_reply(whole({"type": "text", "text": held}))
        return json_reply({"message": f"The request signature does not match: {held}"}, status=403)

    provider.choose = quoting
    config = bedrock(provider, api_key=None, options={"stream": False})
    with caplog.at_level(logging.DEBUG):
        answer, error = completion_of(config), fault_of(config)
    signature = provider.asked[0].headers["authorization"].rpartition("=")[2]
    assert len(signature) == 64
    assert answer.secret_replaced
    assert error.kind is FaultKind.AUTH
    told = [answer.text, error.message, *(record.getMessage() for record in caplog.records)]
    secrets = [AWS["AWS_ACCESS_KEY_ID"], AWS["AWS_SESSION_TOKEN"], AWS["AWS_SECRET_ACCESS_KEY"], signature]
    secrets.append(provider.asked[1].headers["authorization"].rpartition("=")[2])
    assert [text for text in told for secret in secrets if secret in text] == []


@pytest.mark.parametrize(
    ("kind", "words", "outcome"),
    [
        ("throttlingException", "Too many tokens", FaultKind.RATE_LIMITED),
        ("modelStreamErrorException", "The model broke", FaultKind.SERVER),
        ("internalServerException", "gone", FaultKind.SERVER),
        ("modelTimeoutException", "too slow", FaultKind.TIMEOUT),
        ("validationException", "Invalid schema: oneOf", DeclineReason.UNSUPPORTED_SCHEMA),
    ],
)
def test_bedrock_stream_exception_is_classified_by_name(
    provider: Provider, kind: str, words: str, outcome: FaultKind | DeclineReason
) -> None:
    provider.replies.append(bedrock_stream(start(), delta("{"), exception(kind, words)))
    if isinstance(outcome, FaultKind):
        error = fault_of(bedrock(provider))
        assert (error.kind, error.message) == (outcome, words)
    else:
        declined = generation_of(bedrock(provider))
        assert isinstance(declined, Declined)
        assert (declined.reason, declined.message) == (outcome, words)


BROKEN = frame(b"{}", message_type="event", event_type="chunk")[:-1] + b"?"


@pytest.mark.parametrize(
    "piece",
    [
        pytest.param(BROKEN, id="a wrong checksum"),
        pytest.param(b"data: {}\n\n" * 9, id="no frame"),
        pytest.param(frame(b"[" * 100_000, message_type="event"), id="deeper than any parser"),
        pytest.param(frame(b'{"bytes": "?"}', message_type="event"), id="no Base64"),
        pytest.param(frame(b"5", message_type="event"), id="a number"),
        pytest.param(b"", id="nothing more"),
        pytest.param(frame(b"{}", message_type="event")[:20], id="half a frame"),
    ],
)
def test_invalid_bedrock_stream_is_a_bad_response(provider: Provider, piece: bytes) -> None:
    provider.replies.append(bedrock_stream(start(), delta("{"), piece))
    assert fault_of(bedrock(provider)).kind is FaultKind.BAD_RESPONSE


def test_key_and_profile_together_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", SECRET)
    find("anthropic-bedrock").check(BEDROCK)
    with pytest.raises(EngineError, match=r"the option profile conflicts with a key .*; set only one"):
        find("anthropic-bedrock").check(replace(BEDROCK, options={"region": "r", "profile": "p"}))


@pytest.mark.parametrize("config", [BEDROCK, VERTEX])
def test_application_call_without_a_model_uses_the_engines(config: EngineConfig) -> None:
    settings = find(config.name).settings(config)  # type: ignore[attr-defined]
    path, body = settings.place("/messages", {"messages": []}, "m-1")
    assert re.search(r"/(model|models)/m-1[/:]", path)
    assert "model" not in body


@pytest.mark.parametrize("region", ["global", "us", "eu", "us-east5"])
def test_vertex_addresses_match_the_sdk(region: str) -> None:
    import anthropic

    from pytest_jsbench.engines.providers.clouds import vertex_settings

    settings = vertex_settings(replace(VERTEX, options={"region": region, "project": "p"}))
    client = anthropic.AnthropicVertex(region=region, project_id="p", access_token="t")
    assert str(client.base_url).rstrip("/") == settings.address.url
    client.close()
