"""What calls cost, by the price tables that genai-prices maintains; offline, and never a guess."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from pytest_jsbench.errors import PriceError
from pytest_jsbench.generations import Completion, Declined, Usage

if TYPE_CHECKING:
    from pytest_jsbench.cases import CaseKey
    from pytest_jsbench.records import Run, RunMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What each attempt of a run cost, in US dollars, as far as that is known."""

    #: by case and repeat; an attempt of unknown cost is not in it
    attempts: Mapping[tuple[CaseKey, int], float] = field(default_factory=dict)
    #: why there are none though a provider was paid; empty otherwise
    problem: str = ""


def costs(run: Run) -> Costs:
    """The costs of a run's answers; none where the engine names no provider whose prices are published."""
    metadata = run.metadata
    if metadata.provider is None:
        return Costs()
    if importlib.util.find_spec("genai_prices") is None:
        return Costs(problem="needs the package genai-prices: pip install genai-prices")
    known: dict[tuple[CaseKey, int], float] = {}
    for record in run.records:
        if not isinstance(record.generation, Completion | Declined):
            continue
        try:
            cost = _cost(record.generation.usage, metadata)
        except LookupError:
            return Costs(problem=f"no published price of {metadata.provider} {metadata.model}")
        if cost is not None:
            known[record.key, record.repeat] = cost
    return Costs(attempts=known)


def price_of(metadata: RunMetadata) -> Callable[[Usage], float | None]:
    """What an answer with some usage costs; PriceError where that cannot be said."""
    if metadata.provider is None:
        message = (
            f"--jsbench-max-cost: calls of engine '{metadata.engine}' have no published price; leave the limit away"
        )
        raise PriceError(message)
    if importlib.util.find_spec("genai_prices") is None:
        message = "--jsbench-max-cost needs the package genai-prices: pip install genai-prices"
        raise PriceError(message)
    try:
        _cost(Usage(input_tokens=1, output_tokens=1), metadata)
    except LookupError:
        message = (
            f"--jsbench-max-cost: no published price of {metadata.provider} {metadata.model}; leave the limit away, "
            "or limit with --jsbench-tpm"
        )
        raise PriceError(message) from None
    return lambda usage: _cost(usage, metadata)


def _cost(usage: Usage, metadata: RunMetadata) -> float | None:
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
        metadata.model,
        provider_id=metadata.provider,
        genai_request_timestamp=datetime.fromisoformat(metadata.started_at),
    )
    return float(price.total_price)
