"""Define the types of a verdict, and format verdicts for people."""

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

from pytest_jsbench.core.arguments import arguments, names, number
from pytest_jsbench.core.errors import JSBenchError, nearest
from pytest_jsbench.core.json_values import as_dict, to_json, written
from pytest_jsbench.core.text import printable


class FailureType(StrEnum):
    """Reasons why an attempt did not pass, in the order in which they are decided; the first that applies."""

    #: Dataset fault: the case is excluded.
    INVALID_SCHEMA = "invalid_schema"
    #: Infrastructure fault: there is no completion.
    API_ERROR = "api_error"
    #: The engine does not support this schema.
    UNSUPPORTED_SCHEMA = "unsupported_schema"
    #: The provider's refusal field, stop reason, or a content filter without text.
    REFUSAL = "refusal"
    #: A tool had to be called and was not, though the token limit did not end the answer.
    NO_CALL = "no_call"
    #: A tool is called that the request does not declare.
    UNKNOWN_TOOL = "unknown_tool"
    #: A declared tool is called that must not be called.
    WRONG_TOOL = "wrong_tool"
    #: Stopped at the token limit, and the text is not a complete document.
    TRUNCATED = "truncated"
    #: The text, or the only fence around it, is not exactly one JSON document (RFC 8259) within the limits.
    SYNTAX_ERROR = "syntax_error"
    #: No fault of the model: the judge ran out of time or memory, or crashed.
    UNJUDGED = "unjudged"
    #: The schema does not name some fields there, and the instance is valid, or becomes valid without them.
    HALLUCINATION = "hallucination"
    #: Not valid for any other reason.
    SCHEMA_VIOLATION = "schema_violation"
    #: For labelled answers: the grammar rejects a valid one, or accepts an invalid one.
    WRONG_DECISION = "wrong_decision"


class SyntaxReason(StrEnum):
    """Reasons why a text is not one JSON document; the first that applies."""

    TOO_LARGE = "too_large"
    #: A fence, although the policy forbids fences.
    FENCE_FORBIDDEN = "fence_forbidden"
    #: A fence that declares content other than JSON.
    FENCE_NOT_JSON = "fence_not_json"
    TOO_DEEP = "too_deep"
    EMPTY = "empty"
    BOM = "bom"
    NAN_OR_INFINITY = "nan_or_infinity"
    NUMBER_OUT_OF_RANGE = "number_out_of_range"
    LONE_SURROGATE = "lone_surrogate"
    #: Reasoning without an end, so that there is no answer.
    UNCLOSED_REASONING = "unclosed_reasoning"
    REASONING_PREAMBLE = "reasoning_preamble"
    #: A fence with text before, after or inside it that is not the document.
    FENCE_NOT_ALONE = "fence_not_alone"
    SEVERAL_DOCUMENTS = "several_documents"
    TRAILING_TEXT = "trailing_text"
    #: The document ends before it is complete.
    INCOMPLETE = "incomplete"
    #: White space, or invisible characters, where JSON does not allow them.
    WHITE_SPACE = "white_space"
    #: Begins as JSON and violates its grammar: single quotes, comments, trailing commas, …
    MALFORMED = "malformed"
    PROSE = "prose"
    #: An object has a key twice, although the policy forbids it.
    DUPLICATE_KEYS = "duplicate_keys"


class SchemaReason(StrEnum):
    """Reasons why a schema is unusable."""

    NOT_JSON = "not_json"
    NOT_A_SCHEMA = "not_a_schema"
    TOO_DEEP = "too_deep"
    UNKNOWN_DIALECT = "unknown_dialect"
    #: Its metaschema requires a vocabulary that is not among the published ones.
    UNKNOWN_VOCABULARY = "unknown_vocabulary"
    #: Invalid according to the metaschema of its dialect.
    METASCHEMA = "metaschema"
    UNRESOLVABLE_REFERENCE = "unresolvable_reference"
    PATTERN = "pattern"


#: Failure types that are not the model's failures.
NOT_THE_MODELS = frozenset({FailureType.API_ERROR, FailureType.UNJUDGED})


