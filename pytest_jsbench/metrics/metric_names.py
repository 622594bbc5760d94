"""Parse the names of metrics in gates, and read metrics with their possible ranges in an incomplete run."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_jsbench.core.errors import GateError
from pytest_jsbench.core.text import format_count
from pytest_jsbench.metrics.case_outcomes import MEASURES
from pytest_jsbench.metrics.figure import RATES_OF_FIELD, SPREAD, Kind
from pytest_jsbench.metrics.figures import FIELD_AGREEMENT, FIGURES, OPEN_GROUPS, SCORES, find_figure
from pytest_jsbench.metrics.metrics import MOST_K, Metrics
from pytest_jsbench.metrics.ratchet import RATCHET
from pytest_jsbench.metrics.statistics import Distribution, Proportion, Rate, proportion
from pytest_jsbench.metrics.summary import KeywordMetrics, Summary
from pytest_jsbench.schemas.keywords import KEYWORDS

if TYPE_CHECKING:
    from pytest_jsbench.metrics.comparison import Comparison, ComparisonOfEnds, ValueComparison
    from pytest_jsbench.metrics.trigger_comparison import TriggerComparison

#: Names of the metrics of a run or a task.
METRICS = frozenset({*FIGURES, "n"})
#: Prefix of the metrics of injected faults.
COPING = "coping."
#: Prefixes of the metrics of repeated answers.
AGREEMENTS = ("agreement", FIELD_AGREEMENT)
#: Prefix of the metrics of schemas that reached an endpoint.
TRANSIT = "transit."
#: Prefix of the numbers of problems of calls without a schema.
_PLAIN_PROBLEMS = "plain_problems."
#: Metrics of the time in which all calls were made.
_PER_SECOND = ("goodput", "achieved_rate")
#: Metrics that are suggested if a name is not similar to any metric.
_SUGGESTIONS = ("pass_rate", "error_rate", "ttft_p95", "cost")
_KEYWORD_METRICS = frozenset({"pass_rate", "failures", "attempts", "decisions", "wrong_decisions"})
_BASELINE_METRICS = frozenset(
    {
        *("difference", "p_value", "newly_failing", "newly_passing", "n"),
        *RATCHET,
        *("values.difference", "values.p_value", "values.worse", "values.better", "values.n"),
        *("tests.difference", "tests.p_value", "tests.worse", "tests.n"),
        *("triggers.f1", "triggers.precision", "triggers.recall", "triggers.n"),
        *("agreement.difference", "agreement.p_value", "agreement.worse", "agreement.n"),
        *(f"{figure}.ratio" for figure in MEASURES.values()),
    }
)
#: Figures of a baseline that are differences between rates.
_DIFFERENCES = frozenset({"difference", "values.difference", "tests.difference", "agreement.difference"})
_FIELD_METRICS = frozenset({*RATES_OF_FIELD, "right", "expected", "given"})
_BOUND = re.compile(r"[._](ci_low|ci_high)$")
#: Prefixes that mark the next part of a name as a variant or as a task.
_VARIANTS = "variants."
_TASKS = "tasks."
#: Name of a metric of a keyword, a field or a baseline, which may follow the name of a variant.
_GROUP = re.compile(r"(?:(?P<variant>.+?)\.)?(?P<group>keywords|fields|baseline)\.(?P<path>.+)")
_NEVER = float("inf")
_RATIO = ".ratio"
#: Prefix of the metrics that compare the decisions to call a tool with those of a baseline.
_TRIGGERS = "triggers."
_TRIGGER_RATES = frozenset({"triggers.f1", "triggers.precision", "triggers.recall"})
#: Minimum number of values for each quantile, so that at least one value is expected above the quantile.
_FEWEST = {"p90": 10, "p95": 20, "p99": 100}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Value of a metric, with its smallest and largest possible value after all attempts are decided."""

    #: Value of the metric; None if nothing was measured.
    value: float | None
    low: float | None
    high: float | None
    #: Value as text, or the reason why the value is missing.
    shown: str

    def less(self, other: Reading) -> Reading:
        """Return this reading minus another reading of the metric; without a value if one of them has no value."""
        if self.value is None or other.value is None:
            return _no_value(self.shown if self.value is None else other.shown)
        low = None if self.low is None or other.high is None else self.low - other.high
        high = None if self.high is None or other.low is None else self.high - other.low
        value = self.value - other.value
        return Reading(value=value, low=low, high=high, shown=f"{value:+.4g} ({self.shown}; {other.shown})")

    @property
    def certain(self) -> bool:
        """Whether no missing or failed attempt could change the value."""
        return self.low == self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricName:
    """Name of a metric, such as `Github_easy.failure_rates.truncated.ci_high`, split into its parts."""

    text: str
    metric: str
    #: Bound of the interval; None for the value itself.
    bound: str | None = None
    task: str | None = None
    keyword: str | None = None
    #: Name of a field with expected values.
    field: str | None = None
    baseline: bool = False
    #: Name of a variant; None for all variants together, and in a run without variants.
    variant: str | None = None

    @classmethod
    def parse(cls, text: str, own: Collection[object] = ()) -> MetricName:
        """
        Parse the name of a metric; raise a GateError with a suggestion, which may be an `own` (custom) metric.

        A prefix is treated as the name of a task until `resolve` is called with the names of variants.
        """
        ending = _BOUND.search(text)
        bound = ending and ending.group(1)
        path = text[: ending.start()] if ending else text
        metric = _tail(path, METRICS)
        group = _GROUP.fullmatch(path)
        if group and 0 <= _find_open_group(path) < group.start("group"):  # a field named `baseline.value`
            group = None
        variant = group and group["variant"] and group["variant"].removeprefix(_VARIANTS)
        if group and group["group"] == "keywords" and (tail := _tail(group["path"], _KEYWORD_METRICS)):
            keyword = _require_known(group["path"].removesuffix(tail).removesuffix("."), KEYWORDS, text, "keyword")
            name = cls(text=text, metric=tail, bound=bound, keyword=keyword, variant=variant)
        elif group and group["group"] == "fields" and (tail := _tail(group["path"], _FIELD_METRICS)):
            field = group["path"].removesuffix(tail).removesuffix(".") or "$"
            name = cls(text=text, metric=tail, bound=bound, field=field, variant=variant)
        elif group and group["group"] == "baseline":
            tail = _require_known(group["path"], _BASELINE_METRICS, text, "figure of a baseline")
            name = cls(text=text, metric=tail, bound=bound, baseline=True, variant=variant)
        elif metric:
            prefix = path.removesuffix(metric).removesuffix(".")
            name = cls(text=text, metric=metric, bound=bound, task=prefix.removeprefix(_TASKS) or None)
        elif (count := path.rpartition(".")[2]) in RATCHET:  # a short name of `baseline.vanished`
            prefix = path.removesuffix(count).removesuffix(".").removeprefix(_VARIANTS)
            name = cls(text=text, metric=count, bound=bound, baseline=True, variant=prefix or None)
        else:
            raise _no_metric(path, text, own)
        if bound and not (name.is_rate or name.metric.endswith(_RATIO)):
            message = f"{text!r}: only a rate has an interval, and {name.metric} is not a rate"
            raise GateError(message, found=name.metric, where=text)
        return name

    @property
    def is_rate(self) -> bool:
        """Whether the metric is a rate, or a difference between rates, with an interval."""
        if (row := find_figure(self.metric)) is not None:
            return row.is_rate
        return self.metric in {*_DIFFERENCES, *_TRIGGER_RATES, *RATES_OF_FIELD}

    def resolve(self, tasks: Collection[str] | None, variants: Collection[str]) -> MetricName:
        """
        Return the name for a run with these tasks and variants; raise GateError if it is unknown or ambiguous.

        `tasks` is None as long as the tasks are unknown; any name of a task is then accepted.
        """
        before = self.text.removeprefix(_VARIANTS)
        longest = sorted(variants, key=len, reverse=True)
        variant = next((name for name in longest if before.startswith(f"{name}.")), None)
        if variant is None or self.text.startswith(_TASKS):
            if self.field is not None and self.variant is not None:  # the prefix of a field may also be a task
                task = self.variant.removeprefix(_TASKS)
                names = frozenset((task,) if tasks is None else (*tasks, *variants))
                return replace(self, task=_require_known(task, names, self.text, "task or variant"), variant=None)
            if self.variant is not None or (before != self.text and self.task not in (tasks or ())):
                _require_known(self.variant or before.partition(".")[0], frozenset(variants), self.text, "variant")
            if self.task is not None and tasks is not None:
                either = bool(variants) and not self.text.startswith(_TASKS)
                names = frozenset((*tasks, *(variants if either else ())))
                if self.task not in names and not {"keywords", "fields"}.isdisjoint(self.task.split(".")):
                    raise _no_metric(self.text, self.text, ())
                _require_known(self.task, names, self.text, "task, variant or metric" if either else "task or metric")
            return self
        if before == self.text and self.task in (tasks or ()):
            message = (
                f"{self.text!r}: {variant!r} is a variant and {self.task!r} is a task: write "
                f"'{_VARIANTS}{self.text}' or '{_TASKS}{self.text}'"
            )
            raise GateError(message, found=self.text, where=self.text)
        inner = MetricName.parse(before.removeprefix(f"{variant}."))
        return replace(inner.resolve(tasks, ()), text=self.text, variant=variant)

    def with_variant(self, variant: str) -> MetricName:
        """Return the name of the same metric for one variant."""
        return replace(self, text=f"{variant}.{self.text}", variant=variant)


