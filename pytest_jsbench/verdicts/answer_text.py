"""Parse an answer's text as exactly one RFC 8259 document within limits, or return the reason for rejecting it."""

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

#: Maximum nesting depth of arrays and objects in an answer; published labelled answers have at most 34 levels.
DEEPEST = 128
#: Maximum number of digits in a number.
LONGEST_NUMBER = 4_300
#: Integer above which doubles cannot represent every integer.
_FIRST_INEXACT_INTEGER = 2**53
#: Absolute value above which a double has its full precision.
_LEAST_PRECISE = 1e-290
#: Maximum length of a number that always equals its double: 15 digits, and a point or an exponent.
_LONGEST_FLOAT = 16
#: The only white space that RFC 8259 allows between tokens.
SPACE = " \t\r\n"
#: A JSON string, or the rest of the text if the string is not closed.
STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


@dataclass(frozen=True, slots=True)
class NotJson:
    """A text that is not exactly one JSON document, with the reason."""

    reason: SyntaxReason
    message: str
    notes: tuple[Note, ...] = ()


class RejectedTextError(Exception):
    """Raised for text that Python's JSON decoder accepts, although RFC 8259 or a limit forbids it."""

    def __init__(self, reason: SyntaxReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Decoder:
    """The JSON decoder of the standard library, with hooks that reject what RFC 8259 or the limits do not allow."""

    def __init__(self, *, exact: bool = True) -> None:
        #: First key that occurs twice in an object; None if no key does.
        self.duplicate_key: str | None = None
        self._parse_float = exact_number if exact else functools.partial(exact_number, exact=False)

    def _make_decoder(self, text: str) -> json.JSONDecoder:
        return json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_constant=_reject_constant,
            parse_float=self._parse_float,
            # json has a fast path for `int` itself, which suffices if the whole text is no longer than a number may be
            parse_int=int if len(text) <= LONGEST_NUMBER else _parse_int,
        )

    def decode(self, text: str) -> object:
        """Return the JSON value; raise JSONDecodeError or RejectedTextError if the text is not exactly one document."""
        instance = self._make_decoder(text).decode(text)
        if has_lone_surrogate(text, instance):
            raise RejectedTextError(SyntaxReason.LONE_SURROGATE, "a lone surrogate, which UTF-8 cannot encode")
        return instance

    def find_error(self, text: str) -> RejectedTextError | json.JSONDecodeError | None:
        """Return the error that makes the text invalid; None if the text is a document."""
        try:
            self.decode(text)
        except (RejectedTextError, json.JSONDecodeError) as error:
            return error
        return None

    def find_end_of_value(self, text: str) -> int | None:
        """
        Return the end of the JSON value at the start of the text; None if the text does not begin with a complete
        value.
        """
        try:
            return self._make_decoder(text).raw_decode(text)[1]
        except (json.JSONDecodeError, RejectedTextError):
            return None

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) != len(pairs) and self.duplicate_key is None:
            counts = Counter(key for key, _ in pairs)
            self.duplicate_key = next(key for key in value if counts[key] > 1)
        return value


def has_lone_surrogate(text: str, value: object) -> bool:
    """Return whether a string in the JSON value cannot be encoded as UTF-8."""
    escaped = "\\ud" in text or "\\uD" in text
    if not escaped and text.isascii():
        return False
    try:
        json.dumps(value if escaped else text, ensure_ascii=False, default=float).encode()
    except UnicodeEncodeError:
        return True
    return False


def _reject_constant(name: str) -> NoReturn:
    raise RejectedTextError(SyntaxReason.NAN_OR_INFINITY, f"{name} is not JSON")


def exact_number(digits: str, *, exact: bool = True) -> float | Decimal:
    """
    Return the exact value of a number in JSON text (JSON Schema core, 4.2.2 and 6.3).

    The value is a float if a double represents the number, or if `exact` is False; otherwise it is a Decimal, which
    both validators accept. Raise RejectedTextError for a number beyond the limits.
    """
    number = float(digits)
    if len(digits) <= _LONGEST_FLOAT and _LEAST_PRECISE < abs(number) < _FIRST_INEXACT_INTEGER:
        return number
    if math.isinf(number) or len(digits) > LONGEST_NUMBER:
        raise RejectedTextError(
            SyntaxReason.NUMBER_OUT_OF_RANGE, f"the number {digits[:20]}… is beyond double precision"
        )
    if not exact or (number == 0 and not digits.lower().partition("e")[0].strip("-0.")):
        return number
    try:
        written = Decimal(digits)
    except InvalidOperation:  # the exponent is out of range
        written = None
    if written is None or written.adjusted() < -LONGEST_NUMBER:
        message = f"the number {digits[:20]}… has more than {LONGEST_NUMBER:,} leading zeros after the point"
        raise RejectedTextError(SyntaxReason.NUMBER_OUT_OF_RANGE, message)
    return number if abs(number) < _FIRST_INEXACT_INTEGER and written == Decimal(repr(number)) else written


