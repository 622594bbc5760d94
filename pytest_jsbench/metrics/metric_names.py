"""The metrics that a gate can name, each with the range that it may have in an incomplete run."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_jsbench.core.errors import GateError
from pytest_jsbench.core.text import counted
from pytest_jsbench.metrics.case_outcomes import MEASURES
from pytest_jsbench.metrics.figures import FIGURES, MOST_K, RATES_OF_FIELD, SCORES, SPREAD, Kind, named
from pytest_jsbench.metrics.metrics import Metrics
from pytest_jsbench.metrics.statistics import Distribution, Proportion, Rate, proportion
from pytest_jsbench.metrics.summary import KeywordMetrics, Summary
from pytest_jsbench.schemas.keywords import KEYWORDS

if TYPE_CHECKING:
    from pytest_jsbench.metrics.comparison import Comparison, ComparisonOfTests, ValueComparison

#: the metrics of a run and of each task
METRICS = frozenset({*FIGURES, "n"})
#: those of them that a name is offered which is near to none
_USUAL = ("pass_rate", "error_rate", "ttft_p95", "cost")
_OF_KEYWORD = frozenset({"pass_rate", "failures", "attempts", "decisions", "wrong_decisions"})
_OF_BASELINE = frozenset(
    {
        *("difference", "p_value", "newly_failing", "newly_passing", "n"),
        *("values.difference", "values.p_value", "values.worse", "values.better", "values.n"),
        *("tests.difference", "tests.p_value", "tests.worse", "tests.n"),
        *(f"{figure}.ratio" for figure in MEASURES.values()),
    }
)
_OF_FIELD = frozenset({*RATES_OF_FIELD, "right", "expected", "given"})
_BOUND = re.compile(r"[._](ci_low|ci_high)$")
#: before a name of a run with variants
_VARIANTS, _TASKS = "variants.", "tasks."
#: what begins with a name of its own; only a variant's stands before it
_GROUP = re.compile(r"(?:(?P<variant>.+?)\.)?(?P<group>keywords|fields|baseline)\.(?P<path>.+)")
_NEVER = float("inf")
_RATIO = ".ratio"
#: of a quantile, the values of which one at least is expected beyond it
_FEWEST = {"p90": 10, "p95": 20, "p99": 100}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A metric's value, and its least and greatest possible value if every attempt had been decided."""

    #: None where nothing was measured
    value: float | None
    low: float | None
    high: float | None
    #: the number for people
    shown: str

    def less(self, other: Reading) -> Reading:
        """The difference of two readings of one metric; nothing where either was not measured."""
        if self.value is None or other.value is None:
            return _nothing(self.shown if self.value is None else other.shown)
        low = None if self.low is None or other.high is None else self.low - other.high
        high = None if self.high is None or other.low is None else self.high - other.low
        value = self.value - other.value
        return Reading(value=value, low=low, high=high, shown=f"{value:+.4g} ({self.shown}; {other.shown})")

    @property
    def certain(self) -> bool:
        """True where no missing or failed attempt could change it."""
        return self.low == self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricName:
    """The name of a metric in its parts: `Github_easy.failure_rates.truncated.ci_high`."""

    text: str
    metric: str
    #: None: the value itself
    bound: str | None = None
    task: str | None = None
    keyword: str | None = None
    #: of a value that is expected
    field: str | None = None
    baseline: bool = False
    #: None: over all variants, or the run has none
    variant: str | None = None

    @classmethod
    def parse(cls, text: str, own: Collection[object] = ()) -> MetricName:
        """
        Read a name; GateError offers the nearest where there is no such metric, also of a project's `own`.

        What stands before the metric is taken for a task, until `resolve` knows of variants.
        """
        ending = _BOUND.search(text)
        bound = ending and ending.group(1)
        path = text[: ending.start()] if ending else text
        metric, group = _tail(path, METRICS), _GROUP.fullmatch(path)
        variant = group and group["variant"] and group["variant"].removeprefix(_VARIANTS)
        if group and group["group"] == "keywords" and (tail := _tail(group["path"], _OF_KEYWORD)):
            keyword = _known(group["path"].removesuffix(tail).removesuffix("."), KEYWORDS, text, "keyword")
            name = cls(text=text, metric=tail, bound=bound, keyword=keyword, variant=variant)
        elif group and group["group"] == "fields" and (tail := _tail(group["path"], _OF_FIELD)):
            of_field = group["path"].removesuffix(tail).removesuffix(".") or "$"
            name = cls(text=text, metric=tail, bound=bound, field=of_field, variant=variant)
        elif group and group["group"] == "baseline":
            tail = _known(group["path"], _OF_BASELINE, text, "figure of a baseline")
            name = cls(text=text, metric=tail, bound=bound, baseline=True, variant=variant)
        elif metric:
            prefix = path.removesuffix(metric).removesuffix(".")
            name = cls(text=text, metric=metric, bound=bound, task=prefix.removeprefix(_TASKS) or None)
        else:
            raise _no_metric(path, text, own)
        if bound and not (name.is_rate or name.metric.endswith(_RATIO)):
            message = f"{text!r}: only a rate has an interval, and {name.metric} is none"
            raise GateError(message, found=name.metric, where=text)
        return name

    @property
    def is_rate(self) -> bool:
        """True where it is between 0 and 1 and has an interval."""
        if (row := named(self.metric)) is not None:
            return row.is_rate
        return self.metric in {"difference", "values.difference", "tests.difference", *RATES_OF_FIELD}

    def resolve(self, tasks: Collection[str] | None, variants: Collection[str]) -> MetricName:
        """
        The name in a run of these tasks and variants; GateError where it names none, or could name either.

        `tasks` is None where they are not known yet, and then any may be named.
        """
        before = self.text.removeprefix(_VARIANTS)
        longest = sorted(variants, key=len, reverse=True)
        variant = next((name for name in longest if before.startswith(f"{name}.")), None)
        if variant is None or self.text.startswith(_TASKS):
            if self.field is not None and self.variant is not None:  # each task has its fields
                task = self.variant.removeprefix(_TASKS)
                names = frozenset((task,) if tasks is None else (*tasks, *variants))
                return replace(self, task=_known(task, names, self.text, "task or variant"), variant=None)
            if self.variant is not None or (before != self.text and self.task not in (tasks or ())):
                _known(self.variant or before.partition(".")[0], frozenset(variants), self.text, "variant")
            if self.task is not None and tasks is not None:
                either = bool(variants) and not self.text.startswith(_TASKS)
                names = frozenset((*tasks, *(variants if either else ())))
                if self.task not in names and not {"keywords", "fields"}.isdisjoint(self.task.split(".")):
                    raise _no_metric(self.text, self.text, ())
                _known(self.task, names, self.text, "task, variant or metric" if either else "task or metric")
            return self
        if before == self.text and self.task in (tasks or ()):
            message = (
                f"{self.text!r}: {variant!r} is a variant, and {self.task!r} is a task: write "
                f"'{_VARIANTS}{self.text}' or '{_TASKS}{self.text}'"
            )
            raise GateError(message, found=self.text, where=self.text)
        inner = MetricName.parse(before.removeprefix(f"{variant}."))
        return replace(inner.resolve(tasks, ()), text=self.text, variant=variant)

    def of_variant(self, variant: str) -> MetricName:
        """The same of one variant."""
        return replace(self, text=f"{variant}.{self.text}", variant=variant)


