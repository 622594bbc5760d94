"""The variants of a run as lines for people: which is best, which differences are real, and in which cases they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_jsbench.core.text import counted, distinct, dollars, printable
from pytest_jsbench.metrics.comparison import MISSING, PASSED
from pytest_jsbench.reports.comparison_table import beside_verdicts, not_compared
from pytest_jsbench.reports.summary_table import (
    NOT_APPLICABLE,
    Table,
    as_html,
    detail,
    figure,
    fitted,
    milliseconds,
    of,
    rate,
    rows_of_tasks,
    table_of_tasks,
)
from pytest_jsbench.runs.settings import distinguishing, settings_of

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.metrics.comparison import CaseOutcome
    from pytest_jsbench.metrics.metrics import Metrics
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.runs.outcomes import Run
    from pytest_jsbench.runs.records import RunMetadata

_MOST_CASES = 10
_LONGEST_NAME = 40
#: of the table of tasks
_MOST_COLUMNS = 5
_LONGEST_HEAD = 12
#: together, beside the names of tasks
_WIDTH_OF_HEADS = 50
#: answers of which the cost is told
_SAMPLE = 1000

#: a column's head, and its figure of a variant
Column = tuple[str, "Callable[[Metrics], str]"]


def heading(metadata: RunMetadata) -> str:
    """Who was asked, for people."""
    if metadata.variants:
        return counted(len(metadata.variants), "variant")
    return f"{printable(metadata.engine, 60)} {printable(metadata.model, 60)}"


def tables(run: Run, summary: Summary) -> list[str]:
    """The tables of a run within 80 columns: a row per task; or one per variant, and in what these differ."""
    if not summary.variants:
        return table_of_tasks(run, summary)
    headers, rows = variant_rows(summary, labelled=run.metadata.labelled)
    return [*fitted(headers, rows), *_by_task(summary), *_standing(summary)]


def html_table(run: Run, summary: Summary) -> str:
    """The rows of the first of them as HTML."""
    rows = variant_rows(summary, labelled=run.metadata.labelled) if summary.variants else rows_of_tasks(run, summary)
    return as_html(*rows)


def asked(run: Run, summary: Summary) -> dict[str, str]:
    """By variant, the settings that tell it from the others, best first."""
    settings = [settings_of(run.metadata.of_variant(name).to_dict()) for name in summary.variants]
    chosen = distinguishing(settings)
    told = (", ".join(one[part].label for part in chosen if part in one) for one in settings)
    return dict(zip(summary.variants, told, strict=True))


def variant_rows(summary: Summary, *, labelled: bool) -> Table:
    """Head and rows of the table of variants, best first; without figures that none of them has."""
    measured = [one.total for one in summary.variants.values()]
    found = [(head, [show(total) for total in measured]) for head, show in (_GRAMMARS if labelled else _MODELS)]
    kept = [(head, shown) for head, shown in found if set(shown) - {NOT_APPLICABLE}]
    if any(total.errors for total in measured):
        kept.append(("Errors", [str(total.errors) for total in measured]))
    rows = zip(summary.variants, *[shown for _, shown in kept], strict=True)
    return ["Variant", *[head for head, _ in kept]], [list(row) for row in rows]


def _by_task(summary: Summary) -> Iterator[str]:
    """Pass rates, a row per task and a column per variant, where there are several tasks and not too many variants."""
    if len(summary.tasks) < 2 or len(summary.variants) > _MOST_COLUMNS:
        return
    room = max(_LONGEST_HEAD, _WIDTH_OF_HEADS // len(summary.variants))
    headers = ["Pass rate", *distinct(list(summary.variants), room)]
    rows = [
        [task, *(rate(one.tasks[task].pass_rate) if task in one.tasks else "" for one in summary.variants.values())]
        for task in summary.tasks
    ]
    yield ""
    yield from fitted(headers, rows)


def tokens_of_one(total: Metrics) -> float | None:
    """Tokens of an answer, on average; None where it is not known."""
    tokens = total.tokens.output_tokens
    return None if tokens is None else tokens / total.reported


def _tokens(total: Metrics) -> str:
    tokens = tokens_of_one(total)
    return NOT_APPLICABLE if tokens is None else f"{tokens:,.0f}"


def cost_of_many(total: Metrics) -> float | None:
    """The cost of a thousand answers in US dollars; None where it is not known."""
    return None if total.cost is None or not total.priced else total.cost / total.priced * _SAMPLE


def _cost(total: Metrics) -> str:
    cost = cost_of_many(total)
    return NOT_APPLICABLE if cost is None else f"${cost:,.2f}" if cost >= 1 else dollars(cost)


_MODELS: Sequence[Column] = (
    ("Pass rate", lambda total: rate(total.pass_rate)),
    ("Pass^k", lambda total: figure(total.pass_hat_k.value if total.planned > total.cases else None)),
    ("Decl.\ncov.", lambda total: figure(total.declared_coverage.value)),
    ("Emp.\ncov.", lambda total: figure(total.empirical_coverage.value)),
    ("Values\nright", lambda total: figure(total.value_accuracy.value)),
    ("TTFT\n(s)", lambda total: figure(total.ttft.p50)),
    ("TGT\n(s)", lambda total: figure(total.tgt.p50)),
    ("Tokens\nout", _tokens),
    ("Cost of\n1,000", _cost),
)
_GRAMMARS: Sequence[Column] = (
    ("Pass rate", lambda total: rate(total.pass_rate)),
    ("Decl.\ncov.", lambda total: figure(total.declared_coverage.value)),
    ("Valid,\nrejected", lambda total: of(total.over_constraint)),
    ("Invalid,\naccepted", lambda total: of(total.under_constraint)),
    ("Comp.\n(ms)", lambda total: milliseconds(total.grammar_compilation.p50)),
)


def _standing(summary: Summary) -> Iterator[str]:
    subjects = [*standing(summary), *_differing(summary)]
    yield from [""] if subjects else []
    for name, text in subjects:
        yield from detail(name, text)


def standing(summary: Summary) -> Iterator[tuple[str, str]]:
    """What the comparison of the variants comes to, by subject: each pair, and what is to be known of the p-values."""
    names = _short(summary)
    for pair in summary.pairs:
        first, second = names[pair.first], names[pair.second]
        yield "compared", f"{second} against {first}: {pair.comparison.sentence}"
        yield from beside_verdicts(pair.comparison)
        yield from not_compared(pair.comparison, first=first, second=second, each="variant")
    if len(summary.pairs) > 1:
        yield "p-values", f"adjusted for {len(summary.pairs)} comparisons (Holm)"


def _short(summary: Summary) -> dict[str, str]:
    """The variants' names, no two alike, as there is room for in a line."""
    return dict(zip(summary.variants, distinct(list(summary.variants), _LONGEST_NAME), strict=True))


