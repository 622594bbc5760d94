"""
Implement the engines `llguidance`, `outlines` and `xgrammar`, which constrain the embedded model of `local` by a
grammar.

For `llguidance`, the server masks tokens with its own copy of llguidance, and gets the grammar in the field `grammar`
of the request. The package llguidance compiles each schema before the call, to report unsupported schemas and to
measure the compile time. The server's copy may have another version, and silently ignores a grammar that it does not
support. The grammar therefore requires a canary token before the document: an answer without the canary was not
constrained.

The engines `outlines` and `xgrammar` generate token by token. The server returns the most likely tokens, and the
library masks them. At temperature 0, the most likely allowed token is chosen; otherwise, a token is sampled from the
softmax over the allowed tokens.
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
    Usage,
)
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines import local
from pytest_jsbench.engines.base import EngineConfig, EngineFactory
from pytest_jsbench.engines.engine_options import Options, choose_format, package_version, require_package
from pytest_jsbench.engines.http.calls import Deadline, EnclosedError, convert_parsing_errors, parse_json
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

#: Options of the server, with the same meaning as for the engine `local`.
_SERVER_OPTIONS = frozenset({"slots", "context", "threads", "start_timeout", "top_p"})
OPTIONS = _SERVER_OPTIONS | {"bounded", "compile_timeout", "mask_timeout", "memory"}
#: Option with the path of the model's file; `prepare` adds it, since other processes know only the model's alias.
MODEL_FILE = "model_file"
#: A single token with which no JSON document starts.
CANARY = "@"

#: Minimum and maximum number of tokens per request to the server. The number is doubled as long as the grammar allows
#: the most likely tokens; otherwise it is reset to the minimum.
_FEWEST_TOKENS = 1
_MOST_TOKENS = 8
#: Numbers of candidates to request for each token: first the smaller number; if the grammar allows none of the
#: candidates, the larger number, and then the whole vocabulary.
_FEW_CANDIDATES = 60
_MANY_CANDIDATES = 2000
#: `Sent` value for errors: requests to the server contain no schema, so that no error concerns a schema.
_SENT = Sent(response_format=ResponseFormat.TEXT)
#: Seconds between attempts to lock a slot while all slots are in use.
_PAUSE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingSettings:
    """Settings of a decoding library and of the model's server."""

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
    """Return the configuration of the embedded model's server, without the options of the decoding library."""
    options = {name: value for name, value in config.options.items() if name in _SERVER_OPTIONS}
    return replace(config, options=options)


def model_file(config: EngineConfig) -> str:
    """Return the path of the model's GGUF file: the path from `prepare`, or else the file that `local` finds."""
    given = config.options.get(MODEL_FILE)
    return str(given) if given is not None else str(local.find_model_file(config).resolve())


class _GrammarEngine(local.LocalEngine):
    def __init__(
        self, config: EngineConfig, settings: local.LocalSettings, info: EngineInfo, grammars: Grammars
    ) -> None:
        super().__init__(config, settings, info)
        self._grammars = grammars

    def close(self) -> None:
        """Close the client's connections and end the library's processes; `prepare` stops the server."""
        super().close()
        self._grammars.close()


class LLGuidanceEngine(_GrammarEngine):
    """An engine that calls the local server with a grammar in llguidance's format."""

    def generate(self, request: Request) -> Completion | Declined:
        """
        Compile the schema, then make one call. The server compiles the schema again; this second compilation does not
        count as compile time.
        """
        deadline = Deadline(request.params.timeout)
        with self._grammars.reserve_process() as process:
            grammar = self._grammars.compile(process, request.schema, deadline)
        if isinstance(grammar, Declined):
            return grammar
        # one more token, for the canary
        sampled = local.with_default_temperature(request.params)
        params = structs.replace(sampled, max_tokens=request.params.max_tokens + 1)
        body = {**self._settings.extra_body, "grammar": to_grammar(self._grammars.prepare_schema(request.schema))}
        # the grammar replaces the schema in the request
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
    """Return the answer without the canary; if the canary is missing, return Declined for an unsupported schema."""
    if not answer.text.startswith(CANARY):
        declined = local.decline_schema("the server ignored the grammar; its version of llguidance may not support it")
        return structs.replace(declined, timing=answer.timing, usage=answer.usage, sent=answer.sent)
    tokens = answer.usage.output_tokens
    return structs.replace(
        answer,
        text=answer.text.removeprefix(CANARY),
        timing=answer.timing and grammar.with_grammar_times(answer.timing),
        usage=replace(answer.usage, output_tokens=None if tokens is None else tokens - 1),
    )


