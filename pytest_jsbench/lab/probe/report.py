"""Convert the findings of a probe to text, with a line and the evidence for each mode, and to JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from msgspec import Meta

from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.core.json_values import Fraction, Natural
from pytest_jsbench.core.text import format_count, printable
from pytest_jsbench.core.version import __version__
from pytest_jsbench.lab.probe.check import CheckFinding, Outcome, ServerFault
from pytest_jsbench.lab.probe.enforcement import Enforcement, LevelReplies, ModeFinding, Replies, Reply, ReplyKind
from pytest_jsbench.lab.probe.questions import SHAPES, Shown

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import EngineInfo
    from pytest_jsbench.lab.probe.probed import Probed

#: Maximum number of probed keywords up to which a mode that fails under load names the enforced keywords.
_MOST_NAMED = 3
#: Maximum number of characters of an answer that are printed.
_LONGEST_ANSWER = 160
#: Maximum number of characters of a check's finding that are printed.
_LONGEST_STATEMENT = 320
#: Widths of the columns of the table of checks.
_NAME_WIDTH, _OUTCOME_WIDTH = 17, 9
SCHEMA_VERSION = "1.0"


def _without(*excluded: StrEnum) -> Meta:
    """Return metadata that exclude these members from the JSON Schema of an enum field."""
    return Meta(extra_json_schema={"enum": [kind.value for kind in type(excluded[0]) if kind not in excluded]})


class RepliesReport(TypedDict):
    """Replies to several questions of the same kind."""

    #: Finding from these replies alone.
    enforcement: Annotated[Enforcement, _without(Enforcement.BREAKS_UNDER_LOAD, Enforcement.BROKEN_FOR_KEYWORDS)]
    #: Number of questions planned.
    planned: Natural
    #: Number of answers that conform to the schema of their own question.
    conforms: Natural
    #: Number of answers that do not conform.
    violates: Natural
    #: Number of answers with words of another question.
    mixed_up: Natural
    #: Number of requests that the server rejected as unsupported.
    refused: Natural
    #: Number of failed calls and truncated answers, which are no evidence.
    undecided: Natural
    #: Message of the server or the judge about the worst reply; empty if all replies conform.
    message: str


class ControlReport(RepliesReport):
    """Replies to the control questions."""

    #: Where the schema was shown; `nowhere` means no schema and no response format (the control for json_object).
    shown_in: Shown


class LevelReport(RepliesReport):
    """Replies at one number of concurrent calls."""

    #: Number of concurrent calls planned.
    in_flight: Natural
    #: Highest number of concurrent calls reached.
    peak: Natural


class KeywordReport(RepliesReport):
    """Replies to the questions about one keyword."""

    #: Keyword, or shape of a schema.
    keyword: str


class ReplyReport(TypedDict):
    """A reply of the server that shows a fault."""

    #: Kind of the reply, other than conforming.
    kind: Annotated[ReplyKind, _without(ReplyKind.CONFORMS)]
    #: Text that the prompt requested.
    wanted: str
    #: Text of the answer.
    answer: str
    #: Message of the server or the judge.
    message: str


class ModeReport(TypedDict):
    """Findings for one mode: a response format, streamed or not, with or without reasoning."""

    #: How the schema was sent; json_object sends no schema, and only promises an object.
    response_format: Annotated[ResponseFormat, _without(ResponseFormat.TEXT)]
    #: Whether answers were streamed.
    streaming: bool
    #: Whether reasoning was requested; None if it was not set.
    reasoning: bool | None
    #: Finding for this mode.
    enforcement: Enforcement
    #: Whether the schema is enforced, including each keyword that was probed.
    passed: bool
    #: Finding and evidence as text.
    said: str
    #: Number of conforming answers, at all levels together.
    conforming: Natural
    #: Number of answers that are evidence: conforming, violating or mixed up.
    decided: Natural
    #: Lower end of the exact (Clopper-Pearson) 95 % interval of the rate of conforming answers; None without answers.
    ci_low: Fraction | None
    #: Upper end of the same interval.
    ci_high: Fraction | None
    #: Probability of so many conforming answers or more if the server only showed the schema to the model: Fisher's
    #: exact test against the control; None without a control.
    p_value: Fraction | None
    #: Highest number of concurrent calls at which the schema was enforced; 0 if it never was.
    sound_up_to: Natural
    #: Replies at each number of concurrent calls, in ascending order; probing ends after the first level without
    #: enforcement.
    levels: list[LevelReport]
    #: Replies to additional questions at the second-highest level, for comparison with the highest level; None if not
    #: needed.
    below: LevelReport | None
    #: Replies to questions whose prompt requests a violation of a single keyword. One mode per response format probes
    #: all keywords; the format's other modes probe only the broken keywords.
    keywords: list[KeywordReport]
    #: Keywords and shapes of schemas (large, nested, recursive) that are not enforced.
    broken_for: list[str]
    #: Levels, keywords and shapes that were not probed in this mode; `keywords` means that no keyword was probed.
    not_asked: list[str]
    #: Reply that best shows the fault; None if all replies conform.
    example: ReplyReport | None


class CheckReport(TypedDict):
    """Finding of a check of the server, next to its schemas."""

    #: Name of the check.
    check: str
    #: Whether the server does what its API specifies.
    outcome: Outcome
    #: Finding and evidence as text.
    said: str
    #: Faults that were found; empty for another outcome.
    faults: list[ServerFault]
    #: An answer that shows the fault, by labels such as `the server answered`; empty without a fault.
    example: dict[str, str]


class ProbeReport(TypedDict):
    """Output of jsbench probe --json."""

    #: Version of this format: 1.0.
    schema_version: str
    #: Version of pytest-jsbench.
    version: str
    #: Start time in ISO 8601.
    started_at: str
    #: Name of the engine, as for --engine.
    engine: str
    #: Name of the model.
    model: str
    #: Details that the engine reports about itself, as in run.json.
    details: dict[str, Any]
    #: Whether the schema is enforced in all modes and for all keywords that were probed.
    enforced: bool
    #: Whether `enforced` is true, and all checks that were made have the outcome `ok`; the exit status is then 0.
    passed: bool
    #: Number of calls, without retries.
    calls: Natural
    #: Replies to control questions, without enforcement; empty if the engine always enforces the schema.
    controls: list[ControlReport]
    #: Findings, one per mode.
    modes: list[ModeReport]
    #: Findings of the checks that were made.
    checks: list[CheckReport]
    #: Checks that cannot be made with the engine, each with the reason.
    not_checked: dict[str, str]


def line_of(finding: ModeFinding) -> str:
    """Return the finding for a mode as one line."""
    return f"{finding.mode}: {_words(finding)}"


def evidence_of(finding: ModeFinding, *, verbose: bool) -> Iterator[str]:
    """Yield lines with the evidence: wrong answers, parts that were not probed, and with `verbose` all counts."""
    if verbose:
        for level in finding.levels:
            peak = "" if level.peak >= level.in_flight else f" (never more than {level.peak} at once)"
            yield f"  {level.in_flight} in flight{peak}: {_counts(level.replies)}"
        if finding.below is not None:
            yield f"  {finding.below.in_flight} in flight, additional: {_counts(finding.below.replies)}"
        for row in finding.keywords:
            yield f"  {row.keyword}: {_of_keyword(row.enforcement)}: {_counts(row.replies)}"
    for shown in finding.examples:
        if shown.kind not in (ReplyKind.VIOLATES, ReplyKind.MIXED_UP):
            continue
        yield f"  the prompt asked for  {printable(shown.wanted, _LONGEST_ANSWER)}"
        yield f"  the server answered   {printable(shown.text, _LONGEST_ANSWER) or '(nothing)'}"
        yield f"  which is wrong        {shown.message}"
    if others := [part for part in finding.not_asked if verbose or part.endswith("in flight")]:
        yield f"  not probed            {', '.join(others)}"
    for keyword in (*finding.refused, *finding.undecided):
        replies = next(row.replies for row in finding.keywords if row.keyword == keyword)
        yield f"  {keyword}: {_of_keyword(replies.enforcement)}: {replies.message}"


def control_lines(controls: Mapping[Shown, Replies]) -> Iterator[str]:
    """Yield a line for each kind of control question."""
    for shown, replies in controls.items():
        where = "without response format and schema" if shown == "nowhere" else f"with the schema only in the {shown}"
        yield f"control: {where}: {_counts(replies)}"


def check_lines(finding: CheckFinding) -> Iterator[str]:
    """Yield the line of a check in the table of checks, and the lines of its example."""
    said = printable(finding.said, _LONGEST_STATEMENT)
    yield f"{finding.check:<{_NAME_WIDTH}}  {finding.outcome:<{_OUTCOME_WIDTH}}  {said}"
    for label, text in finding.example:
        yield f"  {label:<20}  {printable(text, _LONGEST_ANSWER) or '(nothing)'}"


def summary_of(probed: Probed) -> str:
    """Return the last line of a probe: the numbers of enforced modes, of checks by outcome, and of calls."""
    modes = f"enforced in {sum(finding.passed for finding in probed.findings)} of {len(probed.findings)} modes"
    counts = Counter(check.outcome for check in probed.checks)
    checks = ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome])
    return "; ".join([modes, *([f"checks: {checks}"] if checks else []), format_count(probed.calls, "call")])


def report_of(probed: Probed, info: EngineInfo, *, started_at: str) -> ProbeReport:
    """Return the findings as JSON values."""
    return {
        "schema_version": SCHEMA_VERSION,
        "version": __version__,
        "started_at": started_at,
        "engine": info.engine,
        "model": info.model,
        "details": dict(info.details),
        "enforced": probed.enforced,
        "passed": probed.passed,
        "calls": probed.calls,
        "controls": [{"shown_in": shown, **_of_replies(replies)} for shown, replies in probed.controls.items()],
        "modes": [_of_mode(finding) for finding in probed.findings],
        "checks": [_of_check(finding) for finding in probed.checks],
        "not_checked": dict(probed.not_checked),
    }


def _of_check(finding: CheckFinding) -> CheckReport:
    return {
        "check": finding.check,
        "outcome": finding.outcome,
        "said": finding.said,
        "faults": list(finding.faults),
        "example": dict(finding.example),
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
        return f"undecided: {finding.unfinished or 'no calls were made'}"
    last = finding.levels[-1]
    match finding.enforcement:
        case Enforcement.ENFORCED | Enforcement.NOT_ENFORCED | Enforcement.IGNORED as enforcement:
            words = f"{enforcement.replace('_', ' ')}: {_evidence(finding)}"
        case Enforcement.REFUSED:
            return f"refused: {last.replies.message}"
        case Enforcement.SOMETIMES_WRONG:
            words = f"wrong in {finding.wrong} of {finding.asked}, regardless of load and keyword: {_evidence(finding)}"
        case Enforcement.BREAKS_UNDER_LOAD:
            conforming = f"{last.replies.conforming} of {last.replies.decided} conform"
            words = f"breaks above {finding.sound_up_to} in flight: at {last.reached}, {conforming}"
        case Enforcement.MIXES_UP:
            above = f" above {finding.sound_up_to} in flight" if finding.sound_up_to else ""
            mixed = last.replies.count(ReplyKind.MIXED_UP)
            share = f"{mixed} of {last.replies.decided}"
            words = f"mixes up answers{above}: at {last.reached}, {share} belong to other requests"
        case Enforcement.BROKEN_FOR_KEYWORDS:
            words = f"broken for {_join_names(finding.broken)}: otherwise {_evidence(finding)}"
        case Enforcement.UNDECIDED:
            return f"undecided: {_why_undecided(finding)}"
    if "keywords" in finding.not_asked and finding.enforcement is Enforcement.ENFORCED:
        words += "; keywords not probed in this mode"
    others = {"refused": finding.refused, "undecided": finding.undecided}
    under_load = finding.enforcement in (Enforcement.BREAKS_UNDER_LOAD, Enforcement.MIXES_UP)
    if under_load and finding.broken:
        words += f"; broken for {_join_names(finding.broken)}"
    elif under_load and 0 < len(finding.keywords) <= _MOST_NAMED:
        sound = [row.keyword for row in finding.keywords if row.enforcement is Enforcement.ENFORCED]
        words += f"; {_join_names(sound)} enforced" if sound else ""
    return "; ".join([words, *(f"{word} for {', '.join(names)}" for word, names in others.items() if names)])


def _join_names(broken: Sequence[str]) -> str:
    """Join the names of keywords and shapes of schemas into a phrase."""
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
        enforced = sum(row.enforcement is Enforcement.ENFORCED for row in finding.keywords if row.keyword not in SHAPES)
        count = sum(row.keyword not in SHAPES for row in finding.keywords)
        parts += [f"{enforced} of {count} keywords enforced"] if count else []
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
        return f"{_evidence(finding)}, which is too little evidence: raise --calls"
    shown = f"{finding.control.conforming} of {finding.control.decided}"
    where = (
        "without a response format"
        if finding.mode.response_format == "json_object"
        else "if the schema is only in a message"
    )
    return f"{_evidence(finding)}; but {shown} also conform {where}"


def _counts(replies: Replies) -> str:
    words = {
        ReplyKind.MIXED_UP: "of other requests",
        ReplyKind.REFUSED: "refused",
        ReplyKind.UNDECIDED: "without a usable answer",
    }
    parts = [f"{replies.conforming} of {replies.decided} conform"] if replies.decided else []
    parts += [f"{count} {word}" for kind, word in words.items() if (count := replies.count(kind))]
    if missing := replies.planned - len(replies.replies):
        parts.append(f"{missing} not sent")
    return ", ".join(parts) or "nothing sent"


def _of_keyword(enforcement: Enforcement) -> str:
    """Return the finding for a keyword as text; other parts of the schema may still be enforced."""
    words = {Enforcement.ENFORCED: "enforced", Enforcement.REFUSED: "refused", Enforcement.UNDECIDED: "undecided"}
    words[Enforcement.SOMETIMES_WRONG] = "enforced in most answers"
    return words.get(enforcement, "broken")