def _tail(path: str, metrics: frozenset[str]) -> str:
    """The metric at the end of the path; empty where there is none."""
    if metrics is METRICS and (own := f".{path}".rfind(f".{SCORES}")) >= 0:
        return path[own:]
    parts = path.split(".")
    for count in (2, 1):
        if (tail := ".".join(parts[-count:])) in metrics:
            return tail
    return ""


def _no_metric(path: str, text: str, own: Collection[object]) -> GateError:
    """The error of a name that ends in no metric: it offers the project's `own`, or what its group has."""
    *before, name = path.split(".")
    group = next((part for part in ("keywords", "fields") if part in before), before[-1] if before else "")
    if group in {"pass_at", "pass_hat"}:
        message = f"{text!r}: expected a number of attempts from 1 to {MOST_K}, such as {group}.2, found {name!r}"
        return GateError(message, found=name, expected=f"1 to {MOST_K}", where=text)
    if name in own:
        message = f"no metric {text!r}: did you mean '{SCORES}{name}'?"
        return GateError(message, found=name, expected=f"{SCORES}{name}", where=text)
    names = {"keywords": _OF_KEYWORD, "fields": _OF_FIELD}.get(group)
    names = names or frozenset(row.removeprefix(f"{group}.") for row in FIGURES if row.startswith(f"{group}."))
    if not names and _tail(".".join(before), METRICS):
        return _unknown(name, frozenset({"ci_low", "ci_high"}), text, "bound of an interval")
    return _unknown(name, names or METRICS, text, f"figure of {group}" if names else "metric")


