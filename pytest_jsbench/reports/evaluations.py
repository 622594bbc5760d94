"""Evaluation files: the stable JSON of metrics, of ours (`run.json`) or of another tool, written and read."""

from __future__ import annotations

import itertools
import json
from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import JSBenchError, RecordError
from pytest_jsbench.core.files import FileReader, write_atomically
from pytest_jsbench.core.json_values import Natural, digest, to_json
from pytest_jsbench.core.text import printable
from pytest_jsbench.formats import EVALUATION, METRICS, published
from pytest_jsbench.metrics.case_outcomes import CaseOutcome
from pytest_jsbench.metrics.comparison import Comparison, ComparisonFigures, PairFigures, compare, same_cases
from pytest_jsbench.metrics.figures import RATES, bounded, named
from pytest_jsbench.metrics.gates import GateResult
from pytest_jsbench.metrics.statistics import Rate, clustered, proportion
from pytest_jsbench.metrics.summary import KeywordFigures, Summary, summarize
from pytest_jsbench.records import journal
from pytest_jsbench.records.metadata import RunMetadata
from pytest_jsbench.records.outcomes import Run, RunVerdict
from pytest_jsbench.records.settings import Setting, SettingDifference, differences, settings_of
from pytest_jsbench.records.variants import each

#: the version of `run.json`; raised when a field is added
RUN_VERSION = "1.0"
UNKNOWN = "unknown"
#: a metric that every run of ours has, and no file of another tool
OURS = "pass_rate"


class GateFigures(TypedDict):
    """A gate, as run.json has it."""

    #: as it was given
    gate: str
    #: whether it was met
    met: bool
    #: with the figure, for people
    message: str


class EvaluationHead(TypedDict):
    """The fields of every evaluation beside its metrics."""

    #: the version of this file; raised when a field is added
    schema_version: str
    #: the ini file of the run; 'unknown' where there was none
    config_path: str
    #: the engine's name
    backend: str


class VariantFigures(TypedDict):
    """The figures of a variant, as of a run."""

    #: the figures of all attempts: page Metrics
    metrics: Mapping[str, Any]
    #: the same by task
    tasks: Mapping[str, Any]
    #: by keyword of JSON Schema: the answers that broke it, and the attempts whose schema uses it
    keywords: Mapping[str, KeywordFigures]
    #: the cases, task::id, on whose answer the two validators disagree
    disputed: list[str]
    #: how each case, task::id, ended; what two runs are compared by
    cases: Mapping[str, Any]
    #: the comparison with another run, over the cases of both; None where there was none
    baseline: NotRequired[ComparisonFigures | None]


class FinishedRun(TypedDict):
    """The fields of a run in run.json beside the header of its records."""

    #: ISO 8601, UTC
    ended_at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    #: whether every planned attempt was answered or declined, and judged
    complete: bool
    #: how many of the records were taken over from an earlier run
    resumed: Natural


class RunFile(EvaluationHead, VariantFigures):
    """
    The stable evaluation JSON: schema_version, config_path, backend and metrics, and beside them the run and its tasks.

    Fields are added, never removed; null means not applicable.
    """

    #: what produced the run: the header of records.jsonl without its plan, and more
    run: Mapping[str, Any]
    #: what was decided of the run, as every other output says it too; None where nobody has
    verdict: NotRequired[RunVerdict | None]
    #: what was asked of the run, in order
    gates: list[GateFigures]
    #: by variant, the one with the highest pass rate first: `metrics`, `tasks`, `keywords`, `disputed`, `cases` and
    #: `baseline` as here, where they are of all variants together; absent in a run without variants
    variants: NotRequired[Mapping[str, VariantFigures]]
    #: the variants compared case by case, each pair, or of more than four each with the one declared first: all fields
    #: of `baseline`, and these; absent in a run without variants
    comparisons: NotRequired[list[PairFigures]]
    #: the cases that some variants pass and others fail, those first about which they are divided most evenly; absent
    #: in a run without variants
    differing: NotRequired[list[str]]


