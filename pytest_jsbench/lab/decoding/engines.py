"""
The engines `llguidance`, `outlines` and `xgrammar`: the model that `local` serves, held to a grammar.

The server has its own llguidance, which it gets through the field `grammar`. The package llguidance compiles each
schema first: what it says it cannot do is unsupported, and the seconds are the grammar's. The server's copy of the
library may be another version, and drops a grammar that it cannot do without a word. So a canary stands before the
document in the grammar: an answer without it was not held to any.

The other two are asked token by token. The server says which tokens the model likes best, the library which of them
may come: the likeliest that may is taken, or at a temperature one is drawn from the softmax over those that may.
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

#: of the server, as the engine `local` takes them
_SERVER_OPTIONS = frozenset({"slots", "context", "threads", "start_timeout", "top_p"})
OPTIONS = _SERVER_OPTIONS | {"bounded", "compile_timeout", "mask_timeout", "memory"}
#: put there by `prepare`, for the processes that only know the model's alias
MODEL_FILE = "model_file"
#: one token, which begins no JSON and no answer
CANARY = "@"

#: positions asked for at once: more while the model keeps to the grammar by itself, one after it did not
_FEWEST, _MOST = 1, 8
#: of the likeliest tokens; where none of them may come more are asked for, and then all
_FEW, _MANY = 60, 2000
#: without a schema: whatever the server says against a request is no word about one
_SENT = Sent(response_format=ResponseFormat.TEXT)
#: seconds between two looks for a slot that another process holds
_PAUSE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingSettings:
    """The user's settings of the library, and of the server under it."""

    #: whether schemas are narrowed (`bounded`) before the library sees them
    bounded: bool
    #: seconds for one grammar
    compile_timeout: int
    #: seconds for the masks of one request to the model
    mask_timeout: int
    #: gigabytes that the library may use
    memory: int
    server: local.LocalSettings

    @classmethod
    def from_config(cls, config: EngineConfig) -> DecodingSettings:
        """Read what a user said; EngineError for what cannot be done."""
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
    """The part of the configuration that is the embedded model's server's."""
    options = {name: value for name, value in config.options.items() if name in _SERVER_OPTIONS}
    return replace(config, options=options)


def model_file(config: EngineConfig) -> str:
    """Return the path of the GGUF file, also for a configuration that knows the model by its alias."""
    given = config.options.get(MODEL_FILE)
    return str(given) if given is not None else str(local.find_model_file(config).resolve())


class _GrammarEngine(local.LocalEngine):
    def __init__(
        self, config: EngineConfig, settings: local.LocalSettings, info: EngineInfo, grammars: Grammars
    ) -> None:
        super().__init__(config, settings, info)
        self._grammars = grammars

    def close(self) -> None:
        """Close the client's connections and end the library's processes; the server is `prepare`'s."""
        super().close()
        self._grammars.close()


class LLGuidanceEngine(_GrammarEngine):
    """Calls the local server with a grammar in llguidance's own words."""

    def generate(self, request: Request) -> Completion | Declined:
        """Compile the schema, then make one call; both compile it, and only the package's time is the grammar's."""
        deadline = Deadline(request.params.timeout)
        with self._grammars.loaded() as process:
            grammar = self._grammars.compile(process, request.schema, deadline)
        if isinstance(grammar, Declined):
            return grammar
        # one more token, for the canary
        params = replace(local.at_zero(request.params), max_tokens=request.params.max_tokens + 1)
        body = {**self._settings.extra_body, "grammar": to_grammar(self._grammars.given(request.schema))}
        # the grammar stands for the schema
        settings = replace(self._settings, response_format=ResponseFormat.TEXT, extra_body=body)
        sent = self._grammars.to_sent(request.schema)
        outcome = self.ask(replace(request, params=params), sent=sent, deadline=deadline, settings=settings)
        return outcome if isinstance(outcome, Declined) else _without_canary(outcome, grammar)


def to_grammar(schema: Schema) -> str:
    """The grammar that the server is sent: the canary, then a document that conforms to the schema."""
    plain = {} if isinstance(schema, bool) else schema
    embedded = json.dumps({**plain, "x-guidance": guidance_options()})
    return f'%llguidance {{}}\nstart: "{CANARY}" %json {embedded}'


def _without_canary(answer: Completion, grammar: Grammar) -> Completion | Declined:
    """The answer as it is without its first token; declined where that is missing."""
    if not answer.text.startswith(CANARY):
        declined = local.unsupported("the server's own llguidance, of another version, took no such grammar")
        return structs.replace(declined, timing=answer.timing, usage=answer.usage, sent=answer.sent)
    tokens = answer.usage.output_tokens
    return structs.replace(
        answer,
        text=answer.text.removeprefix(CANARY),
        timing=answer.timing and grammar.timed(answer.timing),
        usage=replace(answer.usage, output_tokens=None if tokens is None else tokens - 1),
    )


