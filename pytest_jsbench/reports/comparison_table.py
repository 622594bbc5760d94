"""Comparisons as lines for people: with a baseline, and of several runs side by side."""

from __future__ import annotations

import itertools
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from pytest_jsbench.core.text import counted, distinct, dollars, printable
from pytest_jsbench.metrics.comparison import Comparison, Pair, Standing, ValueComparison
from pytest_jsbench.metrics.comparison import pairs as paired
from pytest_jsbench.reports import breakdown
from pytest_jsbench.reports.evaluations import firsts
from pytest_jsbench.reports.summary_table import (
    NOT_APPLICABLE,
    Table,
    aligned,
    detail,
    microseconds,
    milliseconds,
    rate,
    with_interval,
)
from pytest_jsbench.runs.settings import Bearing, SettingDifference, differences, distinguishing

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.reports.breakdown import Breakdown
    from pytest_jsbench.reports.evaluations import Evaluation

_MOST_NAMED = 10
_MOST_FIELDS = 5


def changes(comparison: Comparison, source: str, *, variant: str = "") -> list[str]:
    """The comparison of a run, or of a variant, with the run in `source`, one subject a line, within 80 columns."""
    return [line for name, text in _changes(comparison, source, variant) for line in detail(name, text)]


def _changes(comparison: Comparison, source: str, variant: str) -> Iterator[tuple[str, str]]:
    of = f"{printable(source)}, variant {printable(variant)}" if variant else printable(source)
    yield "baseline", f"{of}: {comparison.sentence}"
    for word, keys in comparison.changes.items():
        yield word, named(keys)
    yield from beside_verdicts(comparison)
    yield from not_compared(comparison, first="the baseline", second="this run")
    yield from apart(comparison.settings)


def apart(settings: Sequence[SettingDifference]) -> Iterator[tuple[str, str]]:
    """The settings in which two runs differ, by what they bear on; and a warning where verdicts cannot be compared."""
    name = "settings"
    for bearing in Bearing:
        if told := [f"{one.name} {' → '.join(one.shown)}" for one in settings if one.bears_on is bearing]:
            yield name, f"other {bearing}: {', '.join(told)}"
            name = ""
    yield from incomparable(settings)


def incomparable(settings: Sequence[SettingDifference]) -> Iterator[tuple[str, str]]:
    """A warning for each reason why the verdicts of the runs cannot be compared."""
    if rules := [one.name for one in settings if one.bears_on is Bearing.VERDICTS]:
        said = f"the runs were judged by different rules ({', '.join(rules)}), and a case may have another verdict for "
        yield "warning", f"{said}that alone: `jsbench judge RUN --output DIR` judges one again"
    if any(one.name == "labelled" for one in settings):
        yield "warning", "one run asks grammars about labelled answers, another asks a model: they cannot be compared"


def beside_verdicts(comparison: Comparison, most: int = _MOST_NAMED) -> Iterator[tuple[str, str]]:
    """What came out of the tests and the values, by subject; nothing of what one of the runs lacks."""
    if comparison.tests is not None:
        yield "tests", comparison.tests.sentence
        if comparison.tests.worse:
            yield "worse", f"no longer passed by their test in {named(comparison.tests.worse, most)}"
    if comparison.values is not None:
        yield from _of_values(comparison.values, most)


def _of_values(found: ValueComparison, most: int) -> Iterator[tuple[str, str]]:
    """Of whole answers, of fields, and the cases."""
    (_, whole), *fields = found.told
    yield "values", whole
    for name, text in fields[:_MOST_FIELDS]:
        yield "field", f"{printable(name, _LONGEST_METRIC)}: {text}"
    if len(fields) > _MOST_FIELDS:
        yield "field", f"… and {counted(len(fields) - _MOST_FIELDS, 'more field')}"
    for word, more, keys in (("worse", "fewer", found.worse), ("better", "more", found.better)):
        if keys:
            yield word, f"{more} values right in {named(keys, most)}"
    if found.changed:
        cases = counted(len(found.changed), "case")
        yield "not shared", f"{cases} of which other values are expected, or compared otherwise: left out of the values"


def not_compared(comparison: Comparison, *, first: str, second: str, each: str = "run") -> Iterator[tuple[str, str]]:
    """The cases of the two runs, or whatever `each` of them is, that are not compared."""
    left_out = {
        f"undecided in one {each}": len(comparison.undecided),
        "whose schema changed": len(comparison.changed),
        f"only in {first}": comparison.first_alone,
        f"only in {second}": comparison.second_alone,
    }
    if parts := [f"{count} {reason}" for reason, count in left_out.items() if count]:
        yield "not shared", f"cases left out of the comparison: {', '.join(parts)}"
    if count := comparison.shortened:
        cases = "1 case was" if count == 1 else f"{count} cases were"
        yield "repeats", f"{cases} asked more often in one {each}: compared by the first attempts, as many as both made"


def named(keys: Sequence[CaseKey], most: int = _MOST_NAMED, *, show: Callable[[str], str] = printable) -> str:
    """The cases' names, and how many more there are."""
    names = ", ".join(show(str(key)) for key in keys[:most])
    return f"{len(keys)}: {names}" + (f", and {len(keys) - most} more" if len(keys) > most else "")


