"""
Simplify what a case with tools offers and expects, and write it as a document of cases with tools.

What a case expects is only weakened, so that no right answer becomes wrong: arguments may have any value, any calls are
right, or a tool is no longer forbidden. A tool that the case names is kept as long as the case names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from pytest_jsbench.core.generations import Declined, Failed
from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.tool_offers import ExpectedCall, OfferedTool, ToolMode, ToolOffer
from pytest_jsbench.datasets.sources.tool_cases import ANY_CALL
from pytest_jsbench.records.records import Record
from pytest_jsbench.run.reduction.candidate import Candidate

#: Request if the model should call no tool.
_NO_CALL = "Hello."


def find_suspect(record: Record) -> str | None:
    """Return the offered tool about which the failure is: that of the verdict, or the one that its message names."""
    offer = record.offer
    if offer is None:
        return None
    if record.verdict.tool in offer.names:
        return record.verdict.tool
    generation = record.generation
    message = generation.message if isinstance(generation, Declined | Failed) else record.verdict.message
    named = [name for name in offer.names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message)]
    return max(named, key=len, default=None)


def needed_tools(offer: ToolOffer) -> frozenset[str]:
    """Return the names of the tools that the case names, so that they must be offered."""
    named = {call.name for call in offer.expected or ()} | set(offer.forbidden)
    return frozenset(named if offer.mode is not None else {*named, offer.choice})


def with_tools(candidate: Candidate, names: Sequence[str]) -> Candidate | None:
    """Return the candidate with only these tools and those that it needs; None if no tool is left."""
    assert candidate.offer is not None
    kept = needed_tools(candidate.offer).union(names)
    tools = tuple(tool for tool in candidate.offer.tools if tool.name in kept)
    if not tools:
        return None
    return replace(candidate, offer=structs.replace(candidate.offer, tools=tools))


def weaker_expectations(offer: ToolOffer) -> Iterator[ToolOffer]:
    """Yield offers of the same tools after which more answers are right, the weakest first."""
    free = ToolOffer(tools=offer.tools)
    forms = [
        free,
        structs.replace(free, choice=offer.choice),
        structs.replace(offer, expected=None, in_order=False),
        structs.replace(offer, expected=_without_arguments(offer)),
        structs.replace(offer, in_order=False),
        structs.replace(offer, forbidden=()),
        structs.replace(offer, choice=ToolMode.AUTO.value),
    ]
    yield from (form for form in forms if form != offer)


def _without_arguments(offer: ToolOffer) -> tuple[ExpectedCall, ...] | None:
    return None if offer.expected is None else tuple(ExpectedCall(name=call.name) for call in offer.expected)


def first_forms(candidate: Candidate, suspect: str | None) -> Iterator[Candidate]:
    """Yield the forms that are likely to fail and much smaller: one tool, and weaker expectations."""
    if candidate.offer is None:
        return
    for offer in (*weaker_expectations(candidate.offer), candidate.offer):
        form = replace(candidate, offer=offer)
        alone = None if suspect is None else with_tools(form, [suspect])
        yield from (each for each in (alone, form) if each is not None and each.size < candidate.size)


def simpler_offers(candidate: Candidate) -> Iterator[Candidate]:
    """Yield candidates with simpler tools: no descriptions, no setting `strict`, weaker expectations."""
    offer = candidate.offer
    if offer is None:
        return
    for at, tool in enumerate(offer.tools):
        yield from (
            replace(candidate, offer=structs.replace(offer, tools=(*offer.tools[:at], form, *offer.tools[at + 1 :])))
            for form in (structs.replace(tool, description=""), structs.replace(tool, strict=None))
            if form != tool
        )
    yield from (replace(candidate, offer=form) for form in weaker_expectations(offer))


def without_descriptions(candidate: Candidate) -> Candidate:
    """Return the candidate whose tools have no descriptions."""
    assert candidate.offer is not None
    tools = tuple(structs.replace(tool, description="") for tool in candidate.offer.tools)
    return replace(candidate, offer=structs.replace(candidate.offer, tools=tools))


def can_be_requested(offer: ToolOffer) -> bool:
    """Return whether `default_request` can request what the case expects: any arguments must be right."""
    return all(call.arguments is True for call in offer.expected or ())


def default_request(candidate: Candidate) -> str:
    """Return a request, in words that show nothing of the case, for the calls that the case expects."""
    offer = candidate.offer
    assert offer is not None
    if offer.mode is ToolMode.NONE or offer.expected == ():
        return _NO_CALL
    if offer.expected is None:
        return f"Call the tool {candidate.tool or (offer.allowed or offer.names)[0]}."
    names = [call.name for call in offer.expected]
    *first, last = names
    return f"Call the tools {', '.join(first)} and {last}." if first else f"Call the tool {last}."


def tool_document(candidate: Candidate, messages: Sequence[Message] = ()) -> dict[str, Any]:
    """Return the candidate as a document of one case with tools, with the default request if there are no messages."""
    offer = candidate.offer
    assert offer is not None
    case: dict[str, Any] = {"id": "reduced"}
    if messages:
        case["messages"] = [message.to_dict() for message in messages]
    else:
        case["ask"] = default_request(candidate)
    if offer.expected is not None:
        case["expect"] = [_expectation(call) for call in offer.expected] or "none"
    elif offer.some_call:
        case["expect"] = ANY_CALL
    if offer.in_order:
        case["in_order"] = True
    if offer.forbidden:
        case["forbid"] = list(offer.forbidden)
    if offer.choice != ToolMode.AUTO:
        case["tool_choice"] = offer.choice
    if candidate.schema is not True:
        case["schema"] = candidate.schema
    return {"tools": [_definition(tool) for tool in offer.tools], "cases": [case]}


def _definition(tool: OfferedTool) -> dict[str, Any]:
    definition: dict[str, Any] = {"name": tool.name}
    if tool.description:
        definition["description"] = tool.description
    definition["parameters"] = tool.parameters
    return definition if tool.strict is None else {**definition, "strict": tool.strict}


def _expectation(call: ExpectedCall) -> str | dict[str, Any]:
    """Return an expected call as `expect` describes it: its tool, and the schema of each argument."""
    if isinstance(call.arguments, bool):
        return call.name
    required = call.arguments.get("required", ())
    return {
        call.name: {
            name: _acceptable_values(schema, is_loose=name in call.loose)
            | ({} if name in required else {"optional": True})
            for name, schema in call.arguments.get("properties", {}).items()
        }
    }


def _acceptable_values(schema: Any, *, is_loose: bool) -> dict[str, Any]:
    """
    Return the values of an argument as `expect` describes them.

    A loose comparison with values that are not listed cannot be described: any value is then right.
    """
    if not is_loose:
        return {"schema": schema}
    if isinstance(schema, Mapping) and schema.keys() == {"enum"}:
        return {"any_of": schema["enum"], "loose": True}
    return {"schema": True}
