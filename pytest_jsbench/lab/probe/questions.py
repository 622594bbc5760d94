"""
Questions whose right answer no model gives by itself: the schema holds random words, the prompt asks for another.

Each keyword has a question whose prompt asks for an object that breaks this keyword and nothing else. The words of a
question are its own, so an answer with the words of another question was mixed up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal

from pytest_jsbench.core.cases import Case, CaseKey, Schema
from pytest_jsbench.core.messages import Message

#: letters of the words: no word of any language has eight consonants in a row
_LETTERS = "bcdfghjkmnpqrstvwxz"
_LENGTH = 8
_WORD = re.compile(f"[{_LETTERS}]{{{_LENGTH}}}")
#: how an answer begins that is no answer yet
_REASONING = "<think"

_PROMPT = (
    "Answer with exactly the text below, and nothing else. Take no notice of any JSON schema, format or tool that is "
    "described to you: it is a mistake.\n\n"
)
_SHOWN = "The answer must be JSON that conforms to this JSON schema:\n\n"
#: where a control shows the schema: at the end of the prompt, before it, as a server may do by itself, or nowhere
Shown = Literal["prompt", "system message", "nowhere"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeQuestion:
    """A schema, and a prompt that asks for what does not conform to it."""

    schema: Schema
    #: the text that the prompt asks for
    wanted: str

    @property
    def words(self) -> frozenset[str]:
        """The words of schema and prompt; no other question has any of them."""
        return words_of(json.dumps(self.schema)) | words_of(self.wanted)

    @property
    def marks(self) -> frozenset[str]:
        """The words that only the schema holds."""
        return words_of(json.dumps(self.schema)) - words_of(self.wanted)

    def case(self, number: int, *, shown: Shown | None = None) -> Case:
        """The question as a case; a control shows the schema in one of its messages."""
        content, schema = _PROMPT + self.wanted, _SHOWN + json.dumps(self.schema, indent=2)
        messages: tuple[Message, ...] = (Message(role="user", content=content),)
        if shown == "prompt":
            messages = (Message(role="user", content=f"{content}\n\n{schema}"),)
        elif shown == "system message":
            messages = (Message(role="system", content=schema), *messages)
        return Case(key=CaseKey(task="probe", id=str(number)), schema=self.schema, messages=messages)

    def may_begin(self, text: str) -> bool:
        """True where a conforming answer may begin with this text."""
        start = re.sub(r"\s", "", text)
        names = self.schema.get("properties", ()) if isinstance(self.schema, Mapping) else ()
        beginnings = [_REASONING, *([f'{{"{name}":' for name in names] or ["{"])]
        return any(start.startswith(beginning[: len(start)]) for beginning in beginnings)


def words_of(text: str) -> frozenset[str]:
    """The words of questions that a text holds."""
    return frozenset(_WORD.findall(text))


class Words:
    """Words and numbers at random, each word only once; one probe makes one, and asks it in one thread."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._given: set[str] = set()

    def word(self) -> str:
        """A word that was not given before."""
        while True:
            word = "".join(self._random.choices(_LETTERS, k=_LENGTH))
            if word not in self._given:
                self._given.add(word)
                return word

    def number(self) -> int:
        """A number of seven digits."""
        return self._random.randint(1_000_000, 9_999_999)

    def wrong(self) -> str:
        """A text that no schema asks for."""
        return f"no-{self.word()}"


def any_question(words: Words, *, plain: bool) -> ProbeQuestion:
    """A question that any server which enforces something can be asked; `plain` asks for a word, and no JSON."""
    question = keyword_question("enum", words)
    return replace(question, wanted=words.wrong()) if plain else question


def keyword_question(keyword: str, words: Words) -> ProbeQuestion:
    """A question whose prompt asks for an object that breaks this keyword, or a schema of this shape, alone."""
    schema, wanted = {**KEYWORDS, **SHAPES}[keyword](words)
    return ProbeQuestion(schema=schema, wanted=json.dumps(wanted))


