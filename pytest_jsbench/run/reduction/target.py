"""Find the failing attempt of a run that is to be reduced, and the settings with which its engine is called again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import EngineError, JSBenchError, nearest
from pytest_jsbench.core.generations import Decided, ResponseFormat
from pytest_jsbench.core.text import printable
from pytest_jsbench.datasets.base import Instance, Selection
from pytest_jsbench.datasets.labelled import open_labelled
from pytest_jsbench.engines.base import EngineFactory
from pytest_jsbench.engines.engine_secrets import describe, outline
from pytest_jsbench.prompts import PROMPTS, template_of
from pytest_jsbench.records.journal import find_files
from pytest_jsbench.records.metadata import RunMetadata
from pytest_jsbench.records.records import Record
from pytest_jsbench.records.runs import Run
from pytest_jsbench.records.setting_differences import RECORDED
from pytest_jsbench.run.reduction.candidate import Candidate
from pytest_jsbench.run.reduction.same_failure import ESCAPED, FailurePattern, ReductionError, wrong_decision
from pytest_jsbench.run.variants import Variant
from pytest_jsbench.schemas.dialects import NAMES
from pytest_jsbench.settings.call_options import Ask
from pytest_jsbench.settings.options import BY_NAME, RecordingOptions
from pytest_jsbench.verdicts import JudgePolicy

#: Options of the judge that show nothing of a user's schema.
_POLICY_OPTIONS = ("extra_fields", "duplicate_keys", "fences", "reasoning", "formats", "default_dialect", "validator")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionTarget:
    """A failing attempt, and what it was made of."""

    metadata: RunMetadata
    record: Record
    pattern: FailurePattern
    #: The case as it was sent: its messages are empty if the run's prompt rendered the schema.
    case: Case
    original: Candidate


def find_target(run: Run, name: str, *, variant: str = "", instances: str | None = None) -> ReductionTarget:
    """Return the first failing attempt at the named case; raise ReductionError if there is none to reduce."""
    return make_target(run, _find_record(run, name, variant), instances=instances)


def make_target(run: Run, record: Record, *, instances: str | None = None) -> ReductionTarget:
    """Return this failing attempt of the run as a target; raise ReductionError if it cannot be reduced."""
    metadata = run.metadata.of_variant(record.variant)
    if metadata.redacted or record.redacted is not None:
        message = "the run was written with --jsbench-redact, and has no schemas; expected a run with its schemas"
        raise ReductionError(message, where="run")
    assert record.schema is not None  # the judge excludes attempts without a schema, which `pattern` rejects
    pattern = FailurePattern.of(record)
    case = _sent_case(metadata, record)
    original = Candidate(
        schema=record.schema,
        offer=record.offered,
        tool=pattern.tool,
        messages=tuple(range(len(case.messages))),
    )
    if isinstance(record.generation, Decided):
        instance = _find_instance(metadata, record, instances)
        original = original.with_answer(json.loads(instance.text))
    return ReductionTarget(metadata=metadata, record=record, pattern=pattern, case=case, original=original)


def _find_record(run: Run, name: str, variant: str) -> Record:
    named = [outcome for outcome in run.outcomes if name in (str(outcome.key), outcome.key.id)]
    if not named:
        known = {str(outcome.key) for outcome in run.outcomes}
        raise ReductionError(
            f"no case '{printable(name, 60)}' in the run: {nearest(name, known)}", found=name, where="case"
        )
    keys = {outcome.key for outcome in named}
    if len(keys) > 1:
        message = (
            f"several cases have the id '{printable(name, 60)}': expected one of {', '.join(map(str, sorted(keys)))}"
        )
        raise ReductionError(message, found=name, where="case")
    if variant and variant not in run.variants:
        message = f"no variant '{printable(variant, 60)}' in the run: {nearest(variant, run.variants)}"
        raise ReductionError(message, found=variant, where="variant")
    failing = [outcome for outcome in named if not outcome.passed and variant in ("", outcome.variant)]
    if not failing:
        raise ReductionError(f"{next(iter(keys))} passed; expected a case that fails", found=name, where="case")
    return failing[0].read()


def _find_instance(metadata: RunMetadata, record: Record, source: str | None) -> Instance:
    """Return the first labelled answer about which the grammar decided wrongly, from the dataset of the run."""
    wrong = wrong_decision(record)
    assert wrong is not None
    chosen = metadata.dataset
    tasks = chosen.get("tasks")
    selection = Selection(
        source=source or str(chosen.get("source", "")),
        tasks=None if tasks is None else tuple(tasks),
        limit=chosen.get("limit"),
        labelled=True,
    )
    try:
        listing = open_labelled(selection)
    except JSBenchError as error:
        message = f"the labelled answers of the run cannot be read: {error}; expected them at --instances"
        raise ReductionError(message, where="instances") from error
    name = wrong.id.removesuffix(ESCAPED)
    answers = listing.instances(record.key) if record.key in listing.entries else ()
    found = next((answer for answer in answers if answer.id == name), None)
    if found is None:
        raise ReductionError(f"{selection.source} has no labelled answer '{printable(name, 60)}' of {record.key}")
    return found


def _sent_case(metadata: RunMetadata, record: Record) -> Case:
    """Return the case of the record, with its messages unless the run's prompt renders the same messages."""
    assert record.schema is not None
    case = Case(key=record.key, schema=record.schema)
    sent = record.prompt
    if sent is None:
        return case
    try:
        rendered = template_of(metadata.prompt, shots=metadata.shots or 0).render(case)
    except JSBenchError:
        rendered = None
    same = rendered is not None and rendered.digest == record.prompt_digest
    return case if same else Case(key=record.key, schema=record.schema, messages=sent.messages)


