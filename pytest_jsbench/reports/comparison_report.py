"""Report on several runs: metrics, significant differences, and settings that differ."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import ExportError
from pytest_jsbench.core.json_values import to_json
from pytest_jsbench.core.text import distinct, format_count, list_names, printable
from pytest_jsbench.metrics.comparison import Comparison, Pair, RunOutcomes, ValueComparison, same_cases
from pytest_jsbench.metrics.comparison import pairs as paired
from pytest_jsbench.metrics.figure import GRAMMAR_RUNS, RUNS
from pytest_jsbench.metrics.figures import FIGURES
from pytest_jsbench.metrics.rewriting_effects import effect_sentence
from pytest_jsbench.records.setting_differences import SettingDifference, find_distinguishing_settings
from pytest_jsbench.reports import markdown
from pytest_jsbench.reports.blocks import Block, Column, Fact, TableBlock, table_of_figures
from pytest_jsbench.reports.lateness import describe_lateness
from pytest_jsbench.reports.run_json import firsts, settings_apart
from pytest_jsbench.settings.option import Bearing

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.reports.breakdown import Breakdown
    from pytest_jsbench.reports.run_json import Evaluation

_MOST_NAMED = 10
_MOST_NAMED_OF_PAIR = 5
_MOST_NAMED_AT_ALL = 1000
_MOST_FIELDS = 5
_LONGEST_LABEL = 22
_LONGEST_METRIC = 40
#: Length in characters up to which the name of a metric is never truncated.
_LONGEST_WHOLE_METRIC = 60
#: Maximum length in characters of a label that contains the file's name.
_LONGEST_PLACE = 200
#: Maximum total length in characters of labels in a table's heading; longer labels are replaced by numbers.
_WIDTH_OF_LABELS = 40
#: Metrics that distinguish a run of pytest-jsbench from another tool's evaluation.
_OURS = frozenset({"pass_rate", "planned"})
#: Maximum length in characters of a comment; GitHub accepts 65,536.
_LONGEST_COMMENT = 60_000
#: A URL without characters that end a link in Markdown.
_LINK = re.compile(r"https?://[A-Za-z0-9.-]+(?::\d{1,5})?(?:/[\w/.~%+,;:=&?#-]*)?", re.ASCII)
_NAME_OF_COMMENT = re.compile(r"[A-Za-z0-9_.+]([A-Za-z0-9_.+-]{0,98}[A-Za-z0-9_.+])?")


def side_by_side(
    evaluations: Sequence[Evaluation],
    names: Sequence[str],
    *,
    verbose: bool = False,
    by: Breakdown | None = None,
    margin: float | None = None,
    more: Sequence[Block] = (),
) -> list[Block]:
    """
    Return the report on several runs for a terminal; if names are long, numbers replace them below
    the first table.
    """
    shown = [printable(name, None) for name in names]
    legend: list[Fact] = []
    rows = shown
    columns = shown
    if max(map(len, shown)) > _LONGEST_LABEL or sum(map(len, shown)) > _WIDTH_OF_LABELS:
        columns = [f"[{number}]" for number in range(1, len(shown) + 1)]
        rows = [f"{number} {name}" for number, name in zip(columns, shown, strict=True)]
        legend = list(zip(columns, shown, strict=True))
    most = _MOST_NAMED_AT_ALL if verbose else _MOST_NAMED_OF_PAIR
    return list(
        _blocks(evaluations, rows, columns, legend, verbose=verbose, most=most, by=by, margin=margin, more=more)
    )


def comparison_markdown(
    evaluations: Sequence[Evaluation],
    names: Sequence[str],
    *,
    by: Breakdown | None = None,
    margin: float | None = None,
    more: Sequence[Block] = (),
    comment: str | None = None,
    link: str | None = None,
) -> str:
    """
    Return the report on several runs as GitHub Markdown, with untrusted text in code spans.

    `comment` is the name of a comment that a workflow updates. A comment begins with the result of the comparison and a
    link to the run's files at the address `link`. Sections that do not fit are omitted, with a note.
    """
    newest = evaluations[-1]
    variants = sum(run.variant != "" and run.source == newest.source for run in evaluations)
    text = "" if comment is None else f"{marker(comment)}\n"
    text += f"### jsbench: {f'{variants} variants' if variants > 1 else markdown.code(names[-1])}\n\n"
    text += "" if newest.verdict is None else f"{markdown.verdict_line(newest.verdict)}\n\n"
    if comment is not None:
        text += "".join(f"{line}\n\n" for line in _lead(evaluations, names, link))
    left_out = 0
    blocks = _blocks(evaluations, names, names, most=_MOST_NAMED, by=by, margin=margin, more=more)
    for section in markdown.sections(blocks):
        if comment is not None and len(text) + len(section) > _LONGEST_COMMENT:
            left_out += 1
        else:
            text += section
    text = text.rstrip("\n")
    if left_out:
        text += f"\n\n{format_count(left_out, 'more section')} omitted"
    return text + "\n"


def _lead(evaluations: Sequence[Evaluation], names: Sequence[str], link: str | None) -> Iterator[str]:
    """Yield the first lines of a comment: the result of a comparison of two runs, and the link to the files."""
    compared = pairs(evaluations, names)
    if len(compared) == 1:
        (pair,) = compared
        change = pair.comparison.difference.value
        if change is None:
            found = "not comparable, since no case was decided in both runs"
        elif not pair.comparison.real:
            found = "no difference beyond chance"
        else:
            found = f"{'better' if change > 0 else 'worse'}, by more than chance"
        yield f"**{found}**: {markdown.code(names[-1])} against {markdown.code(names[0])}"
    if link is not None:
        if _LINK.fullmatch(link) is None:
            expected = "expected an address such as https://example.com/artifacts/7"
            raise ExportError(f"--link: {expected}, found {printable(link, 60)!r}", found=link, option="link")
        yield f"[Files of this run]({link})"


def marker(name: str) -> str:
    """Return the hidden first line by which a workflow finds its comment; raise ExportError for an invalid name."""
    if _NAME_OF_COMMENT.fullmatch(name) is None or "--" in name:
        message = (
            f"invalid name of a comment: '{printable(name, 60)}'; expected letters, digits, _ . + and single hyphens"
        )
        raise ExportError(message, found=name, option="comment")
    return f"<!-- jsbench:{name} -->"


def _blocks(
    evaluations: Sequence[Evaluation],
    names: Sequence[str],
    columns: Sequence[str],
    legend: list[Fact] | None = None,
    *,
    verbose: bool = False,
    most: int,
    by: Breakdown | None,
    margin: float | None,
    more: Sequence[Block],
) -> Iterator[Block]:
    """Yield the blocks of the report, the most important first, since a comment may omit the last blocks."""
    ours = all("pass_rate" in run.figures for run in evaluations)
    settings = settings_apart(evaluations)
    compared = pairs(evaluations, names)
    if ours:
        yield table_of_runs(list(zip(names, evaluations, strict=True)))
    if verbose or not ours:
        yield _table_of_metrics(evaluations, columns)
    short = distinct(names, _LONGEST_PLACE)
    if legend:
        yield legend
        short = [name if len(name) <= _LONGEST_LABEL else column for name, column in zip(names, columns, strict=True)]
    warnings = [*_incomplete_runs(evaluations, short), *incomparable(settings), *_warn_of_other_cases(compared)]
    warnings += _warn_of_lateness(evaluations, short)
    if warnings:
        yield warnings
    shown = dict(zip(names, short, strict=True))
    for pair in compared:
        facts = facts_of_pairs([pair], shown, most=most)
        if margin is not None:
            names_of_pair = f"{shown[pair.second]} than {shown[pair.first]}"
            facts.append(("no worse", f"{names_of_pair}: {pair.comparison.no_worse_sentence(margin)}"))
        yield facts
    if len(compared) > 1:
        yield [adjustment_of(compared)]
    without_outcomes = [name for name, run in zip(names, evaluations, strict=True) if ours and not run.outcomes]
    if without_outcomes:
        yield [("not paired", f"{', '.join(without_outcomes)}: without outcomes of cases")]
    if by is not None:
        yield by.table(columns)
        yield [("note", by.note(columns))]
    yield from more
    if settings:
        yield _table_of_settings(settings, columns)


def table_of_runs(rows: Sequence[tuple[str, Evaluation]]) -> TableBlock:
    """Return a table with one row per run; the columns are for grammars if all runs have labelled answers."""
    labelled = [run.figures.get("valid_instances") or run.figures.get("invalid_instances") for _, run in rows]
    return table_of_figures("Run", rows, GRAMMAR_RUNS if all(labelled) else RUNS)


def _table_of_metrics(evaluations: Sequence[Evaluation], columns: Sequence[str]) -> TableBlock:
    """Return a table with one row per metric and one column per run."""
    names = dict.fromkeys(itertools.chain.from_iterable(evaluation.figures for evaluation in evaluations))
    metrics = [name for name in names if not name.endswith(("_ci_low", "_ci_high"))]
    table = TableBlock(
        head="Metric", columns=(), rows=tuple((name, ()) for name in metrics), whole_names=_LONGEST_WHOLE_METRIC
    )
    for name, evaluation in zip(columns, evaluations, strict=True):
        cells = [evaluation.figure(metric) for metric in metrics]
        table = table.beside(Column(heading=name, form="{:.6g}", foreign=True), cells)
    return table


def _table_of_settings(settings: Sequence[SettingDifference], columns: Sequence[str]) -> TableBlock:
    """Return a table with one row for each setting that differs between the runs."""
    return TableBlock(
        head="Setting",
        columns=(
            Column(heading="Affects", left=True),
            *(Column(heading=name, left=True, foreign=True) for name in columns),
        ),
        rows=tuple((setting.name, (setting.bears_on.value, *setting.shown)) for setting in settings),
        folded="1 setting differs" if len(settings) == 1 else f"{len(settings)} settings differ",
    )


def facts_of_comparison(comparison: Comparison, source: str) -> Iterator[Fact]:
    """Yield the comparison of a run with a baseline; `source` names the baseline and may be empty."""
    yield "baseline", f"{source}: {comparison.sentence}" if source else comparison.sentence
    yield from _changes(comparison, _MOST_NAMED)
    yield from facts_of_ratchet(comparison)
    yield from facts_of_tests_and_values(comparison)
    yield from _not_compared(comparison, first="the baseline", second="this run")
    yield from apart(comparison.settings)


def facts_of_ratchet(comparison: Comparison) -> Iterator[Fact]:
    """Yield the cases that are worse than in a baseline, without those that `_changes` lists."""
    ratchet = comparison.ratchet
    if ratchet is None:
        return
    if comparison.difference.repeated and ratchet.broken:
        yield "broke", f"not every attempt passed again in {_list_cases(ratchet.broken, _MOST_NAMED, 'case')}"
    if ratchet.arrived_failing:
        cases = _list_cases(ratchet.arrived_failing, _MOST_NAMED, "failing case")
        yield "arrived", f"{cases} (not in the baseline with this schema)"
    if ratchet.vanished:
        yield "vanished", f"no longer in this run: {_list_cases(ratchet.vanished, _MOST_NAMED, 'case')}"


def facts_of_pairs(
    compared: Sequence[Pair], names: Mapping[str, str], *, each: str = "run", most: int = 0
) -> list[Fact]:
    """
    Return the comparison of each pair of runs or variants.

    `each` is the noun for a run or a variant. At most `most` changed cases are listed per pair.
    """
    facts: list[Fact] = []
    for pair in compared:
        first = names[pair.first]
        second = names[pair.second]
        if pair.rewriting:
            facts.append(("rewritten", f"{first} {effect_sentence(pair.comparison, pair.rewriting)}"))
        else:
            facts.append(("compared", f"{second} against {first}: {pair.comparison.sentence}"))
        facts += _changes(pair.comparison, most) if most else []
        facts += facts_of_tests_and_values(pair.comparison, most or _MOST_NAMED)
        facts += _not_compared(pair.comparison, first=first, second=second, each=each)
    return [*facts, adjustment_of(compared)] if len(compared) > 1 else facts


def adjustment_of(compared: Sequence[Pair]) -> Fact:
    """Return a note on the adjustment of the p-values for these pairs."""
    return "p-values", f"adjusted for {len(compared)} comparisons (Holm)"


def _changes(comparison: Comparison, most: int) -> Iterator[Fact]:
    for word, keys in comparison.changes.items():
        yield word, _list_cases(keys, most)


def apart(settings: Sequence[SettingDifference]) -> Iterator[Fact]:
    """Yield the settings that differ, grouped by what they affect, and a warning if verdicts are not comparable."""
    for at, changes in enumerate(by_bearing(settings)):
        yield "" if at else "settings", changes
    yield from incomparable(settings)


def by_bearing(settings: Sequence[SettingDifference]) -> Iterator[str]:
    """Yield the settings that differ as one text for each kind of effect."""
    for bearing in Bearing:
        changes = [f"{setting.name} {' → '.join(setting.shown)}" for setting in settings if setting.bears_on is bearing]
        if changes:
            yield f"other {bearing}: {', '.join(changes)}"


def incomparable(settings: Sequence[SettingDifference]) -> Iterator[Fact]:
    """Yield a warning for each reason why the verdicts of the runs are not comparable."""
    if rules := [one.name for one in settings if one.bears_on is Bearing.VERDICTS]:
        why = f"the runs were judged by different rules ({', '.join(rules)}), which alone can change verdicts"
        yield "warning", f"{why}: `jsbench judge RUN --output DIR` judges a run again"
    if any(one.name == "labelled" for one in settings):
        yield "warning", "one run has decisions of grammars, another has answers of a model: they cannot be compared"


def facts_of_tests_and_values(comparison: Comparison, most: int = _MOST_NAMED) -> Iterator[Fact]:
    """
    Yield the comparison of all but verdicts: own tests, second tries, decisions to call a tool, repeats, values, times,
    tokens and costs.
    """
    if comparison.tests is not None:
        yield "tests", comparison.tests.sentence
        if comparison.tests.worse:
            yield "worse", f"answers no longer pass their test in {_list_cases(comparison.tests.worse, most, 'case')}"
    if comparison.repairs is not None:
        yield "repairs", comparison.repairs.sentence
        if comparison.repairs.worse:
            yield "worse", f"second tries no longer help in {_list_cases(comparison.repairs.worse, most, 'case')}"
    if comparison.triggers is not None:
        yield "triggers", comparison.triggers.sentence
    if comparison.agreement is not None:
        yield "agreement", comparison.agreement.sentence
        if comparison.agreement.worse:
            yield "worse", f"answers differ more often in {_list_cases(comparison.agreement.worse, most, 'case')}"
    if comparison.values is not None:
        yield from _facts_of_values(comparison.values, most)
    yield from comparison.ratio_sentences


def _facts_of_values(values: ValueComparison, most: int) -> Iterator[Fact]:
    """Yield the comparison of values in whole answers and in fields, and the cases that changed."""
    (_, whole), *fields = values.sentences
    yield "values", whole
    for name, text in fields[:_MOST_FIELDS]:
        yield "field", f"{printable(name, _LONGEST_METRIC)}: {text}"
    if len(fields) > _MOST_FIELDS:
        yield "field", f"… and {format_count(len(fields) - _MOST_FIELDS, 'more field')}"
    for word, more, keys in (("worse", "fewer", values.worse), ("better", "more", values.better)):
        if keys:
            yield word, f"{more} correct values in {_list_cases(keys, most, 'case')}"
    if values.changed:
        cases = format_count(len(values.changed), "case")
        yield "not shared", f"{cases} with different expected values or comparers: values not compared"


def _not_compared(comparison: Comparison, *, first: str, second: str, each: str = "run") -> Iterator[Fact]:
    """Yield the numbers of cases that are not compared; `each` is the noun for a run or a variant."""
    left_out = {
        f"undecided in one {each}": len(comparison.undecided),
        "whose schema changed": len(comparison.changed),
        f"only in {first}": comparison.first_alone,
        f"only in {second}": comparison.second_alone,
    }
    parts = [f"{count} {reason}" for reason, count in left_out.items() if count]
    if parts:
        yield "not shared", f"cases left out of the comparison: {', '.join(parts)}"
    count = comparison.shortened
    if count:
        cases = "1 case was" if count == 1 else f"{count} cases were"
        yield "repeats", f"{cases} attempted more often in one {each}: the additional attempts are not compared"


def _list_cases(keys: Sequence[CaseKey], most: int, noun: str = "") -> str:
    """Return the number of cases, with a noun if given, and the names of at most `most` cases."""
    number = format_count(len(keys), noun) if noun else str(len(keys))
    return f"{number}: {list_names([printable(str(key)) for key in keys], most)}"


def labels(evaluations: Sequence[Evaluation], given: Sequence[str] | None = None) -> list[str]:
    """
    Return a distinct label for each evaluation: the given label, or the settings that distinguish it.

    If labels are equal, the run's id is added, and if they are still equal, the file.
    """
    if given is not None:
        names = list(given)
    elif any(run.variant for run in evaluations):
        names = [run.label for run in evaluations]
    elif distinguishing_names := find_distinguishing_settings(
        settings := [run.settings for run in evaluations],
        same_cases=same_cases(*(run.outcomes for run in evaluations)),
    ):
        texts = (", ".join(own[name].label for name in distinguishing_names if name in own) for own in settings)
        names = [name or run.label for name, run in zip(texts, evaluations, strict=True)]
    else:
        engines = [
            _text(evaluation.run.get("engine")) if _is_labelled(evaluation) else "" for evaluation in evaluations
        ]
        names = [engine or run.label for engine, run in zip(engines, evaluations, strict=True)]
    run_ids = [_text(evaluation.run.get("run_id")) for evaluation in evaluations]
    for ends in (run_ids, [run.source for run in evaluations]):
        count = Counter(names)
        longer = [f"{name} ({end})" if count[name] > 1 else name for name, end in zip(names, ends, strict=True)]
        names = longer if len(set(longer)) > len(count) else names
    return distinct(names, _LONGEST_PLACE)


def _is_labelled(evaluation: Evaluation) -> bool:
    """Return whether a grammar decided about labelled answers; the model of such a run only provides its tokenizer."""
    dataset = evaluation.run.get("dataset")
    return isinstance(dataset, Mapping) and dataset.get("labelled") is True


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def pairs(evaluations: Sequence[Evaluation], names: Sequence[str]) -> list[Pair]:
    """
    Compare the runs with known outcomes in pairs; in a large group, compare each run only with the first run.

    If all runs have the same variants, a variant is compared only with the variant of the same name in other runs.
    """
    groups: dict[int, list[RunOutcomes]] = {}
    for name, run, first in zip(names, evaluations, firsts(evaluations), strict=True):
        if run.outcomes:
            groups.setdefault(first, []).append((name, run.outcomes, run.settings))
    return paired(*groups.values())


def _incomplete_runs(evaluations: Sequence[Evaluation], names: Sequence[str]) -> Iterator[Fact]:
    """Yield a warning for each run with failed, missing or unjudged attempts."""
    for name, run in zip(names, evaluations, strict=True):
        errors, unjudged, planned = (run.figures.get(count) or 0 for count in ("errors", "unjudged", "planned"))
        if run.figures.keys() >= _OURS and (errors or unjudged):
            lack = f"{errors:g} of {planned:g} attempts without an answer, {unjudged:g} unjudged"
            yield "incomplete", f"{name}: {lack}"


def _warn_of_lateness(evaluations: Sequence[Evaluation], names: Sequence[str]) -> Iterator[Fact]:
    """Yield a warning for each run whose times to the first token include too much of the client's own time."""
    for name, run in zip(names, evaluations, strict=True):
        if late := describe_lateness(run):
            yield "warning", f"{name}: {late}"


