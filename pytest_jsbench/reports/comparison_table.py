"""Comparisons as lines for people: with a baseline, and of several runs side by side."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from pytest_jsbench.core.text import printable
from pytest_jsbench.metrics.comparison import SIGNIFICANCE, Comparison, compare, conclusion
from pytest_jsbench.metrics.statistics import holm
from pytest_jsbench.reports.summary_table import NOT_APPLICABLE, detail

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.reports.evaluations import Evaluation

_MOST_NAMED = 10


def changes(comparison: Comparison, source: str) -> list[str]:
    """The comparison with the run in `source`, one subject a line, within 80 columns."""
    return [line for name, text in _changes(comparison, source) for line in detail(name, text)]


def _changes(comparison: Comparison, source: str) -> Iterator[tuple[str, str]]:
    yield "baseline", f"{printable(source)}: {comparison.sentence}"
    if comparison.newly_failing:
        yield "broke", named(comparison.newly_failing)
    if comparison.newly_passing:
        yield "mended", named(comparison.newly_passing)
    yield from not_compared(comparison, first="the baseline", second="this run")


def judged_apart(*versions: str | None) -> list[str]:
    """A warning where runs were judged by different rules."""
    known = sorted({version for version in versions if version is not None})
    if len(known) < 2:
        return []
    named_versions = ", ".join(printable(version, _LONGEST_LABEL) for version in known)
    said = f"the runs were judged by different rules (versions {named_versions}): `jsbench judge RUN` judges one again"
    return detail("judge", said)


def not_compared(comparison: Comparison, *, first: str, second: str) -> Iterator[tuple[str, str]]:
    """The cases of the two runs that are not compared."""
    left_out = {
        "undecided in one run": len(comparison.undecided),
        "whose schema changed": len(comparison.changed),
        f"only in {first}": comparison.first_alone,
        f"only in {second}": comparison.second_alone,
    }
    if parts := [f"{count} {reason}" for reason, count in left_out.items() if count]:
        yield "not shared", f"cases left out of the comparison: {', '.join(parts)}"
    if count := comparison.shortened:
        cases = "1 case was" if count == 1 else f"{count} cases were"
        yield "repeats", f"{cases} asked more often in one run: compared by the first attempts, as many as both made"


def named(keys: Sequence[CaseKey], most: int = _MOST_NAMED) -> str:
    """The cases' names, and how many more there are."""
    names = ", ".join(printable(str(key)) for key in keys[:most])
    return f"{len(keys)}: {names}" + (f", and {len(keys) - most} more" if len(keys) > most else "")


