"""
Define requests to an engine and their results, with times: completions, declines, failed calls, and decisions on
labelled answers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, cast

from msgspec import Struct, structs
from msgspec.structs import force_setattr

from pytest_jsbench.core.cases import CaseKey, Prompt, Schema
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.json_values import Count, to_json, write_always
from pytest_jsbench.core.timing import Timing
from pytest_jsbench.core.tool_offers import ToolOffer, question_digest


class ResponseFormat(StrEnum):
    """Ways to send the schema to the engine."""

    TEXT = "text"
    JSON_OBJECT = "json_object"
    JSON_SCHEMA = "json_schema"
    TOOL = "tool"


class FaultKind(StrEnum):
    """Causes of failed calls; none of these is the model's fault."""

    AUTH = "auth"
    QUOTA = "quota"
    RATE_LIMITED = "rate_limited"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    SERVER = "server"
    BAD_REQUEST = "bad_request"
    BAD_RESPONSE = "bad_response"
    ENGINE = "engine"
    #: A decoding library, or the local server, did not return in time, and its process was terminated.
    HANG = "hang"
    #: A decoding library, or the local server, raised an error, or its process died.
    CRASH = "crash"


class DeclineReason(StrEnum):
    """Reasons why an engine deliberately gave no answer."""

    UNSUPPORTED_SCHEMA = "unsupported_schema"
    #: The prompt alone exceeds the model's context.
    CONTEXT_LENGTH = "context_length"
    #: The engine cannot pass the whole conversation to the model.
    UNSUPPORTED_MESSAGES = "unsupported_messages"
    #: The engine cannot offer tools to the model.
    UNSUPPORTED_TOOLS = "unsupported_tools"
    REFUSAL = "refusal"


class FinishReason(StrEnum):
    """Reasons why the text ended."""

    STOP = "stop"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    #: A check by the provider rejected the text, which the provider sent inside an error.
    REJECTED = "rejected"
    UNKNOWN = "unknown"