def _tail(path: str, metrics: frozenset[str]) -> str:
    """Return the metric at the end of a dotted path; empty if the path does not end with a metric."""
    if metrics is METRICS and (start := _find_open_group(path)) >= 0:
        return path[start:]
    parts = path.split(".")
    for count in (2, 1):
        if (tail := ".".join(parts[-count:])) in metrics:
            return tail
    return ""


def _find_open_group(path: str) -> int:
    """Return where a metric of an open group starts in a dotted path; -1 without one."""
    starts = (f".{path}".rfind(f".{prefix}") for prefix in OPEN_GROUPS)
    return min((start for start in starts if start >= 0), default=-1)


def _no_metric(path: str, text: str, own: Collection[object]) -> GateError:
    """Return the error for an unknown metric, which suggests a custom metric or a metric of the same group."""
    *before, name = path.split(".")
    group = next((part for part in ("keywords", "fields") if part in before), before[-1] if before else "")
    if group in {"pass_at", "pass_hat"}:
        message = f"{text!r}: expected a number of attempts from 1 to {MOST_K}, such as {group}.2, found {name!r}"
        return GateError(message, found=name, expected=f"1 to {MOST_K}", where=text)
    if name in own:
        message = f"no metric {text!r}: did you mean '{SCORES}{name}'?"
        return GateError(message, found=name, expected=f"{SCORES}{name}", where=text)
    names = {"keywords": _KEYWORD_METRICS, "fields": _FIELD_METRICS}.get(group)
    names = names or frozenset(row.removeprefix(f"{group}.") for row in FIGURES if row.startswith(f"{group}."))
    if not names and _tail(".".join(before), METRICS):
        return _unknown(name, frozenset({"ci_low", "ci_high"}), text, "bound of an interval")
    return _unknown(name, names or METRICS, text, f"figure of {group}" if names else "metric")


