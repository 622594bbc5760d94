"""A decoding library's process: started when it is needed, asked line by line, and ended when it hangs or breaks."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pytest_jsbench.core.child_process import ChildNotStarted, KeptChild, Program
from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.core.secrets import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_jsbench.engines.decoding.child import LibrarySettings

MODULE = "pytest_jsbench.engines.decoding.child"


class LibraryProcess:
    """
    One library in a process of its own, asked by one thread at a time.

    `Grammars` makes as many as there are slots, and lends each to one call. The process starts with the first question.
    When the library hangs or crashes, the process is ended and the question raises a CallError of that kind; the next
    question starts another process. `close`, when the engine is closed, ends the process whatever it is doing.
    """

    def __init__(self, settings: LibrarySettings, *, start_timeout: float, module: str = MODULE) -> None:
        self._settings = settings
        self._start_timeout = start_timeout
        self._child = KeptChild(
            Program(
                module=module,
                settings=asdict(settings),
                memory=settings.memory,
                # a model's file is mapped, and takes no memory of its own
                counted="private",
                start_timeout=start_timeout,
            )
        )

    def start(self) -> None:
        """Load the library, where it is not loaded yet; CallError when that fails."""
        try:
            self._child.start()
        except ChildNotStarted as error:
            if error.ending == "timeout":
                raise self._hang("load", self._start_timeout) from None
            if error.ending is not None:
                raise self._crash("load", f"its process ended: {error.reason}") from None
            message = f"{self._settings.library} cannot be loaded: {one_line(error.reason)}"
            raise CallError(FaultKind.ENGINE, message) from None

    def ask(self, question: Mapping[str, Any], *, timeout: float, doing: str) -> Mapping[str, Any]:
        """The answer; CallError of kind hang or crash where none comes. `doing` is the half sentence of what it is."""
        self.start()
        reply = self._child.ask({**question, "seconds": timeout})
        if reply.ending == "timeout":
            raise self._hang(doing, timeout)
        if reply.ending is not None:
            raise self._crash(doing, f"its process ended: {reply.detail}")
        (answer,) = reply.replies
        if "broke" in answer:
            self.close()
            raise self._crash(doing, f"{answer['broke']}: {answer['detail']}")
        return answer

    def close(self) -> None:
        """End the process, if there is one, whatever it is doing."""
        self._child.kill()

    def _hang(self, doing: str, timeout: float) -> CallError:
        message = f"{self._settings.library} did not {doing} within {timeout:g} s; its process was ended"
        return CallError(FaultKind.HANG, message)

    def _crash(self, doing: str, reason: str) -> CallError:
        message = f"{self._settings.library} crashed and did not {doing}: {reason}"
        return CallError(FaultKind.CRASH, one_line(message))


T = TypeVar("T")


class Pool(Generic[T]):
    """Things made when they are first needed, so many at the most, and lent again."""

    def __init__(self, make: Callable[[], T], *, most: int) -> None:
        self._make = make
        self._room = threading.Semaphore(most)
        self._lock = threading.Lock()
        self._free: list[T] = []
        self._all: list[T] = []

    @contextmanager
    def lent(self) -> Iterator[T]:
        """One of them, for the length of the block; waits for one."""
        with self._room:
            thing = self._take()
            try:
                yield thing
            finally:
                with self._lock:
                    self._free.append(thing)

    def _take(self) -> T:
        with self._lock:
            if self._free:
                return self._free.pop()
            thing = self._make()
            self._all.append(thing)
            return thing

    def all(self) -> list[T]:
        """All that were made."""
        with self._lock:
            return list(self._all)
