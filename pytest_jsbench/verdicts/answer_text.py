"""Parse an answer's text: exactly one RFC 8259 document within limits, or the reason why it is not."""

from __future__ import annotations

import functools
import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, NoReturn

from pytest_jsbench.core.json_values import structure, too_deep
from pytest_jsbench.core.text import printable
from pytest_jsbench.verdicts.verdicts import LONGEST_TEXT, Note, SyntaxReason

if TYPE_CHECKING:
    from pytest_jsbench.verdicts.verdicts import JudgePolicy

#: Maximum nesting of arrays and objects; labelled answers have at most 34 levels.
DEEPEST = 128
#: Maximum number of digits of a number.
LONGEST_NUMBER = 4_300
#: From this number on, not every integer is a double.
_WHOLE = 2**53
#: Above this number a double has all of its digits.
_NORMAL = 1e-290
#: Maximum length of a fractional number that any double represents: 15 digits and a point or an exponent.
_KEPT = 16
#: The only white space that RFC 8259 allows between tokens.
SPACE = " \t\r\n"
#: A string, or the rest of the text if it is not closed.
STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


@dataclass(frozen=True, slots=True)
class NotJson:
    """A text that is not one JSON document, with the reason."""

    reason: SyntaxReason
    message: str
    notes: tuple[Note, ...] = ()


class RefusedError(Exception):
    """JSON by its grammar that is rejected: Python's own dialect, or beyond a limit."""

    def __init__(self, reason: SyntaxReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Decoder:
    """The standard library's decoder, with hooks that reject what RFC 8259 or the limits do not allow."""

    def __init__(self, *, exact: bool = True) -> None:
        #: First key that an object has twice.
        self.duplicate_key: str | None = None
        self._parse_float = exact_number if exact else functools.partial(exact_number, exact=False)

    def _reader(self, text: str) -> json.JSONDecoder:
        return json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_constant=_refuse_constant,
            parse_float=self._parse_float,
            # the decoder has a fast path for it, and no number is longer than the text
            parse_int=int if len(text) <= LONGEST_NUMBER else _int,
        )

    def decode(self, text: str) -> object:
        """Return the document; JSONDecodeError or RefusedError if the text is not one."""
        instance = self._reader(text).decode(text)
        if holds_lone_surrogate(text, instance):
            raise RefusedError(SyntaxReason.LONE_SURROGATE, "a lone surrogate, which UTF-8 cannot encode")
        return instance

    def fault(self, text: str) -> RefusedError | json.JSONDecodeError | None:
        """Return the reason why the text is not a document; None if it is one."""
        try:
            self.decode(text)
        except (RefusedError, json.JSONDecodeError) as error:
            return error
        return None

    def end_of_first(self, text: str) -> int | None:
        """Return the end of the value that begins the text; None if there is none, or it does not end."""
        try:
            return self._reader(text).raw_decode(text)[1]
        except (json.JSONDecodeError, RefusedError):
            return None

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) != len(pairs) and self.duplicate_key is None:
            counts = Counter(key for key, _ in pairs)
            self.duplicate_key = next(key for key in value if counts[key] > 1)
        return value


def holds_lone_surrogate(text: str, value: object) -> bool:
    """Return whether a string of the JSON value cannot be encoded as UTF-8."""
    escaped = "\\ud" in text or "\\uD" in text
    if not escaped and text.isascii():
        return False
    try:
        json.dumps(value if escaped else text, ensure_ascii=False, default=float).encode()
    except UnicodeEncodeError:
        return True
    return False


def _refuse_constant(name: str) -> NoReturn:
    raise RefusedError(SyntaxReason.NAN_OR_INFINITY, f"{name} is not JSON")


def exact_number(digits: str, *, exact: bool = True) -> float | Decimal:
    """
    Return the number as it is written (JSON Schema core, 4.2.2 and 6.3); RefusedError beyond the limits.

    It is a float if that is the same number for everyone who compares it, or need not be exact; both validators also
    accept Decimals.
    """
    number = float(digits)
    if len(digits) <= _KEPT and _NORMAL < abs(number) < _WHOLE:
        return number
    if math.isinf(number) or len(digits) > LONGEST_NUMBER:
        raise RefusedError(SyntaxReason.NUMBER_OUT_OF_RANGE, f"the number {digits[:20]}… is beyond double precision")
    if not exact or (number == 0 and not digits.lower().partition("e")[0].strip("-0.")):
        return number
    try:
        written = Decimal(digits)
    except InvalidOperation:  # the exponent is out of range
        written = None
    if written is None or written.adjusted() < -LONGEST_NUMBER:
        message = f"the number {digits[:20]}… has more than {LONGEST_NUMBER:,} leading zeros after the point"
        raise RefusedError(SyntaxReason.NUMBER_OUT_OF_RANGE, message)
    return number if abs(number) < _WHOLE and written == Decimal(repr(number)) else written