def run_to_dict(
    run: Run,
    summary: Summary,
    *,
    config_path: str,
    gates: Sequence[GateResult] = (),
    comparisons: Mapping[str, Comparison] | None = None,
    baseline: str = "",
) -> dict[str, Any]:
    """
    A run as `run.json` holds it: its metrics, settings, outcomes and verdict as JSON values.

    Its `comparisons` with a `baseline`, the file or folder, are by variant, or that of no name.
    """
    compared = {name: comparison.to_dict(source=baseline) for name, comparison in (comparisons or {}).items()}
    cases = ([str(outcome.key), outcome.schema_digest] for outcome in run.outcomes)
    return {
        "schema_version": RUN_VERSION,
        "config_path": config_path,
        "backend": run.metadata.engine,
        **_figures(summary),
        "run": {
            **_without_plan(run.metadata),
            "ended_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "complete": summary.total.complete,
            "resumed": run.resumed,
            "dataset": {**run.metadata.dataset, "digest": digest(sorted(cases))},
        },
        "verdict": None if run.verdict is None else to_json(run.verdict),
        "gates": [{"gate": one.gate.text, "met": one.met, "message": one.message} for one in gates],
        "baseline": compared.get(""),
        **(_of_variants(summary, compared) if summary.variants else {}),
    }


def _figures(summary: Summary) -> dict[str, Any]:
    """The measurements of a run, or of one of its variants."""
    return {
        "metrics": summary.total.to_dict(),
        "tasks": {task: {"metrics": metrics.to_dict()} for task, metrics in summary.tasks.items()},
        "keywords": {name: figures.to_dict() for name, figures in summary.keywords.items()},
        "disputed": [str(key) for key in summary.disputed],
        "cases": {str(key): outcome.to_dict() for key, outcome in summary.outcomes.items()},
    }


def _of_variants(summary: Summary, baselines: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "variants": {
            name: {**_figures(one), "baseline": baselines.get(name)} for name, one in summary.variants.items()
        },
        "comparisons": [pair.to_dict() for pair in summary.pairs],
        "differing": [str(key) for key in summary.differing],
    }


def _without_plan(metadata: RunMetadata) -> dict[str, Any]:
    data = {name: value for name, value in metadata.to_dict().items() if name != "plan"}
    for variant in data.get("variants", ()):
        del variant["plan"]
    return data


