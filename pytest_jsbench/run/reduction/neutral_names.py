"""
Replace a user's names and texts in a candidate by neutral ones, so that it can be shown to others.

Names of tools, properties and definitions, texts, members of enumerations, identifiers, letters in patterns and unknown
keywords are replaced, each by the same neutral name wherever it occurs. Words of JSON Schema and bounds stay.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

from msgspec import structs

from pytest_jsbench.core.tool_offers import OfferedTool, ToolOffer
from pytest_jsbench.run.reduction.candidate import Candidate
from pytest_jsbench.run.reduction.vocabulary import OTHER_KEYWORDS, VOCABULARY, own_texts
from pytest_jsbench.schemas.dialects import find_dialect
from pytest_jsbench.schemas.keywords import ANNOTATIONS, DATA, KEYWORDS, NAMED
from pytest_jsbench.schemas.references import pointer_of, tokens_of

#: Text in place of descriptions and titles.
_TEXT = "text"
#: Smallest number that may be an identifier.
_SHORTEST_NUMBER = 10
_PROSE = frozenset({"title", "description", "$comment"})
_IDENTIFIERS = frozenset({"$id", "id", "$anchor", "$dynamicAnchor"})
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_LISTS_OF_NAMES = frozenset({"required", "dependentRequired", "propertyName"})
#: Values in place of texts that have a format.
_SAMPLES = (
    (re.compile(r"\d{4}-\d{2}-\d{2}"), "2000-01-01"),
    (re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\S+"), "2000-01-01T00:00:00Z"),
    (re.compile(r"\d{2}:\d{2}:\d{2}\S*"), "00:00:00Z"),
    (re.compile(r"\d{1,3}(\.\d{1,3}){3}"), "192.0.2.1"),
    (re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"), "00000000-0000-4000-8000-000000000000"),
    (re.compile(r"[^@\s]+@[^@\s]+"), "a@example.com"),
    (re.compile(r"[a-z][a-z0-9+.-]*://\S*"), "https://example.com/"),
)
#: Parts of a pattern that are no text: escapes, groups, quantifiers and usual ranges.
_SYNTAX = re.compile(
    r"\\[pP]\{[^}]*\}|\\u\{?[0-9a-fA-F]+\}?|\\x[0-9a-fA-F]{2}|\\.|\(\?<?[:=!]|\{\d+(?:,\d*)?\}"
    r"|a-z|A-Z|0-9|a-f|A-F|\d-\d",
    re.DOTALL,
)


class NameStyle(StrEnum):
    """Forms of neutral names."""

    #: `a`, `b`, `c`, …
    SHORT = "short"
    #: Names of the same length, with letters for letters, digits for digits, and all other characters.
    SHAPED = "shaped"


class NeutralNames:
    """The neutral names of one candidate, each made at its first use."""

    def __init__(self, style: NameStyle, taken: Collection[str]) -> None:
        self._style = style
        self._taken = {*taken, *VOCABULARY, _TEXT}
        self._names: dict[str, str] = {}
        self._numbers: dict[float, float] = {}

    def name_for(self, text: str) -> str:
        """Return the neutral name for a name or a text; equal texts have equal names."""
        if text not in self._names:
            self._names[text] = self._make_name(text)
            self._taken.add(self._names[text])
        return self._names[text]

    def number_for(self, number: float) -> float:
        """Return the neutral number for a number in an enumeration; a single digit shows nothing, and stays."""
        if abs(number) < _SHORTEST_NUMBER and number == int(number):
            return number
        if number not in self._numbers:
            digits = 2 if self._style is NameStyle.SHORT else max(2, len(str(abs(int(number)))))
            neutral = 10 ** (digits - 1) + len(self._numbers)
            self._numbers[number] = neutral if isinstance(number, int) else float(neutral)
        return self._numbers[number]

    def known_number(self, number: float) -> float:
        """Return the neutral number if the number occurs in an enumeration; otherwise the number."""
        return self._numbers.get(number, number)

    def _make_name(self, text: str) -> str:
        for pattern, sample in _SAMPLES:
            if pattern.fullmatch(text) and sample not in self._taken:
                return sample
        if not any(character.isalnum() for character in text):
            return text
        if self._style is NameStyle.SHORT:
            return next(name for name in _short_names() if name not in self._taken)
        return next((name for name in _shaped_names(text) if name not in self._taken), text)


def _short_names() -> Iterator[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    yield from letters
    yield from (f"{letter}{number}" for number in itertools.count(1) for letter in letters)


def _shaped_names(text: str) -> Iterator[str]:
    """Yield texts of the same shape: a number is written in letters and digits at the places of letters and digits."""
    for number in range(10_000):
        rest = number
        shaped: list[str] = []
        for character in text:
            kind = _same_kind(character)
            if not kind:
                shaped.append(character)
                continue
            rest, digit = divmod(rest, len(kind))
            shaped.append(kind[digit])
        yield "".join(shaped)


def _same_kind(character: str) -> str:
    """Return the characters that may replace a character; empty if it shows nothing."""
    if character.isdigit():
        return "1234567890"
    if not character.isalpha():
        return ""
    if not character.isascii():
        return "éèê" if character.islower() else "ÉÈÊ"
    return "abcdefghijklmnopqrstuvwxyz" if character.islower() else "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def names_in(candidate: Candidate) -> frozenset[str]:
    """Return all names and texts in a candidate that are not words of JSON Schema."""
    return own_texts(_parts_of(candidate))


def neutral_forms(candidate: Candidate) -> Iterator[Candidate]:
    """Yield neutral forms of a candidate, the simplest first, as far as none of the original names is left."""
    for style in NameStyle:
        names = NeutralNames(style, names_in(candidate))
        form = candidate.with_schema(_neutral_schema(candidate.schema, names))
        if candidate.answer is not None:
            value = _neutral_data(candidate.answer.value, names, in_list=False)
            form = form.with_answer(value)
        if candidate.offer is not None:
            form = _with_neutral_tools(form, candidate.offer, names)
        if not left_names(candidate, form):
            yield form


def left_names(original: Candidate, form: Candidate) -> frozenset[str]:
    """Return the names and texts of the original that are left in a neutral form."""
    samples = {sample for _, sample in _SAMPLES} | {_TEXT}
    both = names_in(original) & names_in(form)
    return frozenset(text for text in both - samples if any(map(_shows_something, _SYNTAX.sub("", text))))


def _shows_something(character: str) -> bool:
    """Return whether a character of a text can be a part of a name; neutral patterns have only these three."""
    return character.isalnum() and character not in "aA0"


def _parts_of(candidate: Candidate) -> list[Any]:
    """Return all values in a candidate that may contain a user's own names and texts."""
    parts = [candidate.document_at(place) for place in candidate.places]
    offer = candidate.offer
    if offer is not None:
        parts += [[tool.name, tool.description] for tool in offer.tools]
        parts += [call.arguments for call in offer.expected or ()]
    return parts