def _parse_int(digits: str) -> int:
    if len(digits.lstrip("-")) > LONGEST_NUMBER:
        message = f"a number of {len(digits):,} digits; at most {LONGEST_NUMBER:,} digits are accepted"
        raise RejectedTextError(SyntaxReason.NUMBER_OUT_OF_RANGE, message)
    return int(digits)


#: Names of the tags around a model's reasoning, in upper or lower case; docs/judging.md lists the models.
_TAG_NAMES = r"think|thinking|thought|reasoning|seed:think"
OPENING_TAG = re.compile(
    rf"<(?:{_TAG_NAMES})>|\[THINK\]|◁think▷|<\|(?:START_THINKING|begin_of_thought)\|>", re.IGNORECASE
)
CLOSING_TAG = re.compile(
    rf"</(?:{_TAG_NAMES})>|\[/THINK\]|◁/think▷|<\|(?:END_THINKING|end_of_thought)\|>", re.IGNORECASE
)

#: Text between the end of the reasoning and the answer; several blocks of reasoning can follow each other.
_END_OF_REASONING = re.compile(rf"(?:{CLOSING_TAG.pattern})\s*(?!{OPENING_TAG.pattern})(?=\S)", re.IGNORECASE)

#: Characters that can begin a JSON document, but rarely begin prose.
_OPENERS = '{["'
#: Punctuation of JSON that cannot begin a document.
_PUNCTUATION = "]},:"
_FENCE_LINE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_FENCE = re.compile(r"```|~~~")
#: Text that resembles JSON but is not: `01`, `+1`, `.5`, `0x10`, `True`, `'a'`, `/* … */ {}`.
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
_INCOMPLETE_ESCAPE = re.compile(r"u[0-9A-Fa-f]{0,4}")

_EXPLANATIONS = {
    SyntaxReason.EMPTY: "no text at all; expected one JSON document",
    SyntaxReason.BOM: "a byte order mark before the document; expected the document alone",
    SyntaxReason.UNCLOSED_REASONING: "reasoning that never ends; expected an answer after the reasoning",
    SyntaxReason.REASONING_PREAMBLE: "reasoning before the answer; expected the document alone",
    SyntaxReason.FENCE_NOT_ALONE: "a Markdown fence among other text; expected the document alone",
    SyntaxReason.SEVERAL_DOCUMENTS: "more than one JSON document; expected exactly one",
    SyntaxReason.TRAILING_TEXT: "text after the JSON document; expected the document alone",
    SyntaxReason.WHITE_SPACE: "an invisible character where JSON does not allow it",
    SyntaxReason.PROSE: "text that is not JSON; expected the document alone",
}


def start_of_answer(text: str) -> int | None:
    """
    Return the position after the reasoning at which the answer starts; None if the text has no reasoning, or if the
    reasoning never ends.
    """
    beginning = text.lstrip()
    if beginning[:1] in _OPENERS and not OPENING_TAG.match(beginning):
        return None
    match = _END_OF_REASONING.search(text)
    return None if match is None else match.end()


def explain_rejection(text: str, error: RejectedTextError | json.JSONDecodeError) -> NotJson:
    """Return why the decoder rejected the text, which has no surrounding white space, as a reason and a message."""
    visible = text.strip(_BLANK)
    if visible != text and not text.startswith("\ufeff"):
        if (inner := Decoder().find_error(visible)) is not None:
            return explain_rejection(visible, inner)
        return NotJson(SyntaxReason.WHITE_SPACE, _EXPLANATIONS[SyntaxReason.WHITE_SPACE])
    if isinstance(error, RejectedTextError) and (text[0] in _OPENERS or not any(map(str.isspace, text))):
        return NotJson(error.reason, str(error))
    reason = _find_reason(text, error)
    message = _EXPLANATIONS.get(reason) or str(error).partition("\n")[0]
    if reason not in _EXPLANATIONS and isinstance(error, json.JSONDecodeError):
        message = f"{error.msg} (line {error.lineno}, column {error.colno})"
    return NotJson(reason, message)