def _int(digits: str) -> int:
    if len(digits.lstrip("-")) > LONGEST_NUMBER:
        message = f"a number of {len(digits):,} digits; at most {LONGEST_NUMBER:,} are read"
        raise RefusedError(SyntaxReason.NUMBER_OUT_OF_RANGE, message)
    return int(digits)


#: Tags that open and close a model's reasoning, in any case; docs/judging.md lists their models.
_TAG_NAMES = r"think|thinking|thought|reasoning|seed:think"
OPENING_TAG = re.compile(
    rf"<(?:{_TAG_NAMES})>|\[THINK\]|◁think▷|<\|(?:START_THINKING|begin_of_thought)\|>", re.IGNORECASE
)
CLOSING_TAG = re.compile(
    rf"</(?:{_TAG_NAMES})>|\[/THINK\]|◁/think▷|<\|(?:END_THINKING|end_of_thought)\|>", re.IGNORECASE
)

#: Where the answer begins after reasoning; several blocks can follow each other.
_END_OF_REASONING = re.compile(rf"(?:{CLOSING_TAG.pattern})\s*(?!{OPENING_TAG.pattern})(?=\S)", re.IGNORECASE)

#: Characters that do not begin prose.
_OPENERS = '{["'
#: JSON's punctuation, which never begins a document.
_PUNCTUATION = "]},:"
_FENCE_LINE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_FENCE = re.compile(r"```|~~~")
#: JSON in another notation: `01`, `+1`, `.5`, `0x10`, `True`, `'a'`, `/* … */ {}`.
_NEARLY_JSON = re.compile(
    r"[-+.]?\d[\w.+-]*|true|false|null|none|undefined|nan|[-+]?inf(?:inity)?|'.*'|(?://|/\*).*",
    re.IGNORECASE | re.DOTALL,
)
#: Invisible characters: controls, format characters such as a zero-width space, spaces, separators.
_BLANK = "".join(
    map(
        chr,
        (*range(0x21), *range(0x7F, 0xA1), 0xAD, 0x1680, 0x180E, *range(0x2000, 0x2010), *range(0x2028, 0x2030),
         *range(0x205F, 0x2070), 0x3000, 0xFEFF),
    )
)  # fmt: skip
_LITERALS = ("true", "false", "null")
#: Maximum length of an incomplete literal or exponent, such as `fals`.
_LONGEST_BEGINNING = 4
_ESCAPE_BEGUN = re.compile(r"u[0-9A-Fa-f]{0,4}")

_EXPLANATIONS = {
    SyntaxReason.EMPTY: "no text at all; expected one JSON document",
    SyntaxReason.BOM: "a byte order mark before the document",
    SyntaxReason.UNCLOSED_REASONING: "reasoning that never ends; expected an answer after it",
    SyntaxReason.REASONING_PREAMBLE: "reasoning before the answer; expected the document alone",
    SyntaxReason.FENCE_NOT_ALONE: "a fence among other text; expected the document alone",
    SyntaxReason.SEVERAL_DOCUMENTS: "more than one JSON document; expected exactly one",
    SyntaxReason.TRAILING_TEXT: "text after the JSON document; expected the document alone",
    SyntaxReason.WHITE_SPACE: "an invisible character that JSON does not allow there",
    SyntaxReason.PROSE: "text that is not JSON; expected the document alone",
}


def start_of_answer(text: str) -> int | None:
    """
    Return the start of the answer in a text that begins with reasoning; None if it does not, or the reasoning never
    ends.
    """
    begun = text.lstrip()
    if begun[:1] in _OPENERS and not OPENING_TAG.match(begun):
        return None
    match = _END_OF_REASONING.search(text)
    return None if match is None else match.end()


def explain_rejection(text: str, error: RefusedError | json.JSONDecodeError) -> NotJson:
    """Return the reason and the message for a text that the decoder rejected, without surrounding white space."""
    visible = text.strip(_BLANK)
    if visible != text and not text.startswith("\ufeff"):
        if (inner := Decoder().fault(visible)) is not None:
            return explain_rejection(visible, inner)
        return NotJson(SyntaxReason.WHITE_SPACE, _EXPLANATIONS[SyntaxReason.WHITE_SPACE])
    if isinstance(error, RefusedError) and (text[0] in _OPENERS or not any(map(str.isspace, text))):
        return NotJson(error.reason, str(error))
    reason = _reason(text, error)
    message = _EXPLANATIONS.get(reason) or str(error).partition("\n")[0]
    if reason not in _EXPLANATIONS and isinstance(error, json.JSONDecodeError):
        message = f"{error.msg} (line {error.lineno}, column {error.colno})"
    return NotJson(reason, message)