def _with_neutral_tools(form: Candidate, offer: ToolOffer, names: NeutralNames) -> Candidate:
    """Return the candidate with these tools under neutral names."""
    expected = offer.expected
    if expected is not None:
        expected = tuple(
            structs.replace(
                call,
                name=names.name_for(call.name),
                arguments=_neutral_schema(call.arguments, names),
                loose=tuple(map(names.name_for, call.loose)),
            )
            for call in expected
        )
    neutral = structs.replace(
        offer,
        tools=tuple(_neutral_tool(tool, names) for tool in offer.tools),
        choice=names.name_for(offer.choice) if offer.mode is None else offer.choice,
        expected=expected,
        forbidden=tuple(map(names.name_for, offer.forbidden)),
    )
    return replace(form, offer=neutral, tool=None if form.tool is None else names.name_for(form.tool))


def _neutral_tool(tool: OfferedTool, names: NeutralNames) -> OfferedTool:
    return structs.replace(
        tool,
        name=names.name_for(tool.name),
        description=_TEXT if tool.description else "",
        parameters=_neutral_schema(tool.parameters, names),
    )


def _neutral_schema(value: Any, names: NeutralNames) -> Any:
    if isinstance(value, list):
        return [_neutral_schema(part, names) for part in value]
    if not isinstance(value, Mapping):
        return names.name_for(value) if isinstance(value, str) else value
    copy: dict[str, Any] = {}
    for keyword, part in value.items():
        if keyword in KEYWORDS | ANNOTATIONS | OTHER_KEYWORDS or keyword in _REFERENCES:
            copy[keyword] = _neutral_keyword(keyword, part, names)
        else:  # an unknown keyword, or a container of schemas to which references point
            copy[names.name_for(keyword)] = _neutral_schema(part, names)
    return copy


