"""Build the list of attempts in report.html, with the details of the attempts in compressed chunks."""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_jsbench.core.generations import Completion, Decided, Declined, GrammarDecision
from pytest_jsbench.core.json_values import to_json
from pytest_jsbench.core.text import json_text, list_names, printable, shorten
from pytest_jsbench.records.facts import open_lines
from pytest_jsbench.records.records import Cause, Record
from pytest_jsbench.reports.repeats import find_differing_fields
from pytest_jsbench.schemas.references import json_path
from pytest_jsbench.values import Fault, describe_match
from pytest_jsbench.verdicts.verdicts import extra_fields, headline

if TYPE_CHECKING:
    from pytest_jsbench.core.files import LinesByPlace
    from pytest_jsbench.metrics.comparison import Comparison
    from pytest_jsbench.records.facts import AttemptFacts, RecordedVerdict
    from pytest_jsbench.records.records import ProjectTestOutcome
    from pytest_jsbench.records.repairs import Repairs
    from pytest_jsbench.records.runs import Run
    from pytest_jsbench.verdicts import Verdict

_LONGEST_TEXT = 10_000
_LONGEST_MESSAGE = 200
_MOST_FIELDS = 20
#: Maximum total length in characters of the messages of all attempts.
_ALL_MESSAGES = 8_000_000
#: Rank of attempts that passed and have no wrong value.
_RIGHT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSpace:
    """Space for the attempts of a run on its page."""

    #: Number of attempts in a compressed chunk, and number of attempts that the page adds to the list at a time.
    chunk: int = 100
    #: Maximum total length of the details in characters of base64.
    details: int = 4_000_000
    #: Maximum length of the compressed list in bytes.
    listing: int = 3_300_000


_SPACE = PageSpace()


class PackedCases(NamedTuple):
    """Attempts of a run, compressed and encoded for the page."""

    #: Details of successive attempts in the list, compressed, as base64.
    chunks: list[str]
    #: Entries of the list and the values of its filters, compressed, as base64.
    listing: str


def pack_cases(run: Run, comparisons: Mapping[str, Comparison], *, space: PageSpace = _SPACE) -> PackedCases:
    """
    Return the attempts of a run with their changes since the baseline, one record at a time to limit memory.

    Failed attempts are listed first, then those with wrong values. If the page becomes too large, details of correct
    attempts are omitted first, and then their entries in the list.
    """
    ranked = len(run.outcomes) > space.chunk
    outcomes = sorted(run.outcomes, key=rank)
    planned = Counter(run.planned)
    variants = {name: place for place, name in enumerate(run.variants)}
    longest = min(_LONGEST_MESSAGE, _ALL_MESSAGES // max(1, len(outcomes)))
    changes = {
        (name, key): change
        for name, comparison in comparisons.items()
        for change, keys in (("broke", comparison.newly_failing), ("fixed", comparison.newly_passing))
        for key in keys
    }
    differing = find_differing_fields(outcomes)
    room = space.details
    chunks = list[str]()
    listed = 0
    detailed = 0
    filters: dict[str, set[str]] = {"task": set(), "outcome": set(), "keyword": set()}
    packed = io.BytesIO()
    with open_lines() as lines, gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0) as index:
        index.write(b'{"cases":[')
        while listed < len(outcomes) and not (listed and packed.tell() > space.listing):
            part = outcomes[listed : listed + space.chunk]
            details: list[dict[str, Any]] = []
            for number, outcome in enumerate(part, listed):
                record = _read(outcome, lines, with_details=bool(room), skips_right=ranked)
                if isinstance(record, Record):
                    details.append(details_of(record, differing.get((outcome.key, outcome.variant), ())))
                repeats = run.metadata.repeats if variants else planned[outcome.key]
                # `variant` is the index of the variant
                entry: dict[str, Any] = {"variant": variants.get(outcome.variant, -1)} if variants else {}
                entry |= {
                    "task": outcome.key.task,
                    "name": str(outcome.key) if repeats <= 1 else f"{outcome.key}[{outcome.repeat + 1}]",
                    "outcome": ending_of(outcome),
                    "message": "" if record is None else shorten(reason_of(record), longest, cut="end"),
                    "keywords": sorted({printable(keyword, 60) for keyword in outcome.broken}),
                    "change": changes.get((outcome.variant if variants else "", outcome.key), ""),
                }
                filters["task"].add(entry["task"])
                filters["outcome"].add(entry["outcome"])
                filters["keyword"].update(entry["keywords"])
                index.write((b"," if number else b"") + _json_bytes(entry))
            listed += len(part)
            # base64 needs no escaping in a page
            chunk = base64.b64encode(gzip.compress(_json_bytes(details), 6, mtime=0)).decode("ascii")
            if not room or len(chunk) > room:
                room = 0
                continue
            room -= len(chunk)
            chunks.append(chunk)
            detailed = listed
        counts = {
            **{f"{name}s": sorted(values) for name, values in filters.items()},
            "starts": list(range(0, detailed, space.chunk)),
            "detailed": detailed,
            "unlisted": len(outcomes) - listed,
            "variants": [printable(name) for name in run.variants],
        }
        index.write(b"]," + _json_bytes(counts)[1:])
    return PackedCases(chunks=chunks, listing=base64.b64encode(packed.getvalue()).decode("ascii"))


