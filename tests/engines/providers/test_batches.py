from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Declined,
    Failed,
    FaultKind,
    Generation,
    Request,
    ResponseFormat,
    Sent,
)
from pytest_jsbench.engines.base import Batches, BatchState, EngineConfig
from pytest_jsbench.engines.http.calls import LONGEST_BODY
from pytest_jsbench.engines.providers.batches import (
    AnthropicBatches,
    GeminiBatches,
    OpenAIBatches,
    check_id,
    read_lines,
)
from pytest_jsbench.engines.registry import find, require_batches
from pytest_jsbench.run.batches import build_batches
from tests.support import anthropic_wire, examples, gemini_wire, openai_wire
from tests.support.batch_server import AnthropicServer, BatchServer, GeminiServer, OpenAIServer
from tests.support.engine_calls import request
from tests.support.examples import replace
from tests.support.provider import Asked, Provider, Reply, json_reply, keep_open

UNSUPPORTED = "Invalid schema for response_format 'output': 'oneOf' is not permitted"
#: JSON may contain characters at which Python's splitlines splits.
ODD = '{"n": "a\u2028b\u0085c"}'

pytest.importorskip("urllib3", reason="calls to providers need the package urllib3")


@pytest.fixture(params=["chat", "responses", "messages", "gemini"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(api: str, provider: Provider) -> BatchServer:
    kinds: dict[str, type[BatchServer]] = {"messages": AnthropicServer, "gemini": GeminiServer}
    return kinds.get(api, OpenAIServer)(provider=provider)


@pytest.fixture
def config(api: str, provider: Provider) -> EngineConfig:
    if api == "messages":
        return anthropic_wire.configured(provider)
    if api == "gemini":
        return gemini_wire.configured(provider)
    return openai_wire.configured(provider, options={"api": api, "extra_body": {"service_tier": "flex"}})


@pytest.fixture
def batches(config: EngineConfig, server: BatchServer) -> Iterator[Batches]:
    built = find(config.name).build_batches(config)
    yield built
    built.close()


def asking(*titles: str) -> dict[str, Request]:
    return {title: replace(request(), schema={"title": title, "type": "object"}) for title in titles}


def made(batches: Batches, asked: dict[str, Request]) -> str:
    return batches.upload([batches.line(name, one) for name, one in asked.items()])()


def called(config: EngineConfig, asked: Request) -> Generation:
    """Return the result of a single call, without the fields that only single calls have."""
    engine = find(config.name).build(replace(config, options={**config.options, "stream": False}))
    try:
        answer = engine.generate(asked)
        return replace(answer, timing=None)
    except CallError as error:
        return Failed(kind=error.kind, message=error.message, status=error.status)
    finally:
        engine.close()


def without_batch(generation: Any) -> Generation:
    sent = getattr(generation, "sent", None)
    found: Generation = generation if sent is None else replace(generation, sent=replace(sent, batch=None))
    return found


def test_batch_has_the_same_requests_and_results_as_single_calls(
    batches: Batches, server: BatchServer, config: EngineConfig, api: str
) -> None:
    wire: Any = {"messages": anthropic_wire, "gemini": gemini_wire}.get(api, openai_wire)
    server.answers = {
        "odd": ODD,
        "unsupported": (400, wire.error_body(UNSUPPORTED)),
        "limited": (429, wire.error_body("slow down", "rate_limit_error"))
        if api == "messages"
        else (429, openai_wire.error_body("slow down", type="rate_limit_error")),
        "empty": "{}" if api in ("messages", "gemini") else (200, {"error": {"message": "inside"}}),
    }
    asked = asking("good", *server.answers)

    batch = made(batches, asked)

    found = dict(batches.results(batch))
    state = batches.state(batch)
    live = {name: called(config, one) for name, one in asked.items()}
    bodies = [row.get("body") or row.get("params") or row["request"] for row in server.batches[batch]]
    assert bodies == [{name: value for name, value in body.items() if name != "stream"} for body in server.live]
    assert {name: without_batch(generation) for name, generation in found.items()} == live
    good, unsupported, limited = found["good"], found["unsupported"], found["limited"]
    assert isinstance(good, Completion)
    assert (good.timing, good.sent and good.sent.batch, good.usage.output_tokens) == (None, batch, 9)
    assert isinstance(unsupported, Declined)
    assert isinstance(limited, Failed)
    assert limited.kind is FaultKind.RATE_LIMITED
    assert (state.ended, state.answered, state.total) == (True, 5, 5)


@pytest.mark.parametrize("api", ["chat", "responses", "messages"], indirect=True)
def test_a_request_that_was_never_made_is_nobodys_wrong_answer(batches: Batches, server: BatchServer, api: str) -> None:
    expired, cancelled = ("expired", "canceled") if api == "messages" else ("batch_expired", "batch_cancelled")
    server.answers = {"late": expired, "dropped": cancelled, "lost": "absent"}

    batch = made(batches, asking("late", "dropped", "lost"))

    found = dict(batches.results(batch))
    kinds = {name: (one.kind, one.message) for name, one in found.items() if isinstance(one, Failed)}
    assert kinds == {
        "late": (FaultKind.TIMEOUT, "the batch expired before this request was made"),
        "dropped": (FaultKind.SERVER, "the batch was cancelled before this request was made"),
    }
    unanswered = batches.state(batch).unanswered
    assert unanswered is not None
    assert unanswered.kind is FaultKind.BAD_RESPONSE


def test_while_it_is_under_way_nothing_is_said_of_its_requests(batches: Batches, server: BatchServer) -> None:
    server.looks = 1
    batch = made(batches, asking("a"))

    assert (batches.state(batch).ended, batches.state(batch).ended) == (False, True)


COMPLETED = "the batch completed, but its results do not contain this request"
EXPIRED = "the batch expired before this request was made"
CANCELLED = "the batch was cancelled before this request was made"
BAD = {"code": "invalid_json_schema", "message": f"{openai_wire.SECRET}: bad", "line": 3}
POOR = {"code": "insufficient_quota", "message": "no money"}


@pytest.mark.parametrize(
    ("api", "ending", "more", "kind", "said"),
    [
        (
            "chat",
            "failed",
            {"errors": [BAD, {"code": "b"}]},
            FaultKind.BAD_REQUEST,
            "the provider rejected the batch: [key]: bad (line 3 of the input file), and 1 more error",
        ),
        ("chat", "failed", {"errors": [POOR]}, FaultKind.QUOTA, "the provider rejected the batch: no money"),
        ("chat", "expired", {}, FaultKind.TIMEOUT, EXPIRED),
        ("chat", "cancelled", {}, FaultKind.SERVER, CANCELLED),
        (
            "gemini",
            "FAILED",
            {"error": {"code": 8, "message": f"{gemini_wire.SECRET}: no more"}},
            FaultKind.RATE_LIMITED,
            "the provider rejected the batch: [key]: no more",
        ),
        (
            "gemini",
            "FAILED",
            {"error": {"code": 3, "message": "bad"}},
            FaultKind.BAD_REQUEST,
            "the provider rejected the batch: bad",
        ),
        ("gemini", "EXPIRED", {}, FaultKind.TIMEOUT, EXPIRED),
        ("gemini", "CANCELLED", {}, FaultKind.SERVER, CANCELLED),
        ("gemini", "SUCCEEDED", {}, FaultKind.BAD_RESPONSE, COMPLETED),
    ],
    indirect=["api"],
)
def test_how_a_batch_ended_is_said_of_what_it_left_unanswered(
    batches: Batches, server: BatchServer, ending: str, more: dict[str, Any], kind: FaultKind, said: str
) -> None:
    server.ending, server.answers = ending, {"a": "absent"}
    for name, value in more.items():
        setattr(server, name, value)
    batch = made(batches, asking("a"))

    assert batches.state(batch).unanswered == Failed(kind=kind, message=said)
    assert dict(batches.results(batch)) == {}


@pytest.mark.parametrize("api", ["gemini"], indirect=True)
@pytest.mark.parametrize(
    "odd", [{}, {"metadata": 5}, {"metadata": {"state": [], "batchStats": {"requestCount": "many"}}}, []]
)
def test_a_state_of_odd_kinds_is_that_of_a_batch_that_has_not_ended(
    batches: Batches, server: GeminiServer, odd: Any
) -> None:
    server.broken = {"batches": [json_reply(odd)]}

    assert batches.state("batches/b0") == BatchState(ended=False, answered=0, failed=0, total=0)


@pytest.mark.parametrize("api", ["gemini"], indirect=True)
def test_an_upload_that_gets_no_place_for_its_file_is_a_fault(batches: Batches, server: GeminiServer) -> None:
    server.broken = {"upload": [json_reply({})]}

    with pytest.raises(CallError, match="did not return an upload address"):
        batches.upload([b"{}"])


@pytest.mark.parametrize(
    ("status", "word", "kind"),
    [
        (401, {"type": "authentication_error"}, FaultKind.AUTH),
        # A single call would be declined.
        (400, {"code": "content_filter"}, FaultKind.BAD_REQUEST),
    ],
)
def test_provider_rejection_is_a_fault_with_its_message_without_the_key(
    batches: Batches, server: BatchServer, config: EngineConfig, status: int, word: dict[str, str], kind: FaultKind
) -> None:
    body = openai_wire.error_body(f"flagged by our filter: {config.api_key}", **word)
    server.broken = {"": [json_reply(body, status=status)]}

    with pytest.raises(CallError, match=r"flagged by our filter: \[key\]") as caught:
        batches.upload([b"{}"])

    assert caught.value.kind is kind


def test_making_a_batch_is_tried_once_and_looking_again_and_again(batches: Batches, server: BatchServer) -> None:
    make = batches.upload([batches.line("a", asking("a")["a"])])
    down = json_reply(openai_wire.error_body("down"), status=500, headers={"retry-after-ms": "1"})
    path = "batchGenerateContent" if isinstance(server, GeminiServer) else "batches"
    server.broken = {path: [down, down, down]}

    with pytest.raises(CallError, match="down"):
        make()

    assert len(server.broken[path]) == 2
    server.broken = {}
    batch = make()
    server.broken = {"batches": [down, down]}
    assert batches.state(batch).ended


def test_a_batch_whose_connection_is_closed_is_not_made_once_more(batches: Batches, server: BatchServer) -> None:
    def closing(asked: Asked) -> Reply:
        reply, makes = server.reply(asked), len(server.batches) > before
        return Reply(pieces=()) if makes else keep_open(reply)

    server.provider.choose = closing
    looked_at = "batches/b0" if isinstance(server, GeminiServer) else "b0"
    server.make(looked_at, [])
    before = len(server.batches)
    with contextlib.suppress(CallError):
        batches.state(looked_at)  # Leaves a kept-alive connection.

    with pytest.raises(CallError):
        made(batches, asking("one"))
    assert len(server.batches) == before + 1


def test_limits_are_below_what_the_providers_document() -> None:
    openai, anthropic, gemini = OpenAIBatches.limits, AnthropicBatches.limits, GeminiBatches.limits

    assert openai.requests <= 50_000
    assert openai.size < 200 * 10**6
    assert anthropic.requests <= 100_000
    assert anthropic.size < 256 * 10**6
    assert gemini.size < 2 * 10**9


def test_lines_are_put_together_wherever_they_were_cut() -> None:
    text = '{"a": "\u2028é"}\n\n{"b": 1}'.encode()

    for size in (1, 2, 7, len(text)):
        pieces = [text[place : place + size] for place in range(0, len(text), size)]
        assert list(read_lines(pieces)) == [{"a": "\u2028é"}, {"b": 1}]


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ([b"<html>"], "not JSON lines"),
        ([b"[1]"], "expected a JSON object .*, found a list"),
        ([b"[" * 100_000], "not JSON lines"),
        ([b" " * LONGEST_BODY, b"  "], "longer than"),
    ],
)
def test_results_that_are_none_are_a_fault(pieces: list[bytes], said: str) -> None:
    with pytest.raises(CallError, match=said):
        list(read_lines(pieces))


