"""
The engine `llguidance`: the embedded model's server with its own llguidance, which it gets through the field `grammar`.

The package llguidance compiles each schema first: what it says it cannot do is unsupported, and the seconds are the
grammar's. The server's copy of the library may be another version, and drops a grammar that it cannot do without a
word. So a canary stands before the document in the grammar: an answer without it was not held to any.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_jsbench.adaptation.bounding import bounded_within
from pytest_jsbench.core.generations import Completion, Declined
from pytest_jsbench.engines.decoding.factories import DecodingFactory
from pytest_jsbench.engines.decoding.grammars import Grammars
from pytest_jsbench.engines.decoding.libraries import guidance_options
from pytest_jsbench.engines.decoding.settings import LibraryPackage
from pytest_jsbench.engines.http.calls import Deadline
from pytest_jsbench.engines.local import engine

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.decoding.grammars import Grammar
    from pytest_jsbench.engines.decoding.settings import DecodingSettings
    from pytest_jsbench.engines.openai.engine import OpenAIEngine

#: one token, which begins no JSON and no answer
CANARY = "@"


class LLGuidanceEngine(engine.LocalEngine):
    """Calls the local server with a grammar in llguidance's own words."""

    def __init__(self, chat: OpenAIEngine, grammars: Grammars, *, narrowing: bool) -> None:
        super().__init__(chat, narrowing=narrowing)
        self._grammars = grammars

    def generate(self, request: Request) -> Completion | Declined:
        """Compile the schema, then one call; both compile it, and only the package's time is the grammar's."""
        deadline = Deadline(request.params.timeout)
        with self._grammars.loaded() as process:
            grammar = self._grammars.compile(process, request.schema, deadline)
        if isinstance(grammar, Declined):
            return grammar
        schema = bounded_within(request.schema) if self._narrowing else request.schema
        room = replace(request.params, max_tokens=request.params.max_tokens + 1)  # for the canary
        outcome = self._chat.ask(
            engine.at_temperature_zero(replace(request, params=room)),
            sent=self._grammars.to_sent(request.schema),
            deadline=deadline,
            extra_body={"grammar": to_grammar(schema)},
        )
        return outcome if isinstance(outcome, Declined) else _without_canary(outcome, grammar)

    def close(self) -> None:
        """Close the client's connections and end the library's processes; the server is `prepare`'s."""
        super().close()
        self._grammars.close()


def to_grammar(schema: Schema) -> str:
    """The grammar that the server is sent: the canary, then a document that conforms to the schema."""
    plain = {} if isinstance(schema, bool) else schema
    embedded = json.dumps({**plain, "x-guidance": guidance_options()})
    return f'%llguidance {{}}\nstart: "{CANARY}" %json {embedded}'


def _without_canary(answer: Completion, grammar: Grammar) -> Completion | Declined:
    """The answer as it is without its first token; declined where that is missing."""
    if not answer.text.startswith(CANARY):
        declined = engine.unsupported("the server's own llguidance, of another version, took no such grammar")
        return replace(declined, timing=answer.timing, usage=answer.usage, sent=answer.sent)
    tokens = answer.usage.output_tokens
    return replace(
        answer,
        text=answer.text.removeprefix(CANARY),
        timing=answer.timing and grammar.timed(answer.timing),
        usage=replace(answer.usage, output_tokens=None if tokens is None else tokens - 1),
    )


def build(config: EngineConfig, package: LibraryPackage, settings: DecodingSettings) -> LLGuidanceEngine:
    """The engine, for a configuration that names a server and its key."""
    chat = engine.chat_engine(config, package.describe(config, streaming=True), top_p=settings.top_p)
    grammars = Grammars(package.to_settings(config, settings), settings)
    return LLGuidanceEngine(chat, grammars, narrowing=settings.bounded)


FACTORY = DecodingFactory(
    LibraryPackage(library="llguidance", module="llguidance", distribution="llguidance", minimum=(1, 9)),
    build,
    streaming=True,
    masked=False,
)
