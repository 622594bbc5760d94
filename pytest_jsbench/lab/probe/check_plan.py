"""Plan the checks of a probe: the variants of the run that make their calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from pytest_jsbench.core.generations import EngineInfo, GenerationParams, ResponseFormat
from pytest_jsbench.engines.providers.openai_apis import CHAT_PATH
from pytest_jsbench.engines.providers.provider import ProviderFactory
from pytest_jsbench.lab.probe.check import SHORT, CheckPlan, Setup
from pytest_jsbench.lab.probe.probe import WITH_SCHEMA, ProbePlan, first_supported, vary_streaming
from pytest_jsbench.run.variants import Variant

#: Maximum number of tokens of an answer that must reach the limit; OpenAI's Responses accepts no smaller number.
LIMIT = 16
#: Seed of the first call with temperature 1.
_SEED = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class _OwnRequests:
    """How the probe writes requests itself."""

    path: str = ""
    fields: Mapping[str, Any]
    limit_field: str = "max_tokens"


def plan_checks(names: Sequence[str], base: Variant, probe: ProbePlan, info: EngineInfo) -> CheckPlan:
    """Return the plan of these checks for the engine of `base`, next to a probe's plan of questions."""
    variants = dict(_variants(base))
    own = _own_requests(base, info)
    with_schema = [way.name for mode, way in probe.ways.items() if mode.response_format in WITH_SCHEMA]
    return CheckPlan(
        names=tuple(names),
        variants=variants,
        offers_tools=info.offers_tools,
        sends_format=any(each.engine.response_format is ResponseFormat.JSON_SCHEMA for each in variants.values()),
        path=own.path,
        own_fields=own.fields,
        limit_field=own.limit_field,
        levels=probe.levels,
        constrained=next(iter(with_schema), ""),
        plain="" if probe.control is None else probe.control.name,
        controls=probe.controls,
        control_calls=probe.calls,
    )


def _variants(base: Variant) -> Iterator[tuple[tuple[Setup, bool], Variant]]:
    """Yield the variants by setup and transfer, for the setups that the engine supports."""
    short = min(SHORT, base.params.max_tokens)
    cold = structs.replace(base.params, temperature=0.0)
    schemas = (ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL)
    text = (ResponseFormat.TEXT,)
    setups: tuple[tuple[Setup, tuple[ResponseFormat, ...], GenerationParams], ...] = (
        (Setup.STRUCTURED, schemas, base.params),
        (Setup.COLD_STRUCTURED, schemas, cold),
        (Setup.TEXT, text, base.params),
        (Setup.COLD_TEXT, text, structs.replace(cold, max_tokens=short)),
        (Setup.HOT_TEXT, text, structs.replace(base.params, temperature=1.0, seed=_SEED, max_tokens=short)),
        (Setup.LIMITED_TEXT, text, structs.replace(base.params, max_tokens=LIMIT)),
    )
    for setup, formats, params in setups:
        config = first_supported(base, formats)
        if config is None:
            continue
        for mode, variant in vary_streaming(replace(base, params=params), config, None):
            transfer = "streamed" if mode.streaming else "whole"
            yield (setup, mode.streaming), replace(variant, name=f"check-{setup}-{transfer}")


def _own_requests(base: Variant, info: EngineInfo) -> _OwnRequests:
    """Return how to write requests to Chat Completions; without a path if the engine uses another API."""
    factory = base.factory
    fields: Mapping[str, Any] = {"model": info.model}
    if CHAT_PATH not in factory.passes_on:
        return _OwnRequests(fields=fields)
    if not isinstance(factory, ProviderFactory):
        return _OwnRequests(path=CHAT_PATH, fields=fields)
    settings = factory.settings(base.engine)
    path = CHAT_PATH if settings.path == CHAT_PATH else ""
    fields = {"model": settings.model, **settings.extra_body}
    return _OwnRequests(path=path, fields=fields, limit_field=settings.limit_field)
