"""Define the checks of a probe: what a server does with tools, streams, parameters and load, next to its schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pytest_jsbench.core.cases import Case, CaseKey, Schema
from pytest_jsbench.core.generations import Completion, Declined, Failed, GenerationParams
from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.text import sentence
from pytest_jsbench.core.tool_offers import ToolOffer
from pytest_jsbench.lab.probe.calls import OwnBody, ProbeCall, ProbeCalls
from pytest_jsbench.lab.probe.enforcement import Replies
from pytest_jsbench.lab.probe.question_calls import QuestionCalls, is_refusal
from pytest_jsbench.lab.probe.questions import Shown, Words
from pytest_jsbench.records.records import Missing, Record
from pytest_jsbench.run.variants import Variant

#: Maximum number of tokens of an answer that need not be complete.
SHORT = 48


class Outcome(StrEnum):
    """Outcomes of a check."""

    #: The server does what its API specifies.
    OK = "ok"
    FAULT = "fault"
    #: The server rejected the requests as unsupported.
    REFUSED = "refused"
    #: The answers are no evidence: calls failed, or the model did not do what the prompt requests.
    UNDECIDED = "undecided"


class ServerFault(StrEnum):
    """Faults of a server that checks find."""

    #: The arguments of a strict tool do not conform to its schema.
    STRICT_IGNORED = "strict_ignored"
    #: The arguments of a call contain words of another tool's schema.
    TOOLS_MIXED_UP = "tools_mixed_up"
    #: The arguments of a call are several JSON values.
    ARGUMENTS_JOINED = "arguments_joined"
    #: A tool was called that the request does not declare.
    UNKNOWN_TOOL = "unknown_tool"
    #: No tool was called although the tool choice is `required`.
    REQUIRED_IGNORED = "required_ignored"
    #: A tool was called although the tool choice is `none`.
    CALLED_DESPITE_NONE = "called_despite_none"
    #: The response format is enforced, but not next to tools.
    FORMAT_DROPPED = "format_dropped"
    #: A required tool is called, but not next to a response format.
    TOOLS_DROPPED = "tools_dropped"
    #: Tools are not part of the prompt that the model gets.
    TOOLS_UNSEEN = "tools_unseen"
    #: The description of a tool is not part of the prompt.
    DESCRIPTION_UNSEEN = "description_unseen"
    #: The description of a parameter is not part of the prompt.
    PARAMETER_UNSEEN = "parameter_unseen"
    #: The same request has another text if it is streamed.
    TEXT_DIFFERS = "text_differs"
    #: The same request has other calls or arguments if it is streamed.
    CALLS_DIFFER = "calls_differ"
    #: An answer has text next to its calls only if it is streamed, or only if it is not.
    CONTENT_LEAKED = "content_leaked"
    #: The same request has another finish reason if it is streamed.
    FINISH_DIFFERS = "finish_differs"
    #: The same request has another usage if it is streamed.
    USAGE_DIFFERS = "usage_differs"
    #: Calls have no identifiers, or the same.
    IDS_WRONG = "ids_wrong"
    #: The indices of streamed calls are missing, repeated or have gaps.
    INDICES_WRONG = "indices_wrong"
    TEMPERATURE_IGNORED = "temperature_ignored"
    SEED_IGNORED = "seed_ignored"
    #: An answer has more tokens than the request allows.
    LIMIT_IGNORED = "limit_ignored"
    #: An answer ends at the limit, but the finish reason is another.
    LIMIT_UNREPORTED = "limit_unreported"
    STOP_IGNORED = "stop_ignored"
    #: A malformed request is answered as if it were valid.
    MALFORMED_ACCEPTED = "malformed_accepted"
    #: A malformed request is answered with a server error.
    MALFORMED_FAILS = "malformed_fails"
    #: A request without a schema, sent among requests with schemas, is answered with words of another request.
    PLAIN_MIXED_UP = "plain_mixed_up"
    #: Requests without a schema are answered as requested, but less often among requests with schemas.
    PLAIN_CORRUPTED = "plain_corrupted"
    #: A request with a schema, sent among requests without, is answered with words of another request.
    CONSTRAINED_MIXED_UP = "constrained_mixed_up"
    #: A schema is enforced alone, but not among requests without a schema.
    SCHEMA_DROPPED = "schema_dropped"
    #: After the load, answers to the control questions contain words of another request.
    CONTROL_MIXED_UP = "control_mixed_up"
    #: After the load, answers to the control questions conform more often or less often than before.
    CONTROL_CHANGED = "control_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """The finding of a check."""

    #: Name of the check.
    check: str
    outcome: Outcome
    #: The finding as text.
    said: str
    faults: tuple[ServerFault, ...] = ()
    #: An answer that shows the fault, as pairs of a label and a text.
    example: tuple[tuple[str, str], ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the server does what its API specifies."""
        return self.outcome is Outcome.OK


