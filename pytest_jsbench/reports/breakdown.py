"""
Break runs down by task, JSON Schema keyword or prompt length: one rate per run and group, with
significance tests.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, assert_never

from pytest_jsbench.core.errors import RecordError, nearest
from pytest_jsbench.core.text import format_count, printable
from pytest_jsbench.metrics.case_outcomes import MEASURES, CaseOutcome, schema_digits
from pytest_jsbench.metrics.comparison import Comparison, adjust_together, beyond_drift, compare
from pytest_jsbench.metrics.figures import FIGURES, RATES
from pytest_jsbench.metrics.statistics import Rate, clustered, quantile, quantile_interval
from pytest_jsbench.records import journal
from pytest_jsbench.reports.blocks import Column, Marked, Row, TableBlock
from pytest_jsbench.reports.run_json import firsts

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.reports.run_json import Evaluation

#: Keywords in the schema of each case, by case and by the first digits of the schema's digest.
KeywordsOfCases = Mapping[tuple["CaseKey", str], Sequence[str]]
_Outcomes = Mapping["CaseKey", CaseOutcome]
DEFAULT_METRIC = "pass_rate"


class Grouping(StrEnum):
    """Property by which cases are grouped."""

    TASK = "task"
    KEYWORD = "keyword"
    #: Quartile of the prompt length in tokens, computed from the first run that reports tokens.
    LENGTH = "length"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseGroup:
    """Rates of all runs for one group of cases."""

    name: str
    #: Number of different cases in this group, over all runs.
    cases: int
    rates: tuple[Rate, ...]
    #: Comparison of each run with its reference run, with p-values adjusted for the whole table; None for a reference
    #: run, and if no case was decided in both runs.
    against_first: tuple[Comparison | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Rates of several runs by group of cases."""

    by: Grouping
    metric: str
    groups: tuple[CaseGroup, ...]
    #: Rate of each run over all of its cases.
    total: tuple[Rate, ...]
    #: For each run, the index of its reference run.
    firsts: tuple[int, ...]

    def _mark(self, rate: Rate, *, real: bool = False) -> Marked:
        """
        Return the rate followed by its denominator unless it is a pass rate, and by a star if the difference is
        significant.
        """
        count = f" of {rate.n:,}" if self.metric != DEFAULT_METRIC and rate.n and rate.value is not None else ""
        return Marked(rate, f"{count}{' *' if real else ''}")

    @property
    def tests(self) -> int:
        """Number of significance tests for which the p-values are adjusted."""
        return sum(comparison is not None for group in self.groups for comparison in group.against_first)

    def note(self, names: Sequence[str]) -> str:
        """Return an explanation of the intervals and stars in the table."""
        first = names[0] if not any(self.firsts) else "the same variant in the first run"
        if self.metric in MEASURES:
            medians = f"{FIGURES[MEASURES[self.metric]].title.lower()} of the cases, medians with 95 % intervals"
            return f"{medians}; * differs from {first} by more than 5 %, case by case (whole interval of the ratio)"
        rates = "rates with 95 % intervals"
        if (over := FIGURES[self.metric].of) is not None and self.metric != DEFAULT_METRIC:
            return f"{rates}, each followed by its denominator: {FIGURES[over].title.lower()}"
        if self.metric != DEFAULT_METRIC or not self.tests:
            return rates
        tests = format_count(self.tests, "test")
        marked = f"* differs from {first} by more than chance"
        return f"{rates}; {marked} (test over common cases; p-values adjusted for {tests}, Holm)"

    def table(self, names: Sequence[str]) -> TableBlock:
        """Return the breakdown as a table with a row per group, a column per run and a total."""
        rows: list[Row] = []
        for group in self.groups:
            pairs = zip(group.rates, group.against_first, strict=True)
            marked = (self._mark(rate, real=against is not None and self._differs(against)) for rate, against in pairs)
            rows.append((group.name, (group.cases, *marked)))
        figure = FIGURES[MEASURES.get(self.metric, self.metric)]
        return TableBlock(
            head=self.by.value.capitalize(),
            columns=(
                Column.of(FIGURES["cases"]),
                *(Column(heading=name, figure=figure, left=True, foreign=True) for name in names),
            ),
            rows=(*rows, ("total", ("", *map(self._mark, self.total)))),
            total=True,
        )

    def _differs(self, against: Comparison) -> bool:
        if self.metric not in MEASURES:
            return against.real
        ratio = against.ratios.get(self.metric)
        return ratio is not None and beyond_drift(ratio) != 0

    def to_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the breakdown as JSON values."""

        def rates_of(rates: Sequence[Rate]) -> dict[str, Any]:
            return {name: rate.to_dict() | {"n": rate.n} for name, rate in zip(names, rates, strict=True)}

        def against(group: CaseGroup) -> dict[str, Any]:
            compared = zip(names, self.firsts, group.against_first, strict=True)
            return {
                name: comparison.to_dict_of_several(source=names[first])
                for name, first, comparison in compared
                if comparison
            }

        return {
            "by": self.by.value,
            "metric": self.metric,
            "tests": self.tests,
            "groups": [
                {
                    "name": group.name,
                    "cases": group.cases,
                    "rates": rates_of(group.rates),
                    "against_first": against(group),
                }
                for group in self.groups
            ],
            "total": rates_of(self.total),
        }


def break_down(
    evaluations: Sequence[Evaluation],
    by: Grouping,
    *,
    keywords: KeywordsOfCases | None = None,
    metric: str = DEFAULT_METRIC,
) -> Breakdown:
    """Return the breakdown of runs by group; raise RecordError if a run does not contain the outcomes of its cases."""
    measurable = (*RATES, *MEASURES)
    if metric not in measurable:
        message = f"no rate or time '{printable(metric, 60)}': {nearest(metric, measurable)}"
        raise RecordError(message, found=metric, expected=measurable, option="metric")
    by_case = metric == DEFAULT_METRIC or metric in MEASURES
    if not by_case and by is not Grouping.TASK:
        message = f"--by={by} supports only the pass rate, found {metric}: remove the metric, or use --by=task"
        raise RecordError(message, found=metric, expected=DEFAULT_METRIC, option="metric")
    lengths = _lengths(evaluations) if by is Grouping.LENGTH else {}
    parts = [_by_group(evaluation, by, keywords or {}, lengths) for evaluation in evaluations]
    names = list(dict.fromkeys(itertools.chain.from_iterable(parts)))
    cases = {name: len({key for part in parts for key in part.get(name, ())}) for name in names}
    if by is Grouping.KEYWORD:
        names.sort(key=lambda name: (-cases[name], name))
    elif by is Grouping.LENGTH:
        names = [name for name in dict.fromkeys(lengths.values()) if name in cases]
    places = tuple(firsts(evaluations))
    against = _compare_with_first(parts, names, places) if by_case else {}
    groups = (
        CaseGroup(
            name=name,
            cases=cases[name],
            rates=tuple(
                _rate(evaluation, part.get(name, {}), name, metric)
                for evaluation, part in zip(evaluations, parts, strict=True)
            ),
            against_first=tuple(against.get((name, at)) for at in range(len(parts))),
        )
        for name in names
    )
    total = tuple(
        _median(evaluation.outcomes or {}, metric) if metric in MEASURES else _rate_of(evaluation, metric)
        for evaluation in evaluations
    )
    return Breakdown(by=by, metric=metric, groups=tuple(groups), total=total, firsts=places)


def _lengths(evaluations: Sequence[Evaluation]) -> dict[CaseKey, str]:
    """
    Return the quartile of each case's prompt length, the shortest first; raise RecordError if no
    run reports tokens.
    """
    for evaluation in evaluations:
        outcomes = (evaluation.outcomes or {}).items()
        tokens = {key: fmean(values) for key, case in outcomes if (values := case.find_measurements("input_tokens"))}
        ordered = sorted(tokens.values())
        ends = [quantile(ordered, quarter) for quarter in (0.25, 0.5, 0.75, 1)]
        shortest = sorted(tokens, key=lambda key: tokens[key])
        upper = {key: next(end for end in ends if end is not None and tokens[key] <= end) for key in shortest}
        if upper:
            return {key: f"to {end:,.0f} tokens" for key, end in upper.items()}
    raise RecordError("--by=length: no run reports the number of prompt tokens; use --by=task", option="by")


def _median(outcomes: _Outcomes, measure: str) -> Rate:
    """Return the median over cases; the value of a case is the mean of its measurements."""
    means = sorted(fmean(values) for outcome in outcomes.values() if (values := outcome.find_measurements(measure)))
    low, high = quantile_interval(means, 0.5) or (None, None)
    return Rate(value=quantile(means, 0.5), ci_low=low, ci_high=high, n=len(means))


def _by_group(
    evaluation: Evaluation, by: Grouping, keywords: KeywordsOfCases, lengths: Mapping[CaseKey, str]
) -> dict[str, _Outcomes]:
    if evaluation.outcomes is None:
        message = f"{evaluation.source} has no outcomes of cases, which --by={by} needs: name the directory of a run"
        raise RecordError(message, where=evaluation.source)
    groups: dict[str, dict[CaseKey, CaseOutcome]] = {}
    for key, outcome in evaluation.outcomes.items():
        match by:
            case Grouping.TASK:
                names: Sequence[str] = (key.task,)
            case Grouping.KEYWORD:
                names = keywords.get((key, outcome.schema), ())
            case Grouping.LENGTH:
                names = (lengths[key],) if key in lengths else ()
            case _:
                assert_never(by)
        for name in names:
            groups.setdefault(name, {})[key] = outcome
    return {**groups}


def _rate(evaluation: Evaluation, group: _Outcomes, name: str, metric: str) -> Rate:
    if metric in MEASURES:
        return _median(group, metric)
    if metric != DEFAULT_METRIC:
        return _rate_of(replace(evaluation, metrics=evaluation.tasks.get(name, {})), metric)
    return clustered((outcome.passes, len(outcome.attempts)) for outcome in group.values())


def _rate_of(evaluation: Evaluation, metric: str) -> Rate:
    """Return the rate of an evaluation, with its denominator if the file contains it."""
    over = FIGURES[metric].of
    n = None if over is None else evaluation.figures.get(over)
    return replace(evaluation.rate(metric), n=None if n is None else int(n))


def _compare_with_first(
    parts: Sequence[Mapping[str, _Outcomes]], names: Sequence[str], places: Sequence[int]
) -> dict[tuple[str, int], Comparison]:
    """Compare each run with its reference run in each group, with p-values adjusted for the number of tests."""
    compared = {
        (name, at): compare(parts[first].get(name, {}), parts[at].get(name, {}))
        for name in names
        for at, first in enumerate(places)
        if at != first
    }
    decided = {key: comparison for key, comparison in compared.items() if comparison.difference.n or comparison.ratios}
    return dict(zip(decided, adjust_together(list(decided.values())), strict=True))


def keywords_of_cases(paths: Sequence[Path]) -> KeywordsOfCases:
    """
    Return the keywords in each case's schema, read from the records of the runs; raise RecordError
    without records.
    """
    keywords: dict[tuple[CaseKey, str], Sequence[str]] = {}
    for path in paths:
        place = path.parent if path.name == "run.json" else path
        if place.is_dir() and not any(place.glob("records*.jsonl")):
            place = next(reversed(journal.find_runs(place)), place)
        if place.suffix == ".jsonl" or (place.is_dir() and any(place.glob("records*.jsonl"))):
            for outcome in journal.read_run(place).outcomes:
                keywords.setdefault((outcome.key, schema_digits(outcome.schema_digest)), outcome.keywords)
                # a case for which no call was made has no digest in its outcome
                keywords.setdefault((outcome.key, ""), outcome.keywords)
    if not keywords:
        message = "--by=keyword needs records.jsonl, which none of the runs has: name the directory of a run"
        raise RecordError(message, option="by")
    return keywords
