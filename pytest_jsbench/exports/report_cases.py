"""The cases of a run as the page of a report holds them: packed, so that ten thousand are quick and none is markup."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.text import json_text, printable
from pytest_jsbench.generations import Completion, Decided, Decision, Declined

if TYPE_CHECKING:
    from pytest_jsbench.comparisons import Comparison
    from pytest_jsbench.records import Record, Run

#: cases that are unpacked together
CHUNK = 100
_LONGEST_TEXT = 10_000
_LONGEST_MESSAGE = 200


def index(run: Run, comparison: Comparison | None) -> str:
    """What the list shows and searches of every attempt."""
    broke = set(comparison.newly_failing) if comparison else set()
    mended = set(comparison.newly_passing) if comparison else set()
    planned = Counter(run.planned)
    cases = [
        {
            "task": printable(record.key.task),
            "name": printable(_name(record, repeats=planned[record.key])),
            "outcome": record.verdict.failure_type.value if record.verdict.failure_type else "passed",
            "message": printable(record.verdict.message, _LONGEST_MESSAGE),
            "keywords": sorted({printable(violation.keyword, 60) for violation in record.verdict.violations}),
            "change": "broke" if record.key in broke else "mended" if record.key in mended else "",
        }
        for record in run.records
    ]
    return _packed({"size": CHUNK, "cases": cases})


def chunks(run: Run) -> list[str]:
    """All else there is to say of the attempts, so many at a time."""
    records: Sequence[Record] = run.records
    return [
        _packed([_details(record) for record in records[start : start + CHUNK]])
        for start in range(0, len(records), CHUNK)
    ]


def _packed(data: object) -> str:
    """JSON, compressed, in letters that mean nothing in a page."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return base64.b64encode(gzip.compress(text.encode("ascii"), 6, mtime=0)).decode("ascii")


def _name(record: Record, *, repeats: int) -> str:
    return str(record.key) if repeats <= 1 else f"{record.key}[{record.repeat + 1}]"


def _details(record: Record) -> dict[str, Any]:
    generation = record.generation
    sent = getattr(generation, "sent", None)
    return {
        "verdict": _cut("\n".join(_verdict(record))),
        "answer": _answer(record),
        "schema": _schema(record),
        "sent": "" if sent is None or sent.schema is None else _json(sent.schema),
        "prompt": _cut(_prompt(record)),
        "measured": ", ".join(_measured(record)),
    }


def _answer(record: Record) -> str:
    generation = record.generation
    if isinstance(generation, Decided):
        return _cut("\n".join(map(_decision, generation.decisions)))
    return _cut(generation.text) or "(empty)" if isinstance(generation, Completion) else ""


def _decision(decision: Decision) -> str:
    said = {True: "accepted", False: "rejected", None: "undecided"}[decision.accepted]
    wrong = ", wrongly" if decision.wrong else ""
    return f"{'valid' if decision.valid else 'invalid'} {decision.id}: {said}{wrong}"


def _schema(record: Record) -> str:
    if record.redacted is None:
        return _json(record.schema)
    return _cut(f"{record.schema_digest}\nuses {', '.join(record.redacted.keywords) or 'no keyword'}")


def _verdict(record: Record) -> list[str]:
    verdict = record.verdict
    kind = verdict.failure_type.value if verdict.failure_type else "passed"
    reason = f" ({verdict.reason})" if verdict.reason else ""
    lines = [f"{kind}{reason}" + (f": {verdict.message}" if verdict.message else "")]
    lines += [
        f"{one.keyword} at {one.instance_path} [schema {one.schema_path}]: {one.message}" for one in verdict.violations
    ]
    if verdict.extra_fields:
        lines.append(f"not in the schema: {', '.join(verdict.extra_fields)}")
    if verdict.notes:
        lines.append(f"noted: {', '.join(note.value for note in verdict.notes)}")
    lines.append(f"second opinion: {verdict.second_opinion.value}")
    return lines


def _prompt(record: Record) -> str:
    if record.prompt is None:
        return ""
    return "\n\n".join(f"[{message.role}]\n{message.content}" for message in record.prompt.messages)


def _measured(record: Record) -> list[str]:
    generation = record.generation
    if isinstance(generation, Decided):
        compiled = generation.timing.grammar_compilation
        return [] if compiled is None else [f"grammar compiled in {compiled * 1000:.2f} ms"]
    if not isinstance(generation, Completion | Declined):
        return []
    timing, usage = generation.timing, generation.usage
    times = {} if timing is None else {"TTFT": timing.ttft, "TGT": timing.tgt, "GCT": timing.gct}
    counts = {
        "input tokens": usage.input_tokens,
        "cached tokens": usage.cached_tokens,
        "output tokens": usage.output_tokens,
        "reasoning tokens": usage.reasoning_tokens,
    }
    return [
        *(f"{name} {value:.3f} s" for name, value in times.items() if value is not None),
        *([f"waited {record.queue_s:.3f} s to be sent"] if record.queue_s else []),
        *(f"{value:,} {name}" for name, value in counts.items() if value is not None),
        *([f"{record.retries} failed tries before"] if record.retries else []),
    ]


def _json(value: object) -> str:
    """The value as JSON, whole or marked as cut; hidden characters stand in it as escapes."""
    return _cut(json_text(value, indent=2))


def _cut(text: str) -> str:
    more = len(text) - _LONGEST_TEXT
    shown = printable(text[:_LONGEST_TEXT], 10 * _LONGEST_TEXT, lines=True)
    return f"{shown}\n… and {more:,} characters more, in records.jsonl" if more > 0 else shown
