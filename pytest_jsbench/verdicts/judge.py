"""
Judge answers in a child process, and return the verdicts on attempts without an answer. Other
packages use only this module.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from dataclasses import asdict
from importlib.util import find_spec
from typing import TYPE_CHECKING, Self, assert_never

from msgspec import structs

from pytest_jsbench.core.child_process import ChildNotStarted, ChildReply
from pytest_jsbench.core.errors import JudgeError, nearest
from pytest_jsbench.core.generations import Completion, Decided, Declined, DeclineReason, Failed, FinishReason, Tools
from pytest_jsbench.core.guarded_calls import GuardedCalls
from pytest_jsbench.core.json_values import from_json, loads
from pytest_jsbench.schemas.dialects import DIALECTS, find_dialect
from pytest_jsbench.verdicts.tool_calls import (
    INCOMPLETE_REASONS,
    decide_calls,
    decide_offered,
    decide_without_call,
    find_judging_schema,
    quote_tools,
)
from pytest_jsbench.verdicts.verdicts import (
    LONGEST_TEXT,
    PARTLY,
    FailureType,
    JudgePolicy,
    Note,
    SyntaxReason,
    Verdict,
    no_instance,
    write_schema,
)

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Generation
    from pytest_jsbench.core.tool_offers import ToolOffer

#: Version of the judge's rules; verdicts by different versions are not comparable.
JUDGE_VERSION = "5"
#: Reason if an answer is empty, but the reasoning that the provider returned separately contains its JSON document.
IN_REASONING = "in_reasoning"
#: Limit for the child's address space in bytes; judging the largest published schemas takes a tenth of it.
_MEMORY = 4 << 30
#: Module with the functions that the child process runs.
_IN_CHILD = "pytest_jsbench.verdicts.in_process"
#: Function that the child process runs to repair a text.
_REPAIR_IN_CHILD = "pytest_jsbench.verdicts.local_repair:repair_text"
_DOCUMENT_LINE = re.compile(r"\n(?=[{\[])")


class Judge:
    """
    A judge for one policy that works in a child process; can be used from any thread.

    Workers of the plugin, the fixture and commands each create a judge, and close it at the end. The child process
    belongs to `calls`; by default, the judge creates `calls` itself. The child starts with the first request, or
    earlier with `start`. If the child hangs, crashes or runs out of memory, it is ended, the answer is `unjudged`, and
    the next request starts another child. The child also ends with `close`, and when its parent process ends.
    """

    def __init__(
        self, policy: JudgePolicy = JudgePolicy(), *, calls: GuardedCalls | None = None, memory: int = _MEMORY
    ) -> None:
        if find_dialect(policy.default_dialect) is None:
            uris = [dialect.uri for dialect in DIALECTS]
            message = f"unknown dialect '{policy.default_dialect}': {nearest(policy.default_dialect, uris)}"
            raise JudgeError(message, found=policy.default_dialect, expected=uris, where="default_dialect")
        self.policy = policy
        self._memory = memory
        self._policy = json.dumps(asdict(policy))
        self._calls = GuardedCalls() if calls is None else calls
        self._owned = calls is None
        #: Digests of the schemas that were found usable: the cases of an application offer the same tools.
        self._usable: set[bytes] = set()

    def start(self) -> None:
        """Start the child process in the background; if this fails, the first request reports the error."""
        self._calls.start(f"{_IN_CHILD}:inspect_schema", "true", self._policy)

    def _call_child(self, function: str, schema: str, *arguments: object) -> ChildReply:
        """Call a function of `in_process` in the child process; raise JudgeError if the child cannot be started."""
        try:
            return self._calls.values_of(
                f"{_IN_CHILD}:{function}",
                *(self._policy, *arguments),
                kept=schema,
                seconds=self.policy.timeout,
                memory=self._memory,
            )
        except ChildNotStarted as error:
            raise JudgeError(f"the judge's process did not start: {error}") from error

    def inspect(self, schema: Schema) -> Verdict | None:
        """Return the problem that makes the schema unusable; None if there is none."""
        text = write_schema(schema)
        if isinstance(text, Verdict):
            return text
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        if digest in self._usable:
            return None
        reply = self._call_child("inspect_schema", text)
        if reply.values:
            problem: Verdict | None = from_json(Verdict | None, reply.values[0])
            if problem is None:
                self._usable.add(digest)
            return problem
        return self._build_undecided_verdict(reply)

    def judge(self, schema: Schema, text: str, *, truncated: bool = False, trivial: bool = False) -> Verdict:
        """
        Return the verdict on an answer.

        Args:
            schema: the schema to which the answer should conform.
            text: the answer.
            truncated: whether the provider stopped the answer at the token limit.
            trivial: whether the verdict should list the constant answers that conform to the schema.

        """
        written = write_schema(schema)
        if isinstance(written, Verdict):
            return written
        # one more character is enough to detect a text that is too long
        text = text[: LONGEST_TEXT + 1]
        reply = self._call_child("judge_answer", written, text, truncated, trivial)
        if reply.values:
            # values that the child sent before it ended are valid, although details may be missing
            (verdict, instance), *details = reply.values
            if verdict["valid"] is not None and PARTLY.isdisjoint(verdict["notes"]):
                instance = text
            decided = from_json(Verdict, {**verdict, **(details[-1] if details else {})})
            return structs.replace(decided, instance=loads(instance))
        return self._build_undecided_verdict(reply)

    def constants(self, schema: Schema) -> tuple[str, ...] | None:
        """Return the constant answers that conform to the schema, such as `{}`; None if unknown."""
        written = write_schema(schema)
        if isinstance(written, Verdict):
            return None
        values = self._call_child("constants", written).values
        return None if not values or values[0] is None else tuple(values[0])

    def passes_after_json_repair(self, schema: Schema, text: str) -> bool | None:
        """
        Return whether a text that is not JSON passes after json-repair has repaired it; None without that package.

        This is only counted: an answer is judged as the model wrote it.
        """
        if find_spec("json_repair") is None:
            return None
        try:
            reply = self._calls.values_of(
                _REPAIR_IN_CHILD, text[:LONGEST_TEXT], seconds=self.policy.timeout, memory=self._memory
            )
        except ChildNotStarted as error:
            raise JudgeError(f"the judge's process did not start: {error}") from error
        return bool(reply.values and reply.values[0]) and self.judge(schema, reply.values[0]).passed

    def _build_undecided_verdict(self, reply: ChildReply) -> Verdict:
        """Return the verdict for a request that the child process did not complete."""
        message = f"the judge's process ended: {reply.detail}"
        if reply.ending == "timeout":
            message = f"judging did not finish within {self.policy.timeout:g} s"
        elif reply.error is not None:
            message = f"{reply.error}: {reply.detail}"
        return no_instance(FailureType.UNJUDGED, reply.ending or "crashed", message)

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the judge's rules, the validation libraries and Python."""
        from importlib.metadata import version

        return {
            "judge": JUDGE_VERSION,
            "jsonschema-rs": version("jsonschema-rs"),
            "jsonschema": version("jsonschema"),
            "regress": version("regress"),
            "python": platform.python_version(),
        }

    def close(self) -> None:
        """End the judge's own child process; a later request starts another."""
        if self._owned:
            self._calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def decide(generation: Generation, schema: Schema, judge: Judge, *, offer: ToolOffer | None = None) -> Verdict:
    """
    Judge an attempt by the case's original schema, even if the engine was sent an adapted schema.

    If the case offers tools, calls are judged by the original schemas of the tools and by what the case expects, and a
    text by the case's schema.
    """
    match generation:
        case Completion():
            return _decide_completion(generation, schema, judge, offer)
        case Declined():
            return no_instance(*_explain_decline(generation.reason), generation.message)
        case Failed():
            return no_instance(FailureType.API_ERROR, generation.kind.value, generation.message)
        case Decided():
            return _judge_decisions(generation)
        case _:
            assert_never(generation)


