"""Define the types of a verdict, and convert verdicts to text."""

from __future__ import annotations

import functools
import json
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from msgspec import UNSET, Struct
from msgspec.structs import force_setattr, replace

from pytest_jsbench.core.arguments import CheckedFields, names, number
from pytest_jsbench.core.errors import JSBenchError, nearest
from pytest_jsbench.core.json_values import Fraction, as_dict, to_json, write_always
from pytest_jsbench.core.text import printable


class FailureType(StrEnum):
    """
    Reasons why an attempt did not pass, in the order in which they are checked; the first that
    applies is reported.
    """

    #: The case's own schema is unusable, which is a fault of the dataset, so the case is excluded.
    INVALID_SCHEMA = "invalid_schema"
    #: The call failed, which is a fault of the infrastructure.
    API_ERROR = "api_error"
    #: The engine does not support this schema.
    UNSUPPORTED_SCHEMA = "unsupported_schema"
    #: The provider reported a refusal, in a field or as the stop reason, or its content filter allowed no text.
    REFUSAL = "refusal"
    #: A tool call was required or expected, and is missing although the token limit did not end the answer.
    NO_CALL = "no_call"
    #: The model called a tool that the request does not declare.
    UNKNOWN_TOOL = "unknown_tool"
    #: The model called a declared tool that may not be called here or is not expected, or several tools although only
    #: one call is allowed.
    WRONG_TOOL = "wrong_tool"
    #: The answer stopped at the token limit, and its text is not a complete document.
    TRUNCATED = "truncated"
    #: The text, or the content of the fence around it, is not exactly one JSON document (RFC 8259) within the limits.
    SYNTAX_ERROR = "syntax_error"
    #: The judge ran out of time or memory, or crashed, which is no fault of the model.
    UNJUDGED = "unjudged"
    #: The answer has fields that the schema does not name at their place, and is otherwise valid.
    HALLUCINATION = "hallucination"
    #: The answer is not valid for any other reason.
    SCHEMA_VIOLATION = "schema_violation"
    #: The calls conform to their tools' schemas, but their arguments are not those that the case expects.
    WRONG_ARGUMENTS = "wrong_arguments"
    #: A grammar rejects a valid labelled answer, or accepts an invalid one.
    WRONG_DECISION = "wrong_decision"


class SyntaxReason(StrEnum):
    """Reasons why a text is not one JSON document; the first that applies is reported."""

    TOO_LARGE = "too_large"
    #: The answer is in a Markdown fence, and the policy forbids fences.
    FENCE_FORBIDDEN = "fence_forbidden"
    #: The answer is in a Markdown fence that is marked as another format than JSON.
    FENCE_NOT_JSON = "fence_not_json"
    TOO_DEEP = "too_deep"
    EMPTY = "empty"
    BOM = "bom"
    NAN_OR_INFINITY = "nan_or_infinity"
    NUMBER_OUT_OF_RANGE = "number_out_of_range"
    LONE_SURROGATE = "lone_surrogate"
    #: The text begins with reasoning that never ends, so there is no answer.
    UNCLOSED_REASONING = "unclosed_reasoning"
    REASONING_PREAMBLE = "reasoning_preamble"
    #: A Markdown fence with other text before, after or inside it.
    FENCE_NOT_ALONE = "fence_not_alone"
    SEVERAL_DOCUMENTS = "several_documents"
    TRAILING_TEXT = "trailing_text"
    #: The text ends before its document is complete.
    INCOMPLETE = "incomplete"
    #: Invisible characters at a place where JSON does not allow them.
    WHITE_SPACE = "white_space"
    #: The text resembles JSON but violates its grammar: single quotes, comments, trailing commas, …
    MALFORMED = "malformed"
    PROSE = "prose"
    #: An object has the same key twice, and the policy forbids it.
    DUPLICATE_KEYS = "duplicate_keys"


class SchemaReason(StrEnum):
    """Reasons why a schema is unusable."""

    NOT_JSON = "not_json"
    NOT_A_SCHEMA = "not_a_schema"
    TOO_DEEP = "too_deep"
    UNKNOWN_DIALECT = "unknown_dialect"
    #: The schema's metaschema requires an unpublished vocabulary.
    UNKNOWN_VOCABULARY = "unknown_vocabulary"
    #: The schema is invalid by the metaschema of its dialect.
    METASCHEMA = "metaschema"
    UNRESOLVABLE_REFERENCE = "unresolvable_reference"
    PATTERN = "pattern"


#: Failure types that are not a fault of the model.
NOT_THE_MODELS = frozenset({FailureType.API_ERROR, FailureType.UNJUDGED})


