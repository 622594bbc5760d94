"""Report the second tries of wrong answers: what they repair, and what they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_jsbench.core.text import dollars, format_count
from pytest_jsbench.reports.blocks import NOT_APPLICABLE, Fact, share_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.metrics.metrics import Metrics


def facts_of_tries(total: Metrics, of: str) -> Iterator[Fact]:
    """Yield what second tries repair, and what they take; `of` is a prefix with the name of the variant."""
    if not total.pass_after:
        return
    rates = total.pass_after.items()
    after = ", ".join(f"{rate.value:.3f} after {tries}" for tries, rate in rates if rate.value is not None)
    yield "repairs", f"{of}pass rate by number of second tries: {after or NOT_APPLICABLE}"
    kinds = [f"{kind} {rate.successes}/{rate.n}" for kind, rate in total.repair_rates.items() if rate.n]
    by_type = f": {', '.join(kinds)}" if kinds else ""
    yield "", f"{of}repaired {share_text(total.repair_rate)} of the wrong answers{by_type}"
    yield "", f"{of}{'; '.join(_costs(total))}"
    if total.json_repair_rate.n:
        rescued = share_text(total.json_repair_rate)
        yield "", f"{of}json-repair alone would rescue {rescued} of the answers that are not JSON"


def _costs(total: Metrics) -> Iterator[str]:
    """Yield the number of tries, and their tokens, cost and time as far as known."""
    yield f"tries made: {total.repair_tries:,}"
    if total.repair_input_tokens is not None and total.repair_output_tokens is not None:
        yield f"{total.repair_input_tokens:,} tokens in, {total.repair_output_tokens:,} out"
    if total.repair_cost is not None:
        yield f"cost {dollars(total.repair_cost)}"
    if total.repair_time.p50 is not None:
        yield f"half of them took {total.repair_time.p50:.2f} s or more"
    if total.repairs_open:
        yield f"incomplete for {format_count(total.repairs_open, 'answer')}"