def _find_reason(text: str, error: RejectedTextError | json.JSONDecodeError) -> SyntaxReason:
    if not text:
        return SyntaxReason.EMPTY
    if text[0] == "\ufeff":
        return SyntaxReason.BOM
    if OPENING_TAG.match(text) and not CLOSING_TAG.search(text):
        return SyntaxReason.UNCLOSED_REASONING
    # inside a JSON string, a tag is data
    if CLOSING_TAG.search(STRING.sub("", text) if text[0] in _OPENERS else text):
        return SyntaxReason.REASONING_PREAMBLE
    if (end := _find_end_of_value(text)) is not None:
        return _explain_rest_of_text(text, end)
    if text[0] in _OPENERS:
        assert isinstance(error, json.JSONDecodeError)
        return _explain_error_in_value(text, error)
    if isinstance(error, json.JSONDecodeError) and _ends_in_token(text, error.pos):
        return SyntaxReason.INCOMPLETE
    if text[0] in _PUNCTUATION or _NEARLY_JSON.fullmatch(text):
        return SyntaxReason.MALFORMED
    return SyntaxReason.FENCE_NOT_ALONE if _FENCE_LINE.search(text) else SyntaxReason.PROSE


def _find_end_of_value(text: str) -> int | None:
    """Return the end of the first JSON value in the text; None if the text does not begin with a complete value."""
    end = Decoder().find_end_of_value(text)
    apart = end is None or text[0] in _OPENERS or end == len(text) or text[end] in SPACE + _PUNCTUATION + _OPENERS
    return end if apart else None


def _explain_rest_of_text(text: str, end: int) -> SyntaxReason:
    """Return the reason for rejecting a complete value with text after its end."""
    rest = text[end:].strip(_BLANK)
    if _FENCE.match(rest):
        return SyntaxReason.FENCE_NOT_ALONE
    following = rest.removeprefix(",").strip(_BLANK)
    if following and (
        _find_end_of_value(following) is not None or (following[0] in _OPENERS and _is_incomplete(following))
    ):
        return SyntaxReason.SEVERAL_DOCUMENTS
    if rest[0] in _PUNCTUATION:
        return SyntaxReason.MALFORMED
    return SyntaxReason.TRAILING_TEXT if text[0] in _OPENERS else SyntaxReason.PROSE


def _explain_error_in_value(text: str, error: json.JSONDecodeError) -> SyntaxReason:
    """Return the reason for rejecting a text that begins like an object, an array or a string and contains an error."""
    if _ends_early(text, error):
        return SyntaxReason.INCOMPLETE
    in_string = error.msg.startswith(("Invalid", "Unterminated"))
    if not in_string and text[error.pos] in _BLANK and text[error.pos] not in SPACE:
        return SyntaxReason.WHITE_SPACE
    return SyntaxReason.MALFORMED


def _is_incomplete(text: str) -> bool:
    error = Decoder().find_error(text)
    return isinstance(error, json.JSONDecodeError) and _ends_early(text, error)


def _ends_early(text: str, error: json.JSONDecodeError) -> bool:
    """Return whether the text's only fault is that it ends early."""
    if error.msg.startswith("Unterminated string"):
        return True
    if error.msg.startswith("Invalid \\u"):
        return _INCOMPLETE_ESCAPE.fullmatch(text, error.pos) is not None
    return _ends_in_token(text, error.pos)


def _ends_in_token(text: str, position: int) -> bool:
    """Return whether the text from this position is empty, or is the beginning of a number or literal."""
    beginning = text[position:]
    if not beginning or len(beginning) > _LONGEST_BEGINNING:
        return not beginning
    endings = ("0", *(literal[len(beginning) :] for literal in _LITERALS if literal.startswith(beginning)))
    errors = (Decoder().find_error(text + ending) for ending in endings)
    return any(error is None or getattr(error, "pos", -1) >= len(text) for error in errors)


