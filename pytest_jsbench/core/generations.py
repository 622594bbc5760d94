"""A request to an engine, and what it returns, with its times: a completion, a decline, a failed call, decisions."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, Protocol, cast

from msgspec import Struct
from msgspec.structs import force_setattr

from pytest_jsbench.core.cases import CaseKey, Prompt, Schema
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.json_values import Count, Seconds, written


class ResponseFormat(StrEnum):
    """The way in which the schema reaches the engine."""

    TEXT = "text"
    JSON_OBJECT = "json_object"
    JSON_SCHEMA = "json_schema"
    TOOL = "tool"


class FaultKind(StrEnum):
    """Whose fault a broken call was; none of these is the model's."""

    AUTH = "auth"
    QUOTA = "quota"
    RATE_LIMITED = "rate_limited"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    SERVER = "server"
    BAD_REQUEST = "bad_request"
    BAD_RESPONSE = "bad_response"
    ENGINE = "engine"
    #: a decoding library did not come back in time, and its process was ended
    HANG = "hang"
    #: a decoding library took its process down, or broke inside
    CRASH = "crash"


class DeclineReason(StrEnum):
    """Why an engine gave no answer on purpose."""

    UNSUPPORTED_SCHEMA = "unsupported_schema"
    #: the prompt alone is longer than the model's context
    CONTEXT_LENGTH = "context_length"
    #: the model would not see all of the conversation
    UNSUPPORTED_MESSAGES = "unsupported_messages"
    REFUSAL = "refusal"


