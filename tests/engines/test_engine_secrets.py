from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import CallError, Completion, FaultKind, FinishReason, Request, ServerAnswer
from pytest_jsbench.core.secret_masking import Secrets
from pytest_jsbench.engines import registry
from pytest_jsbench.engines.base import Address, EngineConfig, without_credentials
from pytest_jsbench.engines.engine_secrets import (
    build,
    check,
    find_secrets,
    mark,
    mask_generation,
    outline,
    outline_option,
    public,
    public_extras,
)
from pytest_jsbench.engines.presets import PRESET_NAMES
from pytest_jsbench.engines.providers.openai import openai_settings
from pytest_jsbench.engines.registry import FunctionFactory, find
from tests.support import anthropic_wire, openai_wire, responses_wire
from tests.support.engine_calls import request

URL = "http://me:pass-word%2F1@h:8000/v1/?token=T0ken-of-url&n=1"


def config(**options: Any) -> EngineConfig:
    return EngineConfig(name="openai", model="m", base_url=URL, options=options)


def test_address_separates_user_password_and_query() -> None:
    address = Address.parse(URL)
    assert (address.url, address.userinfo) == ("http://h:8000/v1/", ("me", "pass-word/1"))
    assert address.query == {"token": "T0ken-of-url", "n": "1"}
    assert "pass-word" not in repr(address)
    assert without_credentials(URL) == "http://…@h:8000/v1/?…"


@pytest.mark.parametrize(
    "text", ["http://me:pa#ss-word@h/", "me:ss-word@h", "http://me:pa?ss-word@h/", "http//h/?token=ss-word"]
)
def test_invalid_address_is_not_quoted_if_it_may_contain_a_password(text: str) -> None:
    with pytest.raises(EngineError, match="--jsbench-base-url is not a valid URL") as caught:
        openai_settings(EngineConfig(name="openai", model="m", base_url=text))
    assert "ss-word" not in str(caught.value)


def test_option_value_is_read_from_the_named_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_VALUE", "Held-by-variable\n")
    settings = openai_settings(
        config(extra_headers={"x-one": "env:MY_VALUE"}, extra_body={"a": [{"b": "env:MY_VALUE"}]})
    )
    assert settings.extra_headers == {"x-one": "Held-by-variable"}
    assert settings.extra_body == {"a": [{"b": "Held-by-variable"}]}
    assert settings.extra_query == {"token": "T0ken-of-url", "n": "1"}
    assert settings.details == {
        "strict": True,
        "extra_body": {"a": [{"b": "env:MY_VALUE"}]},
        "extra_headers": ["x-one"],
    }


def test_unset_variable_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_VALUE", raising=False)
    with pytest.raises(EngineError, match=r"^option 'extra_headers' .* variable MY_VALUE, which is not set$"):
        openai_settings(config(extra_headers={"x-one": "env:MY_VALUE"}))


def test_outline_keeps_only_names_numbers_and_flags() -> None:
    value = {
        "top_k": 5,
        "strict": True,
        "backend": "fast",
        "api_key": 12345678,
        "more": [{"pin": None, "max_tokens": 9}],
    }
    assert outline(value) == {
        "top_k": 5, "strict": True, "backend": "…", "api_key": "…", "more": [{"pin": None, "max_tokens": 9}],
    }  # fmt: skip


def test_authorization_is_a_secret_name_but_author_is_not() -> None:
    value = {"authorization": 12345678, "author": 12345678}

    assert outline(value) == {"authorization": "…", "author": 12345678}


@pytest.mark.parametrize("engine", sorted(set(registry.names()) - PRESET_NAMES))
def test_option_is_printed_unless_it_may_contain_a_secret(engine: str) -> None:
    options: frozenset[str] = getattr(find(engine), "options")  # noqa: B009  plain factories have none

    hidden = {name for name in options if outline_option(name, "plain") != "plain"}

    assert hidden == options & {"extra_body", "extra_headers", "extra_query"}


def test_mark_depends_on_texts_but_not_on_keys() -> None:
    one = public_extras(config(extra_body={"backend": "fast", "api_key": "Key-number-one"}))
    other = public_extras(config(extra_body={"backend": "exact", "api_key": "Key-number-one"}))
    renewed = public_extras(config(extra_body={"backend": "fast", "api_key": "Key-number-two"}))
    assert one != other
    assert one == renewed
    assert public(config(extra_headers={"x": "a"})) == public(config(extra_headers={"x": "b"}))


def test_a_mark_has_too_few_bits_to_find_a_text_by() -> None:
    marks = {mark({"word": f"{number:04}"}) for number in range(10_000)}
    assert len(marks) == 256


def test_find_secrets_finds_user_secrets_but_no_public_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:Proxy-pass@h:1")
    monkeypatch.setenv("OF_A_PLUGIN_TOKEN", "Long-enough-token-1")
    monkeypatch.setenv("MODE_TOKEN", "production")
    options = {
        "extra_headers": {"x-one": "Header-one", "accept": "application/json", "authorization": "Bearer Held-value"},
        "extra_body": {"nested": {"auth": {"value": "Nested-value"}}, "backend": "constrained"},
    }
    said = "pass-word/1 T0ken-of-url Proxy-pass Long-enough-token-1 Header-one Held-value Nested-value"
    kept = "production application/json constrained"
    left = find_secrets(config(**options)).mask_answer(f"{said}|{kept}")
    assert left.replace("*", "").split("|") == [" " * 6, kept]


