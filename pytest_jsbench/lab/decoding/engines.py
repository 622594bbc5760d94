"""
The engines `llguidance`, `outlines` and `xgrammar`: the embedded model of `local`, constrained by a grammar.

For `llguidance`, the server masks tokens with its own copy of llguidance, through the field `grammar`. The package
llguidance compiles each schema first: it reports unsupported schemas, and compile times are measured there. The
server's copy may be another version, and silently ignores a grammar that it does not support. The grammar therefore
begins with a canary before the document: an answer without it was not constrained.

The other two engines are run token by token. The server returns the most likely tokens, and the library masks them: the
most likely allowed token is chosen, or at a temperature one is sampled from the softmax over allowed tokens.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Declined,
    DeclineReason,
    EngineInfo,
    FaultKind,
    FinishReason,
    GenerationParams,
    Request,
    ResponseFormat,
    Sent,
    Stopwatch,
    Usage,
)
from pytest_jsbench.engines import local
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.engine_options import Options, choose_format, package_version, require_package
from pytest_jsbench.engines.http.calls import Deadline, EnclosedError, parse_json, reading
from pytest_jsbench.engines.http.faults import explain_error
from pytest_jsbench.lab.decoding.grammars import Grammars, LibraryProcess
from pytest_jsbench.lab.decoding.libraries import guidance_options
from pytest_jsbench.lab.decoding.vocabulary import Vocabulary
from pytest_jsbench.lab.decoding.walks import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_jsbench.core.cases import Prompt, Schema
    from pytest_jsbench.lab.decoding.grammars import Grammar
    from pytest_jsbench.lab.decoding.walks import Offered

#: Options of the server, the same as for the engine `local`.
_SERVER_OPTIONS = frozenset({"slots", "context", "threads", "start_timeout", "top_p"})
OPTIONS = _SERVER_OPTIONS | {"bounded", "compile_timeout", "mask_timeout", "memory"}
#: Option set by `prepare` for processes that only know the model's alias.
MODEL_FILE = "model_file"
#: A single token that starts neither JSON nor an answer.
CANARY = "@"

#: Number of positions per request: it grows while the model's own choices are allowed, and is reset to one when they
#: are not.
_FEWEST, _MOST = 1, 8
#: Number of most likely tokens to request; if none of them is allowed, the larger number is tried, then all.
_FEW, _MANY = 60, 2000
#: Requests do not send the schema, so no error of the server is about it.
_SENT = Sent(response_format=ResponseFormat.TEXT)
#: Seconds between checks for a slot that another process uses.
_PAUSE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingSettings:
    """Settings of the library and of the server."""

    #: Whether schemas are narrowed (`bounded`) before they are passed to the library.
    bounded: bool
    #: Timeout for compiling a grammar, in seconds.
    compile_timeout: int
    #: Timeout for the masks of one request to the model, in seconds.
    mask_timeout: int
    #: Memory limit of the library, in gigabytes.
    memory: int
    server: local.LocalSettings

    @classmethod
    def from_config(cls, config: EngineConfig) -> DecodingSettings:
        """Read the user's options; raise EngineError if they are invalid."""
        given = {name: value for name, value in config.options.items() if name != MODEL_FILE}
        options = Options(replace(config, options=given), OPTIONS)
        choose_format(config, (ResponseFormat.JSON_SCHEMA,))
        return cls(
            bounded=options.flag("bounded", default=False),
            compile_timeout=options.count("compile_timeout", default=20),
            mask_timeout=options.count("mask_timeout", default=20),
            memory=options.count("memory", default=6),
            server=local.LocalSettings.from_config(server_config(config)),
        )


def server_config(config: EngineConfig) -> EngineConfig:
    """Return the part of the configuration for the embedded model's server."""
    options = {name: value for name, value in config.options.items() if name in _SERVER_OPTIONS}
    return replace(config, options=options)


def model_file(config: EngineConfig) -> str:
    """Return the path of the GGUF file, also for a configuration with only the model's alias."""
    given = config.options.get(MODEL_FILE)
    return str(given) if given is not None else str(local.find_model_file(config).resolve())


class _GrammarEngine(local.LocalEngine):
    def __init__(
        self, config: EngineConfig, settings: local.LocalSettings, info: EngineInfo, grammars: Grammars
    ) -> None:
        super().__init__(config, settings, info)
        self._grammars = grammars

    def close(self) -> None:
        """Close the client's connections and end the library's processes; the server belongs to `prepare`."""
        super().close()
        self._grammars.close()