def _decide_completion(completion: Completion, schema: Schema, judge: Judge, offer: ToolOffer | None) -> Verdict:
    verdict = _decide_answer(completion, schema, judge, offer)
    if completion.finish_reason is FinishReason.CONTENT_FILTER and verdict.failure_type is FailureType.TRUNCATED:
        message = "a content filter stopped the answer before it was complete"
        return no_instance(FailureType.REFUSAL, FinishReason.CONTENT_FILTER.value, message)
    if completion.finish_word:
        return structs.replace(verdict, notes=(*verdict.notes, Note.UNKNOWN_FINISH_REASON))
    return verdict


def _decide_answer(completion: Completion, schema: Schema, judge: Judge, offer: ToolOffer | None) -> Verdict:
    if completion.finish_reason is FinishReason.CONTENT_FILTER and not completion.text.strip():
        message = "a content filter stopped the answer before any text"
        return no_instance(FailureType.REFUSAL, FinishReason.CONTENT_FILTER.value, message)
    if completion.finish_reason is FinishReason.REJECTED and not completion.text.strip():
        message = "the provider rejected the answer as invalid, and did not return it"
        return no_instance(FailureType.SYNTAX_ERROR, FinishReason.REJECTED.value, message)
    if offer is not None:
        return _decide_answer_to_offer(completion, schema, judge, offer)
    truncated = completion.finish_reason in INCOMPLETE_REASONS
    tools = None if completion.sent is None else completion.sent.tools
    if completion.calls:
        return decide_calls(completion, tools or Tools(schemas={}, allowed=(), required=False), schema, judge)
    if tools is not None and tools.required and completion.finish_reason is not FinishReason.LENGTH:
        cut = judge.judge(True, completion.text, truncated=True) if truncated else None
        if cut is not None and cut.failure_type is FailureType.TRUNCATED:
            return cut
        message = f"no tool was called; expected a call of {quote_tools(tools.allowed)}"
        return no_instance(FailureType.NO_CALL, None, message)
    return _decide_text(completion, schema, judge, trivial=True)