_LONGEST_LABEL = 22
_LONGEST_METRIC = 40
#: of a label that names its file
_LONGEST_PLACE = 200
_SAMPLE = 50
#: together, in the head of a table
_WIDTH_OF_LABELS = 40
#: figures that every run of ours has
_OURS = frozenset({"pass_rate", "planned"})
#: of a column
_NARROWEST = 10


def labels(evaluations: Sequence[Evaluation], given: Sequence[str] | None = None) -> list[str]:
    """
    A name for each evaluation, and no two alike: the given one, or else the settings that tell it from the others.

    Where those leave some alike they get the run's id, and where that does too, the file.
    """
    if given is not None:
        names = list(given)
    elif any(found.variant for found in evaluations):
        names = [found.label for found in evaluations]
    elif chosen := distinguishing(settings := [found.settings for found in evaluations]):
        told = (", ".join(one[name].label for name in chosen if name in one) for one in settings)
        names = [name or found.label for name, found in zip(told, evaluations, strict=True)]
    else:
        names = [(_text(found.run.get("engine")) if _labelled(found) else "") or found.label for found in evaluations]
    for ends in ([_text(found.run.get("run_id")) for found in evaluations], [found.source for found in evaluations]):
        count = Counter(names)
        longer = [f"{name} ({end})" if count[name] > 1 else name for name, end in zip(names, ends, strict=True)]
        names = longer if len(set(longer)) > len(count) else names
    return distinct(names, _LONGEST_PLACE)


def _labelled(found: Evaluation) -> bool:
    """Whether a grammar decided on labelled answers, in which a model has no part but its tokens."""
    dataset = found.run.get("dataset")
    return isinstance(dataset, Mapping) and dataset.get("labelled") is True


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def pairs(evaluations: Sequence[Evaluation], names: Sequence[str]) -> list[Pair]:
    """
    The pairs of evaluations that have outcomes; where they are many, each with the first alone.

    Of several runs with the same variants, each variant is compared with itself in the other runs.
    """
    groups: dict[int, list[Standing]] = {}
    for name, found, first in zip(names, evaluations, firsts(evaluations), strict=True):
        if found.outcomes:
            groups.setdefault(first, []).append((name, found.outcomes, found.settings))
    return paired(*groups.values())


def side_by_side(
    evaluations: Sequence[Evaluation], names: Sequence[str], *, verbose: bool, by: Breakdown | None = None
) -> list[str]:
    """A row per run where all have pass rates, or else a row per metric; then the comparison of each pair."""
    ours = all("pass_rate" in found.figures for found in evaluations)
    numbered = any(len(printable(name, None)) > _LONGEST_LABEL for name in names)
    legend = [f"[{number}] {name}" for number, name in enumerate(names, start=1)]
    if numbered:  # there is room for all of them there
        names = legend
    lines = aligned(*overview(evaluations, [printable(name, _LONGEST_LABEL) for name in names])) if ours else []
    short = not numbered and sum(map(len, names)) <= _WIDTH_OF_LABELS
    columns = names if short else [f"[{number}]" for number in range(1, len(names) + 1)]
    if verbose or not ours:
        lines += [*([""] if lines else []), *_metrics(evaluations, columns)]
        numbered = not short
    if by is not None:
        lines += ["", *breakdown.lines(by, columns), "", *textwrap.wrap(by.note(columns), 80)]
        numbered = not short
    if settings := differences([found.settings for found in evaluations]):
        lines += ["", *_settings(settings, columns)]
        numbered = not short
    lines += ["", *legend] if numbered else []
    found = pairs(evaluations, names)
    for word, text in warnings(evaluations, names, found):
        lines += ["", *detail(word, text)]
    for pair in found:
        lines += ["", *_said(pair, verbose=verbose)]
    if len(found) > 1:
        lines += ["", f"p-values are adjusted for {len(found)} comparisons (Holm)"]
    silent = [name for name, one in zip(names, evaluations, strict=True) if not one.outcomes]
    if ours and silent:
        lines += ["", *detail("not paired", f"{', '.join(silent)}: no word on how each case ended")]
    return lines


def settings_table(settings: Sequence[SettingDifference], columns: Sequence[str]) -> Table:
    """Head and rows of the table of settings in which the runs differ."""
    return ["Setting", "Bears on", *columns], [[one.name, one.bears_on.value, *one.shown] for one in settings]


