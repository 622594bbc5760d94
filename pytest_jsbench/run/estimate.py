"""Estimate the calls, tokens, cost and time of a run before the first call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pytest_jsbench.adaptation.rewriting import NotRewritten
from pytest_jsbench.core.cases import Case, estimate, prompt_of
from pytest_jsbench.core.errors import JSBenchError, PriceError
from pytest_jsbench.core.generations import Request, Usage
from pytest_jsbench.core.text import dollars, format_count
from pytest_jsbench.metrics.prices import price_of
from pytest_jsbench.records.records import Attempt
from pytest_jsbench.run.call_layers import maximum_usage
from pytest_jsbench.run.case_rewriter import CaseRewriter
from pytest_jsbench.run.plain_calls import count_plain

if TYPE_CHECKING:
    from pytest_jsbench.records.metadata import RunMetadata
    from pytest_jsbench.run.plan import Plan
    from pytest_jsbench.run.variants import Variant

#: Maximum number of tokens in the message after a wrong answer: 20 violations, each with a path and a short message.
_LONGEST_FOLLOW_UP = 4000
#: Maximum number of tokens in the prompt of a plain call, which has less than twice as many bytes.
_LONGEST_PLAIN = 100


def estimate_run(plan: Plan, metadata: RunMetadata, attempts: Iterable[Attempt]) -> Iterator[tuple[str, str]]:
    """
    Yield the label and the text of each estimate for the attempts of each variant; no calls are made.

    Prompt tokens are a low estimate from the texts; answer tokens are the maximum. The cost is the amount that a cost
    limit reserves: it is based on the maximum number of tokens in the prompt, in the schema (which most engines send
    too) and in the answer.
    """
    planned = list(attempts)
    for name, variant in plan.variants.items() if planned else ():
        of_variant = [attempt for attempt in planned if attempt.variant == name]
        yield from _estimates(plan, variant, metadata.of_variant(name), of_variant)


def max_cost_of(plan: Plan, metadata: RunMetadata) -> float | None:
    """
    Return the maximum cost of all calls of the suite; return None, without reading a prompt, if a
    price is unknown.
    """
    try:
        prices = {
            name: price_of(metadata.of_variant(name), batch=plan.spec.execution.batch is not None)
            for name in plan.variants
        }
    except PriceError:
        return None
    total = 0.0
    for name, variant in plan.variants.items():
        cost = prices[name](
            _max_usage(plan, _requests(plan, variant, [Attempt(key, 0, name) for key in plan.keys]), variant)
        )
        if cost is None:
            return None
        total += plan.spec.execution.repeats * cost
    return total


def _estimates(
    plan: Plan, variant: Variant, metadata: RunMetadata, attempts: list[Attempt]
) -> Iterator[tuple[str, str]]:
    engine = metadata.engine_asked
    requests = _requests(plan, variant, attempts)
    tokens = sum(estimate(request.prompt).tokens for request in requests)
    usage = _max_usage(plan, requests, variant)
    plain = count_plain(len(requests), plan.load.plain_share)
    further = "retries" if variant.repairs is None else "retries and second tries"
    without_schema = f"plus {plain:,} without a schema, " if plain else ""
    calls = f"{format_count(len(requests), 'call')} to {engine.engine} {engine.model}"
    yield variant.name or "calls", f"{calls}, {without_schema}plus {further}"
    yield "tokens", f"about {tokens:,} in, at most {usage.output_tokens:,} out"
    yield "cost", _cost(metadata, usage, batch=plan.spec.execution.batch is not None)
    yield "time", _time(plan, variant, len(requests) + plain, tokens)


def _requests(plan: Plan, variant: Variant, attempts: list[Attempt]) -> list[Request]:
    rewriter = CaseRewriter.of(variant.rewrite, plan.policy.default_dialect)
    requests = (_first_request(plan, variant, rewriter, attempt) for attempt in attempts)
    return [request for request in requests if request is not None]


def _max_usage(plan: Plan, requests: list[Request], variant: Variant) -> Usage:
    """
    Return the maximum usage of the requests, of all second tries, each with the conversation before it, and of plain
    calls.
    """
    plain = count_plain(len(requests), plan.load.plain_share)
    most = [maximum_usage(request) for request in requests]
    tries = 0 if variant.repairs is None else variant.repairs.most
    earlier = tries * (tries + 1) // 2  # answers and follow-ups that the tries send again
    return Usage(
        input_tokens=sum(
            (1 + tries) * each.input_tokens + earlier * (each.output_tokens + _LONGEST_FOLLOW_UP) for each in most
        )
        + plain * _LONGEST_PLAIN,
        output_tokens=(1 + tries) * sum(each.output_tokens for each in most) + plain * variant.params.max_tokens,
    )


def _first_request(plan: Plan, variant: Variant, rewriter: CaseRewriter | None, attempt: Attempt) -> Request | None:
    """Return the attempt's request, with the schema before its adaptation; None if there is no call."""
    case = plan.cases.case(attempt.key)
    if not isinstance(case, Case):
        return None
    if rewriter is not None:
        rewritten = rewriter.rewrite(case)
        if isinstance(rewritten, NotRewritten):
            return None
        case = rewritten.case
    try:
        prompt = prompt_of(case, variant.template.render)
    except JSBenchError:  # the run itself reports this problem for the case
        return None
    return Request(
        key=attempt.key,
        repeat=attempt.repeat,
        prompt=prompt,
        schema=case.schema,
        params=variant.params,
        offer=case.offer,
    )


def _cost(metadata: RunMetadata, usage: Usage, *, batch: bool) -> str:
    if metadata.provider is None:
        return f"unknown: calls of engine '{metadata.engine}' have no published price"
    try:
        cost = price_of(metadata, batch=batch)(usage)
    except PriceError:
        cost = None
    if cost is None:
        return f"unknown: no published price for {metadata.provider} {metadata.model}"
    return f"at most {dollars(cost)}, by the published price"


def _time(plan: Plan, variant: Variant, calls: int, tokens: int) -> str:
    """
    Describe the duration as a multiple of the duration of one call or batch, with the minimum that the rate limits
    impose.
    """
    if plan.spec.execution.batch is not None:
        return "the time that the provider takes for a batch"
    pairs = ((calls, plan.limits.requests_per_minute), (tokens, plan.limits.tokens_per_minute))
    minutes = [part / limit for part, limit in pairs if limit is not None]
    rounds = calls / variant.concurrency
    factor = "" if rounds <= 1 else f"{rounds:,.1f} times "
    times = f"{factor}the time of one call, at concurrency {variant.concurrency}"
    if plan.load.rate is not None:
        times += f"; at least {calls / plan.load.rate.per_second:,.0f} s at {plan.load.rate}"
    return f"{times}; at least {max(minutes):,.1f} min by the rate limits" if minutes else times
