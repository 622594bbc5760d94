"""Compile schemas with a decoding library in a separate process, which is ended when the library hangs or crashes."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from queue import LifoQueue
from typing import TYPE_CHECKING, Any

from msgspec import structs

from pytest_jsbench.adaptation.adapter import CannotBound, bounded_within
from pytest_jsbench.core.generations import CallError, Declined, FaultKind, ResponseFormat, Sent
from pytest_jsbench.core.guarded_calls import ChildNotStarted, ChildReply, GuardedCalls
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.engines.base import Acceptance
from pytest_jsbench.engines.local import unsupported
from pytest_jsbench.lab.decoding.walks import State, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Timing
    from pytest_jsbench.engines.http.calls import Deadline
    from pytest_jsbench.lab.decoding.walks import Offered

_MODULE = "pytest_jsbench.lab.decoding.walks"


class LibraryProcess:
    """
    A decoding library in a separate process, used by one thread at a time.

    `Grammars` creates one for each slot, and lends each to one call. The process starts with the first request. When
    the library hangs or crashes, the process is ended and the request raises a CallError of that kind; the next request
    starts another process. `close`, when the engine is closed, ends the process in any state.
    """

    def __init__(self, library: str, model: str, *, memory: int, start_timeout: float, module: str = _MODULE) -> None:
        self._library = library
        self._model = model
        self._memory = memory
        self._start_timeout = start_timeout
        self._module = module
        # memory that libraries such as CUDA's map as shared does not count as a grammar's memory
        self._calls = GuardedCalls(private=True)

    def start(self) -> None:
        """Load the library if it is not loaded yet; raise CallError if this fails."""
        reply = self._call("load", seconds=self._start_timeout, memory=None)
        if reply.ending == "timeout":
            raise self._hang("load", self._start_timeout)
        if reply.ending is not None:
            raise self._crash("load", reply)
        if reply.error is not None:
            raise self._not_loaded(f"{reply.error}: {reply.detail}")

    def ask(
        self, method: str, *arguments: object, timeout: float, doing: str, deadline: Deadline | None = None
    ) -> Mapping[str, Any]:
        """
        Call a method of the process's `Session`; raise a CallError for a hang or a crash if the method does not return.

        If the deadline of the model's call has passed, the error is that of the deadline and not a hang.
        """
        self.start()
        if deadline is not None:
            timeout = min(timeout, deadline.remaining)
        reply = self._call("call", method, *arguments, seconds=timeout, memory=self._memory)
        if reply.ending == "timeout":
            raise deadline.fault() if deadline is not None and deadline.passed else self._hang(doing, timeout)
        if reply.ending is not None or reply.error is not None:
            self.close()
            raise self._crash(doing, reply)
        answer: Mapping[str, Any] = reply.values[0]
        return answer

    def _call(self, function: str, *arguments: object, seconds: float, memory: int | None) -> ChildReply:
        try:
            return self._calls.values_of(
                f"{self._module}:{function}", self._library, self._model, *arguments, seconds=seconds, memory=memory
            )
        except ChildNotStarted as error:
            raise self._not_loaded(str(error)) from None

    def close(self) -> None:
        """End the process, if any, in any state."""
        self._calls.kill()

    def _not_loaded(self, reason: str) -> CallError:
        return CallError(FaultKind.ENGINE, f"{self._library} cannot be loaded: {one_line(reason)}")

    def _hang(self, doing: str, timeout: float) -> CallError:
        message = f"{self._library} did not {doing} within {timeout:g} s; its process was ended"
        return CallError(FaultKind.HANG, message)

    def _crash(self, doing: str, reply: ChildReply) -> CallError:
        reason = f"its process ended: {reply.detail}" if reply.error is None else f"{reply.error}: {reply.detail}"
        return CallError(FaultKind.CRASH, one_line(f"{self._library} crashed and did not {doing}: {reason}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """A compiled grammar in a library's process, valid until another grammar is compiled there."""

    process: LibraryProcess
    #: Seconds to compile the grammar, including preparation and the first mask, and seconds to compile without these.
    seconds: float
    compiled: float
    #: Timeout for the masks of one request, in seconds.
    timeout: float

    def timed(self, timing: Timing) -> Timing:
        """Return the timing of a call, with the grammar's times added."""
        return structs.replace(timing, grammar_compilation=self.seconds, compile_time=self.compiled)

    def begin(self, sampling: Mapping[str, Any] | None, deadline: Deadline) -> Step:
        """
        Begin a text, and take the tokens at its start for which the grammar allows only one choice; the other tokens
        are sampled, or the most likely are taken if `sampling` is None.
        """
        return self._step("begin", sampling, deadline)

    def step(self, offered: Sequence[Offered], deadline: Deadline) -> Step:
        """Continue the text with tokens from the model's candidates."""
        return self._step("step", offered, deadline)

    def _step(self, method: str, argument: object, deadline: Deadline) -> Step:
        reply = self.process.ask(method, argument, timeout=self.timeout, deadline=deadline, doing="make the masks")
        return Step(taken=tuple(reply["taken"]), state=State(reply["state"]))

    def acceptance(self, texts: Sequence[str]) -> Acceptance:
        """Check whether the grammar accepts each text."""
        replies = [self.process.ask("accepts", text, timeout=self.timeout, doing="check an answer") for text in texts]
        return Acceptance(
            accepted=tuple(reply["accepts"] for reply in replies),
            grammar_compilation=self.seconds,
            compile_time=self.compiled,
            masks=tuple(seconds for reply in replies for seconds in reply["masks"]),
        )