def _known(name: str, names: frozenset[str], text: str, kind: str) -> str:
    if name not in names:
        raise _unknown(name, names, text, kind)
    return name


def _unknown(name: str, names: frozenset[str], text: str, kind: str) -> GateError:
    close = [match for word in (name, name.lower()) for match in difflib.get_close_matches(word, sorted(names), n=1)]
    examples = _USUAL if names is METRICS else sorted(names)[:4]
    offer = f"did you mean '{close[0]}'?" if close else f"expected one such as {', '.join(examples)}"
    if "-" in name:  # which a name may have, so that it alone makes no difference
        offer += "; a difference has spaces round its minus"
    message = f"{'' if text == name else f'{text!r}: '}no {kind} {name!r}: {offer}"
    return GateError(message, found=name, expected=sorted(names), where=text)


def reading(name: MetricName, summary: Summary, comparisons: Mapping[str, Comparison] | None = None) -> Reading:
    """The metric of that name, with its range; `comparisons` with a baseline are by variant, or that of no name."""
    if name.baseline:
        return _of_baseline(name, (comparisons or {}).get(name.variant or ""))
    if name.variant is not None:
        of_variant = summary.variants.get(name.variant)
        return _nothing("nothing judged") if of_variant is None else reading(replace(name, variant=None), of_variant)
    if name.keyword is not None:
        return _of_keyword(name, summary.keywords.get(name.keyword), summary.total)
    metrics = summary.total if name.task is None else summary.tasks.get(name.task)
    if metrics is None or metrics.judged == 0:
        return _nothing("nothing judged")
    if name.field is not None:
        return _of_field(name, metrics)
    return _of_metrics(name, metrics)


def _of_metrics(name: MetricName, metrics: Metrics) -> Reading:
    if name.metric == "n":
        return _count(metrics.judged)
    row = named(name.metric)
    assert row is not None
    value = metrics.figure(row.name)
    counted_open = sum(getattr(metrics, count) for count in row.counted_open)
    if isinstance(value, Proportion) and row.kind is Kind.RATE:
        left_out = sum(getattr(metrics, count) for count in row.left_out)
        return _range(name, value, more=counted_open, unseen=left_out)
    if isinstance(value, Rate):
        return _range_of_values(name, value, metrics)
    if row.kind is Kind.TIME:
        time, _, part = row.name.rpartition("_")
        return _time(getattr(metrics, time), part, metrics.errors)
    if row.kind is Kind.SUM:
        priced = row.name != "cost" or metrics.priced == metrics.completions + metrics.declined
        return _sum(value, complete=priced and not counted_open)
    return _count(int(value or 0), more=_NEVER if row.name == "invented" and not metrics.complete else counted_open)


def _range(name: MetricName, rate: Proportion, *, more: int = 0, unseen: int = 0) -> Reading:
    """The range where `more` of the counted attempts may be successes, and `unseen` ones are not counted yet."""
    n = rate.n + unseen
    if rate.value is None:
        return _nothing("nothing judged")
    least = proportion(rate.successes, n, design_effect=rate.design_effect)
    most = proportion(min(n, rate.successes + more + unseen), n, design_effect=rate.design_effect)
    part = name.bound or "value"
    shown = f"{rate.successes}/{rate.n} = {rate.value:.4g}"
    if name.bound:
        shown = f"{getattr(rate, part):.4g} ({shown})"
    return Reading(value=getattr(rate, part), low=getattr(least, part), high=getattr(most, part), shown=shown)


def _range_of_values(name: MetricName, rate: Rate, metrics: Metrics) -> Reading:
    """The range of a rate over values: one that never came may be right or wrong in everything."""
    value: float | None = getattr(rate, name.bound or "value")
    if value is None:
        of_k = name.metric.startswith(("pass_at.", "pass_hat."))
        unmeasured = "some case has fewer attempts" if of_k else "nothing judged"
        return _nothing(unmeasured if rate.value is None else "one document has no interval")
    unknown = metrics.errors + metrics.unjudged + metrics.uncompared
    low, high = (0.0, 1.0) if unknown else (value, value)
    shown = f"{rate.successes}/{rate.n} = {rate.value:.4g}" if isinstance(rate, Proportion) else f"{rate.value:.4g}"
    return Reading(value=value, low=low, high=high, shown=f"{value:.4g} ({shown})" if name.bound else shown)


