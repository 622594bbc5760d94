"""Check whether a streamed answer and one in one piece agree, for the same request with temperature 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_jsbench.core.generations import Completion
from pytest_jsbench.core.tool_offers import ToolMode
from pytest_jsbench.engines.http.calls import as_object, get, items, json_or_text
from pytest_jsbench.lab.probe.check import (
    Bench,
    Check,
    CheckAnswer,
    CheckFinding,
    CheckPlan,
    ServerFault,
    Setup,
    faulty,
    first_failure,
    sound,
    undecided,
    without_evidence,
)
from pytest_jsbench.lab.probe.parameter_checks import STORY
from pytest_jsbench.lab.probe.questions import PROMPT, keyword_question
from pytest_jsbench.lab.probe.tool_answers import ProbeTool, call_prompt, make_tool, offer_of

_CHECK = "streaming"
#: Number of times that each request is sent in each transfer: only an answer that comes again is compared. Requests
#: whose answers differ are sent as often again, since a server may draw one of two answers.
_TIMES = 2
_LINE = "data:"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """The answers to the same request, in one piece and streamed."""

    whole: tuple[Completion, ...]
    streamed: tuple[Completion, ...]
    #: Whether every call was answered.
    complete: bool

    def add(self, other: _Pair) -> _Pair:
        """Return the answers of both pairs."""
        return _Pair(
            whole=self.whole + other.whole,
            streamed=self.streamed + other.streamed,
            complete=self.complete and other.complete,
        )

    def is_steady(self) -> bool:
        """Whether every call was answered, and the model's words are the same each time in the same transfer."""
        return self.complete and all(len({_words(each) for each in side}) == 1 for side in (self.whole, self.streamed))

    def differs(self, value: Callable[[Completion], object]) -> bool:
        """Return whether a value of the answer depends on the transfer, and only on it."""
        whole, streamed = ({value(each) for each in side} for side in (self.whole, self.streamed))
        return len(whole) == len(streamed) == 1 and whole != streamed


def _words(answer: Completion) -> tuple[object, ...]:
    return answer.text if not answer.calls else "", _calls(answer), answer.beside


def _calls(answer: Completion) -> tuple[tuple[str, str], ...]:
    return tuple((call.name, call.arguments) for call in answer.calls)


def _text(answer: Completion) -> str:
    return "" if answer.calls else answer.text


def _leaked(answer: Completion) -> str:
    return answer.beside if answer.calls else ""


def _finish(answer: Completion) -> tuple[str, str]:
    return answer.finish_reason.value, answer.finish_word


def _usage(answer: Completion) -> tuple[int | None, int | None]:
    return answer.usage.input_tokens, answer.usage.output_tokens


#: Faults by the value that differs; all except the usage and the finish reason are words of the model.
_VALUES: Mapping[ServerFault, tuple[str, Callable[[Completion], object]]] = {
    ServerFault.CALLS_DIFFER: ("calls or their arguments", _calls),
    ServerFault.TEXT_DIFFERS: ("text", _text),
    ServerFault.CONTENT_LEAKED: ("text next to calls", _leaked),
    ServerFault.FINISH_DIFFERS: ("finish reason", _finish),
    ServerFault.USAGE_DIFFERS: ("usage", _usage),
}


def check_streaming(bench: Bench) -> CheckFinding:
    """Send the same requests in one piece and streamed, and compare the answers."""
    answers: list[CheckAnswer] = []
    pairs: list[_Pair] = []
    for make in _requests(bench):
        pair = _send(bench, make, answers)
        if pair.is_steady() and any(map(pair.differs, (value for _, value in _VALUES.values()))):
            pair = pair.add(_send(bench, make, answers))
        pairs.append(pair)
    if (found := without_evidence(_CHECK, answers)) is not None:
        return found
    compared = [pair for pair in pairs if pair.is_steady()]
    faults = list(_differences(compared)) if len(compared) == sum(pair.complete for pair in pairs) else []
    faults += list(_wrong_places(bench)) if bench.plan.path and bench.plan.offers_tools else []
    if faults:
        return faulty(_CHECK, "; ".join(dict.fromkeys(said for _, said in faults)), dict.fromkeys(f for f, _ in faults))
    if len(compared) < len(pairs):
        why = (
            first_failure(answers) or "with temperature 0, the same request has different answers in the same transfer"
        )
        return undecided(_CHECK, f"only {len(compared)} of {len(pairs)} requests can be compared: {why}")
    with_calls = sum(bool(pair.whole[0].calls) for pair in compared)
    if bench.plan.offers_tools and not with_calls:
        return undecided(_CHECK, f"the texts for {len(compared)} requests are the same, but no calls came")
    same = f"the answers to {len(compared)} requests are the same streamed and in one piece"
    return sound(_CHECK, f"{same}, {with_calls} of them with calls" if with_calls else same)