def _reason(text: str, error: RefusedError | json.JSONDecodeError) -> SyntaxReason:
    if not text:
        return SyntaxReason.EMPTY
    if text[0] == "\ufeff":
        return SyntaxReason.BOM
    if OPENING_TAG.match(text) and not CLOSING_TAG.search(text):
        return SyntaxReason.UNCLOSED_REASONING
    # a tag in a JSON string is data
    if CLOSING_TAG.search(STRING.sub("", text) if text[0] in _OPENERS else text):
        return SyntaxReason.REASONING_PREAMBLE
    if (end := _end_of_value(text)) is not None:
        return _after_value(text, end)
    if text[0] in _OPENERS:
        assert isinstance(error, json.JSONDecodeError)
        return _first_fault(text, error)
    if isinstance(error, json.JSONDecodeError) and _is_truncated(text, error.pos):
        return SyntaxReason.INCOMPLETE
    if text[0] in _PUNCTUATION or _NEARLY_JSON.fullmatch(text):
        return SyntaxReason.MALFORMED
    return SyntaxReason.FENCE_NOT_ALONE if _FENCE_LINE.search(text) else SyntaxReason.PROSE


def _end_of_value(text: str) -> int | None:
    """Return the end of the first value of the text; None if the text does not begin with a complete one."""
    end = Decoder().end_of_first(text)
    apart = end is None or text[0] in _OPENERS or end == len(text) or text[end] in SPACE + _PUNCTUATION + _OPENERS
    return end if apart else None


def _after_value(text: str, end: int) -> SyntaxReason:
    """Return the reason for text after a complete value."""
    rest = text[end:].strip(_BLANK)
    if _FENCE.match(rest):
        return SyntaxReason.FENCE_NOT_ALONE
    following = rest.removeprefix(",").strip(_BLANK)
    if following and (_end_of_value(following) is not None or (following[0] in _OPENERS and _breaks_off(following))):
        return SyntaxReason.SEVERAL_DOCUMENTS
    if rest[0] in _PUNCTUATION:
        return SyntaxReason.MALFORMED
    return SyntaxReason.TRAILING_TEXT if text[0] in _OPENERS else SyntaxReason.PROSE


def _first_fault(text: str, error: json.JSONDecodeError) -> SyntaxReason:
    """Return the reason for a document that begins but is not complete."""
    if _ends_early(text, error):
        return SyntaxReason.INCOMPLETE
    in_string = error.msg.startswith(("Invalid", "Unterminated"))
    if not in_string and text[error.pos] in _BLANK and text[error.pos] not in SPACE:
        return SyntaxReason.WHITE_SPACE
    return SyntaxReason.MALFORMED


def _breaks_off(text: str) -> bool:
    fault = Decoder().fault(text)
    return isinstance(fault, json.JSONDecodeError) and _ends_early(text, fault)


def _ends_early(text: str, error: json.JSONDecodeError) -> bool:
    """Return whether the text's only fault is that it ends early."""
    if error.msg.startswith("Unterminated string"):
        return True
    if error.msg.startswith("Invalid \\u"):
        return _ESCAPE_BEGUN.fullmatch(text, error.pos) is not None
    return _is_truncated(text, error.pos)


def _is_truncated(text: str, position: int) -> bool:
    """Return whether the rest of the text is empty, or the beginning of a number or a literal."""
    begun = text[position:]
    if not begun or len(begun) > _LONGEST_BEGINNING:
        return not begun
    endings = ("0", *(literal[len(begun) :] for literal in _LITERALS if literal.startswith(begun)))
    faults = (Decoder().fault(text + ending) for ending in endings)
    return any(fault is None or getattr(fault, "pos", -1) >= len(text) for fault in faults)


#: Maximum number of arrays and objects of an answer: each takes up to a hundred times the size of its text.
_MOST_CONTAINERS = 500_000
#: Number of closing tags of reasoning after which an answer is tried, in addition to the last one.
_MOST_BLOCKS = 8

_OPENING_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})(?P<info>[^\r\n]*)(?:\r\n|\r|\n|\Z)")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDocument:
    """The single JSON value found in an answer's text."""

    instance: object
    notes: tuple[Note, ...] = ()
    duplicate_key: str | None = field(default=None, compare=False)


