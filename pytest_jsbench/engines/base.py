"""Define engines, their factories, and batches, for this package and for third-party engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from pytest_jsbench.core.generations import (
    Completion,
    Declined,
    EngineInfo,
    Failed,
    GenerationParams,
    Request,
    ResponseFormat,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pytest_jsbench.core.cases import Prompt, Schema


class Engine(Protocol):
    """An engine that generates answers; its methods are called from several threads at once."""

    @property
    def info(self) -> EngineInfo:
        """The engine's identity, for reports."""

    def generate(self, request: Request) -> Completion | Declined:
        """Make one call without retries; if the call fails, raise CallError with the kind of fault."""

    def close(self) -> None:
        """Close the connections; called once, in the process that built the engine."""


@runtime_checkable
class TokenCounter(Protocol):
    """An engine that can count the tokens of a prompt cheaply and without a paid call."""

    def count_tokens(self, prompt: Prompt) -> int | None:
        """Return the number of tokens in the prompt, as the model gets it; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedAnswer:
    """A recorded answer to a request, and the model that generated the answer."""

    answer: Completion | Declined
    model: str


@runtime_checkable
class CachingEngine(Protocol):
    """An engine that may have a recorded answer to a request, so that no paid call is needed."""

    def remembered(self, request: Request) -> CachedAnswer | None:
        """Return the recorded answer; None if a call is needed. Raise CallError if the recording cannot be read."""


@runtime_checkable
class TextTokenizer(Protocol):
    """An engine that can split a text into the model's tokens, cheaply and without a paid call."""

    def tokenize(self, text: str) -> Sequence[int] | None:
        """Return the identifiers of the text's tokens in the model's vocabulary; None if they are not available."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """A grammar's decision for each of several texts, and the measured times."""

    #: For each text, whether the grammar accepts it; None if the model has no tokens for the text.
    accepted: tuple[bool | None, ...]
    #: Time from receiving the schema to the first mask of its grammar, in seconds.
    grammar_compilation: float
    #: `grammar_compilation` without the time for the first mask, in seconds; None if not measured.
    compile_time: float | None = None
    #: Time to compute the mask for each token of the texts, in seconds; empty if not measured.
    masks: tuple[float, ...] = ()
    #: Name and version of the decoding library; empty if the engine does not report the library.
    library: str = ""


class GrammarMatcher(Protocol):
    """A grammar that checks texts without calling the model; its methods are called from several threads at once."""

    def accepts(self, schema: Schema, texts: Sequence[str]) -> Acceptance | Declined:
        """Check each text against the schema's grammar; raise CallError if the library hangs or crashes."""

    def close(self) -> None:
        """End the library's processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The user's options for the engine; JSON values only, because xdist sends them to the workers."""

    name: str
    model: str | None = None
    base_url: str | None = field(default=None, repr=False)
    api_key_env: str | None = None
    #: API key that the user did not set, such as the local server's key; it is never written to a file or a log.
    api_key: str | None = field(default=None, repr=False)
    #: Requested response format; None for the first format that the engine offers.
    response_format: ResponseFormat | None = None
    #: Options from `--jsbench-engine-option KEY=VALUE`; each value is parsed as JSON if possible.
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def public_settings(self) -> dict[str, Any]:
        """Return the settings that may affect answers; texts in options are hidden, because they may be secret."""
        values = {
            "engine": self.name,
            "model": self.model and PurePath(self.model).name,
            "response_format": self.response_format and self.response_format.value,
            **{f"option {name}": _without_texts(value) for name, value in self.options.items()},
        }
        return {name: value for name, value in values.items() if value is not None}


def _without_texts(value: object) -> object:
    if isinstance(value, int | float):
        return value
    if isinstance(value, dict):
        return sorted(map(str, value))
    return "…"