def _differing(summary: Summary) -> Iterator[tuple[str, str]]:
    """The cases in which variants differ, those first about which they are divided most evenly."""
    names = _short(summary)
    for number, key in enumerate(summary.differing[:_MOST_CASES]):
        if not number:
            yield "differ", said_of_differing(summary)
        by_end: dict[str, list[str]] = {}
        for name, end in ends_of(summary, key).items():
            by_end.setdefault(end, []).append(names[name])
        said = "; ".join(f"{end}: {', '.join(of_end)}" for end, of_end in by_end.items())
        yield "", f"{printable(str(key))}  {said}"
    if (more := len(summary.differing) - _MOST_CASES) > 0:
        yield "", f"… and {more:,} more"


def said_of_differing(summary: Summary) -> str:
    """How many cases some variants pass and others fail, for people."""
    return f"{counted(len(summary.differing), 'case')} that some variants pass and others fail"


def ends_of(summary: Summary, key: CaseKey) -> dict[str, str]:
    """How a case ended in each variant that has it: in one word where all its attempts ended alike."""
    return {name: _end(one.outcomes[key]) for name, one in summary.variants.items() if key in one.outcomes}


def _end(outcome: CaseOutcome) -> str:
    """How a case ended, in a word; where its attempts did not end alike, how many passed, and the first other end."""
    different = dict.fromkeys(outcome.attempts)
    if len(different) <= 1:
        return next(iter(different), MISSING)
    other = next(name for name in different if name != PASSED)
    return f"{outcome.passes}/{len(outcome.attempts)} passed, {other}"