@pytest.mark.parametrize("name", ["scripted", "groq", "azure", "anthropic-bedrock", "anthropic-vertex"])
def test_an_engine_without_batches_is_one_line(name: str) -> None:
    with pytest.raises(EngineError, match=f"engine '{name}' has no batch API: expected anthropic, gemini, openai"):
        require_batches(find(name), name)


@pytest.mark.parametrize("said", [None, "", 7, "batch_\x1b[31m", "batch\n##[error]", "x" * 201])
def test_an_id_that_is_no_text_or_not_fit_to_be_shown_was_not_said(said: object) -> None:
    with pytest.raises(CallError, match="did not return a valid id of the batch"):
        check_id(said)
    assert check_id("batch_67f-A.1") == "batch_67f-A.1"


@pytest.mark.parametrize("api", ["chat", "messages"], indirect=True)
@pytest.mark.parametrize("word", [["x"], {"x": 1}, 7, None])
def test_server_message_of_wrong_type_breaks_one_answer_only(batches: Any, word: object) -> None:
    line = {"error": {"code": word}, "result": {"type": word}}

    with pytest.raises(CallError):
        batches.read_result(line, Sent(response_format=ResponseFormat.JSON_SCHEMA))


def test_results_of_a_batch_are_fetched_from_no_other_server() -> None:
    with Provider() as provider, Provider() as elsewhere:
        elsewhere.json({})
        batch = {"id": "b", "processing_status": "ended", "request_counts": {}, "results_url": f"{elsewhere.url}/r"}
        provider.choose = lambda _: json_reply(batch)
        config = EngineConfig(name="anthropic", model="m", base_url=provider.url, api_key="Key-of-the-user")
        batches = build_batches(find("anthropic"), config)
        with pytest.raises(CallError, match="refers to another server"):
            list(batches.results("b"))
        batches.close()
        assert elsewhere.asked == []


