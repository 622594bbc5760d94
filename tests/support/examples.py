from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from pytest_jsbench.core.cases import CaseKey, Prompt, Schema
from pytest_jsbench.core.generations import (
    Completion,
    Decided,
    Declined,
    DeclineReason,
    Failed,
    FaultKind,
    FinishReason,
    Generation,
    GrammarDecision,
    ResponseFormat,
    Sent,
    Usage,
)
from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.timing import Timing
from pytest_jsbench.core.tool_offers import OfferedTool, ToolOffer
from pytest_jsbench.metrics.metrics import Metrics
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.metadata import RunMetadata
from pytest_jsbench.records.questions import combine_variants
from pytest_jsbench.records.records import Attempt, Record, WrittenPrompt
from pytest_jsbench.records.runs import Run
from pytest_jsbench.reports.run_json import Evaluation, parse, run_to_dict
from pytest_jsbench.verdicts import FailureType, Note, SecondOpinion, Verdict, Violation

T = TypeVar("T")

PASSED = Verdict(failure_type=None, valid=True, second_opinion=SecondOpinion.AGREES)
DISPUTED = Verdict(failure_type=None, valid=True, second_opinion=SecondOpinion.DISAGREES)
VIOLATED = Verdict(
    failure_type=FailureType.SCHEMA_VIOLATION,
    valid=False,
    message="-1 is less than 0",
    violations=(
        Violation(keyword="minimum", instance_path="$.n", schema_path="/properties/n/minimum", message="-1 < 0"),
    ),
    notes=(Note.FENCED,),
    dialect="https://json-schema.org/draft/2020-12/schema",
)
HALLUCINATED = Verdict(failure_type=FailureType.HALLUCINATION, valid=True, extra_fields=("$.color",))
EXCLUDED = Verdict(failure_type=FailureType.INVALID_SCHEMA, valid=None, message="not a schema")
BROKEN = Verdict(failure_type=FailureType.API_ERROR, valid=None, reason="timeout")
UNJUDGED = Verdict(failure_type=FailureType.UNJUDGED, valid=None, reason="timeout")
DECIDED_RIGHTLY = Verdict(failure_type=None, valid=None)
DECIDED_WRONGLY = Verdict(failure_type=FailureType.WRONG_DECISION, valid=None, reason="both", message="1 of 2")
UNSUPPORTED = Verdict(failure_type=FailureType.UNSUPPORTED_SCHEMA, valid=None)


def completion(
    text: str = '{"n": 1}', *, ttft: float | None = 0.2, tgt: float = 1.0, tokens: int | None = 11
) -> Completion:
    gct = None if ttft is None else tgt - ttft
    return Completion(
        text=text,
        finish_reason=FinishReason.STOP,
        timing=Timing(tgt=tgt, ttft=ttft, gct=gct),
        usage=Usage(input_tokens=None if tokens is None else 30, output_tokens=tokens),
        sent=Sent(response_format=ResponseFormat.JSON_SCHEMA, schema={"type": "object"}),
    )


def batched(batch: str = "batch_1") -> Completion:
    """Return an answer from a provider's batch."""
    sent = Sent(response_format=ResponseFormat.JSON_SCHEMA, batch=batch)
    return replace(completion(), timing=None, sent=sent)


def declined() -> Declined:
    return Declined(reason=DeclineReason.UNSUPPORTED_SCHEMA, message="oneOf is not supported")


def decided(*wrong: str, seconds: float = 0.01) -> Decided:
    """Return decisions on two valid and two invalid answers; the named ones are wrong."""
    labels = {"v0": True, "v1": True, "i0": False, "i1": False}
    return Decided(
        decisions=tuple(
            GrammarDecision(id=name, valid=valid, accepted=valid is not (name in wrong))
            for name, valid in labels.items()
        ),
        timing=Timing(tgt=0.5, grammar_compilation=seconds),
    )


def failed(kind: FaultKind = FaultKind.TIMEOUT) -> Failed:
    return Failed(kind=kind, message="no answer in 1 s", status=None)


def with_figures(metrics: Metrics, **figures: float | None) -> Metrics:
    """Return a copy of the metrics with other values of these figures."""
    changed = copy.copy(metrics)
    vars(changed).update(figures, _figures={**vars(metrics)["_figures"], **figures})
    return changed


