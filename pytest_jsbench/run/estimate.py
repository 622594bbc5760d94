"""The calls, tokens, cost and time of a run, estimated before its first call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.generations import Usage
from pytest_jsbench.core.prompts import estimate, prompt_of
from pytest_jsbench.core.text import counted
from pytest_jsbench.metrics.prices import price_of

if TYPE_CHECKING:
    from pytest_jsbench.records.metadata import RunMetadata
    from pytest_jsbench.records.records import Attempt
    from pytest_jsbench.settings.plan import Plan
    from pytest_jsbench.settings.variants import Variant


def estimate_run(plan: Plan, metadata: RunMetadata, attempts: Iterable[Attempt]) -> Iterator[tuple[str, str]]:
    """
    Say what the attempts would take, a few facts for each of the run's variants; nobody is called.

    Tokens of prompts are a low estimate from their texts, those of answers the most that may come; so is the cost.
    """
    planned = list(attempts)
    for name, variant in plan.variants.items() if planned else ():
        of_variant = metadata.of_variant(name) if name else metadata
        yield from _facts(plan, variant, of_variant, [attempt for attempt in planned if attempt.variant == name])


def _facts(plan: Plan, variant: Variant, metadata: RunMetadata, attempts: list[Attempt]) -> Iterator[tuple[str, str]]:
    asked = metadata.engine_asked
    lengths = [length for attempt in attempts if (length := _length(plan, variant, attempt)) is not None]
    usage = Usage(input_tokens=sum(lengths), output_tokens=len(lengths) * variant.params.max_tokens)
    yield variant.name or "calls", f"{counted(len(lengths), 'call')} to {asked.engine} {asked.model}, retries apart"
    yield "tokens", f"about {usage.input_tokens:,} in, {usage.output_tokens:,} out at most"
    yield "cost", _cost(metadata, usage, batch=plan.batch is not None)
    yield "time", _time(plan, variant, len(lengths), usage)


def _length(plan: Plan, variant: Variant, attempt: Attempt) -> int | None:
    """The tokens of an attempt's prompt; None where it would not be asked."""
    case = plan.cases.case(attempt.key)
    if not isinstance(case, Case):
        return None
    try:
        return estimate(prompt_of(case, variant.template.render)).tokens
    except JSBenchError:  # the run says so of this case
        return None


def _cost(metadata: RunMetadata, usage: Usage, *, batch: bool) -> str:
    if metadata.provider is None:
        return f"none is known: calls of engine '{metadata.engine}' have no published price"
    try:
        cost = price_of(metadata, batch=batch)(usage)
    except JSBenchError:
        return f"none is known: no published price of {metadata.provider} {metadata.model}"
    return "none is known" if cost is None else f"${cost:,.2f} at most, by the published price"


def _time(plan: Plan, variant: Variant, calls: int, usage: Usage) -> str:
    """Say how many times as long as one call it takes, and the least that the limits want."""
    limits, tokens = plan.limits, usage.input_tokens or 0
    pairs = ((calls, limits.requests_per_minute), (tokens, limits.tokens_per_minute))
    minutes = [part / limit for part, limit in pairs if limit is not None]
    rounds = calls / variant.concurrency
    times = "as long as one call" if rounds <= 1 else f"{rounds:,.1f} times as long as one call"
    times += f", with {variant.concurrency} in flight"
    return f"{times}; at least {max(minutes):,.1f} min by the limits" if minutes else times
