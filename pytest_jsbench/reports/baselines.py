"""Write small evaluation files for version control, and compare a run with one of them, or with another run."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.metrics.case_outcomes import CaseOutcome
from pytest_jsbench.metrics.comparison import Comparison, compare, same_cases
from pytest_jsbench.metrics.figures import RATES, names_with_bounds
from pytest_jsbench.metrics.ratchet import Ratchet
from pytest_jsbench.metrics.summary import Summary
from pytest_jsbench.records.metadata import RunMetadata
from pytest_jsbench.records.questions import each
from pytest_jsbench.records.setting_differences import SETTING_FIELDS, differences, settings_of
from pytest_jsbench.reports.run_json import RUN_VERSION, Evaluation


def kept_of_run(evaluation: Evaluation, *more: str) -> dict[str, Any]:
    """Return the settings of a run that are compared with the settings of later runs."""
    kept = {"run_id", "variants", *SETTING_FIELDS, *more}
    return {name: value for name, value in evaluation.run.items() if name in kept}


#: Fields of each variant in a baseline.
_MEASURED = ("metrics", "cases")


def baseline_to_dict(evaluation: Evaluation, outcomes: Mapping[CaseKey, CaseOutcome]) -> dict[str, Any]:
    """Return a small evaluation file for version control, with everything that comparisons with later runs need."""
    counts = ["planned", "completions", "priced", "passed", "valid_instances", "invalid_instances"]
    times = [f"{time}_{part}" for time in ("tgt", "grammar_compilation") for part in ("count", "p50")]
    kept_metrics = [*counts, *names_with_bounds(RATES), *times, "cost"]
    variants = {
        name: {part: value for part, value in baseline_to_dict(own, own.outcomes or {}).items() if part in _MEASURED}
        for name, own in evaluation.variants.items()
    }
    if variants:  # the outcomes are in the variants
        outcomes = {}
    return {
        "schema_version": RUN_VERSION,
        "config_path": evaluation.config_path,
        "backend": evaluation.backend,
        "metrics": {name: evaluation.metrics[name] for name in kept_metrics if name in evaluation.metrics},
        "run": kept_of_run(evaluation),
        "cases": {str(key): outcome.to_dict() for key, outcome in sorted(outcomes.items())},
        **({"variants": variants} if variants else {}),
    }


def baseline_to_text(data: Mapping[str, Any]) -> str:
    """Return the text of a baseline with one case per line, so that diffs show which cases changed."""
    place = uuid4().hex  # equals no text in the data
    variants = data.get("variants", {})
    bare = {**data, "cases": place}
    if variants:
        bare["variants"] = {name: {**variant, "cases": place} for name, variant in variants.items()}
    first, *rest = json.dumps(bare, indent=2, ensure_ascii=True, allow_nan=False).split(f'"{place}"')
    cases = [data["cases"], *(variant["cases"] for variant in variants.values())]
    return first + "".join(f"{_cases_to_text(part)}{after}" for part, after in zip(cases, rest, strict=True)) + "\n"


def _cases_to_text(cases: Mapping[str, Any]) -> str:
    lines = [f"    {json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items()]
    return "{\n" + ",\n".join(lines) + "\n  }" if lines else "{}"


def counterparts(baseline: Evaluation, variants: Collection[str]) -> dict[str, Evaluation]:
    """
    Return the part of the baseline for each variant of a run by name; the name is empty without variants.

    A baseline without variants is used for each variant. Raise RecordError if it is unclear which part to use.
    """
    theirs = ", ".join(baseline.variants)
    if not variants:
        if baseline.variants:
            message = f"{baseline.source} has variants ({theirs}), but this run has no variants: choose another run"
            raise RecordError(message, found=list(baseline.variants), where=baseline.source)
        return {"": baseline}
    if not baseline.variants:
        return dict.fromkeys(variants, baseline)
    compared = {name: baseline.variants[name] for name in variants if name in baseline.variants}
    if not compared:
        message = f"{baseline.source} has the variants {theirs}; expected a variant of this run: {', '.join(variants)}"
        raise RecordError(message, found=list(baseline.variants), expected=list(variants), where=baseline.source)
    return compared


def against(
    baseline: Evaluation, metadata: RunMetadata, summary: Summary, *, without: Collection[CaseKey] = ()
) -> dict[str, Comparison]:
    """
    Return the comparisons of a run, or of each of its variants, with a baseline, `without` some of its cases.

    Cases that a run leaves out, since their schemas cannot be rewritten as it demands, have not vanished from it.
    """
    ours = {run.variant: run for run in each(metadata)}
    comparisons = {}
    for name, run in counterparts(baseline, list(summary.variants)).items():
        before = {key: outcome for key, outcome in (run.outcomes or {}).items() if key not in without}
        current = summary.variants.get(name, summary)
        now = current.outcomes
        settings = [run.settings, settings_of(ours.get(name, metadata).to_dict())]
        compared = compare(before, now, differences(settings, same_cases=same_cases(before, now)))
        left_out = current.not_rewritten - now.keys()
        expected = {key: outcome for key, outcome in before.items() if key not in left_out}
        comparisons[name] = replace(compared, ratchet=Ratchet.of(expected, now))
    return comparisons
