"""Make the attempts of a project's own tests: recognize earlier answers, and judge the calls of applications."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import structs

from pytest_jsbench.core.generations import Completion
from pytest_jsbench.records.rejudging import judge_again
from pytest_jsbench.records.setting_differences import REMEMBERED
from pytest_jsbench.verdicts import NO_TOOL_CALLED, UNDESCRIBED, FailureType, Verdict
from pytest_jsbench.verdicts.tool_calls import find_judging_schema

if TYPE_CHECKING:
    import threading

    from pytest_jsbench.core.cases import BrokenCase, Case
    from pytest_jsbench.records.records import AnsweredBy, AskedBy, Record
    from pytest_jsbench.run.attempts import Runner
    from pytest_jsbench.run.question import ForwardedCall
    from pytest_jsbench.verdicts import Judge

NO_SCHEMA = Verdict(
    failure_type=FailureType.INVALID_SCHEMA,
    valid=None,
    reason=UNDESCRIBED,
    message="the answer has no schema: neither the application's call nor the test's marker contains one",
)
TEXT_WITHOUT_SCHEMA = structs.replace(
    NO_SCHEMA,
    reason=NO_TOOL_CALLED,
    message="the model called none of the application's tools, and there is no schema for a text answer",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRunner:
    """Makes the attempt of one question of a project's test, within the concurrency of the variant."""

    runner: Runner
    #: Limits the number of concurrent attempts.
    window: threading.BoundedSemaphore
    #: The engine and model of the answers if they are not the run's.
    answered_by: AnsweredBy | None
    asked_by: AskedBy
    #: The call that an application makes; None if the test itself asks.
    exchange: ForwardedCall | None

    def attempt(self, case: Case | BrokenCase, *, repeat: int = 0, planned_at: float | None = None) -> Record:
        """Make the attempt, which was queued at `planned_at`; raise Refused if a call is not allowed."""
        with self.window:
            record = self.runner.attempt(case, repeat=repeat, planned_at=planned_at)
        if self.exchange is not None:
            record = judge_forwarded(record, self.exchange, self.runner.judge)
            record = structs.replace(record, transit=self.exchange.transit)
        return structs.replace(record, answered_by=record.answered_by or self.answered_by)

    def is_same(self, record: Record, case: Case) -> bool:
        """Return whether a record answers the case, from the same engine with the same sampling parameters."""
        # the test needs the text of the answer, which a redacted record does not contain
        if record.asked_by is None or record.prompt is None or record.redacted is not None:
            return False
        remembered = record.answered_by is not None and record.answered_by.engine == REMEMBERED
        if record.answered_by != self.answered_by and not remembered:
            return False
        return (
            record.asked_by.terms == self.asked_by.terms
            and record.schema_digest == case.digest
            and record.prompt.digest == self.runner.template(case).digest
        )


def judge_forwarded(record: Record, call: ForwardedCall, judge: Judge) -> Record:
    """
    Judge the answer to an application's call by the schema of each tool that the model called, or by the schema of the
    answer; an answer without a schema is excluded.
    """
    if not isinstance(record.generation, Completion):
        return record
    schema = call.schema_for(record.generation)
    if schema is None:
        verdict = NO_SCHEMA if call.sent.tools is None else TEXT_WITHOUT_SCHEMA
        return structs.replace(record.with_schema(None), verdict=verdict)
    record = judge_again(record.with_schema(schema), judge)
    return record.with_schema(find_judging_schema(record.generation, record.verdict.tool, schema))
