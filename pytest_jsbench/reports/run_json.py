"""Read and write evaluation files: the stable JSON of metrics, ours (`run.json`) or another tool's."""

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
from pytest_jsbench.records.questions import each
from pytest_jsbench.records.setting_differences import Setting, SettingDifference, differences, settings_of

#: Version of `run.json`; raised when a field is added.
RUN_VERSION = "1.0"
UNKNOWN = "unknown"
#: A metric that every run of ours has, and no file of another tool.
OURS = "pass_rate"


class GateFigures(TypedDict):
    """A gate in run.json."""

    #: Text of the gate as given.
    gate: str
    #: Whether it was met.
    met: bool
    #: Message with the value, for people.
    message: str


class EvaluationHead(TypedDict):
    """The fields of every evaluation except its metrics."""

    #: Version of this file; raised when a field is added.
    schema_version: str
    #: The ini file of the run; 'unknown' if there was none.
    config_path: str
    #: The engine's name.
    backend: str


class VariantFigures(TypedDict):
    """The metrics of a variant, as of a run."""

    #: Metrics of all attempts; see the page Metrics.
    metrics: Mapping[str, Any]
    #: Metrics by task.
    tasks: Mapping[str, Any]
    #: By keyword of JSON Schema: the answers that violated it, and the attempts whose schema uses it.
    keywords: Mapping[str, KeywordFigures]
    #: Cases, as task::id, for whose answer the two validators disagree.
    disputed: list[str]
    #: Outcome of each case, as task::id, for comparing runs.
    cases: Mapping[str, Any]
    #: Comparison with another run, over the cases of both; None if there was none.
    baseline: NotRequired[ComparisonFigures | None]


class FinishedRun(TypedDict):
    """The fields of a run in run.json in addition to the header of its records."""

    #: ISO 8601, UTC.
    ended_at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    #: Whether every planned attempt was answered or declined, and judged.
    complete: bool
    #: Number of records reused from an earlier run.
    resumed: Natural


class RunFile(EvaluationHead, VariantFigures):
    """
    The stable evaluation JSON: schema_version, config_path, backend and metrics, with the run and its tasks.

    Fields are added, never removed; null means not applicable.
    """

    #: What produced the run: the header of records.jsonl without its plan, and more.
    run: Mapping[str, Any]
    #: The run verdict, as in every other output; None if undecided.
    verdict: NotRequired[RunVerdict | None]
    #: Gates of the run, in order.
    gates: list[GateFigures]
    #: By variant, the highest pass rate first: `metrics`, `tasks`, `keywords`, `disputed`, `cases` and `baseline` as
    #: here, but of this variant alone; absent in a run without variants.
    variants: NotRequired[Mapping[str, VariantFigures]]
    #: Pairs of variants compared case by case; with more than four variants, each with the one declared first. All
    #: fields of `baseline`, and these; absent in a run without variants.
    comparisons: NotRequired[list[PairFigures]]
    #: Cases that some variants pass and others fail, the most evenly divided first; absent in a run without variants.
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
    Return a run as in `run.json`: its metrics, settings, outcomes and verdict as JSON values.

    `comparisons` with a `baseline`, a file or directory, are by variant, or under an empty name.
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
        **(_variants_to_dict(summary, compared) if summary.variants else {}),
    }


def _figures(summary: Summary) -> dict[str, Any]:
    """Return the measurements of a run, or of one of its variants."""
    return {
        "metrics": summary.total.to_dict(),
        "tasks": {task: {"metrics": metrics.to_dict()} for task, metrics in summary.tasks.items()},
        "keywords": {name: figures.to_dict() for name, figures in summary.keywords.items()},
        "disputed": [str(key) for key in summary.disputed],
        "cases": {str(key): outcome.to_dict() for key, outcome in summary.outcomes.items()},
    }