def test_a_batch_whose_id_or_words_quote_the_key_shows_it_nowhere() -> None:
    key = "Key-of-the-user"
    with Provider() as provider:
        line = {"custom_id": key, "result": {"type": "errored", "error": {"error": {"type": key, "message": key}}}}
        batch = {"id": key, "processing_status": "ended", "request_counts": {}, "results_url": f"{provider.url}/r"}
        provider.choose = lambda asked: json_reply(line if asked.path == "/r" else batch)
        config = EngineConfig(name="anthropic", model="m", base_url=provider.url, api_key=key)
        batches = build_batches(find("anthropic"), config)
        with pytest.raises(CallError) as caught:
            batches.upload([b'{"custom_id": "a", "params": {}}'])()
        assert key not in caught.value.message
        assert key not in str(list(batches.results("b")))
        batches.close()


def test_a_request_of_a_batch_has_the_tools_that_a_single_call_has(
    batches: Batches, server: BatchServer, config: EngineConfig
) -> None:
    asked = {"good": replace(asking("good")["good"], offer=examples.offer("find", "count"))}

    batch = made(batches, asked)
    called(config, asked["good"])

    (row,) = server.batches[batch]
    body = row.get("body") or row.get("params") or row["request"]
    (live,) = server.live
    assert body["tools"] == live["tools"] != []
    assert {name: body.get(name) for name in ("tool_choice", "toolConfig")} == {
        name: live.get(name) for name in ("tool_choice", "toolConfig")
    }
