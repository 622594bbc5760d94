"""What calls cost, by the price tables that genai-prices maintains; offline, and never a guess."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from pytest_jsbench.core.errors import PriceError
from pytest_jsbench.core.generations import Completion, Declined, Usage

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.runs.records import AnsweredBy, Run, RunMetadata

#: what an answer with some usage costs, in US dollars; None where that is not known
Price = Callable[[Usage], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What each attempt of a run cost, in US dollars, as far as that is known."""

    #: by case and repeat; an attempt of unknown cost is not in it
    attempts: Mapping[tuple[CaseKey, int], float] = field(default_factory=dict)
    #: why there are none though a provider was paid; empty otherwise
    problem: str = ""


def costs(run: Run) -> Costs:
    """The costs of a run's answers; none where the engine names no provider whose prices are published."""
    ours = run.metadata.engine_asked
    by_whom = ((record, record.answered_by or ours) for record in run.records)
    paid = [(record, who) for record, who in by_whom if who.provider is not None]
    if not paid:
        return Costs()
    if importlib.util.find_spec("genai_prices") is None:
        return Costs(problem="needs the package genai-prices: pip install genai-prices")
    known: dict[tuple[CaseKey, int], float] = {}
    unpriced: dict[AnsweredBy, str] = {}
    for record, who in paid:
        if who in unpriced or not isinstance(record.generation, Completion | Declined):
            continue
        try:
            cost = _cost(record.generation.usage, who, run.metadata.started_at, batch=record.batch is not None)
        except LookupError:
            unpriced[who] = f"no published price of {who.provider} {who.model}"
            continue
        if cost is not None:
            known[record.attempt] = cost
    return Costs(attempts=known, problem="" if known else "; ".join(unpriced.values()))


def price_of(metadata: RunMetadata, who: AnsweredBy | None = None, *, batch: bool = False) -> Price:
    """
    The price of the run's answers, or of those that somebody else gives it; PriceError where it cannot be said.

    In a provider's batch it is the published price of batches, and the ordinary one where there is none.
    """
    who = who or metadata.engine_asked
    if who.provider is None:
        message = f"--jsbench-max-cost: calls of engine '{who.engine}' have no published price; leave the limit away"
        raise PriceError(message)
    if importlib.util.find_spec("genai_prices") is None:
        message = "--jsbench-max-cost needs the package genai-prices: pip install genai-prices"
        raise PriceError(message)
    try:
        _cost(Usage(input_tokens=1, output_tokens=1), who, metadata.started_at)
    except LookupError:
        message = (
            f"--jsbench-max-cost: no published price of {who.provider} {who.model}; leave the limit away, "
            "or limit with --jsbench-tpm"
        )
        raise PriceError(message) from None
    return lambda usage: _cost(usage, who, metadata.started_at, batch=batch)


def _cost(usage: Usage, who: AnsweredBy, started_at: str, *, batch: bool = False) -> float | None:
    """What one answer cost; None where its usage is not known, LookupError where no price is."""
    from genai_prices import Usage as Used
    from genai_prices import calc_price

    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    used = Used(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        # part of the input, which a provider's own figures sometimes forget
        cache_read_tokens=min(usage.cached_tokens or 0, usage.input_tokens),
    )
    price = calc_price(
        used,
        who.model,
        provider_id=who.provider,
        genai_request_timestamp=datetime.fromisoformat(started_at),
        price_context={"processing": "batch"} if batch else None,
    )
    return float(price.total_price)
