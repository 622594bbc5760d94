"""Tests of all decoding libraries with the model of the engine `local`."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from pytest_jsbench.core.errors import EngineError, MissingRequirement
from pytest_jsbench.core.generations import (
    Declined,
    DeclineReason,
    FaultKind,
    FinishReason,
    GenerationParams,
    ResponseFormat,
    Sent,
)
from pytest_jsbench.engines.base import (
    Acceptance,
    Engine,
    EngineConfig,
    TextTokenizer,
    TokenCounter,
)
from pytest_jsbench.engines.http.calls import EnclosedError
from pytest_jsbench.engines.http.client import Client
from pytest_jsbench.engines.registry import find
from pytest_jsbench.lab.decoding.engines import CANARY, Slots, slots_folder, to_grammar
from tests.support.conversation import PROMPT
from tests.support.engine_calls import CITY, complete, decline, fault, request
from tests.support.engine_contract import EngineContract, ServedByAModel

Decoding = Callable[[str], tuple[EngineConfig, Engine]]

LIBRARIES = ("llguidance", "outlines", "xgrammar")


class Contract(EngineContract, ServedByAModel):
    name: str

    @pytest.fixture
    def config(self, decoding: Decoding) -> EngineConfig:
        return decoding(self.name)[0]

    @pytest.fixture
    def engine(self, decoding: Decoding) -> Engine:
        """Return one engine for all tests: loading its library takes longer than an answer."""
        return decoding(self.name)[1]

    def test_calls_that_the_template_does_not_show_are_no_silent_loss(self, engine: Engine) -> None:
        declined = decline(engine, replace(request(), prompt=PROMPT))
        assert declined.reason is DeclineReason.UNSUPPORTED_MESSAGES


@pytest.mark.slow
class TestLLGuidance(Contract):
    name = "llguidance"


@pytest.mark.slow
class TestOutlines(Contract):
    name = "outlines"


class TestXGrammar(Contract):
    name = "xgrammar"


@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARIES)
def test_schema_is_enforced_and_grammar_is_timed(decoding: Decoding, name: str) -> None:
    _, engine = decoding(name)
    answer = complete(engine, request(CITY, max_tokens=40))
    instance = json.loads(answer.text)
    assert set(instance) == {"city", "old"}
    assert isinstance(instance["old"], bool)
    assert answer.finish_reason is FinishReason.STOP
    assert answer.timing is not None
    assert answer.timing.grammar_compilation is not None
    assert answer.timing.compile_time is not None
    assert 0 < answer.timing.compile_time < answer.timing.grammar_compilation
    assert answer.sent is not None
    assert re.fullmatch(rf"{name}(-core)? \d+\.\d+.*", answer.sent.enforced_by)
    assert structs.replace(answer.sent, enforced_by="") == Sent(response_format=ResponseFormat.JSON_SCHEMA)


#: Unsupported schemas of each library.
UNSUPPORTED: list[tuple[str, Any, str]] = [
    ("llguidance", {"not": {"type": "string"}}, 'Unimplemented keys: ["not"]'),
    ("llguidance", {"type": "string", "pattern": "(?=a)b"}, "look-around"),
    ("outlines", {"not": {"type": "string"}}, "Unsupported JSON Schema structure"),
    ("outlines", {"type": "string", "format": "hostname"}, "Format hostname is not supported"),
    ("xgrammar", {"type": "foo"}, 'Unsupported type "foo"'),
    *((name, False, "") for name in LIBRARIES),
]


@pytest.mark.parametrize(("name", "schema", "message"), UNSUPPORTED)
def test_a_schema_that_the_library_cannot_compile_is_unsupported(
    decoding: Decoding, name: str, schema: Any, message: str
) -> None:
    declined = decline(decoding(name)[1], request(schema))
    assert declined.reason is DeclineReason.UNSUPPORTED_SCHEMA
    assert message in declined.message
    assert "\n" not in declined.message


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_deep_schema_is_answered_or_declined(decoding: Decoding, name: str) -> None:
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(100_000):
        deep = {"type": "array", "items": deep}
    assert decline(decoding(name)[1], request(deep)).message == "the schema is nested too deeply to be compiled"


@pytest.fixture(scope="module")
def narrow(decoding: Decoding) -> Iterator[Engine]:
    """Return an engine that narrows schemas, with a context of 60 tokens and greedy choice."""
    config, _ = decoding("outlines")
    options = {**config.options, "bounded": True, "context": 60, "top_p": 1e-6}
    with closing(find("outlines").build(replace(config, options=options))) as engine:
        yield engine


def test_an_open_schema_is_narrowed_where_that_is_wanted(narrow: Engine) -> None:
    flags = {"type": "array", "items": {"type": "boolean"}}
    sent = complete(narrow, request(flags, max_tokens=1)).sent
    assert sent is not None
    assert (sent.response_format, sent.schema) == (ResponseFormat.JSON_SCHEMA, flags | {"maxItems": 2})
    assert narrow.info.details["bounded"] is True


@pytest.mark.slow
def test_masked_answer_is_independent_of_other_calls(decoding: Decoding) -> None:
    config, _ = decoding("outlines")
    engine = find("outlines").build(replace(config, options={**config.options, "slots": 2}))
    asked = [request(CITY, prompt=f"A city in {where}, as JSON.", max_tokens=8) for where in ("Peru", "Norway")]
    alone = [complete(engine, one).text for one in asked]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda one: complete(engine, one).text, reversed(asked)))
    assert list(reversed(together)) == alone
    assert alone[0] != alone[1]
    engine.close()


@pytest.mark.slow
def test_masked_engine_ends_at_context_size_and_declines_long_prompts(narrow: Engine) -> None:
    flags = {"type": "array", "items": {"type": "boolean"}, "minItems": 40, "maxItems": 40}
    answer = complete(narrow, request(flags, max_tokens=200))
    assert answer.finish_reason is FinishReason.LENGTH
    assert (answer.usage.input_tokens or 0) + (answer.usage.output_tokens or 0) == 60
    declined = decline(narrow, request(flags, prompt="word " * 60))
    assert declined.reason is DeclineReason.CONTEXT_LENGTH


@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARIES)
def test_at_a_temperature_a_seed_gives_one_answer_and_another_seed_another(decoding: Decoding, name: str) -> None:
    _, engine = decoding(name)
    name_of_a_city = {"type": "string", "maxLength": 6}
    questions = [request(name_of_a_city, max_tokens=9, temperature=0.8, seed=seed) for seed in (5, 6, 5)]
    first, other, again = (complete(engine, question).text for question in questions)
    assert first == again != other
    for text in (first, other):
        assert len(json.loads(text)) <= 6


@pytest.mark.parametrize("name", ["outlines", "xgrammar"])
def test_only_engine_that_samples_has_a_seed(name: str) -> None:
    for temperature, seed in ((None, None), (0, None), (0.7, 5)):
        asked = GenerationParams(max_tokens=8, temperature=temperature, seed=5)
        found = find(name).sampled(EngineConfig(name=name), asked)
        assert (found.temperature, found.seed) == (temperature or 0, seed)


@pytest.mark.slow
def test_a_nucleus_of_one_token_is_the_likeliest_at_any_temperature(decoding: Decoding, narrow: Engine) -> None:
    _, plain = decoding("outlines")
    question = request(CITY, max_tokens=6, temperature=1.0, seed=5)
    cold = complete(plain, request(CITY, max_tokens=6)).text
    assert complete(narrow, question).text == cold != complete(plain, question).text
    assert narrow.info.details["top_p"] == 1e-6
    assert "top_p" not in plain.info.details


@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARIES)
def test_an_engine_counts_a_prompt_as_its_call_does_and_takes_a_text_apart(decoding: Decoding, name: str) -> None:
    _, engine = decoding(name)
    asked = request({"const": 7}, prompt="naïve 漢字", max_tokens=4)
    assert isinstance(engine, TokenCounter)
    assert isinstance(engine, TextTokenizer)
    assert engine.count_tokens(asked.prompt) == complete(engine, asked).usage.input_tokens
    assert len(engine.tokenize("one two three") or ()) == 3
    assert engine.info.context == 4096


@pytest.mark.slow
def test_a_library_that_takes_too_long_over_a_grammar_costs_that_case(decoding: Decoding) -> None:
    config, _ = decoding("outlines")
    engine = find("outlines").build(replace(config, options={**config.options, "compile_timeout": 1}))
    # Each of its characters is a state for which the whole vocabulary is tried.
    error = fault(engine, request({"type": "string", "maxLength": 400}))
    assert error.kind is FaultKind.HANG
    assert error.message == "outlines did not compile the grammar within 1 s; its process was ended"
    assert complete(engine, request({"const": 7}, max_tokens=4)).text == "7"
    engine.close()


def test_a_request_that_the_server_does_not_take_is_a_fault_in_its_words(
    decoding: Decoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, engine = decoding("outlines")
    words = "request (9 tokens) exceeds the available context size (8 tokens)"
    body = {"error": {"code": 400, "message": words, "type": "exceed_context_size_error"}}

    def refuse(*_: object, **__: object) -> None:
        raise EnclosedError(body, status=400)

    monkeypatch.setattr(Client, "post", refuse)
    assert fault(engine, request({"const": 7})).message == words


def test_a_grammar_that_the_server_dropped_is_seen_by_the_missing_canary(decoding: Decoding) -> None:
    # The package supports this format, the server's copy does not.
    declined = decline(decoding("llguidance")[1], request({"type": "string", "format": "uri"}, max_tokens=4))
    assert declined.reason is DeclineReason.UNSUPPORTED_SCHEMA
    assert "the server ignored the grammar" in declined.message


def test_the_canary_begins_the_grammar_and_no_document() -> None:
    assert to_grammar({"type": "integer"}) == (
        '%llguidance {}\nstart: "@" %json {"type": "integer", "x-guidance": '
        '{"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": "}}'
    )
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(CANARY)


@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARIES)
def test_a_grammar_can_be_asked_without_a_model(decoding: Decoding, name: str) -> None:
    config, _ = decoding(name)
    factory = find(name)
    assert factory.has_matcher
    acceptor = factory.build_matcher(replace(config, base_url=None, api_key=None))
    texts = ['{"city": "Lima", "old": true}', '{"city": "Lima"}', '{"city": "Lima", "old": 1}', "{}", "[]"]
    acceptance = acceptor.accepts(CITY, texts)
    assert isinstance(acceptance, Acceptance)
    assert acceptance.accepted == (True, False, False, False, False)
    assert acceptance.compile_time is not None
    assert 0 < acceptance.compile_time < acceptance.grammar_compilation
    assert isinstance(acceptor.accepts({"type": "foo"}, texts), Declined)
    acceptor.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_url": "http://127.0.0.1:1/v1"}, "starts its own server"),
        ({"response_format": ResponseFormat.TEXT}, "no response format 'text'"),
        ({"options": {"compile_time": 2}}, "no option 'compile_time': did you mean 'compile_timeout'"),
        ({"options": {"memory": 0}}, "a whole number above 0"),
        ({"options": {"top_p": 0}}, "option 'top_p' of engine '.*' must be a number above 0 and up to 1, found int"),
    ],
)
@pytest.mark.parametrize("name", LIBRARIES)
def test_what_it_cannot_do_is_refused_before_anything_starts(name: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        find(name).check(EngineConfig(name=name, **changes))


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_that_is_not_there_is_said_with_the_extra_that_brings_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingRequirement) as caught:
        find(name).check(EngineConfig(name=name))
    assert str(caught.value).endswith(f": pip install 'pytest-jsbench[{name}]'")


@pytest.fixture
def slots_key(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return a unique server key; remove its directory of locks afterwards."""
    pytest.importorskip("filelock", reason="comes with the extras outlines and xgrammar")
    slots_key = f"{tmp_path_factory.getbasetemp()}-{request.node.name}"
    yield slots_key
    shutil.rmtree(slots_folder(slots_key), ignore_errors=True)


def test_slot_is_lent_to_one_call_at_a_time(slots_key: str) -> None:
    # Two objects, like those of two processes.
    here, there = Slots(2, key=slots_key), Slots(2, key=slots_key)
    with here.lend() as first, there.lend() as second:
        assert {first, second} == {0, 1}
        waiting = threading.Event()

        def wait() -> None:
            with here.lend():
                waiting.set()

        thread = threading.Thread(target=wait)
        thread.start()
        assert not waiting.wait(0.1)
    assert waiting.wait(5)
    thread.join()


def test_servers_have_slots_of_their_own(slots_key: str) -> None:
    assert slots_folder(slots_key) != slots_folder(f"{slots_key}!")
    assert slots_key not in str(slots_folder(slots_key))
