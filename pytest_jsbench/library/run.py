"""Provide runs in the Python API: metrics, attempts as a table, and display in notebooks."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.arguments import arguments, names, one_of, path, whole
from pytest_jsbench.core.arguments import text as any_text
from pytest_jsbench.core.errors import GateError, RecordError
from pytest_jsbench.core.generations import Failed
from pytest_jsbench.core.text import format_count, kind_of, printable
from pytest_jsbench.library.evaluation_options import argument_names_in_errors, with_argument_names
from pytest_jsbench.metrics.figures import FIGURES
from pytest_jsbench.metrics.summary import Summary, summarize
from pytest_jsbench.records.runs import Run
from pytest_jsbench.reports import run_report, tables
from pytest_jsbench.reports.html.report import html_table
from pytest_jsbench.reports.terminal import report_lines

if TYPE_CHECKING:
    from pytest_jsbench.library.engine import EngineLike
    from pytest_jsbench.metrics.comparison import Comparison
    from pytest_jsbench.metrics.gates import GateResult
    from pytest_jsbench.run.reduction.reduction import Reduction


@dataclass(frozen=True, kw_only=True)
class RunSummary(Summary):
    """Metrics of a run, with display as a table and conversion to a DataFrame."""

    run: Run = field(compare=False)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return "\n".join(report_lines(run_report.tables(self.run, self)))

    def _repr_html_(self) -> str:
        return html_table(run_report.main_table(self.run, self))

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row for each task, and a row `total` for all tasks."""
        return tables.summary_to_pandas(self)


_COMPARED = one_of("a run, or its path", Run, str, PathLike)