def _require_known(name: str, names: frozenset[str], text: str, kind: str) -> str:
    if name not in names:
        raise _unknown(name, names, text, kind)
    return name


def _unknown(name: str, names: frozenset[str], text: str, kind: str) -> GateError:
    close = [match for word in (name, name.lower()) for match in difflib.get_close_matches(word, sorted(names), n=1)]
    examples = _SUGGESTIONS if names is METRICS else sorted(names)[:4]
    offer = f"did you mean '{close[0]}'?" if close else f"expected a name such as {', '.join(examples)}"
    if "-" in name:  # names may contain hyphens, so the minus of a difference needs spaces
        offer += "; a difference needs spaces around the minus"
    message = f"{'' if text == name else f'{text!r}: '}no {kind} {name!r}: {offer}"
    return GateError(message, found=name, expected=sorted(names), where=text)


def read_metric(name: MetricName, summary: Summary, comparisons: Mapping[str, Comparison] | None = None) -> Reading:
    """Return the reading of a metric; `comparisons` are by variant, with an empty key in a run without variants."""
    if name.baseline:
        return _read_baseline(name, (comparisons or {}).get(name.variant or ""))
    if name.variant is not None:
        of_variant = summary.variants.get(name.variant)
        return (
            _no_value("nothing judged") if of_variant is None else read_metric(replace(name, variant=None), of_variant)
        )
    if name.keyword is not None:
        return _read_keyword(name, summary.keywords.get(name.keyword), summary.total)
    metrics = summary.total if name.task is None else summary.tasks.get(name.task)
    if metrics is not None and name.metric.startswith(COPING):
        return _read_coping(name, metrics)
    if metrics is None or metrics.judged == 0:
        return _no_value("nothing judged")
    if name.field is not None:
        return _read_field(name, metrics)
    if name.metric.startswith(TRANSIT) and not metrics.transit:
        return _no_value("no schema was compared")
    if name.metric.startswith(_PLAIN_PROBLEMS) and not metrics.plain_problems:
        return _no_value("no plain call was made")
    if name.metric in _PER_SECOND and metrics.is_merged:
        return _no_value(f"merged runs have no {name.metric}, as their parts ran at different times")
    return _read_figure(name, metrics)


