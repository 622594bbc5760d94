"""A schema compiled by a library in a process of its own, which is ended when it hangs or breaks."""

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
    A library in a process of its own, asked by one thread at a time.

    `Grammars` makes as many as there are slots, and lends each to one call. The process starts with the first question.
    When the library hangs or crashes, the process is ended and the question raises a CallError of that kind; the next
    question starts another process. `close`, when the engine is closed, ends the process whatever it is doing.
    """

    def __init__(self, library: str, model: str, *, memory: int, start_timeout: float, module: str = _MODULE) -> None:
        self._library, self._model = library, model
        self._memory, self._start_timeout = memory, start_timeout
        self._module = module
        # what the libraries map of their own, such as CUDA's, is no memory that a grammar takes
        self._calls = GuardedCalls(private=True)

    def start(self) -> None:
        """Load the library, where it is not loaded yet; CallError when that fails."""
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
        Call a method of the session; CallError of kind hang or crash where it does not return from `doing` this.

        A library that is ended because the whole call is over did not hang.
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
        """End the process, if there is one, whatever it is doing."""
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
    """The grammar that a process holds, until it compiles the next."""

    process: LibraryProcess
    #: what it took to compile it, up to the first mask and before that
    seconds: float
    compiled: float
    #: seconds for the masks of one request
    timeout: float

    def timed(self, timing: Timing) -> Timing:
        """Add the grammar's times to those of a call."""
        return structs.replace(timing, grammar_compilation=self.seconds, compile_time=self.compiled)

    def begin(self, sampling: Mapping[str, Any] | None, deadline: Deadline) -> Step:
        """Begin a text, of which tokens are drawn so, or the likeliest taken; what can only begin in one way has."""
        return self._step("begin", sampling, deadline)

    def step(self, offered: Sequence[Offered], deadline: Deadline) -> Step:
        """Go on with what the model offers."""
        return self._step("step", offered, deadline)

    def _step(self, method: str, argument: object, deadline: Deadline) -> Step:
        reply = self.process.ask(method, argument, timeout=self.timeout, deadline=deadline, doing="make the masks")
        return Step(taken=tuple(reply["taken"]), state=State(reply["state"]))

    def acceptance(self, texts: Sequence[str]) -> Acceptance:
        """Walk through each text, as far as the grammar takes it."""
        replies = [self.process.ask("accepts", text, timeout=self.timeout, doing="look at an answer") for text in texts]
        return Acceptance(
            accepted=tuple(reply["accepts"] for reply in replies),
            grammar_compilation=self.seconds,
            compile_time=self.compiled,
            masks=tuple(seconds for reply in replies for seconds in reply["masks"]),
        )


class Grammars:
    """
    Compiles schemas, each in a process that does nothing else meanwhile; it says which answers a grammar takes, too.

    An engine makes one when it is built, or a run with labelled answers, and closes it at the end. The threads of the
    calls in flight share it; a thread waits in `loaded` until a process is free.
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
        #: with its version, for messages
        self._library = library
        #: the one that came back last, whose library is loaded, is lent first
        self._free: LifoQueue[LibraryProcess] = LifoQueue()
        for process in processes:
            self._free.put(process)
        #: whether schemas are narrowed before the library sees them
        self._bounded = bounded
        self._compile_timeout = compile_timeout
        self._mask_timeout = mask_timeout

    @contextmanager
    def loaded(self) -> Iterator[LibraryProcess]:
        """Lend a process with the library loaded, for the length of the block."""
        process = self._free.get()
        try:
            process.start()
            yield process
        finally:
            self._free.put(process)

    def compile(self, process: LibraryProcess, schema: Schema, deadline: Deadline | None = None) -> Grammar | Declined:
        """Make the grammar, or say in the library's words why there is none; CallError for a hang or a crash."""
        try:
            given, timeout = self.given(schema), self._compile_timeout
            reply = process.ask("compile", given, timeout=timeout, deadline=deadline, doing="compile the grammar")
        except CannotBound as error:
            return unsupported(str(error))
        except RecursionError:
            return unsupported("the schema is nested too deeply to be compiled")
        if (reason := reply.get("unsupported")) is not None:
            return unsupported(one_line(reason))
        return Grammar(process=process, timeout=self._mask_timeout, **reply)

    def given(self, schema: Schema) -> Schema:
        """The schema as the library gets it; CannotBound where it is to be narrowed and cannot be."""
        return bounded_within(schema) if self._bounded else schema

    def to_sent(self, schema: Schema) -> Sent:
        """Return what the library was given of the schema."""
        narrowed = self.given(schema)
        return Sent(
            response_format=ResponseFormat.JSON_SCHEMA,
            schema=None if narrowed == schema else narrowed,
            enforced_by=self._library,
        )

    def accepts(self, schema: Schema, texts: Sequence[str]) -> Acceptance | Declined:
        """Compile the schema, and ask its grammar for each text; there is no model behind it."""
        with self.loaded() as process:
            grammar = self.compile(process, schema)
            if isinstance(grammar, Declined):
                return grammar
            return replace(grammar.acceptance(texts), library=self._library)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.close()
