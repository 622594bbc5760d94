"""What may be changed where an answer did not pass, as far as its attempt shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from pytest_jsbench.core.generations import Completion, Failed, FaultKind, ResponseFormat
from pytest_jsbench.core.text import printable
from pytest_jsbench.verdicts import FailureType, Note, Verdict

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import Generation, GenerationParams

#: characters at an answer's end that, where they stand there again and again, are no accident
_REPEATED, _TIMES = 24, 4
_MOST_KEYWORDS = 3


def next_step(verdict: Verdict, generation: Generation | None, params: GenerationParams | None) -> str:
    """Say what to change for a case that did not pass; empty where its attempt shows nothing."""
    match verdict.failure_type:
        case FailureType.API_ERROR:
            return "" if params is None or not isinstance(generation, Failed) else _after_fault(generation, params)
        case FailureType.TRUNCATED:
            return _after_limit(generation, params)
        case FailureType.UNSUPPORTED_SCHEMA:
            return "the engine does not take this schema: change what it names, or see `jsbench adapt`"
        case FailureType.REFUSAL:
            return "-v shows the prompt that was refused"
        case FailureType.SYNTAX_ERROR:
            if _format(generation) is ResponseFormat.TEXT:
                return "no format was asked for: --jsbench-response-format=json_schema asks for JSON"
            return ""
        case FailureType.UNJUDGED:
            return "--jsbench-judge-timeout gives the judge more time"
        case FailureType.HALLUCINATION:
            return "forbid such fields with additionalProperties: false, or let them pass: --jsbench-extra-fields=allow"
        case FailureType.SCHEMA_VIOLATION:
            return _after_violation(verdict, generation)
        case FailureType.NO_CALL | FailureType.UNKNOWN_TOOL | FailureType.WRONG_TOOL | FailureType.WRONG_DECISION:
            return ""
        case FailureType.INVALID_SCHEMA | None:
            return ""
        case _:
            assert_never(verdict.failure_type)


def _format(generation: Generation | None) -> ResponseFormat | None:
    sent = generation.sent if isinstance(generation, Completion) else None
    return None if sent is None else sent.response_format


def _after_fault(generation: Failed, params: GenerationParams) -> str:
    if generation.kind is FaultKind.TIMEOUT:
        return f"--jsbench-timeout allows a call more than {params.timeout:g} s"
    if generation.kind is FaultKind.RATE_LIMITED:
        return "--jsbench-rpm and --jsbench-concurrency ask more slowly"
    return ""


def _after_limit(generation: Generation | None, params: GenerationParams | None) -> str:
    text = generation.text if isinstance(generation, Completion) else ""
    if len(text) >= _REPEATED and text.count(text[-_REPEATED:]) >= _TIMES:
        return "the answer repeats itself, so a higher limit would not help: bound the schema, or ask another model"
    limit = "" if params is None else f", which is {params.max_tokens:,} tokens"
    return f"raise the limit with --jsbench-max-tokens{limit}; a model's context may end sooner"


def _after_violation(verdict: Verdict, generation: Generation | None) -> str:
    broken = list(dict.fromkeys(printable(violation.keyword, 40) for violation in verdict.violations))
    if not broken or {Note.ADAPTATION_LOSS, Note.NOT_ENFORCED} & set(verdict.notes):
        return ""
    keywords = ", ".join(broken[:_MOST_KEYWORDS])
    if (response_format := _format(generation)) in {ResponseFormat.TEXT, ResponseFormat.JSON_OBJECT}:
        return f"{response_format} enforces no {keywords}: --jsbench-response-format=json_schema sends the schema"
    if response_format is None:
        return ""
    them = "them" if len(broken) > 1 else "it"
    return (
        f"the engine was sent {keywords} and did not enforce {them}: ask for {them} in the prompt, or in a description"
    )