def _read_coping(name: MetricName, metrics: Metrics) -> Reading:
    """Return the reading of a number of injected faults, which are no attempts."""
    ends = {coping.value: count for coping, count in metrics.coping.items()}
    return _read_count(ends[name.metric.removeprefix(COPING)]) if ends else _no_value("no fault was injected")


def _read_figure(name: MetricName, metrics: Metrics) -> Reading:
    if name.metric == "n":
        return _read_count(metrics.judged)
    row = find_figure(name.metric)
    assert row is not None
    value = metrics.figure(row.name)
    counted_open = _total(metrics, row.counted_open)
    if isinstance(value, Proportion) and row.kind is Kind.RATE:
        return _range(name, value, more=counted_open, unseen=_total(metrics, row.left_out))
    if isinstance(value, Rate):
        return _range_of_values(name, value, metrics)
    if row.kind is Kind.TIME:
        time, _, part = row.name.rpartition("_")
        return _read_time(getattr(metrics, time), part, _total(metrics, row.left_out))
    if row.kind is Kind.SUM:
        return _read_sum(value, can_rise=bool(counted_open), can_fall=bool(_total(metrics, row.lowered_by)))
    return _read_count(
        int(value or 0), more=_NEVER if row.name == "invented" and not metrics.complete else counted_open
    )


def _range(name: MetricName, rate: Proportion, *, more: int = 0, unseen: int = 0) -> Reading:
    """Return the reading of a rate; `more` attempts in the denominator and `unseen` others may still succeed."""
    n = rate.n + unseen
    if rate.value is None:
        return _no_value("nothing judged")
    least = proportion(rate.successes, n, design_effect=rate.design_effect)
    most = proportion(min(n, rate.successes + more + unseen), n, design_effect=rate.design_effect)
    part = name.bound or "value"
    shown = f"{rate.successes}/{rate.n} = {rate.value:.4g}"
    if name.bound:
        shown = f"{getattr(rate, part):.4g} ({shown})"
    return Reading(value=getattr(rate, part), low=getattr(least, part), high=getattr(most, part), shown=shown)


def _range_of_values(name: MetricName, rate: Rate, metrics: Metrics) -> Reading:
    """Return the reading of a rate over values; the values in a missing answer may all be right or all be wrong."""
    value: float | None = getattr(rate, name.bound or "value")
    if value is None:
        of_k = name.metric.startswith(("pass_at.", "pass_hat."))
        unmeasured = "a case has fewer attempts" if of_k else "nothing judged"
        if name.metric.startswith(AGREEMENTS):
            unmeasured = "no case has two conforming answers with a value to compare"
        return _no_value(unmeasured if rate.value is None else "a single case has no interval")
    unknown = metrics.errors + metrics.unjudged + metrics.uncompared
    low, high = (0.0, 1.0) if unknown else (value, value)
    shown = f"{rate.successes}/{rate.n} = {rate.value:.4g}" if isinstance(rate, Proportion) else f"{rate.value:.4g}"
    return Reading(value=value, low=low, high=high, shown=f"{value:.4g} ({shown})" if name.bound else shown)


def _read_field(name: MetricName, metrics: Metrics) -> Reading:
    field = metrics.fields.get(name.field or "")
    if field is None:
        return _no_value("no value is expected for this field")
    if name.metric in RATES_OF_FIELD:
        return _range_of_values(name, getattr(field, name.metric), metrics)
    return _read_count(field.counts[name.metric])


def _total(metrics: Metrics, counts: Sequence[str]) -> int:
    """Return the sum of the counts with these names."""
    return sum(getattr(metrics, count) for count in counts)


def _read_time(spread: Distribution, part: str, left_out: int) -> Reading:
    """Return the reading of a time; a call that is left out, since it failed, could have taken any time."""
    value: float | None = getattr(spread, part)
    if value is None:
        return _no_value("nothing measured")
    needed = _FEWEST.get(part, 0)
    if spread.count < needed:
        return _no_value(f"a {SPREAD[part]} needs {needed} values, found {spread.count}; use the median (_p50) instead")
    low, high = (getattr(Distribution.of([*spread.ordered, *[end] * left_out]), part) for end in (0.0, _NEVER))
    return Reading(value=value, low=low, high=high, shown=f"{value:.4g} over {format_count(spread.count, 'value')}")


def _read_sum(value: float | None, *, can_rise: bool, can_fall: bool) -> Reading:
    """Return the reading of a sum; an attempt that did not report may have used any amount."""
    if value is None:
        return _no_value("nothing reported")
    low, high = 0.0 if can_fall else value, _NEVER if can_rise else value
    return Reading(value=value, low=low, high=high, shown=f"{value:.6g}")


