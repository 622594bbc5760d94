"""Read and write evaluation files, which contain metrics as JSON: `run.json`, baselines, and files of other tools."""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
from msgspec import Meta

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import JSBenchError, RecordError
from pytest_jsbench.core.files import FileReader, write_atomically
from pytest_jsbench.core.json_values import Natural, digest, from_json, to_json
from pytest_jsbench.core.text import printable
from pytest_jsbench.formats import EVALUATION, METRICS, load_format_schema
from pytest_jsbench.metrics.case_outcomes import CaseOutcome
from pytest_jsbench.metrics.comparison import Comparison, ComparisonFigures, PairFigures, same_cases
from pytest_jsbench.metrics.figures import RATES, find_figure
from pytest_jsbench.metrics.gates import GateResult
from pytest_jsbench.metrics.quarantine import QuarantineFigures
from pytest_jsbench.metrics.statistics import Rate, clustered, proportion
from pytest_jsbench.metrics.summary import KeywordFigures, Summary, summarize
from pytest_jsbench.records import journal
from pytest_jsbench.records.metadata import RunMetadata
from pytest_jsbench.records.runs import Run, RunVerdict
from pytest_jsbench.records.setting_differences import Setting, SettingDifference, differences, settings_of

#: Version of the format of `run.json`; raised when a field is added.
RUN_VERSION = "1.0"
UNKNOWN = "unknown"
#: Metric that every run of pytest-jsbench has, and files of other tools do not have.
OURS = "pass_rate"


class GateFigures(TypedDict):
    """Result of a gate in run.json."""

    #: The gate as the user wrote it.
    gate: str
    #: Whether the gate was met.
    met: bool
    #: Result in one line, with the value of the metric.
    message: str


class EvaluationHead(TypedDict):
    """Fields that every evaluation file has in addition to its metrics."""

    #: Version of the format of the file; raised when a field is added.
    schema_version: str
    #: Path of the run's ini file; 'unknown' if there was none.
    config_path: str
    #: Name of the engine.
    backend: str


class VariantFigures(TypedDict):
    """Metrics and outcomes of a variant, in the same form as those of a run."""

    #: Metrics over all attempts; the page Metrics defines them.
    metrics: Mapping[str, Any]
    #: Metrics of each task.
    tasks: Mapping[str, Any]
    #: For each JSON Schema keyword, the answers that violate it, and the attempts whose schema uses it.
    keywords: Mapping[str, KeywordFigures]
    #: Names (task::id) of the cases for which the two validators disagree on an answer.
    disputed: list[str]
    #: Outcome of each case by its name (task::id), for comparisons with other runs.
    cases: Mapping[str, Any]
    #: Comparison with the baseline over common cases; null without a baseline.
    baseline: NotRequired[ComparisonFigures | None]


class FinishedRun(TypedDict):
    """Fields of `run` in run.json that the header of records.jsonl does not have."""

    #: End time of the run (ISO 8601, UTC).
    ended_at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    #: Whether every planned attempt was answered or declined, and judged.
    complete: bool
    #: Number of records that were reused from an interrupted run.
    resumed: Natural
    #: Attempts whose request broke the server while it was the only one in flight; absent if there are none.
    broke_server: NotRequired[list[str]]


class RunFile(EvaluationHead, VariantFigures):
    """
    File run.json: schema_version, config_path, backend and metrics, as in all evaluation files, with the run and its
    tasks.

        Fields are added, never removed; null means not applicable.
    """

    #: Settings of the run: the header of records.jsonl without its plan, and further fields.
    run: Mapping[str, Any]
    #: The run verdict, as in every other output; None if undecided.
    verdict: NotRequired[RunVerdict | None]
    #: Results of the gates, in the order of the options.
    gates: list[GateFigures]
    #: The entries of the list of quarantined cases; absent without a list.
    quarantine: NotRequired[list[QuarantineFigures]]
    #: For each variant, the highest pass rate first, the fields `metrics`, `tasks`, `keywords`, `disputed`, `cases` and
    #: `baseline` of this variant alone; absent in a run without variants.
    variants: NotRequired[Mapping[str, VariantFigures]]
    #: Comparisons of the variants in pairs, with the fields of `baseline` and further fields; with more than four
    #: variants, each is compared only with the variant declared first; absent in a run without variants.
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
    Return the content of a run's `run.json` as JSON values.

    `comparisons` with the baseline are by variant, with an empty key in a run without variants. `baseline` is the file
    or directory of the baseline.
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
            **({"broke_server": list(run.broke_server)} if run.broke_server else {}),
            "dataset": {**run.metadata.dataset, "digest": digest(sorted(cases))},
        },
        "verdict": None if run.verdict is None else to_json(run.verdict),
        "gates": [{"gate": one.gate.text, "met": one.met, "message": one.message} for one in gates],
        "baseline": compared.get(""),
        **(_variants_to_dict(summary, compared) if summary.variants else {}),
    }