@dataclass(frozen=True, kw_only=True)
class EvaluatedRun(Run):
    """A run made by `evaluate`, or loaded from a directory."""

    #: Directory of the run's records; None if the run is only in memory.
    folder: Path | None = None

    @classmethod
    def of_run(cls, run: Run, folder: Path | None = None) -> EvaluatedRun:
        """Return the run as an EvaluatedRun with this directory."""
        return cls(**{field.name: getattr(run, field.name) for field in fields(Run)}, folder=folder)

    @cached_property
    def summary(self) -> RunSummary:
        """Metrics of the run."""
        summary = summarize(self)
        return RunSummary(**{field.name: getattr(summary, field.name) for field in fields(Summary)}, run=self)

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row for each planned attempt."""
        return tables.to_pandas(self)

    def to_arrow(self) -> Any:
        """Return the rows of `to_pandas` as a pyarrow Table."""
        return tables.to_arrow(self)

    def to_dataset(self) -> Any:
        """Return the rows of `to_pandas` as a `datasets.Dataset`, which can be pushed to a hub."""
        return tables.to_dataset(self)

    @arguments(path=path)
    def to_parquet(self, path: str | PathLike[str]) -> Path:
        """Write the rows of `to_pandas` to a Parquet file."""
        return tables.write_parquet(Path(path), self)

    @arguments(path=path)
    def to_csv(self, path: str | PathLike[str]) -> Path:
        """Write the rows of `to_pandas` to a CSV file."""
        return tables.write_csv(Path(path), self)

    @arguments(baseline=_COMPARED)
    def check(self, *gates: str, baseline: Run | str | PathLike[str] | None = None) -> tuple[GateResult, ...]:
        """
        Check gates, written as for `--jsbench-gate`; a gate on a metric that was not measured is not met.

        Gates on `baseline.difference` and similar metrics need `baseline`: another run, or the file that `jsbench
        baseline` wrote.
        """
        from pytest_jsbench.metrics.gates import Gate, check_all

        texts: tuple[object, ...] = gates
        for text in texts:
            if not isinstance(text, str):
                raise GateError(f"a gate is {kind_of(text)}; expected a text such as 'pass_rate>=0.9'")
        if not gates:
            raise GateError("no gate: expected conditions such as 'pass_rate>=0.9'", expected="a gate")
        tasks = {key.task for key in self.planned}
        wanted = [Gate.parse(text, self.summary.total.scores).resolve(tasks, self.variants) for text in gates]
        if baseline is None and (relative := next((gate.text for gate in wanted if gate.name.baseline), None)):
            message = f"{relative} needs a baseline; expected run.check(…, baseline=RUN)"
            raise GateError(message, found=relative, where="baseline")
        return check_all(wanted, self.summary, None if baseline is None else self._compare_with(baseline))

    @arguments(baseline=_COMPARED)
    def compare(self, baseline: Run | str | PathLike[str]) -> Comparison:
        """Compare the run case by case with another run, or with the file that `jsbench baseline` wrote."""
        comparisons = self._compare_with(baseline)
        if "" not in comparisons:
            message = (
                f"compare: the run has variants ({printable(', '.join(comparisons))}); select one, as in "
                f"EvaluatedRun.of_run(run.of_variant({printable(repr(next(iter(comparisons))))})).compare(…)"
            )
            raise RecordError(message, found=list(comparisons), where="compare")
        return comparisons[""]

    def _compare_with(self, baseline: Run | str | PathLike[str]) -> Mapping[str, Comparison]:
        """Return the comparison with another run for each variant; without variants, the only key is an empty text."""
        from pytest_jsbench.reports.baselines import against
        from pytest_jsbench.reports.run_json import evaluation_of, with_cases

        with argument_names_in_errors():
            if isinstance(baseline, Run):
                before = evaluation_of(baseline, summarize(baseline), source="the baseline")
            else:
                before = with_cases(Path(baseline))[0]
            return against(before, self.metadata, self.summary)

    @arguments(case=any_text, variant=any_text, max_calls=whole(1), concurrency=whole(1), output=path, instances=path)
    def reduce(
        self,
        case: str,
        *,
        variant: str = "",
        engine: EngineLike | None = None,
        model: str | None = None,
        base_url: str | None = None,
        api_key_env: str | None = None,
        engine_option: Mapping[str, Any] | None = None,
        max_calls: int = 300,
        max_cost: float | None = None,
        concurrency: int | None = None,
        instances: str | PathLike[str] | None = None,
        output: str | PathLike[str] | None = None,
    ) -> Reduction:
        """
        Find the smallest schema that still fails like a case, given as `task::id`, with neutral names.

        The engine is called as in the run, which records no addresses, keys and engine options: these must be given
        again. With `output`, calls are recorded in this directory, so that an interrupted reduction can be continued,
        and the result is written there.
        """
        from pytest_jsbench.library.engine import factory_of
        from pytest_jsbench.run.plan import RateLimits
        from pytest_jsbench.run.reduction.issue_text import prepare_folder, write_files
        from pytest_jsbench.run.reduction.reduction import ReductionOptions, reduce_target
        from pytest_jsbench.run.reduction.target import find_target

        folder = None if output is None else Path(output)
        given: dict[str, Any] = {"model": model, "base_url": base_url, "api_key_env": api_key_env}
        if engine_option is not None:
            given["engine_option"] = list(engine_option.items())
        with argument_names_in_errors():
            target = find_target(self, case, variant=variant, instances=None if instances is None else str(instances))
            factory, name = (None, None) if engine is None else factory_of(engine)
            if folder is not None:
                prepare_folder(folder)
            options = ReductionOptions(
                engine={key: value for key, value in {**given, "engine": name}.items() if value is not None},
                factory=factory,
                max_calls=max_calls,
                limits=RateLimits(max_cost=max_cost),
                concurrency=concurrency,
                folder=folder,
            )
            reduction = reduce_target(target, options)
        if folder is not None:
            write_files(reduction, folder)
        return reduction

    @arguments(metrics=names)
    def plot(self, metrics: Sequence[str] = ()) -> Any:
        """Return a matplotlib Figure of these metrics, by default the main metrics, with a bar for each variant."""
        parts: Mapping[str, Run] = self.each() or {self._title: self}
        return plot_runs(parts, metrics)

    @property
    def _title(self) -> str:
        return printable(f"{self.metadata.engine} {self.metadata.model}")

    def __repr__(self) -> str:
        figure = FIGURES["pass_rate"]
        rate = self.summary.total.pass_rate
        passed = f"{figure.title.lower()} {'n/a' if rate.value is None else figure.text_of(rate.value)}"
        where = "in memory" if self.folder is None else f"in {self.folder}"
        return f"<run of {self._title}: {format_count(len(self.planned), 'attempt')}, {passed}, {where}>"

    @property
    def _lines(self) -> list[str]:
        """Lines to show above the metrics: the run, its verdict, attempts without an answer, and warnings."""
        decided = [] if self.verdict is None else [self.verdict.text]
        warnings = (printable(with_argument_names(line), 600) for line in (*self._without_answer, *self.warnings))
        return [repr(self), *decided, *warnings]

    @property
    def _without_answer(self) -> Iterator[str]:
        """Lines with the number of failed calls and of missing records, and the reason for the first of each."""
        broken = [outcome for outcome in self.outcomes if outcome.failed]
        if broken:
            record = broken[0].read()
            assert isinstance(record.generation, Failed)
            why = f"{record.generation.kind}: {record.generation.message}"
            yield f"{format_count(len(broken), 'attempt')} with a failed call; {record.key}: {why}"
        unrecorded = self.unrecorded()
        for attempt, missing in itertools.islice(unrecorded.items(), 1):
            why = "unknown reason" if missing is None else f"{missing.reason} {missing.message}".rstrip()
            yield f"{format_count(len(unrecorded), 'attempt')} without a record; {attempt.key}: {why}"

    def __str__(self) -> str:
        return "\n".join([*self._lines, "", *report_lines(run_report.report(self, self.summary))])

    def _repr_html_(self) -> str:
        texts = (*run_report.facts_of_variants(self.summary), *run_report.facts(self, self.summary))
        facts = [f"{name}: {printable(text, None)}" for name, text in texts]
        above, below = ("<br>".join(map(html.escape, part)) for part in (self._lines, facts))
        return f"<p>{above}</p>{self.summary._repr_html_()}<p>{below}</p>"


def _runs_by_name(value: object) -> object:
    if not isinstance(value, Mapping) or not value or not all(isinstance(run, Run) for run in value.values()):
        raise ValueError("a mapping of names to runs, such as {'first': run}")
    return value


@arguments(path=path)
def load_run(path: str | PathLike[str]) -> EvaluatedRun:
    """Load a run from its directory, its records.jsonl, or the newest run in a directory; records stay on disk."""
    from pytest_jsbench.records.journal import find_files
    from pytest_jsbench.reports.run_json import read_run

    with argument_names_in_errors():
        run = read_run(Path(path))
        return EvaluatedRun.of_run(run, find_files(Path(path))[0].parent)


@arguments(runs=_runs_by_name, metrics=names)
def plot_runs(runs: Mapping[str, Run], metrics: Sequence[str] = ()) -> Any:
    """Return a matplotlib Figure that compares runs by name, with intervals: one panel per metric."""
    from pytest_jsbench.reports.plot import picture
    from pytest_jsbench.reports.run_json import evaluation_of

    evaluations = [evaluation_of(run, summarize(run), source=name) for name, run in runs.items()]
    return picture(evaluations, list(runs), metrics)
