"""Compute the cost of calls offline with the price tables of genai-prices; unknown without a published price."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import PriceError
from pytest_jsbench.core.generations import Usage
from pytest_jsbench.records.questions import each

if TYPE_CHECKING:
    from pytest_jsbench.records.call_load import PlainFacts
    from pytest_jsbench.records.metadata import RunMetadata
    from pytest_jsbench.records.records import AnsweredBy, Attempt
    from pytest_jsbench.records.repairs import TryFacts
    from pytest_jsbench.records.runs import Run

#: Conditions in genai-prices that depend on the service tier; Anthropic's fast mode is the condition `speed`.
_TIER_CONDITIONS = ("service_tier", "speed")
#: Function that returns the cost of a usage in US dollars; None if the cost is unknown.
Price = Callable[[Usage], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The costs of a run's attempts in US dollars, as far as they are known."""

    #: Cost of each attempt; attempts of unknown cost are left out.
    attempts: Mapping[Attempt, float] = field(default_factory=dict)
    #: Cost of the second tries of each attempt whose tries all have a known cost; attempts without tries are left out.
    repairs: Mapping[Attempt, float] = field(default_factory=dict)
    #: Cost of the plain calls of each attempt whose plain calls all have a known cost.
    plain: Mapping[Attempt, float] = field(default_factory=dict)
    #: Answers from paid providers that did not report their tokens or have no published price.
    unknown: frozenset[Attempt] = frozenset()
    #: Reason why no cost is known although a paid provider was called; otherwise empty.
    problem: str = ""


def costs(run: Run) -> Costs:
    """Return the costs of a run's attempts; empty if no provider with published prices was called."""
    ours = {variant.variant: variant.engine_asked for variant in each(run.metadata)}
    run_asked = run.metadata.engine_asked  # for records with a variant that the run does not have
    with_engine = ((outcome, outcome.answered_by or ours.get(outcome.variant, run_asked)) for outcome in run.outcomes)
    paid = [(outcome, who) for outcome, who in with_engine if who.provider is not None]
    tried = _paid_tries(run, ours)
    plain = _paid_plain_calls(run, ours)
    if not (paid or tried or plain):
        return Costs()
    if importlib.util.find_spec("genai_prices") is None:
        return Costs(problem="needs the package genai-prices: pip install genai-prices")
    priced: dict[Attempt, float] = {}
    unpriced: dict[AnsweredBy, str] = {}
    tiers: dict[str, None] = {}
    for outcome, who in paid:
        if who in unpriced or outcome.usage is None:
            continue
        try:
            cost = _cost(outcome.usage, who, run.metadata.started_at, batch=outcome.batch is not None)
        except LookupError:
            unpriced[who] = f"no published price for {who.provider} {who.model}"
            continue
        if cost is not None:
            priced[outcome.attempt] = cost
        elif (tier := outcome.usage.service_tier) is not None:
            tiers[f"no published price for {who.provider} {who.model} in service tier {tier}"] = None
    unknown = frozenset(outcome.attempt for outcome, _ in paid if outcome.answered and outcome.attempt not in priced)
    problem = "" if priced else "; ".join((*unpriced.values(), *tiers))
    return Costs(
        attempts=priced,
        repairs=dict(_costs_of_calls(tried, run.metadata.started_at)),
        plain=dict(_costs_of_calls(plain, run.metadata.started_at)),
        unknown=unknown,
        problem=problem,
    )


def _paid_tries(run: Run, ours: Mapping[str, AnsweredBy]) -> dict[Attempt, tuple[list[TryFacts], AnsweredBy]]:
    """Return the second tries that a provider with published prices answered, with that provider, by attempt."""
    tried = {}
    for outcome in run.outcomes:
        engine = ours.get(outcome.variant, run.metadata.engine_asked)
        # the first answer may be from a recording, and the tries not
        who = engine if outcome.remembered or outcome.answered_by is None else outcome.answered_by
        tries = () if outcome.repairs is None or who.provider is None else outcome.repairs.tries
        if made := [each for each in tries if not (each.remembered or each.failed)]:
            tried[outcome.attempt] = made, who
    return tried


