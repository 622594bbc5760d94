from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.tool_offers import ExpectedCall, OfferedTool, ToolOffer
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import open_dataset
from pytest_jsbench.run.reduction.candidate import Candidate
from pytest_jsbench.run.reduction.neutral_names import names_in, neutral_forms
from pytest_jsbench.run.reduction.tool_parts import (
    can_be_requested,
    default_request,
    needed_tools,
    tool_document,
    weaker_expectations,
    with_tools,
)

ARGUMENTS = {"type": "object", "properties": {"city": {"const": "Oslo"}, "unit": {"enum": ["C"]}}, "required": ["city"]}
OFFER = ToolOffer(
    tools=(
        OfferedTool(name="acme_find", description="Finds it.", parameters={"type": "object"}, strict=True),
        OfferedTool(name="acme_drop", parameters={"properties": {"acmeId": {"type": "string"}}}),
        OfferedTool(name="acme_send", parameters={"type": "object"}),
    ),
    choice="required",
    expected=(ExpectedCall(name="acme_find", arguments=ARGUMENTS), ExpectedCall(name="acme_find")),
    in_order=True,
    forbidden=("acme_drop",),
)
CANDIDATE = Candidate(schema={"type": "string"}, offer=OFFER, tool="acme_drop")


def test_document_has_the_same_case(tmp_path: Path) -> None:
    messages = (Message(role="system", content="Be brief."), Message(role="user", content="Find Oslo."))
    path = tmp_path / "reduced.json"
    path.write_text(json.dumps(tool_document(CANDIDATE, messages)))

    dataset = open_dataset(Selection(source=str(path)))
    (case,) = map(dataset.case, dataset.keys())

    assert case.schema == {"type": "string"}  # type: ignore[union-attr]
    assert case.messages == messages  # type: ignore[union-attr]
    offer = case.offer  # type: ignore[union-attr]
    assert offer is not None
    assert (offer.tools, offer.choice, offer.in_order, offer.forbidden) == (
        *(OFFER.tools, OFFER.choice, OFFER.in_order, OFFER.forbidden),
    )
    assert [call.arguments for call in offer.expected or ()] == [ARGUMENTS, True]


def read_back(candidate: Candidate, folder: Path) -> ToolOffer:
    """Return the offer of a candidate that was written as a document and read again."""
    path = folder / "reduced.json"
    path.write_text(json.dumps(tool_document(candidate)))
    dataset = open_dataset(Selection(source=str(path)))
    (case,) = map(dataset.case, dataset.keys())
    assert isinstance(case, Case)
    assert case.offer is not None
    return case.offer


def test_expectation_of_any_call_is_kept(tmp_path: Path) -> None:
    offer = ToolOffer(tools=OFFER.tools, some_call=True)
    forms = list(neutral_forms(Candidate(schema=True, offer=offer)))

    assert [form.offer.some_call for form in forms if form.offer is not None] == [True, True]
    assert read_back(Candidate(schema=True, offer=offer), tmp_path) == offer
    assert all(not weaker.some_call for weaker in weaker_expectations(offer))


def test_loose_comparison_is_kept(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {
        "type": "object",
        "properties": {"acme_city": {"enum": ["newyork"]}, "acme_list": {"const": ["newyork"]}, "acme_n": {"const": 1}},
        "required": ["acme_city", "acme_list"],
    }
    call = ExpectedCall(name="acme_find", arguments=arguments, loose=("acme_city", "acme_list"))
    candidate = Candidate(schema=True, offer=ToolOffer(tools=OFFER.tools, expected=(call,)))

    (written,) = read_back(candidate, tmp_path).expected or ()
    assert isinstance(written.arguments, Mapping)
    assert written.loose == ("acme_city",)
    assert written.arguments == {**arguments, "properties": {**arguments["properties"], "acme_list": True}}
    for form in neutral_forms(candidate):
        assert form.offer is not None
        (neutral,) = form.offer.expected or ()
        assert isinstance(neutral.arguments, Mapping)
        assert neutral.loose == tuple(neutral.arguments["properties"])[:2]


def test_tools_that_the_case_names_are_kept() -> None:
    reduced = with_tools(CANDIDATE, [])

    assert needed_tools(OFFER) == {"acme_find", "acme_drop"}
    assert reduced is not None
    assert reduced.offer is not None
    assert reduced.offer.names == ("acme_find", "acme_drop")
    assert with_tools(Candidate(schema=True, offer=ToolOffer(tools=OFFER.tools)), []) is None


def test_weaker_expectations_demand_nothing_new() -> None:
    for offer in weaker_expectations(OFFER):
        assert offer.expected is None or [call.name for call in offer.expected] == ["acme_find", "acme_find"]
        assert set(offer.forbidden) <= set(OFFER.forbidden)
        assert not (offer.in_order and not OFFER.in_order)
        assert offer.choice in (OFFER.choice, "auto")
        assert offer != OFFER


def test_neutral_forms_rename_tools_wherever_the_case_names_them() -> None:
    for form in neutral_forms(CANDIDATE):
        offer = form.offer
        assert offer is not None
        first, second, _ = offer.names
        assert [call.name for call in offer.expected or ()] == [first, first]
        assert (offer.forbidden, form.tool) == ((second,), second)
        assert offer.tools[0].description == "text"
        assert not any("acme" in name.lower() for name in names_in(form))
        assert (offer.choice, offer.in_order) == ("required", True)


@pytest.mark.parametrize(
    ("offer", "request_text"),
    [
        (ToolOffer(tools=OFFER.tools), "Call the tool acme_drop."),
        (ToolOffer(tools=OFFER.tools, expected=()), "Hello."),
        (ToolOffer(tools=OFFER.tools, choice="none"), "Hello."),
        (ToolOffer(tools=OFFER.tools, expected=(ExpectedCall(name="acme_send"),)), "Call the tool acme_send."),
        (
            ToolOffer(
                tools=OFFER.tools, expected=tuple(ExpectedCall(name=name) for name in ("acme_send", "acme_find"))
            ),
            "Call the tools acme_send and acme_find.",
        ),
    ],
)
def test_default_request_names_the_expected_calls(offer: ToolOffer, request_text: str) -> None:
    assert default_request(Candidate(schema=True, offer=offer, tool="acme_drop")) == request_text
    assert can_be_requested(offer)


def test_expected_arguments_cannot_be_requested_by_default() -> None:
    assert not can_be_requested(OFFER)
