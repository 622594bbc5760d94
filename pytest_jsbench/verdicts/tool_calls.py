"""Judge the tool calls of an answer: each call by the schema of its tool, and all calls by what the case expects."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import structs

from pytest_jsbench.core.generations import Completion, FinishReason
from pytest_jsbench.core.loose_text import loosen
from pytest_jsbench.core.text import format_count, printable
from pytest_jsbench.verdicts.verdicts import FailureType, Note, SyntaxReason, Verdict, no_instance

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import CalledTool, Generation, Tools
    from pytest_jsbench.core.tool_offers import ExpectedCall, ToolOffer

#: Finish reasons after which an answer may be incomplete.
INCOMPLETE_REASONS = (FinishReason.LENGTH, FinishReason.CONTENT_FILTER)
#: Reason for an answer with several tool calls although the request allows only one.
SEVERAL_CALLS = "several_calls"
#: Reason for a call that the case forbids.
FORBIDDEN = "forbidden"
#: Reason for a call that the case does not expect.
NOT_EXPECTED = "not_expected"
#: Reason for the expected calls in another order than the case requires.
ORDER = "order"
#: Reason for an answer that lacks some of the expected calls, but contains others.
CALL_MISSING = "call_missing"
#: Reason for an answer whose text contains a call that the server did not return as a call.
CALL_IN_TEXT = "call_in_text"
#: Keywords that the schema of a tool without parameters may have.
_KEYWORDS_WITHOUT_PARAMETERS = frozenset(
    {"$schema", "type", "title", "description", "properties", "required", "additionalProperties"}
)
#: Maximum length of a tool's name in a message.
_LONGEST_NAME = 60
#: Addition to a message about texts that are shown in the form in which they are compared.
_LOOSELY = " (texts are compared in lower case, without spaces and punctuation)"


class ArgumentsJudge(Protocol):
    """The part of a judge that the calls need."""

    def judge(self, schema: Schema, text: str, *, truncated: bool = False) -> Verdict:
        """Return the verdict on arguments by the schema of their tool."""


def quote_tools(tools: Iterable[str]) -> str:
    """Return the names of tools for a message."""
    return " or ".join(f"'{printable(tool, _LONGEST_NAME)}'" for tool in tools)


def decide_calls(completion: Completion, tools: Tools, schema: Schema, judge: ArgumentsJudge) -> Verdict:
    """Judge each tool call by the schema of its tool; the first call that does not pass determines the verdict."""
    if (verdict := _find_wrong_tool(completion.calls, tuple(tools.schemas), tools.allowed)) is not None:
        return verdict
    if tools.single and len(completion.calls) > 1:
        message = f"tools were called {len(completion.calls)} times; the request allows one call"
        name = next((call.name for call in completion.calls if call.name), None)
        return _wrong_tool(name, SEVERAL_CALLS, message)
    schemas = [find_judging_schema(completion, call.name, schema) for call in completion.calls]
    verdicts = _judge_each(completion, schemas, judge)
    if tools.required and len(tools.allowed) == 1 and len(completion.calls) > 1:
        verdicts = [structs.replace(verdict, notes=(*verdict.notes, Note.FORCED_TOOL_REPEATED)) for verdict in verdicts]
    return next((verdict for verdict in verdicts if not verdict.passed), verdicts[0])


def decide_offered(completion: Completion, offer: ToolOffer, judge: ArgumentsJudge) -> Verdict:
    """
    Judge an answer with tool calls to a case that offers tools.

    Each call must be one of an offered tool that the choice allows and the case does not forbid, with arguments that
    conform to the schema of the tool; together, the calls must be those that the case expects.
    """
    schemas = [find_judging_schema(completion, call.name, True, offer) for call in completion.calls]
    verdicts = _judge_each(completion, schemas, judge)
    conforming = sum(
        verdict.passed and call.name in offer.names for call, verdict in zip(completion.calls, verdicts, strict=True)
    )
    verdict = _find_wrong_tool(completion.calls, offer.names, offer.allowed)
    if verdict is None:
        verdict = _find_forbidden(completion.calls, offer)
    if verdict is None:
        verdict = next((verdict for verdict in verdicts if not verdict.passed), None)
    if verdict is None:
        instances = [verdict.instance for verdict in verdicts]
        unexpected = _compare_with_expected(completion.calls, instances, offer, judge)
        verdict = verdicts[0] if unexpected is None else unexpected
    return structs.replace(verdict, conforming_calls=conforming)


def decide_without_call(completion: Completion, offer: ToolOffer) -> Verdict | None:
    """
    Judge an answer without tool calls to a case that offers tools; return None if a call is not missing, so that the
    text is to be judged.
    """
    if not offer.wants_call:
        return None
    demanded = offer.demanded
    names = offer.allowed if not demanded else tuple(dict.fromkeys(call.name for call in demanded))
    if (leaked := _find_call_in_text(completion.text, offer)) is not None:
        message = f"the text contains a call of '{printable(leaked, _LONGEST_NAME)}' that the server did not return"
        return structs.replace(no_instance(FailureType.NO_CALL, CALL_IN_TEXT, f"{message} as a call"), tool=leaked)
    message = f"no tool was called; expected a call of {quote_tools(names)}"
    return no_instance(FailureType.NO_CALL, None, message)


def _find_wrong_tool(
    calls: Sequence[CalledTool], declared: tuple[str, ...], allowed: tuple[str, ...]
) -> Verdict | None:
    """Return the verdict on the first call of an undeclared tool, or of a tool that may not be called."""
    # a call without a name is the server's fault, not the model's
    names = [call.name for call in calls if call.name]
    for failure_type, right, fault in (
        (FailureType.UNKNOWN_TOOL, declared, "but it is not declared"),
        (FailureType.WRONG_TOOL, allowed, "but it may not be called"),
    ):
        if (name := next((name for name in names if name not in right), None)) is not None:
            expected = f"expected {quote_tools(right)}" if right else "expected no call"
            message = f"the tool '{printable(name, _LONGEST_NAME)}' was called, {fault}; {expected}"
            return structs.replace(no_instance(failure_type, None, message), tool=name)
    return None


def _find_forbidden(calls: Sequence[CalledTool], offer: ToolOffer) -> Verdict | None:
    name = next((call.name for call in calls if call.name in offer.forbidden), None)
    if name is None:
        return None
    message = f"the tool '{printable(name, _LONGEST_NAME)}' was called, but the case forbids it"
    return _wrong_tool(name, FORBIDDEN, message)


def find_judging_schema(
    generation: Generation | None, tool: str | None, schema: Schema, offer: ToolOffer | None = None
) -> Schema:
    """Return the schema by which the attempt was judged: the called tool's schema, or else the case's schema."""
    if offer is not None:
        offered = None if tool is None else offer.find(tool)
        return schema if offered is None else offered.parameters
    tools = generation.sent.tools if isinstance(generation, Completion) and generation.sent is not None else None
    own = None if tools is None or tool is None else tools.schemas.get(tool)
    return schema if own is None else own


def _judge_each(completion: Completion, schemas: Sequence[Schema], judge: ArgumentsJudge) -> list[Verdict]:
    """Judge the arguments of each call by the schema of its tool."""
    calls = completion.calls
    truncated = completion.finish_reason in INCOMPLETE_REASONS
    verdicts = []
    for number, (call, schema) in enumerate(zip(calls, schemas, strict=True), start=1):
        verdict = _judge_arguments(call, schema, judge, is_cut=truncated and number == len(calls))
        if len(calls) > 1 and not verdict.passed:
            place = f"call {number} of {len(calls)}, {printable(call.name, _LONGEST_NAME)}"
            verdict = structs.replace(verdict, message=f"{place}: {verdict.message}")
        verdicts.append(structs.replace(verdict, tool=call.name or None))
    return verdicts


def _judge_arguments(call: CalledTool, schema: Schema, judge: ArgumentsJudge, *, is_cut: bool) -> Verdict:
    if not is_cut and not call.arguments.strip() and _has_no_parameters(schema):
        verdict = judge.judge(schema, "{}")
        return structs.replace(verdict, notes=(*verdict.notes, Note.EMPTY_ARGUMENTS))
    verdict = judge.judge(schema, call.arguments, truncated=is_cut)
    if verdict.reason == SyntaxReason.EMPTY:
        return structs.replace(verdict, message="the tool was called without arguments; expected one JSON document")
    return verdict


def _has_no_parameters(schema: Schema) -> bool:
    """Return whether a tool's schema is an object without properties."""
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        return False
    named = (schema.get(keyword) for keyword in ("properties", "required"))
    return schema.keys() <= _KEYWORDS_WITHOUT_PARAMETERS and not any(named)


