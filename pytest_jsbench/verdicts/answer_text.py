"""Text to instance: exactly one RFC 8259 document within the limits, or the reason why it is not one."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import TYPE_CHECKING, NoReturn

from pytest_jsbench.verdicts.verdicts import Note

if TYPE_CHECKING:
    from pytest_jsbench.verdicts.verdicts import JudgePolicy

#: characters of an answer
LONGEST_TEXT = 10_000_000
#: arrays and objects within each other; labelled answers reach 34
DEEPEST = 128
#: digits of a number
LONGEST_NUMBER = 4_300

#: no prose begins with these
_OPENERS = '{["'
#: the only white space that RFC 8259 allows around a document
_SPACE = " \t\r\n"
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
_DEPTH_CHANGE = {"[": 1, "{": 1, "]": -1, "}": -1}
_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})(?P<info>[^\r\n]*)(?:\r\n|\r|\n|\Z)")
_FENCE_LINE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_REASONING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
#: `01`, `+1`, `.5`, `0x10`
_NUMBER_LIKE = re.compile(r"[-+.]?\d[\w.+-]*")
#: what may stand at the end of a document that breaks off inside a token
_BROKEN_OFF = re.compile(r"(?:-|t|tr|tru|f|fa|fal|fals|n|nu|nul|,\s*|u[0-9A-Fa-f]{0,4}|\.|\.?[eE][-+]?)?")
_REASONING_MARK = re.compile(r"</?think(?:ing)?>", re.IGNORECASE)


class SyntaxReason(StrEnum):
    """Why a text is not one JSON document."""

    EMPTY = "empty"
    #: the document ends before it is complete
    INCOMPLETE = "incomplete"
    #: begins as JSON and breaks its grammar: single quotes, comments, trailing commas, …
    MALFORMED = "malformed"
    PROSE = "prose"
    REASONING_PREAMBLE = "reasoning_preamble"
    SEVERAL_DOCUMENTS = "several_documents"
    TRAILING_TEXT = "trailing_text"
    NAN_OR_INFINITY = "nan_or_infinity"
    NUMBER_OUT_OF_RANGE = "number_out_of_range"
    LONE_SURROGATE = "lone_surrogate"
    BOM = "bom"
    WHITE_SPACE = "white_space"
    TOO_DEEP = "too_deep"
    TOO_LARGE = "too_large"
    #: an object with a key twice, where the policy forbids it
    DUPLICATE_KEYS = "duplicate_keys"
    #: a fence with something before, after or inside it that is not the document
    FENCE_NOT_ALONE = "fence_not_alone"
    #: a fence that says it holds something other than JSON
    FENCE_NOT_JSON = "fence_not_json"
    #: a fence where the policy forbids one
    FENCE_FORBIDDEN = "fence_forbidden"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDocument:
    """The one JSON value that a text holds."""

    instance: object
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotJson:
    """Why a text is not one JSON document."""

    reason: SyntaxReason
    message: str
    notes: tuple[Note, ...] = ()


class _RefusedError(Exception):
    """Raised inside the decoder's hooks; never leaves this module."""

    def __init__(self, reason: SyntaxReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def read_answer(text: str, policy: JudgePolicy) -> AnswerDocument | NotJson:
    """
    The document that a model's answer is.

    A fence around the whole answer is opened, and reasoning before it dropped, only as the policy says;
    nothing is ever searched for, stripped or repaired.
    """
    answer = _open(text, policy)
    if policy.duplicate_keys == "fail" and isinstance(answer, AnswerDocument) and Note.DUPLICATE_KEYS in answer.notes:
        message = "an object with the same key twice; expected each key once"
        return NotJson(reason=SyntaxReason.DUPLICATE_KEYS, message=message, notes=answer.notes)
    return answer


def _open(text: str, policy: JudgePolicy) -> AnswerDocument | NotJson:
    if len(text) > LONGEST_TEXT:
        message = f"more than {LONGEST_TEXT:,} characters"
        return NotJson(reason=SyntaxReason.TOO_LARGE, message=message)
    text = text.strip(_SPACE)
    notes: list[Note] = []
    if policy.reasoning == "strip" and (block := _REASONING.match(text)):
        text = text[block.end() :].strip(_SPACE)
        notes.append(Note.REASONING_STRIPPED)
    if opening := _FENCE.match(text):
        if policy.fences == "forbid":
            message = "a Markdown fence around the answer; expected the bare JSON document"
            return NotJson(reason=SyntaxReason.FENCE_FORBIDDEN, message=message, notes=tuple(notes))
        return _read_fenced(text, opening, notes)
    return _read(text, notes)


def _read_fenced(text: str, opening: re.Match[str], notes: list[Note]) -> AnswerDocument | NotJson:
    fence, info = opening["fence"], opening["info"].strip()
    if "`" in info:
        message = "a fence that does not stand on a line of its own"
        return NotJson(reason=SyntaxReason.FENCE_NOT_ALONE, message=message, notes=tuple(notes))
    if info.lower() not in {"", "json"}:
        message = f"a fence marked {info[:40]!r}; expected json or nothing"
        return NotJson(reason=SyntaxReason.FENCE_NOT_JSON, message=message, notes=tuple(notes))
    closing_line = rf"^ {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}[ \t]*\r?$"
    closing = re.compile(closing_line, re.MULTILINE).search(text, opening.end())
    if closing is None:
        notes.append(Note.UNCLOSED_FENCE)
        return _read(text[opening.end() :].strip(_SPACE), notes)
    if closing.end() != len(text):
        message = "text after the closing fence; expected the fenced document alone"
        return NotJson(reason=SyntaxReason.FENCE_NOT_ALONE, message=message, notes=tuple(notes))
    notes.append(Note.FENCED)
    return _read(text[opening.end() : closing.start()].strip(_SPACE), notes)


def _read(text: str, notes: list[Note]) -> AnswerDocument | NotJson:
    """Decode text that has no white space around it."""
    if too_deep(text, DEEPEST):
        message = f"arrays and objects more than {DEEPEST} levels deep"
        return NotJson(reason=SyntaxReason.TOO_DEEP, message=message, notes=tuple(notes))
    decoder = _Decoder()
    try:
        instance = decoder.decode(text)
    except _RefusedError as refused:
        return NotJson(reason=refused.reason, message=refused.message, notes=tuple(notes))
    except json.JSONDecodeError as error:
        reason = _reason(text, error)
        return NotJson(reason=reason, message=_explain(reason, error), notes=tuple(notes))
    if decoder.duplicate_keys:
        notes.append(Note.DUPLICATE_KEYS)
    return AnswerDocument(instance=instance, notes=tuple(notes))


def too_deep(text: str, deepest: int) -> bool:
    """Whether the text nests arrays and objects deeper than that, seen without parsing it."""
    if text.count("[") + text.count("{") <= deepest:
        return False
    changes = map(_DEPTH_CHANGE.__getitem__, _BRACKET.findall(_STRING.sub("", text)))
    return any(depth > deepest for depth in accumulate(changes))


class _Decoder:
    """The standard library's decoder with hooks that refuse what RFC 8259 or the limits do not allow."""

    def __init__(self) -> None:
        self.duplicate_keys = False
        self._json = json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_constant=_refuse_constant,
            parse_float=_float,
            parse_int=_int,
        )

    def decode(self, text: str) -> object:
        instance = self._json.decode(text)
        # in an instance made of plain text a surrogate can only come of an escape
        if (not text.isascii() or "\\u" in text) and not encodable(instance):
            message = "a lone surrogate, which no UTF-8 text can hold"
            raise _RefusedError(SyntaxReason.LONE_SURROGATE, message)
        return instance

    def decode_first(self, text: str, start: int = 0) -> int:
        """Where the first document ends; JSONDecodeError or a refusal where there is none."""
        return self._json.raw_decode(text, start)[1]

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) != len(pairs):
            self.duplicate_keys = True
        return value