def _figures(summary: Summary) -> dict[str, Any]:
    """Return the metrics and outcomes of a run or a variant as JSON values."""
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
    """Write the file atomically; raise JournalError if this fails."""
    write_atomically(path, _indented(data))


def _indented(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the file's text; msgspec indents it in a fraction of the time of `json`."""
    try:
        yield msgspec.json.format(json.dumps(data, allow_nan=False), indent=2)
    except msgspec.DecodeError:  # a lone surrogate
        yield json.dumps(data, indent=2, allow_nan=False)
    yield "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Metrics of one model, or of one variant, from one file."""

    #: Path of the file as the user wrote it.
    source: str
    config_path: str
    backend: str
    #: Settings of the run, as far as the file contains them; empty in a file of another tool.
    run: Mapping[str, Any]
    #: Metrics by name; None if a metric is not applicable.
    metrics: Mapping[str, Any]
    #: Outcome of each case; None in a file of another tool.
    outcomes: Mapping[CaseKey, CaseOutcome] | None
    #: Metrics of each task; empty in a baseline and in a file of another tool.
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: The run verdict; None if undecided or not in the file.
    verdict: RunVerdict | None = None
    #: Problems with reading the records, one line each.
    warnings: tuple[str, ...] = ()
    #: Evaluation of each variant, in the order of declaration; empty in a run without variants.
    variants: Mapping[str, Evaluation] = field(default_factory=dict)

    @property
    def model(self) -> str | None:
        """Name of the model; None in a file of another tool."""
        return _text(self.run.get("model"))

    @property
    def variant(self) -> str:
        """Name of the variant; empty in a run without variants."""
        return _text(self.run.get("variant")) or ""

    @property
    def each(self) -> tuple[Evaluation, ...]:
        """
        Evaluations of the variants, with the verdict of the whole run; only the evaluation itself if there are no
        variants.
        """
        return tuple(replace(one, verdict=self.verdict) for one in self.variants.values()) or (self,)

    @property
    def settings(self) -> dict[str, Setting]:
        """Settings of the run, as far as they are known."""
        return settings_of(self.run)

    @property
    def label(self) -> str:
        """Name for reports: the variant, otherwise the model, otherwise the name of the file."""
        return self.variant or self.model or Path(self.source).stem

    def figure(self, name: str) -> Rate | float | None:
        """Return a figure by its name in `figures.FIGURES`; None if the figure is not applicable or not in the file."""
        row = find_figure(name)
        return self.rate(name) if row is not None and row.is_rate else self.figures.get(name)

    def rate(self, name: str) -> Rate:
        """Return a metric that is a rate, with its interval."""
        low, high = self.interval(name) or (None, None)
        return Rate(value=self.figures.get(name), ci_low=low, ci_high=high)

    def interval(self, name: str) -> tuple[float, float] | None:
        """
        Return the bounds of a metric's interval from `_ci_low` and `_ci_high`, or from a list in `_ci`; None if
        unknown.
        """
        pair = self.metrics.get(f"{name}_ci")
        ends = pair if isinstance(pair, list) else [self.figures.get(f"{name}_ci_{end}") for end in ("low", "high")]
        if ends == [None, None]:
            ends = self._interval_of_count(name)
        numbers = [end for end in ends if end is not None and is_figure(end)]
        return (numbers[0], numbers[1]) if len(ends) == len(numbers) == 2 else None

    def _interval_of_count(self, name: str) -> list[float | None]:
        """Return the bounds of a failure rate from its count, or from the outcomes of the cases if they are known."""
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
        """Metrics that are numbers or not applicable; metrics in a group are named `group.name`."""
        figures: dict[str, float | None] = {}
        for name, value in self.metrics.items():
            group = value.items() if isinstance(value, Mapping) else ()
            pairs = [(name, value), *((f"{name}.{part}", figure) for part, figure in group)]
            figures.update({key: figure for key, figure in pairs if is_figure(figure)})
        return figures


def is_figure(value: object) -> bool:
    """Return whether the value of a metric is a number, or None for not applicable."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def read(path: Path) -> Evaluation:
    """Read the evaluation in a file or in a run's directory; raise JSBenchError if this fails."""
    if path.is_dir():
        return _read_folder(path)
    if path.suffix == ".jsonl":
        return _read_records(path)
    return parse(load(path), source=str(path))


def each_run(path: Path) -> list[Path]:
    """Return the runs in a directory of runs, the newest last; for any other path, the path itself."""
    is_one = not path.is_dir() or (path / "run.json").is_file()
    return [path] if is_one else journal.find_runs(path) or [path]


def load(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file; raise RecordError if the file contains anything else."""
    data = FileReader(root=path.parent, error=RecordError).read_json(path)
    if not isinstance(data, dict):
        message = f"{path} is not a JSON object; expected an evaluation, such as a run's run.json"
        raise RecordError(message, found=type(data).__name__, expected="a JSON object", where=path)
    return data


def parse(data: Mapping[str, Any], *, source: str) -> Evaluation:
    """Parse an evaluation, or an old file that contains only metrics; raise RecordError for anything else."""
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
    """Return the evaluation of each variant, with the settings of the variant."""
    variants = data.get("variants")
    run = data.get("run")
    if not isinstance(variants, Mapping) or not isinstance(run, Mapping):
        return {}
    variants_of_run = run.get("variants")
    by_name = {
        part.get("variant"): part
        for part in (variants_of_run if isinstance(variants_of_run, list) else ())
        if isinstance(part, Mapping)
    }
    shared = {name: value for name, value in run.items() if name != "variants"}
    evaluations: dict[str, Evaluation] = {}
    for name, part in variants.items():
        if not isinstance(part, Mapping) or name not in by_name:
            raise RecordError(f"the variant {printable(repr(name), 60)} is not listed in the run")
        whole = {**data, **part, "run": {**shared, **by_name[name]}, "verdict": None, "variants": None}
        evaluations[name] = parse(whole, source=source)
    return {name: evaluations[name] for name in by_name if name in evaluations}


def without_retired(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics with None in place of -1, which another tool writes for metrics that it no longer measures."""
    described = load_format_schema("evaluation")["properties"]["metrics"]["properties"]
    return {name: None if value == -1 and name in described else value for name, value in metrics.items()}


def metric_problems(metrics: Mapping[str, Any]) -> list[str]:
    """Return the problems with the metrics in an evaluation, including other tools' rates with the names of ours."""
    wrong = list(EVALUATION.problems({"config_path": "", "backend": "", "metrics": metrics}, complete=True))
    ours = metrics if OURS in metrics else {name: value for name, value in metrics.items() if name in RATES}
    return wrong + [f"metrics.{problem}" for problem in METRICS.problems(ours)]


def migrate(data: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an evaluation file of any version to the current format."""
    current = dict(data) if "metrics" in data else {"metrics": dict(data)}
    defaults = {"schema_version": "1.0", "config_path": UNKNOWN, "backend": UNKNOWN}
    current_head = {name: current.get(name) for name in defaults}
    head = defaults | {name: value for name, value in current_head.items() if isinstance(value, str) and value}
    if not isinstance(current["metrics"], Mapping):
        raise JSBenchError(f"metrics is {type(current['metrics']).__name__}; expected an object")
    return {**head, **{name: value for name, value in current.items() if name not in head}}


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
    """Return the evaluation of a run."""
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
    """Read the run in a records.jsonl or in a run's directory; raise JSBenchError if this fails."""
    run = journal.read_run(path).run(path)
    return replace(run, verdict=RunVerdict.from_run_json(_data_of(path, run.metadata.run_id)))


def read_gates(path: Path, run: Run) -> list[GateFigures]:
    """Read the results of the run's gates from the run.json next to its records; raise RecordError if invalid."""
    try:
        return from_json(list[GateFigures], _data_of(path, run.metadata.run_id).get("gates", []))
    except ValueError as error:
        raise RecordError(f"gates of {printable(str(path))}: {error}", where=path) from error


def _data_of(path: Path, run_id: str) -> Mapping[str, Any]:
    """Return the content of the run.json next to a run's records; empty if the file is missing or of another run."""
    file = journal.find_files(path)[0].with_name("run.json")
    data = load(file) if file.is_file() else {}
    run = data.get("run")
    return data if isinstance(run, Mapping) and run.get("run_id") == run_id else {}


def with_cases(path: Path) -> tuple[Evaluation, Mapping[CaseKey, CaseOutcome]]:
    """Return an evaluation and the outcome of each case; raise JSBenchError if the file contains no outcomes."""
    whole = read(path)
    if whole.outcomes is None:
        message = f"{path} has no outcomes of cases; expected a run, or the file that `jsbench baseline` wrote"
        raise RecordError(message, where=path)
    # a baseline contains the outcomes of cases only in its variants
    return whole, ChainMap({**whole.outcomes}, *({**(part.outcomes or {})} for part in whole.variants.values()))


def firsts(evaluations: Sequence[Evaluation]) -> list[int]:
    """
    Return, for each evaluation, the index of its reference, which is the first evaluation.

    If all variants occur in several runs, the reference is the first evaluation of the same variant.
    """
    variants = [evaluation.variant for evaluation in evaluations]
    have_counterparts = all(name and variants.count(name) > 1 for name in variants)
    return [variants.index(name) if have_counterparts else 0 for name in variants]


def settings_apart(evaluations: Sequence[Evaluation]) -> tuple[SettingDifference, ...]:
    """Return the settings that differ between the evaluations."""
    cases_equal = same_cases(*(evaluation.outcomes for evaluation in evaluations))
    return differences([evaluation.settings for evaluation in evaluations], same_cases=cases_equal)