class Unsuited(EngineError):
    def __init__(self, password: str, *, tries: int) -> None:
        super().__init__(f"{password} is refused after {tries}", found=password, expected=["a", password], where="here")


def test_redacted_error_keeps_its_class_and_values(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_config: EngineConfig) -> None:
        raise Unsuited("Pass-word-of-this-run", tries=2)

    factory = find("openai")
    monkeypatch.setattr(type(factory), "check", lambda _self, config: refuse(config))

    with pytest.raises(Unsuited) as caught:
        check(factory, config(extra_headers={"x-one": "Pass-word-of-this-run"}))

    error = caught.value
    assert (str(error), error.found, error.where) == ("[key] is refused after 2", "[key]", "here")
    assert error.expected == ["a", "[key]"]


def test_repr_of_a_configuration_has_no_secrets() -> None:
    shown = repr(config(extra_body={"api_key": "Nested-value"})) + repr(openai_settings(config()))
    assert not any(secret in shown for secret in ("pass-word", "T0ken", "Nested-value"))


KEY = "Zq7-not-to-be-told-4411"


@pytest.mark.parametrize("error", [CallError(FaultKind.SERVER, f"no {KEY}", status=500), ValueError(f"no {KEY}")])
def test_key_in_a_raised_error_is_redacted(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def answer(_: Request) -> str:
        raise error

    monkeypatch.setenv("MY_OWN_TOKEN", KEY)
    engine = build(FunctionFactory(answer), EngineConfig(name="function"))
    with pytest.raises(CallError) as caught:
        engine.generate(request())
    assert caught.value.message.endswith("no [key]")
    assert caught.value.status == getattr(error, "status", None)


#: Event with a piece of a text, by API and kind.
PIECES: dict[str, Callable[[str], str]] = {
    "chat text": openai_wire.chunk,
    "chat parts": lambda text: openai_wire.chunk([{"type": "text", "text": text}]),
    "chat reasoning": lambda text: openai_wire.chunk(reasoning_content=text),
    "chat arguments": lambda text: openai_wire.chunk(tool_calls=[{"index": 0, "function": {"arguments": text}}]),
    "chat refusal": lambda text: openai_wire.chunk(refusal=text),
    "responses text": responses_wire.delta,
    "responses arguments": lambda text: responses_wire.delta(text, "function_call_arguments"),
    "responses reasoning": lambda text: responses_wire.delta(text, "reasoning_text"),
    "responses refusal": lambda text: responses_wire.delta(text, "refusal"),
    "messages text": anthropic_wire.delta,
    "messages arguments": lambda text: anthropic_wire.delta(kind="input_json_delta", partial_json=text),
    "messages reasoning": lambda text: anthropic_wire.delta(kind="thinking_delta", thinking=text),
}


def masked(body: str, path: str = "/chat/completions") -> str:
    server = ServerAnswer(path=path, status=200, content_type="text/event-stream", body=body)
    answer = Completion(text="", finish_reason=FinishReason.STOP, timing=None, server=server)
    found = mask_generation(answer, Secrets([KEY])).server
    assert found is not None
    return found.body


def assembled_text(body: str) -> str:
    """Return the text that a client assembles from the events of a body."""
    pieces: list[str] = []

    def hear(value: dict[str, Any]) -> dict[str, Any]:
        names = ("content", "text", "reasoning_content", "arguments", "refusal", "delta", "partial_json", "thinking")
        pieces.extend(piece for name in names if isinstance(piece := value.get(name), str))
        return value

    for line in body.splitlines():
        if line.startswith("data:"):
            json.loads(line[5:], object_hook=hear)
    return "".join(pieces)


@pytest.mark.parametrize("size", [1, 5, 40])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("kind", PIECES)
def test_key_split_across_events_is_redacted(kind: str, size: int, end: str) -> None:
    text = f'{{"a": "ä {KEY}", "b": "{KEY}"}}'
    events = [PIECES[kind](text[start : start + size]) for start in range(0, len(text), size)]
    body = "".join([*events, "data: [DONE]\n\n", "data: {\n\n"]).replace("\n", end)
    assert assembled_text(body[: body.index("data: [DONE]")]) == text

    found = masked(body)

    assert assembled_text(found[: found.index("data: [DONE]")]) == text.replace(KEY, "*" * len(KEY))
    assert found.count(end) == body.count(end)
    assert masked(found) == found


@pytest.mark.parametrize("key", [KEY, KEY.replace("-", "\\u002d")])
def test_key_is_redacted_in_interleaved_tool_calls(key: str) -> None:
    pieces = [(index, key[start : start + 3]) for start in range(0, len(key), 3) for index in (0, 1)]
    body = "".join(
        openai_wire.chunk(tool_calls=[{"index": index, "function": {"arguments": piece}}]) for index, piece in pieces
    )

    found = masked(body)

    assert set(assembled_text(found)) == {"*"}


def test_key_split_across_blocks_is_redacted() -> None:
    begun = anthropic_wire.typed("content_block_start", index=0, content_block={"type": "text", "text": KEY[:9]})
    more = anthropic_wire.typed("content_block_delta", index=1, delta={"type": "text_delta", "text": KEY[9:]})

    assert assembled_text(masked(begun + more)) == "*" * len(KEY)


def test_a_stream_without_a_key_stays_as_it_came() -> None:
    deep = '{"a":' * 400 + "1" + "}" * 400
    body = f'data:{{"b" : 1}}\r\n\r\ndata: {deep}\n\n: ping\n\ndata: not json\n\n{openai_wire.chunk("ä")}data: [DONE]'

    assert masked(body) == body
