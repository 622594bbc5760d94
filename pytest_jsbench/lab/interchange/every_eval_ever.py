"""
Export a run in the format of the project every_eval_ever: one aggregate record, and one row per attempt.

The aggregate follows that project's JSON Schema 0.3.0. A row follows either version 0.3.0 or the instance-level schema
0.2.0, since no row can conform to both.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_jsbench.core.errors import ExportError
from pytest_jsbench.core.files import make_private_folder, write_atomically
from pytest_jsbench.core.generations import Completion, Decided, Declined, Failed, tpot_ms
from pytest_jsbench.core.json_values import to_json
from pytest_jsbench.metrics.figure import Better
from pytest_jsbench.metrics.figures import FIGURES, RATES, TIMES
from pytest_jsbench.metrics.metrics import COUNTED_FAILURES, Metrics
from pytest_jsbench.metrics.statistics import Proportion
from pytest_jsbench.metrics.summary import Summary
from pytest_jsbench.records.questions import engine_settings
from pytest_jsbench.records.runs import Records
from pytest_jsbench.verdicts import FailureType

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import Usage
    from pytest_jsbench.metrics.statistics import Rate
    from pytest_jsbench.records.metadata import RunMetadata
    from pytest_jsbench.records.records import Record
    from pytest_jsbench.records.runs import Run

VERSIONS = ("0.3.0", "0.2.0")
Version = Literal["0.3.0", "0.2.0"]
COLLECTION = "pytest-jsbench"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_FAILURES = "failure_rates."


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Names that identify the run in the aggregate record and in the rows."""

    developer: str
    model: str
    evaluation_id: str
    name: str

    @property
    def model_id(self) -> str:
        """Name of the model in the form `developer/model`."""
        return f"{self.developer}/{self.model}"

    @property
    def path(self) -> str:
        """Path of the aggregate record in the project's directory layout, without a suffix."""
        return f"data/{COLLECTION}/{self.developer}/{self.model}/{self.name}"


def identify(metadata: RunMetadata, *, developer: str | None = None) -> Identity:
    """
    Return the run's identity, which is the same in each export of the run. By default, the developer is the prefix of
    the model's name, or else the provider.
    """
    before, _, after = metadata.model.rpartition("/")
    named = developer or before or metadata.provider or "unknown"
    # version 0.1.0 of this package wrote no uuid; the shard then distinguishes runs that started at the same time
    distinction = str(metadata.dataset.get("shard") or "") if metadata.uuid is None else metadata.uuid
    parts = filter(None, [metadata.run_id, metadata.started_at, metadata.model, distinction, metadata.variant])
    digest = hashlib.sha256(" ".join(parts).encode(errors="surrogatepass")).digest()
    name = str(uuid.UUID(bytes=digest[:16], version=4))
    developer = _portable(named)
    model = _portable(after)
    started = int(datetime.fromisoformat(metadata.started_at).timestamp())
    return Identity(
        developer=developer,
        model=model,
        evaluation_id=f"{COLLECTION}/{developer}/{model}/{started}-{name}",
        name=name,
    )


def _portable(name: str) -> str:
    """Return the name as a portable directory name, with all other characters replaced."""
    safe = _UNSAFE.sub("_", name).strip("._")[:100] or "unknown"
    return f"{safe}_" if safe.lower() == "data" else safe


def write(
    folder: Path,
    run: Run,
    summary: Summary,
    *,
    version: Version = "0.3.0",
    developer: str | None = None,
) -> Path:
    """
    Write the aggregate record and the rows to `folder`; return the path of the aggregate.

    For a run with variants, write separate files for each variant; return the directory with all files. Raise
    JSBenchError if writing fails or no attempts were made.
    """
    if not any(outcome.made for outcome in run.outcomes):
        raise ExportError("no attempts were made; nothing to export as every_eval_ever")
    if not run.variants:
        return _write(folder, run, summary, version=version, developer=developer)
    parts = run.each()
    for name, part in summary.variants.items():
        variant_run = replace(parts[name], verdict=run.verdict)
        if any(outcome.made for outcome in variant_run.outcomes):
            _write(folder, variant_run, part, version=version, developer=developer)
    return folder / "data" / COLLECTION


def _write(folder: Path, run: Run, summary: Summary, *, version: Version, developer: str | None) -> Path:
    identity = identify(run.metadata, developer=developer)
    aggregate = folder / f"{identity.path}.json"
    try:
        make_private_folder(aggregate.parent)
    except OSError as error:
        message = f"cannot write {aggregate.parent}: {error.strerror or error}"
        raise ExportError(message, where=aggregate.parent) from error
    made = [outcome for outcome in run.outcomes if outcome.made]
    rows = (row(record, identity, version) for record in Records(made))
    samples = aggregate.with_name(f"{identity.name}_samples.jsonl")
    write_atomically(samples, (f"{json.dumps(row, ensure_ascii=True, allow_nan=False)}\n" for row in rows))
    with samples.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    data = _aggregate(run, summary, identity, rows=len(made), checksum=checksum)
    write_atomically(aggregate, json.dumps(data, indent=2, ensure_ascii=True, allow_nan=False) + "\n")
    return aggregate


