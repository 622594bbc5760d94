"""Engines, factories and batches: the protocols that those of this package and of others keep to."""

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
    """Turns a request into text; called from several threads at once."""

    @property
    def info(self) -> EngineInfo:
        """Its identity, for reports."""

    def generate(self, request: Request) -> Completion | Declined:
        """Make one call, without retries; CallError where it fails, with the kind of fault."""

    def close(self) -> None:
        """Close the connections; called once, in the process that built the engine."""


@runtime_checkable
class TokenCounter(Protocol):
    """An engine that can say, for little and without a paid call, how long a prompt is."""

    def count_tokens(self, prompt: Prompt) -> int | None:
        """The tokens of the prompt, as the model gets it; None where it could not be found out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """An answer of before to the same question, and the model that gave it."""

    answer: Completion | Declined
    model: str


@runtime_checkable
class Rememberer(Protocol):
    """An engine that may have an answer of before, for which nobody is called and nothing is paid."""

    def remembered(self, request: Request) -> Remembered | None:
        """The answer; None where the question must be asked, CallError where that cannot be known."""


@runtime_checkable
class TextTokenizer(Protocol):
    """An engine that can say, for little and without a paid call, of which tokens a text is made."""

    def tokenize(self, text: str) -> Sequence[int] | None:
        """The model's tokens of the text; None where they could not be found out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """The texts that a grammar takes, in their order."""

    #: None where the model has no tokens for a text
    accepted: tuple[bool | None, ...]
    #: seconds to compile the grammar, up to the first mask
    grammar_compilation: float
    #: seconds of these before the first mask is asked for; None where nobody measured
    compile_time: float | None = None
    #: seconds from one mask to the next, of each token of the texts; empty where nobody measured
    masks: tuple[float, ...] = ()
    #: the decoding library, with its version; empty if the engine does not name one
    library: str = ""


class Acceptor(Protocol):
    """Says which answers an engine's grammar takes, without a model; called from several threads at once."""

    def accepts(self, schema: Schema, texts: Sequence[str]) -> Acceptance | Declined:
        """Ask the schema's grammar for each text; CallError where the library hangs or crashes."""

    def close(self) -> None:
        """End the library's processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The user's options for the engine; JSON values only, because xdist sends them to the workers."""

    name: str
    model: str | None = None
    base_url: str | None = field(default=None, repr=False)
    api_key_env: str | None = None
    #: a key that no user gave, such as the local server's own; never written anywhere
    api_key: str | None = field(default=None, repr=False)
    #: None: the engine's strongest
    response_format: ResponseFormat | None = None
    #: `--jsbench-engine-option KEY=VALUE`, values read as JSON where they are JSON
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def said(self) -> dict[str, Any]:
        """The options that may change answers, as they may be kept: without the values that may hold a secret."""
        values = {
            "engine": self.name,
            "model": self.model and PurePath(self.model).name,
            "response_format": self.response_format and self.response_format.value,
            **{f"option {name}": _kept(value) for name, value in self.options.items()},
        }
        return {name: value for name, value in values.items() if value is not None}


def _kept(value: object) -> object:
    if isinstance(value, int | float):
        return value
    return sorted(map(str, value)) if isinstance(value, dict) else "…"


#: the APIs in which an application's own calls can be passed on
PASSED_ON = ("/chat/completions", "/responses", "/messages")


class EngineFactory(Protocol):
    """Builds an engine; each step raises EngineError with the next step in its message."""

    @property
    def concurrency(self) -> int:
        """The number of calls that an engine is best given at once."""

    @property
    def shared(self) -> bool:
        """True where that number is of the whole run (one server of ours), and not of each process."""

    @property
    def max_tokens(self) -> int:
        """The most tokens of an answer, unless the user says."""

    def check(self, config: EngineConfig) -> None:
        """See, without a heavy import, that packages, keys and files are there and options are known."""

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Describe the engine, without building it."""

    def prepare(self, config: EngineConfig) -> AbstractContextManager[EngineConfig]:
        """Start what all processes of a run share (a server); yields the configuration that reaches it."""

    def build(self, config: EngineConfig) -> Engine:
        """The engine, in the process that will call it."""


class UnsharedFactory:
    """The base of factories whose processes share nothing: each makes up to 16 calls at once."""

    shared = False
    max_tokens = 2048

    @property
    def concurrency(self) -> int:
        """16: a provider's own limits are met by waiting, not by asking less at once."""
        return 16

    def prepare(self, config: EngineConfig) -> AbstractContextManager[EngineConfig]:
        """Nothing is started: the configuration as it is."""
        return nullcontext(config)


