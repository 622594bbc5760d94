"""Report repeated attempts at a case: how many passed, and how often the values in their answers are equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_jsbench.core.text import format_count, list_names, printable
from pytest_jsbench.metrics.figure import Figure, Kind
from pytest_jsbench.metrics.figures import FIGURES
from pytest_jsbench.records.setting_differences import settings_of
from pytest_jsbench.reports.blocks import Column, Fact, TableBlock, share_text
from pytest_jsbench.values.value_digests import count_equal_pairs_by_field, group_digests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.metrics.case_outcomes import CaseOutcome
    from pytest_jsbench.metrics.metrics import Metrics
    from pytest_jsbench.metrics.statistics import Proportion
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.records.facts import AttemptFacts
    from pytest_jsbench.records.metadata import RunMetadata

_MOST_NAMED = 5
#: Maximum number of rows in a table of fields.
_MOST_FIELDS = 50
#: Maximum length in characters of a field's name in a sentence.
_LONGEST_FIELD = 60


def facts_of_repeats(summary: Summary, of: str, temperature: float | None) -> Iterator[Fact]:
    """
    Yield facts about repeated attempts at a case.

    `of` is a prefix with the name of the variant; `temperature` is None if it is unknown or differs between calls.
    """
    total = summary.total
    if total.planned > total.cases:
        steady = Column.of(Figure("pass_hat_k", Kind.RATE, counted=True))
        all_passed, any_passed = (steady.exact_text_of(rate) for rate in (total.pass_hat_k, total.pass_at_k))
        yield "repeats", f"{of}every attempt of a case passed (pass^k) {all_passed}, at least one (pass@k) {any_passed}"
        if total.pass_at:
            yield "", ", ".join(f"pass@{k} {rate.value:.3f}" for k, rate in total.pass_at.items())
            yield "", ", ".join(f"pass^{k} {rate.value:.3f}" for k, rate in total.pass_hat.items())
        if flaky := [(key, outcome) for key, outcome in summary.outcomes.items() if outcome.flaky]:
            yield "flaky", f"{of}{_flaky(flaky)}"
    if total.agreement.n:
        yield from _facts_of_agreement(summary, of, temperature)


def table_of_agreement(total: Metrics) -> TableBlock:
    """Return a table of the fields whose values differ between repeated answers, the lowest agreement first."""
    fields = [(name, rate) for name, rate in total.field_agreement.items() if rate.successes < rate.n][:_MOST_FIELDS]
    table = TableBlock(
        head="Field", columns=(), rows=tuple((name, ()) for name, _ in fields), folded="Fields that differ in repeats"
    )
    column = Column.of(Figure("agreement", Kind.RATE, counted=True), FIGURES["agreement"].heading)
    return table.beside(column, [rate for _, rate in fields])


def find_differing_fields(attempts: Iterable[AttemptFacts]) -> dict[tuple[CaseKey, str], tuple[str, ...]]:
    """Return, by case and variant, the names of the fields whose values differ between the conforming answers."""
    by_case = group_digests(((attempt.key, attempt.variant), attempt.value_digest) for attempt in attempts)
    differing = {
        case: tuple(name for name, pairs in count_equal_pairs_by_field(digests).items() if pairs.equal < pairs.compared)
        for case, digests in by_case.items()
    }
    return {case: names for case, names in differing.items() if names}


def _facts_of_agreement(summary: Summary, of: str, temperature: float | None) -> Iterator[Fact]:
    rate = summary.total.agreement
    share = f"{share_text(rate)}{_interval(rate)} of the pairs of conforming answers to a case have equal values"
    yield "agreement", f"{of}{share}{_cause(temperature)}"
    fields = [(name, each) for name, each in summary.total.field_agreement.items() if each.successes < each.n]
    if fields:
        names = [f"{printable(name, _LONGEST_FIELD)} {each.successes}/{each.n}" for name, each in fields]
        yield "", f"{of}{format_count(len(fields), 'field')} with different values: {list_names(names, _MOST_NAMED)}"
    differing = [
        f"{printable(str(key))} {outcome.agreement[0]}/{outcome.agreement[1]}"
        for key, outcome in summary.outcomes.items()
        if outcome.agreement is not None and outcome.agreement[0] < outcome.agreement[1]
    ]
    if differing:
        cases = format_count(len(differing), "case")
        yield "", f"{of}{cases} with different answers: {list_names(differing, _MOST_NAMED)}"


def temperature_of(metadata: RunMetadata) -> float | None:
    """Return the sampling temperature of a run or a variant; None if unknown."""
    settings = settings_of({"engine": metadata.engine, "params": metadata.params})
    value = settings["temperature"].value if "temperature" in settings else None
    return value if isinstance(value, int | float) else None


def _cause(temperature: float | None) -> str:
    """Return what can make the answers to a case differ, as far as it is known."""
    if temperature is None:
        return ""
    if temperature == 0:
        return "; at temperature 0, this is the determinism of the server"
    return f"; answers are sampled at temperature {temperature:g}"


def _flaky(flaky: Sequence[tuple[CaseKey, CaseOutcome]]) -> str:
    """Return the cases in which only some attempts passed, the most evenly divided first."""
    ranked = sorted(flaky, key=lambda pair: abs(2 * pair[1].passes - len(pair[1].decided)) / len(pair[1].decided))
    names = [f"{printable(str(key))} {outcome.passes}/{len(outcome.decided)}" for key, outcome in ranked]
    return f"{format_count(len(flaky), 'case')} passed in some attempts only: {list_names(names, _MOST_NAMED)}"


def _interval(rate: Proportion) -> str:
    return "" if rate.ci_low is None else f" (95 % interval {rate.ci_low:.3f} to {rate.ci_high:.3f})"