def _paid_plain_calls(run: Run, ours: Mapping[str, AnsweredBy]) -> dict[Attempt, tuple[list[PlainFacts], AnsweredBy]]:
    """Return the plain calls that a provider with published prices answered, with that provider, by attempt."""
    paid = {}
    for outcome in run.outcomes:
        who = ours.get(outcome.variant, run.metadata.engine_asked)
        calls = () if outcome.load is None or who.provider is None else outcome.load.plain
        if made := [each for each in calls if each.generation_type != "failed"]:
            paid[outcome.attempt] = made, who
    return paid


def _costs_of_calls(
    paid: Mapping[Attempt, tuple[Sequence[TryFacts | PlainFacts], AnsweredBy]], started_at: str
) -> Iterator[tuple[Attempt, float]]:
    """Yield the cost of the second tries, or plain calls, of each attempt, if that of each is known."""
    for attempt, (made, who) in paid.items():
        try:
            costs = [_cost(each.usage or Usage(), who, started_at) for each in made]
        except LookupError:
            continue
        known = [cost for cost in costs if cost is not None]
        if len(known) == len(costs):
            yield attempt, sum(known)


def price_of(metadata: RunMetadata, who: AnsweredBy | None = None, *, batch: bool = False) -> Price:
    """
    Return the price of answers from the run's engine or from another engine; raise PriceError if it is unknown.

    With `batch`, return the batch price if the provider has one, otherwise the ordinary price.
    """
    return price_at(metadata.started_at, who or metadata.engine_asked, batch=batch)


def price_at(started_at: str, who: AnsweredBy, *, batch: bool = False) -> Price:
    """Return the price of answers from an engine at this time (ISO 8601); raise PriceError if it is unknown."""
    if who.provider is None:
        message = f"--jsbench-max-cost: calls of engine '{who.engine}' have no published price; remove the limit"
        raise PriceError(message, found=who.engine, option="max_cost")
    if importlib.util.find_spec("genai_prices") is None:
        message = "--jsbench-max-cost needs the package genai-prices: pip install genai-prices"
        raise PriceError(message, expected="genai-prices", option="max_cost")
    try:
        _cost(Usage(input_tokens=1, output_tokens=1), who, started_at)
    except LookupError:
        message = (
            f"--jsbench-max-cost: no published price for {who.provider} {who.model}; remove the limit, "
            "or use --jsbench-tpm"
        )
        raise PriceError(message, found=f"{who.provider} {who.model}", option="max_cost") from None
    return lambda usage: _cost(usage, who, started_at, batch=batch)


def _cost(usage: Usage, who: AnsweredBy, started_at: str, *, batch: bool = False) -> float | None:
    """
    Return the cost of one answer; None if its usage is unknown or its service tier has no published price.

    Raise LookupError if the model has no published price.
    """
    from genai_prices import Usage as Used
    from genai_prices import calc_price

    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    # Tokens that are read from or written to a cache are part of the input tokens, but some providers report larger
    # numbers for them.
    read = min(usage.cached_tokens or 0, usage.input_tokens)
    written = min(usage.cache_write_tokens or 0, usage.input_tokens - read)
    used = Used(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written,
        cache_write_1h_tokens=min(usage.cache_write_1h_tokens or 0, written),
    )
    conditions: dict[str, str] = {"processing": "batch"} if batch else {}
    if usage.service_tier is not None:
        conditions |= dict.fromkeys(_TIER_CONDITIONS, usage.service_tier)
    price = calc_price(
        used,
        who.model,
        provider_id=who.provider,
        genai_request_timestamp=datetime.fromisoformat(started_at),
        price_context=conditions or None,
    )
    if usage.service_tier is not None and not _is_tier_priced(price.model.price_variants or (), usage.service_tier):
        return None
    return float(price.total_price)


def _is_tier_priced(variants: Iterable[Any], tier: str) -> bool:
    """Return whether one of the variants of a price applies to the service tier."""
    return any(tier in (variant.when.get(name) for name in _TIER_CONDITIONS) for variant in variants)
