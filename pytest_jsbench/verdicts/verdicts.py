"""The values that a verdict is made of, and a verdict in words."""

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
    """The reasons why an attempt did not pass, in the order in which they are decided, the first that holds."""

    #: the dataset's fault: the case is excluded
    INVALID_SCHEMA = "invalid_schema"
    #: the infrastructure's fault: no completion was seen
    API_ERROR = "api_error"
    #: the engine says that it cannot do this schema
    UNSUPPORTED_SCHEMA = "unsupported_schema"
    #: the provider's refusal field, stop reason, or a content filter without text
    REFUSAL = "refusal"
    #: a tool was to be called, and none was, though the token limit did not end the answer
    NO_CALL = "no_call"
    #: a tool is called that the request does not declare
    UNKNOWN_TOOL = "unknown_tool"
    #: a tool is called that is declared, and may not be called
    WRONG_TOOL = "wrong_tool"
    #: stopped at the token limit, and the text is not a complete document
    TRUNCATED = "truncated"
    #: the text, or the only fence around it, is not exactly one JSON document (RFC 8259) within the limits
    SYNTAX_ERROR = "syntax_error"
    #: nobody's fault: the judge ran out of time or memory, or crashed
    UNJUDGED = "unjudged"
    #: fields the schema does not name there, and the instance is valid, or becomes valid without them
    HALLUCINATION = "hallucination"
    #: otherwise not valid
    SCHEMA_VIOLATION = "schema_violation"
    #: of labelled answers: the grammar rejects a valid one, or accepts an invalid one
    WRONG_DECISION = "wrong_decision"


class SyntaxReason(StrEnum):
    """The reasons why a text is not one JSON document; the first that holds."""

    TOO_LARGE = "too_large"
    #: a fence where the policy forbids one
    FENCE_FORBIDDEN = "fence_forbidden"
    #: a fence that says it holds something other than JSON
    FENCE_NOT_JSON = "fence_not_json"
    TOO_DEEP = "too_deep"
    EMPTY = "empty"
    BOM = "bom"
    NAN_OR_INFINITY = "nan_or_infinity"
    NUMBER_OUT_OF_RANGE = "number_out_of_range"
    LONE_SURROGATE = "lone_surrogate"
    #: reasoning that never ends, so that there is no answer
    UNCLOSED_REASONING = "unclosed_reasoning"
    REASONING_PREAMBLE = "reasoning_preamble"
    #: a fence with something before, after or inside it that is not the document
    FENCE_NOT_ALONE = "fence_not_alone"
    SEVERAL_DOCUMENTS = "several_documents"
    TRAILING_TEXT = "trailing_text"
    #: the document ends before it is complete
    INCOMPLETE = "incomplete"
    #: white space, or what does not show either, where JSON does not allow it
    WHITE_SPACE = "white_space"
    #: begins as JSON and breaks its grammar: single quotes, comments, trailing commas, …
    MALFORMED = "malformed"
    PROSE = "prose"
    #: an object with a key twice, where the policy forbids it
    DUPLICATE_KEYS = "duplicate_keys"


class SchemaReason(StrEnum):
    """The reasons why nothing can be judged by a schema."""

    NOT_JSON = "not_json"
    NOT_A_SCHEMA = "not_a_schema"
    TOO_DEEP = "too_deep"
    UNKNOWN_DIALECT = "unknown_dialect"
    #: its metaschema requires a vocabulary that is not among the published ones
    UNKNOWN_VOCABULARY = "unknown_vocabulary"
    #: breaks the metaschema of its own dialect
    METASCHEMA = "metaschema"
    UNRESOLVABLE_REFERENCE = "unresolvable_reference"
    PATTERN = "pattern"


#: failure types that say nothing about the model
NOT_THE_MODELS = frozenset({FailureType.API_ERROR, FailureType.UNJUDGED})