_LONGEST_LABEL = 24
#: of a label that names its file
_LONGEST_PLACE = 200
#: with more evaluations than this each is compared with the first alone
_MOST_PAIRED = 4
_SAMPLE = 50
#: together, in the head of a table
_WIDTH_OF_LABELS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two evaluations, compared case by case."""

    first: str
    second: str
    comparison: Comparison
    #: of McNemar's test, adjusted for the number of pairs
    p_value: float

    @property
    def real(self) -> bool:
        """Whether the difference is significant, given the number of pairs."""
        return self.p_value < SIGNIFICANCE


def labels(evaluations: Sequence[Evaluation], given: Sequence[str] | None = None) -> list[str]:
    """A name for each evaluation: the given one, or else its own, with its file where two are the same."""
    plain = list(given) if given is not None else [found.label for found in evaluations]
    count = Counter(plain)
    return [
        printable(label if count[label] == 1 else f"{label} ({found.source})", _LONGEST_PLACE)
        for label, found in zip(plain, evaluations, strict=True)
    ]


def pairs(evaluations: Sequence[Evaluation], names: Sequence[str]) -> list[Pair]:
    """The pairs of evaluations that have outcomes; where they are many, each with the first alone."""
    known = [(name, found.outcomes) for name, found in zip(names, evaluations, strict=True) if found.outcomes]
    chosen = itertools.combinations(known, 2) if len(known) <= _MOST_PAIRED else ((known[0], one) for one in known[1:])
    compared = [(first, second, compare(before, after)) for (first, before), (second, after) in chosen]
    adjusted = holm([comparison.difference.p_value for _, _, comparison in compared])
    return [
        Pair(first=first, second=second, comparison=comparison, p_value=p_value)
        for (first, second, comparison), p_value in zip(compared, adjusted, strict=True)
    ]


def side_by_side(evaluations: Sequence[Evaluation], names: Sequence[str], *, verbose: bool) -> list[str]:
    """A row per run where all have pass rates, or else a row per metric; then the comparison of each pair."""
    ours = all("pass_rate" in found.figures for found in evaluations)
    alike = len({printable(name, _LONGEST_LABEL) for name in names}) < len(names)
    legend = [f"[{number}] {name}" for number, name in enumerate(names, start=1)]
    if alike:  # as far as there is room for them
        names = legend
    lines = _models(evaluations, names) if ours else []
    if verbose or not ours:
        short = not alike and sum(map(len, names)) <= _WIDTH_OF_LABELS
        lines += [*([""] if lines else []), *_metrics(evaluations, names if short else _numbers(names))]
        alike = not short
    lines += ["", *legend] if alike else []
    found = pairs(evaluations, names)
    for pair in found:
        lines += ["", *_said(pair, verbose=verbose)]
    if len(found) > 1:
        lines += ["", f"p-values are adjusted for {len(found)} comparisons (Holm)"]
    if apart := judged_apart(*(one.judge for one in evaluations)):
        lines += ["", *apart]
    silent = [name for name, one in zip(names, evaluations, strict=True) if not one.outcomes]
    if ours and silent:
        lines += ["", *detail("not paired", f"{', '.join(silent)}: no word on how each case ended")]
    return lines


def _models(evaluations: Sequence[Evaluation], names: Sequence[str]) -> list[str]:
    if all(found.figures.get("valid_instances") or found.figures.get("invalid_instances") for found in evaluations):
        return _grammars(evaluations, names)
    rows = [
        [
            printable(name, _LONGEST_LABEL),
            _rate(found),
            _figure(found.figures.get("tgt_mean"), "{:.2f} s"),
            _figure(cost_per_sample(found.figures), "${:.4f}"),
            _figure(found.figures.get("planned"), "{:.0f}"),
        ]
        for name, found in zip(names, evaluations, strict=True)
    ]
    headers = ["Model", "Pass rate\n(95 % interval)", "Speed\n(mean)", f"Cost/{_SAMPLE}", "Attempts"]
    aligned = ("left", "right", "right", "right", "right")
    return tabulate(rows, headers=headers, tablefmt="simple", disable_numparse=True, colalign=aligned).splitlines()


def _grammars(evaluations: Sequence[Evaluation], names: Sequence[str]) -> list[str]:
    """The table of engines with grammars that decided on labelled answers."""
    rows = [
        [
            printable(name, _LONGEST_LABEL),
            *(_rate(found, rate) for rate in ("over_constraint", "under_constraint")),
            _figure(found.figures.get("grammar_compilation_p50"), "{:.4f} s"),
            _figure(found.figures.get("planned"), "{:.0f}"),
        ]
        for name, found in zip(names, evaluations, strict=True)
    ]
    headers = [
        "Model",
        "Valid, rejected\n(95 % interval)",
        "Invalid, accepted\n(95 %)",
        "Compilation",
        "Cases",
    ]
    aligned = ("left", "right", "right", "right", "right")
    return tabulate(rows, headers=headers, tablefmt="simple", disable_numparse=True, colalign=aligned).splitlines()


def cost_per_sample(figures: Mapping[str, float | None]) -> float | None:
    """The cost of fifty answers in US dollars; None where it is not known."""
    cost, priced = figures.get("cost"), figures.get("priced")
    return cost / priced * _SAMPLE if cost is not None and priced else None


def _rate(found: Evaluation, name: str = "pass_rate") -> str:
    value, interval = found.figures.get(name), found.interval(name)
    if value is None:
        return NOT_APPLICABLE
    return f"{value:.3f}" + ("" if interval is None else f" ({interval[0]:.3f} to {interval[1]:.3f})")


def _figure(value: float | None, form: str) -> str:
    return NOT_APPLICABLE if value is None else form.format(value)


def _metrics(evaluations: Sequence[Evaluation], names: Sequence[str]) -> list[str]:
    figures = [found.figures for found in evaluations]
    every = dict.fromkeys(itertools.chain.from_iterable(figures))
    rows = [
        [printable(name, 40), *(_figure(one.get(name), "{:.6g}") for one in figures)]
        for name in every
        if not name.endswith(("_ci_low", "_ci_high"))
    ]
    headers = ["Metric", *names]
    aligned = ["left", *["right"] * len(names)]
    return tabulate(rows, headers=headers, tablefmt="simple", disable_numparse=True, colalign=aligned).splitlines()


def _numbers(names: Sequence[str]) -> list[str]:
    return [f"[{number}]" for number in range(1, len(names) + 1)]


def _said(pair: Pair, *, verbose: bool) -> list[str]:
    found, most = pair.comparison, 1000 if verbose else 5
    said = f"against {printable(pair.first, _LONGEST_LABEL)}: {found.sentence.partition(': ')[0]}"
    if found.difference.value is not None and (found.difference.first_only or found.difference.second_only):
        said = f"{said}: {conclusion(found.difference, pair.p_value)}"
    lines = detail(printable(pair.second, _LONGEST_LABEL) + " ", said)
    for word, keys in (("broke", found.newly_failing), ("mended", found.newly_passing)):
        if keys:
            lines += detail(f"  {word}", named(keys, most))
    for word, text in not_compared(found, first="the first", second="the second"):
        lines += detail(word, text)
    return lines


def to_dict(evaluations: Sequence[Evaluation], names: Sequence[str]) -> dict[str, Any]:
    """The same as JSON values."""
    return {
        "evaluations": [
            {
                "label": name,
                "source": found.source,
                "backend": found.backend,
                "model": found.model,
                "cost_per_50": cost_per_sample(found.figures),
                "metrics": dict(found.figures),
            }
            for name, found in zip(names, evaluations, strict=True)
        ],
        "comparisons": [
            {
                "first": pair.first,
                "second": pair.second,
                **pair.comparison.to_dict(source=pair.first),
                "p_value_adjusted": pair.p_value,
                "real": pair.real,
            }
            for pair in pairs(evaluations, names)
        ],
    }