def _read_count(value: int, *, more: float = 0) -> Reading:
    return Reading(value=value, low=value, high=value + more, shown=str(value))


def _no_value(reason: str) -> Reading:
    return Reading(value=None, low=None, high=None, shown=reason)


def _read_keyword(name: MetricName, metrics: KeywordMetrics | None, total: Metrics) -> Reading:
    if metrics is None or metrics.pass_rate.n == 0 or total.judged == 0:
        return _no_value("nothing judged")
    if name.metric == "pass_rate":
        # The denominator includes failed calls, but not missing attempts, which may belong to any case.
        return _range(name, metrics.pass_rate, more=total.failed + total.unjudged, unseen=total.missing)
    if name.metric == "decisions":
        return _read_count(metrics.wrong_decisions.n)
    if name.metric == "wrong_decisions":
        if metrics.wrong_decisions.n == 0:
            return _no_value("nothing decided")
        return _read_count(metrics.wrong_decisions.successes, more=_NEVER if total.errors else 0)
    if name.metric == "failures":
        if metrics.failures is None:
            return _no_value("decisions cannot be assigned to keywords")
        return _read_count(metrics.failures, more=total.errors + total.unjudged)
    return _read_count(metrics.pass_rate.n)


def _read_baseline(name: MetricName, comparison: Comparison | None) -> Reading:
    """Return the reading of a figure that compares two runs; undecided attempts widen its range."""
    if comparison is None:
        return _no_value("nothing to compare")
    if name.metric.endswith(_RATIO):
        return _read_ratio(name, comparison)
    if name.metric.startswith(_TRIGGERS):
        return _read_triggers(name, comparison.triggers)
    if name.metric in RATCHET:
        ratchet = comparison.ratchet
        if ratchet is None:
            return _no_value("nothing to compare")
        return _read_count(len(getattr(ratchet, name.metric)), more=ratchet.open_cases(name.metric))
    group, _, metric = name.metric.rpartition(".")
    part: Comparison | ValueComparison | ComparisonOfEnds | None = comparison
    if group:
        parts = {"values": comparison.values, "tests": comparison.tests, "agreement": comparison.agreement}
        part = parts[group]
    if part is None or part.difference.value is None:
        return _no_value(f"{f'no {group}' if group else 'nothing'} to compare")
    if metric == "n":
        return _read_count(part.difference.n)
    if metric not in {"difference", "p_value"}:
        return _read_count(len(getattr(part, metric)), more=part.undecided_now)
    if metric == "p_value":
        value = part.difference.p_value
        low, high = (0.0, 1.0) if part.undecided_now else (value, value)
        return Reading(value=value, low=low, high=high, shown=f"{value:.4g}")
    bound = name.bound or "value"
    value = getattr(part.difference, bound)
    low = high = value
    if part.undecided_now:
        low = -1.0 if group else getattr(comparison.worst, bound)
        high = 1.0
    return Reading(value=value, low=low, high=high, shown=f"{value:+.4g}")


def _read_triggers(name: MetricName, triggers: TriggerComparison | None) -> Reading:
    """Return the reading of the agreement with the baseline's decisions; a missing answer may change it in any way."""
    if triggers is None:
        return _no_value("no decisions to call a tool to compare")
    metric = name.metric.removeprefix(_TRIGGERS)
    if metric == "n":
        return _read_count(triggers.n, more=triggers.undecided_now)
    rate: Proportion = getattr(triggers, metric)
    value: float | None = getattr(rate, name.bound or "value")
    if value is None:
        return _no_value("no answer calls a tool")
    low, high = (0.0, 1.0) if triggers.undecided_now else (value, value)
    shown = f"{rate.successes}/{rate.n} = {rate.value:.4g}"
    return Reading(value=value, low=low, high=high, shown=f"{value:.4g} ({shown})" if name.bound else shown)


def _read_ratio(name: MetricName, comparison: Comparison) -> Reading:
    """Return the reading of a ratio of times, tokens or costs; a missing answer could have taken any amount."""
    measure = next(measure for measure, figure in MEASURES.items() if name.metric == f"{figure}{_RATIO}")
    ratio = comparison.ratios.get(measure)
    value: float | None = None if ratio is None else getattr(ratio, name.bound or "value")
    if ratio is None or value is None:
        return _no_value("nothing to compare" if ratio is None else f"too few cases for an interval: {ratio.n}")
    low, high = (0.0, _NEVER) if comparison.undecided_now else (value, value)
    return Reading(value=value, low=low, high=high, shown=f"{value:.4g} over {format_count(ratio.n, 'case')}")