class SecondOpinion(StrEnum):
    """Opinion of the second validator on the same instance."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    UNDECIDED = "undecided"
    NOT_ASKED = "not_asked"


class Note(StrEnum):
    """An observation that did not affect the verdict."""

    FENCED = "fenced"
    UNCLOSED_FENCE = "unclosed_fence"
    DUPLICATE_KEYS = "duplicate_keys"
    REASONING_STRIPPED = "reasoning_stripped"
    #: A string differs from a value of `enum` or `const` only in upper and lower case.
    CAPITALS = "capitals"
    #: The answer violates a keyword that was removed from the schema before it was sent to the engine.
    ADAPTATION_LOSS = "adaptation_loss"
    #: The engine's request did not contain the schema.
    NOT_ENFORCED = "not_enforced"
    #: The server sent another JSON value where its API defines a string.
    NOT_TEXT = "not_text"
    #: The schema contains a reference that is not a valid URI because its characters are not percent-encoded.
    UNENCODED_REFERENCE = "unencoded_reference"
    #: The answer contained a secret of the run; it was judged and recorded with `*` in place of the secret.
    SECRET_REPLACED = "secret_replaced"  # noqa: S105  a note's name
    #: The answer is a complete document, although the server's finish reason does not show whether it is complete.
    UNKNOWN_FINISH_REASON = "unknown_finish_reason"
    #: A tool without parameters was called with empty text as its arguments, which were judged as {}.
    EMPTY_ARGUMENTS = "empty_arguments"
    #: The required tool was called several times, which the request did not forbid.
    FORCED_TOOL_REPEATED = "forced_tool_repeated"
    #: A tenth or more of the answer, and at least 100 characters, is one run of white space.
    WHITESPACE = "whitespace"
    #: A tenth or more of the answer, and at least 100 characters, is a text that is repeated six times or more.
    REPEATING = "repeating"


#: Notes on answers whose text also contains a fence or reasoning, so that only a part of the text is the document.
PARTLY = frozenset({Note.FENCED, Note.UNCLOSED_FENCE, Note.REASONING_STRIPPED})
#: Maximum length of an answer in characters.
LONGEST_TEXT = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A place where an instance violates its schema."""

    #: Keyword that the instance violates: `type`, `required`, `oneOf`, …
    keyword: str
    #: Place in the instance as a JSON path: `$.items[0].sku`.
    instance_path: str
    #: Place in the schema as a JSON pointer: `/properties/items/items/required`.
    schema_path: str
    #: Description of the violation in one line of limited length.
    message: str