def _decide_answer_to_offer(completion: Completion, schema: Schema, judge: Judge, offer: ToolOffer) -> Verdict:
    """Judge an answer to a case that offers tools: its calls, or else its text."""
    if completion.calls:
        return decide_offered(completion, offer, judge)
    missing_call = decide_without_call(completion, offer)
    if missing_call is None and (schema is not True or not completion.text.strip()):
        return _decide_text(completion, schema, judge)
    if completion.finish_reason in INCOMPLETE_REASONS:
        place = "" if missing_call is None else " before any tool call"
        return no_instance(FailureType.TRUNCATED, None, f"the token limit ended the answer{place}")
    # any text conforms to the schema `true`
    return missing_call or Verdict(failure_type=None, valid=True)


def _decide_text(completion: Completion, schema: Schema, judge: Judge, *, trivial: bool = False) -> Verdict:
    """Judge the text of an answer; explain an empty text by the model's reasoning."""
    truncated = completion.finish_reason in INCOMPLETE_REASONS
    verdict = judge.judge(schema, completion.text, truncated=truncated, trivial=trivial)
    if verdict.reason != SyntaxReason.EMPTY:
        return verdict
    if _ends_in_document(completion.reasoning, schema, judge):
        message = "no text: the answer is in the reasoning channel"
        return structs.replace(verdict, reason=IN_REASONING, message=message)
    if truncated and (completion.reasoning or completion.usage.reasoning_tokens):
        return structs.replace(verdict, message="no text: the model reasoned up to the token limit")
    return verdict


def constants_of(
    generation: Generation | None, tool: str | None, schema: Schema, judge: Judge
) -> tuple[str, ...] | None:
    """
    Return the constant answers that would pass in place of the attempt's answer; None if unknown.

    If a declared tool was called, these are the constants that conform to its schema; otherwise they have to conform to
    the schema of every tool that the model may call.
    """
    completion = generation if isinstance(generation, Completion) else None
    tools = None if completion is None or completion.sent is None else completion.sent.tools
    if completion is None or tools is None or not (completion.calls or tools.required):
        return judge.constants(schema)
    if tool in tools.schemas:
        return judge.constants(find_judging_schema(generation, tool, schema))
    sets = [judge.constants(find_judging_schema(generation, name, schema)) for name in tools.allowed]
    known_sets = [constants for constants in sets if constants is not None]
    if len(known_sets) < len(sets):
        return None
    return (
        tuple(text for text in known_sets[0] if all(text in constants for constants in known_sets))
        if known_sets
        else ()
    )


def _ends_in_document(reasoning: str, schema: Schema, judge: Judge) -> bool:
    """Return whether the reasoning is one JSON document, or ends with an object or array at the start of a line."""
    begun = [line.end() for line in _DOCUMENT_LINE.finditer(reasoning)]
    ends = [reasoning[at:].rstrip("`~ \r\n\t") for at in dict.fromkeys((*begun[:1], *begun[-1:]))]
    return any(judge.judge(schema, text).valid is not None for text in (reasoning, *ends) if text)


def _explain_decline(reason: DeclineReason) -> tuple[FailureType, str | None]:
    match reason:
        case DeclineReason.UNSUPPORTED_SCHEMA:
            return FailureType.UNSUPPORTED_SCHEMA, None
        case DeclineReason.CONTEXT_LENGTH | DeclineReason.UNSUPPORTED_MESSAGES | DeclineReason.UNSUPPORTED_TOOLS:
            # retries would not help, since the request does not fit this model
            return FailureType.UNSUPPORTED_SCHEMA, reason.value
        case DeclineReason.REFUSAL:
            return FailureType.REFUSAL, None
        case _:
            assert_never(reason)


def _judge_decisions(decided: Decided) -> Verdict:
    """Return the verdict on decisions about labelled answers; only the labels count, and no schema is used."""
    faults: dict[str, str] = {}
    for valid, reason, verb in ((True, "over_constraint", "rejected"), (False, "under_constraint", "accepted")):
        labelled = [decision for decision in decided.decisions if decision.valid is valid]
        wrong = [decision for decision in labelled if decision.wrong]
        if wrong:
            label = "valid" if valid else "invalid"
            faults[reason] = f"{len(wrong)} of {len(labelled)} {label} answers {verb} ({wrong[0].id})"
    if not faults:
        return Verdict(failure_type=None, valid=None)
    reason = "both" if len(faults) > 1 else next(iter(faults))
    return no_instance(FailureType.WRONG_DECISION, reason, ", ".join(faults.values()))
