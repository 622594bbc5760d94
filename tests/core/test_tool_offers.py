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
        ({"expected": (), "some_call": True}, "expects both certain calls and any call; expected one of them"),
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
    ("choice", "allowed", "required", "demanded", "wants_call"),
    [
        ("auto", ("find", "count"), False, EXPECTED, True),
        ("required", ("find", "count"), True, EXPECTED, True),
        ("none", (), False, (), False),
        ("find", ("find",), True, EXPECTED, True),
        ("count", ("count",), True, None, True),
        (None, ("find", "count"), False, EXPECTED, True),
    ],
)
def test_the_choice_decides_which_calls_are_demanded(
    choice: str | None,
    allowed: tuple[str, ...],
    required: bool,
    demanded: tuple[ExpectedCall, ...] | None,
    wants_call: bool,
) -> None:
    offer = ToolOffer(tools=(FIND, COUNT), expected=EXPECTED).with_choice(choice)
    assert (offer.allowed, offer.required, offer.demanded) == (allowed, required, demanded)
    assert offer.wants_call is wants_call


def test_a_required_call_is_right_although_the_case_expects_none() -> None:
    assert ToolOffer(tools=(FIND,), expected=(), choice="required").demanded is None


def test_the_digest_of_a_case_covers_its_tools_and_what_it_expects() -> None:
    offers = [None, ToolOffer(tools=(FIND,)), ToolOffer(tools=(COUNT,)), ToolOffer(tools=(FIND,), expected=())]
    assert len({question_digest(True, offer) for offer in offers}) == 4


@pytest.mark.parametrize(
    ("expected", "some_call", "expects_call"),
    [(None, False, None), ((), False, False), (EXPECTED, False, True), (None, True, True)],
)
def test_a_case_may_say_whether_it_expects_a_call(
    expected: tuple[ExpectedCall, ...] | None, some_call: bool, expects_call: bool | None
) -> None:
    offer = ToolOffer(tools=(FIND,), expected=expected, some_call=some_call)
    assert offer.expects_call is expects_call


def test_some_call_is_wanted_only_if_the_choice_allows_one() -> None:
    offer = ToolOffer(tools=(FIND,), some_call=True)
    assert [offer.with_choice(choice).wants_call for choice in ("auto", "required", "find", "none")] == [
        True,
        True,
        True,
        False,
    ]
