from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.errors import ContractError
from pytest_jsbench.generations import GenerationParams, ResponseFormat
from pytest_jsbench.prompts import Message
from pytest_jsbench.terms import Terms


def terms(*marks: dict[str, Any]) -> Terms:
    return Terms.of(((), mark) for mark in marks)


def test_the_closest_marker_has_the_last_word_and_leaves_the_rest_to_the_others() -> None:
    found = terms({"model": "small"}, {"schema": True, "prompt": "Say it", "model": "large", "repeats": 3})

    assert (found.model, found.schema, found.prompt, found.repeats) == ("small", True, "Say it", 3)


def test_messages_take_the_place_of_a_prompt_further_out() -> None:
    found = terms({"messages": [{"role": "user", "content": "Now"}]}, {"prompt": "Then"})

    assert found.prompt is None
    assert found.messages == (Message(role="user", content="Now"),)


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ({"shema": {}}, "the marker jsbench has no argument 'shema': did you mean 'schema'? "),
        ({"repeats": 0}, "the marker jsbench: repeats is a whole number of at least 1, not 0"),
        ({"repeats": True}, "repeats is a whole number of at least 1, not True"),
        ({"repeats": 3, "min_pass": 4}, "min_pass=4 is more than repeats=3"),
        ({"min_pass": 2}, "min_pass=2 is more than repeats=1"),
        ({"prompt": "a", "messages": []}, "prompt and messages are two ways to say the same; give one"),
        ({"messages": ["Hello"]}, "messages is a list of {'role': 'system', 'user' or 'assistant', 'content': text}"),
        ({"messages": [{"role": "robot", "content": ""}]}, "messages is a list of"),
        ({"response_format": "xml"}, "response_format is one of text, json_object, json_schema, tool, not 'xml'"),
        ({"engine_options": "api=responses"}, "engine_options is a dict of names and values"),
        ({"temperature": -1}, "temperature is a number of at least 0, not -1"),
        ({"timeout": 0}, "timeout is seconds above 0, not 0"),
        ({"engine": ""}, "engine is a text"),
    ],
)
def test_an_argument_that_is_none_is_refused_by_name(mark: dict[str, Any], message: str) -> None:
    with pytest.raises(ContractError) as refused:
        terms(mark)

    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_given_without_a_keyword_is_refused() -> None:
    with pytest.raises(ContractError, match="the marker jsbench takes keywords only"):
        Terms.of([(({"type": "object"},), {})])


def test_the_run_s_engine_is_asked_with_what_the_terms_say_of_it() -> None:
    run = EngineConfig(name="openai", model="large", base_url="http://here", options={"api": "chat"})

    assert terms().engine_config(run) == run
    found = terms({"model": "small", "response_format": "text", "engine_options": {"strict": False}}).engine_config(run)
    assert found == EngineConfig(
        name="openai",
        model="small",
        base_url="http://here",
        response_format=ResponseFormat.TEXT,
        options={"api": "chat", "strict": False},
    )


def test_another_engine_gets_no_address_key_or_option_of_the_run_s() -> None:
    run = EngineConfig(name="openai", model="large", base_url="http://here", api_key_env="KEY", options={"api": "chat"})
    further_out = {"model": "large", "engine_options": {"api": "responses"}, "temperature": 0}

    found = terms({"engine": "local"}, further_out)

    assert found.engine_config(run) == EngineConfig(name="local")
    assert found.temperature == 0


def test_sampling_is_the_run_s_but_for_what_the_terms_say() -> None:
    run = GenerationParams(max_tokens=100, temperature=1.0, seed=3)

    found = terms({"temperature": 0, "timeout": 5}).params(run)

    assert found == GenerationParams(max_tokens=100, temperature=0, seed=3, timeout=5)


def test_what_says_nothing_contradicts_nothing() -> None:
    messages = [{"role": "user", "content": "Hi"}]

    terms = Terms.of([((), {"prompt": None, "messages": messages})])

    assert terms.messages == (Message(role="user", content="Hi"),)
    assert terms.changed({"messages": None, "prompt": "Ho"}, of="using()").prompt == "Ho"
