"""The findings of a probe: a line for each way of asking, with its evidence, and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from msgspec import Meta

from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.core.json_values import Fraction, Natural
from pytest_jsbench.core.text import printable
from pytest_jsbench.core.version import __version__
from pytest_jsbench.lab.probe.enforcement import Enforcement, LevelReplies, ModeFinding, Replies, Reply, ReplyKind
from pytest_jsbench.lab.probe.questions import SHAPES, Shown

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import EngineInfo
    from pytest_jsbench.lab.probe.enforcement import Probed

#: characters of an answer that are shown
_LONGEST_ANSWER = 160
SCHEMA_VERSION = "1.0"


def _without(*excluded: StrEnum) -> Meta:
    """Describe the members of an enum that may stand in a field: all but these."""
    return Meta(extra_json_schema={"enum": [kind.value for kind in type(excluded[0]) if kind not in excluded]})


class RepliesReport(TypedDict):
    """The replies to questions of one kind."""

    #: what these replies say
    enforcement: Annotated[Enforcement, _without(Enforcement.BREAKS_UNDER_LOAD, Enforcement.BROKEN_FOR_KEYWORDS)]
    #: questions that were to be asked
    planned: Natural
    #: answers that conform to the schema of their own question
    conforms: Natural
    #: answers that do not
    violates: Natural
    #: answers with words of another question
    mixed_up: Natural
    #: requests that the server says it does not take
    refused: Natural
    #: calls that broke, and answers that were cut off: they say nothing
    undecided: Natural
    #: what the server or the judge said of the worst reply; empty where all conform
    message: str


class ControlReport(RepliesReport):
    """Its replies."""

    #: where the schema was shown; nowhere: no schema and no response format, beside json_object
    shown_in: Shown


class LevelReport(RepliesReport):
    """A level."""

    #: calls that were to be under way at once
    in_flight: Natural
    #: the most that were
    peak: Natural


class KeywordReport(RepliesReport):
    """A keyword."""

    #: which
    keyword: str


class ReplyReport(TypedDict):
    """A reply."""

    #: what is wrong with it
    kind: Annotated[ReplyKind, _without(ReplyKind.CONFORMS)]
    #: what the prompt asked for
    wanted: str
    #: what came back
    answer: str
    #: what the server or the judge said
    message: str


class ModeReport(TypedDict):
    """A way."""

    #: how the schema was sent; json_object sends none, and promises an object
    response_format: Annotated[ResponseFormat, _without(ResponseFormat.TEXT)]
    #: whether answers were streamed
    streaming: bool
    #: whether reasoning was asked for; None where nothing was said of it
    reasoning: bool | None
    #: what is found
    enforcement: Enforcement
    #: whether it is enforced, for each keyword that was asked too
    passed: bool
    #: the same in words, with the evidence
    said: str
    #: answers that conform, at all levels together
    conforming: Natural
    #: answers of which something is known
    decided: Natural
    #: of the rate of conforming answers: the exact 95 % interval (Clopper and Pearson); None where there are none
    ci_low: Fraction | None
    #: its upper end
    ci_high: Fraction | None
    #: the chance that a server which only shows the schema to the model answers so well: Fisher's exact test against
    #: the control; None where there is none
    p_value: Fraction | None
    #: the most calls that were under way at once while it was enforced; 0 where it never was
    sound_up_to: Natural
    #: by calls in flight, rising; the first that is not enforced is the last
    levels: list[LevelReport]
    #: more questions at the level below the last, against which it is held; None where none were needed
    below: LevelReport | None
    #: questions whose prompt asks to break one keyword; once for each format
    keywords: list[KeywordReport]
    #: keywords, and shapes of schemas (large, nested, recursive), that are to blame by the judge's violations
    broken_for: list[str]
    #: what was not asked in this way: levels, keywords, shapes; keywords: none of them
    not_asked: list[str]
    #: the reply that best shows what is wrong; None where nothing is
    example: ReplyReport | None


class ProbeReport(TypedDict):
    """The output of jsbench probe --json."""

    #: which shape: 1.0
    schema_version: str
    #: of pytest-jsbench
    version: str
    #: when, as ISO 8601
    started_at: str
    #: as --engine
    engine: str
    #: the model
    model: str
    #: what the engine says of itself, as in run.json
    details: dict[str, Any]
    #: whether all that was asked is enforced: the exit status is 0
    enforced: bool
    #: questions that were asked; retries are not counted
    calls: Natural
    #: the same questions with nothing that holds the answers to the schema; none where the engine cannot be asked so
    controls: list[ControlReport]
    #: one for each way of asking
    modes: list[ModeReport]


def line_of(finding: ModeFinding) -> str:
    """The one line on a way of asking."""
    return f"{finding.mode}: {_words(finding)}"


def evidence_of(finding: ModeFinding, *, verbose: bool) -> Iterator[str]:
    """The lines below that one: a wrong answer, what was not asked, and all counts where they are asked for."""
    if verbose:
        for level in finding.levels:
            peak = "" if level.peak >= level.in_flight else f" (never more than {level.peak} at once)"
            yield f"  {level.in_flight} in flight{peak}: {_counts(level.replies)}"
        if finding.below is not None:
            yield f"  {finding.below.in_flight} in flight once more: {_counts(finding.below.replies)}"
        for row in finding.keywords:
            yield f"  {row.keyword}: {_of_keyword(row.enforcement)}: {_counts(row.replies)}"
    shown = finding.example
    if shown is not None and shown.kind in (ReplyKind.VIOLATES, ReplyKind.MIXED_UP):
        yield f"  the prompt asked for  {printable(shown.wanted, _LONGEST_ANSWER)}"
        yield f"  the server answered   {printable(shown.text, _LONGEST_ANSWER) or '(nothing)'}"
        yield f"  which is wrong        {shown.message}"
    if others := [part for part in finding.not_asked if verbose or part.endswith("in flight")]:
        yield f"  not asked             {', '.join(others)}"
    for keyword in (*finding.refused, *finding.undecided):
        replies = next(row.replies for row in finding.keywords if row.keyword == keyword)
        yield f"  {keyword}: {_of_keyword(replies.enforcement)}: {replies.message}"


def control_lines(controls: Mapping[Shown, Replies]) -> Iterator[str]:
    """The lines on a model whose answers nobody holds to a schema."""
    for shown, replies in controls.items():
        where = "no response format, and no schema" if shown == "nowhere" else f"the schema only shown in the {shown}"
        yield f"control: {where}: {_counts(replies)}"


def report_of(probed: Probed, info: EngineInfo, *, started_at: str) -> ProbeReport:
    """The findings as JSON values."""
    return {
        "schema_version": SCHEMA_VERSION,
        "version": __version__,
        "started_at": started_at,
        "engine": info.engine,
        "model": info.model,
        "details": dict(info.details),
        "enforced": probed.passed,
        "calls": probed.calls,
        "controls": [{"shown_in": shown, **_of_replies(replies)} for shown, replies in probed.controls.items()],
        "modes": [_of_mode(finding) for finding in probed.findings],
    }


def _of_mode(finding: ModeFinding) -> ModeReport:
    rate, example, below = finding.conforming, finding.example, finding.below
    return {
        "response_format": finding.mode.response_format,
        "streaming": finding.mode.streaming,
        "reasoning": finding.mode.reasoning,
        "enforcement": finding.enforcement,
        "passed": finding.passed,
        "said": _words(finding),
        "conforming": rate.successes,
        "decided": rate.n,
        "ci_low": rate.ci_low,
        "ci_high": rate.ci_high,
        "p_value": finding.p_value,
        "sound_up_to": finding.sound_up_to,
        "levels": [_of_level(level) for level in finding.levels],
        "below": None if below is None else _of_level(below),
        "keywords": [
            {"keyword": row.keyword, **_of_replies(row.replies), "enforcement": row.enforcement}
            for row in finding.keywords
        ],
        "broken_for": list(finding.broken),
        "not_asked": list(finding.not_asked),
        "example": None if example is None else _of_reply(example),
    }


def _of_reply(reply: Reply) -> ReplyReport:
    return {"kind": reply.kind, "wanted": reply.wanted, "answer": reply.text, "message": reply.message}


def _of_level(level: LevelReplies) -> LevelReport:
    return {"in_flight": level.in_flight, "peak": level.peak, **_of_replies(level.replies)}


def _of_replies(replies: Replies) -> RepliesReport:
    return {
        "enforcement": replies.enforcement,
        "planned": replies.planned,
        "conforms": replies.conforming,
        "violates": replies.count(ReplyKind.VIOLATES),
        "mixed_up": replies.count(ReplyKind.MIXED_UP),
        "refused": replies.count(ReplyKind.REFUSED),
        "undecided": replies.count(ReplyKind.UNDECIDED),
        "message": replies.message,
    }


def _words(finding: ModeFinding) -> str:
    if not finding.levels:
        return f"undecided: {finding.unfinished or 'nothing was asked'}"
    last = finding.levels[-1]
    match finding.enforcement:
        case Enforcement.ENFORCED | Enforcement.NOT_ENFORCED | Enforcement.IGNORED as enforcement:
            words = f"{enforcement.replace('_', ' ')}: {_evidence(finding)}"
        case Enforcement.REFUSED:
            return f"refused: {last.replies.message}"
        case Enforcement.SOMETIMES_WRONG:
            words = f"wrong in {finding.wrong} of {finding.asked}, with no pattern: {_evidence(finding)}"
        case Enforcement.BREAKS_UNDER_LOAD:
            conforming = f"{last.replies.conforming} of {last.replies.decided} conform"
            words = f"breaks above {finding.sound_up_to} in flight: at {last.reached}, {conforming}"
        case Enforcement.MIXES_UP:
            above = f" above {finding.sound_up_to} in flight" if finding.sound_up_to else ""
            mixed = last.replies.count(ReplyKind.MIXED_UP)
            words = f"mixes answers up{above}: at {last.reached}, {mixed} of {last.replies.decided} are another's"
        case Enforcement.BROKEN_FOR_KEYWORDS:
            words = f"broken for {_named(finding.broken)}: {_evidence(finding)} otherwise"
        case Enforcement.UNDECIDED:
            return f"undecided: {_why_undecided(finding)}"
    if "keywords" in finding.not_asked and finding.enforcement is Enforcement.ENFORCED:
        words += "; keywords not asked in this way"
    others = {"refused": finding.refused, "undecided": finding.undecided}
    return "; ".join([words, *(f"{word} for {', '.join(names)}" for word, names in others.items() if names)])


def _named(broken: Sequence[str]) -> str:
    """Keywords and shapes of schemas, as a sentence names them."""
    keywords = [name for name in broken if name not in SHAPES]
    shapes = [name for name in broken if name in SHAPES]
    parts = [f"keyword{'s' if len(keywords) > 1 else ''} {', '.join(keywords)}"] if keywords else []
    return " and ".join([*parts, *([f"{', '.join(shapes)} schemas"] if shapes else [])])


def _evidence(finding: ModeFinding) -> str:
    rate = finding.conforming
    interval = "" if rate.ci_low is None else f" (95 %: {rate.ci_low:.2f} to {rate.ci_high:.2f})"
    parts = [f"{rate.successes} of {rate.n} conform{interval}"]
    if finding.sound_up_to > 1:
        parts.append(f"up to {finding.sound_up_to} in flight")
    if finding.sound_up_to and finding.p_value is not None:
        parts.append(f"p = {finding.p_value:.1g}")
    if finding.keywords:
        held = sum(row.enforcement is Enforcement.ENFORCED for row in finding.keywords if row.keyword not in SHAPES)
        count = sum(row.keyword not in SHAPES for row in finding.keywords)
        parts += [f"{held} of {count} keywords hold"] if count else []
        shapes = [
            row.keyword for row in finding.keywords if row.keyword in SHAPES and row.keyword not in finding.broken
        ]
        parts += [f"{', '.join(shapes)} schemas too"] if shapes else []
    return ", ".join(parts)


def _why_undecided(finding: ModeFinding) -> str:
    last = finding.levels[-1].replies
    if finding.unfinished:
        return f"{finding.unfinished}; {_counts(last)}"
    if last.enforcement is not Enforcement.ENFORCED:
        sound = f"enforced up to {finding.sound_up_to} in flight; " if finding.sound_up_to else ""
        return f"{sound}{_counts(last)}: {last.message}"
    assert finding.control is not None
    if not finding.control.conforming:
        return f"{_evidence(finding)}, which is too little to tell: ask more with --calls"
    shown = f"{finding.control.conforming} of {finding.control.decided}"
    where = (
        "without a response format"
        if finding.mode.response_format == "json_object"
        else "where the schema is only shown"
    )
    return f"{_evidence(finding)}; but so do {shown} {where}"


def _counts(replies: Replies) -> str:
    words = {
        ReplyKind.MIXED_UP: "another's",
        ReplyKind.REFUSED: "refused",
        ReplyKind.UNDECIDED: "without a usable answer",
    }
    parts = [f"{replies.conforming} of {replies.decided} conform"] if replies.decided else []
    parts += [f"{count} {word}" for kind, word in words.items() if (count := replies.count(kind))]
    if missing := replies.planned - len(replies.replies):
        parts.append(f"{missing} not asked")
    return ", ".join(parts) or "nothing asked"


def _of_keyword(enforcement: Enforcement) -> str:
    """A word for one keyword: the structure round it may well be held to."""
    words = {Enforcement.ENFORCED: "holds", Enforcement.REFUSED: "refused", Enforcement.UNDECIDED: "undecided"}
    words[Enforcement.SOMETIMES_WRONG] = "holds but for a few"
    return words.get(enforcement, "broken")