class LLGuidanceEngine(_GrammarEngine):
    """Calls the local server with a grammar in llguidance's format."""

    def generate(self, request: Request) -> Completion | Declined:
        """
        Compile the schema, then make one call; both compile it, but only the package's time counts
        as compile time.
        """
        deadline = Deadline(request.params.timeout)
        with self._grammars.loaded() as process:
            grammar = self._grammars.compile(process, request.schema, deadline)
        if isinstance(grammar, Declined):
            return grammar
        # One more token for the canary.
        params = replace(local.with_default_temperature(request.params), max_tokens=request.params.max_tokens + 1)
        body = {**self._settings.extra_body, "grammar": to_grammar(self._grammars.given(request.schema))}
        # The grammar replaces the schema.
        settings = replace(self._settings, response_format=ResponseFormat.TEXT, extra_body=body)
        sent = self._grammars.to_sent(request.schema)
        outcome = self.ask(replace(request, params=params), sent=sent, deadline=deadline, settings=settings)
        return outcome if isinstance(outcome, Declined) else _without_canary(outcome, grammar)


def to_grammar(schema: Schema) -> str:
    """Return the grammar for the server: the canary, then a document that conforms to the schema."""
    plain = {} if isinstance(schema, bool) else schema
    embedded = json.dumps({**plain, "x-guidance": guidance_options()})
    return f'%llguidance {{}}\nstart: "{CANARY}" %json {embedded}'


def _without_canary(answer: Completion, grammar: Grammar) -> Completion | Declined:
    """Return the answer without the canary; declined if the canary is missing."""
    if not answer.text.startswith(CANARY):
        declined = local.unsupported("the server's llguidance, which is another version, ignored the grammar")
        return structs.replace(declined, timing=answer.timing, usage=answer.usage, sent=answer.sent)
    tokens = answer.usage.output_tokens
    return structs.replace(
        answer,
        text=answer.text.removeprefix(CANARY),
        timing=answer.timing and grammar.timed(answer.timing),
        usage=replace(answer.usage, output_tokens=None if tokens is None else tokens - 1),
    )


