"""Define the protocols of engines, engine factories and batches, for this package and for third-party engines."""

from __future__ import annotations

from collections.abc import Mapping
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
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pytest_jsbench.core.cases import Prompt, Schema


class Engine(Protocol):
    """An engine that generates answers; its methods are called from several threads at once."""

    @property
    def info(self) -> EngineInfo:
        """The engine's identity, for reports."""

    def generate(self, request: Request) -> Completion | Declined:
        """Make one call without retries; raise CallError with the kind of fault if it fails."""

    def close(self) -> None:
        """Close the connections; called once, in the process that built the engine."""


@runtime_checkable
class TokenCounter(Protocol):
    """An engine that can count the tokens of a prompt cheaply and without a paid call."""

    def count_tokens(self, prompt: Prompt) -> int | None:
        """Return the number of tokens in the prompt, as the model gets it; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedAnswer:
    """A recorded answer to the same request, and the model that gave it."""

    answer: Completion | Declined
    model: str


@runtime_checkable
class CachingEngine(Protocol):
    """An engine that may have a recorded answer, which needs no call and costs nothing."""

    def remembered(self, request: Request) -> CachedAnswer | None:
        """Return the recorded answer; None if a call is needed. Raise CallError if a recording cannot be read."""


@runtime_checkable
class TextTokenizer(Protocol):
    """An engine that can split a text into the model's tokens, cheaply and without a paid call."""

    def tokenize(self, text: str) -> Sequence[int] | None:
        """Return the identifiers of the text's tokens in the model's vocabulary; None if they are not available."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Which of several texts a grammar accepts, in the order of the texts."""

    #: True for each accepted text; None if the model has no tokens for it.
    accepted: tuple[bool | None, ...]
    #: Seconds to compile the grammar, up to the first mask.
    grammar_compilation: float
    #: The part of these seconds before the first mask is requested; None if not measured.
    compile_time: float | None = None
    #: Seconds per mask, for each token of the texts; empty if not measured.
    masks: tuple[float, ...] = ()
    #: Name and version of the decoding library; empty if the engine does not give one.
    library: str = ""


class GrammarMatcher(Protocol):
    """A grammar that determines which answers it accepts, without a model; called from several threads at once."""

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
    #: A key that the user did not set, such as that of the local server; never written anywhere.
    api_key: str | None = field(default=None, repr=False)
    #: None for the first format that the engine offers.
    response_format: ResponseFormat | None = None
    #: `--jsbench-engine-option KEY=VALUE`; a value is parsed as JSON if possible.
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def said(self) -> dict[str, Any]:
        """Return the options that may change answers, without values that may contain a secret."""
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


#: Paths of the APIs whose calls an engine can forward for an application.
FORWARDABLE_APIS = ("/chat/completions", "/responses", "/messages")


class EngineFactory(Protocol):
    """A factory of one engine; each method raises EngineError, whose message names the next step."""

    @property
    def concurrency(self) -> int:
        """Recommended number of concurrent calls to one engine."""

    @property
    def shared(self) -> bool:
        """True if `concurrency` is for the whole run (one server of ours) instead of each process."""

    @property
    def max_tokens(self) -> int:
        """Default limit of an answer, in tokens."""

    def check(self, config: EngineConfig) -> None:
        """Check, without a heavy import, that packages, keys and files exist and that the options are known."""

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Describe the engine, without building it."""

    def prepare(self, config: EngineConfig) -> AbstractContextManager[EngineConfig]:
        """Start what all processes of a run share, such as a server; yield the configuration for calling it."""

    def build(self, config: EngineConfig) -> Engine:
        """Build the engine, in the process that will call it."""


class UnsharedFactory:
    """Base class of factories whose processes share nothing: each makes up to 16 calls at once."""

    shared = False
    max_tokens = 2048

    @property
    def concurrency(self) -> int:
        """16: rate limits of providers are handled by waiting, not by fewer concurrent calls."""
        return 16

    def prepare(self, config: EngineConfig) -> AbstractContextManager[EngineConfig]:
        """Return the configuration unchanged: there is nothing to start."""
        return nullcontext(config)


@runtime_checkable
class PassingFactory(Protocol):
    """A factory of an engine that forwards calls of an application."""

    @property
    def passes_on(self) -> Sequence[str]:
        """Paths of the APIs whose calls it forwards."""


@runtime_checkable
class Sampler(Protocol):
    """A factory of an engine that does not apply all requested sampling parameters."""

    def sampled(self, config: EngineConfig, params: GenerationParams) -> GenerationParams:
        """Return the parameters that are applied if these are requested; None for those that the provider chooses."""


@runtime_checkable
class ServingFactory(Protocol):
    """A factory of an engine that serves a model file on this machine."""

    def model_file(self, config: EngineConfig) -> Path | None:
        """Return the model file; None for a configuration from `prepare`, which has only the model's alias."""

    def slots(self, config: EngineConfig) -> int:
        """Return how many calls the server processes at once; further calls wait, and their timeout keeps running."""


@runtime_checkable
class GrammarMatcherFactory(Protocol):
    """A factory of an engine that can also report which answers its grammar accepts."""

    def build_matcher(self, config: EngineConfig) -> GrammarMatcher:
        """Build the acceptor of the engine's grammar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """Size limits of one batch."""

    requests: int
    #: Total bytes of its lines.
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """The progress of a batch."""

    ended: bool
    answered: int
    failed: int
    total: int
    #: Outcome of each request that is missing from the results; None while it may still be answered.
    unanswered: Failed | None = None


#: Name of a request, and its outcome.
Result = tuple[str, Completion | Declined | Failed]


class Batches(Protocol):
    """The batch API of one provider, called from one thread; its errors are raised as CallError."""

    @property
    def limits(self) -> BatchLimits:
        """The provider's limits of one batch."""

    def line(self, name: str, request: Request) -> bytes:
        """Return the request as one line of a batch, with the same body as a single call."""

    def upload(self, lines: Sequence[bytes]) -> Callable[[], str]:
        """Do all steps that cost nothing; return a function that creates the paid batch and returns its identifier."""

    def state(self, batch: str) -> BatchState:
        """Fetch the batch's progress."""

    def results(self, batch: str) -> Iterator[Result]:
        """Yield the outcomes of its requests in any order; a request that was never processed may have none."""

    def close(self) -> None:
        """Close the connections."""


@runtime_checkable
class BatchFactory(Protocol):
    """A factory of an engine whose provider has a batch API."""

    def build_batches(self, config: EngineConfig) -> Batches:
        """Build the client of the batch API."""


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
        """Parse a URL; raise ValueError, whose message does not quote it, if it is not an HTTP URL."""
        parts = urlsplit(text.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError("expected http://host:port/path or https://…")
        # the rest of a password with an unescaped /, # or ? ends up in the query or fragment
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
    """Replace user and password, and the query, of a URL by `…`, to print it."""
    try:
        address = Address.parse(text)
    except ValueError:
        return "…" if any(sign in text for sign in "@?#") else text
    scheme, _, rest = address.url.partition("://")
    userinfo = "…@" if address.userinfo else ""
    query = "?…" if address.query else ""
    return f"{scheme}://{userinfo}{rest}{query}"


def origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of a URL, to compare servers."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or {"http": 80, "https": 443}.get(parts.scheme)
