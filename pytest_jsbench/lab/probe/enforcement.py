"""
Decide from a probe's answers whether a server enforces schemas, for each mode.

A conforming answer is evidence of enforcement, because the prompt requests a different answer and the schema contains
random words. A control measures how strong this evidence is: questions of the same kind are sent with the schema in the
prompt, but without enforcement.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.lab.probe.questions import SHAPES
from pytest_jsbench.metrics.statistics import SIGNIFICANCE, Proportion, one_sided_fisher, proportion

#: The schema counts as not enforced in a mode if more than 1 in 5 answers are wrong; a keyword counts as broken if at
#: least 1 in 2 answers is wrong.
_SHARE_OF_MODE = 5
_SHARE_OF_KEYWORD = 2
#: Maximum p-value at which faults are attributed to load; low because several modes and levels are tested.
BLAMES_LOAD = 0.01


class ReplyKind(StrEnum):
    """Kinds of replies to a probe's question."""

    CONFORMS = "conforms"
    VIOLATES = "violates"
    #: The answer contains words of another question.
    MIXED_UP = "mixed_up"
    #: The server rejected the request as unsupported.
    REFUSED = "refused"
    #: The call failed, or the answer was truncated, so that the reply is no evidence.
    UNDECIDED = "undecided"


class Enforcement(StrEnum):
    """Findings of a probe for a mode or a keyword."""

    ENFORCED = "enforced"
    #: Some answers are wrong, but others conform or show that the model has seen the schema.
    NOT_ENFORCED = "not_enforced"
    #: The request is accepted, but the schema has no effect on the answers.
    IGNORED = "ignored_silently"
    REFUSED = "refused"
    #: A few answers do not conform, regardless of load and keyword.
    SOMETIMES_WRONG = "sometimes_wrong"
    BREAKS_UNDER_LOAD = "breaks_under_load"
    MIXES_UP = "mixes_up"
    BROKEN_FOR_KEYWORDS = "broken_for_keywords"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The reply to one question."""

    kind: ReplyKind
    #: Whether the answer contains a word that is in the schema but not in the prompt.
    traced: bool = False
    #: Violated keywords, and the keywords that enclose them in the schema; empty if the answer is not JSON.
    violated: frozenset[str] = frozenset()
    #: Text that the prompt requested, and text of the answer.
    wanted: str = ""
    text: str = ""
    #: Message of the server, or of the judge if the answer failed.
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeMode:
    """A mode of calls: response format, streaming and reasoning."""

    response_format: ResponseFormat
    streaming: bool
    #: Whether reasoning is turned on or off by the request; None if not set.
    reasoning: bool | None = None

    def __str__(self) -> str:
        reasoning = {None: "", True: ", reasoning on", False: ", reasoning off"}[self.reasoning]
        return f"{self.response_format}, {'streamed' if self.streaming else 'in one piece'}{reasoning}"

    @property
    def variant(self) -> str:
        """Name of the run's variant with this mode, as in `tool-streamed-reasoning-on`."""
        return str(self).replace(", ", "-").replace(" ", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replies:
    """Replies to several questions of the same kind."""

    #: Number of questions planned.
    planned: int
    replies: tuple[Reply, ...] = ()

    def __add__(self, more: Replies) -> Replies:
        """Return the replies of both objects together."""
        return Replies(planned=self.planned + more.planned, replies=self.replies + more.replies)

    def count(self, *kinds: ReplyKind) -> int:
        """Return the number of replies of these kinds."""
        return sum(reply.kind in kinds for reply in self.replies)

    @property
    def conforming(self) -> int:
        """Number of conforming answers."""
        return self.count(ReplyKind.CONFORMS)

    @property
    def decided(self) -> int:
        """Number of answers that are evidence for or against enforcement."""
        return self.count(ReplyKind.CONFORMS, ReplyKind.VIOLATES, ReplyKind.MIXED_UP)

    @property
    def wrong_replies(self) -> list[Reply]:
        """Answers that are impossible if the server enforces the schema."""
        return [reply for reply in self.replies if reply.kind in (ReplyKind.VIOLATES, ReplyKind.MIXED_UP)]

    @property
    def wrong(self) -> int:
        """Number of wrong replies."""
        return len(self.wrong_replies)

    @property
    def enforcement(self) -> Enforcement:
        """Finding from these replies: a single wrong answer is decisive, and failed calls are no evidence."""
        if self.count(ReplyKind.MIXED_UP):
            return Enforcement.MIXES_UP
        if self.wrong:
            ignored = not self.conforming and not any(reply.traced for reply in self.wrong_replies)
            return Enforcement.IGNORED if ignored else Enforcement.NOT_ENFORCED
        if self.count(ReplyKind.REFUSED):
            return Enforcement.REFUSED
        return Enforcement.ENFORCED if self.conforming * 2 >= max(self.planned, 1) else Enforcement.UNDECIDED

    @property
    def example(self) -> Reply | None:
        """Reply that best shows the fault; None if all replies conform."""
        order = (ReplyKind.MIXED_UP, ReplyKind.VIOLATES, ReplyKind.REFUSED, ReplyKind.UNDECIDED)
        return next((reply for kind in order for reply in self.replies if reply.kind is kind), None)

    @property
    def message(self) -> str:
        """Message of the server or the judge about the reply in `example`; empty if all replies conform."""
        return self.example.message if self.example else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelReplies:
    """Replies to questions that were sent with the same number of concurrent calls."""

    in_flight: int
    #: Highest number of concurrent calls reached.
    peak: int
    replies: Replies

    @property
    def reached(self) -> int:
        """Number of concurrent calls reached, which rate limits or a fast server can keep below the planned number."""
        return min(self.in_flight, self.peak)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordReplies:
    """Replies to questions whose prompt requests an answer that violates one keyword."""

    keyword: str
    replies: Replies

    @property
    def enforcement(self) -> Enforcement:
        """Finding for the keyword; a few wrong answers among many are not attributed to the keyword."""
        if 0 < self.replies.wrong * _SHARE_OF_KEYWORD < self.replies.decided:
            return Enforcement.SOMETIMES_WRONG
        return self.replies.enforcement

    @property
    def blamed(self) -> tuple[str, ...]:
        """
        Keywords to which the wrong answers are attributed: this keyword if an answer violates it or is not JSON;
        otherwise the keywords that the answers violate.
        """
        wrong = self.replies.wrong_replies
        if any(not reply.violated or self.keyword in reply.violated for reply in wrong) or self.keyword in SHAPES:
            return (self.keyword,)
        return tuple(sorted(frozenset().union(*(reply.violated for reply in wrong))))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeFinding:
    """Finding for a mode."""

    mode: ProbeMode
    #: Replies at each level (number of concurrent calls), in ascending order; probing ends after a level with mostly
    #: wrong answers or with faults that are attributed to load.
    levels: tuple[LevelReplies, ...]
    #: Replies to additional questions at the second-highest level, for comparison with the highest level.
    below: LevelReplies | None = None
    #: Levels, keywords and shapes that were not probed in this mode.
    not_asked: tuple[str, ...] = ()
    keywords: tuple[KeywordReplies, ...] = ()
    #: Replies to the control questions, without enforcement; None if the engine always enforces the schema.
    control: Replies | None = None
    #: Reason why probing ended early; empty if probing was completed.
    unfinished: str = ""

    @property
    def enforcement(self) -> Enforcement:
        """Overall finding for the mode."""
        if not self.levels:
            return Enforcement.UNDECIDED
        first = self.levels[0].replies.enforcement
        last = self.levels[-1].replies.enforcement
        if Enforcement.MIXES_UP in (first, last):
            return Enforcement.MIXES_UP
        if first in (Enforcement.REFUSED, Enforcement.UNDECIDED):
            return first
        if last in (Enforcement.REFUSED, Enforcement.UNDECIDED):
            return Enforcement.UNDECIDED
        if self.breaks_under_load:
            return Enforcement.BREAKS_UNDER_LOAD
        every = self._at_levels
        if every.wrong * _SHARE_OF_MODE > every.decided or (len(self.levels) == 1 and is_hopeless(every)):
            return first if first is Enforcement.IGNORED else Enforcement.NOT_ENFORCED
        if self.broken:
            return Enforcement.BROKEN_FOR_KEYWORDS
        if self.wrong:
            return Enforcement.SOMETIMES_WRONG
        # a model that sees the schema only in the prompt could have answered equally well
        by_chance = self.p_value is not None and self.p_value > SIGNIFICANCE
        return Enforcement.UNDECIDED if self.unfinished or by_chance else Enforcement.ENFORCED

    @property
    def breaks_under_load(self) -> bool:
        """Whether the highest level has significantly more wrong answers than the lower levels."""
        if len(self.levels) < 2 or not self.levels[-1].replies.wrong:
            return False
        last, lower = self.levels[-1].replies, _sum_replies(*self.levels[:-1], self.below)
        return one_sided_fisher((last.wrong, last.decided), (lower.wrong, lower.decided)) <= BLAMES_LOAD

    @property
    def wrong(self) -> int:
        """Number of wrong answers at all levels, and to questions about keywords that are not broken."""
        sound = (row.replies.wrong for row in self.keywords if row.enforcement is Enforcement.SOMETIMES_WRONG)
        return self._at_levels.wrong + sum(sound)

    @property
    def asked(self) -> int:
        """Number of answers that are evidence, at all levels and to questions about keywords that are not broken."""
        sound = (row.replies.decided for row in self.keywords if row.keyword not in self.broken)
        return self._at_levels.decided + sum(sound)

    @property
    def _at_levels(self) -> Replies:
        return _sum_replies(*self.levels, self.below)

    @property
    def passed(self) -> bool:
        """Whether everything that was probed is enforced."""
        return self.enforcement is Enforcement.ENFORCED and not self.refused and not self.undecided

    @property
    def conforming(self) -> Proportion:
        """Share of conforming answers, at all levels together."""
        return proportion(self._at_levels.conforming, self._at_levels.decided)

    @property
    def p_value(self) -> float | None:
        """Probability of so many conforming answers or more with the schema only in the prompt; None if unknown."""
        if self.control is None or not self.control.decided or not self.conforming.n:
            return None
        conforming = self.conforming
        return one_sided_fisher((conforming.successes, conforming.n), (self.control.conforming, self.control.decided))

    @property
    def sound_up_to(self) -> int:
        """Highest number of concurrent calls at which the schema was enforced; 0 if it never was."""
        sound = [level.reached for level in self.levels[: -1 if self.breaks_under_load else None] if _is_sound(level)]
        return max(sound, default=0)

    @property
    def broken(self) -> tuple[str, ...]:
        """Keywords and shapes that are not enforced."""
        wrong = {Enforcement.NOT_ENFORCED, Enforcement.IGNORED, Enforcement.MIXES_UP}
        blamed = (name for row in self.keywords if row.enforcement in wrong for name in row.blamed)
        return tuple(dict.fromkeys(blamed))

    @property
    def refused(self) -> tuple[str, ...]:
        """Keywords that the server rejected as unsupported."""
        return self._keywords(Enforcement.REFUSED)

    @property
    def undecided(self) -> tuple[str, ...]:
        """Keywords without evidence."""
        return self._keywords(Enforcement.UNDECIDED)

    @property
    def example(self) -> Reply | None:
        """Reply that best shows the fault; None if there is no fault."""
        return next(iter(self.examples), None)

    @property
    def examples(self) -> tuple[Reply, ...]:
        """Replies that best show the faults: at most one from the levels, and one from the keywords."""
        levels = [level.replies for level in reversed(self.levels)]
        keywords = [row.replies for row in self.keywords]
        wrong = ([one for one in part if one.enforcement is not Enforcement.ENFORCED] for part in (levels, keywords))
        return tuple(example for part in wrong for replies in part[:1] if (example := replies.example) is not None)

    def _keywords(self, *enforcements: Enforcement) -> tuple[str, ...]:
        return tuple(keyword.keyword for keyword in self.keywords if keyword.enforcement in enforcements)


def _sum_replies(*levels: LevelReplies | None) -> Replies:
    """Return the replies at all of these levels; a level that was not probed is None."""
    return sum((level.replies for level in levels if level is not None), Replies(planned=0))


def is_hopeless(replies: Replies) -> bool:
    """Return whether so many answers are wrong that the cause cannot be the load."""
    return replies.wrong > 1 and replies.wrong * _SHARE_OF_MODE > replies.decided


def _is_sound(level: LevelReplies) -> bool:
    replies = level.replies
    few = replies.wrong * _SHARE_OF_MODE <= replies.decided and not replies.count(ReplyKind.MIXED_UP)
    return replies.conforming > 0 and few