class Grammars:
    """
    A pool of processes that compile schemas and check which answers the grammars accept.

    The pool is created when an engine is built, or for a run with labelled answers. The threads of concurrent calls
    share the pool; a thread waits in `loaded` until a process is free.
    """

    def __init__(
        self,
        processes: Sequence[LibraryProcess],
        *,
        bounded: bool,
        compile_timeout: float,
        mask_timeout: float,
        library: str = "",
    ) -> None:
        self._processes = processes
        #: Name and version of the library, for messages.
        self._library = library
        #: Last in, first out, since the process that was used last has already loaded the library.
        self._free: LifoQueue[LibraryProcess] = LifoQueue()
        for process in processes:
            self._free.put(process)
        #: Whether schemas are narrowed before they are passed to the library.
        self._bounded = bounded
        self._compile_timeout = compile_timeout
        self._mask_timeout = mask_timeout

    @contextmanager
    def loaded(self) -> Iterator[LibraryProcess]:
        """Yield a process that has loaded the library, reserved until the end of the block."""
        process = self._free.get()
        try:
            process.start()
            yield process
        finally:
            self._free.put(process)

    def compile(self, process: LibraryProcess, schema: Schema, deadline: Deadline | None = None) -> Grammar | Declined:
        """
        Compile a schema. If the schema is unsupported, return the library's message; for a hang or a crash, raise
        CallError.
        """
        try:
            given = self.given(schema)
            reply = process.ask(
                "compile", given, timeout=self._compile_timeout, deadline=deadline, doing="compile the grammar"
            )
        except CannotBound as error:
            return unsupported(str(error))
        except RecursionError:
            return unsupported("the schema is nested too deeply to be compiled")
        if (reason := reply.get("unsupported")) is not None:
            return unsupported(one_line(reason))
        return Grammar(process=process, timeout=self._mask_timeout, **reply)

    def given(self, schema: Schema) -> Schema:
        """Return the schema as it is passed to the library; raise CannotBound if the schema cannot be narrowed."""
        return bounded_within(schema) if self._bounded else schema

    def to_sent(self, schema: Schema) -> Sent:
        """Describe the schema that was passed to the library."""
        narrowed = self.given(schema)
        return Sent(
            response_format=ResponseFormat.JSON_SCHEMA,
            schema=None if narrowed == schema else narrowed,
            enforced_by=self._library,
        )

    def accepts(self, schema: Schema, texts: Sequence[str]) -> Acceptance | Declined:
        """Compile the schema, and check each text against its grammar, without a model."""
        with self.loaded() as process:
            grammar = self.compile(process, schema)
            if isinstance(grammar, Declined):
                return grammar
            return replace(grammar.acceptance(texts), library=self._library)

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.close()
