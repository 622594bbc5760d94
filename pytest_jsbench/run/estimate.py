"""The calls, tokens, cost and time of a run, estimated before its first call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pytest_jsbench.core.cases import Case, estimate, prompt_of
from pytest_jsbench.core.errors import JSBenchError, PriceError
from pytest_jsbench.core.generations import Request, Usage
from pytest_jsbench.core.text import counted, dollars
from pytest_jsbench.metrics.prices import price_of
from pytest_jsbench.records.records import Attempt
from pytest_jsbench.run.attempts import most_of

if TYPE_CHECKING:
    from pytest_jsbench.records.metadata import RunMetadata
    from pytest_jsbench.settings.plan import Plan
    from pytest_jsbench.settings.variants import Variant


def estimate_run(plan: Plan, metadata: RunMetadata, attempts: Iterable[Attempt]) -> Iterator[tuple[str, str]]:
    """
    Say what the attempts would take, a few facts for each of the run's variants; nobody is called.

    Tokens of prompts are a low estimate from their texts, those of answers the most that may come. The cost is what a
    limit of it holds back: of prompt and schema, which most engines send too, the most tokens that there may be.
    """
    planned = list(attempts)
    for name, variant in plan.variants.items() if planned else ():
        of_variant = [attempt for attempt in planned if attempt.variant == name]
        yield from _facts(plan, variant, metadata.of_variant(name), of_variant)


def most_cost(plan: Plan, metadata: RunMetadata) -> float | None:
    """Sum up what all calls of the suite may cost at most; None, and no prompt is read, where a price is not known."""
    try:
        prices = {name: price_of(metadata.of_variant(name), batch=plan.batch is not None) for name in plan.variants}
    except PriceError:
        return None
    total = 0.0
    for name, variant in plan.variants.items():
        cost = prices[name](_most(_requests(plan, variant, [Attempt(key, 0, name) for key in plan.keys])))
        if cost is None:
            return None
        total += plan.repeats * cost
    return total


def _facts(plan: Plan, variant: Variant, metadata: RunMetadata, attempts: list[Attempt]) -> Iterator[tuple[str, str]]:
    engine, requests = metadata.engine_asked, _requests(plan, variant, attempts)
    tokens, usage = sum(estimate(request.prompt).tokens for request in requests), _most(requests)
    yield variant.name or "calls", f"{counted(len(requests), 'call')} to {engine.engine} {engine.model}, retries apart"
    yield "tokens", f"about {tokens:,} in, {usage.output_tokens:,} out at most"
    yield "cost", _cost(metadata, usage, batch=plan.batch is not None)
    yield "time", _time(plan, variant, len(requests), tokens)


def _requests(plan: Plan, variant: Variant, attempts: list[Attempt]) -> list[Request]:
    return [request for attempt in attempts if (request := _request(plan, variant, attempt)) is not None]


def _most(requests: list[Request]) -> Usage:
    most = [most_of(request) for request in requests]
    prompts, answers = sum(each.input_tokens for each in most), sum(each.output_tokens for each in most)
    return Usage(input_tokens=prompts, output_tokens=answers)


def _request(plan: Plan, variant: Variant, attempt: Attempt) -> Request | None:
    """The request of an attempt, its schema as the case has it; None where it would not be asked."""
    case = plan.cases.case(attempt.key)
    if not isinstance(case, Case):
        return None
    try:
        prompt = prompt_of(case, variant.template.render)
    except JSBenchError:  # the run says so of this case
        return None
    return Request(key=attempt.key, repeat=attempt.repeat, prompt=prompt, schema=case.schema, params=variant.params)


def _cost(metadata: RunMetadata, usage: Usage, *, batch: bool) -> str:
    if metadata.provider is None:
        return f"none is known: calls of engine '{metadata.engine}' have no published price"
    try:
        cost = price_of(metadata, batch=batch)(usage)
    except PriceError:
        cost = None
    if cost is None:
        return f"none is known: no published price of {metadata.provider} {metadata.model}"
    return f"{dollars(cost)} at most, by the published price"


def _time(plan: Plan, variant: Variant, calls: int, tokens: int) -> str:
    """Say how many times as long as one call it takes, or a batch, and the least that the limits want."""
    if plan.batch is not None:
        return "as long as the provider takes for a batch"
    pairs = ((calls, plan.limits.requests_per_minute), (tokens, plan.limits.tokens_per_minute))
    minutes = [part / limit for part, limit in pairs if limit is not None]
    rounds = calls / variant.concurrency
    factor = "" if rounds <= 1 else f"{rounds:,.1f} times "
    times = f"{factor}as long as one call, with {variant.concurrency} in flight"
    return f"{times}; at least {max(minutes):,.1f} min by the limits" if minutes else times