def _refuse_constant(name: str) -> NoReturn:
    raise _RefusedError(SyntaxReason.NAN_OR_INFINITY, f"{name} is not JSON")


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number) or len(digits) > LONGEST_NUMBER:
        raise _RefusedError(SyntaxReason.NUMBER_OUT_OF_RANGE, f"the number {digits[:20]}… is beyond double precision")
    return number


def _int(digits: str) -> int:
    if len(digits.lstrip("-")) > LONGEST_NUMBER:
        message = f"a number of {len(digits):,} digits; at most {LONGEST_NUMBER:,} are read"
        raise _RefusedError(SyntaxReason.NUMBER_OUT_OF_RANGE, message)
    return int(digits)


def encodable(value: object) -> bool:
    """Whether all strings in a JSON value can be written as UTF-8: a lone surrogate cannot."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _reason(text: str, error: json.JSONDecodeError) -> SyntaxReason:
    """The nearest name for what stands there instead of one document."""
    if not text:
        return SyntaxReason.EMPTY
    if text[0] == "\ufeff":
        return SyntaxReason.BOM
    if text[0] in _OPENERS and (more := _more_than_one(text)):
        return more
    if _REASONING_MARK.search(text):
        return SyntaxReason.REASONING_PREAMBLE
    if text.strip() != text:
        return SyntaxReason.WHITE_SPACE
    if _FENCE_LINE.search(text):
        return SyntaxReason.FENCE_NOT_ALONE
    if text[0] not in _OPENERS:
        return SyntaxReason.MALFORMED if _NUMBER_LIKE.fullmatch(text) else SyntaxReason.PROSE
    return SyntaxReason.INCOMPLETE if _ends_early(text, error) else SyntaxReason.MALFORMED


def _more_than_one(text: str) -> SyntaxReason | None:
    """What follows a complete document, where there is a complete one."""
    decoder = _Decoder()
    try:
        end = decoder.decode_first(text)
    except (json.JSONDecodeError, _RefusedError):
        return None
    rest = text[end:].lstrip(_SPACE)
    if not rest or rest[0] not in _OPENERS:
        return SyntaxReason.TRAILING_TEXT
    try:
        decoder.decode_first(rest)
    except (json.JSONDecodeError, _RefusedError):
        return SyntaxReason.TRAILING_TEXT
    return SyntaxReason.SEVERAL_DOCUMENTS


def _ends_early(text: str, error: json.JSONDecodeError) -> bool:
    if error.msg.startswith("Unterminated string"):
        return True
    return _BROKEN_OFF.fullmatch(text, error.pos) is not None


_EXPLANATIONS = {
    SyntaxReason.EMPTY: "no text at all; expected one JSON document",
    SyntaxReason.BOM: "a byte order mark before the document",
    SyntaxReason.PROSE: "text that is not JSON; expected the document alone",
    SyntaxReason.REASONING_PREAMBLE: "reasoning before the answer; expected the document alone",
    SyntaxReason.SEVERAL_DOCUMENTS: "more than one JSON document; expected exactly one",
    SyntaxReason.TRAILING_TEXT: "text after the JSON document; expected the document alone",
    SyntaxReason.WHITE_SPACE: "white space that JSON does not allow around the document",
    SyntaxReason.FENCE_NOT_ALONE: "a fence among other text; expected the document alone",
}


def _explain(reason: SyntaxReason, error: json.JSONDecodeError) -> str:
    if reason in _EXPLANATIONS:
        return _EXPLANATIONS[reason]
    return f"{error.msg} (line {error.lineno}, column {error.colno})"