def _requests(bench: Bench) -> Iterator[Callable[[bool], Any]]:
    """Yield functions that return the call for a request, streamed or not: for a text, a schema, one and two tools."""
    question = keyword_question("enum", bench.words)
    if bench.plan.transfers(Setup.COLD_TEXT):
        yield lambda streamed: bench.call(Setup.COLD_TEXT, STORY, streamed=streamed)
    yield lambda streamed: bench.call(
        Setup.COLD_STRUCTURED, PROMPT + question.wanted, streamed=streamed, schema=question.schema
    )
    if bench.plan.offers_tools:
        first, second = make_tool(bench.words, strict=True), make_tool(bench.words, strict=True)
        yield lambda streamed: _tool_call(bench, (first,), first.tool.name, streamed=streamed)
        yield lambda streamed: _tool_call(bench, (first, second), ToolMode.REQUIRED.value, streamed=streamed)


def _tool_call(bench: Bench, tools: Sequence[ProbeTool], choice: str, *, streamed: bool) -> Any:
    return bench.call(Setup.COLD_STRUCTURED, call_prompt(tools), streamed=streamed, offer=offer_of(tools, choice))


def _send(bench: Bench, make: Callable[[bool], Any], answers: list[CheckAnswer]) -> _Pair:
    """Send a request in one piece and streamed; add what came to the answers of the check."""
    whole, streamed = (bench.send([make(each)] * _TIMES) for each in (False, True))
    answers += [*whole, *streamed]
    completions = [tuple(each.completion for each in side if each.completion is not None) for side in (whole, streamed)]
    complete = all(len(side) == _TIMES for side in completions)
    return _Pair(whole=completions[0], streamed=completions[1], complete=complete)


def _differences(pairs: Sequence[_Pair]) -> Iterator[tuple[ServerFault, str]]:
    for fault, (name, value) in _VALUES.items():
        different = [pair for pair in pairs if pair.differs(value)]
        if fault in (ServerFault.USAGE_DIFFERS, ServerFault.FINISH_DIFFERS):  # other words have other tokens and ends
            different = [pair for pair in different if not pair.differs(_words)]
        if different:
            whole, streamed = (_shown(value(side[0])) for side in (different[0].whole, different[0].streamed))
            said = f"{name} differ{'' if name.startswith('calls') else 's'}: {whole} in one piece, {streamed} streamed"
            yield fault, said


def _shown(value: object) -> str:
    """Return a short text for a value that differs."""
    parts = value if isinstance(value, tuple) else (value,)
    shown = [
        f"{part[0]}({part[1]})" if isinstance(part, tuple) else "none" if part is None else str(part)
        for part in parts
        if part != ""
    ]
    return " and ".join(shown) or "nothing"