class SecondOpinion(StrEnum):
    """The other validator's opinion on the same instance."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    UNDECIDED = "undecided"
    NOT_ASKED = "not_asked"


class Note(StrEnum):
    """An observation that did not decide the verdict."""

    FENCED = "fenced"
    UNCLOSED_FENCE = "unclosed_fence"
    DUPLICATE_KEYS = "duplicate_keys"
    REASONING_STRIPPED = "reasoning_stripped"
    #: A string matches a value of `enum` or `const` except for upper and lower case.
    CAPITALS = "capitals"
    #: The answer violates a keyword that was removed from the schema that the engine was sent.
    ADAPTATION_LOSS = "adaptation_loss"
    #: The engine's request did not carry the schema.
    NOT_ENFORCED = "not_enforced"
    #: The server sent another JSON value where its API has a string.
    NOT_TEXT = "not_text"
    #: The schema contains a reference that is not a URI, since characters are not percent-encoded.
    UNENCODED_REFERENCE = "unencoded_reference"
    #: The answer quoted a secret of the run; it was judged and recorded with `*` in its place.
    SECRET_REPLACED = "secret_replaced"  # noqa: S105  a note's name
    #: The server's finish reason does not show whether the answer is complete, and it is a complete document.
    UNKNOWN_FINISH_REASON = "unknown_finish_reason"
    #: A tool without parameters was called with empty text as its arguments, which was judged as {}.
    EMPTY_ARGUMENTS = "empty_arguments"
    #: The one tool that had to be called was called several times; the request did not forbid it.
    FORCED_TOOL_REPEATED = "forced_tool_repeated"


#: Notes that the document is a part of the text.
PARTLY = frozenset({Note.FENCED, Note.UNCLOSED_FENCE, Note.REASONING_STRIPPED})
#: Maximum length of an answer in characters.
LONGEST_TEXT = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A place where an instance violates its schema."""

    #: The keyword that failed: `type`, `required`, `oneOf`, …
    keyword: str
    #: Place in the instance, as a JSON path: `$.items[0].sku`.
    instance_path: str
    #: Place in the schema, as a JSON pointer: `/properties/items/items/required`.
    schema_path: str
    #: One line of limited length.
    message: str


