"""Judge the calls of answers to cases that offer tools."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.core.generations import CalledTool, Completion, FinishReason
from pytest_jsbench.core.tool_offers import ExpectedCall, OfferedTool, ToolOffer
from pytest_jsbench.verdicts import FailureType, Judge, Verdict, decide

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = (
    OfferedTool(name="weather", parameters=CITY),
    OfferedTool(name="time", parameters=CITY),
    OfferedTool(name="erase", parameters={"type": "object", "properties": {}}),
)
OSLO = '{"city": "Oslo"}'
ROME = '{"city": "Rome"}'


def calls(*names: str, arguments: str = OSLO) -> tuple[CalledTool, ...]:
    return tuple(CalledTool(name=name, arguments=arguments) for name in names)


def weather(*cities: str) -> tuple[CalledTool, ...]:
    return tuple(CalledTool(name="weather", arguments=f'{{"city": "{city}"}}') for city in cities)


def expecting(*names: str, **changes: Any) -> ToolOffer:
    return ToolOffer(tools=TOOLS, expected=tuple(ExpectedCall(name=name) for name in names), **changes)


def expecting_cities(*cities: str, **changes: Any) -> ToolOffer:
    expected = (
        ExpectedCall(
            name="weather",
            arguments={"type": "object", "properties": {"city": {"const": city}}, "required": ["city"]},
        )
        for city in cities
    )
    return ToolOffer(tools=TOOLS, expected=tuple(expected), **changes)


def decided(
    judge: Judge,
    offer: ToolOffer,
    *called: CalledTool,
    text: str = "",
    schema: Any = True,
    finish: FinishReason = FinishReason.STOP,
    reasoning: str = "",
) -> Verdict:
    answer = Completion(
        text="\n".join(call.arguments for call in called) or text,
        finish_reason=finish,
        timing=None,
        calls=called,
        reasoning=reasoning,
    )
    return decide(answer, schema, judge, offer=offer)


ANY = ToolOffer(tools=TOOLS)


@pytest.mark.parametrize(
    ("offer", "called"),
    [
        (ANY, calls("weather")),
        (ANY, calls("weather", "time")),
        (expecting("weather"), calls("weather")),
        (expecting("weather", "time"), calls("time", "weather")),
        (expecting("weather", "time", in_order=True), calls("weather", "time")),
        (expecting_cities("Oslo", "Rome"), weather("Rome", "Oslo")),
        (expecting_cities("Oslo", "Rome", in_order=True), weather("Oslo", "Rome")),
        (expecting("weather", choice="time"), calls("time")),
        (expecting(choice="required"), calls("time")),
        (ToolOffer(tools=TOOLS, forbidden=("erase",)), calls("weather")),
        (expecting("erase"), calls("erase", arguments="")),
    ],
)
def test_right_calls_pass(judge: Judge, offer: ToolOffer, called: tuple[CalledTool, ...]) -> None:
    verdict = decided(judge, offer, *called)
    assert (verdict.passed, verdict.valid, verdict.conforming_calls) == (True, True, len(called)), verdict


@pytest.mark.parametrize(
    ("offer", "called", "failure", "message", "conforming"),
    [
        (ANY, calls("drop"), "unknown_tool", "the tool 'drop' was called, but it is not declared;", 0),
        (
            expecting("time", choice="time"),
            calls("weather"),
            "wrong_tool",
            "the tool 'weather' was called, but it may not be called; expected 'time'",
            1,
        ),
        (ANY.with_choice("none"), calls("weather"), "wrong_tool", "but it may not be called; expected no call", 1),
        (
            ToolOffer(tools=TOOLS, forbidden=("erase",)),
            calls("weather", "erase"),
            "wrong_tool (forbidden)",
            "the tool 'erase' was called, but the case forbids it",
            2,
        ),
        (expecting(), calls("time"), "wrong_tool (not_expected)", "'time' was called, but the case expects no call", 1),
        (
            expecting("weather"),
            calls("time"),
            "wrong_tool (not_expected)",
            "the tool 'time' was called, but the case expects 'weather'",
            1,
        ),
        (
            expecting("weather"),
            calls("weather", "weather"),
            "wrong_tool (not_expected)",
            "the tool 'weather' was called 2 times, but the case expects 1 call of it",
            2,
        ),
        (
            expecting("weather", "time", "time"),
            calls("weather"),
            "no_call (call_missing)",
            "a call is missing: the case also expects 'time' 2 times",
            1,
        ),
        (
            expecting("weather", "time", in_order=True),
            calls("time", "weather"),
            "wrong_tool (order)",
            "the tools were called in another order; expected weather, time",
            2,
        ),
        (
            expecting_cities("Oslo"),
            weather("Rome"),
            "wrong_arguments",
            "the arguments of 'weather' are not those that the case expects: $.city: \"Oslo\" was expected",
            1,
        ),
        (
            expecting_cities("Oslo", "Rome"),
            weather("Rome", "Bern"),
            "wrong_arguments",
            "the arguments of 'weather' are not those that the case expects: $.city: \"Oslo\" was expected",
            2,
        ),
        (
            expecting_cities("Oslo", "Rome", in_order=True),
            weather("Rome", "Oslo"),
            "wrong_arguments",
            "the arguments of 'weather' are not those that the case expects: $.city: \"Oslo\" was expected",
            2,
        ),
        (
            expecting("weather", "time"),
            (*calls("weather"), *calls("time", arguments="{}")),
            "schema_violation",
            "call 2 of 2, time: ",
            1,
        ),
        (expecting("weather"), calls("weather", arguments="{"), "syntax_error (incomplete)", "", 0),
    ],
)
def test_wrong_calls_fail(
    judge: Judge, offer: ToolOffer, called: tuple[CalledTool, ...], failure: str, message: str, conforming: int
) -> None:
    verdict = decided(judge, offer, *called)
    reason = f" ({verdict.reason})" if verdict.reason else ""
    assert f"{verdict.failure_type}{reason}" == failure
    assert message in verdict.message
    assert verdict.conforming_calls == conforming


def test_conforming_calls_that_are_not_expected_still_conform(judge: Judge) -> None:
    assert decided(judge, expecting("time"), *calls("weather")).valid is True
    assert decided(judge, expecting_cities("Rome"), *weather("Oslo")).valid is True
    assert decided(judge, ANY, *calls("drop")).valid is None


@pytest.mark.parametrize(
    ("offer", "text", "failure"),
    [
        (ANY, "It rains.", None),
        (expecting(), "It rains.", None),
        (ANY.with_choice("none"), "It rains.", None),
        (expecting("weather").with_choice("none"), "It rains.", None),
        (ANY.with_choice("required"), "It rains.", "no_call"),
        (expecting("weather"), "It rains.", "no_call"),
        (expecting("weather"), "", "no_call"),
        (expecting(), " ", "syntax_error"),
    ],
)
def test_a_text_passes_unless_a_call_is_required_or_expected(
    judge: Judge, offer: ToolOffer, text: str, failure: str | None
) -> None:
    verdict = decided(judge, offer, text=text)
    assert verdict.failure_type == failure
    assert verdict.conforming_calls is None


@pytest.mark.parametrize(
    "text",
    [
        f'<tool_call>{{"name": "weather", "arguments": {OSLO}}}</tool_call>',
        f'```json\n{{ "arguments": {OSLO}, "name" : "weather" }}\n```',
        "<function=weather><parameter=city>Oslo</parameter></function>",
    ],
)
def test_a_call_that_the_server_left_in_the_text_is_named(judge: Judge, text: str) -> None:
    verdict = decided(judge, expecting("weather"), text=text)
    assert (verdict.failure_type, verdict.reason, verdict.tool) == ("no_call", "call_in_text", "weather")
    assert verdict.message == "the text contains a call of 'weather' that the server did not return as a call"


def test_an_answer_next_to_tools_is_judged_by_its_schema(judge: Judge) -> None:
    assert decided(judge, ANY, text=OSLO, schema=CITY).passed
    assert decided(judge, ANY, text="{}", schema=CITY).failure_type == "schema_violation"
    assert decided(judge, ANY, *calls("time"), schema={"type": "array"}).passed


def test_an_answer_without_text_is_explained_by_its_reasoning(judge: Judge) -> None:
    cut = decided(judge, expecting(), reasoning="Hm.", finish=FinishReason.LENGTH)
    assert (cut.failure_type, cut.message) == ("truncated", "no text: the model reasoned up to the token limit")


def test_the_token_limit_before_a_call_is_not_a_missing_call(judge: Judge) -> None:
    verdict = decided(judge, expecting("weather"), text="Let me", finish=FinishReason.LENGTH)
    assert verdict.failure_type == "truncated"
    assert verdict.message == "the token limit ended the answer before any tool call"
    text = decided(judge, expecting(), text="It ra", finish=FinishReason.LENGTH)
    assert (text.failure_type, text.message) == ("truncated", "the token limit ended the answer")
    cut = decided(judge, expecting("weather"), *calls("weather", arguments='{"ci'), finish=FinishReason.LENGTH)
    assert cut.failure_type == "truncated"


@pytest.mark.parametrize("offer", [expecting(), expecting("weather")])
def test_a_content_filter_is_no_missing_call_and_no_pass(judge: Judge, offer: ToolOffer) -> None:
    verdict = decided(judge, offer, text="It ra", finish=FinishReason.CONTENT_FILTER)
    assert (verdict.failure_type, verdict.reason) == ("refusal", "content_filter")


def expecting_loosely(*cities: str) -> ToolOffer:
    schema = {"type": "object", "properties": {"city": {"enum": list(cities)}}, "required": ["city"]}
    return ToolOffer(tools=TOOLS, expected=(ExpectedCall(name="weather", arguments=schema, loose=("city",)),))


@pytest.mark.parametrize("city", ["Oslo, NO", "oslo no", "OSLO-NO."])
def test_a_loose_argument_is_compared_without_case_and_punctuation(judge: Judge, city: str) -> None:
    assert decided(judge, expecting_loosely("oslono"), *weather(city)).passed


@pytest.mark.parametrize("text", ['```json\n{"city": "oslo no"}\n```', '{"city": "oslo no", "city": "Oslo, NO"}'])
def test_a_loose_argument_is_read_as_the_judge_has_read_it(judge: Judge, text: str) -> None:
    exact = decided(judge, expecting("weather"), CalledTool(name="weather", arguments=text))
    assert exact.passed
    assert exact.notes

    assert decided(judge, expecting_loosely("oslono"), CalledTool(name="weather", arguments=text)).passed


def test_a_loose_argument_with_another_text_is_wrong(judge: Judge) -> None:
    verdict = decided(judge, expecting_loosely("oslono"), *weather("Oslo, N"))
    assert verdict.failure_type is FailureType.WRONG_ARGUMENTS
    assert "oslon" in verdict.message
    assert "compared in lower case, without spaces and punctuation" in verdict.message


def test_other_arguments_than_the_loose_ones_are_compared_exactly(judge: Judge) -> None:
    schema = {"type": "object", "properties": {"city": {"const": "Oslo"}, "unit": {"const": "c"}}}
    text = {"type": "string"}
    tool = OfferedTool(name="weather", parameters={"type": "object", "properties": {"city": text, "unit": text}})
    offer = ToolOffer(tools=(tool,), expected=(ExpectedCall(name="weather", arguments=schema, loose=("unit",)),))
    right = CalledTool(name="weather", arguments='{"city": "Oslo", "unit": "C"}')
    wrong = CalledTool(name="weather", arguments='{"city": "oslo", "unit": "C"}')
    assert decided(judge, offer, right).passed
    assert decided(judge, offer, wrong).failure_type is FailureType.WRONG_ARGUMENTS


def test_any_call_is_right_if_some_call_is_expected(judge: Judge) -> None:
    offer = ToolOffer(tools=TOOLS, some_call=True)
    assert decided(judge, offer, *calls("time")).passed
    assert decided(judge, offer, *calls("time", "weather")).passed
    missing = decided(judge, offer, text="Hello.")
    assert (missing.failure_type, missing.reason) == (FailureType.NO_CALL, None)
    assert "expected a call of 'weather' or 'time' or 'erase'" in missing.message
    wrong = decided(judge, offer, *calls("time", arguments='{"city": 3}'))
    assert wrong.failure_type is FailureType.SCHEMA_VIOLATION


def test_some_call_is_not_expected_if_the_run_forbids_calls(judge: Judge) -> None:
    offer = ToolOffer(tools=TOOLS, some_call=True, choice="none")
    assert decided(judge, offer, text="Hello.").passed
    assert decided(judge, offer, *calls("time")).failure_type is FailureType.WRONG_TOOL
