"""
Whether a server holds its answers to their schemas: what a probe's answers come to, for each way of asking.

An answer that conforms is evidence, since the prompt asks for another and the schema holds words made at random. How
good the evidence is, a control tells: the same questions with the schema only shown in the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.metrics.statistics import SIGNIFICANCE, Proportion, one_sided_fisher, proportion


class ReplyKind(StrEnum):
    """The kind of a reply to a probe's question."""

    CONFORMS = "conforms"
    VIOLATES = "violates"
    #: the answer holds words that belong to another question
    MIXED_UP = "mixed_up"
    #: the server does not take the request, and says so
    REFUSED = "refused"
    #: nothing is known: the call broke, or the answer was cut off
    UNDECIDED = "undecided"


class Enforcement(StrEnum):
    """A probe's finding on a way of asking, or on one keyword."""

    ENFORCED = "enforced"
    #: some answers conform, or show that the model has seen the schema
    NOT_ENFORCED = "not_enforced"
    #: the request is taken, and answered as if there were no schema in it
    IGNORED = "ignored_silently"
    REFUSED = "refused"
    BREAKS_UNDER_LOAD = "breaks_under_load"
    MIXES_UP = "mixes_up"
    BROKEN_FOR_KEYWORDS = "broken_for_keywords"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The outcome of a question."""

    kind: ReplyKind
    #: whether the answer holds a word that stands in the schema and not in the prompt
    traced: bool = False
    #: what the prompt asks for, and the answer
    wanted: str = ""
    text: str = ""
    #: what the server, or the judge, said
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeMode:
    """A way of asking."""

    response_format: ResponseFormat
    streaming: bool
    #: whether reasoning was asked for, or asked to be left out; None: nothing was said of it
    reasoning: bool | None = None

    def __str__(self) -> str:
        reasoning = {None: "", True: ", reasoning on", False: ", reasoning off"}[self.reasoning]
        return f"{self.response_format}, {'streamed' if self.streaming else 'in one piece'}{reasoning}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replies:
    """The replies to questions of one kind."""

    #: how many were to be asked
    planned: int
    replies: tuple[Reply, ...] = ()

    def count(self, *kinds: ReplyKind) -> int:
        """Count the replies of these kinds."""
        return sum(reply.kind in kinds for reply in self.replies)

    @property
    def conforming(self) -> int:
        """The number of answers that conform."""
        return self.count(ReplyKind.CONFORMS)

    @property
    def decided(self) -> int:
        """The number of answers of which something is known."""
        return self.count(ReplyKind.CONFORMS, ReplyKind.VIOLATES, ReplyKind.MIXED_UP)

    @property
    def enforcement(self) -> Enforcement:
        """The finding of all replies; a fault of network or account says nothing, and one bad answer says all."""
        wrong = [reply for reply in self.replies if reply.kind is ReplyKind.VIOLATES]
        if self.count(ReplyKind.MIXED_UP):
            return Enforcement.MIXES_UP
        if wrong:
            ignored = not self.conforming and not any(reply.traced for reply in wrong)
            return Enforcement.IGNORED if ignored else Enforcement.NOT_ENFORCED
        if self.count(ReplyKind.REFUSED):
            return Enforcement.REFUSED
        return Enforcement.ENFORCED if self.conforming * 2 >= max(self.planned, 1) else Enforcement.UNDECIDED

    @property
    def example(self) -> Reply | None:
        """The reply that best shows what is wrong; None where nothing is."""
        order = (ReplyKind.MIXED_UP, ReplyKind.VIOLATES, ReplyKind.REFUSED, ReplyKind.UNDECIDED)
        return next((reply for kind in order for reply in self.replies if reply.kind is kind), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelReplies:
    """The replies to questions that were asked so many at once."""

    in_flight: int
    #: the most calls that were under way at the same time
    peak: int
    replies: Replies

    @property
    def reached(self) -> int:
        """The calls that were under way at once in truth: limits slow a probe down, and a quick server does."""
        return min(self.in_flight, self.peak)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordReplies:
    """The replies to questions whose prompt asks to break one keyword."""

    keyword: str
    replies: Replies


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeFinding:
    """The finding on a way of asking."""

    mode: ProbeMode
    #: by rising number in flight; the first that is not enforced is the last that was asked
    levels: tuple[LevelReplies, ...]
    keywords: tuple[KeywordReplies, ...] = ()
    #: the replies where the schema was only shown; None where that cannot be asked
    control: Replies | None = None
    #: why it was not asked to the end; empty where it was
    unfinished: str = ""

    @property
    def enforcement(self) -> Enforcement:
        """The one thing to say of it."""
        if not self.levels:
            return Enforcement.UNDECIDED
        first, last = self.levels[0].replies.enforcement, self.levels[-1].replies.enforcement
        if first is not Enforcement.ENFORCED:
            return first
        match last:
            case Enforcement.MIXES_UP:
                return last
            case Enforcement.NOT_ENFORCED | Enforcement.IGNORED:
                return Enforcement.BREAKS_UNDER_LOAD
            case Enforcement.REFUSED | Enforcement.UNDECIDED:
                return Enforcement.UNDECIDED
        if self.broken:
            return Enforcement.BROKEN_FOR_KEYWORDS
        # a model that is only shown the schema may as well have answered so
        by_chance = self.p_value is not None and self.p_value > SIGNIFICANCE
        return Enforcement.UNDECIDED if self.unfinished or by_chance else Enforcement.ENFORCED

    @property
    def passed(self) -> bool:
        """True where all that was asked is enforced."""
        return self.enforcement is Enforcement.ENFORCED and not self.refused and not self.undecided

    @property
    def conforming(self) -> Proportion:
        """The share of answers that conform, at all levels together."""
        decided = sum(level.replies.decided for level in self.levels)
        return proportion(sum(level.replies.conforming for level in self.levels), decided)

    @property
    def p_value(self) -> float | None:
        """The chance that a server which only shows the schema to the model answers so well; None: unknown."""
        if self.control is None or not self.control.decided or not self.conforming.n:
            return None
        conforming = self.conforming
        return one_sided_fisher((conforming.successes, conforming.n), (self.control.conforming, self.control.decided))

    @property
    def sound_up_to(self) -> int:
        """The most that were in flight while all was well; 0 where it never was."""
        sound = [level.reached for level in self.levels if level.replies.enforcement is Enforcement.ENFORCED]
        return max(sound, default=0)

    @property
    def broken(self) -> tuple[str, ...]:
        """Keywords that some answer breaks."""
        return self._keywords(Enforcement.NOT_ENFORCED, Enforcement.IGNORED, Enforcement.MIXES_UP)

    @property
    def refused(self) -> tuple[str, ...]:
        """Keywords that the server says it does not take."""
        return self._keywords(Enforcement.REFUSED)

    @property
    def undecided(self) -> tuple[str, ...]:
        """Keywords of which nothing is known."""
        return self._keywords(Enforcement.UNDECIDED)

    @property
    def example(self) -> Reply | None:
        """The reply that best shows what is wrong."""
        if self.levels and self.levels[-1].replies.enforcement is not Enforcement.ENFORCED:
            return self.levels[-1].replies.example
        wrong = [keyword.replies for keyword in self.keywords if keyword.keyword in self.broken]
        return wrong[0].example if wrong else None

    def _keywords(self, *found: Enforcement) -> tuple[str, ...]:
        return tuple(keyword.keyword for keyword in self.keywords if keyword.replies.enforcement in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """The findings of a probe."""

    findings: Sequence[ModeFinding]
    #: None where the engine cannot be asked without a response format
    control: Replies | None
    #: calls that were made, apart from retries
    calls: int

    @property
    def passed(self) -> bool:
        """True where all that was asked is enforced."""
        return bool(self.findings) and all(finding.passed for finding in self.findings)