class MaskedEngine(_GrammarEngine):
    """Walks the embedded model through a library's grammar, of which it takes each token itself."""

    def __init__(
        self, config: EngineConfig, settings: local.LocalSettings, info: EngineInfo, grammars: Grammars
    ) -> None:
        super().__init__(config, settings, info, grammars)
        self._context = settings.context
        self._slots = Slots(settings.slots, key=self._key.value)
        self._vocabulary = Vocabulary.from_gguf(Path(model_file(config)))
        self._top_p = 1.0 if settings.top_p is None else settings.top_p

    def generate(self, request: Request) -> Completion | Declined:
        """Compile the schema, then take token after token; waiting for a slot is in no time."""
        with self._grammars.loaded() as process, self._slots.lent() as slot:
            deadline, watch = Deadline(request.params.timeout), Stopwatch()
            if (declined := self.declined(request.prompt)) is not None:
                return declined
            grammar = self._grammars.compile(process, request.schema, deadline)
            if isinstance(grammar, Declined):
                return structs.replace(grammar, timing=watch.stop())
            prompt = self._read_prompt(request.prompt, deadline)
            # as llama.cpp ends an answer that it samples itself
            most = min(request.params.max_tokens, self._context - len(prompt))
            if most <= 0:
                message = f"request ({len(prompt)} tokens) exceeds the available context size ({self._context} tokens)"
                return Declined(reason=DeclineReason.CONTEXT_LENGTH, message=message, timing=watch.stop())
            tokens, state = self._walk(grammar, prompt, replace(request.params, max_tokens=most), slot, deadline)
            timing = grammar.timed(watch.stop())
        if len(tokens) > most or (len(tokens) == most and state is not State.DONE):
            finish_reason = FinishReason.LENGTH
        else:  # or a dead end of the grammar's own making: what there is of the document is the answer
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
        """Take tokens until the document ends, or there are enough; the last step may bring a few too many."""
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
        """Return the tokens by which the model is asked."""
        rendered = self._post("/apply-template", {"messages": prompt.to_messages()}, deadline)["prompt"]
        body = {"content": rendered, "add_special": True, "parse_special": True}
        return [int(token) for token in self._post("/tokenize", body, deadline)["tokens"]]

    def _rank(
        self, tokens: Sequence[int], *, count: int, breadth: int, slot: int, fresh: bool, deadline: Deadline
    ) -> list[Offered]:
        """
        Return the likeliest tokens at each of the next positions, as the model itself would go on.

        Fresh: nothing that was computed before is used, so that an answer depends on its own request alone.
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
            raise CallError(FaultKind.BAD_RESPONSE, "the server offered no token to go on with")
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
            outcome = CallError(FaultKind.BAD_RESPONSE, f"{path} was answered with a text")
        raise outcome


class Slots:
    """
    The server's slots, each lent to one call of one process at a time.

    What a slot has computed for a call is used by the next request of that call: another call in between would take
    it away, and what is computed again comes out a little differently.
    """

    def __init__(self, count: int, *, key: str) -> None:
        self._count = count
        # a folder that all processes of the run know, and nobody else
        self._folder = slots_folder(key)
        self._folder.mkdir(mode=0o700, exist_ok=True)

    @contextmanager
    def lent(self) -> Iterator[int]:
        """Lend a free slot by its number, for the length of the block; wait for one."""
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
    """Return where the locks of the slots are, for the server of that key."""
    name = hashlib.sha256(f"slots of {key}".encode()).hexdigest()[:24]
    return Path(tempfile.gettempdir()) / f"pytest-jsbench-{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingFactory:
    """Serves the model as the engine `local` does, and builds what holds it to a library's grammar."""

    #: the library's name, which is the engine's and the extra's
    library: str
    module: str
    distribution: str
    minimum: tuple[int, ...]
    #: whether the engine takes each token itself; else the server does
    masked: bool

    options = OPTIONS
    default_model = local.DEFAULT_MODEL
    concurrency = local.SLOTS
    shared = True
    max_tokens = local.LocalFactory.max_tokens

    def check(self, config: EngineConfig) -> None:
        """See that the packages and the model's file are there, and that every option is known."""
        DecodingSettings.from_config(config)
        require_package(config.name, self.module, extra=self.library, minimum=self.minimum)
        if self.masked:
            require_package(config.name, "filelock", extra=self.library)
        local.FACTORY.check(server_config(config))

    def slots(self, config: EngineConfig) -> int:
        """The slots of the server, as the engine `local` has them."""
        return local.FACTORY.slots(config)

    def model_file(self, config: EngineConfig) -> Path | None:
        """The GGUF file, as the engine `local` has it."""
        return local.FACTORY.model_file(config)

    def sampled(self, config: EngineConfig, params: GenerationParams) -> GenerationParams:
        """At temperature 0, unless another is asked for; what only takes the likeliest tokens has no seed."""
        sampled = local.FACTORY.sampled(config, params)
        return replace(sampled, seed=None) if self.masked and not sampled.temperature else sampled

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Who the engine will be."""
        settings = DecodingSettings.from_config(config)
        details = {
            self.distribution: package_version(self.distribution),
            "xllamacpp": package_version("xllamacpp"),
            "bounded": settings.bounded,
            "compile_timeout": settings.compile_timeout,
            **local.top_p_said(settings.server.top_p),
        }
        return replace(local.FACTORY.describe(server_config(config)), streaming=not self.masked, details=details)

    @contextmanager
    def prepare(self, config: EngineConfig) -> Iterator[EngineConfig]:
        """Serve the model; what comes out names the server, its key, the model's alias and its file."""
        self.check(config)
        path = model_file(config)
        with local.FACTORY.prepare(server_config(config)) as served:
            try:
                yield replace(served, options={**config.options, MODEL_FILE: path})
            finally:
                shutil.rmtree(slots_folder(str(served.api_key)), ignore_errors=True)

    def build(self, config: EngineConfig) -> LLGuidanceEngine | MaskedEngine:
        """The engine, for a configuration that `prepare` has given out."""
        local.served(config)
        settings = DecodingSettings.from_config(config)
        engine = MaskedEngine if self.masked else LLGuidanceEngine
        return engine(config, settings.server, self.describe(config), self.build_acceptor(config))

    def build_acceptor(self, config: EngineConfig) -> Grammars:
        """Make what says which answers the grammar takes; there is no server behind it."""
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