def _result_id(identity: Identity, task: str | None, metric: str) -> str:
    """Return an id of a result that is unique even if a task is named `total`."""
    return f"{identity.evaluation_id}#{metric if task is None else f'{task}.{metric}'}"


def _aggregate(run: Run, summary: Summary, identity: Identity, *, rows: int, checksum: str) -> dict[str, Any]:
    metadata = run.metadata
    failures = [f"{_FAILURES}{kind.value}" for kind in COUNTED_FAILURES if summary.total.failure_counts[kind]]
    names = (*RATES, *failures, *TIMES)
    results = [*_results(run, identity, None, summary.total, names)]
    for task, metrics in summary.tasks.items():
        results += _results(run, identity, task, metrics, names)
    return {
        "schema_version": "0.3.0",
        "evaluation_id": identity.evaluation_id,
        "evaluation_timestamp": metadata.started_at,
        "retrieved_timestamp": str(int(datetime.now(UTC).timestamp())),
        "source_metadata": {
            "source_name": "pytest-jsbench",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
            "additional_details": {
                "run_id": metadata.run_id,
                "engine": metadata.engine,
                **({"variant": metadata.variant} if metadata.variant else {}),
                "classifiers": json.dumps(list(metadata.classifiers)),
                **_figures(summary),
                **_verdict(run),
            },
        },
        "eval_library": {"name": "pytest-jsbench", "version": metadata.versions.get("pytest-jsbench", "unknown")},
        "model_info": {
            "name": metadata.model,
            "id": identity.model_id,
            "developer": identity.developer,
            "inference_platform": metadata.provider or metadata.engine,
            "additional_details": {
                "deployment_type": "externally_managed" if metadata.provider else "unknown",
                "model_availability": "unknown",
                "response_format": metadata.response_format,
            },
        },
        "evaluation_results": results,
        "detailed_evaluation_results": {
            "format": "jsonl",
            "file_path": f"{identity.path}_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": checksum,
            "total_rows": rows,
        },
    }


def _verdict(run: Run) -> dict[str, str]:
    """Return the run verdict as strings, which this format requires for additional fields."""
    if run.verdict is None:
        return {}
    verdict = to_json(run.verdict)
    return {"verdict": verdict["status"]} | {
        f"verdict_{name}": json.dumps(verdict[name]) for name in ("exit_status", "because")
    }


def _figures(summary: Summary) -> dict[str, str]:
    """Return all metrics of the run as strings, which this format requires for additional fields."""
    figures = summary.total.to_dict()
    keywords = {name: row.to_dict() for name, row in summary.keywords.items()}
    texts = {name: json.dumps(value) for name, value in figures.items() if value is not None}
    return {**texts, "keywords": json.dumps(keywords)}