class SecondOpinion(StrEnum):
    """The other validator's opinion on the same instance."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    UNDECIDED = "undecided"
    NOT_ASKED = "not_asked"


class Note(StrEnum):
    """An observation on the way to a verdict that did not decide it."""

    FENCED = "fenced"
    UNCLOSED_FENCE = "unclosed_fence"
    DUPLICATE_KEYS = "duplicate_keys"
    REASONING_STRIPPED = "reasoning_stripped"
    #: a text is a value that `enum` or `const` lists, but for its capitals
    CAPITALS = "capitals"
    #: the answer breaks a keyword that was left out of the schema that the engine was sent
    ADAPTATION_LOSS = "adaptation_loss"
    #: the engine was to send the schema, and what carried its request left it out
    NOT_ENFORCED = "not_enforced"
    #: the server sent another JSON value where its API has a text
    NOT_TEXT = "not_text"
    #: the schema refers by what is no URI, as it holds what has to be percent-encoded there
    UNENCODED_REFERENCE = "unencoded_reference"
    #: the answer quoted a secret of the run, and was judged, and is kept, with as many `*` in its place
    SECRET_REPLACED = "secret_replaced"  # noqa: S105  a note's name
    #: the server's finish reason does not say whether the answer is complete, and it is a complete document
    UNKNOWN_FINISH_REASON = "unknown_finish_reason"
    #: a tool without parameters was called with an empty text as its arguments, which was judged as {}
    EMPTY_ARGUMENTS = "empty_arguments"


#: notes that the document is a part of the text
PARTLY = frozenset({Note.FENCED, Note.UNCLOSED_FENCE, Note.REASONING_STRIPPED})
#: characters of an answer
LONGEST_TEXT = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A place where an instance breaks its schema."""

    #: the keyword that failed: `type`, `required`, `oneOf`, …
    keyword: str
    #: where in the instance, as a JSON path: `$.items[0].sku`
    instance_path: str
    #: where in the schema, as a JSON pointer: `/properties/items/items/required`
    schema_path: str
    #: one line, bounded in length
    message: str


