"""Send schemas to a provider, one call each, to learn whether it accepts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, assert_never

from pytest_jsbench.core.cases import Case, prompt_of
from pytest_jsbench.core.errors import THIRD_PARTY_ERRORS, EngineError, PromptError
from pytest_jsbench.core.generations import CallError, Declined, DeclineReason, Request
from pytest_jsbench.core.json_values import copy_of
from pytest_jsbench.engines.base import Engine
from pytest_jsbench.engines.engine_secrets import build, check, prepare
from pytest_jsbench.run.variants import Variant
from pytest_jsbench.settings.call_options import Ask
from pytest_jsbench.settings.options import RecordingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderReply:
    """Whether a provider accepted the schema of a request."""

    #: None if the call does not show it, for example because it failed.
    accepted: bool | None
    #: The provider's reason if it rejected the schema, or why this is unknown; otherwise empty.
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCheck:
    """An engine that is asked about schemas."""

    engine: Engine
    variant: Variant

    def send(self, case: Case) -> ProviderReply:
        """Send the case's schema, and the schemas of all of its tools, unchanged in one call without retries."""
        if case.offer is not None and not self.engine.info.offers_tools:
            return ProviderReply(accepted=None, message=f"engine '{self.engine.info.engine}' cannot offer tools")
        try:
            request = Request(
                key=case.key,
                repeat=0,
                prompt=prompt_of(case, self.variant.template.render),
                schema=copy_of(case.schema),
                params=self.variant.sampled,
                offer=case.offer,
            )
            answer = self.engine.generate(request)
        except CallError as error:
            return ProviderReply(accepted=None, message=f"{error.kind.value}: {error.message}")
        except (PromptError, *THIRD_PARTY_ERRORS) as error:
            return ProviderReply(accepted=None, message=f"{type(error).__name__}: {error}")
        return _reply_of(answer) if isinstance(answer, Declined) else ProviderReply(accepted=True)


def _reply_of(declined: Declined) -> ProviderReply:
    match declined.reason:
        case DeclineReason.UNSUPPORTED_SCHEMA:
            return ProviderReply(accepted=False, message=declined.message)
        case DeclineReason.REFUSAL:  # the model refused to answer, after the provider accepted the request
            return ProviderReply(accepted=True)
        case DeclineReason.CONTEXT_LENGTH | DeclineReason.UNSUPPORTED_MESSAGES | DeclineReason.UNSUPPORTED_TOOLS:
            return ProviderReply(accepted=None, message=declined.message)
        case _:
            assert_never(declined.reason)


@contextmanager
def open_provider(values: Mapping[str, Any]) -> Iterator[ProviderCheck]:
    """Start the engine of these option values; raise EngineError if none is set or it cannot be started."""
    if values.get("engine") is None:
        raise EngineError("--live needs --engine: name the engine that calls the provider", option="engine")
    variant = Variant.of("", Ask(values), RecordingOptions())
    check(variant.factory, variant.engine)
    with prepare(variant.factory, variant.engine) as config:
        engine = build(variant.factory, config)
        try:
            yield ProviderCheck(engine=engine, variant=variant)
        finally:
            engine.close()
