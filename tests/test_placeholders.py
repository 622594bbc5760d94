from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.errors import PromptError
from pytest_jsbench.placeholders import fill
from pytest_jsbench.prompts import Message


def filled(template: str, **data: Any) -> str:
    return fill((Message(role="user", content=template),), data, {"type": "object"}).messages[0].content


@pytest.mark.parametrize(
    ("template", "data", "text"),
    [
        ("Read {text}!", {"text": "this"}, "Read this!"),
        ("{a}{b}{a}", {"a": "1", "b": "2"}, "121"),
        # braces in data are never placeholders, whatever they hold
        ("{a} {b}", {"a": "{b} {{b}} {0} {", "b": "x"}, "{b} {{b}} {0} { x"),
        # braces in a prompt that are no placeholder are themselves
        ('Like {"n": 1}, {}, {0}, {a.b}: {text}', {"text": "x"}, 'Like {"n": 1}, {}, {0}, {a.b}: x'),
        ("Write {{text}} for {text}", {"text": "x"}, "Write {text} for x"),
        ("By {schema}", {}, 'By {"type": "object"}'),
        ("{schema}", {"schema": "mine"}, "mine"),
        ("{rows} {n} {no}", {"rows": [{"ä": 1}], "n": 2, "no": None}, '[{"ä": 1}] 2 null'),
    ],
)
def test_placeholders_are_filled_and_nothing_else_is_touched(template: str, data: dict[str, Any], text: str) -> None:
    assert filled(template, **data) == text


def test_every_message_is_filled() -> None:
    messages = (Message(role="system", content="In {language}"), Message(role="user", content="{text}"))

    prompt = fill(messages, {"language": "French", "text": "bon"}, True)

    assert [(one.role, one.content) for one in prompt.messages] == [("system", "In French"), ("user", "bon")]


@pytest.mark.parametrize(
    ("template", "data", "message"),
    [
        ("{text}", {}, "the prompt's {text} is not filled: generate() was given nothing; expected text=…"),
        ("{text}", {"txt": 1}, "the prompt's {text} is not filled: generate() was given txt; expected text=…"),
        ("{text}", {"text": 1, "txt": 1}, "the prompt has no placeholder {txt}: did you mean 'text'? (one of text)"),
        ("Hello", {"name": 1}, "the prompt has no placeholder {name}: it has none"),
    ],
)
def test_what_does_not_fit_is_named(template: str, data: dict[str, Any], message: str) -> None:
    with pytest.raises(PromptError) as refused:
        filled(template, **data)

    assert str(refused.value) == message
