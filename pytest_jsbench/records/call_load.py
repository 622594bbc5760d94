"""Define what a run with a load, or with a service level, records of a call: its times, and the plain calls next to it.

A plain call has no schema: it asks the model to repeat a line. It is no case, and no verdict includes it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Struct, structs

from pytest_jsbench.core.generations import (
    Completion,
    Declined,
    Failed,
    FinishReason,
    Generation,
    GenerationType,
    Usage,
    type_of,
)
from pytest_jsbench.core.json_values import Seconds, write_always
from pytest_jsbench.core.timing import Timing
from pytest_jsbench.records.repairs import written_generation

#: A time in seconds since 1970 (UTC).
Moment = Annotated[float, msgspec.Meta(ge=0, le=1e11)]
#: Characters that no answer in words contains: replacement and control characters, and halves of surrogate pairs.
_GARBLED = re.compile("[\ufffd\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")
#: The same character 20 times or more, apart from spaces, lines and dashes.
_RUN = re.compile(r"([^\s\-=_*.])\1{19,}")
#: Numbers that identify the lines of plain calls.
_MARK = re.compile(r"\d{7}")


class PlainProblem(StrEnum):
    """Ways in which a plain call can go wrong for a reason other than the model's skill."""

    #: The call failed.
    FAILED = "failed"
    #: The model or the server declined to answer.
    DECLINED = "declined"
    #: The answer is empty.
    EMPTY = "empty"
    #: The answer is empty because the reasoning reached the token limit.
    TRUNCATED = "truncated"
    #: The answer is a JSON object or array, as if a schema had been sent.
    JSON = "json"
    #: The answer contains replacement or control characters.
    GARBLED = "garbled"
    #: The answer repeats one character at least 20 times.
    REPEATING = "repeating"
    #: The answer contains the number of another plain call's line.
    MIXED_UP = "mixed_up"


def find_problem(generation: Generation, line: str, others: Collection[str]) -> PlainProblem | None:
    """
    Return what is wrong with the answer to a plain call; None if nothing is.

    `line` is the line to repeat, and `others` are the numbers in the lines of other plain calls.
    """
    if isinstance(generation, Failed):
        return PlainProblem.FAILED
    if not isinstance(generation, Completion):
        return PlainProblem.DECLINED
    text = generation.text.strip()
    if not text:
        has_reasoned = bool(generation.reasoning) and generation.finish_reason is FinishReason.LENGTH
        return PlainProblem.TRUNCATED if has_reasoned else PlainProblem.EMPTY
    if text.startswith(("{", "[")):
        return PlainProblem.JSON
    if _GARBLED.search(text):
        return PlainProblem.GARBLED
    if _RUN.search(text):
        return PlainProblem.REPEATING
    foreign = set(_MARK.findall(text)) - set(_MARK.findall(line))
    return PlainProblem.MIXED_UP if foreign.intersection(others) else None


class PlainCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call without a schema that was sent next to the call of an attempt."""

    #: Line that the prompt asks the model to repeat.
    line: str
    #: Result of the engine.
    generation: Completion | Declined | Failed
    #: What is wrong with the answer; null if nothing is.
    problem: PlainProblem | None = write_always(None)
    #: Whether the answer contains the line, which weak models may fail to repeat.
    repeated: bool = write_always(False)
    #: Time when the call began.
    began: Moment
    #: Seconds between the scheduled start and the begin of the call; absent without a rate.
    late_s: Seconds | None = None


class PlainFacts(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What became of a plain call, without texts."""

    generation_type: GenerationType
    problem: PlainProblem | None
    repeated: bool
    timing: Timing | None
    usage: Usage | None
    began: float
    late_s: float | None = None

    @classmethod
    def of(cls, made: PlainCall) -> PlainFacts:
        """Return the facts about a plain call."""
        return cls(
            generation_type=type_of(made.generation),
            problem=made.problem,
            repeated=made.repeated,
            timing=made.generation.timing,
            usage=made.generation.usage,
            began=made.began,
            late_s=made.late_s,
        )


class CallLoad(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When the call of an attempt began and ended, in a run with a load or a service level."""

    #: Time when the first try of the call began.
    began: Moment
    #: Time when the last try of the call ended.
    ended: Moment
    #: Seconds between the scheduled start and the begin of the first try; absent without a rate.
    late_s: Seconds | None = None
    #: Plain calls that were made next to this call; absent if there are none.
    plain: tuple[PlainCall, ...] = ()

    @property
    def kept(self) -> CallLoad:
        """The same, as it is written to disk."""
        plain = (structs.replace(each, generation=written_generation(each.generation)) for each in self.plain)
        return structs.replace(self, plain=tuple(plain))

    def facts(self) -> LoadFacts:
        """Return the same without texts."""
        plain = tuple(map(PlainFacts.of, self.plain))
        return LoadFacts(began=self.began, ended=self.ended, late_s=self.late_s, plain=plain)


class LoadFacts(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """When the call of an attempt began and ended, and what became of the plain calls next to it, without texts."""

    began: float
    ended: float
    late_s: float | None = None
    plain: tuple[PlainFacts, ...] = ()