class GenerationParams(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sampling parameters; a parameter is None if it is not sent and the engine chooses the value."""

    #: Maximum number of tokens in an answer.
    max_tokens: int
    #: Sampling temperature.
    temperature: float | None = write_always(None)
    #: Sampling seed.
    seed: int | None = write_always(None)
    #: Time limit for the whole call, without retries, in seconds.
    timeout: float = write_always(120.0)
    #: Which of the offered tools may be called: `auto`, `required`, `none` or the name of a tool; None for the choice
    #: of the case.
    tool_choice: str | None = None

    def with_repeat(self, repeat: int) -> GenerationParams:
        """
        Return the parameters for attempt number `repeat`, from 0; add the number to the seed, because the same seed
        would repeat the answer.
        """
        return self if self.seed is None or not repeat else structs.replace(self, seed=self.seed + repeat)

    @property
    def sampling(self) -> dict[str, Any]:
        """Parameters that affect the answer, by name; the tool choice only if it is set."""
        values: dict[str, Any] = to_json(self)
        del values["timeout"]
        return values


#: Names of the parameters that affect the answer.
SAMPLING = tuple(name for name in GenerationParams.__struct_fields__ if name != "timeout")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The position of a request in its test, and its settings; a replay finds the request's recording by these data."""

    #: Key of the first question in the same test; None for a case of the dataset.
    first: CaseKey | None = None
    #: Number of earlier equal questions in the same execution of the same test.
    equal_before: int = 0
    #: For an application's call, number of earlier equal questions with the same endpoint and settings; otherwise equal
    #: to `equal_before`.
    same_before: int = 0
    #: Engine and sampling settings that the test sets, without secrets.
    test: Mapping[str, Any] = field(default_factory=dict)
    #: Engine and sampling settings from the command line and the ini file, without secrets.
    run: Mapping[str, Any] = field(default_factory=dict)
    #: How the schemas of the case were rewritten, such as `inline`; empty if they were not.
    rewrite: str = ""
    #: An application's call to forward verbatim; None if the engine sends the prompt itself.
    exchange: Exchange | None = None
    #: Model that the application names, if it differs from the engine's; otherwise None.
    model: str | None = None

    @property
    def settings(self) -> dict[str, Mapping[str, Any]]:
        """Settings of the test and of the run, as a dict."""
        return {"test": self.test, "run": self.run}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request for one attempt, as passed to an engine; `schema` is a copy that the engine may change."""

    key: CaseKey
    repeat: int
    prompt: Prompt
    schema: Schema
    params: GenerationParams
    origin: Origin = field(default_factory=Origin)
    #: Tools of the case; None if it offers none.
    offer: ToolOffer | None = None

    @property
    def offered(self) -> ToolOffer | None:
        """Tools to send, with the tool choice of the run if it is set."""
        return None if self.offer is None else self.offer.with_choice(self.params.tool_choice)

    @property
    def schema_digest(self) -> str:
        """Digest of what the answer is judged by."""
        return question_digest(self.schema, self.offer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts as the provider reports them; a count is None if the provider does not report it."""

    #: Number of tokens in the prompt.
    input_tokens: Count | None = None
    #: Number of tokens in the answer.
    output_tokens: Count | None = None
    #: Number of input tokens that were read from the provider's cache.
    cached_tokens: Count | None = None
    #: Number of input tokens that were written to the provider's cache.
    cache_write_tokens: Count | None = None
    #: Number of tokens written to the cache that are kept for an hour.
    cache_write_1h_tokens: Count | None = None
    #: Number of output tokens that are reasoning.
    reasoning_tokens: Count | None = None
    #: The provider's service tier, which determines the price: flex, priority, …; None for the standard or an unknown
    #: tier.
    service_tier: str | None = None

    @classmethod
    def total(cls, usages: Collection[Usage]) -> Usage:
        """
        Return the sum of each count, or None for a count that no usage has; the service tier is kept if it is the same
        in all usages.
        """
        totals: dict[str, Any] = {}
        for name in COUNTS:
            counts = [tokens for usage in usages if (tokens := getattr(usage, name)) is not None]
            totals[name] = sum(counts) if counts else None
        tiers = {usage.service_tier for usage in usages}
        return cls(**totals, service_tier=tiers.pop() if len(tiers) == 1 else None)

    def updated(self, later: Usage) -> Usage:
        """
        Return this usage updated by a later report for the same answer; a missing count or a 0 in the later report is
        ignored.
        """
        merged = {}
        for name in self.__dataclass_fields__:
            before, after = getattr(self, name), getattr(later, name)
            merged[name] = after if after or before is None else before
        return Usage(**merged)

    @property
    def total_tokens(self) -> int | None:
        """Input and output tokens together; None if either is unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens


#: Names of the token counts in a usage.
COUNTS = tuple(name for name in Usage.__dataclass_fields__ if name != "service_tier")


def tpot_ms(timing: Timing | None, usage: Usage | None) -> float | None:
    """
    Return the average time per answer token after the first, in milliseconds.

    The time is None without streaming, with fewer than two answer tokens, or if the number of reasoning tokens is
    unknown, because reasoning ends before the first answer token.
    """
    if timing is None or timing.gct is None or usage is None or usage.output_tokens is None:
        return None
    if timing.reasoning_time is not None and usage.reasoning_tokens is None:
        return None
    tokens = usage.output_tokens - (usage.reasoning_tokens or 0)
    return timing.gct * 1000 / (tokens - 1) if tokens > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledTool:
    """A tool call, as the model wrote it."""

    #: Name of the tool; empty if the server sent none.
    name: str
    #: Arguments as text; the text of a JSON object if the call is correct.
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Tools that a request declares, and which of these tools may be called."""

    #: Schema of the arguments, by name of the tool; None means the case's own schema.
    schemas: Mapping[str, Schema | None]
    #: Names of the tools that may be called.
    allowed: tuple[str, ...]
    #: Whether one of the allowed tools must be called.
    required: bool
    #: Whether the request allows at most one call.
    single: bool = False


class Sent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The request as an engine sent it, for the record only; the judge never sees it."""

    #: Way in which the schema was sent to the engine.
    response_format: ResponseFormat
    #: The schema that was sent, if it differs from the case's schema; otherwise None.
    schema: Schema | None = write_always(None)
    #: The provider's batch that contained the request; None for a single call.
    batch: str | None = None
    #: Sampling parameters that were sent, if they differ from those of the request; otherwise None.
    params: GenerationParams | None = None
    #: Settings that were different when a recorded answer was generated; None if the settings were the same.
    asked_otherwise: str | None = None
    #: Whether the engine or an adapter dropped a schema that should have been sent.
    left_out: bool = False
    #: Whether an application made the request itself, through the endpoint.
    by_application: bool = False
    #: Declared tools; None if no tool was declared.
    tools: Tools | None = None
    #: Name and version of the decoding library that enforced the schema's grammar; empty if unknown, as behind a
    #: provider's API.
    enforced_by: str = ""


class ServedBy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a server says about itself in its answer; a name is empty if the server does not state it."""

    #: Name of the model, which may be more exact than the requested name, such as a dated version.
    model: str = ""
    #: Fingerprint of the server's configuration, as in OpenAI's `system_fingerprint`.
    fingerprint: str = ""
    #: Name of the provider to which a gateway such as OpenRouter passed the request.
    provider: str = ""

    def __post_init__(self) -> None:
        """Intern the names, because all answers of a server have the same."""
        for name in self.__struct_fields__:
            force_setattr(self, name, sys.intern(getattr(self, name)))


#: Media type without parameters (RFC 9110, section 8.3.1).
MEDIA_TYPE = re.compile(r"[\w!#$%&'*+.^`|~-]+/[\w!#$%&'*+.^`|~-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAnswer:
    """A server's answer to an application's own call, kept so that a replay can return the same answer."""

    #: Path below the server's address, as in `Exchange`.
    path: str
    #: HTTP status.
    status: int
    #: Content type; empty if the server sent none.
    content_type: str
    body: str = field(repr=False)

    @property
    def streamed(self) -> bool:
        """Whether the body is a stream of events."""
        return self.content_type.startswith("text/event-stream")


class Exchange(Protocol):
    """
    An application's own call, which is forwarded to an engine's server; the server's answer is
    returned unchanged.
    """

    @property
    def path(self) -> str:
        """Path of the API that is called, such as `/chat/completions` or `/generateContent`."""

    @property
    def sent(self) -> Sent:
        """The request that was sent, for the record."""

    @property
    def answer(self) -> ServerAnswer | None:
        """The server's answer; None until the answer has arrived."""

    def pass_on(self, post: Callable[..., Any], deadline: Any) -> Completion | Declined:
        """Make the call through `post(body, headers_of_call=…, deadline=…)`, a method of an engine's client."""

    def answer_with(self, generation: Completion | Declined) -> Completion | Declined:
        """Return the answer of an engine without a server, with the answer that a server would have sent."""


class Completion(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="completion", tag_field="type"):
    """An answer of the engine: text or tool calls."""

    #: Text of the answer; for tool calls, the arguments with one line per call.
    text: str
    #: Reason why the text ended; `rejected` if a check by the provider rejected the text, which was sent inside an
    #: error.
    finish_reason: FinishReason
    #: Times of the call; None if they were not measured, as for an answer from a provider's batch.
    timing: Timing | None
    #: Token counts of the call.
    usage: Usage = write_always(Usage())
    #: The request that was sent; None if the engine does not report it.
    sent: Sent | None = write_always(None)
    #: Whether the text contained a secret of the run, which was replaced by the same number of `*`.
    secret_replaced: bool = False
    #: The model's reasoning, if the provider sent it separately from the text; the judge never sees it.
    reasoning: str = ""
    #: Tool calls; if there are any, the judge checks the calls instead of the text.
    calls: tuple[CalledTool, ...] = ()
    #: Text that the model wrote next to its tool calls, or before a tool that the provider runs; the judge never sees
    #: it.
    beside: str = ""
    #: Whether the server sent a JSON value other than a string where its API specifies text; if so, `text` contains
    #: this value as JSON text.
    not_text: bool = False
    #: The server's own finish reason, if it does not determine whether the answer is complete; `(none)` if it sent
    #: none.
    finish_word: str = ""
    #: The server's answer as received, if an application made the call; otherwise None.
    server: ServerAnswer | None = None
    #: What the server says about itself in its answer; None if it says nothing.
    served_by: ServedBy | None = None

    @property
    def shown(self) -> str:
        """The answer for display: its calls with the names of the tools, or its text."""
        calls = [f"{call.name or '(no name)'}({call.arguments})" for call in self.calls]
        return "\n".join(calls) if calls else self.text


class Declined(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="declined", tag_field="type"):
    """A decline: the engine does not support this schema or request, or the model refuses to answer."""

    #: Reason why there is no answer: the schema or conversation is unsupported, the prompt is too long, or the model
    #: refuses.
    reason: DeclineReason
    #: The engine's message.
    message: str
    #: Times of the call; None if nothing was sent.
    timing: Timing | None = write_always(None)
    #: Token counts of the call.
    usage: Usage = write_always(Usage())
    #: The request that was sent; None if the engine does not report it.
    sent: Sent | None = write_always(None)
    #: The server's answer as received, if an application made the call; otherwise None.
    server: ServerAnswer | None = None


class Failed(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="failed", tag_field="type"):
    """A failed call: no answer was received."""

    #: Kind of failure; no kind is the model's fault.
    kind: FaultKind
    #: Message about the failure, on one line.
    message: str
    #: HTTP status; None if there was no response.
    status: int | None = write_always(None)
    #: Whether the server broke while this was the only call in flight, so that this request is the cause.
    broke_server: bool = False

    # A failed call has none of these parts of other generations; they are not written.
    timing = usage = sent = None


class GrammarDecision(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A grammar's decision on one labelled answer."""

    #: Name of the labelled answer.
    id: str
    #: Label of the answer: whether it is valid.
    valid: bool
    #: Whether the grammar accepts the answer; None if undecidable, because the model has no tokens for the text.
    accepted: bool | None
    #: Schema keywords that an accepted invalid answer violates, if the judge can determine them.
    keywords: tuple[str, ...] = ()

    @property
    def wrong(self) -> bool:
        """Whether the grammar rejected a valid answer or accepted an invalid answer."""
        return self.accepted is not None and self.accepted is not self.valid


class Decided(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="decided", tag_field="type"):
    """Decisions of the engine's grammar on labelled answers, made without calling a model."""

    #: One decision for each labelled answer.
    decisions: tuple[GrammarDecision, ...]
    #: Times to compile the grammar and to compute its masks.
    timing: Timing
    #: Name and version of the decoding library; empty if the engine does not report the library.
    library: str = ""

    # A grammar that no model uses has none of these parts of other generations; they are not written.
    usage = sent = None


Generation = Completion | Declined | Failed | Decided


class CallError(JSBenchError):
    """A failed call; the runner retries the call, or records the last failure as `Failed`."""

    def __init__(
        self,
        kind: FaultKind,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        was_truncated: bool = False,
        closed: bool = False,
        broke_server: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        #: Number of seconds to wait, as requested by the provider; None if it requested no wait.
        self.retry_after = retry_after
        #: Whether a connection existed, but the answer was truncated.
        self.was_truncated = was_truncated
        #: Whether the server accepted the connection and then closed it, possibly because of the request.
        self.closed = closed
        #: Whether the server broke while this was the only call in flight.
        self.broke_server = broke_server

    def with_message(self, message: str) -> CallError:
        """Return the same error with another message."""
        return CallError(
            self.kind,
            message,
            status=self.status,
            retry_after=self.retry_after,
            was_truncated=self.was_truncated,
            closed=self.closed,
            broke_server=self.broke_server,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """The engine's identity in reports, without its address."""

    engine: str
    model: str
    response_format: ResponseFormat
    streaming: bool
    #: Provider whose published prices apply to the calls; None for a user's own server.
    provider: str | None = None
    #: Maximum number of tokens of prompt and answer together; None if unknown.
    context: int | None = None
    #: Versions of the libraries that make the calls, and every setting that changes answers.
    details: Mapping[str, Any] = field(default_factory=dict)
    #: Whether the engine can send tools that a case offers (`Request.offer`).
    offers_tools: bool = False


GenerationType = Literal["completion", "declined", "failed", "decided"]


def type_of(generation: Generation) -> GenerationType:
    """Return the name of a generation's type in records."""
    return cast("GenerationType", type(generation).__struct_config__.tag)