class MaskedEngine(_GrammarEngine):
    """Generates text with the embedded model and a library's grammar, choosing each token itself."""

    def __init__(
        self, config: EngineConfig, settings: local.LocalSettings, info: EngineInfo, grammars: Grammars
    ) -> None:
        super().__init__(config, settings, info, grammars)
        self._context = settings.context
        self._slots = Slots(settings.slots, key=self._key.value)
        self._vocabulary = Vocabulary.from_gguf(Path(model_file(config)))
        self._top_p = 1.0 if settings.top_p is None else settings.top_p

    def generate(self, request: Request) -> Completion | Declined:
        """Compile the schema, then choose token by token; start again if the server was restarted."""
        return self.guarded(request, lambda: self._generate(request))

    def _generate(self, request: Request) -> Completion | Declined:
        # waiting for a slot does not count in any time
        with self._grammars.loaded() as process, self._slots.lend() as slot:
            deadline, watch = Deadline(request.params.timeout), Stopwatch()
            if (declined := self.declined(request.prompt)) is not None:
                return declined
            grammar = self._grammars.compile(process, request.schema, deadline)
            if isinstance(grammar, Declined):
                return structs.replace(grammar, timing=watch.stop())
            prompt = self._read_prompt(request.prompt, deadline)
            # The same limit at which llama.cpp ends an answer.
            most = min(request.params.max_tokens, self._context - len(prompt))
            if most <= 0:
                message = f"request ({len(prompt)} tokens) exceeds the available context size ({self._context} tokens)"
                return Declined(reason=DeclineReason.CONTEXT_LENGTH, message=message, timing=watch.stop())
            tokens, state = self._walk(grammar, prompt, replace(request.params, max_tokens=most), slot, deadline)
            timing = grammar.timed(watch.stop())
        if len(tokens) > most or (len(tokens) == most and state is not State.DONE):
            finish_reason = FinishReason.LENGTH
        else:  # Also at a dead end of the grammar: the incomplete document is the answer.
            finish_reason = FinishReason.STOP if state is State.DONE else FinishReason.UNKNOWN
        spelled = [self._vocabulary.tokens[token] for token in tokens[:most]]
        return Completion(
            text=b"".join(spelled).decode("utf-8", "replace"),
            finish_reason=finish_reason,
            timing=timing,
            usage=Usage(input_tokens=len(prompt), output_tokens=len(spelled)),
            sent=self._grammars.to_sent(request.schema),
        )

    def _walk(
        self, grammar: Grammar, prompt: list[int], params: GenerationParams, slot: int, deadline: Deadline
    ) -> tuple[list[int], State]:
        """
        Choose tokens until the document ends or the limit is reached; the last step may exceed it
        by a few tokens.
        """
        most = params.max_tokens
        sampling = {"temperature": params.temperature, "top_p": self._top_p, "seed": params.seed}
        step = grammar.begin(sampling if params.temperature else None, deadline)
        tokens = list(step.taken)
        count, breadth, fresh = _FEWEST, _FEW, True
        while len(tokens) < most and step.state in (State.OPEN, State.STUCK):
            offered = self._rank(
                [*prompt, *tokens],
                count=min(count, most - len(tokens)),
                breadth=breadth,
                slot=slot,
                fresh=fresh,
                deadline=deadline,
            )
            step, fresh = grammar.step(offered, deadline), False
            tokens += step.taken
            if step.state is not State.STUCK:
                count = min(2 * count, _MOST) if len(step.taken) >= count else _FEWEST
                breadth = _FEW
            elif step.taken:
                count, breadth = _FEWEST, _MANY
            elif breadth < len(self._vocabulary.tokens):
                count, breadth = _FEWEST, _MANY if breadth == _FEW else len(self._vocabulary.tokens)
            else:
                break
        return tokens, step.state

    def _read_prompt(self, prompt: Prompt, deadline: Deadline) -> list[int]:
        """Return the tokens of the prompt."""
        rendered = self._post("/apply-template", {"messages": prompt.to_messages()}, deadline)["prompt"]
        body = {"content": rendered, "add_special": True, "parse_special": True}
        return [int(token) for token in self._post("/tokenize", body, deadline)["tokens"]]

    def _rank(
        self, tokens: Sequence[int], *, count: int, breadth: int, slot: int, fresh: bool, deadline: Deadline
    ) -> list[Offered]:
        """
        Return the most likely tokens at each of the next positions, if the model continued unconstrained.

        With `fresh`, no cached computation is used, so that an answer depends only on its own request.
        """
        body = {
            "prompt": list(tokens),
            "n_predict": count,
            "n_probs": breadth,
            "temperature": 0,
            "id_slot": slot,
            "cache_prompt": not fresh,
        }
        positions = self._post("/completion", body, deadline)["completion_probabilities"]
        if not positions:
            raise CallError(FaultKind.BAD_RESPONSE, "the server returned no next token")
        return [[(top["id"], top["logprob"]) for top in position["top_logprobs"]] for position in positions]

    def _post(self, path: str, body: Mapping[str, Any], deadline: Deadline) -> Any:
        try:
            with reading(), closing(self._client.post(self.beside(path), body, deadline=deadline)) as response:
                return parse_json(response.read().decode())
        except CallError:
            if deadline.passed:
                raise deadline.fault() from None
            raise
        except EnclosedError as error:
            outcome = explain_error(
                error, _SENT, address=self._settings.address.url, model="the model", secret=self._key.value
            )
        if isinstance(outcome, Declined):
            outcome = CallError(FaultKind.BAD_RESPONSE, outcome.message)
        if isinstance(outcome, Completion):
            outcome = CallError(FaultKind.BAD_RESPONSE, f"{path}: expected JSON, got text")
        raise outcome


class Slots:
    """
    The server's slots, each used by one call of one process at a time.

    The state of a slot is reused by the next request of the same call. Another call in between would discard it, and
    recomputing it gives slightly different probabilities.
    """

    def __init__(self, count: int, *, key: str) -> None:
        self._count = count
        # A directory that only the processes of this run know.
        self._folder = slots_folder(key)
        self._folder.mkdir(mode=0o700, exist_ok=True)

    @contextmanager
    def lend(self) -> Iterator[int]:
        """Yield the number of a free slot, waiting for one if necessary; free it at the end of the block."""
        from filelock import FileLock, Timeout

        locks = [FileLock(self._folder / f"{slot}.lock", thread_local=False) for slot in range(self._count)]
        while True:
            for slot, lock in enumerate(locks):
                try:
                    lock.acquire(blocking=False)
                except Timeout:
                    continue
                try:
                    yield slot
                finally:
                    lock.release()
                return
            time.sleep(_PAUSE)


