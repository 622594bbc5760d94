"""What stands where one JSON document should: the reason that fits a text that is none."""

from __future__ import annotations

import json
import re

from pytest_jsbench.verdicts.json_text import SPACE, STRING, Decoder, RefusedError
from pytest_jsbench.verdicts.syntax_reasons import NotJson, SyntaxReason

#: what opens and closes a model's reasoning, in any case; docs/judging.md says whose these are
_TAG_NAMES = r"think|thinking|thought|reasoning|seed:think"
OPENING_TAG = re.compile(
    rf"<(?:{_TAG_NAMES})>|\[THINK\]|◁think▷|<\|(?:START_THINKING|begin_of_thought)\|>", re.IGNORECASE
)
CLOSING_TAG = re.compile(
    rf"</(?:{_TAG_NAMES})>|\[/THINK\]|◁/think▷|<\|(?:END_THINKING|end_of_thought)\|>", re.IGNORECASE
)

#: where the answer begins after reasoning: blocks may follow each other
_END_OF_REASONING = re.compile(rf"(?:{CLOSING_TAG.pattern})\s*(?!{OPENING_TAG.pattern})(?=\S)", re.IGNORECASE)

#: no prose begins with these
_OPENERS = '{["'
#: JSON's own, and never the beginning of a document
_PUNCTUATION = "]},:"
_FENCE_LINE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_FENCE = re.compile(r"```|~~~")
#: what is JSON in another notation: `01`, `+1`, `.5`, `0x10`, `True`, `'a'`, `/* … */ {}`
_NEARLY_JSON = re.compile(
    r"[-+.]?\d[\w.+-]*|true|false|null|none|undefined|nan|[-+]?inf(?:inity)?|'.*'|(?://|/\*).*",
    re.IGNORECASE | re.DOTALL,
)
#: characters that show nothing: controls, format characters such as a zero-width space, spaces, separators
_BLANK = "".join(
    map(
        chr,
        (*range(0x21), *range(0x7F, 0xA1), 0xAD, 0x1680, 0x180E, *range(0x2000, 0x2010), *range(0x2028, 0x2030),
         *range(0x205F, 0x2070), 0x3000, 0xFEFF),
    )
)  # fmt: skip
_LITERALS = ("true", "false", "null")
#: characters of a literal or an exponent that has begun: `fals`
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
    SyntaxReason.WHITE_SPACE: "a character that does not show, and that JSON does not allow there",
    SyntaxReason.PROSE: "text that is not JSON; expected the document alone",
}


def start_of_answer(text: str) -> int | None:
    """Where the answer begins in a text that begins with reasoning; None where it does not, or that never ends."""
    begun = text.lstrip()
    if begun[:1] in _OPENERS and not OPENING_TAG.match(begun):
        return None
    found = _END_OF_REASONING.search(text)
    return None if found is None else found.end()


def why_not(text: str, error: RefusedError | json.JSONDecodeError) -> NotJson:
    """The reason and the message for a text without JSON's white space around it, and what its decoder said."""
    visible = text.strip(_BLANK)
    if visible != text and not text.startswith("\ufeff"):
        try:
            Decoder().decode(visible)
        except (RefusedError, json.JSONDecodeError) as inner:
            return why_not(visible, inner)
        return NotJson(reason=SyntaxReason.WHITE_SPACE, message=_EXPLANATIONS[SyntaxReason.WHITE_SPACE])
    if isinstance(error, RefusedError) and (text[0] in _OPENERS or not any(map(str.isspace, text))):
        return NotJson(reason=error.reason, message=error.message)
    reason = _reason(text, error)
    message = _EXPLANATIONS.get(reason) or str(error).partition("\n")[0]
    if reason not in _EXPLANATIONS and isinstance(error, json.JSONDecodeError):
        message = f"{error.msg} (line {error.lineno}, column {error.colno})"
    return NotJson(reason=reason, message=message)


def _reason(text: str, error: RefusedError | json.JSONDecodeError) -> SyntaxReason:
    if not text:
        return SyntaxReason.EMPTY
    if text[0] == "\ufeff":
        return SyntaxReason.BOM
    if OPENING_TAG.match(text) and not CLOSING_TAG.search(text):
        return SyntaxReason.UNCLOSED_REASONING
    # in a string of JSON a tag is data
    if CLOSING_TAG.search(STRING.sub("", text) if text[0] in _OPENERS else text):
        return SyntaxReason.REASONING_PREAMBLE
    if (end := _end_of_value(text)) is not None:
        return _after_value(text, end)
    if text[0] in _OPENERS:
        assert isinstance(error, json.JSONDecodeError)
        return _first_fault(text, error)
    if isinstance(error, json.JSONDecodeError) and _goes_on(text, error.pos):
        return SyntaxReason.INCOMPLETE
    if text[0] in _PUNCTUATION or _NEARLY_JSON.fullmatch(text):
        return SyntaxReason.MALFORMED
    return SyntaxReason.FENCE_NOT_ALONE if _FENCE_LINE.search(text) else SyntaxReason.PROSE


def _end_of_value(text: str) -> int | None:
    """Where the first value of the text ends; None where the text does not begin with a whole one."""
    end = Decoder().end_of_first(text)
    apart = end is None or text[0] in _OPENERS or end == len(text) or text[end] in SPACE + _PUNCTUATION + _OPENERS
    return end if apart else None


def _after_value(text: str, end: int) -> SyntaxReason:
    """The reason for what follows a whole value."""
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
    """The reason for a document that has begun and does not get to its end."""
    if _ends_early(text, error):
        return SyntaxReason.INCOMPLETE
    in_string = error.msg.startswith(("Invalid", "Unterminated"))
    if not in_string and text[error.pos] in _BLANK and text[error.pos] not in SPACE:
        return SyntaxReason.WHITE_SPACE
    return SyntaxReason.MALFORMED


def _breaks_off(text: str) -> bool:
    try:
        Decoder().decode(text)
    except json.JSONDecodeError as error:
        return _ends_early(text, error)
    except RefusedError:
        return False
    return False


def _ends_early(text: str, error: json.JSONDecodeError) -> bool:
    """Whether the text has no fault but that it ends."""
    if error.msg.startswith("Unterminated string"):
        return True
    if error.msg.startswith("Invalid \\u"):
        return _ESCAPE_BEGUN.fullmatch(text, error.pos) is not None
    return _goes_on(text, error.pos)


def _goes_on(text: str, position: int) -> bool:
    """Whether the text from there is the beginning of a number or a literal, or nothing, where one may stand."""
    begun = text[position:]
    if not begun or len(begun) > _LONGEST_BEGINNING:
        return not begun
    literals = [literal[len(begun) :] for literal in _LITERALS if literal.startswith(begun)]
    return any(_no_fault_in(len(text), text + more) for more in ("0", *literals))


def _no_fault_in(length: int, longer: str) -> bool:
    """Whether the decoder finds no fault in the first characters of the longer text."""
    try:
        Decoder().decode(longer)
    except json.JSONDecodeError as error:
        return error.pos >= length
    except RefusedError:
        return False
    return True
