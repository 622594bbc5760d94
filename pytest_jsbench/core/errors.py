"""Define the user-facing errors, all subclasses of JSBenchError, and the texts that suggest known names."""

from __future__ import annotations

import difflib
import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_jsbench.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Maximum length of a message in characters.
_LONGEST = 2000
#: Maximum number of known names to list with a suggestion.
_MOST_OFFERED = 40
#: Minimum length of an unknown name for which a known name with the same beginning is suggested.
_LEAST_BEGUN = 3
#: Operating system errors which mean that a resource of the process or the machine is exhausted.
_EXHAUSTED = {
    errno.EMFILE: "open files (ulimit -n)",
    errno.ENFILE: "open files",
    errno.ENOMEM: "memory",
    errno.EAGAIN: "processes or threads (ulimit -u)",
}
_NO_THREAD = "can't start new thread"


#: Exceptions in third-party code that do not end the run; KeyboardInterrupt is excluded because it comes from the user.
THIRD_PARTY_ERRORS = (Exception, SystemExit)


class JSBenchError(Exception):
    """
    Base class for user-facing errors; the message is one line that is safe to print.

    The attributes are for programs; an attribute is None if the error does not set it. Unlike the message, the
    attributes may contain untrusted text unchanged.
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
        #: Name of the option as in `settings.options`, such as `api_key_env`, however the entry point spells the
        #: option.
        self.option = option
        #: The wrong value: a name, a number, a type.
        self.found = found
        #: What was expected: known names, or a description.
        self.expected = expected
        #: Place of the error: an option's name, a file, or a line in a file.
        self.where = option if where is None else where

    def __str__(self) -> str:
        """Return the message: what was found, what was expected and the next step, cut to the maximum length."""
        return printable(super().__str__(), _LONGEST, cut="middle")


@contextmanager
def errors_about(subject: str) -> Iterator[None]:
    """Prefix the messages of user-facing errors with the subject, unless the subject is empty."""
    try:
        yield
    except JSBenchError as error:
        if subject:
            error.args = (f"{subject}: {error}",)
        raise


class DatasetError(JSBenchError):
    """A dataset cannot be read, or does not contain what was requested."""


class ImportFailed(JSBenchError):
    """A module cannot be imported, or does not define the requested name."""


class ConditionError(JSBenchError):
    """A condition on cases cannot be parsed."""


class PromptError(JSBenchError):
    """A prompt cannot be found or rendered."""


class ContractError(JSBenchError):
    """A project's own test uses invalid arguments or values."""


class EngineError(JSBenchError):
    """An engine cannot be found, built or started."""


class UnknownEngine(EngineError):
    """No engine has the given name."""


class MissingRequirement(EngineError):
    """A package, a key or a model file is missing; the message states how to provide it."""


class JudgeError(JSBenchError):
    """The judge cannot run at all; a single answer that cannot be judged is recorded as `unjudged` instead."""


class RecordError(JSBenchError):
    """A line or a file is not a record, or not a run, of this package."""


class JournalError(JSBenchError):
    """A record cannot be written to, or read from, disk."""


class ResumeError(JSBenchError):
    """An earlier run's answers cannot be used in this run, because the two runs have different settings."""


class BatchError(JSBenchError):
    """A provider's batch cannot be submitted or read."""


class MergeError(JSBenchError):
    """The runs are not shards of the same run."""


class PriceError(JSBenchError):
    """The cost of a call is unknown."""


class GateError(JSBenchError):
    """A gate expression cannot be parsed."""


class ClassifierError(JSBenchError):
    """A classifier cannot be found, or does not return a valid code."""


class ExportError(JSBenchError):
    """A plot, a page or a file cannot be made from a run."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return text that suggests known names: `expected one of x, y` or `did you mean 'x'? (one of x, y)`."""
    names = sorted(known)
    if not names:
        return "none exists"
    longer = [longer_name for longer_name in names if len(name) >= _LEAST_BEGUN and longer_name.startswith(name)]
    close = longer if len(longer) == 1 else difflib.get_close_matches(name, names, n=1)
    everything = f"one of {len(names) if close and len(names) > _MOST_OFFERED else ', '.join(names)}"
    return f"did you mean '{close[0]}'? ({everything})" if close else f"expected {everything}"


def describe_exhaustion(error: BaseException) -> str:
    """Return a message if the error, or its cause, means that a resource is exhausted; otherwise an empty string."""
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
            return f"out of {what}; lower --jsbench-concurrency"
        seen = seen.__cause__
    return ""