class Verdict(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The judge's decision on an attempt, by the original schema."""

    #: Whether nothing was wrong; follows from the failure type.
    passed: bool = cast("bool", UNSET)
    #: None if the attempt passed.
    failure_type: FailureType | None
    #: Whether the instance conforms to the schema; None if there is no instance, or it is unknown.
    valid: bool | None
    #: Finer reason: a fault kind, a syntax reason, the kind of extra fields, what stopped the judge.
    reason: str | None = written(None)
    #: One line for people; empty if the attempt passed.
    message: str = written("")
    #: Tool whose call decided the verdict, the first that did not pass; None if the text was judged.
    tool: str | None = written(None)
    #: The first 20 places where the instance violates the schema.
    violations: tuple[Violation, ...] = written(())
    #: JSON paths of the fields that the schema does not name at their place.
    extra_fields: tuple[str, ...] = written(())
    #: Those of the extra fields that have the name of a field elsewhere in the schema.
    misplaced_fields: tuple[str, ...] = written(())
    #: Observations that did not decide: fenced, unclosed_fence, duplicate_keys, reasoning_stripped, capitals,
    #: adaptation_loss, not_enforced, not_text, unencoded_reference, secret_replaced, unknown_finish_reason,
    #: empty_arguments, forced_tool_repeated.
    notes: tuple[Note, ...] = written(())
    #: Whether the properties of a conforming answer are in the schema's order; None if that does not apply.
    order_kept: bool | None = written(None)
    #: Constant answers that conform to the case's schema; None if unknown.
    trivial: tuple[str, ...] | None = written(None)
    #: The `$schema` URI of the dialect by which the schema was read.
    dialect: str | None = written(None)
    #: Draft in which an invalid schema without `$schema` is valid, as a value of --jsbench-default-dialect.
    valid_in: str | None = written(None)
    #: The other validator's opinion on the same instance.
    second_opinion: SecondOpinion = written(SecondOpinion.NOT_ASKED)
    #: The parsed instance, if any; not part of a record, which has the text.
    instance: object = None

    def __post_init__(self) -> None:
        passed = self.failure_type is None
        given: object = self.passed
        if given is not UNSET and given is not passed:
            raise ValueError(f"passed is {json.dumps(self.passed)}, and failure_type is {self.failure_type}")
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
        """Return the verdict as JSON values, without its instance."""
        values: dict[str, Any] = to_json(replace(self, instance=None))
        return values


#: Answers that ignore the prompt, as texts; a case that one of them passes does not test a model.
CONSTANT_ANSWERS = ("{}", "[]", '""', "0", "true", "null")


@arguments(ignored_fields=names, timeout=number("seconds above 0", above=0))
@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePolicy:
    """How strictly to judge; a run has one policy, which its records include."""

    extra_fields: Literal["fail", "allow"] = "fail"
    #: Names of fields that never count as hallucinations.
    ignored_fields: tuple[str, ...] = ()
    #: What to do with an object that has a key twice: note it and use the last value, or fail with a syntax error.
    duplicate_keys: Literal["note", "fail"] = "note"
    fences: Literal["strip", "forbid"] = "strip"
    reasoning: Literal["keep", "strip"] = "keep"
    formats: Literal["assert", "ignore"] = "assert"
    #: Dialect of a schema that declares none.
    default_dialect: str = "https://json-schema.org/draft/2020-12/schema"
    validator: Literal["both", "jsonschema-rs", "jsonschema"] = "both"
    #: Time limit in seconds for one schema or answer.
    timeout: float = 5.0

    def __post_init__(self) -> None:
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


#: Advice for callers who pass a field of the policy to a function that takes a policy.
POLICY_OFFERS = {name: f"give policy=JudgePolicy({name}=…)" for name in JudgePolicy.__dataclass_fields__}
#: Reason if there is no schema at all: the answer to an application's unconstrained call.
UNDESCRIBED = "no_schema"
#: Reason if an application's call declares tools, and the model answered with text that no schema describes.
NO_TOOL_CALLED = "no_tool_called"
#: Reasons why an answer is judged by no schema.
WITHOUT_SCHEMA = frozenset({UNDESCRIBED, NO_TOOL_CALLED})


def no_instance(failure_type: FailureType, reason: str | None, message: str) -> Verdict:
    """Return the verdict on an attempt, or on all attempts by a schema, without an instance to judge."""
    return Verdict(failure_type=failure_type, valid=None, reason=reason, message=printable(message, cut="middle"))


def invalid(reason: SchemaReason, message: str) -> Verdict:
    """Return the verdict on every answer to an unusable schema."""
    return no_instance(FailureType.INVALID_SCHEMA, reason.value, message)


def write_schema(schema: object) -> str | Verdict:
    """Return the schema as JSON text."""
    try:
        return _ENCODER.encode(schema)
    except RecursionError:
        return invalid(SchemaReason.TOO_DEEP, "the schema nests too deep to be written as JSON")
    except (TypeError, ValueError) as error:
        return invalid(SchemaReason.NOT_JSON, f"the schema cannot be written as JSON: {error}")


_ENCODER = json.JSONEncoder(allow_nan=False, default=as_dict)


# verdicts as text: on one line, or on a few

#: Maximum length of a line of an excerpt, in characters.
_WIDTH = 100
#: Numbers of lines at the start and the end of a long answer.
_FIRST_LINES = 10
_LAST_LINES = 4
#: Maximum length of each half of a truncated excerpt, in characters.
_LONGEST_EXCERPT = 2000
_VIOLATIONS = 3
_MEANINGS = {
    Note.SECRET_REPLACED: "it quoted a secret of this run, and was judged with * in its place",
    Note.CAPITALS: "an enum value except for its case, which not every provider guarantees",
    Note.ADAPTATION_LOSS: "it violates a keyword that was removed from the schema that was sent",
    Note.NOT_TEXT: "the server sent a JSON value where its API has a text, and that was judged as JSON text",
    Note.NOT_ENFORCED: "the request was sent without the schema",
    Note.UNKNOWN_FINISH_REASON: "the server's finish reason does not show whether the answer is complete",
    Note.EMPTY_ARGUMENTS: "the tool has no parameters, and its empty arguments were judged as {}",
    Note.FORCED_TOOL_REPEATED: "the tool that had to be called was called several times, and each call was judged",
}


def headline(verdict: Verdict, *, remark: str = "") -> str:
    """Return one line: failure type, reason and a remark, then the message."""
    kind = verdict.failure_type.value if verdict.failure_type else "passed"
    reason = f" ({verdict.reason})" if verdict.reason else ""
    return f"{kind}{reason}{remark}" + (f": {printable(verdict.message)}" if verdict.message else "")


def verdict_text(verdict: Verdict, text: str | None) -> str:
    """Return the headline, each wrong place, and an excerpt of the answer, if any."""
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
    # paths of a redacted verdict can be equal
    misplaced = Counter(verdict.misplaced_fields)
    unnamed = list((Counter(verdict.extra_fields) - misplaced).elements())
    for fault, paths in (
        ("not in the schema", unnamed),
        ("elsewhere in the schema, not here", list(misplaced.elements())),
    ):
        if paths:
            yield fault, paths


def _violation(violation: Violation, *, in_headline: bool) -> str:
    where = f"  {printable(violation.keyword, 60)} at {printable(violation.instance_path, 120, cut='middle')}"
    message = "" if in_headline else f": {printable(violation.message, 200)}"
    return f"{where} [schema {printable(violation.schema_path, 120, cut='middle')}]{message}"


def excerpt(label: str, text: str) -> list[str]:
    """Return a text below its label: its first and last lines, which show where a truncated one ends."""
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
