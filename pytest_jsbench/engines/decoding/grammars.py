"""A schema compiled by a library, in the library's process."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.adaptation.bounding import CannotBound, bounded_within
from pytest_jsbench.core.generations import CallError, Declined, FaultKind, ResponseFormat, Sent
from pytest_jsbench.core.secrets import one_line
from pytest_jsbench.engines.base import Acceptance
from pytest_jsbench.engines.decoding.process import LibraryProcess, Pool
from pytest_jsbench.engines.decoding.walks import State, Step, Walked
from pytest_jsbench.engines.local.engine import unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.timing import Timing
    from pytest_jsbench.engines.decoding.child import LibrarySettings
    from pytest_jsbench.engines.decoding.draws import Offered
    from pytest_jsbench.engines.decoding.settings import DecodingSettings
    from pytest_jsbench.engines.http.calls import Deadline


class Grammar:
    """The grammar that a process holds, until it compiles the next."""

    def __init__(self, process: LibraryProcess, *, seconds: float, compiled: float, timeout: float) -> None:
        self._process = process
        #: what it took to compile it, up to the first mask and before that
        self.seconds, self.compiled = seconds, compiled
        self._timeout = timeout

    def timed(self, timing: Timing) -> Timing:
        """The times of a call, with those of its grammar."""
        return replace(timing, grammar_compilation=self.seconds, compile_time=self.compiled)

    def begin(self, sampling: Mapping[str, Any] | None, deadline: Deadline) -> Step:
        """Begin a text, of which tokens are drawn so, or the likeliest taken; what can only begin in one way has."""
        return self._step({"do": "begin", "sampling": sampling}, deadline)

    def step(self, offered: Sequence[Offered], deadline: Deadline) -> Step:
        """Go on with what the model offers."""
        return self._step({"do": "step", "offered": offered}, deadline)

    def accepts(self, text: str) -> Walked:
        """What comes of the text in the grammar."""
        asked = {"do": "accepts", "text": text}
        reply = self._process.ask(asked, timeout=self._timeout, doing="look at an answer")
        return Walked(accepted=reply["accepts"], masks=tuple(reply["masks"]))

    def _step(self, question: dict[str, Any], deadline: Deadline) -> Step:
        reply = _within(self._process, question, self._timeout, deadline, doing="make the masks")
        return Step(taken=tuple(reply["taken"]), state=State(reply["state"]))


class Grammars:
    """Compiles schemas, each in a process that does nothing else meanwhile."""

    def __init__(self, library: LibrarySettings, settings: DecodingSettings) -> None:
        self._settings = settings
        self._processes = Pool(
            lambda: LibraryProcess(library, start_timeout=settings.start_timeout), most=settings.slots
        )

    @contextmanager
    def loaded(self) -> Iterator[LibraryProcess]:
        """A process with the library loaded, for the length of the block."""
        with self._processes.lent() as process:
            process.start()
            yield process

    def compile(self, process: LibraryProcess, schema: Schema, deadline: Deadline | None = None) -> Grammar | Declined:
        """The grammar, or the library's own words about why there is none; CallError for a hang or a crash."""
        settings = self._settings
        try:
            narrowed = bounded_within(schema) if settings.bounded else schema
            question = {"do": "compile", "schema": narrowed}
            reply = _within(process, question, settings.compile_timeout, deadline, doing="compile the grammar")
        except CannotBound as error:
            return unsupported(str(error))
        except RecursionError:
            return unsupported("the schema is nested too deeply to be compiled")
        if (reason := reply.get("unsupported")) is not None:
            return unsupported(one_line(reason))
        return Grammar(process, seconds=reply["seconds"], compiled=reply["compiled"], timeout=settings.mask_timeout)

    def to_sent(self, schema: Schema) -> Sent:
        """What the library was given of the schema."""
        narrowed = bounded_within(schema) if self._settings.bounded else schema
        return Sent(response_format=ResponseFormat.JSON_SCHEMA, schema=None if narrowed == schema else narrowed)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes.all():
            process.close()


def _within(
    process: LibraryProcess, question: dict[str, Any], timeout: float, deadline: Deadline | None, *, doing: str
) -> Any:
    """The answer; a library that is ended because the whole call is over did not hang."""
    if deadline is not None:
        timeout = min(timeout, deadline.remaining)
    try:
        return process.ask(question, timeout=timeout, doing=doing)
    except CallError as error:
        if error.kind is FaultKind.HANG and deadline is not None and deadline.passed:
            raise deadline.fault() from None
        raise


class LibraryAcceptor:
    """Says which answers a library's grammar takes, without a model."""

    def __init__(self, grammars: Grammars) -> None:
        self._grammars = grammars

    def accepts(self, schema: Schema, texts: Sequence[str]) -> Acceptance | Declined:
        """Compile the schema as it is, and ask for each text."""
        with self._grammars.loaded() as process:
            grammar = self._grammars.compile(process, schema)
            if isinstance(grammar, Declined):
                return grammar
            walked = [grammar.accepts(text) for text in texts]
            return Acceptance(
                accepted=tuple(one.accepted for one in walked),
                grammar_compilation=grammar.seconds,
                compile_time=grammar.compiled,
                masks=tuple(seconds for one in walked for seconds in one.masks),
            )

    def close(self) -> None:
        """End the library's processes."""
        self._grammars.close()