class Setup(StrEnum):
    """Engine and sampling settings for the calls of a check."""

    #: With a response format for schemas, and tools if the case offers any.
    STRUCTURED = "structured"
    #: Like `structured`, with temperature 0.
    COLD_STRUCTURED = "cold-structured"
    #: Without a response format.
    TEXT = "text"
    #: Without a response format, with temperature 0, and few tokens.
    COLD_TEXT = "cold-text"
    #: Without a response format, with temperature 1, a seed, and few tokens.
    HOT_TEXT = "hot-text"
    #: Without a response format, with very few tokens.
    LIMITED_TEXT = "limited-text"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPlan:
    """What the checks of a probe can use."""

    #: Names of the checks, in order.
    names: tuple[str, ...]
    #: Variants of the run by setup, and whether answers are streamed.
    variants: Mapping[tuple[Setup, bool], Variant]
    #: Whether the engine can send tools.
    offers_tools: bool
    #: Whether the engine sends a response format with a schema, which may be next to tools.
    sends_format: bool
    #: Path of the API if the probe can write its requests itself; empty otherwise.
    path: str
    #: Model and further fields of each request that the probe writes itself, and the field for the token limit.
    own_fields: Mapping[str, Any] = field(default_factory=dict, repr=False)
    limit_field: str = "max_tokens"
    #: Numbers of concurrent calls, in ascending order.
    levels: tuple[int, ...]
    #: Names of the run's variants for the load: with a schema, and without; empty if the engine has none.
    constrained: str = ""
    plain: str = ""
    #: Locations of the schema in the control questions, and the number of questions for each.
    controls: tuple[Shown, ...] = ()
    control_calls: int = 5

    def transfers(self, setup: Setup) -> tuple[bool, ...]:
        """Return whether answers with the setup can be in one piece (False) or streamed (True)."""
        return tuple(streamed for streamed in (False, True) if (setup, streamed) in self.variants)

    def lacks(self, *setups: Setup) -> str:
        """Return why the check cannot be made with the engine: a setup is missing; empty if it can."""
        missing = next((setup for setup in setups if not self.transfers(setup)), None)
        if missing is None:
            return ""
        if missing in (Setup.STRUCTURED, Setup.COLD_STRUCTURED):
            return "the engine cannot send a schema"
        return "the engine always sends a response format"

    @property
    def lacks_tools(self) -> str:
        """Why the engine cannot send tools; empty if it can."""
        return self.lacks(Setup.STRUCTURED) or ("" if self.offers_tools else "the engine cannot send tools")

    def params(self, setup: Setup) -> GenerationParams:
        """Return the sampling parameters that apply with the setup."""
        return next(variant.sampled for (each, _), variant in self.variants.items() if each is setup)