def _warn_of_other_cases(compared: Sequence[Pair]) -> Iterator[Fact]:
    """Yield a warning if the metrics of the runs are not computed over the same cases."""
    comparisons = [pair.comparison for pair in compared]
    if any(each.first_alone or each.second_alone or each.changed for each in comparisons):
        why = "not all figures above are computed over the same cases and schemas"
        yield "warning", f"{why}: only the comparisons of pairs are restricted to common cases"


def to_dict(
    evaluations: Sequence[Evaluation], names: Sequence[str], *, by: Breakdown | None = None, margin: float | None = None
) -> dict[str, Any]:
    """Return the report as JSON values; with a margin, each pair has the result of the non-inferiority test."""

    def compared(pair: Pair) -> dict[str, Any]:
        shown = {} if margin is None else {"no_worse": {"margin": margin, "shown": pair.comparison.no_worse(margin)}}
        return pair.to_dict() | shown

    return {
        **({} if by is None else {"by": by.to_dict(names)}),
        "evaluations": [
            {
                "label": name,
                "source": run.source,
                "backend": run.backend,
                "model": run.model,
                "cost_per_1000": FIGURES["cost"].value_of(run),
                "metrics": dict(run.figures),
            }
            for name, run in zip(names, evaluations, strict=True)
        ],
        "settings": to_json(settings_apart(evaluations)),
        "comparisons": [compared(pair) for pair in pairs(evaluations, names)],
    }