def read_answer(text: str, policy: JudgePolicy) -> AnswerDocument | NotJson:
    """
    Parse a model's answer.

    A fence around the whole answer is removed, and reasoning before it dropped, only as the policy allows; nothing is
    ever searched for or repaired.
    """
    if len(text) > LONGEST_TEXT:
        return NotJson(SyntaxReason.TOO_LARGE, f"more than {LONGEST_TEXT:,} characters")
    opened = text.count("[") + text.count("{")
    if opened > _MOST_CONTAINERS and len(structure(text, b"[{")) > _MOST_CONTAINERS:
        return NotJson(SyntaxReason.TOO_LARGE, f"more than {_MOST_CONTAINERS:,} arrays and objects")
    answer = _open(text, policy)
    if isinstance(answer, NotJson) and policy.reasoning == "strip":
        answer = _after_reasoning(text, policy) or answer
    key = answer.duplicate_key if isinstance(answer, AnswerDocument) else None
    if policy.duplicate_keys == "fail" and key is not None:
        shown = printable(json.dumps(key, ensure_ascii=False), 60)
        message = f"an object with the same key twice: {shown}; expected each key once"
        return NotJson(SyntaxReason.DUPLICATE_KEYS, message, answer.notes)
    return answer


def _after_reasoning(text: str, policy: JudgePolicy) -> AnswerDocument | NotJson | None:
    """
    Parse what follows the reasoning of an answer that is not a document by itself; None if no reasoning ends.

    Reasoning ends at the first closing tag that is followed by a document, whichever tag opened it, since a later tag
    is part of the answer. If no document follows any tag, the text after the last tag is the answer.
    """
    ends = [tag.end() for tag in CLOSING_TAG.finditer(text)]
    answer = None
    for end in dict.fromkeys((*ends[:_MOST_BLOCKS], *ends[-1:])):
        answer = _open(text[end:], policy)
        if isinstance(answer, AnswerDocument):
            break
    return answer and replace(answer, notes=(Note.REASONING_STRIPPED, *answer.notes))


def _open(text: str, policy: JudgePolicy) -> AnswerDocument | NotJson:
    """Return the document, or the inside of the one fence around it."""
    text = text.strip(SPACE)
    opening = _OPENING_FENCE.match(text)
    if opening is None:
        return _read(text, policy)
    if policy.fences == "forbid":
        message = "a Markdown fence around the answer; expected the bare JSON document"
        return NotJson(SyntaxReason.FENCE_FORBIDDEN, message)
    return _read_fenced(text, opening, policy)


def _read_fenced(text: str, opening: re.Match[str], policy: JudgePolicy) -> AnswerDocument | NotJson:
    fence = opening["fence"]
    info = opening["info"].strip()
    if "\n" not in text and "\r" not in text and text[len(fence) :].endswith(fence):
        # all on one line, as models write it, although CommonMark has no such fence
        inside = text[len(fence) :].rstrip(fence[0])
        marked = inside[:4].lower() == "json" and not inside[4:5].isalnum()
        return _read(inside[4 if marked else 0 :].strip(SPACE), policy, Note.FENCED)
    if "`" in info:
        return NotJson(SyntaxReason.FENCE_NOT_ALONE, "a fence that shares its line with other text")
    if info.lower() not in {"", "json"}:
        return NotJson(SyntaxReason.FENCE_NOT_JSON, f"a fence marked {info[:40]!r}; expected json or nothing")
    closing_line = rf"^ {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}[ \t]*\r?$"
    if closing := re.compile(closing_line, re.MULTILINE).search(text, opening.end()):
        end = closing.start()
        if closing.end() != len(text):
            message = "text after the closing fence; expected the fenced document alone"
            return NotJson(SyntaxReason.FENCE_NOT_ALONE, message)
    else:
        # in CommonMark a fence closes on its own line; but no document ends with one either
        end = max(len(text.rstrip(fence[0])), opening.end())
    closed = len(text) - end >= len(fence)
    inside = text[opening.end() : end if closed else len(text)]
    return _read(inside.strip(SPACE), policy, Note.FENCED if closed else Note.UNCLOSED_FENCE)


def _read(text: str, policy: JudgePolicy, *notes: Note) -> AnswerDocument | NotJson:
    """Decode text without surrounding white space."""
    if too_deep(text, DEEPEST):
        return NotJson(SyntaxReason.TOO_DEEP, f"arrays and objects more than {DEEPEST} levels deep", notes)
    # jsonschema alone reproduces figures that were computed with doubles
    decoder = Decoder(exact=policy.validator != "jsonschema")
    try:
        instance = decoder.decode(text)
    except (RefusedError, json.JSONDecodeError) as error:
        return replace(explain_rejection(text, error), notes=notes)
    if decoder.duplicate_key is not None:
        notes = (*notes, Note.DUPLICATE_KEYS)
    return AnswerDocument(instance=instance, notes=notes, duplicate_key=decoder.duplicate_key)
