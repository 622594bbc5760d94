"""
Ask again for a wrong answer: continue its conversation with what the judge found, or, as a control, without it.

The first answer alone decides the verdict of the attempt. The tries are stored in the attempt's record, one after the
other, so that a run that is interrupted between them can be resumed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import structs

from pytest_jsbench.core.cases import Prompt
from pytest_jsbench.core.generations import Completion, Decided, Request
from pytest_jsbench.core.messages import Message
from pytest_jsbench.records.records import Record
from pytest_jsbench.records.repairs import NOT_JSON, REPAIRABLE, RepairPlan, Repairs, RepairTry
from pytest_jsbench.run.project_runner import ProjectRunner
from pytest_jsbench.verdicts.tool_calls import find_judging_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.core.cases import BrokenCase, Case
    from pytest_jsbench.run.attempts import Runner
    from pytest_jsbench.verdicts import Judge, Verdict

#: First and last line of each follow-up; the judge's findings are between them.
_WRONG = "This answer does not conform to the JSON Schema"
_AGAIN = "Correct it. Reply with the complete JSON document, and nothing else."
#: Text in place of an empty answer, since many chat templates and servers reject an empty message.
_EMPTY = "(empty)"


def begin_tries(plan: RepairPlan, record: Record, judge: Judge) -> Record:
    """
    Return a record whose tries the plan can continue; tries of an earlier run stay if they have the same follow-ups.

    An answer that passed, or that the model did not write, has no second tries.
    """
    earlier = record.repairs
    if record.redacted is not None:  # its texts are not known any more
        return record
    if not _is_repairable(record):
        return record if earlier is None else structs.replace(record, repairs=None)
    if earlier is None or earlier.shows_errors is not plan.shows_errors:
        rescued = _passes_after_json_repair(record, judge) if earlier is None else earlier.json_repair
        begun = Repairs(most=plan.most, shows_errors=plan.shows_errors, json_repair=rescued)
    else:
        tries = earlier.without_failed_call().tries[: plan.most]
        begun = structs.replace(earlier, most=plan.most, tries=tries)
    return record if begun == earlier else structs.replace(record, repairs=begun)


def wants_try(record: Record) -> bool:
    """Return whether the next try of a record's answer is to be made."""
    repairs = record.repairs
    if repairs is None or len(repairs.tries) >= repairs.most:
        return False
    return not repairs.tries or repairs.tries[-1].failure_type in REPAIRABLE


def make_try(runner: Runner | ProjectRunner, case: Case | BrokenCase, record: Record) -> Record:
    """Make the next try of a record's answer, and return the record with it; raise Refused if no call is allowed."""
    if isinstance(runner, ProjectRunner):
        with runner.window:
            return make_try(runner.runner, case, record)
    repairs = record.repairs
    assert repairs is not None
    prepared = runner.prepare(case, record.repeat)
    prompt = record.prompt
    if isinstance(prepared, Record) or not isinstance(prepared.request, Request) or prompt is None:
        return structs.replace(record, repairs=structs.replace(repairs, most=len(repairs.tries)))
    message = follow_up((repairs.tries[-1] if repairs.tries else record).verdict, shows_errors=repairs.shows_errors)
    conversation = Prompt(messages=(*prompt.messages, *_continue(record, message)))
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    generation, tries = runner.send_more(prepared, conversation)
    assert not isinstance(generation, Decided)
    made = RepairTry(
        prompt_digest=conversation.digest,
        message=message,
        generation=generation,
        verdict=runner.judge_answer(generation, prepared.case.schema, record.changes),
        started_at=started_at,
        retries=tries.retries,
        remembered=tries.answered_by is not None,
    )
    return structs.replace(record, repairs=structs.replace(repairs, tries=(*repairs.tries, made)))


def follow_up(verdict: Verdict, *, shows_errors: bool) -> str:
    """Return the user's message after a wrong answer."""
    if not shows_errors:
        return f"{_WRONG}.\n{_AGAIN}"
    return "\n".join([f"{_WRONG}:", *_findings(verdict), _AGAIN])


def _findings(verdict: Verdict) -> Iterator[str]:
    """Yield what the judge found wrong in an answer, one line each."""
    if not verdict.violations and not verdict.extra_fields:
        yield f"- {verdict.message}"
    for violation in verdict.violations:
        yield f"- {violation.instance_path}: {violation.message}"
    for path in verdict.extra_fields:
        yield f"- {path}: the schema has no such field"


def _continue(record: Record, message: str) -> Iterator[Message]:
    """Yield the messages after the prompt: each wrong answer so far, and its follow-up; the last one is `message`."""
    tries = () if record.repairs is None else record.repairs.tries
    answers = (record.generation, *(each.generation for each in tries))
    for answer, follow in zip(answers, (*(each.message for each in tries), message), strict=True):
        text = answer.text if isinstance(answer, Completion) else ""
        # half a surrogate pair cannot be sent
        yield Message(role="assistant", content=text.encode("utf-8", "replace").decode() or _EMPTY)
        yield Message(role="user", content=follow)


def _is_repairable(record: Record) -> bool:
    """
    Return whether the model wrote the answer, and the judge found it wrong.

    Answers to cases that offer tools are not asked for again: each call would need a result first.
    """
    wrong = isinstance(record.generation, Completion) and record.verdict.failure_type in REPAIRABLE
    return wrong and record.offer is None


def _passes_after_json_repair(record: Record, judge: Judge) -> bool | None:
    """Return whether json-repair makes an answer pass that is not JSON; None if it is JSON, or without the package."""
    answer = record.generation
    if record.verdict.failure_type not in NOT_JSON or not isinstance(answer, Completion) or record.schema is None:
        return None
    schema = find_judging_schema(answer, record.verdict.tool, record.schema)
    return judge.passes_after_json_repair(schema, answer.text)
