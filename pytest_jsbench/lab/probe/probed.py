"""The result of a whole probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_jsbench.lab.probe.check import CheckFinding
from pytest_jsbench.lab.probe.enforcement import ModeFinding, Replies
from pytest_jsbench.lab.probe.questions import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """Findings of a probe."""

    findings: Sequence[ModeFinding]
    #: Replies to the control questions, by the location of the schema; empty if the engine always uses a response
    #: format.
    controls: Mapping[Shown, Replies]
    #: Findings of the checks.
    checks: Sequence[CheckFinding] = ()
    #: Checks that were not made, each with the reason.
    not_checked: Mapping[str, str] = field(default_factory=dict)
    #: Number of calls, without retries.
    calls: int

    @property
    def enforced(self) -> bool:
        """Whether everything that was probed is enforced."""
        return bool(self.findings) and all(finding.passed for finding in self.findings)

    @property
    def passed(self) -> bool:
        """Whether everything that was probed is enforced, and every check that was made found the server sound."""
        return self.enforced and all(check.passed for check in self.checks)
