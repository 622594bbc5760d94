"""The findings of a probe: a line for each way of asking, with its evidence, and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.text import printable
from pytest_jsbench.core.version import __version__
from pytest_jsbench.lab.probe.enforcement import Enforcement, LevelReplies, ModeFinding, Replies, ReplyKind
from pytest_jsbench.lab.probe.questions import SHAPES, Shown

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import EngineInfo
    from pytest_jsbench.lab.probe.enforcement import Probed

#: characters of an answer that are shown
_LONGEST_ANSWER = 160
SCHEMA_VERSION = "1.0"


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


def to_dict(probed: Probed, info: EngineInfo, *, started_at: str) -> dict[str, Any]:
    """All of it, as `probe.schema.json` says."""
    return {
        "schema_version": SCHEMA_VERSION,
        "version": __version__,
        "started_at": started_at,
        "engine": info.engine,
        "model": info.model,
        "details": dict(info.details),
        "enforced": probed.passed,
        "calls": probed.calls,
        "controls": [{"shown_in": shown, **_counts_to_dict(replies)} for shown, replies in probed.controls.items()],
        "modes": [_finding_to_dict(finding) for finding in probed.findings],
    }


def _finding_to_dict(finding: ModeFinding) -> dict[str, Any]:
    rate, shown = finding.conforming, finding.example
    return {
        "response_format": finding.mode.response_format.value,
        "streaming": finding.mode.streaming,
        "reasoning": finding.mode.reasoning,
        "enforcement": finding.enforcement.value,
        "passed": finding.passed,
        "said": _words(finding),
        "conforming": rate.successes,
        "decided": rate.n,
        "ci_low": rate.ci_low,
        "ci_high": rate.ci_high,
        "p_value": finding.p_value,
        "sound_up_to": finding.sound_up_to,
        "levels": [_level_to_dict(level) for level in finding.levels],
        "below": finding.below and _level_to_dict(finding.below),
        "keywords": [
            {"keyword": row.keyword, **_counts_to_dict(row.replies), "enforcement": row.enforcement.value}
            for row in finding.keywords
        ],
        "broken_for": list(finding.broken),
        "not_asked": list(finding.not_asked),
        "example": shown
        and {"kind": shown.kind.value, "wanted": shown.wanted, "answer": shown.text, "message": shown.message},
    }


def _level_to_dict(level: LevelReplies) -> dict[str, Any]:
    return {"in_flight": level.in_flight, "peak": level.peak, **_counts_to_dict(level.replies)}


def _counts_to_dict(replies: Replies) -> dict[str, Any]:
    counts = {kind.value: replies.count(kind) for kind in ReplyKind}
    return {
        "enforcement": replies.enforcement.value,
        "planned": replies.planned,
        **counts,
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
