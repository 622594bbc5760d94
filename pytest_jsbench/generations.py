"""What is asked of an engine, and what came back of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from pytest_jsbench.cases import CaseKey, Schema
from pytest_jsbench.errors import JSBenchError
from pytest_jsbench.prompts import Prompt
from pytest_jsbench.timing import Timing


class ResponseFormat(StrEnum):
    """How the schema reaches the engine."""

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
    REFUSAL = "refusal"


class FinishReason(StrEnum):
    """Why the text ended."""

    STOP = "stop"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationParams:
    """How an answer is to be sampled; None means that nothing is sent and the engine decides."""

    max_tokens: int
    temperature: float | None = None
    seed: int | None = None
    #: seconds for the whole call, retries apart
    timeout: float = 120.0

    def of_repeat(self, repeat: int) -> GenerationParams:
        """The same for the n-th attempt, from 0: a seed is raised by n, or each would be the first one again."""
        return self if self.seed is None or not repeat else replace(self, seed=self.seed + repeat)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a request says to whoever answers it from a recording: which question it is, and what was said of it."""

    #: the first question of the same test; None: a case of the dataset
    first: CaseKey | None = None
    #: questions of the same test, and of the same run of it, that came before it and asked the same
    equal_before: int = 0
    #: of engine and sampling, by the test itself; nothing secret
    test: Mapping[str, Any] = field(default_factory=dict)
    #: the same by the command line and the ini file
    run: Mapping[str, Any] = field(default_factory=dict)

    @property
    def said(self) -> dict[str, Mapping[str, Any]]:
        """What was said, by whom."""
        return {"test": self.test, "run": self.run}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One attempt, as an engine sees it; `schema` is a copy of its own that it may change."""

    key: CaseKey
    repeat: int
    prompt: Prompt
    schema: Schema
    params: GenerationParams
    origin: Origin = field(default_factory=Origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens as the provider reports them; None where it does not."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    #: part of the input tokens
    cached_tokens: int | None = None
    #: part of the output tokens
    reasoning_tokens: int | None = None

    @property
    def total_tokens(self) -> int | None:
        """Input and output together; None when either is unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What an engine really sent, for the record only: the judge never sees it."""

    response_format: ResponseFormat
    #: the schema sent, where it differs from the case's; None otherwise
    schema: Schema | None = None
    #: the provider's batch that it was part of; None for a call of its own
    batch: str | None = None
    #: how it was sampled, where that is not what the request says
    params: GenerationParams | None = None
    #: of a recorded answer: with which other settings it was asked for then; None: with these
    asked_otherwise: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The engine answered with this text."""

    text: str
    finish_reason: FinishReason
    #: None where nobody has measured it: an answer out of a provider's batch
    timing: Timing | None
    usage: Usage = field(default_factory=Usage)
    sent: Sent | None = None
    #: whether the text held a secret of the run, in the place of which it now has as many `*`
    secret_replaced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined:
    """The engine said that it cannot do this schema, or will not answer."""

    reason: DeclineReason
    message: str
    timing: Timing | None = None
    usage: Usage = field(default_factory=Usage)
    sent: Sent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The call broke; no answer was seen."""

    kind: FaultKind
    message: str
    #: HTTP status, where there was one
    status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a grammar says of one labelled answer."""

    id: str
    #: the label
    valid: bool
    #: None where nobody can say, since the model has no tokens for the text
    accepted: bool | None

    @property
    def wrong(self) -> bool:
        """Whether a valid answer was rejected, or an invalid one accepted."""
        return self.accepted is not None and self.accepted is not self.valid


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The engine's grammar was asked about labelled answers, and no model for one."""

    decisions: tuple[Decision, ...]
    timing: Timing


Generation = Completion | Declined | Failed | Decided


class CallError(JSBenchError):
    """One call broke; the runner decides on another try and makes a `Failed` of the last."""

    def __init__(
        self,
        kind: FaultKind,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.status = status
        #: seconds that the provider asked to wait
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """Which engine it was, as reports name it: identity, not route."""

    engine: str
    model: str
    response_format: ResponseFormat
    streaming: bool
    #: whose published prices hold for its calls; None for a server of one's own
    provider: str | None = None
    #: tokens of prompt and answer together that it has room for, where that is known
    context: int | None = None
    #: versions of the libraries that made the call, and any setting that changes answers
    details: Mapping[str, Any] = field(default_factory=dict)