def slots_folder(key: str) -> Path:
    """Return the directory of the locks of the slots, for the server with that key."""
    name = hashlib.sha256(f"slots of {key}".encode()).hexdigest()[:24]
    return Path(tempfile.gettempdir()) / f"pytest-jsbench-{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingFactory:
    """Serves the model in the same way as the engine `local`, and builds the engines that constrain it."""

    #: Name of the library, the engine and the extra.
    library: str
    module: str
    distribution: str
    minimum: tuple[int, ...]
    #: Whether the engine chooses each token itself, rather than the server.
    masked: bool

    options = OPTIONS
    default_model = local.DEFAULT_MODEL
    concurrency = local.SLOTS
    shared = True
    max_tokens = local.LocalFactory.max_tokens

    def check(self, config: EngineConfig) -> None:
        """Check that the packages and the model's file exist and all options are known."""
        DecodingSettings.from_config(config)
        require_package(config.name, self.module, extra=self.library, minimum=self.minimum)
        if self.masked:
            require_package(config.name, "filelock", extra=self.library)
        local.FACTORY.check(server_config(config))

    def slots(self, config: EngineConfig) -> int:
        """Return the number of slots of the server, as for the engine `local`."""
        return local.FACTORY.slots(config)

    def model_file(self, config: EngineConfig) -> Path | None:
        """Return the GGUF file, as for the engine `local`."""
        return local.FACTORY.model_file(config)

    def sampled(self, config: EngineConfig, params: GenerationParams) -> GenerationParams:
        """Default to temperature 0; an engine that always takes the most likely token has no seed."""
        sampled = local.FACTORY.sampled(config, params)
        return replace(sampled, seed=None) if self.masked and not sampled.temperature else sampled

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Return the description of the engine that will be built."""
        settings = DecodingSettings.from_config(config)
        details = {
            self.distribution: package_version(self.distribution),
            "xllamacpp": package_version("xllamacpp"),
            "bounded": settings.bounded,
            "compile_timeout": settings.compile_timeout,
            **local.top_p_details(settings.server.top_p),
        }
        return replace(local.FACTORY.describe(server_config(config)), streaming=not self.masked, details=details)

    @contextmanager
    def prepare(self, config: EngineConfig) -> Iterator[EngineConfig]:
        """Serve the model; yield a configuration with the server's address, its key, and the model's alias and file."""
        self.check(config)
        path = model_file(config)
        with local.FACTORY.prepare(server_config(config)) as served:
            try:
                yield replace(served, options={**config.options, MODEL_FILE: path})
            finally:
                shutil.rmtree(slots_folder(str(served.api_key)), ignore_errors=True)

    def build(self, config: EngineConfig) -> LLGuidanceEngine | MaskedEngine:
        """Build the engine from a configuration that `prepare` returned."""
        local.served(config)
        settings = DecodingSettings.from_config(config)
        engine = MaskedEngine if self.masked else LLGuidanceEngine
        return engine(config, settings.server, self.describe(config), self.build_matcher(config))

    def build_matcher(self, config: EngineConfig) -> Grammars:
        """Build a matcher that decides which answers the grammar accepts, without a server."""
        settings = DecodingSettings.from_config(config)
        model, memory, patience = model_file(config), settings.memory << 30, settings.server.start_timeout
        return Grammars(
            [
                LibraryProcess(self.library, model, memory=memory, start_timeout=patience)
                for _ in range(settings.server.slots)
            ],
            bounded=settings.bounded,
            compile_timeout=settings.compile_timeout,
            mask_timeout=settings.mask_timeout,
            library=f"{self.distribution} {package_version(self.distribution)}",
        )


LLGUIDANCE = DecodingFactory(
    library="llguidance", module="llguidance", distribution="llguidance", minimum=(1, 9), masked=False
)
OUTLINES = DecodingFactory(
    library="outlines", module="outlines_core", distribution="outlines-core", minimum=(0, 2), masked=True
)
XGRAMMAR = DecodingFactory(library="xgrammar", module="xgrammar", distribution="xgrammar", minimum=(0, 2), masked=True)