def _results(
    run: Run, identity: Identity, task: str | None, metrics: Metrics, names: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """Yield a result for each metric that has a value."""
    for name in names:
        if (score := _score(metrics, name)) is not None:
            yield {
                "evaluation_result_id": _result_id(identity, task, name),
                "evaluation_name": f"{COLLECTION}.{task}" if task else COLLECTION,
                "source_data": _source(run.metadata.dataset),
                "evaluation_timestamp": run.metadata.started_at,
                "metric_config": _metric(name),
                "score_details": score,
                "generation_config": _generation(run),
            }


def _metric(name: str) -> dict[str, Any]:
    row = TIMES.get(name) or FIGURES[name]
    return {
        "evaluation_description": "JSON that conforms to a JSON Schema, by pytest-jsbench",
        "metric_id": f"pytest-jsbench.{name}",
        "metric_name": f"{name}, median" if name in TIMES else name,
        "metric_kind": "pass_rate" if name == "pass_rate" else name,
        "lower_is_better": row.better is Better.LOWER,
        "score_type": "continuous",
        "min_score": 0,
        "max_score": "Infinity" if name in TIMES else 1,
        "metric_unit": row.unit or "proportion",
    }


def _score(metrics: Metrics, name: str) -> dict[str, Any] | None:
    if name in TIMES:
        return _time(metrics, name)
    if name.startswith(_FAILURES):
        return _rate(metrics.failure_rates[FailureType(name.removeprefix(_FAILURES))], "failures")
    return _rate(getattr(metrics, name))


def _rate(rate: Rate, count: str = "successes") -> dict[str, Any] | None:
    if rate.value is None:
        return None
    interval = {"lower": rate.ci_low, "upper": rate.ci_high, "confidence_level": 0.95, "method": "Clopper-Pearson"}
    return {
        "score": rate.value,
        "details": {count: str(rate.successes)} if isinstance(rate, Proportion) else {},
        "uncertainty": {
            **({} if rate.ci_low is None else {"confidence_interval": interval}),
            "num_samples": rate.n,
        },
    }


def _time(metrics: Metrics, name: str) -> dict[str, Any] | None:
    spread = getattr(metrics, name)
    if spread.p50 is None:
        return None
    details = {part: f"{getattr(spread, part):.6g}" for part in ("mean", "p90", "p95", "p99", "max")}
    return {"score": spread.p50, "details": details, "uncertainty": {"num_samples": spread.count}}


def _source(dataset: Mapping[str, Any]) -> dict[str, Any]:
    source = str(dataset.get("source", "unknown"))
    if revision := dataset.get("revision"):
        source = source.removesuffix(f"@{revision}")
    if re.fullmatch(r"[\w.-]+/[\w.-]+", source) and not Path(source).exists():
        split = dataset.get("split")
        return {"dataset_name": source, "source_type": "hf_dataset", "hf_repo": source, "hf_split": str(split)}
    return {"dataset_name": Path(source).name or source, "source_type": "other"}


def _generation(run: Run) -> dict[str, Any]:
    metadata = run.metadata
    params = metadata.params
    details = {
        "response_format": metadata.response_format,
        "prompt": metadata.prompt,
        "adapt": metadata.adapt,
        "repeats": str(metadata.repeats),
        "seed": json.dumps(params.get("seed")),
        "timeout_s": json.dumps(params.get("timeout")),
        "engine_settings": json.dumps(engine_settings(metadata), sort_keys=True),
        "policy": json.dumps(metadata.policy, sort_keys=True),
    }
    arguments = {name: params[name] for name in ("temperature", "max_tokens") if params.get(name) is not None}
    return {"generation_args": arguments, "additional_details": details}


def row(record: Record, identity: Identity, version: Version) -> dict[str, Any]:
    """Return the row of an attempt; in version 0.3.0, several fields contain lists of texts instead of a text."""
    generation = record.generation
    has_lists = version == "0.3.0"
    answered = generation if isinstance(generation, Completion) else None
    # a redacted record contains only the digest of the schema
    schema = record.schema_digest or ""
    if record.redacted is None:
        schema = json.dumps(record.schema, sort_keys=True, ensure_ascii=False)
    expected = [] if record.expected is None else [json.dumps(record.expected.value, ensure_ascii=False)]
    reference = expected if has_lists else "".join(expected)
    output: dict[str, Any] = {"raw": [] if answered is None else [answered.text]}
    if answered is not None and answered.reasoning:
        output["reasoning_trace"] = [answered.reasoning]
    hashed = json.dumps({"raw": schema, "reference": reference}, sort_keys=True, separators=(",", ":"))
    messages = record.prompt.messages if record.prompt else ()
    is_correct = record.verdict.passed and (record.match is None or record.match.exact)
    return {
        "schema_version": "0.3.0" if has_lists else "instance_level_eval_0.2.0",
        **({"evaluation_result_id": _result_id(identity, record.key.task, "pass_rate")} if has_lists else {}),
        "evaluation_id": identity.evaluation_id,
        "model_id": identity.model_id,
        "evaluation_name": f"{COLLECTION}.{record.key.task}",
        "sample_id": f"{record.key}{f'#{record.repeat + 1}' if record.repeat else ''}",
        "sample_hash": hashlib.sha256(hashed.encode()).hexdigest(),
        "interaction_type": "single_turn",
        "input": {
            "raw": schema,
            "formatted": "\n\n".join(f"{message.role}: {message.shown}" for message in messages),
            "reference": reference,
        },
        "output": output if has_lists else {"raw": "", **{name: "".join(texts) for name, texts in output.items()}},
        "messages" if has_lists else "interactions": None,
        "answer_attribution": [] if answered is None else [{**_ATTRIBUTION, "extracted_value": answered.text}],
        "evaluation": {"score": float(record.verdict.passed), "is_correct": is_correct},
        "token_usage": _usage(record.usage),
        "performance": _performance(record, details="additional_details" if has_lists else None),
        "error": _error(record),
        "metadata": _metadata(record),
    }


_ATTRIBUTION = {
    "turn_idx": 0,
    "source": "output.raw",
    "extraction_method": "json_schema_validation",
    "is_terminal": True,
}


def _usage(usage: Usage | None) -> dict[str, int | None] | None:
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "input_tokens_cache_read": usage.cached_tokens,
        "input_tokens_cache_write": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }


def _performance(record: Record, *, details: str | None) -> dict[str, Any] | None:
    timing = record.timing
    if timing is None:
        return None
    figures: dict[str, Any] = {
        "latency_ms": timing.tgt * 1000,
        "time_to_first_token_ms": None if timing.ttft is None else timing.ttft * 1000,
        "generation_time_ms": None if timing.gct is None else timing.gct * 1000,
    }
    tpot = tpot_ms(timing, record.usage)
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
    verdict = record.verdict
    params = record.params
    decisions = record.generation.decisions if isinstance(record.generation, Decided) else None
    facts = {
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
    return {name: value for name, value in facts.items() if value is not None}
