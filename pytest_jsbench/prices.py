"""What calls cost, by the price tables that genai-prices maintains; offline, and never a guess."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from pytest_jsbench.generations import Completion, Declined
from pytest_jsbench.records import AnsweredBy

if TYPE_CHECKING:
    from pytest_jsbench.cases import CaseKey
    from pytest_jsbench.generations import Usage
    from pytest_jsbench.records import Record, Run, RunMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What each attempt of a run cost, in US dollars, as far as that is known."""

    #: by case and repeat; an attempt of unknown cost is not in it
    attempts: Mapping[tuple[CaseKey, int], float] = field(default_factory=dict)
    #: why there are none though a provider was paid; empty otherwise
    problem: str = ""


def costs(run: Run) -> Costs:
    """The costs of a run's answers; none where the engine names no provider whose prices are published."""
    paid = [(record, who) for record in run.records if (who := _who(record, run.metadata)).provider is not None]
    if not paid:
        return Costs()
    if importlib.util.find_spec("genai_prices") is None:
        return Costs(problem="needs the package genai-prices: pip install genai-prices")
    known: dict[tuple[CaseKey, int], float] = {}
    for record, who in paid:
        if not isinstance(record.generation, Completion | Declined):
            continue
        try:
            cost = _cost(record.generation.usage, who, run.metadata.started_at)
        except LookupError:
            return Costs(problem=f"no published price of {who.provider} {who.model}")
        if cost is not None:
            known[record.key, record.repeat] = cost
    return Costs(attempts=known)


def _who(record: Record, run: RunMetadata) -> AnsweredBy:
    return record.answered_by or AnsweredBy(engine=run.engine, model=run.model, provider=run.provider)


def _cost(usage: Usage, who: AnsweredBy, started_at: str) -> float | None:
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
    )
    return float(price.total_price)