def _neutral_keyword(keyword: str, part: Any, names: NeutralNames) -> Any:
    if keyword == "$schema" and find_dialect(part) is not None:
        return part
    if keyword in _REFERENCES and isinstance(part, str):
        return _neutral_reference(part, names)
    if keyword in _IDENTIFIERS and isinstance(part, str):
        return names.name_for(part)
    if keyword in _PROSE and isinstance(part, str):
        return _TEXT
    if keyword == "pattern" and isinstance(part, str):
        return neutral_pattern(part)
    if keyword == "patternProperties" and isinstance(part, Mapping):
        return {neutral_pattern(name): _neutral_schema(each, names) for name, each in part.items()}
    if keyword in ("format", "type", "contentEncoding"):
        return _neutral_words(part, names)
    if keyword in _LISTS_OF_NAMES or keyword in DATA:
        return _neutral_data(part, names, in_list=keyword in ("enum", "const"))
    if keyword in NAMED and isinstance(part, Mapping):
        return {names.name_for(name): _neutral_schema(each, names) for name, each in part.items()}
    return _neutral_schema(part, names)


def _neutral_words(part: Any, names: NeutralNames) -> Any:
    """Return words of JSON Schema unchanged, and other texts with neutral names."""
    if isinstance(part, list):
        return [_neutral_words(each, names) for each in part]
    return names.name_for(part) if isinstance(part, str) and part not in VOCABULARY else part


def _neutral_data(value: Any, names: NeutralNames, *, in_list: bool) -> Any:
    """Return data with neutral names; with `in_list`, these are allowed values, whose numbers change too."""
    if isinstance(value, list):
        return [_neutral_data(part, names, in_list=in_list) for part in value]
    if isinstance(value, Mapping):
        return {names.name_for(name): _neutral_data(part, names, in_list=in_list) for name, part in value.items()}
    if isinstance(value, str):
        return names.name_for(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return names.number_for(value) if in_list else names.known_number(value)


def _neutral_reference(reference: str, names: NeutralNames) -> str:
    """Return a reference with neutral names: each step of a pointer that is no keyword or index is a name."""
    uri, mark, fragment = reference.partition("#")
    uri = uri and names.name_for(uri)
    if not fragment.startswith("/"):
        return uri + mark + (fragment and names.name_for(fragment))
    steps: list[str] = []
    is_name = False
    for step in tokens_of(fragment):
        if is_name:
            steps.append(neutral_pattern(step) if steps[-1] == "patternProperties" else names.name_for(step))
            is_name = False
        elif step.isdecimal() or step in KEYWORDS | ANNOTATIONS | OTHER_KEYWORDS:
            steps.append(step)
            is_name = step in NAMED
        else:
            steps.append(names.name_for(step))
    return uri + mark + pointer_of(steps)


def neutral_pattern(pattern: str) -> str:
    """Return a pattern of the same structure, whose literal letters and digits are `a`, `A` and `0`."""
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        syntax = _SYNTAX.match(pattern, at)
        if syntax is not None:
            parts.append(syntax[0])
            at = syntax.end()
            continue
        character = pattern[at]
        if character.isdigit():
            character = "0"
        elif character.isalpha():
            character = "A" if character.isupper() else "a"
        parts.append(character)
        at += 1
    return "".join(parts)
