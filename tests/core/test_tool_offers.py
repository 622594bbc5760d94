from __future__ import annotations

import pytest

from pytest_jsbench.core.tool_offers import ExpectedCall, OfferedTool, ToolOffer, question_digest

FIND = OfferedTool(name="find", parameters={"type": "object"})
COUNT = OfferedTool(name="count", parameters={"type": "object"})
EXPECTED = (ExpectedCall(name="find"),)


@pytest.mark.parametrize(
    ("offer", "message"),
    [
        ({"tools": ()}, "tools is empty; expected at least one tool"),
        ({"tools": (FIND, COUNT, FIND)}, "tools contains 'find' 2 times; expected unique names"),
        ({"forbidden": ("drop",)}, "forbidden names the tool 'drop'; offered are find, count"),
        ({"expected": (ExpectedCall(name="drop"),)}, "expected names the tool 'drop'; offered are find, count"),
        ({"choice": "drop"}, "tool_choice names the tool 'drop'; offered are find, count"),
    ],
)
def test_an_invalid_offer_is_rejected(offer: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ToolOffer(**{"tools": (FIND, COUNT), **offer})  # type: ignore[arg-type]


def test_a_run_cannot_choose_a_tool_that_is_not_offered() -> None:
    with pytest.raises(ValueError, match="tool_choice names the tool 'drop'; offered are find, count"):
        ToolOffer(tools=(FIND, COUNT)).with_choice("drop")


@pytest.mark.parametrize(
    ("choice", "allowed", "required", "demanded", "decisive"),
    [
        ("auto", ("find", "count"), False, EXPECTED, True),
        ("required", ("find", "count"), True, EXPECTED, False),
        ("none", (), False, (), False),
        ("find", ("find",), True, EXPECTED, False),
        ("count", ("count",), True, None, False),
        (None, ("find", "count"), False, EXPECTED, True),
    ],
)
def test_the_choice_decides_which_calls_are_demanded(
    choice: str | None,
    allowed: tuple[str, ...],
    required: bool,
    demanded: tuple[ExpectedCall, ...] | None,
    decisive: bool,
) -> None:
    offer = ToolOffer(tools=(FIND, COUNT), expected=EXPECTED).with_choice(choice)
    assert (offer.allowed, offer.required, offer.demanded, offer.decisive) == (allowed, required, demanded, decisive)


def test_a_required_call_is_right_although_the_case_expects_none() -> None:
    assert ToolOffer(tools=(FIND,), expected=(), choice="required").demanded is None


def test_the_digest_of_a_case_covers_its_tools_and_what_it_expects() -> None:
    offers = [None, ToolOffer(tools=(FIND,)), ToolOffer(tools=(COUNT,)), ToolOffer(tools=(FIND,), expected=())]
    assert len({question_digest(True, offer) for offer in offers}) == 4