def build_variant(target: ReductionTarget, given: Mapping[str, Any], factory: EngineFactory | None = None) -> Variant:
    """
    Return the variant that calls the engine of the attempt as the run did; `given` has options that replace the run's.

    A run does not record addresses, keys and engine options, so that these must be given again. `factory` is the
    factory of an engine that a Python program provides.
    """
    metadata, record = target.metadata, target.record
    by = record.answered_by or metadata.engine_asked
    values: dict[str, Any] = {"engine": by.engine, "model": by.model}
    if record.asked_by is None or record.params is None:
        values |= metadata.asked_params or metadata.params
    else:
        values |= {name: getattr(record.params, name) for name in ("max_tokens", "temperature", "seed", "timeout")}
    values.pop("tool_choice", None)  # the offered tools have the choice of the run
    values["response_format"] = ResponseFormat(metadata.response_format)
    if not target.case.messages:
        values |= {"prompt": metadata.prompt, "shots": metadata.shots}
    values["adapt"] = BY_NAME["adapt"].of_text(metadata.adapt)
    values["rewrite"] = (metadata.rewrite,) if metadata.rewrite else None
    changed = {name: value for name, value in given.items() if value is not None}
    other_engine = changed.get("engine", by.engine) != by.engine
    if other_engine:
        values |= {"model": None, "response_format": None}
    values |= changed
    if values["engine"] in RECORDED:
        message = f"engine '{by.engine}' has recorded answers only: set the engine that answers new requests"
        raise EngineError(message, found=by.engine, option="engine")
    if factory is None and "model" not in changed and not other_engine and _is_default_model(values, by.model):
        values["model"] = None
    return Variant.of("", Ask(values), RecordingOptions(), factory=factory)


def _is_default_model(values: Mapping[str, Any], model: str) -> bool:
    """Return whether the engine has this model if none is named, so that the name need not be a file or an address."""
    try:
        variant = Variant.of("", Ask({**values, "model": None}), RecordingOptions())
        return describe(variant.factory, variant.engine).model == model
    except JSBenchError:
        return False


def default_folder(run: Path, record: Record) -> Path:
    """Return the directory of a reduction's files inside the directory of the run at this path."""
    parts = [record.id, *([record.variant] if record.variant else [])]
    if record.repeat:
        parts.append(str(record.repeat + 1))
    # names of cases and variants may contain every other character between names
    return find_files(run)[0].parent / "reduced" / record.task / "~".join(parts)


def reproducing_flags(target: ReductionTarget, given: Mapping[str, Any], variant: Variant) -> Sequence[str]:
    """Return the options of pytest with which the case's engine is called; an address is replaced by a placeholder."""
    engine = variant.engine
    flags = [f"--jsbench-engine={engine.name}"]
    if engine.model is not None:
        flags.append(f"--jsbench-model={Path(engine.model).name if engine.name == 'local' else engine.model}")
    if engine.base_url is not None:
        flags.append("--jsbench-base-url=URL")
    described = describe(variant.factory, variant.engine).response_format
    default = ResponseFormat.JSON_SCHEMA
    if described is not default:
        flags.append(f"--jsbench-response-format={described.value}")
    if variant.adapt != "verbatim":
        flags.append(f"--jsbench-adapt={variant.adapt.partition('@')[0]}")
    if variant.rewrite is not None:
        flags.append(f"--jsbench-rewrite={variant.rewrite}")
    if not target.metadata.labelled:
        params = variant.params
        flags += (
            [f"--jsbench-max-tokens={params.max_tokens}"] if params.max_tokens != variant.factory.max_tokens else []
        )
        flags += [] if params.temperature is None else [f"--jsbench-temperature={params.temperature:g}"]
        flags += [] if params.seed is None else [f"--jsbench-seed={params.seed}"]
    options = dict(given.get("engine_option") or ())
    # texts may be secret or private
    shown = {name: outline(value, name) for name, value in sorted(options.items())}
    return (*flags, *(f"--jsbench-engine-option={name}={_option_text(value)}" for name, value in shown.items()))


def policy_flags(policy: JudgePolicy) -> tuple[str, ...]:
    """Return the options of pytest for a policy that differs from the default; names of fields are left out."""
    names_of_dialects = {uri: name for name, uri in NAMES.items()}
    flags: list[str] = []
    for name in _POLICY_OPTIONS:
        value = getattr(policy, name)
        if value != getattr(JudgePolicy(), name):
            flags.append(f"{BY_NAME[name].flag}={names_of_dialects.get(value, value)}")
    return tuple(flags)


def prompt_flags(metadata: RunMetadata) -> tuple[str, ...]:
    """Return the options of pytest for a prompt that is built in; empty for the default prompt and a user's own."""
    if metadata.labelled or metadata.prompt not in PROMPTS:
        return ()
    prompt = [] if metadata.prompt == "schema" else [f"--jsbench-prompt={metadata.prompt}"]
    return (*prompt, *([f"--jsbench-shots={metadata.shots}"] if metadata.shots else []))


def _option_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