def replace(value: T, **changes: Any) -> T:
    """Return the value with these changes; a record may also get another case, schema or prompt."""
    if not isinstance(value, msgspec.Struct):
        changed: T = dataclasses.replace(value, **changes)  # type: ignore[type-var]
        return changed
    if isinstance(value, Verdict):
        changes.setdefault("passed", msgspec.UNSET)
    if isinstance(value, Record):
        if "key" in changes:
            changes["task"], changes["id"] = changes["key"].task, changes.pop("key").id
        if "prompt" in changes:
            changes["written_prompt"] = WrittenPrompt.of(changes.pop("prompt"))
        if "schema" in changes:
            changes["schema_digest"] = value.with_schema(changes["schema"]).schema_digest
    return msgspec.structs.replace(value, **changes)


def offer(*names: str, **changes: Any) -> ToolOffer:
    """Return an offer of tools with these names, whose arguments are any object."""
    tools = tuple(OfferedTool(name=name, parameters={"type": "object"}) for name in names or ("find",))
    return ToolOffer(tools=tools, **changes)


def record(
    case_id: str = "order",
    *,
    task: str = "simple",
    verdict: Verdict = PASSED,
    generation: Generation | None = None,
    schema: Schema = True,
) -> Record:
    asked = verdict is not EXCLUDED
    return Record.of(
        key=CaseKey(task=task, id=case_id),
        repeat=0,
        schema=schema,
        prompt=Prompt(messages=(Message(role="user", content="answer"),)) if asked else None,
        generation=(generation or completion()) if asked else None,
        verdict=verdict,
        started_at="2026-11-21T10:00:00.000+00:00" if asked else None,
        queue_s=0.5 if asked else None,
        reference={"n": [1, None]} if asked else None,
        tags=("eu", "nightly") if asked else (),
    )


def metadata(**changes: object) -> RunMetadata:
    values: dict[str, object] = {
        "run_id": "20261121T100000Z-scripted-m",
        "started_at": "2026-11-21T10:00:00+00:00",
        "engine": "scripted",
        "model": "m",
        "response_format": "json_schema",
        "streaming": True,
        "params": {"max_tokens": 2048, "temperature": None, "seed": None, "timeout": 120.0},
        "dataset": {"source": "builtin", "cases": 3, "split": "test", "tasks": None, "limit": None},
    }
    return RunMetadata.from_dict(values | changes)


def of_records(metadata: RunMetadata, planned: Iterable[CaseKey], records: Iterable[Record]) -> Run:
    """Return a run of records in memory."""
    return Run(metadata=metadata, planned=tuple(planned), outcomes=tuple(map(AttemptFacts.of, records)))


def run(*records: Record, planned: tuple[CaseKey, ...] | None = None, **changes: object) -> Run:
    """Return a run of these records, with changes to its metadata."""
    keys = tuple(record.key for record in records) if planned is None else planned
    return of_records(metadata(**changes), keys, records)


def evaluation(run: Run, source: str = "run.json") -> Evaluation:
    """Read the evaluation from the run's own file."""
    written = run_to_dict(run, summarize(run), config_path="c")
    return parse(json.loads(json.dumps(written)), source=source)


def variants(**changes: Mapping[str, object]) -> RunMetadata:
    """Return the metadata of a run with variants; each has its changes, by name."""
    return combine_variants([replace(metadata(**change), variant=name) for name, change in changes.items()])


def run_of_variants(metadata: RunMetadata, *records: Record) -> Run:
    """Return a run whose plan is exactly what it recorded."""
    planned = metadata.with_plan(one.attempt for one in records)
    return of_records(planned, planned.planned() or (), records)


def compared(**outcomes: str) -> Run:
    """Return a run with variants, given by one letter for each case: passed, violated, broken or missing."""
    kinds = {
        "p": record("x"),
        "v": record("x", verdict=VIOLATED),
        "b": record("x", verdict=BROKEN, generation=failed()),
    }
    found = variants(**{name: {"model": f"model {name}"} for name in outcomes})
    records = [
        replace(kinds[letter], key=CaseKey(task="simple", id=f"case{number:02}"), schema={"minimum": 0}, variant=name)
        for name, letters in outcomes.items()
        for number, letter in enumerate(letters)
        if letter != "m"
    ]
    planned = found.with_plan(
        Attempt(CaseKey(task="simple", id=f"case{number:02}"), 0, name)
        for name, letters in outcomes.items()
        for number in range(len(letters))
    )
    return of_records(planned, planned.planned() or (), records)
