"""Text to instance: exactly one RFC 8259 document within the limits, or the reason why it is not one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_jsbench.core.json_values import too_deep
from pytest_jsbench.verdicts.json_text import (
    CLOSING_TAG,
    DEEPEST,
    SPACE,
    Decoder,
    NotJson,
    RefusedError,
    SyntaxReason,
    too_many,
    why_not,
)
from pytest_jsbench.verdicts.verdicts import Note

if TYPE_CHECKING:
    from pytest_jsbench.verdicts.verdicts import JudgePolicy

#: characters of an answer
LONGEST_TEXT = 10_000_000
#: arrays and objects of an answer: each takes up to a hundred times the size of its text
_MOST_CONTAINERS = 500_000
#: notes that the document is a part of the text
PARTLY = frozenset({Note.FENCED, Note.UNCLOSED_FENCE, Note.REASONING_STRIPPED})
#: closing tags of reasoning after which the answer is looked for, beside the last one
_MOST_BLOCKS = 8

_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})(?P<info>[^\r\n]*)(?:\r\n|\r|\n|\Z)")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDocument:
    """The one JSON value that a text holds."""

    instance: object
    notes: tuple[Note, ...] = ()


def read_answer(text: str, policy: JudgePolicy) -> AnswerDocument | NotJson:
    """
    The document that a model's answer is.

    A fence around the whole answer is opened, and reasoning before it dropped, only as the policy says;
    nothing is ever searched for or repaired.
    """
    if len(text) > LONGEST_TEXT:
        message = f"more than {LONGEST_TEXT:,} characters"
        return NotJson(reason=SyntaxReason.TOO_LARGE, message=message)
    if too_many(text, _MOST_CONTAINERS):
        message = f"more than {_MOST_CONTAINERS:,} arrays and objects"
        return NotJson(reason=SyntaxReason.TOO_LARGE, message=message)
    answer = _open(text, policy)
    if isinstance(answer, NotJson) and policy.reasoning == "strip":
        answer = _after_reasoning(text, policy) or answer
    if policy.duplicate_keys == "fail" and isinstance(answer, AnswerDocument) and Note.DUPLICATE_KEYS in answer.notes:
        message = "an object with the same key twice; expected each key once"
        return NotJson(reason=SyntaxReason.DUPLICATE_KEYS, message=message, notes=answer.notes)
    return answer


def _after_reasoning(text: str, policy: JudgePolicy) -> AnswerDocument | NotJson | None:
    """
    What follows the reasoning of an answer that is no document as it stands; None where no reasoning ends.

    It ends at the first closing tag that a document follows, whoever opened it, and whatever blocks are in it: a tag
    further on is the answer's own. Where no document follows any, what follows the last is the answer.
    """
    ends = [tag.end() for tag in CLOSING_TAG.finditer(text)]
    answer = None
    for end in dict.fromkeys((*ends[:_MOST_BLOCKS], *ends[-1:])):
        answer = _open(text[end:], policy)
        if isinstance(answer, AnswerDocument):
            break
    return answer and replace(answer, notes=(Note.REASONING_STRIPPED, *answer.notes))


def _open(text: str, policy: JudgePolicy) -> AnswerDocument | NotJson:
    """The document, or what is inside of the one fence around it."""
    text = text.strip(SPACE)
    opening = _FENCE.match(text)
    if opening is None:
        return _read(text, policy)
    if policy.fences == "forbid":
        message = "a Markdown fence around the answer; expected the bare JSON document"
        return NotJson(reason=SyntaxReason.FENCE_FORBIDDEN, message=message)
    return _read_fenced(text, opening, policy)


def _read_fenced(text: str, opening: re.Match[str], policy: JudgePolicy) -> AnswerDocument | NotJson:
    fence, info = opening["fence"], opening["info"].strip()
    if "`" in info:
        message = "a fence that does not stand on a line of its own"
        return NotJson(reason=SyntaxReason.FENCE_NOT_ALONE, message=message)
    if info.lower() not in {"", "json"}:
        message = f"a fence marked {info[:40]!r}; expected json or nothing"
        return NotJson(reason=SyntaxReason.FENCE_NOT_JSON, message=message)
    closing_line = rf"^ {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}[ \t]*\r?$"
    if closing := re.compile(closing_line, re.MULTILINE).search(text, opening.end()):
        end = closing.start()
        if closing.end() != len(text):
            message = "text after the closing fence; expected the fenced document alone"
            return NotJson(reason=SyntaxReason.FENCE_NOT_ALONE, message=message)
    else:
        # by CommonMark a fence closes on a line of its own; but no document ends with one either
        end = max(len(text.rstrip(fence[0])), opening.end())
    closed = len(text) - end >= len(fence)
    inside = text[opening.end() : end if closed else len(text)]
    return _read(inside.strip(SPACE), policy, Note.FENCED if closed else Note.UNCLOSED_FENCE)


def _read(text: str, policy: JudgePolicy, *notes: Note) -> AnswerDocument | NotJson:
    """Decode text that has no white space around it."""
    if too_deep(text, DEEPEST):
        message = f"arrays and objects more than {DEEPEST} levels deep"
        return NotJson(reason=SyntaxReason.TOO_DEEP, message=message, notes=notes)
    # jsonschema alone reproduces figures that were made with doubles
    decoder = Decoder(exact=policy.validator != "jsonschema")
    try:
        instance = decoder.decode(text)
    except (RefusedError, json.JSONDecodeError) as error:
        return replace(why_not(text, error), notes=notes)
    if decoder.duplicate_keys:
        notes = (*notes, Note.DUPLICATE_KEYS)
    return AnswerDocument(instance=instance, notes=notes)