def write_run(path: Path, data: Mapping[str, Any]) -> None:
    """Write it in one step; JournalError where that fails."""
    encoder = json.JSONEncoder(indent=2, ensure_ascii=True, allow_nan=False)
    # in parts, for there is one for each case
    write_atomically(path, itertools.chain(encoder.iterencode(data), "\n"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The metrics of one model, as one file gives them."""

    #: the file, as the user named it
    source: str
    config_path: str
    backend: str
    #: what produced it, as far as the file says; nothing in a file of another tool
    run: Mapping[str, Any]
    #: by name; None means not applicable
    metrics: Mapping[str, Any]
    #: the outcome of each case; None in a file of another tool
    outcomes: Mapping[CaseKey, CaseOutcome] | None
    #: the metrics of each task; none in a baseline, and in a file of another tool
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: what was decided of it; None where nothing was, or the file does not say
    verdict: RunVerdict | None = None
    #: what could not be read of its records, one line each
    warnings: tuple[str, ...] = ()
    #: of each variant of the run, in the order in which they were declared; empty where it has none
    variants: Mapping[str, Evaluation] = field(default_factory=dict)

    @property
    def model(self) -> str | None:
        """The model; None in a file of another tool."""
        return _text(self.run.get("model"))

    @property
    def variant(self) -> str:
        """The name of its variant of the run; empty in a run without variants."""
        return _text(self.run.get("variant")) or ""

    @property
    def each(self) -> tuple[Evaluation, ...]:
        """Each variant of the run, under the verdict of the whole; of a run without variants itself."""
        return tuple(replace(one, verdict=self.verdict) for one in self.variants.values()) or (self,)

    @property
    def settings(self) -> dict[str, Setting]:
        """The settings that it was made with, as far as they are known."""
        return settings_of(self.run)

    @property
    def label(self) -> str:
        """A name for people: the variant, the model, or else the file's name."""
        return self.variant or self.model or Path(self.source).stem

    def figure(self, name: str) -> Rate | float | None:
        """The figure that `figures.FIGURES` names so; None where it is not applicable, or not in the file."""
        row = named(name)
        return self.rate(name) if row is not None and row.is_rate else self.figures.get(name)

    def rate(self, name: str) -> Rate:
        """A metric that is a rate, with its interval."""
        low, high = self.interval(name) or (None, None)
        return Rate(value=self.figures.get(name), ci_low=low, ci_high=high)

    def interval(self, name: str) -> tuple[float, float] | None:
        """The bounds of a metric's interval: its `_ci_low` and `_ci_high`, or its `_ci` of two numbers."""
        pair = self.metrics.get(f"{name}_ci")
        ends = pair if isinstance(pair, list) else [self.figures.get(f"{name}_ci_{end}") for end in ("low", "high")]
        if ends == [None, None]:
            ends = self._of_count(name)
        numbers = [end for end in ends if end is not None and is_figure(end)]
        return (numbers[0], numbers[1]) if len(ends) == len(numbers) == 2 else None

    def _of_count(self, name: str) -> list[float | None]:
        """The bounds of a failure rate, computed from its count, over cases where it is known how each ended."""
        group, _, kind = name.partition(".")
        counts, planned = self.metrics.get("failure_counts"), self.metrics.get("planned")
        count = counts.get(kind) if group == "failure_rates" and isinstance(counts, Mapping) else None
        if not isinstance(count, int) or not isinstance(planned, int) or not 0 <= count <= planned:
            return []
        if self.outcomes:
            ends = [outcome.attempts for outcome in self.outcomes.values()]
            rate = clustered((attempts.count(kind), len(attempts)) for attempts in ends)
        else:
            rate = proportion(count, planned)
        return [rate.ci_low, rate.ci_high]

    @property
    def figures(self) -> dict[str, float | None]:
        """The metrics that are numbers, those in a group as `group.name`; None where one is not applicable."""
        figures: dict[str, float | None] = {}
        for name, value in self.metrics.items():
            group = value.items() if isinstance(value, Mapping) else ()
            pairs = [(name, value), *((f"{name}.{part}", figure) for part, figure in group)]
            figures.update({key: figure for key, figure in pairs if is_figure(figure)})
        return figures


def is_figure(value: object) -> bool:
    """True where a metric is a number, or not applicable."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def read(path: Path) -> Evaluation:
    """The evaluation in a file or a run's folder; JSBenchError when there is none."""
    if path.is_dir():
        return _in_folder(path)
    if path.suffix == ".jsonl":
        return _of_records(path)
    return parse(load(path), source=str(path))


def each_run(path: Path) -> list[Path]:
    """Each run of a folder of runs, the newest last; of any other path that path."""
    is_one = not path.is_dir() or (path / "run.json").is_file()
    return [path] if is_one else journal.find_runs(path) or [path]


def load(path: Path) -> dict[str, Any]:
    """The JSON object in a file; RecordError when there is none."""
    data = FileReader(root=path.parent, error=RecordError).read_json(path)
    if not isinstance(data, dict):
        message = f"{path} holds no JSON object; expected an evaluation, such as a run's run.json"
        raise RecordError(message, found=type(data).__name__, expected="a JSON object", where=path)
    return data


def parse(data: Mapping[str, Any], *, source: str) -> Evaluation:
    """Read an evaluation, or an old file that holds only metrics; RecordError where it is neither."""
    metrics = data.get("metrics", data)
    if not isinstance(metrics, Mapping) or not any(map(is_figure, metrics.values())):
        raise RecordError(f"{source} holds no metrics; expected an evaluation, such as a run's run.json", where=source)
    metrics = without_retired(metrics)
    run = data.get("run")
    try:
        EVALUATION.check({**data, "metrics": metrics} if "metrics" in data else {"metrics": metrics})
        if OURS in metrics:
            METRICS.check(metrics)
        outcomes, tasks = _outcomes(data.get("cases")), _tasks(data.get("tasks"))
        verdict, variants = RunVerdict.from_run_json(data), _variants(data, source)
    except (ValueError, RecordError) as error:
        raise RecordError(f"{source}: {error}", where=source) from error
    return Evaluation(
        source=source,
        config_path=_text(data.get("config_path")) or UNKNOWN,
        backend=_text(data.get("backend")) or UNKNOWN,
        run=run if isinstance(run, Mapping) else {},
        metrics=metrics,
        outcomes=outcomes,
        tasks=tasks,
        verdict=verdict,
        variants=variants,
    )


def _variants(data: Mapping[str, Any], source: str) -> dict[str, Evaluation]:
    """The evaluation of each variant, with what produced it."""
    variants, run = data.get("variants"), data.get("run")
    if not isinstance(variants, Mapping) or not isinstance(run, Mapping):
        return {}
    listed = run.get("variants")
    own = {
        part.get("variant"): part for part in (listed if isinstance(listed, list) else ()) if isinstance(part, Mapping)
    }
    shared = {name: value for name, value in run.items() if name != "variants"}
    evaluations: dict[str, Evaluation] = {}
    for name, part in variants.items():
        if not isinstance(part, Mapping) or name not in own:
            raise RecordError(f"the variant {printable(repr(name), 60)} is not among those that the run lists")
        whole = {**data, **part, "run": {**shared, **own[name]}, "verdict": None, "variants": None}
        evaluations[name] = parse(whole, source=source)
    return {name: evaluations[name] for name in own if name in evaluations}


def without_retired(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics, and None for those that another tool writes as -1, since it no longer measures them."""
    described = published("evaluation")["properties"]["metrics"]["properties"]
    return {name: None if value == -1 and name in described else value for name, value in metrics.items()}


def metric_problems(metrics: Mapping[str, Any]) -> list[str]:
    """The problems of the metrics of an evaluation of any tool; a rate of our name is checked as ours."""
    wrong = list(EVALUATION.problems({"config_path": "", "backend": "", "metrics": metrics}, complete=True))
    ours = metrics if OURS in metrics else {name: value for name, value in metrics.items() if name in RATES}
    return wrong + [f"metrics.{problem}" for problem in METRICS.problems(ours)]


def migrate(data: Mapping[str, Any]) -> dict[str, Any]:
    """An evaluation file of any version in the current shape; all but its metrics stays as it is."""
    current = dict(data) if "metrics" in data else {"metrics": dict(data)}
    defaults = {"schema_version": "1.0", "config_path": UNKNOWN, "backend": UNKNOWN}
    given = {name: current.get(name) for name in defaults}
    shaped = defaults | {name: value for name, value in given.items() if isinstance(value, str) and value}
    if not isinstance(current["metrics"], Mapping):
        raise JSBenchError(f"metrics is {type(current['metrics']).__name__}; expected an object")
    return {**shaped, **{name: value for name, value in current.items() if name not in shaped}}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _outcomes(cases: object) -> dict[CaseKey, CaseOutcome] | None:
    if not isinstance(cases, Mapping):
        return None
    return {CaseKey.parse(name): CaseOutcome.from_dict(case) for name, case in cases.items()}


def _tasks(tasks: object) -> dict[str, Mapping[str, Any]]:
    metrics_by_task: dict[str, Mapping[str, Any]] = {}
    for name, task in tasks.items() if isinstance(tasks, Mapping) else ():
        metrics = task.get("metrics") if isinstance(task, Mapping) else None
        if isinstance(metrics, Mapping):
            METRICS.check(metrics)
            metrics_by_task[name] = metrics
    return metrics_by_task


def _in_folder(folder: Path) -> Evaluation:
    if (folder / "run.json").is_file():
        evaluation = parse(load(folder / "run.json"), source=str(folder))
        if evaluation.outcomes is not None:
            return evaluation
    if any(folder.glob("records*.jsonl")):
        return _of_records(folder)
    runs = journal.find_runs(folder)
    if len(runs) == 1:
        return _in_folder(runs[0])
    hint = "name one of them" if runs else "expected a run's folder or a file"
    message = f"no run.json and no records.jsonl in {folder}, which is {journal.what_is_in(folder)}: {hint}"
    raise RecordError(message, where=folder)


def _of_records(path: Path) -> Evaluation:
    run = read_run(path)
    summary = summarize(run)
    return evaluation_of(run, summary, source=str(path))


def evaluation_of(run: Run, summary: Summary, *, source: str) -> Evaluation:
    """The evaluation that a run is."""
    whole = _measured(run.metadata, summary, source=source)
    variants = {
        name: _measured(run.metadata.of_variant(name), summary.variants[name], source=source) for name in run.variants
    }
    return replace(whole, verdict=run.verdict, warnings=run.warnings, variants=variants)


def _measured(metadata: RunMetadata, summary: Summary, *, source: str) -> Evaluation:
    return Evaluation(
        source=source,
        config_path=UNKNOWN,
        backend=metadata.engine,
        run=_without_plan(metadata),
        metrics=summary.total.to_dict(),
        outcomes=summary.outcomes,
        tasks={task: metrics.to_dict() for task, metrics in summary.tasks.items()},
    )


def read_run(path: Path) -> Run:
    """The run in a records.jsonl, or in the folder it is in; JSBenchError when there is none."""
    run = journal.read_run(path).run(path)
    return replace(run, verdict=_verdict(journal.find_files(path)[0].with_name("run.json"), run.metadata.run_id))


def _verdict(path: Path, run_id: str) -> RunVerdict | None:
    """The verdict of that run in the run.json beside its records; RecordError where that cannot be read."""
    data = load(path) if path.is_file() else {}
    run = data.get("run")
    ours = isinstance(run, Mapping) and run.get("run_id") == run_id
    return RunVerdict.from_run_json(data) if ours else None


def with_cases(path: Path) -> tuple[Evaluation, Mapping[CaseKey, CaseOutcome]]:
    """An evaluation and the outcome of each case; JSBenchError where it has none."""
    whole = read(path)
    if whole.outcomes is None:
        message = f"{path} does not say how each case ended; expected a run of ours, or what `jsbench baseline` wrote"
        raise RecordError(message, where=path)
    # a baseline holds the cases of each variant alone
    return whole, ChainMap({**whole.outcomes}, *({**(part.outcomes or {})} for part in whole.variants.values()))


#: of what produced a run, what a later one is held against
_KEPT = (
    *("run_id", "engine", "model", "provider", "response_format", "streaming", "details", "params", "prompt"),
    *("variants", "prompt_digest", "shots", "adapt", "dataset", "repeats", "concurrency", "policy", "versions", "host"),
    "comparers",
)


def kept_of_run(evaluation: Evaluation, *more: str) -> dict[str, Any]:
    """The settings that produced a run, as far as a later one is held against it."""
    return {name: evaluation.run[name] for name in (*_KEPT, *more) if name in evaluation.run}


#: what a baseline says of each variant
_MEASURED = ("metrics", "cases")


def baseline_to_dict(evaluation: Evaluation, outcomes: Mapping[CaseKey, CaseOutcome]) -> dict[str, Any]:
    """A small evaluation file for version control, with what a later run is compared by."""
    counts = ["planned", "completions", "priced", "passed", "valid_instances", "invalid_instances"]
    times = [f"{time}_{part}" for time in ("tgt", "grammar_compilation") for part in ("count", "p50")]
    kept = [*counts, *bounded(RATES), *times, "cost"]
    variants = {
        name: {part: value for part, value in baseline_to_dict(own, own.outcomes or {}).items() if part in _MEASURED}
        for name, own in evaluation.variants.items()
    }
    if variants:  # the cases are theirs
        outcomes = {}
    return {
        "schema_version": RUN_VERSION,
        "config_path": evaluation.config_path,
        "backend": evaluation.backend,
        "metrics": {name: evaluation.metrics[name] for name in kept if name in evaluation.metrics},
        "run": kept_of_run(evaluation),
        "cases": {str(key): outcome.to_dict() for key, outcome in sorted(outcomes.items())},
        **({"variants": variants} if variants else {}),
    }


def baseline_to_text(data: Mapping[str, Any]) -> str:
    """The file's text, one case a line, so that a diff shows the cases that changed."""
    empty = '"cases": {}'
    variants = data.get("variants", {})
    bare = {**data, "cases": {}}
    if variants:
        bare["variants"] = {name: {**one, "cases": {}} for name, one in variants.items()}
    first, *rest = json.dumps(bare, indent=2, ensure_ascii=True, allow_nan=False).split(empty)
    cases = [data["cases"], *(one["cases"] for one in variants.values())]
    return first + "".join(f"{_cases_to_text(one)}{after}" for one, after in zip(cases, rest, strict=True)) + "\n"


def _cases_to_text(cases: Mapping[str, Any]) -> str:
    lines = [f"    {json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items()]
    return '"cases": ' + ("{\n" + ",\n".join(lines) + "\n  }" if lines else "{}")


def counterparts(baseline: Evaluation, variants: Collection[str]) -> dict[str, Evaluation]:
    """
    The baseline of each variant of a run, and of a run without variants by no name; RecordError where that is open.

    A baseline without variants is that of each.
    """
    theirs = ", ".join(baseline.variants)
    if not variants:
        if baseline.variants:
            message = f"{baseline.source} has variants ({theirs}), and this run has none: give a run without variants"
            raise RecordError(message, found=list(baseline.variants), where=baseline.source)
        return {"": baseline}
    if not baseline.variants:
        return dict.fromkeys(variants, baseline)
    compared = {name: baseline.variants[name] for name in variants if name in baseline.variants}
    if not compared:
        message = f"{baseline.source} has the variants {theirs}, and none of this run's: {', '.join(variants)}"
        raise RecordError(message, found=list(baseline.variants), expected=list(variants), where=baseline.source)
    return compared


def firsts(evaluations: Sequence[Evaluation]) -> list[int]:
    """
    For each evaluation, by its place, the one that it is held against: the first of them.

    Of several runs with the same variants it is the first of the same variant.
    """
    variants = [evaluation.variant for evaluation in evaluations]
    alike = all(name and variants.count(name) > 1 for name in variants)
    return [variants.index(name) if alike else 0 for name in variants]


def against(baseline: Evaluation, metadata: RunMetadata, summary: Summary) -> dict[str, Comparison]:
    """The comparison of a run, or of each of its variants, with what a baseline says of its cases and settings."""
    ours = {run.variant: run for run in each(metadata)}
    comparisons = {}
    for name, run in counterparts(baseline, list(summary.variants)).items():
        before, now = run.outcomes or {}, summary.variants.get(name, summary).outcomes
        settings = [run.settings, settings_of(ours.get(name, metadata).to_dict())]
        comparisons[name] = compare(before, now, differences(settings, same_cases=same_cases(before, now)))
    return comparisons


def settings_apart(evaluations: Sequence[Evaluation]) -> tuple[SettingDifference, ...]:
    """The settings in which the evaluations differ."""
    alike = same_cases(*(evaluation.outcomes for evaluation in evaluations))
    return differences([evaluation.settings for evaluation in evaluations], same_cases=alike)
