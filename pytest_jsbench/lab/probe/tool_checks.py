"""Check what a server does with the tools that a request offers: their schemas, and their descriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

from pytest_jsbench.core.tool_offers import OfferedTool, ToolMode, ToolOffer
from pytest_jsbench.lab.probe.check import (
    Bench,
    Check,
    CheckFinding,
    ServerFault,
    Setup,
    faulty,
    sound,
    undecided,
    without_evidence,
)
from pytest_jsbench.lab.probe.format_check import FORMAT_CHECK
from pytest_jsbench.lab.probe.tool_answers import CALL_FAULTS, ProbeTool, ToolAnswer, call_prompt, make_tool, offer_of

#: Number of requests of a check; half of them are streamed.
_REQUESTS = 6


def _send(
    bench: Bench, tools: Sequence[tuple[tuple[ProbeTool, ...], tuple[ProbeTool, ...]]], choice: ToolMode
) -> list[ToolAnswer]:
    """Send a request for each pair of offered and requested tools, streamed and in one piece in turn."""
    sent = list(zip(tools, cycle(bench.plan.transfers(Setup.STRUCTURED)), strict=False))
    calls = [
        bench.call(Setup.STRUCTURED, call_prompt(requested), streamed=streamed, offer=offer_of(offered, choice.value))
        for (offered, requested), streamed in sent
    ]
    return [
        ToolAnswer(tools=offered, answer=answer, streamed=streamed)
        for ((offered, _), streamed), answer in zip(sent, bench.send(calls), strict=False)
    ]


def _find(check: str, answers: Sequence[ToolAnswer]) -> CheckFinding | None:
    """Return the finding from the faults of calls; None if no call shows a fault."""
    found = [(answer, call, fault) for answer in answers for call, fault in answer.faulty_calls]
    if not found:
        return None
    faults = tuple(dict.fromkeys(fault for _, _, fault in found))
    parts = []
    for fault in faults:
        showing = [answer for answer, _, each in found if each is fault]
        wrong = len({id(answer) for answer in showing})
        asked = sum(bool(answer.calls) for answer in answers)
        parts.append(f"{CALL_FAULTS[fault]}: in {wrong} of {asked} answers{_transfer(showing, answers)}")
    answer, call, _ = found[0]
    return faulty(check, "; ".join(parts), faults, answer.describe(call))


def _transfer(showing: Sequence[ToolAnswer], answers: Sequence[ToolAnswer]) -> str:
    """Return in which transfer the fault occurs if it occurs in one of two only; otherwise an empty text."""
    kinds = {answer.streamed for answer in showing}
    if len(kinds) == 2 or len({answer.streamed for answer in answers if answer.calls}) < 2:
        return ""
    return ", only if streamed" if kinds == {True} else ", only in one piece"


def check_auto(bench: Bench) -> CheckFinding:
    """Offer a strict tool next to a loose one, with the tool choice `auto`, and request a call of one of them."""
    pairs = []
    for number in range(_REQUESTS):
        strict, loose = make_tool(bench.words, strict=True), make_tool(bench.words, strict=False)
        offered = (strict, loose) if number % 4 < 2 else (loose, strict)
        pairs.append((offered, (loose if number >= _REQUESTS - 2 else strict,)))
    answers = _send(bench, pairs, ToolMode.AUTO)
    if (found := without_evidence("auto_tools", [each.answer for each in answers])) is not None:
        return found
    if (found := _find("auto_tools", answers)) is not None:
        return found
    calls = [(call, answer) for answer in answers for call in answer.calls]
    strict_calls = sum(
        any(tool.tool.strict and tool.tool.name == call.name for tool in one.tools) for call, one in calls
    )
    if not strict_calls:
        why = f"the model called a strict tool in none of {len(answers)} answers"
        return undecided("auto_tools", why, [each.answer for each in answers])
    return sound("auto_tools", f"{strict_calls} of {strict_calls} calls of a strict tool next to a loose one conform")


def check_several(bench: Bench) -> CheckFinding:
    """Request calls of two tools in one answer."""
    pairs = []
    for _ in range(_REQUESTS):
        tools = (make_tool(bench.words, strict=True), make_tool(bench.words, strict=True))
        pairs.append((tools, tools))
    answers = _send(bench, pairs, ToolMode.REQUIRED)
    if (found := without_evidence("several_calls", [each.answer for each in answers])) is not None:
        return found
    if (found := _find("several_calls", answers)) is not None:
        return found
    if texts := [answer for answer in answers if answer.is_text]:
        said = f"makes no call in {len(texts)} of {len(answers)} answers, although the tool choice is required"
        return faulty("several_calls", said, [ServerFault.REQUIRED_IGNORED], texts[0].describe())
    several = [answer for answer in answers if len(answer.calls) > 1]
    if not several:
        why = f"none of {len(answers)} answers has more than one call"
        return undecided("several_calls", why, [each.answer for each in answers])
    return sound(
        "several_calls", f"{len(several)} of {len(answers)} answers have several calls, and all of them conform"
    )


#: Number of random words in a description; a word has at least one token.
_DESCRIPTION = 16


def check_description(bench: Bench) -> CheckFinding:
    """Compare the numbers of input tokens with and without a tool, its description, and that of its parameter."""
    check = "tool_description"
    tool = make_tool(bench.words, strict=True).tool
    described = " ".join(bench.words.word() for _ in range(_DESCRIPTION))
    assert isinstance(tool.parameters, Mapping)
    (name, value), *_ = tool.parameters["properties"].items()
    parameters = {**tool.parameters, "properties": {name: {**value, "description": described}}}
    plain = OfferedTool(name=tool.name, parameters=tool.parameters, strict=True)
    tools = (
        None,
        plain,
        OfferedTool(name=tool.name, description=described, parameters=tool.parameters, strict=True),
        OfferedTool(name=tool.name, parameters=parameters, strict=True),
    )
    streamed = bench.plan.transfers(Setup.STRUCTURED)[0]
    answers = bench.send(
        [
            bench.call(
                Setup.TEXT if offered is None else Setup.STRUCTURED,
                "Answer with the word yes, and nothing else.",
                streamed=streamed,
                offer=None if offered is None else ToolOffer(tools=(offered,)),
            )
            for offered in tools
        ]
    )
    if (found := without_evidence(check, answers[1:])) is not None:
        return found
    tokens = [None if one.completion is None else one.completion.usage.input_tokens for one in answers]
    if len(tokens) < len(tools) or any(count is None for count in tokens):
        return undecided(check, "the server does not report the number of input tokens", answers)
    without, bare, with_description, with_parameter = (count or 0 for count in tokens)
    if bare <= without:
        return faulty(
            check, f"drops the tools: {bare} input tokens with a tool, {without} without", [ServerFault.TOOLS_UNSEEN]
        )
    missing = {
        ServerFault.DESCRIPTION_UNSEEN: ("the tool's description", with_description),
        ServerFault.PARAMETER_UNSEEN: ("a parameter's description", with_parameter),
    }
    faults = [fault for fault, (_, count) in missing.items() if count < bare + _DESCRIPTION]
    if faults:
        parts = [
            f"drops {missing[fault][0]}: {missing[fault][1]} input tokens with {_DESCRIPTION} words, {bare} without"
            for fault in faults
        ]
        return faulty(check, "; ".join(parts), faults)
    return sound(
        check,
        f"{bare - without} input tokens for the tool, {with_description - bare} for its description, "
        f"{with_parameter - bare} for that of a parameter",
    )


TOOL_CHECKS = (
    Check(
        name="auto_tools",
        calls=lambda _: _REQUESTS,
        obstacle=lambda plan: plan.lacks_tools,
        run=check_auto,
    ),
    Check(
        name="several_calls",
        calls=lambda _: _REQUESTS,
        obstacle=lambda plan: plan.lacks_tools,
        run=check_several,
    ),
    FORMAT_CHECK,
    Check(
        name="tool_description",
        calls=lambda _: 4,
        obstacle=lambda plan: plan.lacks_tools or plan.lacks(Setup.TEXT),
        run=check_description,
    ),
)