class Verdict(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The judge's decision on an attempt, by the original schema of the case."""

    #: Whether the attempt passed, which means that it has no failure type.
    passed: bool = cast("bool", UNSET)
    #: Reason why the attempt did not pass; None if it passed.
    failure_type: FailureType | None
    #: Whether the instance conforms to the schema; None if there is no instance or the result is unknown.
    valid: bool | None
    #: Detail of the failure type: kind of failed call, syntax reason, kind of extra fields, or why the judge stopped.
    reason: str | None = write_always(None)
    #: Description of the failure in one line; empty if the attempt passed.
    message: str = write_always("")
    #: Name of the tool whose call determined the verdict, the first one that did not pass; None if the text was judged.
    tool: str | None = write_always(None)
    #: The first 20 places where the instance violates the schema.
    violations: tuple[Violation, ...] = write_always(())
    #: JSON paths of the fields that the schema does not name at their place.
    extra_fields: tuple[str, ...] = write_always(())
    #: JSON paths of the extra fields whose names the schema uses elsewhere.
    misplaced_fields: tuple[str, ...] = write_always(())
    #: Observations that did not affect the verdict: fenced, unclosed_fence, duplicate_keys, reasoning_stripped,
    #: capitals, adaptation_loss, not_enforced, not_text, unencoded_reference, secret_replaced, unknown_finish_reason,
    #: empty_arguments, forced_tool_repeated, whitespace, repeating.
    notes: tuple[Note, ...] = write_always(())
    #: Whether the properties of a conforming answer are in the schema's order; None if no order can be compared.
    order_kept: bool | None = write_always(None)
    #: Constant answers that conform to the case's schema; None if unknown.
    trivial: tuple[str, ...] | None = write_always(None)
    #: The `$schema` URI of the dialect that the judge used for the schema.
    dialect: str | None = write_always(None)
    #: Value of --jsbench-default-dialect with which an invalid schema without `$schema` would be valid; None if
    #: unknown.
    valid_in: str | None = write_always(None)
    #: Opinion of the second validator on the same instance.
    second_opinion: SecondOpinion = write_always(SecondOpinion.NOT_ASKED)
    #: Number of tool calls with conforming arguments, of a case that offers tools; None if the answer has no calls.
    conforming_calls: int | None = None
    #: Share of the answer's characters in its longest run of white space or repetition, if one of them is noted.
    runaway_share: Fraction | None = None
    #: The parsed instance, if any; not part of a record, since the record contains the text.
    instance: object = None

    def __post_init__(self) -> None:
        passed = self.failure_type is None
        given: object = self.passed
        if given is not UNSET and given is not passed:
            raise ValueError(f"passed is {json.dumps(self.passed)}, but failure_type is {self.failure_type}")
        force_setattr(self, "passed", passed)

    @property
    def disputed(self) -> bool:
        """Whether the two validators disagree."""
        return self.second_opinion is SecondOpinion.DISAGREES

    @property
    def keyword(self) -> str | None:
        """Keyword of the first violation."""
        return self.violations[0].keyword if self.violations else None

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON values without its instance."""
        values: dict[str, Any] = to_json(replace(self, instance=None))
        return values


#: Answers that do not depend on the prompt; a case that one of them passes does not test a model.
CONSTANT_ANSWERS = ("{}", "[]", '""', "0", "true", "null")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePolicy(CheckedFields):
    """Options of the judge; a run has one policy, which its records contain."""

    extra_fields: Literal["fail", "allow"] = "fail"
    #: Names of fields that never count as hallucinations.
    ignored_fields: tuple[str, ...] = ()
    #: Handling of a duplicate key in an object: add a note and use the last value, or fail with a syntax error.
    duplicate_keys: Literal["note", "fail"] = "note"
    fences: Literal["strip", "forbid"] = "strip"
    reasoning: Literal["keep", "strip"] = "keep"
    formats: Literal["assert", "ignore"] = "assert"
    #: Dialect of schemas without `$schema`.
    default_dialect: str = "https://json-schema.org/draft/2020-12/schema"
    validator: Literal["both", "jsonschema-rs", "jsonschema"] = "both"
    #: Time limit in seconds for one schema or one answer.
    timeout: float = 5.0

    def __post_init__(self) -> None:
        self._convert({"ignored_fields": names, "timeout": number("seconds above 0", above=0)})
        for name, choices in self.choices().items():
            if (value := getattr(self, name)) not in choices:
                message = f"JudgePolicy: {name} is {value!r:.80}; {nearest(str(value), choices)}"
                raise JSBenchError(message, found=value, expected=choices, where=name)

    @classmethod
    @functools.cache
    def choices(cls) -> dict[str, tuple[str, ...]]:
        """Return the allowed values of each field that has a fixed set of them."""
        hints = get_type_hints(cls)
        return {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}


#: Suggestions for callers who pass a field of the policy to a function that takes the policy as a whole.
POLICY_OFFERS = {name: f"pass policy=JudgePolicy({name}=…)" for name in JudgePolicy.__dataclass_fields__}
#: Reason for an answer to an application's call that has no schema at all.
UNDESCRIBED = "no_schema"
#: Reason for a text answer to an application's call that declares tools but has no schema for text.
NO_TOOL_CALLED = "no_tool_called"
#: Reasons of answers that no schema describes.
WITHOUT_SCHEMA = frozenset({UNDESCRIBED, NO_TOOL_CALLED})

#: Reason for an attempt that was not made because the schema cannot be rewritten as the variant demands.
NOT_REWRITTEN = "not_rewritten"


def no_instance(failure_type: FailureType, reason: str | None, message: str) -> Verdict:
    """Return a verdict without an instance, on one attempt or on all attempts with an unusable schema."""
    return Verdict(failure_type=failure_type, valid=None, reason=reason, message=printable(message, cut="middle"))


def invalid(reason: SchemaReason, message: str) -> Verdict:
    """Return the verdict on every answer to an unusable schema."""
    return no_instance(FailureType.INVALID_SCHEMA, reason.value, message)


def write_schema(schema: object) -> str | Verdict:
    """Return the schema as JSON text, or a verdict if this is impossible."""
    try:
        return _ENCODER.encode(schema)
    except RecursionError:
        return invalid(SchemaReason.TOO_DEEP, "the schema nests too deeply to be written as JSON")
    except (TypeError, ValueError) as error:
        return invalid(SchemaReason.NOT_JSON, f"the schema cannot be written as JSON: {error}")


_ENCODER = json.JSONEncoder(allow_nan=False, default=as_dict)


# Convert verdicts to text.

#: Maximum length in characters of a line in an excerpt.
_WIDTH = 100
#: Number of lines at the start of a long answer that an excerpt contains.
_FIRST_LINES = 10
#: Number of lines at the end of a long answer that an excerpt contains.
_LAST_LINES = 4
#: Maximum length in characters of each half of a shortened excerpt.
_LONGEST_EXCERPT = 2000
_VIOLATIONS = 3
_MEANINGS = {
    Note.SECRET_REPLACED: "the answer contained a secret of this run, and was judged with * in place of the secret",
    Note.CAPITALS: "the answer differs from an enum value only in letter case, which not every provider enforces",
    Note.ADAPTATION_LOSS: "the answer violates a keyword that was removed from the schema before the call",
    Note.NOT_TEXT: "the server sent a JSON value where its API defines a text; the value was judged as JSON text",
    Note.NOT_ENFORCED: "the request was sent without the schema",
    Note.UNKNOWN_FINISH_REASON: "the server's finish reason does not show whether the answer is complete",
    Note.EMPTY_ARGUMENTS: "the tool has no parameters, and its empty arguments were judged as {}",
    Note.FORCED_TOOL_REPEATED: "the required tool was called several times, and each call was judged",
    Note.WHITESPACE: "a large part of the answer is one run of white space",
    Note.REPEATING: "a large part of the answer repeats one text over and over",
}


def headline(verdict: Verdict, *, remark: str = "") -> str:
    """Return the verdict in one line: failure type, reason, remark and message."""
    kind = verdict.failure_type.value if verdict.failure_type else "passed"
    reason = f" ({verdict.reason})" if verdict.reason else ""
    return f"{kind}{reason}{remark}" + (f": {printable(verdict.message)}" if verdict.message else "")


def verdict_text(verdict: Verdict, text: str | None) -> str:
    """Return the headline, the place of each violation, and an excerpt of the answer, if any."""
    lines = [headline(verdict), *_details(verdict)]
    if text is not None:
        lines += excerpt("answer", text)
    return "\n".join(lines)


def _details(verdict: Verdict) -> Iterator[str]:
    for place, violation in enumerate(verdict.violations[:_VIOLATIONS]):
        yield _violation(violation, in_headline=place == 0)
    if (more := len(verdict.violations) - _VIOLATIONS) > 0:
        yield f"  … and {more} more"
    for fault, paths in extra_fields(verdict):
        shown = ", ".join(printable(path, 80) for path in paths[:5])
        yield f"  {fault}: {shown}{', …' if len(paths) > 5 else ''}"
    for note, meaning in _MEANINGS.items():
        if note in verdict.notes:
            yield f"  {note.value}: {meaning}"


def extra_fields(verdict: Verdict) -> Iterator[tuple[str, list[str]]]:
    """Yield each kind of extra fields, with the paths of the fields."""
    # in a redacted verdict, several paths can be equal
    misplaced = Counter(verdict.misplaced_fields)
    unnamed = list((Counter(verdict.extra_fields) - misplaced).elements())
    for fault, paths in (
        ("not in the schema", unnamed),
        ("only elsewhere in the schema", list(misplaced.elements())),
    ):
        if paths:
            yield fault, paths


def _violation(violation: Violation, *, in_headline: bool) -> str:
    where = f"  {printable(violation.keyword, 60)} at {printable(violation.instance_path, 120, cut='middle')}"
    message = "" if in_headline else f": {printable(violation.message, 200)}"
    return f"{where} [schema {printable(violation.schema_path, 120, cut='middle')}]{message}"


def excerpt(label: str, text: str) -> list[str]:
    """Return a label and an excerpt of the text: its first and last lines, which show whether the text is truncated."""
    if len(text) > 2 * _LONGEST_EXCERPT:
        text = f"{text[:_LONGEST_EXCERPT]}\n…\n{text[-_LONGEST_EXCERPT:]}"
    wrapper = textwrap.TextWrapper(
        _WIDTH, expand_tabs=False, replace_whitespace=False, drop_whitespace=False, break_on_hyphens=False
    )
    lines = [part for line in text.split("\n") for part in wrapper.wrap(line) or [""]]
    if len(lines) == 1:
        return [f"  {label}: {printable(lines[0], None) or '(empty)'}"]
    if len(lines) > _FIRST_LINES + _LAST_LINES + 1:
        lines[_FIRST_LINES:-_LAST_LINES] = ["…"]
    return [f"  {label}:", *(f"    {printable(line, None)}" for line in lines)]