def _compare_with_expected(
    calls: Sequence[CalledTool], instances: Sequence[object], offer: ToolOffer, judge: ArgumentsJudge
) -> Verdict | None:
    """
    Return the verdict on conforming calls that are not those that the case expects; None if they are.

    `instances` are the JSON values of the arguments, as the judge has parsed them.
    """
    demanded = offer.demanded
    if demanded is None:
        return None
    called = Counter(call.name for call in calls)
    expected = Counter(call.name for call in demanded)
    if surplus := called - expected:
        name = next(iter(surplus))
        tool = f"the tool '{printable(name, _LONGEST_NAME)}' was called"
        if name in expected:
            expects = f"{format_count(expected[name], 'call')} of it"
            message = f"{tool} {called[name]} times, but the case expects {expects}"
        else:
            message = f"{tool}, but the case expects {_list_calls(expected - called or expected)}"
        return _conforming(_wrong_tool(name, NOT_EXPECTED, message))
    if missing := expected - called:
        message = f"a call is missing: the case also expects {_list_calls(missing)}"
        return _conforming(no_instance(FailureType.NO_CALL, CALL_MISSING, message))
    if offer.in_order and [call.name for call in calls] != [call.name for call in demanded]:
        order = ", ".join(printable(call.name, _LONGEST_NAME) for call in demanded)
        verdict = _wrong_tool(calls[0].name, ORDER, f"the tools were called in another order; expected {order}")
        return _conforming(verdict)
    return _compare_arguments(calls, instances, demanded, in_order=offer.in_order, judge=judge)


