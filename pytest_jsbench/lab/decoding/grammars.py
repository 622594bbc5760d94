"""Compile schemas with a decoding library in a separate process, which is ended when the library hangs or crashes."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from queue import LifoQueue
from typing import TYPE_CHECKING, Any

from msgspec import structs

from pytest_jsbench.adaptation.adapter import CannotBound, bound_within
from pytest_jsbench.core.child_process import ChildNotStarted, ChildReply
from pytest_jsbench.core.generations import CallError, Declined, FaultKind, ResponseFormat, Sent
from pytest_jsbench.core.guarded_calls import GuardedCalls
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.engines.base import Acceptance
from pytest_jsbench.engines.local import decline_schema
from pytest_jsbench.lab.decoding.walks import State, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.timing import Timing
    from pytest_jsbench.engines.http.calls import Deadline
    from pytest_jsbench.lab.decoding.walks import Offered

_MODULE = "pytest_jsbench.lab.decoding.walks"


class LibraryProcess:
    """
    A decoding library in a separate process, used by one thread at a time.

    `Grammars` creates one process for each slot, and each process serves one call at a time. The process starts with
    the first request. When the library hangs or crashes, the process is ended and the request raises a CallError with
    the kind HANG or CRASH; the next request starts another process. `close` ends the process even if it is busy.
    """

    def __init__(self, library: str, model: str, *, memory: int, start_timeout: float, module: str = _MODULE) -> None:
        self._library = library
        self._model = model
        self._memory = memory
        self._start_timeout = start_timeout
        self._module = module
        # only private memory is limited: libraries such as CUDA also map shared memory, which grammars do not use
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
        Call a method of the process's `Session`; raise CallError if the method hangs or crashes.

        If the deadline of the model's call has passed, raise the deadline's timeout instead of a hang.
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
        """End the process, if any, even if it is busy."""
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
    #: Seconds until the first mask is computed (`seconds`), and seconds of this time for the compilation (`compiled`).
    seconds: float
    compiled: float
    #: Timeout for the masks of one request, in seconds.
    timeout: float

    def with_grammar_times(self, timing: Timing) -> Timing:
        """Return the timing of a call, with the grammar's times added."""
        return structs.replace(timing, grammar_compilation=self.seconds, compile_time=self.compiled)

    def begin(self, sampling: Mapping[str, Any] | None, deadline: Deadline) -> Step:
        """
        Begin a text, and take the tokens that the grammar forces at its start. The tokens after these are sampled with
        the parameters in `sampling`; if `sampling` is None, the most likely allowed token is taken.
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

    The pool is created when an engine is built, or for a run that checks labelled answers. The threads of concurrent
    calls share the pool; a thread waits in `reserve_process` until a process is free.
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
    def reserve_process(self) -> Iterator[LibraryProcess]:
        """Yield a process that has loaded the library, reserved until the end of the block."""
        process = self._free.get()
        try:
            process.start()
            yield process
        finally:
            self._free.put(process)

    def compile(self, process: LibraryProcess, schema: Schema, deadline: Deadline | None = None) -> Grammar | Declined:
        """
        Compile a schema. Return Declined with the library's message if the schema is unsupported; raise CallError if
        the library hangs or crashes.
        """
        try:
            given = self.prepare_schema(schema)
            reply = process.ask(
                "compile", given, timeout=self._compile_timeout, deadline=deadline, doing="compile the grammar"
            )
        except CannotBound as error:
            return decline_schema(str(error))
        except RecursionError:
            return decline_schema("the schema is nested too deeply to be compiled")
        if (reason := reply.get("unsupported")) is not None:
            return decline_schema(one_line(reason))
        return Grammar(process=process, timeout=self._mask_timeout, **reply)

    def prepare_schema(self, schema: Schema) -> Schema:
        """Return the schema as it is passed to the library; raise CannotBound if the schema cannot be narrowed."""
        return bound_within(schema) if self._bounded else schema

    def to_sent(self, schema: Schema) -> Sent:
        """Describe the schema that was passed to the library."""
        narrowed = self.prepare_schema(schema)
        return Sent(
            response_format=ResponseFormat.JSON_SCHEMA,
            schema=None if narrowed == schema else narrowed,
            enforced_by=self._library,
        )

    def accepts(self, schema: Schema, texts: Sequence[str]) -> Acceptance | Declined:
        """Compile the schema, and check each text against its grammar, without a model."""
        with self.reserve_process() as process:
            grammar = self.compile(process, schema)
            if isinstance(grammar, Declined):
                return grammar
            return replace(grammar.acceptance(texts), library=self._library)

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.close()