def _variants_to_dict(summary: Summary, baselines: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
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
    """Write the file atomically; JournalError if that fails."""
    encoder = json.JSONEncoder(indent=2, ensure_ascii=True, allow_nan=False)
    # in parts, since there is one for each case
    write_atomically(path, itertools.chain(encoder.iterencode(data), "\n"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The metrics of one model from one file."""

    #: The file, as the user named it.
    source: str
    config_path: str
    backend: str
    #: What produced it, as far as the file states; empty in another tool's file.
    run: Mapping[str, Any]
    #: Metrics by name; None means not applicable.
    metrics: Mapping[str, Any]
    #: Outcome of each case; None in another tool's file.
    outcomes: Mapping[CaseKey, CaseOutcome] | None
    #: Metrics of each task; empty in a baseline, and in another tool's file.
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: The run verdict; None if undecided, or not in the file.
    verdict: RunVerdict | None = None
    #: Problems with reading its records, one line each.
    warnings: tuple[str, ...] = ()
    #: Each variant of the run, in order of declaration; empty if it has none.
    variants: Mapping[str, Evaluation] = field(default_factory=dict)

    @property
    def model(self) -> str | None:
        """The model; None in another tool's file."""
        return _text(self.run.get("model"))

    @property
    def variant(self) -> str:
        """Name of the variant; empty in a run without variants."""
        return _text(self.run.get("variant")) or ""

    @property
    def each(self) -> tuple[Evaluation, ...]:
        """Each variant of the run, with the verdict of the whole; a run without variants itself."""
        return tuple(replace(one, verdict=self.verdict) for one in self.variants.values()) or (self,)

    @property
    def settings(self) -> dict[str, Setting]:
        """Settings of the run, as far as known."""
        return settings_of(self.run)

    @property
    def label(self) -> str:
        """A name for people: the variant, the model, or else the file's name."""
        return self.variant or self.model or Path(self.source).stem

    def figure(self, name: str) -> Rate | float | None:
        """Return a figure of `figures.FIGURES`; None if it is not applicable, or not in the file."""
        row = named(name)
        return self.rate(name) if row is not None and row.is_rate else self.figures.get(name)

    def rate(self, name: str) -> Rate:
        """Return a metric that is a rate, with its interval."""
        low, high = self.interval(name) or (None, None)
        return Rate(value=self.figures.get(name), ci_low=low, ci_high=high)

    def interval(self, name: str) -> tuple[float, float] | None:
        """Return the bounds of a metric's interval: its `_ci_low` and `_ci_high`, or its `_ci` with two numbers."""
        pair = self.metrics.get(f"{name}_ci")
        ends = pair if isinstance(pair, list) else [self.figures.get(f"{name}_ci_{end}") for end in ("low", "high")]
        if ends == [None, None]:
            ends = self._interval_of_count(name)
        numbers = [end for end in ends if end is not None and is_figure(end)]
        return (numbers[0], numbers[1]) if len(ends) == len(numbers) == 2 else None

    def _interval_of_count(self, name: str) -> list[float | None]:
        """Return the bounds of a failure rate, computed from its count, over cases if their outcomes are known."""
        group, _, kind = name.partition(".")
        counts = self.metrics.get("failure_counts")
        planned = self.metrics.get("planned")
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
        """Return the metrics that are numbers, those in a group as `group.name`; None if one is not applicable."""
        figures: dict[str, float | None] = {}
        for name, value in self.metrics.items():
            group = value.items() if isinstance(value, Mapping) else ()
            pairs = [(name, value), *((f"{name}.{part}", figure) for part, figure in group)]
            figures.update({key: figure for key, figure in pairs if is_figure(figure)})
        return figures


def is_figure(value: object) -> bool:
    """Return whether a metric is a number, or not applicable."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def read(path: Path) -> Evaluation:
    """Read the evaluation in a file or a run's directory; JSBenchError if there is none."""
    if path.is_dir():
        return _read_folder(path)
    if path.suffix == ".jsonl":
        return _read_records(path)
    return parse(load(path), source=str(path))


def each_run(path: Path) -> list[Path]:
    """Return each run of a directory of runs, the newest last; any other path itself."""
    is_one = not path.is_dir() or (path / "run.json").is_file()
    return [path] if is_one else journal.find_runs(path) or [path]


def load(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file; RecordError if there is none."""
    data = FileReader(root=path.parent, error=RecordError).read_json(path)
    if not isinstance(data, dict):
        message = f"{path} is not a JSON object; expected an evaluation, such as a run's run.json"
        raise RecordError(message, found=type(data).__name__, expected="a JSON object", where=path)
    return data


def parse(data: Mapping[str, Any], *, source: str) -> Evaluation:
    """Parse an evaluation, or an old file with only metrics; RecordError for anything else."""
    metrics = data.get("metrics", data)
    if not isinstance(metrics, Mapping) or not any(map(is_figure, metrics.values())):
        raise RecordError(f"{source} has no metrics; expected an evaluation, such as a run's run.json", where=source)
    metrics = without_retired(metrics)
    run = data.get("run")
    try:
        EVALUATION.check({**data, "metrics": metrics} if "metrics" in data else {"metrics": metrics})
        if OURS in metrics:
            METRICS.check(metrics)
        outcomes = _outcomes(data.get("cases"))
        tasks = _tasks(data.get("tasks"))
        verdict = RunVerdict.from_run_json(data)
        variants = _variants(data, source)
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
    """Return the evaluation of each variant, with its metadata."""
    variants = data.get("variants")
    run = data.get("run")
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
            raise RecordError(f"the variant {printable(repr(name), 60)} is not listed in the run")
        whole = {**data, **part, "run": {**shared, **own[name]}, "verdict": None, "variants": None}
        evaluations[name] = parse(whole, source=source)
    return {name: evaluations[name] for name in own if name in evaluations}


def without_retired(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics, with None for those that another tool writes as -1, since it no longer measures them."""
    described = published("evaluation")["properties"]["metrics"]["properties"]
    return {name: None if value == -1 and name in described else value for name, value in metrics.items()}


def metric_problems(metrics: Mapping[str, Any]) -> list[str]:
    """Return the problems of the metrics of any tool's evaluation; a rate with our name is checked like ours."""
    wrong = list(EVALUATION.problems({"config_path": "", "backend": "", "metrics": metrics}, complete=True))
    ours = metrics if OURS in metrics else {name: value for name, value in metrics.items() if name in RATES}
    return wrong + [f"metrics.{problem}" for problem in METRICS.problems(ours)]


def migrate(data: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an evaluation file of any version to the current form; only its metrics change."""
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


def _read_folder(folder: Path) -> Evaluation:
    if (folder / "run.json").is_file():
        evaluation = parse(load(folder / "run.json"), source=str(folder))
        if evaluation.outcomes is not None:
            return evaluation
    if any(folder.glob("records*.jsonl")):
        return _read_records(folder)
    runs = journal.find_runs(folder)
    if len(runs) == 1:
        return _read_folder(runs[0])
    hint = "name one of them" if runs else "expected a run's directory or a file"
    message = f"no run.json and no records.jsonl in {folder}, which is {journal.describe_content(folder)}: {hint}"
    raise RecordError(message, where=folder)


def _read_records(path: Path) -> Evaluation:
    run = read_run(path)
    summary = summarize(run)
    return evaluation_of(run, summary, source=str(path))


def evaluation_of(run: Run, summary: Summary, *, source: str) -> Evaluation:
    """Return a run as an evaluation."""
    whole = _measurements(run.metadata, summary, source=source)
    variants = {
        name: _measurements(run.metadata.of_variant(name), summary.variants[name], source=source)
        for name in run.variants
    }
    return replace(whole, verdict=run.verdict, warnings=run.warnings, variants=variants)


def _measurements(metadata: RunMetadata, summary: Summary, *, source: str) -> Evaluation:
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
    """Read the run in a records.jsonl, or in its directory; JSBenchError if there is none."""
    run = journal.read_run(path).run(path)
    return replace(run, verdict=_verdict(journal.find_files(path)[0].with_name("run.json"), run.metadata.run_id))


def _verdict(path: Path, run_id: str) -> RunVerdict | None:
    """Read the verdict of that run from the run.json next to its records; RecordError if it cannot be read."""
    data = load(path) if path.is_file() else {}
    run = data.get("run")
    ours = isinstance(run, Mapping) and run.get("run_id") == run_id
    return RunVerdict.from_run_json(data) if ours else None


def with_cases(path: Path) -> tuple[Evaluation, Mapping[CaseKey, CaseOutcome]]:
    """Return an evaluation and the outcome of each case; JSBenchError if it has none."""
    whole = read(path)
    if whole.outcomes is None:
        message = f"{path} has no outcomes of cases; expected a run, or the file that `jsbench baseline` wrote"
        raise RecordError(message, where=path)
    # a baseline has the cases of each variant only
    return whole, ChainMap({**whole.outcomes}, *({**(part.outcomes or {})} for part in whole.variants.values()))


#: Metadata that a later run is compared with.
_KEPT = (
    *("run_id", "engine", "model", "provider", "response_format", "streaming", "details", "params", "prompt"),
    *("variants", "prompt_digest", "shots", "adapt", "dataset", "repeats", "concurrency", "policy", "versions", "host"),
    "comparers",
)


def kept_of_run(evaluation: Evaluation, *more: str) -> dict[str, Any]:
    """Return the settings of a run that a later one is compared with."""
    return {name: evaluation.run[name] for name in (*_KEPT, *more) if name in evaluation.run}


#: Fields of each variant in a baseline.
_MEASURED = ("metrics", "cases")


def baseline_to_dict(evaluation: Evaluation, outcomes: Mapping[CaseKey, CaseOutcome]) -> dict[str, Any]:
    """Return a small evaluation file for version control, with what later runs are compared with."""
    counts = ["planned", "completions", "priced", "passed", "valid_instances", "invalid_instances"]
    times = [f"{time}_{part}" for time in ("tgt", "grammar_compilation") for part in ("count", "p50")]
    kept = [*counts, *bounded(RATES), *times, "cost"]
    variants = {
        name: {part: value for part, value in baseline_to_dict(own, own.outcomes or {}).items() if part in _MEASURED}
        for name, own in evaluation.variants.items()
    }
    if variants:  # the variants have the cases
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
    """Return the file's text, one case per line, so that a diff shows the changed cases."""
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
    Return the baseline of each variant of a run, or under an empty name; RecordError if it is ambiguous.

    A baseline without variants applies to each.
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
        message = f"{baseline.source} has the variants {theirs}, but none of this run's: {', '.join(variants)}"
        raise RecordError(message, found=list(baseline.variants), expected=list(variants), where=baseline.source)
    return compared


def firsts(evaluations: Sequence[Evaluation]) -> list[int]:
    """
    Return for each evaluation the index of the one that it is compared with: the first.

    If several runs have the same variants, it is the first of the same variant.
    """
    variants = [evaluation.variant for evaluation in evaluations]
    alike = all(name and variants.count(name) > 1 for name in variants)
    return [variants.index(name) if alike else 0 for name in variants]


def against(baseline: Evaluation, metadata: RunMetadata, summary: Summary) -> dict[str, Comparison]:
    """Compare a run, or each of its variants, with the cases and settings of a baseline."""
    ours = {run.variant: run for run in each(metadata)}
    comparisons = {}
    for name, run in counterparts(baseline, list(summary.variants)).items():
        before, now = run.outcomes or {}, summary.variants.get(name, summary).outcomes
        settings = [run.settings, settings_of(ours.get(name, metadata).to_dict())]
        comparisons[name] = compare(before, now, differences(settings, same_cases=same_cases(before, now)))
    return comparisons


def settings_apart(evaluations: Sequence[Evaluation]) -> tuple[SettingDifference, ...]:
    """Return the settings in which the evaluations differ."""
    alike = same_cases(*(evaluation.outcomes for evaluation in evaluations))
    return differences([evaluation.settings for evaluation in evaluations], same_cases=alike)