class MaskedEngine(_GrammarEngine):
    """An engine that chooses each token itself, among the embedded model's candidates that the grammar allows."""

    def __init__(
        self, config: EngineConfig, settings: local.LocalSettings, info: EngineInfo, grammars: Grammars
    ) -> None:
        super().__init__(config, settings, info, grammars)
        self._context = settings.context
        self._slots = Slots(settings.slots, key=self._key.value)
        self._vocabulary = Vocabulary.from_gguf(Path(model_file(config)))
        self._top_p = 1.0 if settings.top_p is None else settings.top_p

    def generate(self, request: Request) -> Completion | Declined:
        """Compile the schema, then generate token by token; start again if the server was restarted."""
        return self.retry_after_restart(request, lambda: self._generate(request))

    def _generate(self, request: Request) -> Completion | Declined:
        # the time spent waiting for a slot is not measured
        with self._grammars.reserve_process() as process, self._slots.lend() as slot:
            deadline = Deadline(request.params.timeout)
            watch = Stopwatch()
            if (declined := self.check_prompt(request.prompt)) is not None:
                return declined
            grammar = self._grammars.compile(process, request.schema, deadline)
            if isinstance(grammar, Declined):
                return structs.replace(grammar, timing=watch.stop())
            prompt = self._read_prompt(request.prompt, deadline)
            # llama.cpp ends an answer at the same limit
            most = min(request.params.max_tokens, self._context - len(prompt))
            if most <= 0:
                message = f"request ({len(prompt)} tokens) exceeds the available context size ({self._context} tokens)"
                return Declined(reason=DeclineReason.CONTEXT_LENGTH, message=message, timing=watch.stop())
            params = structs.replace(request.params, max_tokens=most)
            tokens, state = self._walk(grammar, prompt, params, slot, deadline)
            timing = grammar.with_grammar_times(watch.stop())
        if len(tokens) > most or (len(tokens) == most and state is not State.DONE):
            finish_reason = FinishReason.LENGTH
        else:  # at a dead end of the grammar, the incomplete document is the answer
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
        Choose tokens until the document ends or the limit is reached; the last step may exceed the limit by a few
        tokens.
        """
        most = params.max_tokens
        sampling = {"temperature": params.temperature, "top_p": self._top_p, "seed": params.seed}
        step = grammar.begin(sampling if params.temperature else None, deadline)
        tokens = list(step.taken)
        count = _FEWEST_TOKENS
        breadth = _FEW_CANDIDATES
        fresh = True
        while len(tokens) < most and step.state in (State.OPEN, State.STUCK):
            offered = self._rank(
                [*prompt, *tokens],
                count=min(count, most - len(tokens)),
                breadth=breadth,
                slot=slot,
                fresh=fresh,
                deadline=deadline,
            )
            step = grammar.step(offered, deadline)
            fresh = False
            tokens += step.taken
            if step.state is not State.STUCK:
                count = min(2 * count, _MOST_TOKENS) if len(step.taken) >= count else _FEWEST_TOKENS
                breadth = _FEW_CANDIDATES
            elif step.taken:
                count = _FEWEST_TOKENS
                breadth = _MANY_CANDIDATES
            elif breadth < len(self._vocabulary.tokens):
                count = _FEWEST_TOKENS
                breadth = _MANY_CANDIDATES if breadth == _FEW_CANDIDATES else len(self._vocabulary.tokens)
            else:
                break
        return tokens, step.state

    def _read_prompt(self, prompt: Prompt, deadline: Deadline) -> list[int]:
        """Return the prompt's tokens, after the server has applied the chat template."""
        rendered = self._post("/apply-template", {"messages": prompt.to_messages()}, deadline)["prompt"]
        body = {"content": rendered, "add_special": True, "parse_special": True}
        return [int(token) for token in self._post("/tokenize", body, deadline)["tokens"]]

    def _rank(
        self, tokens: Sequence[int], *, count: int, breadth: int, slot: int, fresh: bool, deadline: Deadline
    ) -> list[Offered]:
        """
        Return the model's most likely tokens for each of the next positions, without constraints.

        With `fresh`, the server uses no cached state, so that an answer depends only on its own request.
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
            raise CallError(FaultKind.BAD_RESPONSE, "the server returned no candidates for the next token")
        return [[(top["id"], top["logprob"]) for top in position["top_logprobs"]] for position in positions]

    def _post(self, path: str, body: Mapping[str, Any], deadline: Deadline) -> Any:
        try:
            with (
                convert_parsing_errors(),
                closing(self._client.post(self.build_url(path), body, deadline=deadline)) as response,
            ):
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
    Locks for the server's slots, so that only one call at a time uses a slot, across all processes.

    The next request of the same call reuses the state of the slot. Another call in between would discard this state,
    and recomputing the state gives slightly different probabilities.
    """

    def __init__(self, count: int, *, key: str) -> None:
        self._count = count
        # the key makes the name of the directory unique to this run
        self._folder = slots_folder(key)
        self._folder.mkdir(mode=0o700, exist_ok=True)

    @contextmanager
    def lend(self) -> Iterator[int]:
        """Yield the number of a free slot, waiting if all are in use; release the slot at the end of the block."""
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
    """Return the directory with the lock files of the slots, for the server with this API key."""
    name = hashlib.sha256(f"slots of {key}".encode()).hexdigest()[:24]
    return Path(tempfile.gettempdir()) / f"pytest-jsbench-{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingFactory(EngineFactory):
    """Factory of an engine that serves the model like the engine `local`, and constrains it by a grammar."""

    #: Name of the library, which is also the name of the engine and of the extra.
    library: str
    module: str
    distribution: str
    minimum: tuple[int, ...]
    #: Whether the engine chooses each token; otherwise the server does.
    masked: bool

    options = OPTIONS
    default_model = local.DEFAULT_MODEL
    concurrency = local.SLOTS
    shared = True
    max_tokens = local.LocalFactory.max_tokens

    def check(self, config: EngineConfig) -> None:
        """Check that the packages are installed, the model's file exists, and all options are known."""
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
        """
        Return the parameters with a default temperature of 0; remove the seed if the engine does not
        sample tokens.
        """
        sampled = local.FACTORY.sampled(config, params)
        return structs.replace(sampled, seed=None) if self.masked and not sampled.temperature else sampled

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
        described = local.FACTORY.describe(server_config(config))
        return replace(described, streaming=not self.masked, details=details, offers_tools=False)

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
        local.find_server(config)
        settings = DecodingSettings.from_config(config)
        engine = MaskedEngine if self.masked else LLGuidanceEngine
        return engine(config, settings.server, self.describe(config), self.build_matcher(config))

    def build_matcher(self, config: EngineConfig) -> Grammars:
        """Build the grammars, which can also check answers without a server."""
        settings = DecodingSettings.from_config(config)
        model = model_file(config)
        memory = settings.memory << 30
        start_timeout = settings.server.start_timeout
        return Grammars(
            [
                LibraryProcess(self.library, model, memory=memory, start_timeout=start_timeout)
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