#: Paths of the APIs that llama.cpp's server has, among those for which an engine can forward an application's calls.
OPENAI_AND_ANTHROPIC_APIS = ("/chat/completions", "/responses", "/messages")
#: Names of Gemini's methods, as paths; the path of a call at the provider also contains the version and the model.
GEMINI_APIS = ("/generateContent", "/streamGenerateContent")
#: Paths of all APIs for which an engine can forward an application's calls.
FORWARDABLE_APIS = (*OPENAI_AND_ANTHROPIC_APIS, *GEMINI_APIS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """Size limits of one batch."""

    requests: int
    #: Maximum total size of the batch's lines, in bytes.
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """The progress of a batch."""

    ended: bool
    answered: int
    failed: int
    total: int
    #: Outcome for each request without a result; None while the batch may still produce results.
    unanswered: Failed | None = None


#: Name of a request in a batch, and the outcome of the request.
Result = tuple[str, Completion | Declined | Failed]


class Batches(Protocol):
    """The batch API of one provider, called from one thread; errors are raised as CallError."""

    @property
    def limits(self) -> BatchLimits:
        """The provider's size limits for one batch."""

    def line(self, name: str, request: Request) -> bytes:
        """Return the request as one line of a batch, with the same body as a single call."""

    def upload(self, lines: Sequence[bytes]) -> Callable[[], str]:
        """
        Upload the requests free of charge; return a function that starts the paid batch and returns the batch's
        identifier.
        """

    def state(self, batch: str) -> BatchState:
        """Fetch the batch's progress."""

    def results(self, batch: str) -> Iterator[Result]:
        """
        Yield the outcomes of the batch's requests in any order; a request that was never processed
        may have no outcome.
        """

    def close(self) -> None:
        """Close the connections."""


class EngineFactory(ABC):
    """
    Base class for the factory of an engine. `describe` and `build` are required; the other members state what else the
    engine can do, and have defaults.

    Methods raise EngineError with a message that states how to fix the problem.
    """

    #: Whether `concurrency` limits the whole run, because all processes share a server; otherwise, it limits each
    #: process.
    shared: bool = False
    #: Default maximum number of tokens in an answer.
    max_tokens: int = 2048
    #: Paths of the APIs for which the engine forwards an application's calls.
    passes_on: Sequence[str] = ()
    #: Names of the engine options, for lists of engines; None if they are not known.
    options: frozenset[str] | None = None
    #: Model if the user names none, for lists of engines; None if there is no default.
    default_model: str | None = None

    @property
    def concurrency(self) -> int:
        """Recommended number of concurrent calls to one engine: 16, because rate limits are handled by waiting."""
        return 16

    def slots(self, config: EngineConfig) -> int:  # noqa: ARG002  for engines that override it
        """
        Return the recommended number of concurrent calls for this configuration; override it for a server that
        processes a limited number of calls at once, since the timeout of waiting calls keeps running.
        """
        return self.concurrency

    def check(self, config: EngineConfig) -> None:  # noqa: B027  optional
        """
        Check that packages, keys and files exist and that all options are known, without importing
        large packages.
        """

    @abstractmethod
    def describe(self, config: EngineConfig) -> EngineInfo:
        """Describe the engine, without building it."""

    def prepare(self, config: EngineConfig) -> AbstractContextManager[EngineConfig]:
        """Start the resources that all processes of a run share, such as a server; yield the config for `build`."""
        return nullcontext(config)

    @abstractmethod
    def build(self, config: EngineConfig) -> Engine:
        """Build the engine; called in each process that makes the engine's calls."""

    def sampled(self, config: EngineConfig, params: GenerationParams) -> GenerationParams:  # noqa: ARG002  as `slots`
        """
        Return the sampling parameters that the engine applies if `params` is requested; a parameter is None if the
        provider chooses the value.
        """
        return params

    def model_file(self, config: EngineConfig) -> Path | None:  # noqa: ARG002  as `slots`
        """
        Return the model file that the engine serves on this machine; None for any other engine, and for a configuration
        from `prepare`, which contains only an alias.
        """
        return None

    def build_matcher(self, config: EngineConfig) -> GrammarMatcher:
        """Build the matcher for the engine's grammar; defined only if the grammar can check texts without a model."""
        raise NotImplementedError

    def build_batches(self, config: EngineConfig) -> Batches:
        """Build the client of the provider's batch API; defined only if the provider has one."""
        raise NotImplementedError

    @property
    def has_matcher(self) -> bool:
        """Whether the engine defines `build_matcher`."""
        return type(self).build_matcher is not EngineFactory.build_matcher

    @property
    def has_batches(self) -> bool:
        """Whether the engine defines `build_batches`."""
        return type(self).build_batches is not EngineFactory.build_batches


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A server's URL, split into the address, the credentials and the query."""

    #: Scheme, host, port and path; safe to print.
    url: str
    #: User and password, sent as Basic authentication; None if not given.
    userinfo: tuple[str, str] | None = field(default=None, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse an HTTP URL; for any other text, raise ValueError with a message that does not quote the text."""
        parts = urlsplit(text.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError("expected http://host:port/path or https://…")
        # After an unescaped ? or # in a password, the rest of the URL is parsed as the query or fragment.
        if "@" in parts.query + parts.fragment:
            raise ValueError("found @ after ? or #; in a password, write %40 for @, %3F for ? and %23 for #")
        userinfo, at, place = parts.netloc.rpartition("@")
        user, _, password = userinfo.partition(":")
        return cls(
            url=urlunsplit((parts.scheme, place, parts.path, "", "")),
            userinfo=(unquote(user), unquote(password)) if at else None,
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
        )


def without_credentials(text: str) -> str:
    """Replace the user, the password and the query in a URL by `…`, so that the URL can be printed."""
    try:
        address = Address.parse(text)
    except ValueError:
        return "…" if any(sign in text for sign in "@?#") else text
    scheme, _, rest = address.url.partition("://")
    userinfo = "…@" if address.userinfo else ""
    query = "?…" if address.query else ""
    return f"{scheme}://{userinfo}{rest}{query}"


def origin(url: str) -> tuple[str, str, int | None]:
    """Return the scheme, host and port of a URL, for comparing servers."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or {"http": 80, "https": 443}.get(parts.scheme)