class FinishReason(StrEnum):
    """Why the text ended."""

    STOP = "stop"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    #: the provider found the text wrong by its own check, and sent it inside an error
    REJECTED = "rejected"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationParams:
    """The sampling of an answer; None means that nothing is sent and the engine decides."""

    #: most tokens of an answer
    max_tokens: int
    #: sampling temperature
    temperature: float | None = None
    #: sampling seed
    seed: int | None = None
    #: seconds for the whole call, retries apart
    timeout: float = 120.0

    def of_repeat(self, repeat: int) -> GenerationParams:
        """The same for the n-th attempt, from 0: a seed is raised by n, or each would be the first one again."""
        return self if self.seed is None or not repeat else replace(self, seed=self.seed + repeat)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The part of a request for whoever answers it from a recording: which question it is, and what was said of it."""

    #: the first question of the same test; None: a case of the dataset
    first: CaseKey | None = None
    #: questions of the same test, and of the same run of it, that came before it and asked the same
    equal_before: int = 0
    #: of these, the calls of an application that asked in the same way
    same_before: int = 0
    #: of engine and sampling, by the test itself; nothing secret
    test: Mapping[str, Any] = field(default_factory=dict)
    #: the same by the command line and the ini file
    run: Mapping[str, Any] = field(default_factory=dict)
    #: the call of an application that is to be passed on, word for word; None: the engine puts the question itself
    exchange: Exchange | None = None
    #: the model that the application names, where that is not the engine's
    model: str | None = None

    @property
    def said(self) -> dict[str, Mapping[str, Any]]:
        """The settings that were said, by whom."""
        return {"test": self.test, "run": self.run}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An attempt as an engine sees it; `schema` is a copy of its own that it may change."""

    key: CaseKey
    repeat: int
    prompt: Prompt
    schema: Schema
    params: GenerationParams
    origin: Origin = field(default_factory=Origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens as the provider reports them; None where it does not."""

    #: of the prompt
    input_tokens: Count | None = None
    #: of the answer
    output_tokens: Count | None = None
    #: part of the input tokens: read from the provider's cache
    cached_tokens: Count | None = None
    #: part of the input tokens: written to the provider's cache
    cache_write_tokens: Count | None = None
    #: part of the tokens written to the cache: to be kept for an hour
    cache_write_1h_tokens: Count | None = None
    #: part of the output tokens
    reasoning_tokens: Count | None = None
    #: the provider's service tier, which sets the price: flex, priority, …; None if it is the standard tier or unknown
    service_tier: str | None = None

    @classmethod
    def total(cls, usages: Collection[Usage]) -> Usage:
        """Return the sum of each count; None for a count that no usage has. A tier that is not that of all is lost."""
        totals: dict[str, Any] = {}
        for name in COUNTS:
            counts = [tokens for usage in usages if (tokens := getattr(usage, name)) is not None]
            totals[name] = sum(counts) if counts else None
        tiers = {usage.service_tier for usage in usages}
        return cls(**totals, service_tier=tiers.pop() if len(tiers) == 1 else None)

    def updated(self, later: Usage) -> Usage:
        """Return the usage after a later one of the same answer: a missing count or a 0 replaces no count."""
        merged = {}
        for name in self.__dataclass_fields__:
            before, after = getattr(self, name), getattr(later, name)
            merged[name] = after if after or before is None else before
        return Usage(**merged)

    @property
    def total_tokens(self) -> int | None:
        """Input and output together; None when either is unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens


#: names of the counts of a usage
COUNTS = tuple(name for name in Usage.__dataclass_fields__ if name != "service_tier")


def tpot_ms(timing: Timing | None, usage: Usage | None) -> float | None:
    """
    Milliseconds per token of the answer after the first; None without streaming or with fewer than two.

    Reasoning ends before the answer's first token: None, too, where its tokens are not known apart.
    """
    if timing is None or timing.gct is None or usage is None or usage.output_tokens is None:
        return None
    if timing.reasoning_time is not None and usage.reasoning_tokens is None:
        return None
    tokens = usage.output_tokens - (usage.reasoning_tokens or 0)
    return timing.gct * 1000 / (tokens - 1) if tokens > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledTool:
    """A call of a tool, as the model wrote it."""

    #: the tool's name; empty where the server gave none
    name: str
    #: the text of a JSON object, if the model did well
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The tools that a request declares, and which of them may be called."""

    #: by name, the schema of the arguments; None: the case's own
    schemas: Mapping[str, Schema | None]
    #: the tools that may be called
    allowed: tuple[str, ...]
    #: whether one of them must be
    required: bool
    #: Whether the request allows one call at most.
    single: bool = False


class Sent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The request as an engine sent it, for the record only: the judge never sees it."""

    #: how the schema reached the engine
    response_format: ResponseFormat
    #: the schema sent, where it differs from the case's; None otherwise
    schema: Schema | None = written(None)
    #: the provider's batch that it was part of; None for a call of its own
    batch: str | None = None
    #: how it was sampled, where that is not what the request says
    params: GenerationParams | None = None
    #: of a recorded answer: with which other settings it was asked for then; None: with these
    asked_otherwise: str | None = None
    #: whether what carried the request left out the schema that it was to send
    left_out: bool = False
    #: Whether an application made the request by itself, through the endpoint.
    by_application: bool = False
    #: None where no tool was declared
    tools: Tools | None = None
    #: the decoding library whose grammar of the schema the answer had to match, with its version; empty where none is
    #: known, as behind a provider's API
    enforced_by: str = ""


#: a media type without its parameters (RFC 9110, section 8.3.1)
MEDIA_TYPE = re.compile(r"[\w!#$%&'*+.^`|~-]+/[\w!#$%&'*+.^`|~-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAnswer:
    """A server's answer to an application's own call, for the application to get it again."""

    #: below the server's address, as in Exchange
    path: str
    #: of HTTP
    status: int
    #: empty where the server named none
    content_type: str
    body: str = field(repr=False)

    @property
    def streamed(self) -> bool:
        """True where the body is a stream of events."""
        return self.content_type.startswith("text/event-stream")


class Exchange(Protocol):
    """A call that an application makes for itself: it goes to an engine's server, and the answer back, unchanged."""

    @property
    def path(self) -> str:
        """The path of the server's API that is called: `/chat/completions`, `/responses` or `/messages`."""

    @property
    def sent(self) -> Sent:
        """The way in which the schema is in it."""

    @property
    def answer(self) -> ServerAnswer | None:
        """The server's answer; None until it has come."""

    def pass_on(self, post: Callable[..., Any], deadline: Any) -> Completion | Declined:
        """Make the call through `post(body, headers_of_call=…, deadline=…)`, which is of an engine's client."""


class Completion(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="completion", tag_field="type"):
    """The engine answered with this text, or with calls of tools."""

    #: of calls their arguments, a line for each call
    text: str
    #: why the text ended; rejected: the provider found it wrong by its own check, and sent it inside an error
    finish_reason: FinishReason
    #: None where nobody has measured it: an answer out of a provider's batch
    timing: Timing | None
    #: tokens
    usage: Usage = written(Usage())
    #: what was really sent; None where the engine does not say
    sent: Sent | None = written(None)
    #: whether the text held a secret of the run, in the place of which it now has as many `*`
    secret_replaced: bool = False
    #: what the provider gave as the model's reasoning, apart from the text; the judge never sees it
    reasoning: str = ""
    #: where there are any, the judge sees them, and no text
    calls: tuple[CalledTool, ...] = ()
    #: what the model wrote next to its calls, or before a tool that the provider runs; the judge never sees it
    beside: str = ""
    #: whether the server sent another JSON value where its API has a text, so that the text is ours
    not_text: bool = False
    #: the server's own finish reason, where it does not say whether the answer is complete; `(none)` if it gave none
    finish_word: str = ""
    #: where an application asked
    server: ServerAnswer | None = None


class Declined(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="declined", tag_field="type"):
    """The engine said that it cannot do this schema, or will not answer."""

    #: it cannot do this schema, the prompt leaves no room, or the model refuses
    reason: DeclineReason
    #: in the engine's words
    message: str
    #: how long that took; None where nothing was sent
    timing: Timing | None = written(None)
    #: tokens
    usage: Usage = written(Usage())
    #: what was really sent; None where the engine does not say
    sent: Sent | None = written(None)
    #: where an application asked
    server: ServerAnswer | None = None


class Failed(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="failed", tag_field="type"):
    """The call broke; no answer was seen."""

    #: in what way; none of these is the model's fault
    kind: FaultKind
    #: one line
    message: str
    #: HTTP status, where there was one
    status: int | None = written(None)


class GrammarDecision(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The decision of a grammar on one labelled answer."""

    #: the answer's name
    id: str
    #: the label
    valid: bool
    #: None where nobody can say, since the model has no tokens for the text
    accepted: bool | None
    #: of an invalid answer that was accepted: what it breaks, as far as the judge can tell
    keywords: tuple[str, ...] = ()

    @property
    def wrong(self) -> bool:
        """True where a valid answer was rejected, or an invalid one accepted."""
        return self.accepted is not None and self.accepted is not self.valid


class Decided(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="decided", tag_field="type"):
    """The engine's grammar was asked about labelled answers, and no model for one."""

    #: one for each labelled answer
    decisions: tuple[GrammarDecision, ...]
    #: how long it took
    timing: Timing
    #: the decoding library, with its version; empty if the engine does not name one
    library: str = ""


Generation = Completion | Declined | Failed | Decided


class CallError(JSBenchError):
    """A call broke; the runner decides on another try and makes a `Failed` of the last."""

    def __init__(
        self,
        kind: FaultKind,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        broke_off: bool = False,
        closed: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        #: seconds that the provider asked to wait
        self.retry_after = retry_after
        #: whether the connection was there, and the answer did not come to its end
        self.broke_off = broke_off
        #: Whether the server took the connection and then closed it, which the request may have caused.
        self.closed = closed

    def with_message(self, message: str) -> CallError:
        """Return the same error with another message."""
        return CallError(
            self.kind,
            message,
            status=self.status,
            retry_after=self.retry_after,
            broke_off=self.broke_off,
            closed=self.closed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """The engine as reports name it: identity, not route."""

    engine: str
    model: str
    response_format: ResponseFormat
    streaming: bool
    #: the provider that publishes the prices of its calls; None for a user's own server
    provider: str | None = None
    #: tokens of prompt and answer together that it has room for, where that is known
    context: int | None = None
    #: versions of the libraries that made the call, and any setting that changes answers
    details: Mapping[str, Any] = field(default_factory=dict)


GenerationType = Literal["completion", "declined", "failed", "decided"]


def type_of(generation: Generation) -> GenerationType:
    """The name of a generation's type in a record."""
    return cast("GenerationType", type(generation).__struct_config__.tag)


class Timing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The times of one successful call, in seconds; waiting in a queue and failed tries are not in them."""

    #: total generation time: request sent to complete response
    tgt: Seconds
    #: time to first token: request sent to first content token; None where the engine does not stream
    ttft: Seconds | None = written(None)
    #: generation completion time: first content token to last; None where they did not come one after the other
    gct: Seconds | None = written(None)
    #: from the schema to the first mask of its grammar, where the engine does that locally
    grammar_compilation: Seconds | None = written(None)
    #: of that, the time before the first mask is asked for; None where the library does not tell the two apart
    compile_time: Seconds | None = None
    #: first sign of reasoning to first token of the answer; None where the model did not reason, or nobody saw when
    reasoning_time: Seconds | None = None
    #: of a grammar that is walked through texts: a token taken to the mask for the next, of each token
    masks: tuple[Seconds, ...] = ()
    #: in its queue, by the server's own clock; None where it does not say
    server_queue: Seconds | None = None
    #: the same at the prompt
    server_prefill: Seconds | None = None
    #: the same at the tokens of the answer
    server_decode: Seconds | None = None

    def __post_init__(self) -> None:
        """Take a 0, which an engine may say or a record of before may hold, for what it is: not measured."""
        force_setattr(self, "masks", tuple(self.masks))
        for name in ("ttft", "gct", "reasoning_time"):
            force_setattr(self, name, getattr(self, name) or None)


class Stopwatch:
    """Started when it is made; told of reasoning and of each content token; stopped into a `Timing`."""

    __slots__ = ("_first", "_last", "_piece", "_reasoning", "_start")

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._first: float | None = None
        self._last: float | None = None
        self._piece: object = None
        #: when reasoning was first seen, and in which piece of a body
        self._reasoning: tuple[float, object] | None = None

    def token(self, *, piece: object = None) -> float:
        """Note that content has arrived, and say when; content of one piece of a body has arrived at one time."""
        if self._last is not None and piece is not None and piece == self._piece:
            return self._last
        self._last, self._piece = time.perf_counter(), piece
        if self._first is None:
            self._first = self._last
            if piece is not None and self._reasoning is not None and self._reasoning[1] == piece:
                self._reasoning = self._last, piece
        return self._last

    def reasoning(self, *, piece: object = None) -> None:
        """Note that the model reasons, which is no content; only what comes before the first content counts."""
        if self._reasoning is None and self._first is None:
            self._reasoning = time.perf_counter(), piece

    def stop(self, *, answer: float | None = None) -> Timing:
        """The times up to now; `answer` is when the answer began, of content that begins with reasoning."""
        tgt = time.perf_counter() - self._start
        first, last = self._first, self._last
        begun = first if self._reasoning is None else self._reasoning[0]
        ended = first if answer is None else answer
        return Timing(
            tgt=tgt,
            ttft=None if first is None else first - self._start,
            # of a stream that came all at once nothing was measured
            gct=None if first is None or last is None or last == first else last - first,
            reasoning_time=None if begun is None or ended is None else ended - begun,
        )