def _of_field(name: MetricName, metrics: Metrics) -> Reading:
    field = metrics.fields.get(name.field or "")
    if field is None:
        return _nothing("no such value is expected")
    if name.metric in RATES_OF_FIELD:
        return _range_of_values(name, getattr(field, name.metric), metrics)
    return _count(field.counts[name.metric])


def _time(spread: Distribution, part: str, errors: int) -> Reading:
    """A time with its range: a failed call could have taken any time."""
    value: float | None = getattr(spread, part)
    if value is None:
        return _nothing("nothing measured")
    needed = _FEWEST.get(part, 0)
    if spread.count < needed:
        return _nothing(
            f"a {SPREAD[part]} needs {needed} values, found {spread.count}; of fewer, use the median (_p50)"
        )
    low, high = (getattr(Distribution.of([*spread.ordered, *[end] * errors]), part) for end in (0.0, _NEVER))
    return Reading(value=value, low=low, high=high, shown=f"{value:.4g} over {counted(spread.count, 'value')}")


def _sum(value: float | None, *, complete: bool) -> Reading:
    """A sum with its range: an attempt that reported nothing may have used any amount."""
    if value is None:
        return _nothing("nothing reported")
    return Reading(value=value, low=value, high=value if complete else _NEVER, shown=f"{value:.6g}")


def _count(value: int, *, more: float = 0) -> Reading:
    return Reading(value=value, low=value, high=value + more, shown=str(value))


def _nothing(reason: str) -> Reading:
    return Reading(value=None, low=None, high=None, shown=reason)


def _of_keyword(name: MetricName, metrics: KeywordMetrics | None, total: Metrics) -> Reading:
    if metrics is None or metrics.pass_rate.n == 0 or total.judged == 0:
        return _nothing("nothing judged")
    if name.metric == "pass_rate":
        # a failed call is counted already; a missing attempt may be of any case
        return _range(name, metrics.pass_rate, more=total.failed + total.unjudged, unseen=total.missing)
    if name.metric == "decisions":
        return _count(metrics.wrong_decisions.n)
    if name.metric == "wrong_decisions":
        if metrics.wrong_decisions.n == 0:
            return _nothing("nothing decided")
        return _count(metrics.wrong_decisions.successes, more=_NEVER if total.errors else 0)
    if name.metric == "failures":
        if metrics.failures is None:
            return _nothing("decisions do not say of which keyword they are")
        return _count(metrics.failures, more=total.errors + total.unjudged)
    return _count(metrics.pass_rate.n)


def _of_baseline(name: MetricName, comparison: Comparison | None) -> Reading:
    """A figure of the comparison of verdicts, of values or of tests, with what undecided attempts may change."""
    if comparison is None:
        return _nothing("nothing to compare")
    if name.metric.endswith(_RATIO):
        return _of_ratio(name, comparison)
    group, _, metric = name.metric.rpartition(".")
    part: Comparison | ValueComparison | ComparisonOfTests | None = comparison
    if group:
        part = comparison.values if group == "values" else comparison.tests
    if part is None or part.difference.value is None:
        return _nothing(f"{f'no {group}' if group else 'nothing'} to compare")
    if metric == "n":
        return _count(part.difference.n)
    if metric not in {"difference", "p_value"}:
        return _count(len(getattr(part, metric)), more=part.undecided_now)
    bound = metric if metric == "p_value" else name.bound or "value"
    value: float = getattr(part.difference, bound)
    low = high = value
    if part.undecided_now:
        low, high = (0.0 if metric == "p_value" else -1.0 if group else getattr(comparison.worst, bound)), 1.0
    return Reading(value=value, low=low, high=high, shown=f"{value:.4g}" if metric == "p_value" else f"{value:+.4g}")


def _of_ratio(name: MetricName, comparison: Comparison) -> Reading:
    """The ratio of a time, of tokens or of cost; an answer that never came might have taken any."""
    measure = next(measure for measure, figure in MEASURES.items() if name.metric == f"{figure}{_RATIO}")
    ratio = comparison.ratios.get(measure)
    value: float | None = None if ratio is None else getattr(ratio, name.bound or "value")
    if ratio is None or value is None:
        return _nothing("nothing to compare" if ratio is None else f"too few cases for an interval: {ratio.n}")
    low, high = (0.0, _NEVER) if comparison.undecided_now else (value, value)
    return Reading(value=value, low=low, high=high, shown=f"{value:.4g} over {counted(ratio.n, 'case')}")
