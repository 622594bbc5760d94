"""
The engines `outlines` and `xgrammar`: the embedded model, held to a library's masks token by token.

The server says which tokens the model likes best, the library which of them may come: the likeliest that may is taken,
or at a temperature one is drawn from the softmax over those that may.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_jsbench.core.generations import Completion, Declined, FinishReason, Usage
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.decoding.factories import DecodingFactory
from pytest_jsbench.engines.decoding.grammars import Grammars
from pytest_jsbench.engines.decoding.settings import LibraryPackage, model_file
from pytest_jsbench.engines.decoding.token_server import Slots, TokenServer
from pytest_jsbench.engines.decoding.vocabulary import Vocabulary
from pytest_jsbench.engines.decoding.walks import State
from pytest_jsbench.engines.http.calls import Deadline
from pytest_jsbench.engines.local.engine import PATIENCE
from pytest_jsbench.engines.requirements import Key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_jsbench.core.generations import EngineInfo, Request
    from pytest_jsbench.core.prompts import Prompt
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.decoding.grammars import Grammar
    from pytest_jsbench.engines.decoding.settings import DecodingSettings

#: positions asked for at once: more while the model keeps to the grammar by itself, one after it did not
_FEWEST, _MOST = 1, 8
#: of the likeliest tokens; where none of them may come more are asked for, and then all
_FEW, _MANY = 60, 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """The tokens of an answer and why it ended."""

    tokens: list[int]
    prompt_tokens: int
    finish_reason: FinishReason


class MaskedEngine:
    """Walks the embedded model through a library's grammar."""

    def __init__(
        self,
        info: EngineInfo,
        *,
        server: TokenServer,
        slots: Slots,
        grammars: Grammars,
        vocabulary: Vocabulary,
        top_p: float,
    ) -> None:
        self.info = info
        self._server = server
        self._slots = slots
        self._grammars = grammars
        self._vocabulary = vocabulary
        self._top_p = top_p

    def generate(self, request: Request) -> Completion | Declined:
        """Compile the schema, then take token after token; waiting for a slot is in no time."""
        with self._grammars.loaded() as process, self._slots.lent() as slot:
            deadline, watch = Deadline(request.params.timeout), Stopwatch()
            if (declined := self._server.refused(request.prompt, deadline)) is not None:
                return declined
            grammar = self._grammars.compile(process, request.schema, deadline)
            if isinstance(grammar, Declined):
                return replace(grammar, timing=watch.stop())
            answer = self._walk(grammar, request, slot, deadline)
            timing = grammar.timed(watch.stop())
        spelled = b"".join(self._vocabulary.tokens[token] for token in answer.tokens)
        return Completion(
            text=spelled.decode("utf-8", "replace"),
            finish_reason=answer.finish_reason,
            timing=timing,
            usage=Usage(input_tokens=answer.prompt_tokens, output_tokens=len(answer.tokens)),
            sent=self._grammars.to_sent(request.schema),
        )

    def count_tokens(self, prompt: Prompt) -> int | None:
        """The prompt's tokens in the model's own chat template, as the server counts them."""
        return len(self._server.read_prompt(prompt, Deadline(PATIENCE)))

    def tokenize(self, text: str) -> Sequence[int] | None:
        """The model's tokens of the text, as the server takes it apart."""
        return self._server.read(text, Deadline(PATIENCE))

    def close(self) -> None:
        """Close the client's connections and end the library's processes; the server is `prepare`'s."""
        self._server.close()
        self._grammars.close()

    def _walk(self, grammar: Grammar, request: Request, slot: int, deadline: Deadline) -> _Answer:
        prompt = self._server.read_prompt(request.prompt, deadline)
        params, most = request.params, request.params.max_tokens
        sampling = {"temperature": params.temperature, "top_p": self._top_p, "seed": params.seed}
        step = grammar.begin(sampling if params.temperature else None, deadline)
        tokens = list(step.taken)
        count, breadth, fresh = _FEWEST, _FEW, True
        while len(tokens) < most and step.state in (State.OPEN, State.STUCK):
            offered = self._server.rank(
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
        return _Answer(
            tokens=tokens[:most], prompt_tokens=len(prompt), finish_reason=_reason(step.state, len(tokens), most)
        )


def _reason(state: State, count: int, most: int) -> FinishReason:
    if count > most or (count == most and state is not State.DONE):
        return FinishReason.LENGTH
    # else a dead end of the grammar's own making: what there is of the document is the answer
    return FinishReason.STOP if state is State.DONE else FinishReason.UNKNOWN


def build(config: EngineConfig, package: LibraryPackage, settings: DecodingSettings) -> MaskedEngine:
    """The engine, for a configuration that names a server and its key."""
    key = str(config.api_key)
    return MaskedEngine(
        package.describe(config, streaming=False),
        server=TokenServer(str(config.base_url).removesuffix("/v1"), key=Key(value=key)),
        slots=Slots(settings.slots, key=key),
        grammars=Grammars(package.to_settings(config, settings), settings),
        vocabulary=Vocabulary.from_gguf(Path(model_file(config))),
        top_p=1.0 if settings.top_p is None else settings.top_p,
    )


OUTLINES, XGRAMMAR = (
    DecodingFactory(
        LibraryPackage(library=library, module=module, distribution=distribution, minimum=(0, 2), beside=("filelock",)),
        build,
        streaming=False,
        masked=True,
    )
    for library, module, distribution in (
        ("outlines", "outlines_core", "outlines-core"),
        ("xgrammar", "xgrammar", "xgrammar"),
    )
)
