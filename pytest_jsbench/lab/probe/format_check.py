"""Check whether a server honours a response format next to tools in one request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

from pytest_jsbench.core.tool_offers import ToolMode
from pytest_jsbench.lab.probe.check import (
    Bench,
    Check,
    CheckAnswer,
    CheckFinding,
    CheckPlan,
    Outcome,
    ServerFault,
    Setup,
    faulty,
    sound,
    undecided,
    without_evidence,
)
from pytest_jsbench.lab.probe.questions import PROMPT, keyword_question
from pytest_jsbench.lab.probe.tool_answers import CALL_FAULTS, ToolAnswer, call_prompt, make_tool, offer_of

_CHECK = "format_with_tools"
#: Kinds of requests without tools, and without a response format; the others are named after their tool choice.
_FORMAT_ALONE, _TOOLS_ALONE = "format alone", "tools alone"
_REQUIRED, _NONE, _AUTO = ToolMode.REQUIRED.value, ToolMode.NONE.value, ToolMode.AUTO.value
_TOGETHER = (_REQUIRED, _NONE, _AUTO)
_KINDS = (_FORMAT_ALONE, _TOOLS_ALONE, *_TOGETHER)
#: Number of requests of each kind.
_OF_EACH_KIND = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    """Answers by the kind of request."""

    by_kind: Mapping[str, Sequence[ToolAnswer]]

    @property
    def together(self) -> list[ToolAnswer]:
        """Answers to requests with tools and a response format."""
        return [answer for kind in _TOGETHER for answer in self.by_kind[kind]]

    def of(self, *kinds: str) -> list[CheckAnswer]:
        """Return the answers to the requests of these kinds."""
        return [each.answer for kind in kinds for each in self.by_kind[kind]]

    @property
    def format_works_alone(self) -> bool:
        """Whether the response format is enforced without tools."""
        texts = self.texts(_FORMAT_ALONE)
        return bool(texts) and all(each.answer.conforms for each in texts)

    @property
    def tools_work_alone(self) -> bool:
        """Whether a required tool is called without a response format."""
        alone = self.by_kind[_TOOLS_ALONE]
        return bool(alone) and all(each.calls for each in alone)

    def texts(self, kind: str) -> list[ToolAnswer]:
        """Return the answers in text to the requests of a kind."""
        return [answer for answer in self.by_kind[kind] if answer.is_text]

    def faults(self) -> Iterator[tuple[ServerFault, str, ToolAnswer]]:
        """Yield the faults that the answers show, each in words and with an answer."""
        wrong = {kind: [each for each in self.texts(kind) if not each.answer.conforms] for kind in (_NONE, _AUTO)}
        choices = [kind for kind, answers in wrong.items() if answers]
        if choices and self.format_works_alone:
            said = (
                f"drops the response format next to tools (tool choice {' and '.join(choices)}), but not without tools"
            )
            yield ServerFault.FORMAT_DROPPED, said, wrong[choices[0]][0]
        if self.tools_work_alone and (texts := self.texts(_REQUIRED)):
            yield ServerFault.TOOLS_DROPPED, "drops the tools next to a response format, but not without one", texts[0]
        alone = {fault for each in self.by_kind[_TOOLS_ALONE] for _, fault in each.faulty_calls}
        called_alone = any(each.calls for each in self.by_kind[_TOOLS_ALONE])
        where = f"next to a response format{', but not without one' if called_alone else ''}"
        for answer in self.together:
            for _, fault in answer.faulty_calls:
                if fault not in alone:
                    yield fault, f"{CALL_FAULTS[fault]} {where}", answer
        for answer in self.by_kind[_NONE]:
            if answer.calls:
                yield ServerFault.CALLED_DESPITE_NONE, CALL_FAULTS[ServerFault.CALLED_DESPITE_NONE], answer


def check_format_with_tools(bench: Bench) -> CheckFinding:
    """Send a response format next to tools, and each of them alone; judge what came: a call or a text."""
    answers = _Answers(by_kind={kind: _send_kind(bench, kind) for kind in _KINDS})
    if (found := without_evidence(_CHECK, answers.of(*_TOGETHER))) is not None:
        return found
    faults = list(answers.faults())
    if faults:
        said = "; ".join(dict.fromkeys(words for _, words, _ in faults))
        return faulty(_CHECK, said, dict.fromkeys(fault for fault, _, _ in faults), faults[0][2].describe())
    refusing = [kind for kind in _TOGETHER if _all_refused(answers.by_kind[kind])]
    if refusing:
        message = answers.by_kind[refusing[0]][0].answer.message
        said = f"with tool choice {' and '.join(refusing)}: {message}"
        return CheckFinding(check=_CHECK, outcome=Outcome.REFUSED, said=said)
    if not answers.format_works_alone:
        why = "the response format is not enforced without tools either"
        return undecided(_CHECK, why, answers.of(_FORMAT_ALONE))
    if not answers.tools_work_alone:
        why = "a required tool is not called without a response format either"
        return undecided(_CHECK, why, answers.of(_TOOLS_ALONE))
    texts = sum(len(answers.texts(kind)) for kind in (_NONE, _AUTO))
    calls = sum(bool(each.calls) for each in answers.together)
    if not texts or not calls:
        return undecided(_CHECK, f"{texts} texts and {calls} calls came; expected some of both", answers.of(*_TOGETHER))
    return sound(_CHECK, f"both are honoured: {texts} of {texts} texts and the calls of {calls} answers conform")


def _all_refused(answers: Sequence[ToolAnswer]) -> bool:
    return bool(answers) and all(each.answer.refused for each in answers)


def _send_kind(bench: Bench, kind: str) -> list[ToolAnswer]:
    """Send the requests of one kind; the prompt requests a call if a call is required, otherwise a text."""
    transfers = cycle(bench.plan.transfers(Setup.STRUCTURED))
    sent, calls = [], []
    for _, streamed in zip(range(_OF_EACH_KIND), transfers, strict=False):
        offered = make_tool(bench.words, strict=True)
        question = keyword_question("enum", bench.words)
        choice = _REQUIRED if kind == _TOOLS_ALONE else kind
        sent.append(((offered,), streamed))
        calls.append(
            bench.call(
                Setup.STRUCTURED,
                call_prompt((offered,)) if choice == _REQUIRED else PROMPT + question.wanted,
                streamed=streamed,
                schema=True if kind == _TOOLS_ALONE else question.schema,
                offer=None if kind == _FORMAT_ALONE else offer_of((offered,), choice),
            )
        )
    return [
        ToolAnswer(tools=tools, answer=answer, streamed=streamed)
        for (tools, streamed), answer in zip(sent, bench.send(calls), strict=False)
    ]


def _needs_format(plan: CheckPlan) -> str:
    return plan.lacks_tools or ("" if plan.sends_format else "the engine sends no response format next to tools")


FORMAT_CHECK = Check(
    name=_CHECK,
    calls=lambda _: _OF_EACH_KIND * len(_KINDS),
    obstacle=_needs_format,
    run=check_format_with_tools,
)