class Verdict(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The judge's decision on an attempt, by the original schema."""

    #: whether nothing at all was wrong; it follows from the failure type
    passed: bool = cast("bool", UNSET)
    #: None when the attempt passed
    failure_type: FailureType | None
    #: whether the instance conforms to the schema; None when there was no instance, or no one could say
    valid: bool | None
    #: the finer reason: a fault kind, a syntax reason, which extra fields, what stopped the judge
    reason: str | None = written(None)
    #: one line for people; empty when the attempt passed
    message: str = written("")
    #: the tool of whose call this is the verdict, the first that did not pass; None where the text was judged
    tool: str | None = written(None)
    #: the first 20 places where the instance breaks the schema
    violations: tuple[Violation, ...] = written(())
    #: JSON paths of the fields that the schema does not name where they stand
    extra_fields: tuple[str, ...] = written(())
    #: those of them that have the name of a field elsewhere in the schema
    misplaced_fields: tuple[str, ...] = written(())
    #: what was seen on the way and did not decide: fenced, unclosed_fence, duplicate_keys, reasoning_stripped,
    #: capitals, adaptation_loss, not_enforced, not_text, unencoded_reference, secret_replaced,
    #: unknown_finish_reason, empty_arguments
    notes: tuple[Note, ...] = written(())
    #: whether the properties of a conforming answer come in the schema's order; None where that means nothing
    order_kept: bool | None = written(None)
    #: the constant answers that conform to the case's schema, whatever was asked; None where nobody could say
    trivial: tuple[str, ...] | None = written(None)
    #: the `$schema` URI by which the schema was read
    dialect: str | None = written(None)
    #: the draft in which an invalid schema without `$schema` is valid, as --jsbench-default-dialect accepts it
    valid_in: str | None = written(None)
    #: what the other validator said of the same instance
    second_opinion: SecondOpinion = written(SecondOpinion.NOT_ASKED)
    #: the parsed instance, where there is one; not part of a record, which holds the text
    instance: object = None

    def __post_init__(self) -> None:
        passed = self.failure_type is None
        given: object = self.passed
        if given is not UNSET and given is not passed:
            raise ValueError(f"passed is {json.dumps(self.passed)}, and failure_type is {self.failure_type}")
        force_setattr(self, "passed", passed)

    @property
    def disputed(self) -> bool:
        """Tell whether the two validators disagree."""
        return self.second_opinion is SecondOpinion.DISAGREES

    @property
    def keyword(self) -> str | None:
        """The keyword of the first violation."""
        return self.violations[0].keyword if self.violations else None

    def to_dict(self) -> dict[str, Any]:
        """The verdict as JSON values, without its instance."""
        values: dict[str, Any] = to_json(replace(self, instance=None))
        return values


#: answers that look at nothing, each as its text; what they pass, no model needs to be asked for
CONSTANT_ANSWERS = ("{}", "[]", '""', "0", "true", "null")


@arguments(ignored_fields=names, timeout=number("seconds above 0", above=0))
@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePolicy:
    """The strictness of judging; a run has one policy, and its records say which."""

    extra_fields: Literal["fail", "allow"] = "fail"
    #: names of fields that are never hallucinations
    ignored_fields: tuple[str, ...] = ()
    #: an object with a key twice: the last wins and it is noted, or it is a syntax error
    duplicate_keys: Literal["note", "fail"] = "note"
    fences: Literal["strip", "forbid"] = "strip"
    reasoning: Literal["keep", "strip"] = "keep"
    formats: Literal["assert", "ignore"] = "assert"
    #: the dialect of a schema that declares none
    default_dialect: str = "https://json-schema.org/draft/2020-12/schema"
    validator: Literal["both", "jsonschema-rs", "jsonschema"] = "both"
    #: seconds for one schema or answer
    timeout: float = 5.0

    def __post_init__(self) -> None:
        for name, choices in self.choices().items():
            if (value := getattr(self, name)) not in choices:
                message = f"JudgePolicy: {name} is {value!r:.80}; {nearest(str(value), choices)}"
                raise JSBenchError(message, found=value, expected=choices, where=name)

    @classmethod
    @functools.cache
    def choices(cls) -> dict[str, tuple[str, ...]]:
        """The values of each field that has a fixed set of them, by the field's name."""
        hints = get_type_hints(cls)
        return {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}


#: what to say to who gives a part of a policy to a function that takes a policy
POLICY_OFFERS = {name: f"give policy=JudgePolicy({name}=…)" for name in JudgePolicy.__dataclass_fields__}
#: the reason where there is no schema at all: the answer to an application's free question
UNDESCRIBED = "no_schema"


def no_instance(failure_type: FailureType, reason: str | None, message: str) -> Verdict:
    """The verdict on an attempt, or on all by a schema, of which no instance can be judged."""
    return Verdict(failure_type=failure_type, valid=None, reason=reason, message=printable(message, cut="middle"))


def invalid(reason: SchemaReason, message: str) -> Verdict:
    """The verdict on whatever answers a schema that nothing can be judged by."""
    return no_instance(FailureType.INVALID_SCHEMA, reason.value, message)


def write_schema(schema: object) -> str | Verdict:
    """The schema as JSON text."""
    try:
        return _ENCODER.encode(schema)
    except RecursionError:
        return invalid(SchemaReason.TOO_DEEP, "the schema nests too deep to be written as JSON")
    except (TypeError, ValueError) as error:
        return invalid(SchemaReason.NOT_JSON, f"the schema cannot be written as JSON: {error}")


_ENCODER = json.JSONEncoder(allow_nan=False, default=as_dict)


# a verdict in words: on one line, or on a few

#: of an excerpt
_WIDTH, _FIRST_LINES, _LAST_LINES, _LONGEST_EXCERPT = 100, 10, 4, 2000
_VIOLATIONS = 3
_MEANINGS = {
    Note.SECRET_REPLACED: "it quoted a secret of this run, and was judged with * in its place",
    Note.CAPITALS: "a value of the schema's list but for its capitals, which not every provider guarantees",
    Note.ADAPTATION_LOSS: "it breaks a keyword that was left out of the schema that was sent",
    Note.NOT_TEXT: "the server sent a JSON value where its API has a text, and that was judged as JSON text",
    Note.NOT_ENFORCED: "what carried the request left the schema out",
    Note.UNKNOWN_FINISH_REASON: "the server's finish reason does not say whether the answer is complete",
    Note.EMPTY_ARGUMENTS: "the tool has no parameters, and its empty arguments were judged as {}",
}


def headline(verdict: Verdict, *, remark: str = "") -> str:
    """Say on one line the failure type, its reason and a remark, then the message."""
    kind = verdict.failure_type.value if verdict.failure_type else "passed"
    reason = f" ({verdict.reason})" if verdict.reason else ""
    return f"{kind}{reason}{remark}" + (f": {printable(verdict.message)}" if verdict.message else "")


def verdict_text(verdict: Verdict, text: str | None) -> str:
    """The headline, each place that is wrong, and an excerpt of the answer, where there is one."""
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
    """Give each fault of the extra fields, with the paths of the fields that have it."""
    # paths can be alike: those of a redacted verdict are
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
    """A text below its label: its first lines, and the last ones, which show where a truncated one broke off."""
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