def _read(
    outcome: AttemptFacts, lines: LinesByPlace, *, with_details: bool, skips_right: bool
) -> Record | RecordedVerdict | None:
    """Return the record if there is space for its details; otherwise its verdict, or None for a correct attempt."""
    if with_details:
        return outcome.read(lines)
    return None if skips_right and rank(outcome) == _RIGHT else outcome.read_verdict(lines)


def _json_bytes(data: object) -> bytes:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def rank(outcome: AttemptFacts) -> int:
    """Return a sort key: failed attempts first, then undecided ones, then those with wrong values, then the others."""
    if not outcome.passed:
        return 0 if outcome.failing else 1
    if _failed_test(outcome):
        return 0
    return 2 if outcome.match is not None and not outcome.match.exact else _RIGHT


def ending_of(outcome: AttemptFacts) -> str:
    """Return how an attempt ended as a word: its failure type, why the project's own test failed, or `passed`."""
    return outcome.failure_type or _failed_test(outcome) or "passed"


def _failed_test(outcome: AttemptFacts) -> str:
    """Return why the project's own test failed as a word; empty if it did not fail."""
    test = outcome.test_outcome
    return test.cause.value if test is not None and test.cause is not None else ""


def reason_of(record: Record | RecordedVerdict) -> str:
    """Return why an attempt did not pass, or else which of its values are wrong."""
    if not record.verdict.passed:
        return printable(record.verdict.message, _LONGEST_MESSAGE)
    lines = [] if record.match is None or record.match.exact else describe_match(record.match)
    values = "; ".join(lines[1:] or lines)
    test = record.test_outcome
    failed = _test(test) if test is not None and test.passed is False else ""
    return printable("; ".join(filter(None, (values or record.verdict.message, failed))), _LONGEST_MESSAGE)


def details_of(record: Record, differing: Sequence[str] = ()) -> dict[str, Any]:
    """
    Return the details of an attempt by the names that the script of the page uses.

    `differing` names the fields whose values differ between the answers to the case.
    """
    generation = record.generation
    redacted = record.redacted
    prompt = record.prompt
    sent = record.sent
    answer = ""
    if isinstance(generation, Decided):
        answer = _cut("\n".join(map(_decision, generation.decisions)))
    elif isinstance(generation, Completion):
        answer = _cut(generation.text if record.offer is None else generation.shown) or "(empty)"
    schema = _json(record.schema if record.offer is None else {"schema": record.schema, **to_json(record.offer)})
    if redacted is not None:
        schema = _cut(f"{record.schema_digest}\nuses {', '.join(redacted.keywords) or 'no keyword'}")
    turns = [] if prompt is None else [f"[{message.role}]\n{message.shown}" for message in prompt.messages]
    return {
        "verdict": _cut("\n".join((*_verdict(record.verdict), *_differences(differing), *_tries(record.repairs)))),
        "next": record.next_step,
        "test": _test(record.test_outcome),
        "answer": answer,
        "reasoning": _cut(getattr(generation, "reasoning", "")),
        "values": "" if record.match is None else _cut("\n".join(describe_match(record.match))),
        "expected": _expected_lines(record),
        "schema": schema,
        "sent": "" if sent is None or sent.schema is None else _json(sent.schema),
        "prompt": _cut("\n\n".join(turns)),
        "measured": ", ".join(_measurements(record)),
    }


def _decision(decision: GrammarDecision) -> str:
    accepted = {True: "accepted", False: "rejected", None: "undecided"}[decision.accepted]
    wrong = ", wrongly" if decision.wrong else ""
    return f"{'valid' if decision.valid else 'invalid'} {decision.id}: {accepted}{wrong}"


def _verdict(verdict: Verdict) -> Iterator[str]:
    yield headline(verdict)
    for violation in verdict.violations:
        yield f"{violation.keyword} at {violation.instance_path} [schema {violation.schema_path}]: {violation.message}"
    for fault, paths in extra_fields(verdict):
        yield f"{fault}: {', '.join(paths)}"
    if verdict.notes:
        share = "" if verdict.runaway_share is None else f" ({verdict.runaway_share:.0%} of the characters)"
        yield f"noted: {', '.join(verdict.notes)}{share}"
    yield f"second opinion: {verdict.second_opinion}"


