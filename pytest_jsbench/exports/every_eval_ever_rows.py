"""One attempt as an instance-level row of every_eval_ever."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Literal

from pytest_jsbench.generations import Completion, Decided, Declined, Failed

if TYPE_CHECKING:
    from pytest_jsbench.generations import Usage
    from pytest_jsbench.records import Record


def was_made(record: Record) -> bool:
    """Whether there was an attempt: a model was asked, or a grammar about labelled answers."""
    return record.prompt is not None or isinstance(record.generation, Decided | Declined)


def row(
    record: Record, *, evaluation_id: str, model_id: str, result_id: str, version: Literal["0.3.0", "0.2.0"]
) -> dict[str, Any]:
    """The row of an attempt that was made."""
    common = _common(record, evaluation_id=evaluation_id, model_id=model_id)
    if version == "0.2.0":
        return {**common, "schema_version": "instance_level_eval_0.2.0", **_as_text(record)}
    return {**common, "schema_version": "0.3.0", "evaluation_result_id": result_id, **_as_lists(record)}


def _common(record: Record, *, evaluation_id: str, model_id: str) -> dict[str, Any]:
    repeat = f"#{record.repeat + 1}" if record.repeat else ""
    return {
        "evaluation_id": evaluation_id,
        "model_id": model_id,
        "evaluation_name": f"pytest-jsbench.{record.key.task}",
        "sample_id": f"{record.key}{repeat}",
        "interaction_type": "single_turn",
        "answer_attribution": _attribution(record),
        "evaluation": {"score": float(record.verdict.passed), "is_correct": record.verdict.passed},
        "token_usage": _usage(getattr(record.generation, "usage", None)),
        "error": _error(record),
        "metadata": _metadata(record),
    }


def _as_lists(record: Record) -> dict[str, Any]:
    """What is a list since 0.3.0. A schema has no one answer, so there is no reference."""
    text = _text(record)
    return {
        "sample_hash": _hash(_asked(record), []),
        "input": {"raw": _asked(record), "formatted": _formatted(record), "reference": []},
        "output": {"raw": [] if text is None else [text]},
        "messages": None,
        "performance": _performance(record, details="additional_details"),
    }


def _as_text(record: Record) -> dict[str, Any]:
    return {
        "sample_hash": _hash(_asked(record), ""),
        "input": {"raw": _asked(record), "formatted": _formatted(record), "reference": ""},
        "output": {"raw": _text(record) or ""},
        "interactions": None,
        "performance": _performance(record, details=None),
    }


def _asked(record: Record) -> str:
    """The case itself: its schema, or which one it is."""
    if record.redacted is not None:
        return record.schema_digest or ""
    return json.dumps(record.schema, sort_keys=True, ensure_ascii=False)


def _formatted(record: Record) -> str:
    messages = record.prompt.messages if record.prompt else ()
    return "\n\n".join(f"{message.role}: {message.content}" for message in messages)


def _hash(raw: str, reference: list[str] | str) -> str:
    text = json.dumps({"raw": raw, "reference": reference}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _text(record: Record) -> str | None:
    return record.generation.text if isinstance(record.generation, Completion) else None


def _attribution(record: Record) -> list[dict[str, Any]]:
    text = _text(record)
    if text is None:
        return []
    return [
        {
            "turn_idx": 0,
            "source": "output.raw",
            "extracted_value": text,
            "extraction_method": "json_schema_validation",
            "is_terminal": True,
        }
    ]


def _usage(usage: Usage | None) -> dict[str, int | None] | None:
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "input_tokens_cache_read": usage.cached_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }


def _performance(record: Record, *, details: str | None) -> dict[str, Any] | None:
    timing = getattr(record.generation, "timing", None)
    if timing is None:
        return None
    figures: dict[str, Any] = {
        "latency_ms": timing.tgt * 1000,
        "time_to_first_token_ms": None if timing.ttft is None else timing.ttft * 1000,
        "generation_time_ms": None if timing.gct is None else timing.gct * 1000,
    }
    usage = getattr(record.generation, "usage", None)
    tpot = None if usage is None else timing.tpot_ms(usage.output_tokens)
    if details is not None and tpot is not None:
        figures[details] = {"time_per_output_token_ms": f"{tpot:.6g}"}
    return figures


def _error(record: Record) -> str | None:
    generation = record.generation
    if isinstance(generation, Failed):
        return f"api_error ({generation.kind.value}): {generation.message}"
    if isinstance(generation, Declined):
        return f"{generation.reason.value}: {generation.message}"
    return None


def _metadata(record: Record) -> dict[str, str]:
    verdict, params = record.verdict, record.params
    decisions = record.generation.decisions if isinstance(record.generation, Decided) else None
    known = {
        "decisions": None if decisions is None else str(len(decisions)),
        "wrong_decisions": None if decisions is None else str(sum(decision.wrong for decision in decisions)),
        "codes": ", ".join(record.codes) or None,
        "notes": ", ".join(note.value for note in verdict.notes) or None,
        "retries": str(record.retries) if record.retries else None,
        "task": record.key.task,
        "repeat": str(record.repeat + 1),
        "failure_type": verdict.failure_type and verdict.failure_type.value,
        "reason": verdict.reason,
        "message": verdict.message or None,
        "keyword": verdict.keyword,
        "instance_path": verdict.violations[0].instance_path if verdict.violations else None,
        "schema_path": verdict.violations[0].schema_path if verdict.violations else None,
        "dialect": verdict.dialect,
        "temperature": None if params is None or params.temperature is None else f"{params.temperature:g}",
        "max_tokens": None if params is None else str(params.max_tokens),
        "seed": None if params is None or params.seed is None else str(params.seed),
        "valid": None if verdict.valid is None else str(verdict.valid).lower(),
    }
    return {name: value for name, value in known.items() if value is not None}
