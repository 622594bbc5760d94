"""
Decide from a probe's answers, for each way of asking, if a server holds them to their schemas.

An answer that conforms is evidence, since the prompt asks for another and the schema holds words made at random. How
good the evidence is, a control tells: the same questions with the schema only shown in the prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.lab.probe.questions import SHAPES, Shown
from pytest_jsbench.metrics.statistics import SIGNIFICANCE, Proportion, one_sided_fisher, proportion

#: a way is not enforced where more than one in so many answers is wrong, and a keyword is broken where one in so many
_SHARE_OF_MODE, _SHARE_OF_KEYWORD = 5, 2
#: the chance up to which a level's faults are blamed on load: several ways are asked at several levels
_BLAMES_LOAD = 0.01


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
    #: a few answers do not conform, wherever they were asked
    SOMETIMES_WRONG = "sometimes_wrong"
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
    #: the keywords that it breaks, or on whose way the broken ones stand; none where it is no JSON
    violated: frozenset[str] = frozenset()
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

    def __add__(self, more: Replies) -> Replies:
        """The replies to all of these questions."""
        return Replies(planned=self.planned + more.planned, replies=self.replies + more.replies)

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
    def wrong_replies(self) -> list[Reply]:
        """The answers that a server which holds to the schema would not give."""
        return [reply for reply in self.replies if reply.kind in (ReplyKind.VIOLATES, ReplyKind.MIXED_UP)]

    @property
    def wrong(self) -> int:
        """The number of wrong replies."""
        return len(self.wrong_replies)

    @property
    def enforcement(self) -> Enforcement:
        """The finding of all replies; a fault of network or account says nothing, and one bad answer says all."""
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
        """The reply that best shows what is wrong; None where nothing is."""
        order = (ReplyKind.MIXED_UP, ReplyKind.VIOLATES, ReplyKind.REFUSED, ReplyKind.UNDECIDED)
        return next((reply for kind in order for reply in self.replies if reply.kind is kind), None)

    @property
    def message(self) -> str:
        """The words of the server, or of the judge, on that reply."""
        return self.example.message if self.example else ""


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

    @property
    def enforcement(self) -> Enforcement:
        """The finding on it: a few wrong answers among many are no fault of the keyword."""
        if 0 < self.replies.wrong * _SHARE_OF_KEYWORD < self.replies.decided:
            return Enforcement.SOMETIMES_WRONG
        return self.replies.enforcement

    @property
    def blamed(self) -> tuple[str, ...]:
        """The keywords that the wrong answers break: this one where the judge says so, or where there was no JSON."""
        wrong = self.replies.wrong_replies
        if any(not reply.violated or self.keyword in reply.violated for reply in wrong) or self.keyword in SHAPES:
            return (self.keyword,)
        return tuple(sorted(frozenset().union(*(reply.violated for reply in wrong))))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeFinding:
    """The finding on a way of asking."""

    mode: ProbeMode
    #: by rising number in flight; the first at which most is wrong, or load is to blame, is the last that was asked
    levels: tuple[LevelReplies, ...]
    #: more questions at the level below the last, against which it is held
    below: LevelReplies | None = None
    #: what was not asked in this way
    not_asked: tuple[str, ...] = ()
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
        # a model that is only shown the schema may as well have answered so
        by_chance = self.p_value is not None and self.p_value > SIGNIFICANCE
        return Enforcement.UNDECIDED if self.unfinished or by_chance else Enforcement.ENFORCED

    @property
    def breaks_under_load(self) -> bool:
        """True where the last level has more wrong answers than chance allows, beside those below it."""
        if len(self.levels) < 2 or not self.levels[-1].replies.wrong:
            return False
        last, lower = self.levels[-1].replies, _together(*self.levels[:-1], self.below)
        return one_sided_fisher((last.wrong, last.decided), (lower.wrong, lower.decided)) <= _BLAMES_LOAD

    @property
    def wrong(self) -> int:
        """The wrong answers of all levels, and of the keywords that are not broken."""
        sound = (row.replies.wrong for row in self.keywords if row.enforcement is Enforcement.SOMETIMES_WRONG)
        return self._at_levels.wrong + sum(sound)

    @property
    def asked(self) -> int:
        """The answers of which something is known, at all levels and to keywords that are not broken."""
        sound = (row.replies.decided for row in self.keywords if row.keyword not in self.broken)
        return self._at_levels.decided + sum(sound)

    @property
    def _at_levels(self) -> Replies:
        return _together(*self.levels, self.below)

    @property
    def passed(self) -> bool:
        """True where all that was asked is enforced."""
        return self.enforcement is Enforcement.ENFORCED and not self.refused and not self.undecided

    @property
    def conforming(self) -> Proportion:
        """The share of answers that conform, at all levels together."""
        return proportion(self._at_levels.conforming, self._at_levels.decided)

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
        sound = [level.reached for level in self.levels[: -1 if self.breaks_under_load else None] if _is_sound(level)]
        return max(sound, default=0)

    @property
    def broken(self) -> tuple[str, ...]:
        """Keywords that some answer breaks."""
        wrong = {Enforcement.NOT_ENFORCED, Enforcement.IGNORED, Enforcement.MIXES_UP}
        blamed = (name for row in self.keywords if row.enforcement in wrong for name in row.blamed)
        return tuple(dict.fromkeys(blamed))

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
        levels = [level.replies for level in reversed(self.levels)]
        for replies in (*levels, *(row.replies for row in self.keywords)):
            if replies.enforcement is not Enforcement.ENFORCED:
                return replies.example
        return None

    def _keywords(self, *enforcements: Enforcement) -> tuple[str, ...]:
        return tuple(keyword.keyword for keyword in self.keywords if keyword.enforcement in enforcements)


def _together(*levels: LevelReplies | None) -> Replies:
    """The replies at these levels, of which one may not have been asked."""
    return sum((level.replies for level in levels if level is not None), Replies(planned=0))


def is_hopeless(replies: Replies) -> bool:
    """True where so much is wrong that nobody holds the answers to their schemas, whatever the load."""
    return replies.wrong > 1 and replies.wrong * _SHARE_OF_MODE > replies.decided


def _is_sound(level: LevelReplies) -> bool:
    replies = level.replies
    few = replies.wrong * _SHARE_OF_MODE <= replies.decided and not replies.count(ReplyKind.MIXED_UP)
    return replies.conforming > 0 and few


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """The findings of a probe."""

    findings: Sequence[ModeFinding]
    #: by where the schema was shown; none where the engine cannot be asked without a response format
    controls: Mapping[Shown, Replies]
    #: calls that were made, apart from retries
    calls: int

    @property
    def passed(self) -> bool:
        """True where all that was asked is enforced."""
        return bool(self.findings) and all(finding.passed for finding in self.findings)