def _differences(fields: Sequence[str]) -> Iterator[str]:
    """Yield a line with the fields whose values differ between the answers to the case."""
    if fields:
        yield f"fields that differ between the answers to this case: {list_names(fields, _MOST_FIELDS)}"


def _tries(repairs: Repairs | None) -> Iterator[str]:
    """Yield what became of each second try, with its answer."""
    if repairs is None:
        return
    for number, each in enumerate(repairs.tries, start=1):
        yield f"second try {number}: {headline(each.verdict)}"
        if isinstance(each.generation, Completion):
            yield each.generation.text
    if repairs.json_repair is not None:
        yield f"json-repair {'rescues' if repairs.json_repair else 'does not rescue'} the first answer"


def _test(test: ProjectTestOutcome | None) -> str:
    """Return how the project's own test ended; empty without a test, or if the verdict made the test fail."""
    if test is None or test.cause is Cause.ANSWER:
        return ""
    field = "" if test.field is None else f" ({test.field})"
    return _cut(f"{test.cause or test.end}{field}{': ' if test.message else ''}{test.message}")


def _expected_lines(record: Record) -> list[tuple[str, str]]:
    """Return the lines of the expected instance, each with the answer's value if it differs, else with ''."""
    if record.expected is None:
        return []
    differences = () if record.match is None else record.match.differences
    # unexpected values have no line in the expected instance
    wrong = {difference.path: difference for difference in differences if difference.fault is not Fault.INVENTED}
    lines: list[tuple[str, str]] = []
    room = _LONGEST_TEXT
    for line, path in _indented_lines(record.expected.value):
        if (room := room - len(line)) < 0:
            return [*lines, ("… truncated: records.jsonl contains all lines", "")]
        fault = wrong.get(json_path(path)) if wrong and path is not None else None
        actual = ""
        if fault is not None:
            actual = "missing" if fault.fault is Fault.MISSING else _json(fault.found)
        lines.append((line, actual))
    return lines


def _indented_lines(
    value: object, path: tuple[str | int, ...] = (), before: str = "", after: str = ""
) -> Iterator[tuple[str, tuple[str | int, ...] | None]]:
    """Yield the lines of the value as indented JSON, each with the path of the value that begins in the line."""
    indent = "  " * min(len(path), 50) + before
    if not (isinstance(value, dict | list) and value):
        yield f"{indent}{_json(value)}{after}", path
        return
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    yield indent + opening, path
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for number, (step, member) in enumerate(members, 1):
        name = f"{json_text(step)}: " if isinstance(step, str) else ""
        yield from _indented_lines(member, (*path, step), name, "," if number < len(value) else "")
    yield "  " * min(len(path), 50) + closing + after, None


def _measurements(record: Record) -> Iterator[str]:
    generation = record.generation
    if isinstance(generation, Decided):
        compiled = generation.timing.grammar_compilation
        without_mask = generation.timing.compile_time
        if compiled is not None:
            yield f"grammar compiled in {compiled * 1000:.2f} ms"
        if compiled is not None and without_mask is not None:
            yield f"{without_mask * 1000:.2f} without its first mask"
    elif isinstance(generation, Completion | Declined):
        for name, title in {"ttft": "TTFT", "tgt": "TGT", "gct": "GCT", "reasoning_time": "reasoning"}.items():
            if (seconds := getattr(generation.timing, name, None)) is not None:
                yield f"{title} {seconds:.3f} s"
        if record.queue_s:
            yield f"waited {record.queue_s:.3f} s to be sent"
        for kind in ("input", "cached", "output", "reasoning"):
            if (count := getattr(generation.usage, f"{kind}_tokens")) is not None:
                yield f"{count:,} {kind} tokens"
        if generation.usage.cache_write_tokens:
            yield f"{generation.usage.cache_write_tokens:,} tokens written to the cache"
        if generation.usage.service_tier is not None:
            yield f"service tier {printable(generation.usage.service_tier, 60)}"
        if record.retries:
            yield f"{record.retries} failed tries before"


def _json(value: object) -> str:
    """Return the value as JSON in one line with hidden characters escaped, shortened if it is too long."""
    text = json_text(value)
    more = "\n… truncated: records.jsonl contains all {:,} characters"
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + more.format(len(text))


def _cut(text: str) -> str:
    more = len(text) - _LONGEST_TEXT
    shown = printable(text[:_LONGEST_TEXT], 10 * _LONGEST_TEXT, lines=True)
    return f"{shown}\n… and {more:,} characters more, in records.jsonl" if more > 0 else shown