#: Maximum number of arrays and objects in an answer, since each takes up to a hundred times the memory of its text.
_MOST_CONTAINERS = 500_000
#: Maximum number of closing tags after which the judge looks for an answer; the last closing tag is always tried too.
_MOST_CLOSING_TAGS = 8

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

    If the policy allows it, a fence around the whole answer and reasoning before the answer are removed. Text is never
    searched for JSON, and never repaired.
    """
    if len(text) > LONGEST_TEXT:
        return NotJson(SyntaxReason.TOO_LARGE, f"more than {LONGEST_TEXT:,} characters")
    opened = text.count("[") + text.count("{")
    if opened > _MOST_CONTAINERS and len(structure(text, b"[{")) > _MOST_CONTAINERS:
        return NotJson(SyntaxReason.TOO_LARGE, f"more than {_MOST_CONTAINERS:,} arrays and objects")
    answer = _parse_with_fence(text, policy)
    if isinstance(answer, NotJson) and policy.reasoning == "strip":
        answer = _parse_after_reasoning(text, policy) or answer
    key = answer.duplicate_key if isinstance(answer, AnswerDocument) else None
    if policy.duplicate_keys == "fail" and key is not None:
        shown = printable(json.dumps(key, ensure_ascii=False), 60)
        message = f"an object with the same key twice: {shown}; expected each key once"
        return NotJson(SyntaxReason.DUPLICATE_KEYS, message, answer.notes)
    return answer


def _parse_after_reasoning(text: str, policy: JudgePolicy) -> AnswerDocument | NotJson | None:
    """
    Parse the text after the reasoning of an answer that is not a document by itself; None without a closing tag.

    Reasoning ends at the first closing tag that is followed by a document, even if another tag opened the reasoning.
    Later tags are part of the answer. If no tag is followed by a document, the text after the last tag is the answer.
    """
    ends = [tag.end() for tag in CLOSING_TAG.finditer(text)]
    answer = None
    for end in dict.fromkeys((*ends[:_MOST_CLOSING_TAGS], *ends[-1:])):
        answer = _parse_with_fence(text[end:], policy)
        if isinstance(answer, AnswerDocument):
            break
    return answer and replace(answer, notes=(Note.REASONING_STRIPPED, *answer.notes))


def _parse_with_fence(text: str, policy: JudgePolicy) -> AnswerDocument | NotJson:
    """Parse the text, or the content of the fence around the whole text."""
    text = text.strip(SPACE)
    opening = _OPENING_FENCE.match(text)
    if opening is None:
        return _decode(text, policy)
    if policy.fences == "forbid":
        message = "a Markdown fence around the answer; expected the bare JSON document"
        return NotJson(SyntaxReason.FENCE_FORBIDDEN, message)
    return _parse_fenced(text, opening, policy)


def _parse_fenced(text: str, opening: re.Match[str], policy: JudgePolicy) -> AnswerDocument | NotJson:
    fence = opening["fence"]
    info = opening["info"].strip()
    if "\n" not in text and "\r" not in text and text[len(fence) :].endswith(fence):
        # models write fences on a single line, although CommonMark does not allow this
        inside = text[len(fence) :].rstrip(fence[0])
        marked = inside[:4].lower() == "json" and not inside[4:5].isalnum()
        return _decode(inside[4 if marked else 0 :].strip(SPACE), policy, Note.FENCED)
    if "`" in info:
        return NotJson(SyntaxReason.FENCE_NOT_ALONE, "a fence on a line with other text; expected the fence alone")
    if info.lower() not in {"", "json"}:
        return NotJson(SyntaxReason.FENCE_NOT_JSON, f"a fence marked {info[:40]!r}; expected json or nothing")
    closing_line = rf"^ {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}[ \t]*\r?$"
    if closing := re.compile(closing_line, re.MULTILINE).search(text, opening.end()):
        end = closing.start()
        if closing.end() != len(text):
            message = "text after the closing fence; expected the fenced document alone"
            return NotJson(SyntaxReason.FENCE_NOT_ALONE, message)
    else:
        # CommonMark closes a fence only on a separate line, but no JSON document ends with fence characters either
        end = max(len(text.rstrip(fence[0])), opening.end())
    closed = len(text) - end >= len(fence)
    inside = text[opening.end() : end if closed else len(text)]
    return _decode(inside.strip(SPACE), policy, Note.FENCED if closed else Note.UNCLOSED_FENCE)


def _decode(text: str, policy: JudgePolicy, *notes: Note) -> AnswerDocument | NotJson:
    """Decode the text, which has no surrounding white space."""
    if too_deep(text, DEEPEST):
        return NotJson(SyntaxReason.TOO_DEEP, f"arrays and objects nested more than {DEEPEST} levels deep", notes)
    # results published with jsonschema were computed with doubles, so doubles are used if it is the only validator
    decoder = Decoder(exact=policy.validator != "jsonschema")
    try:
        instance = decoder.decode(text)
    except (RejectedTextError, json.JSONDecodeError) as error:
        return replace(explain_rejection(text, error), notes=notes)
    if decoder.duplicate_key is not None:
        notes = (*notes, Note.DUPLICATE_KEYS)
    return AnswerDocument(instance=instance, notes=notes, duplicate_key=decoder.duplicate_key)