@runtime_checkable
class PassingFactory(Protocol):
    """A factory of an engine that passes on the calls that an application makes for itself."""

    @property
    def passes_on(self) -> Sequence[str]:
        """In which of the APIs."""


@runtime_checkable
class Sampler(Protocol):
    """A factory of an engine that does not sample just as it is asked to."""

    def sampled(self, config: EngineConfig, params: GenerationParams) -> GenerationParams:
        """The parameters of answers that are asked for with these; what the provider decides stays None."""


@runtime_checkable
class ServingFactory(Protocol):
    """A factory of an engine that serves a model's file on this machine."""

    def model_file(self, config: EngineConfig) -> Path | None:
        """The file; None for a configuration that `prepare` has given out, which knows the model by its alias."""

    def slots(self, config: EngineConfig) -> int:
        """The number of calls that the server answers at once; the others wait in it, and their time goes on."""


@runtime_checkable
class AcceptorFactory(Protocol):
    """A factory of an engine that can also say which answers its grammar takes."""

    def build_acceptor(self, config: EngineConfig) -> Acceptor:
        """Build what says which answers the grammar takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """The most that one batch may hold."""

    requests: int
    #: bytes of all its lines
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """The progress of a batch."""

    ended: bool
    answered: int
    failed: int
    total: int
    #: how a request ended that the results do not hold; None while it may still be answered
    unanswered: Failed | None = None


#: a request's name, and how it ended
Result = tuple[str, Completion | Declined | Failed]


class Batches(Protocol):
    """A provider's batches, from one thread; CallError for what the provider will not do."""

    @property
    def limits(self) -> BatchLimits:
        """The most that one batch may hold."""

    def line(self, name: str, request: Request) -> bytes:
        """The request as the batch holds it, with the body that a call of its own would have had."""

    def upload(self, lines: Sequence[bytes]) -> Callable[[], str]:
        """Do all that costs nothing; what is returned makes the batch, which is paid for, and gives its id."""

    def state(self, batch: str) -> BatchState:
        """Ask how it is getting on."""

    def results(self, batch: str) -> Iterator[Result]:
        """Read how its requests ended, in any order; there may be no result of one that was never made."""

    def close(self) -> None:
        """Close the connections."""


@runtime_checkable
class BatchFactory(Protocol):
    """A factory of an engine whose provider has a batch API."""

    def build_batches(self, config: EngineConfig) -> Batches:
        """Build what hands batches in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The place of a server, and what was written beside it in the same URL."""

    #: scheme, host, port and path: fit to be shown
    url: str
    #: user and password, sent as Basic authentication; None where there are none
    userinfo: tuple[str, str] | None = field(default=None, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read a URL; ValueError, which does not quote it, for what is none."""
        parts = urlsplit(text.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError("expected http://host:port/path or https://…")
        # a password with a / # or ? that is not written as %2F, %23 or %3F puts its rest there
        if "@" in parts.query + parts.fragment:
            raise ValueError("an @ stands behind a ? or #; in a password these are written %40, %3F and %23")
        userinfo, at, place = parts.netloc.rpartition("@")
        user, _, password = userinfo.partition(":")
        return cls(
            url=urlunsplit((parts.scheme, place, parts.path, "", "")),
            userinfo=(unquote(user), unquote(password)) if at else None,
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
        )


def without_credentials(text: str) -> str:
    """The URL as it may be shown: `…` in the place of user and password, and of the query."""
    try:
        address = Address.parse(text)
    except ValueError:
        return "…" if any(sign in text for sign in "@?#") else text
    scheme, _, rest = address.url.partition("://")
    return f"{scheme}://{'…@' if address.userinfo else ''}{rest}{'?…' if address.query else ''}"


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of a URL, by which two servers are told apart."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or {"http": 80, "https": 443}.get(parts.scheme)