def _conforming(verdict: Verdict) -> Verdict:
    """Return the verdict on calls whose arguments conform to the schemas of their tools."""
    return structs.replace(verdict, valid=True)


def _list_calls(names: Counter[str]) -> str:
    if not names:
        return "no call"
    return " and ".join(
        f"'{printable(name, _LONGEST_NAME)}'" + (f" {count} times" if count > 1 else "")
        for name, count in names.items()
    )


def _compare_arguments(
    calls: Sequence[CalledTool],
    instances: Sequence[object],
    demanded: Sequence[ExpectedCall],
    *,
    in_order: bool,
    judge: ArgumentsJudge,
) -> Verdict | None:
    """
    Return the verdict on calls of the expected tools with other arguments than the case expects; None if each call can
    be assigned to an expected call.
    """
    verdicts = [
        [_judge_expected(call, instance, expected, judge) for expected in demanded if expected.name == call.name]
        for call, instance in zip(calls, instances, strict=True)
    ]
    by_tool: dict[str, list[int]] = {}
    for number, call in enumerate(calls):
        by_tool.setdefault(call.name, []).append(number)
    for name, numbers in by_tool.items():
        rows = [verdicts[number] for number in numbers]
        wrong = _find_wrong_in_order(rows) if in_order else _find_unassigned(rows)
        if wrong is None:
            continue
        if wrong.failure_type is FailureType.UNJUDGED:
            return structs.replace(wrong, valid=None, tool=name)
        message = f"the arguments of '{printable(name, _LONGEST_NAME)}' are not those that the case expects"
        verdict = no_instance(FailureType.WRONG_ARGUMENTS, None, f"{message}: {wrong.message}")
        return structs.replace(_conforming(verdict), tool=name)
    return None


def _judge_expected(call: CalledTool, instance: object, expected: ExpectedCall, judge: ArgumentsJudge) -> Verdict:
    """Judge the arguments by the expected arguments, which need not name all arguments."""
    if expected.arguments is True:
        return Verdict(failure_type=None, valid=True)
    text = call.arguments.strip() or "{}"
    if expected.loose:
        text = json.dumps(_loosen_arguments(instance, expected.loose))
    verdict = judge.judge(expected.arguments, text)
    # arguments that the case does not mention are right, so they are not extra fields
    if verdict.valid:
        return Verdict(failure_type=None, valid=True)
    return structs.replace(verdict, message=f"{verdict.message}{_LOOSELY}") if expected.loose else verdict


def _loosen_arguments(arguments: object, names: Sequence[str]) -> object:
    """Return the arguments with the texts of the named ones in the form in which they are compared."""
    if not isinstance(arguments, Mapping):
        return arguments
    return {name: loosen(value) if name in names else value for name, value in arguments.items()}


def _find_wrong_in_order(rows: Sequence[Sequence[Verdict]]) -> Verdict | None:
    """Return the verdict on the first call that is not the expected call at its place; None if there is none."""
    return next((row[place] for place, row in enumerate(rows) if not row[place].passed), None)


def _find_unassigned(rows: Sequence[Sequence[Verdict]]) -> Verdict | None:
    """
    Assign as many calls as possible to different expected calls; return the verdict on the first call that remains by
    an expected call that remains, or None if all are assigned.
    """
    assigned: dict[int, int] = {}

    def assign(call: int, seen: set[int]) -> bool:
        for place, verdict in enumerate(rows[call]):
            if not verdict.passed or place in seen:
                continue
            seen.add(place)
            if place not in assigned or assign(assigned[place], seen):
                assigned[place] = call
                return True
        return False

    remaining = [call for call in range(len(rows)) if not assign(call, set())]
    if not remaining:
        return None
    place = next(place for place in range(len(rows)) if place not in assigned)
    return rows[remaining[0]][place]


def _wrong_tool(name: str | None, reason: str, message: str) -> Verdict:
    return structs.replace(no_instance(FailureType.WRONG_TOOL, reason, message), tool=name)


def _find_call_in_text(text: str, offer: ToolOffer) -> str | None:
    """Return the name of an offered tool that the text calls in a form of JSON or XML that models use."""
    for name in offer.names:
        quoted = re.escape(name)
        if re.search(rf'"name"\s{{0,8}}:\s{{0,8}}"{quoted}"|<function={quoted}>|<invoke name="{quoted}">', text):
            return name
    return None