class Bench:
    """
    What a check needs to make its calls.

    The command creates one object for each probe; the checks call its methods in the main thread.
    """

    def __init__(
        self,
        plan: CheckPlan,
        calls: ProbeCalls,
        questions: QuestionCalls,
        words: Words,
        *,
        controls: Mapping[Shown, Replies],
        ask_controls: Callable[[], Mapping[Shown, Replies]],
    ) -> None:
        self.plan = plan
        self.questions = questions
        self.words = words
        #: Replies to the control questions before the load, by the location of the schema.
        self.controls = controls
        #: Function that asks control questions of the same kinds again.
        self.ask_controls = ask_controls
        self._calls = calls

    @property
    def interrupted(self) -> bool:
        """Whether the probe was interrupted, so that no more calls are made."""
        return self._calls.interrupted

    def send(self, calls: Sequence[ProbeCall]) -> list[CheckAnswer]:
        """Make the calls one after the other, and return their results; fewer after Ctrl-C."""
        records = self._calls.make(calls, in_flight=1)
        return [CheckAnswer(call=call, record=record) for call, record in zip(calls, records, strict=False)]

    def call(
        self,
        setup: Setup,
        prompt: str,
        *,
        streamed: bool,
        schema: Schema = True,
        offer: ToolOffer | None = None,
        repeat: int = 0,
    ) -> ProbeCall:
        """Return a call with the setup."""
        return ProbeCall(
            variant=self.plan.variants[setup, streamed].name, case=self._case(prompt, schema, offer), repeat=repeat
        )

    def own_call(self, prompt: str, fields: Mapping[str, Any], *, streamed: bool = False) -> ProbeCall:
        """Return a call to Chat Completions with these fields in the body."""
        body = {
            "messages": [{"role": "user", "content": prompt}],
            self.plan.limit_field: SHORT,
            **self.plan.own_fields,
            **fields,
            **({"stream": True} if streamed else {}),
        }
        variant = self.plan.variants[Setup.TEXT, self.plan.transfers(Setup.TEXT)[0]]
        own = OwnBody(path=self.plan.path, body=body)
        return ProbeCall(variant=variant.name, case=self._case(prompt, True, None), own=own)

    def _case(self, prompt: str, schema: Schema, offer: ToolOffer | None) -> Case:
        key = CaseKey(task="probe", id=str(self._calls.new_number()))
        return Case(key=key, schema=schema, messages=(Message(role="user", content=prompt),), offer=offer)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAnswer:
    """A call of a check, and its result."""

    call: ProbeCall
    record: Record | Missing

    @property
    def completion(self) -> Completion | None:
        """The answer of the model; None if there is none."""
        generation = None if isinstance(self.record, Missing) else self.record.generation
        return generation if isinstance(generation, Completion) else None

    @property
    def body(self) -> str:
        """Body of the server's response without secrets; empty if the engine wrote the request."""
        server = None if self.completion is None else self.completion.server
        return "" if server is None else server.body

    @property
    def conforms(self) -> bool:
        """Whether the judge passed the answer."""
        return not isinstance(self.record, Missing) and self.record.verdict.passed

    @property
    def refused(self) -> bool:
        """Whether the server or the engine rejected the request as unsupported."""
        return not isinstance(self.record, Missing) and is_refusal(self.record.generation)

    @property
    def status(self) -> int | None:
        """HTTP status of a failed call; None if there was no response, or an answer."""
        record = self.record
        if isinstance(record, Missing) or not isinstance(record.generation, Failed):
            return None
        return record.generation.status

    @property
    def message(self) -> str:
        """Message of the server, or of the judge."""
        record = self.record
        if isinstance(record, Missing):
            return sentence(record.message)
        match record.generation:
            case Declined(message=message) | Failed(message=message):
                return sentence(message)
            case _:
                return sentence(record.verdict.message)


def without_evidence(check: str, answers: Sequence[CheckAnswer]) -> CheckFinding | None:
    """Return the finding if no call was answered; None if there are answers."""
    if any(answer.completion is not None for answer in answers):
        return None
    if refused := [answer for answer in answers if answer.refused]:
        return CheckFinding(check=check, outcome=Outcome.REFUSED, said=refused[0].message)
    return undecided(check, answers[0].message if answers else "interrupted")


def first_failure(answers: Iterable[CheckAnswer]) -> str:
    """Return the message of the first call that was not answered; empty if all were."""
    return next((answer.message for answer in answers if answer.completion is None), "")


def undecided(check: str, why: str, answers: Iterable[CheckAnswer] = ()) -> CheckFinding:
    """Return the finding that the answers are no evidence; if a call failed, this is the reason."""
    return CheckFinding(check=check, outcome=Outcome.UNDECIDED, said=first_failure(answers) or why)


def sound(check: str, evidence: str) -> CheckFinding:
    """Return the finding that the server does what its API specifies."""
    return CheckFinding(check=check, outcome=Outcome.OK, said=evidence)


def faulty(
    check: str, said: str, faults: Iterable[ServerFault], example: tuple[tuple[str, str], ...] = ()
) -> CheckFinding:
    """Return the finding that the server has these faults."""
    return CheckFinding(check=check, outcome=Outcome.FAULT, said=said, faults=tuple(faults), example=example)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check that a probe can make."""

    name: str
    #: Number of calls, without retries.
    calls: Callable[[CheckPlan], int]
    #: Why the check cannot be made with the engine; empty if it can.
    obstacle: Callable[[CheckPlan], str]
    run: Callable[[Bench], CheckFinding]
