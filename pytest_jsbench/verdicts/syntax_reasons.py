"""Why a text is not one JSON document: the reasons, in the order in which they are decided."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_jsbench.verdicts.verdicts import Note


class SyntaxReason(StrEnum):
    """Why a text is not one JSON document; the first that holds."""

    TOO_LARGE = "too_large"
    #: a fence where the policy forbids one
    FENCE_FORBIDDEN = "fence_forbidden"
    #: a fence that says it holds something other than JSON
    FENCE_NOT_JSON = "fence_not_json"
    TOO_DEEP = "too_deep"
    EMPTY = "empty"
    BOM = "bom"
    NAN_OR_INFINITY = "nan_or_infinity"
    NUMBER_OUT_OF_RANGE = "number_out_of_range"
    LONE_SURROGATE = "lone_surrogate"
    #: reasoning that never ends, so that there is no answer
    UNCLOSED_REASONING = "unclosed_reasoning"
    REASONING_PREAMBLE = "reasoning_preamble"
    #: a fence with something before, after or inside it that is not the document
    FENCE_NOT_ALONE = "fence_not_alone"
    SEVERAL_DOCUMENTS = "several_documents"
    TRAILING_TEXT = "trailing_text"
    #: the document ends before it is complete
    INCOMPLETE = "incomplete"
    #: white space, or what does not show either, where JSON does not allow it
    WHITE_SPACE = "white_space"
    #: begins as JSON and breaks its grammar: single quotes, comments, trailing commas, …
    MALFORMED = "malformed"
    PROSE = "prose"
    #: an object with a key twice, where the policy forbids it
    DUPLICATE_KEYS = "duplicate_keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotJson:
    """Why a text is not one JSON document."""

    reason: SyntaxReason
    message: str
    notes: tuple[Note, ...] = ()
