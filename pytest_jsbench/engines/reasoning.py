"""How a model is asked to reason: `reasoning_effort` and `reasoning_budget`, and where a request says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import EngineError

if TYPE_CHECKING:
    from pytest_jsbench.engines.options import Options

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
        for (*outer, name), value in self.fields.items():
            part = whole
            for step in outer:
                inner = part.get(step)
                part[step] = part = dict(inner) if isinstance(inner, Mapping) else {}
            part[name] = value
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


def read_reasoning(options: Options, *, effort: str | None, budget: str | None) -> AskedReasoning:
    """What the options say, where one parameter of the body is the effort, and one the budget; inner ones by dots."""
    asked = asked_reasoning(options)
    places = {"reasoning_effort": effort, "reasoning_budget": budget}
    fields = {}
    for name, value in asked.details.items():
        if (place := places[name]) is None:
            option = f"{name.removeprefix('reasoning_')}_field"
            message = (
                f"engine '{options.engine}' knows no parameter for {name}: "
                f"name the server's with --jsbench-engine-option {option}=NAME, or leave it away"
            )
            raise EngineError(message, found=name, expected=option, where=name)
        fields[tuple(place.split("."))] = value
    return AskedReasoning(effort=asked.effort, budget=asked.budget, fields=fields)


def asked_reasoning(options: Options) -> AskedReasoning:
    """What the options say, without its place in a body."""
    return AskedReasoning(
        effort=options.text("reasoning_effort", default="-") if options.given("reasoning_effort") else None,
        budget=options.count("reasoning_budget", default=0, least=0) if options.given("reasoning_budget") else None,
    )