def _settings(settings: Sequence[SettingDifference], columns: Sequence[str]) -> list[str]:
    headers, rows = settings_table(settings, columns)
    widths = [None, None, *[max(_NARROWEST, (_WIDTH_OF_LABELS + 6) // len(columns))] * len(columns)]
    text = tabulate(rows, headers=headers, tablefmt="simple", disable_numparse=True, maxcolwidths=widths)
    return text.splitlines()


def warnings(evaluations: Sequence[Evaluation], names: Sequence[str], found: Sequence[Pair]) -> list[tuple[str, str]]:
    """Why the figures of the runs are not what they seem to be."""
    settings = differences([one.settings for one in evaluations])
    return [*_incomplete(evaluations, names), *incomparable(settings), *_over_other_cases(found)]


def _incomplete(evaluations: Sequence[Evaluation], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The runs of which attempts broke, are missing or were not judged."""
    for name, found in zip(names, evaluations, strict=True):
        errors, unjudged, planned = (found.figures.get(one) or 0 for one in ("errors", "unjudged", "planned"))
        if found.figures.keys() >= _OURS and (errors or unjudged):
            said = f"{errors:g} of {planned:g} attempts broken or missing, {unjudged:g} unjudged"
            yield "incomplete", f"{printable(name, _LONGEST_LABEL)}: {said}"


def _over_other_cases(found: Sequence[Pair]) -> Iterator[tuple[str, str]]:
    """A warning where the runs' own figures are not over the same cases."""
    compared = [pair.comparison for pair in found]
    if any(one.first_alone or one.second_alone or one.changed for one in compared):
        said = "the figures above are not all over the same cases with the same schemas"
        yield "warning", f"{said}: only what is said of a pair is over those of both"


def overview(evaluations: Sequence[Evaluation], names: Sequence[str]) -> Table:
    """Head and rows of the table of runs: of models, or of grammars where all decided on labelled answers."""
    if all(found.figures.get("valid_instances") or found.figures.get("invalid_instances") for found in evaluations):
        return _GRAMMARS, [[name, *_grammar(found)] for name, found in zip(names, evaluations, strict=True)]
    rows = [[name, *_model(found)] for name, found in zip(names, evaluations, strict=True)]
    if all(found.figures.get("value_accuracy") is None for found in evaluations):
        return _MODELS, rows
    for row, found in zip(rows, evaluations, strict=True):
        row.insert(_VALUES, rate(found.rate("value_accuracy")))
    return [*_MODELS[:_VALUES], "Values\nright", *_MODELS[_VALUES:]], rows


#: where the column of values stands: beside the pass rate
_VALUES = 2
_MODELS = ["Run", "Pass rate\n(95 % interval)", "Speed\n(mean)", f"Cost/{_SAMPLE}", "Attempts"]
_GRAMMARS = [
    "Run",
    "Declared\ncoverage",
    "Valid,\nrejected",
    "Invalid,\naccepted",
    "Compile\n(ms)",
    "Cases",
    "Mask\n(µs)",
]


def _model(found: Evaluation) -> list[str]:
    return [
        with_interval(found.rate("pass_rate")),
        _figure(found.figures.get("tgt_mean"), "{:.2f} s"),
        NOT_APPLICABLE if (cost := cost_per_sample(found.figures)) is None else dollars(cost),
        _figure(found.figures.get("planned"), "{:.0f}"),
    ]


def _grammar(found: Evaluation) -> list[str]:
    """Rates over the answers that each grammar decided on, which may be few where it declined many schemas."""
    return [
        *(rate(found.rate(name)) for name in ("declared_coverage", "over_constraint", "under_constraint")),
        milliseconds(found.figures.get("grammar_compilation_p50")),
        _figure(found.figures.get("planned"), "{:.0f}"),
        microseconds(found.figures.get("mask_time_p50")),
    ]


def cost_per_sample(figures: Mapping[str, float | None]) -> float | None:
    """The cost of fifty answers in US dollars; None where it is not known."""
    cost, priced = figures.get("cost"), figures.get("priced")
    return cost / priced * _SAMPLE if cost is not None and priced else None


def _figure(value: float | None, form: str) -> str:
    return NOT_APPLICABLE if value is None else form.format(value)


def _metrics(evaluations: Sequence[Evaluation], names: Sequence[str]) -> list[str]:
    figures = [found.figures for found in evaluations]
    known = dict.fromkeys(itertools.chain.from_iterable(figures))
    every = [name for name in known if not name.endswith(("_ci_low", "_ci_high"))]
    rows = [
        [shown, *(_figure(one.get(name), "{:.6g}") for one in figures)]
        for shown, name in zip(distinct(every, _LONGEST_METRIC), every, strict=True)
    ]
    return aligned(["Metric", *names], rows)


def _said(pair: Pair, *, verbose: bool) -> list[str]:
    found, most = pair.comparison, 1000 if verbose else 5
    lines = detail(
        printable(pair.second, _LONGEST_LABEL) + " ",
        f"against {printable(pair.first, _LONGEST_LABEL)}: {pair.comparison.sentence}",
    )
    for word, keys in found.changes.items():
        lines += detail(f"  {word}", named(keys, most))
    for word, text in beside_verdicts(found, most):
        lines += detail(f"  {word}", text)
    for word, text in not_compared(found, first="the first", second="the second"):
        lines += detail(word, text)
    return lines


def to_dict(evaluations: Sequence[Evaluation], names: Sequence[str], *, by: Breakdown | None = None) -> dict[str, Any]:
    """The same as JSON values."""
    return {
        **({} if by is None else {"by": by.to_dict(names)}),
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
        "settings": [one.to_dict() for one in differences([found.settings for found in evaluations])],
        "comparisons": [pair.to_dict() for pair in pairs(evaluations, names)],
    }
