"""How a model is asked to reason: `reasoning_effort` and `reasoning_budget`, and where a request says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_jsbench.core.errors import EngineError

#: the options of every engine that asks for reasoning
REASONING_OPTIONS = frozenset({"reasoning_effort", "reasoning_budget"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedReasoning:
    """How a model is asked to reason; None: nothing is said, and the provider decides."""

    #: a word of the provider's: none, minimal, low, medium, high, …
    effort: str | None = None
    #: the most tokens of it
    budget: int | None = None
    #: what of a request's body says so, by its path
    fields: Mapping[tuple[str, ...], str | int] = field(default_factory=dict)

    @property
    def details(self) -> dict[str, Any]:
        """What was asked, by the names of the options."""
        said = {"reasoning_effort": self.effort, "reasoning_budget": self.budget}
        return {name: value for name, value in said.items() if value is not None}

    def put_into(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body with it, beside what else stands in the same objects."""
        whole = dict(body)
        for path, value in self.fields.items():
            whole = _with(whole, path, value)
        return whole

    def check_beside(self, extra_body: Mapping[str, Any], engine: str) -> None:
        """See that the extra body does not say the same in another way."""
        for path in self.fields:
            found: object = extra_body
            for name in path:
                found = found.get(name) if isinstance(found, Mapping) else None
            if found is not None:
                names = " and ".join(self.details)
                message = f"engine '{engine}' was given {'.'.join(path)} in extra_body, which {names} says: say it once"
                raise EngineError(message, found=found, expected=None, where="extra_body")


def _with(part: Mapping[str, Any], path: tuple[str, ...], value: str | int) -> dict[str, Any]:
    name, *inner = path
    if not inner:
        return {**part, name: value}
    within = part.get(name)
    return {**part, name: _with(within if isinstance(within, Mapping) else {}, tuple(inner), value)}
