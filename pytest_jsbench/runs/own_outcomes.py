"""How a project's own test ended that asked for an attempt. It stands beside the verdict, and has no part in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class End(StrEnum):
    """How pytest says that it ended."""

    PASSED = "passed"
    FAILED = "failed"
    #: it was skipped after it had asked
    SKIPPED = "skipped"
    #: it failed, as a marker of the project had foretold
    XFAILED = "xfailed"


class Cause(StrEnum):
    """What a test failed of."""

    #: the answer did not pass, or never came: the verdict says why
    ANSWER = "answer"
    #: an assertion of the project's own, or `pytest.fail`
    ASSERTION = "assertion"
    #: the answer's type refused what its JSON Schema takes
    TYPE_REFUSED = "type_refused"
    #: the test's own time was over
    TIMEOUT = "timeout"
    #: any other exception
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnOutcome:
    """The outcome of a test, or of one of its repeats."""

    end: End
    #: None unless it failed
    cause: Cause | None = None
    #: of the answer's type: which field was refused
    field: str | None = None
    #: what the failure says, on one line; empty where there is nothing to say, and where it is left out
    message: str = ""

    @property
    def passed(self) -> bool | None:
        """Whether the test passed; None where it neither passed nor failed."""
        return {End.PASSED: True, End.FAILED: False}.get(self.end)

    def without_words(self, instead: str = "") -> OwnOutcome:
        """The same without what the test said, and without the names of fields."""
        return replace(self, message=self.message and instead, field=self.field and (instead or None))
