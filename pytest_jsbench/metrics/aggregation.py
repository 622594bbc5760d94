"""Means of the figures of several evaluations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from pytest_jsbench.metrics.figures import named

#: what a metric of another tool is a share or a mean of
_DENOMINATORS: Mapping[str, str] = {
    "action_type_accuracy": "num_steps",
    "mean_coord_error": "coord_error_count",
    "click_hit_rate": "coord_error_count",
    **dict.fromkeys(
        (
            *("episode_success_rate", "weak_episode_success_rate", "state_success_rate"),
            *("mean_episode_progress", "mean_episode_step_score"),
        ),
        "num_episodes",
    ),
}
#: a bound, or a part of a spread, of which a mean says nothing
_NO_MEAN = re.compile(r"[._](ci_low|ci_high|p\d+|max)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """A metric over several evaluations."""

    metric: str
    #: evaluations that have a value, that say null, and that do not name it
    values: int
    nulls: int
    absent: int
    mean: float | None
    #: by `weight`, over the `weighted` evaluations that have that count too; None where there is nothing to weight by
    weighted_mean: float | None
    weight: str | None
    weighted: int

    def to_dict(self) -> dict[str, float | str | None]:
        """As JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


def aggregate(figures: Sequence[Mapping[str, float | None]], *, weight: str | None = None) -> list[Aggregate]:
    """
    The means of each metric over evaluations that have a value; those with null are counted, and are never 0.

    Weights are what each metric is a share of, or for all metrics the count named `weight`.
    """
    names = dict.fromkeys(name for evaluation in figures for name in evaluation)
    return [_aggregate(name, figures, weight) for name in names if not _NO_MEAN.search(name)]


def _aggregate(name: str, figures: Sequence[Mapping[str, float | None]], weight: str | None) -> Aggregate:
    values = [(value, evaluation) for evaluation in figures if (value := evaluation.get(name)) is not None]
    nulls = sum(name in evaluation and evaluation[name] is None for evaluation in figures)
    by = _denominator(name) if weight is None else weight
    counts = [(value, evaluation.get(by)) for value, evaluation in values if by]
    pairs = [(value, count) for value, count in counts if count is not None and count >= 0]
    total = sum(count for _, count in pairs)
    return Aggregate(
        metric=name,
        values=len(values),
        nulls=nulls,
        absent=len(figures) - len(values) - nulls,
        mean=fmean(value for value, _ in values) if values else None,
        weighted_mean=sum(value * count for value, count in pairs) / total if total else None,
        weight=by,
        weighted=len(pairs),
    )


def _denominator(name: str) -> str | None:
    """The count by which its weighted mean is that of all files taken together."""
    if (row := named(name)) is not None:
        return row.of
    return f"{name.removesuffix('_mean')}_count" if name.endswith("_mean") else _DENOMINATORS.get(name)