def _object(properties: Mapping[str, Schema], **more: Schema) -> dict[str, Any]:
    """An object that is closed and requires all, which every provider takes."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        **more,
    }


def _one_of(*texts: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(texts)}


_Made = tuple[Schema, object]


def _value(make: Callable[[Words], _Made]) -> Callable[[Words], _Made]:
    """An object with one property: its schema, and the value that is asked for."""

    def made(words: Words) -> _Made:
        name = words.word()
        schema, wanted = make(words)
        return _object({name: schema}), {name: wanted}

    return made


def _array(count: int, **bounds: int) -> Callable[[Words], _Made]:
    """An array, and so many items as are asked for."""

    def made(words: Words) -> _Made:
        item = words.word()
        return {"type": "array", "items": _one_of(item), **bounds}, [item] * count

    return made


def _nested(words: Words) -> _Made:
    inner = words.word()
    return _object({inner: _one_of(words.word())}), {inner: words.wrong()}


def _required(words: Words) -> _Made:
    names = [words.word() for _ in range(3)]
    schema = _object({name: _one_of(words.word()) for name in names})
    return schema, {}


def _closed(words: Words) -> _Made:
    name, value = words.word(), words.word()
    return _object({name: _one_of(value)}), {name: value, words.word(): words.wrong()}


def _reference(words: Words) -> _Made:
    name, target = words.word(), words.word()
    definitions = {target: _one_of(words.word())}
    return _object({name: {"$ref": f"#/$defs/{target}"}}, **{"$defs": definitions}), {name: words.wrong()}


#: by keyword, in the order in which they are asked: a schema, and what is asked for
KEYWORDS: Mapping[str, Callable[[Words], _Made]] = {
    "enum": _value(lambda words: (_one_of(words.word(), words.word()), words.wrong())),
    "const": _value(lambda words: ({"type": "string", "const": words.word()}, words.wrong())),
    "type": _value(lambda words: ({"type": "boolean"}, words.wrong())),
    "properties": _value(_nested),
    "required": _required,
    "additionalProperties": _closed,
    "pattern": _value(lambda words: ({"type": "string", "pattern": f"^{words.word()}-[0-9]{{4}}$"}, words.wrong())),
    "format": _value(lambda words: ({"type": "string", "format": "date"}, words.wrong())),
    "minLength": _value(lambda words: ({"type": "string", "minLength": 24, "maxLength": 40}, words.wrong())),
    "maxLength": _value(lambda words: ({"type": "string", "maxLength": 4}, words.wrong())),
    "minimum": _value(lambda words: ({"type": "integer", "minimum": words.number()}, 3)),
    "maximum": _value(lambda words: ({"type": "integer", "maximum": -words.number()}, 3)),
    "minItems": _value(_array(0, minItems=1)),
    "maxItems": _value(_array(7, maxItems=2)),
    "$ref": _reference,
    "anyOf": _value(lambda words: ({"anyOf": [_one_of(words.word()), _one_of(words.word())]}, words.wrong())),
    "oneOf": _value(lambda words: ({"oneOf": [_one_of(words.word()), _one_of(words.word())]}, words.wrong())),
    "allOf": _value(lambda words: ({"allOf": [{"type": "string"}, _one_of(words.word())]}, words.wrong())),
}


def _large(words: Words) -> _Made:
    """Make a schema of about five kilobytes whose answers are short."""
    names = [words.word() for _ in range(3)]
    schema = _object({name: _one_of(*(words.word() for _ in range(120))) for name in names})
    return schema, {name: words.wrong() for name in names}


def _deep(words: Words) -> _Made:
    schema: Schema = _one_of(words.word())
    wanted: object = words.wrong()
    for _ in range(8):
        name = words.word()
        schema, wanted = _object({name: schema}), {name: wanted}
    return schema, wanted


def _recursive(words: Words) -> _Made:
    name, node, value, following = (words.word() for _ in range(4))
    reference = {"$ref": f"#/$defs/{node}"}
    definition = _object({value: _one_of(words.word()), following: {"anyOf": [reference, {"type": "null"}]}})
    return _object({name: reference}, **{"$defs": {node: definition}}), {name: {value: words.wrong(), following: None}}


#: what a schema may be as a whole, by the word for it
SHAPES: Mapping[str, Callable[[Words], _Made]] = {"large": _large, "nested": _deep, "recursive": _recursive}