def _wrong_places(bench: Bench) -> Iterator[tuple[ServerFault, str]]:
    """Yield faults in the finish reason, identifiers and indices of calls, which an engine does not report."""
    tools = (make_tool(bench.words, strict=True), make_tool(bench.words, strict=True))
    declared = [
        {
            "type": "function",
            "function": {"name": each.tool.name, "parameters": each.tool.parameters, "strict": True},
        }
        for each in tools
    ]
    fields = {
        "tools": declared,
        "tool_choice": "required",
        "temperature": 0,
        bench.plan.limit_field: bench.plan.params(Setup.STRUCTURED).max_tokens,
    }
    answers = bench.send([bench.own_call(call_prompt(tools), fields, streamed=streamed) for streamed in (False, True)])
    made = [
        (_calls(answer.completion), _finish_reason(answer.body))
        for answer in answers
        if answer.completion is not None and answer.completion.calls
    ]
    if len({calls for calls, _ in made}) == 1 and len({reason for _, reason in made}) > 1:  # other calls end otherwise
        (_, whole), (_, streamed) = made
        said = f"finish reason of calls differs: {whole} in one piece, {streamed} streamed"
        yield ServerFault.FINISH_DIFFERS, said
    for answer, transfer in zip(answers, ("in one piece", "streamed"), strict=False):
        if answer.completion is None or not answer.completion.calls:
            continue
        pieces = list(_pieces(answer.body))
        # an engine may join calls that a server does not tell apart
        names = [get(piece, "function", "name") for piece in pieces]
        calls = max(len(answer.completion.calls), sum(each.tool.name in names for each in tools))
        if transfer == "streamed" and (why := _wrong_indices(pieces, calls)):
            yield ServerFault.INDICES_WRONG, f"the indices of streamed calls are {why}"
        if why := _wrong_ids(pieces, calls, streamed=transfer == "streamed"):
            yield ServerFault.IDS_WRONG, f"the ids of calls {transfer} are {why}"


def _choices(body: str) -> Iterator[Mapping[str, Any]]:
    """Yield the choices in a body: of a whole answer, or of the events of a stream."""
    lines = [line[len(_LINE) :].strip() for line in body.splitlines() if line.startswith(_LINE)]
    for text in lines or [body]:
        yield from map(as_object, items(json_or_text(text), "choices"))


def _pieces(body: str) -> Iterator[Mapping[str, Any]]:
    """Yield the pieces of calls in a body: whole calls, or parts of them in a stream."""
    for choice in _choices(body):
        yield from map(as_object, items(choice.get("delta") or choice.get("message"), "tool_calls"))


def _finish_reason(body: str) -> str:
    """Return the server's own finish reason, which engines report only as far as it affects the verdict."""
    reasons = [choice.get("finish_reason") for choice in _choices(body)]
    return next((reason for reason in reversed(reasons) if isinstance(reason, str)), "none")


def _wrong_indices(pieces: Sequence[Mapping[str, Any]], calls: int) -> str:
    """Return what is wrong with the indices of streamed calls; empty if they are 0, 1, … in order."""
    indices = [piece.get("index") for piece in pieces]
    if any(type(index) is not int for index in indices):
        return "missing"
    seen = list(dict.fromkeys(indices))
    if len(seen) < calls:
        return "the same for several calls"
    return "" if seen == list(range(len(seen))) else f"{', '.join(map(str, seen))}"


def _wrong_ids(pieces: Sequence[Mapping[str, Any]], calls: int, *, streamed: bool) -> str:
    """Return what is wrong with the identifiers of calls; empty if each call has its own."""
    named = [piece for piece in pieces if get(piece, "function", "name")]
    # in a stream, later pieces of a call may repeat the name without the identifier
    ids: dict[int, list[str]] = {}
    for number, piece in enumerate(named):
        index, given = piece.get("index"), piece.get("id")
        of_call = ids.setdefault(index if streamed and type(index) is int else number, [])
        of_call += [given] if isinstance(given, str) and given else []
    if not all(ids.values()):
        return "missing"
    different = {each for given in ids.values() for each in given}
    return "the same for several calls" if len(different) < min(len(named), calls) else ""


def _obstacle(plan: CheckPlan) -> str:
    if lacking := plan.lacks(Setup.COLD_STRUCTURED):
        return lacking
    return "" if len(plan.transfers(Setup.COLD_STRUCTURED)) > 1 else "the engine has only one transfer"


def _count(plan: CheckPlan) -> int:
    requests = 1 + bool(plan.transfers(Setup.COLD_TEXT)) + 2 * plan.offers_tools
    return requests * 2 * _TIMES + 2 * (bool(plan.path) and plan.offers_tools)


STREAM_CHECKS = (
    Check(
        name=_CHECK,
        calls=_count,
        obstacle=_obstacle,
        run=check_streaming,
    ),
)
