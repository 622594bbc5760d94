"""Calls through the official SDKs: what an application gets, within the limits of a run."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any
from urllib.parse import unquote_plus

import pytest

from pytest_jsbench.core.errors import BatchError, EngineError, MissingRequirement
from pytest_jsbench.core.generations import CallError, FaultKind, ResponseFormat
from pytest_jsbench.engines import engine_options
from pytest_jsbench.engines.base import Engine, EngineConfig
from pytest_jsbench.engines.engine_options import package_version
from pytest_jsbench.engines.registry import find
from tests.support import anthropic_wire, openai_wire, responses_wire
from tests.support.answer_reading import ROWS, as_row
from tests.support.api_servers import TEXT, THROUGH_SDKS, Speaker
from tests.support.cloud_wire import BEDROCK, VERTEX
from tests.support.engine_calls import complete, completion_of, fault, fault_of, request
from tests.support.provider import (
    Provider,
    Reply,
    dripping_head,
    json_reply,
    keep_open,
    raw_reply,
    stream_reply,
    unreachable_url,
)

pytest.importorskip("openai", reason="the calls are made by the SDK")
pytest.importorskip("anthropic", reason="the calls are made by the SDK")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(params=[THROUGH_SDKS[0], THROUGH_SDKS[2]], ids=["openai", "anthropic"])
def streaming(request: pytest.FixtureRequest) -> Speaker:
    speaker: Speaker = request.param
    return speaker


@pytest.fixture(params=[THROUGH_SDKS[3], THROUGH_SDKS[5]], ids=["openai", "anthropic"])
def whole(request: pytest.FixtureRequest) -> Speaker:
    speaker: Speaker = request.param
    return speaker


def with_options(config: EngineConfig, **options: Any) -> EngineConfig:
    return replace(config, options={**config.options, **options})


#: What an application with an SDK gets instead of the outcome in the table, by API and row.
NAMELESS = "the answer ended without a finish reason; 0 characters dropped"
UNNAMED_ERROR = "the answer ended without a finish reason; 9 characters dropped"
WITH_AN_SDK = {
    # OpenAI's SDK reads an error from the data of an event, not from the event's name
    ("chat", "error in mid-stream: by its name"): UNNAMED_ERROR,
    ("chat", "error in mid-stream, then done: by its name"): UNNAMED_ERROR,
    # Anthropic's SDK skips events without a name
    ("messages", "answer 8"): NAMELESS,
    ("messages", "an error without the name of its event"): NAMELESS,
}
WIRES = {"chat": openai_wire, "responses": responses_wire, "messages": anthropic_wire}
SDK_ROWS = [row for row in ROWS if row["wire"] in WIRES]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Provider, Mapping[tuple[str, bool], Engine]]]:
    """Yield a provider, and an engine for each API, streaming and not, all through the SDKs."""
    with ExitStack() as stack:
        provider = stack.enter_context(Provider())
        engines = {}
        for wire, spoken in WIRES.items():
            for streamed in (True, False):
                options = {"stream": streamed, "transport": "sdk"}
                config = spoken.configured(provider, options=options, response_format=ResponseFormat.TOOL)
                engines[wire, streamed] = stack.enter_context(closing(find(config.name).build(config)))
        yield provider, engines


@pytest.mark.slow
@pytest.mark.parametrize("row", SDK_ROWS, ids=[f"{row['wire']}, {row['name']}" for row in SDK_ROWS])
def test_answer_through_an_sdk_has_the_same_outcome(
    row: dict[str, Any], served: tuple[Provider, Mapping[tuple[str, bool], Engine]]
) -> None:
    provider, engines = served
    reply = stream_reply(*row["events"]) if "events" in row else json_reply(row["body"])
    provider.choose = lambda _: keep_open(reply)

    outcome: Any
    try:
        outcome = engines[row["wire"], "events" in row].generate(request())
    except CallError as error:
        outcome = error

    expected = row["outcome"]
    if (message := WITH_AN_SDK.get((row["wire"], row["name"]))) is not None:
        expected = {"fault": "bad_response", "message": message, "status": None}
    assert as_row(outcome) == expected


def test_each_difference_of_an_sdk_is_a_row() -> None:
    assert WITH_AN_SDK.keys() <= {(row["wire"], row["name"]) for row in ROWS}


def test_details_have_the_version_of_the_sdk(whole: Speaker, provider: Provider) -> None:
    config = whole.config(provider)
    version = f"{whole.engine} {package_version(whole.engine)}"
    assert find(whole.engine).describe(config).details["transport"] == version
    assert "transport" not in find(whole.engine).describe(with_options(config, transport="http")).details


def test_sdk_sends_options_and_unknown_fields(whole: Speaker, provider: Provider) -> None:
    provider.replies.append(whole.good())
    options = {
        "extra_body": {"top_k": 3, "own": {"a": [1, None]}, "timeout": 3},
        "extra_headers": {"x-own": "a", "user-agent": "mine"},
        "extra_query": {"team": "a b"},
    }
    config = with_options(whole.config(provider), **options)
    for transport in ("sdk", "http"):
        assert completion_of(with_options(config, transport=transport), request(temperature=0, seed=3)).text == TEXT
    through, own = provider.asked
    assert (unquote_plus(through.path), through.body) == (unquote_plus(own.path), own.body)
    assert through.body["own"] == {"a": [1, None]}
    named = ("x-own", "user-agent", "authorization", "anthropic-version")
    assert {name: through.headers.get(name) for name in named} == {name: own.headers.get(name) for name in named}


def test_failed_call_is_not_repeated_by_the_sdk(whole: Speaker, provider: Provider) -> None:
    provider.json(whole.error("later"), status=429, headers={"retry-after": "0"})
    error = fault_of(whole.config(provider))
    assert (error.kind, error.retry_after, len(provider.asked)) == (FaultKind.RATE_LIMITED, 0, 1)


@pytest.mark.parametrize(("userinfo", "sent"), [("", None), ("user:pass@", "Basic dXNlcjpwYXNz")])
def test_server_without_a_key_gets_none(whole: Speaker, provider: Provider, userinfo: str, sent: str | None) -> None:
    provider.replies.append(whole.good())
    config = whole.config(provider)
    url = str(config.base_url).replace("http://", f"http://{userinfo}")
    assert completion_of(replace(config, api_key=None, base_url=url)).text == TEXT
    headers = provider.asked[0].headers
    assert (headers.get("authorization"), headers.get("x-api-key")) == (sent, None)


def test_slow_headers_on_a_reused_connection_end_at_the_deadline(whole: Speaker, provider: Provider) -> None:
    provider.replies += [keep_open(whole.good()), dripping_head(whole.good(), pause=0.05)]
    config = whole.config(provider)
    with closing(find(config.name).build(config)) as engine:
        complete(engine)
        start = time.perf_counter()
        error = fault(engine, request(timeout=0.3))
        assert time.perf_counter() - start < 5  # the headers alone take longer
    assert (error.kind, error.message) == (FaultKind.TIMEOUT, "no complete answer within 0.3 s")
    assert provider.opened == 1


def test_close_ends_a_call_in_flight(streaming: Speaker, provider: Provider) -> None:
    arrived = threading.Event()

    def choose(_: object) -> Reply:
        arrived.set()
        return replace(stream_reply(streaming.events[0], cut=True), hang=True)

    provider.choose = choose
    config = streaming.config(provider)
    engine = find(config.name).build(config)
    ended: list[CallError] = []
    thread = threading.Thread(target=lambda: ended.append(fault(engine, request(timeout=60))))
    thread.start()
    assert arrived.wait(30)
    until(lambda: engine._sdk_client._in_use)  # type: ignore[attr-defined]
    engine.close()
    thread.join(30)
    assert [error.kind for error in ended] == [FaultKind.CONNECTION]


def test_closed_engine_makes_no_call(whole: Speaker, provider: Provider) -> None:
    config = whole.config(provider)
    engine = find(config.name).build(config)
    engine.close()
    error = fault(engine)
    assert (error.kind, error.message) == (FaultKind.CONNECTION, f"{config.base_url}: the client is closed")
    assert provider.opened == 0


def test_lateness_is_not_measured_through_an_sdk(streaming: Speaker, provider: Provider) -> None:
    provider.stream(*streaming.events)
    timing = completion_of(streaming.config(provider)).timing
    assert timing is not None
    assert (timing.ttft is None, timing.ttft_lateness) == (False, None)


def test_extra_body_may_turn_streaming_off(streaming: Speaker, provider: Provider) -> None:
    provider.json(streaming.body)
    assert completion_of(with_options(streaming.config(provider), extra_body={"stream": False})).text == TEXT


def until(condition: Callable[[], Any]) -> None:
    """Wait for another thread; fail if it takes too long."""
    end = time.perf_counter() + 20
    while not condition():
        assert time.perf_counter() < end
        time.sleep(0.001)


@pytest.mark.parametrize("status", [302, 307])
def test_no_redirect_leads_to_another_server(whole: Speaker, provider: Provider, status: int) -> None:
    with Provider() as other:
        other.replies.append(whole.good())
        provider.raw(b"", status=status, headers={"location": f"{other.url}/elsewhere"})
        error = fault_of(whole.config(provider))
        assert error.message.startswith(f"the server at {provider.url}")
        assert f" refers to another server, {other.url};" in error.message
    assert (error.kind, other.asked) == (FaultKind.BAD_REQUEST, [])


def test_redirect_that_loses_the_request_is_a_fault(whole: Speaker, provider: Provider) -> None:
    provider.raw(b"", status=302, headers={"location": "/elsewhere"})
    error = fault_of(whole.config(provider))
    assert (error.kind, len(provider.asked)) == (FaultKind.BAD_REQUEST, 1)
    assert f"answered with status 302, a redirect to {provider.url}/elsewhere" in error.message


def test_redirect_loop_through_an_sdk_is_a_fault(whole: Speaker, provider: Provider) -> None:
    provider.raw(b"", status=307, headers={"location": "/elsewhere"})
    error = fault_of(whole.config(provider))
    assert (error.kind, len(provider.asked)) == (FaultKind.BAD_REQUEST, 4)


def test_compressed_answer_is_rejected_unread(whole: Speaker, provider: Provider) -> None:
    packed = gzip.compress(json.dumps(whole.body).encode())
    provider.replies.append(raw_reply(packed, kind="application/json", headers={"content-encoding": "gzip"}))
    error = fault_of(whole.config(provider))
    assert (error.kind, error.message) == (
        FaultKind.BAD_RESPONSE,
        "unsupported content encoding gzip; expected one of: identity",
    )
    assert provider.asked[0].headers["accept-encoding"] == "identity"


def test_sdk_uses_the_proxy_of_the_environment(
    whole: Speaker, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", provider.url)
    provider.replies.append(whole.good())
    config = replace(whole.config(provider), base_url="http://model.example/v1")
    assert completion_of(config).text == TEXT
    assert provider.asked[0].path.startswith("http://model.example/v1/")


def test_closed_port_is_a_connection_fault_of_its_address(whole: Speaker, provider: Provider) -> None:
    url = unreachable_url()
    error = fault_of(replace(whole.config(provider), base_url=url))
    assert error.kind is FaultKind.CONNECTION
    assert error.message.startswith(f"{url}: [Errno")


def test_header_that_cannot_be_sent_is_not_quoted(whole: Speaker, provider: Provider) -> None:
    error = fault_of(with_options(whole.config(provider), extra_headers={"x-own": "secret\nwords"}))
    assert error.kind is FaultKind.ENGINE
    assert "secret" not in error.message
    assert provider.asked == []


def test_schema_that_cannot_be_encoded_is_an_engine_fault(whole: Speaker, provider: Provider) -> None:
    error = fault_of(whole.config(provider), replace(request(), schema={"const": "\ud800"}))
    assert (error.kind, provider.asked) == (FaultKind.ENGINE, [])


@pytest.mark.parametrize(
    ("version", "found"), [("", "the package openai"), ("2.33.0", r"openai>=2\.34, found 2\.33\.0")]
)
@pytest.mark.parametrize("name", ["openai", "groq"])
def test_missing_sdk_is_one_line_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, name: str, version: str, found: str
) -> None:
    monkeypatch.setattr(engine_options, "is_installed", lambda module: bool(version) or module != "openai")
    monkeypatch.setattr(engine_options, "package_version", lambda package: version if package == "openai" else "9")
    config = EngineConfig(name=name, model="m", api_key="k", options={"transport": "sdk"})
    with pytest.raises(MissingRequirement, match=rf"^engine '{name}' needs {found}: pip install '[^']*\[openai\]'$"):
        find(name).check(config)


@pytest.mark.parametrize("name", ["azure", "gemini", BEDROCK.name, VERTEX.name])
def test_engines_without_an_sdk_reject_the_option(name: str) -> None:
    with pytest.raises(EngineError, match=f"engine '{name}' has no option 'transport'"):
        find(name).check(EngineConfig(name=name, model="m", options={"transport": "sdk"}))


def test_unknown_transport_is_rejected() -> None:
    config = EngineConfig(name="openai", model="m", options={"transport": "httpx"})
    with pytest.raises(EngineError, match="option 'transport' of engine 'openai' must be http or sdk, found 'httpx'"):
        find("openai").check(config)


def test_batches_are_not_sent_through_an_sdk(whole: Speaker, provider: Provider) -> None:
    factory: Any = find(whole.engine)
    with pytest.raises(BatchError, match="remove transport=sdk"):
        factory.build_batches(whole.config(provider))
