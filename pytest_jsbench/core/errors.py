"""Errors before or between calls that a user can act on, each a JSBenchError."""

from __future__ import annotations

import difflib
import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_jsbench.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: characters of a message
_LONGEST = 2000
#: names that are all told where one of them is near enough to be meant
_MOST_OFFERED = 40
#: characters of a name that may be the beginning of the one that is meant
_LEAST_BEGUN = 3
#: errors of the operating system that mean that a process, or the machine, has all it can get of something
_EXHAUSTED = {
    errno.EMFILE: "open files (ulimit -n)",
    errno.ENFILE: "open files",
    errno.ENOMEM: "memory",
    errno.EAGAIN: "processes or threads (ulimit -u)",
}
_NO_THREAD = "can't start new thread"


class JSBenchError(Exception):
    """
    Something a user can mend; the message is one line, fit to be shown.

    What a program can use are its values, each None where the error has none. Unlike the message they may hold foreign
    text as it is.
    """

    def __init__(
        self,
        *message: object,
        found: object = None,
        expected: object = None,
        where: object = None,
        option: str | None = None,
    ) -> None:
        super().__init__(*message)
        #: the name of what was said, as in `settings.options`, whichever way it was said: `api_key_env`
        self.option = option
        #: the value that cannot be used: a name, a number, a type
        self.found = found
        #: what can be: such as the names there are, or a sentence
        self.expected = expected
        #: the place: an option's name, a file, a line of it
        self.where = option if where is None else where

    def __str__(self) -> str:
        """The message: what was found, what was expected and the next step, as far as there is room for it."""
        return printable(super().__str__(), _LONGEST, cut="middle")


@contextmanager
def errors_about(subject: str) -> Iterator[None]:
    """Inside, the message of an error that a user can mend begins with what it is about; empty: it stays."""
    try:
        yield
    except JSBenchError as error:
        if subject:
            error.args = (f"{subject}: {error}",)
        raise


class DatasetError(JSBenchError):
    """A dataset cannot be read, or does not hold what was asked of it."""


class ImportFailed(JSBenchError):
    """A module cannot be imported, or has no such name."""


class ConditionError(JSBenchError):
    """A condition on cases cannot be read."""


class PromptError(JSBenchError):
    """A prompt cannot be found or rendered."""


class ContractError(JSBenchError):
    """A project's own test asks for something that cannot be used."""


class EngineError(JSBenchError):
    """An engine cannot be found, built or started."""


class UnknownEngine(EngineError):
    """No engine has that name."""


class MissingRequirement(EngineError):
    """A package, a key or a model file is absent; the message names the command that brings it."""


class JudgeError(JSBenchError):
    """The judge cannot run at all (a verdict it could not reach is `unjudged`, not this)."""


class RecordError(JSBenchError):
    """A line or file is not a record or a run of ours."""


class JournalError(JSBenchError):
    """A record cannot be written to, or read from, disk."""


class ResumeError(JSBenchError):
    """An earlier run asked something else, so that none of its answers is one of this run's."""


class BatchError(JSBenchError):
    """A provider's batch cannot be handed in, or not be looked at."""


class MergeError(JSBenchError):
    """Runs that are not parts of one."""


class PriceError(JSBenchError):
    """The cost of a call is not known."""


class GateError(JSBenchError):
    """A gate expression cannot be read."""


class ClassifierError(JSBenchError):
    """A classifier cannot be found, or gives no code."""


class ExportError(JSBenchError):
    """A picture, a page or a file cannot be made of a run."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The half sentence that offers the known names: `expected one of x, y`, or `did you mean 'x'? (one of x, y)`."""
    names = sorted(known)
    if not names:
        return "there is none"
    longer = [longer_name for longer_name in names if len(name) >= _LEAST_BEGUN and longer_name.startswith(name)]
    close = longer if len(longer) == 1 else difflib.get_close_matches(name, names, n=1)
    everything = f"one of {len(names) if close and len(names) > _MOST_OFFERED else ', '.join(names)}"
    return f"did you mean '{close[0]}'? ({everything})" if close else f"expected {everything}"


def exhausted(error: BaseException) -> str:
    """The resource that the machine has run out of, as the error or its cause says; empty for any other error."""
    seen: BaseException | None = error
    while seen is not None:
        what = ""
        if isinstance(seen, MemoryError):
            what = "memory"
        elif isinstance(seen, RuntimeError) and _NO_THREAD in str(seen):
            what = "threads (ulimit -u)"
        elif isinstance(seen, OSError):
            what = _EXHAUSTED.get(seen.errno or 0, "")
        if what:
            return f"this machine has no more {what}; ask for fewer calls at once with --jsbench-concurrency"
        seen = seen.__cause__
    return ""
