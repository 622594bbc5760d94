"""
Judge answers in the current process, without protection against hangs and crashes.

`judge.Judge` calls `inspect_schema`, `constants` and `judge_answer` in its child process.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

from msgspec import structs

from pytest_jsbench.core.heaps import limit_heaps, trim_heaps
from pytest_jsbench.core.json_values import to_json
from pytest_jsbench.core.text import LONGEST, printable
from pytest_jsbench.schemas.dialects import DIALECTS, NAMES
from pytest_jsbench.schemas.keywords import used_keywords
from pytest_jsbench.schemas.references import json_path, place_of
from pytest_jsbench.verdicts.answer_text import AnswerDocument, NotJson, read_answer
from pytest_jsbench.verdicts.extra_fields import ExtraFieldReason, ExtraFields, FieldNames
from pytest_jsbench.verdicts.schema_text import ReadSchema, read_schema
from pytest_jsbench.verdicts.second_opinion import PythonValidator, SecondOpinionSeeker, compile_with_jsonschema
from pytest_jsbench.verdicts.validation import RustValidator, compile_schema
from pytest_jsbench.verdicts.verdicts import (
    CONSTANT_ANSWERS,
    PARTLY,
    FailureType,
    JudgePolicy,
    SchemaReason,
    SecondOpinion,
    Verdict,
    Violation,
    no_instance,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_jsbench.schemas.references import Path

_MOST_SHOWN = 5
_LONGEST_PATH = 120
#: Maximum number of compiled schemas in the cache. The cache should contain the schemas of all calls in flight.
_COMPILED_SCHEMAS = 128
#: Maximum total length in characters of the cached schemas; a compiled schema takes many times the size of its text.
_COMPILED_LENGTH = 500_000
#: Number of compiled schemas after which the heaps are trimmed: schemas of all sizes come and go, and left 24 MB of
#: free blocks with the 9,557 schemas of JSONSchemaBench.
_TRIM_EVERY = 100
#: Maximum length in characters of an answer for which the first 20 violations are listed, and not only one.
#: jsonschema-rs creates all violations at once: up to one for every two characters, each with over a kilobyte.
_LONGEST_LISTED = 150_000
#: Maximum product of the lengths of answer and schema for which all violations are computed in one step.
#: Without references in the schema, an answer cannot have more violations than this product.
_FEW_VIOLATIONS = 2_000_000
#: Maximum length in characters of an answer for which violations or a second opinion are computed.
#: A violation copies the wrong value, which takes a hundred times the size of its text; jsonschema takes seconds.
_LONGEST_DETAILED = 1_000_000

#: Reasons for which a schema can be invalid in one draft but valid in another.
_DEPENDS_ON_DRAFT = frozenset({SchemaReason.METASCHEMA.value, SchemaReason.UNRESOLVABLE_REFERENCE.value})
#: Drafts to try for an invalid schema without `$schema`, the most common first.
_LIKELY_DRAFTS = ("draft-07", "2019-09", "draft-04", "draft-06", "2020-12")
#: Maximum length in characters of a schema that is tried in other drafts.
_LONGEST_TRIED = 1_000_000


class Compiled:
    """A compiled schema, with further objects that are created on first use."""

    def __init__(self, read: ReadSchema, validator: RustValidator | PythonValidator, *, formats: bool) -> None:
        self.read = read
        self.validator = validator
        self._formats = formats
        #: Whether the schema may contain references, which can cause very many validations of one value.
        self.may_refer = 'ef"' in read.text or read.hides_ascii

    @functools.cached_property
    def field_names(self) -> FieldNames:
        """Names of the fields in the schema."""
        return FieldNames(self.read.references)

    @functools.cached_property
    def constants(self) -> tuple[str, ...]:
        """Constant answers that conform to the schema."""
        return tuple(text for text in CONSTANT_ANSWERS if self.validator.is_valid(json.loads(text)))

    @functools.cached_property
    def second_validator(self) -> SecondOpinionSeeker | None:
        """
        The second validator; None if jsonschema is the only validator, or if both validators may
        have the same defect.
        """
        doubtful = self.may_refer and self.read.references.may_skip_resources
        if doubtful or isinstance(self.validator, PythonValidator):
            return None
        return SecondOpinionSeeker(self.read, formats=self._formats)


class InProcessJudge:
    """A judge for one policy that assumes that schemas and answers cause neither hangs nor crashes."""

    def __init__(self, policy: JudgePolicy) -> None:
        self._policy = policy
        #: Caches of compiled schemas by text, oldest first: of schemas that were inspected and whose answers may be in
        #: flight, and of schemas by which an answer was judged, which are needed again only for repeated attempts.
        self._inspected: dict[str, Compiled | Verdict] = {}
        self._judged: dict[str, Compiled | Verdict] = {}
        self._cached_length = 0
        #: Number of schemas that were compiled, and of inspected ones that were not cached since the last removal.
        self._compiled = 0
        self._uncached = 0

    def _compile_cached(self, schema_text: str, *, for_answer: bool) -> Compiled | Verdict:
        """Return the compiled schema, to judge an answer or to inspect the schema before the answer is known."""
        length = len(schema_text)
        compiled = self._take(schema_text)
        while self._judged and not self._has_room(length):
            oldest = next(iter(self._judged))
            self._take(oldest)
        if compiled is None:
            compiled = self.compile(schema_text)
            self._compiled += 1
            if self._compiled % _TRIM_EVERY == 0:
                trim_heaps()
        if for_answer:  # the constant answers are wanted next
            self._judged[schema_text] = compiled
        elif self._has_room(length):
            self._inspected[schema_text] = compiled
        else:
            self._note_full()
            return compiled
        self._cached_length += length
        return compiled

    def _take(self, schema_text: str) -> Compiled | Verdict | None:
        """Remove a schema from the caches, and return it; None if it is not cached."""
        for cache in (self._inspected, self._judged):
            if (compiled := cache.pop(schema_text, None)) is not None:
                self._cached_length -= len(schema_text)
                return compiled
        return None

    def _has_room(self, length: int) -> bool:
        count = len(self._judged) + len(self._inspected)
        return count < _COMPILED_SCHEMAS and self._cached_length + length <= _COMPILED_LENGTH

    def _note_full(self) -> None:
        """
        Note that an inspected schema was not cached, because others will be needed earlier: answers come about in the
        order of the calls. After as many as may be in flight, the others are of calls that failed, and are removed.
        """
        self._uncached += 1
        if self._uncached >= _COMPILED_SCHEMAS:
            self._uncached = 0
            self._cached_length -= sum(map(len, self._inspected))
            self._inspected.clear()

    def compile(self, schema_text: str) -> Compiled | Verdict:
        """Return the compiled schema, or the problem that makes it unusable; the result is not cached."""
        compiled = self._compile_with_default(schema_text, self._policy.default_dialect)
        if isinstance(compiled, Verdict) and compiled.reason in _DEPENDS_ON_DRAFT:
            return self._with_other_dialect(schema_text, compiled)
        return compiled

    def _with_other_dialect(self, schema_text: str, problem: Verdict) -> Verdict:
        """
        Return the verdict on an invalid schema without `$schema`, and name a draft in which the schema is valid.

        Drafts that define more of the schema's keywords are tried first. If the schema is not valid in any draft, the
        verdict is returned unchanged.
        """
        schema = json.loads(schema_text)
        if not isinstance(schema, dict) or "$schema" in schema or len(schema_text) > _LONGEST_TRIED:
            return problem
        used = used_keywords(schema)
        drafts = dict(zip(NAMES, DIALECTS, strict=True))
        for name in sorted(_LIKELY_DRAFTS, key=lambda name: len(used - drafts[name].keywords)):
            uri = NAMES[name]
            if uri != self._policy.default_dialect and isinstance(
                self._compile_with_default(schema_text, uri), Compiled
            ):
                message = printable(problem.message, LONGEST - 50, cut="middle")
                return structs.replace(problem, message=f"{message} (the schema is valid in {name})", valid_in=name)
        return problem

    def _compile_with_default(self, schema_text: str, default_dialect: str) -> Compiled | Verdict:
        read = read_schema(schema_text, default_dialect)
        if isinstance(read, Verdict):
            return read
        formats = read.asserts_formats(self._policy)
        exact = self._policy.validator != "jsonschema"
        compiled_by_rust = compile_schema(read, formats=formats) if exact else None
        # if jsonschema-rs rejects a pattern, jsonschema is used, which can be combined with an ECMA-262 engine
        validator = compiled_by_rust or compile_with_jsonschema(read, formats=formats, exact=exact)
        if isinstance(validator, Verdict):
            return validator
        compiled = Compiled(read, validator, formats=formats)
        if compiled.may_refer and (endless := read.references.endless()) is not None:
            place = place_of(read.schema, endless)
            message = f"{place}: the references form a cycle, so the schema has no meaning (JSON Schema Core, 9.4.1)"
            return no_instance(FailureType.UNJUDGED, "endless_reference", message)
        return compiled

    def inspect(self, schema_text: str) -> Verdict | None:
        """Return the problem that makes the schema unusable; None if there is none."""
        compiled = self._compile_cached(schema_text, for_answer=False)
        return compiled if isinstance(compiled, Verdict) else None

    def constants(self, schema_text: str) -> tuple[str, ...] | None:
        """Return the constant answers that conform to the schema; None if the schema is unusable."""
        compiled = self._compile_cached(schema_text, for_answer=True)
        return None if isinstance(compiled, Verdict) else compiled.constants

    def judge(self, schema_text: str, text: str, *, truncated: bool) -> Iterator[Verdict]:
        """Yield the verdict as soon as it is known, then yield it again with more and more details."""
        compiled = self._compile_cached(schema_text, for_answer=True)
        if isinstance(compiled, Verdict):
            yield compiled
            return
        read = read_answer(text, self._policy)
        if isinstance(read, NotJson):
            yield _syntax_verdict(read, truncated, compiled)
            return
        for verdict in _with_violations(self._decide(compiled, read), compiled, len(text)):
            yield verdict
        wants_opinion = self._policy.validator == "both" and len(text) <= _LONGEST_DETAILED
        if wants_opinion and (seeker := compiled.second_validator) is not None:
            opinion = seeker.opinion(read.instance, valid=verdict.valid is True)
            yield structs.replace(verdict, second_opinion=opinion)

    def _decide(self, compiled: Compiled, read: AnswerDocument) -> Verdict:
        validator = compiled.validator
        policy = self._policy
        instance = read.instance
        valid = validator.is_valid(instance)
        names = compiled.field_names
        extra = names.extra_fields(instance, policy.ignored_fields)
        failure_type = None
        reason = None
        if policy.extra_fields == "fail" and extra.count and (valid or validator.is_valid(extra.rest)):
            failure_type = FailureType.HALLUCINATION
            reason = extra.reason
        elif not valid:
            failure_type = FailureType.SCHEMA_VIOLATION
        wants_opinion = policy.validator == "both"
        return Verdict(
            failure_type=failure_type,
            valid=valid,
            reason=reason and reason.value,
            message=_message(failure_type, extra, names),
            extra_fields=extra.list_paths(),
            misplaced_fields=extra.list_paths(ExtraFieldReason.MISPLACED),
            notes=(*read.notes, *compiled.read.notes),
            dialect=compiled.read.dialect.uri,
            # the final value if jsonschema does not finish or is not used
            second_opinion=SecondOpinion.UNDECIDED if wants_opinion else SecondOpinion.NOT_ASKED,
            instance=instance,
        )


def _syntax_verdict(read: NotJson, truncated: bool, compiled: Compiled) -> Verdict:
    failure_type = FailureType.TRUNCATED if truncated else FailureType.SYNTAX_ERROR
    message = f"stopped at the token limit: {read.message}" if truncated else read.message
    return Verdict(
        failure_type=failure_type,
        valid=None,
        reason=read.reason.value,
        message=message,
        notes=(*read.notes, *compiled.read.notes),
        dialect=compiled.read.dialect.uri,
    )


def _message(failure_type: FailureType | None, extra: ExtraFields, names: FieldNames) -> str:
    if failure_type is not FailureType.HALLUCINATION:
        return "" if failure_type is None else "the instance does not conform to the schema"
    faults = {
        ExtraFieldReason.UNNAMED: "fields that the schema does not name",
        ExtraFieldReason.MISPLACED: "fields that the schema names only elsewhere",
    }
    sentences: list[str] = []
    for reason, fault in faults.items():
        if shown := [_format_field(path, names.find_similar_name(path)) for path in extra.first(reason)[:_MOST_SHOWN]]:
            more = extra.count[reason] - len(shown)
            sentences.append(f"{fault}: {', '.join(shown)}" + (f" and {more} more" if more else ""))
    return "; ".join(sentences)


def _format_field(path: Path, similar: str | None) -> str:
    """Return the path of the field, followed by a similar name in the schema that was probably meant."""
    shown = printable(json_path(path), _LONGEST_PATH, cut="middle")
    if similar is not None:
        return f"{shown} (did you mean {printable(json.dumps(similar, ensure_ascii=False), _LONGEST_PATH)}?)"
    return shown if str(path[-1]).strip() else f"{shown} (white space)"


def _with_violations(verdict: Verdict, compiled: Compiled, length: int) -> Iterator[Verdict]:
    """
    Yield the verdict without violations, then with one violation, then with the first 20, since each
    step can exceed the time or memory limit.
    """
    yield verdict
    if verdict.valid or length > _LONGEST_DETAILED:
        return
    if compiled.may_refer or length * len(compiled.read.text) > _FEW_VIOLATIONS:
        yield _describe(verdict, compiled.validator.violations(verdict.instance, compiled.field_names, 1))
    if length <= _LONGEST_LISTED:
        yield _describe(verdict, compiled.validator.violations(verdict.instance, compiled.field_names))


def _describe(verdict: Verdict, violations: tuple[Violation, ...]) -> Verdict:
    if verdict.failure_type is FailureType.HALLUCINATION:
        return structs.replace(verdict, violations=violations)
    first = violations[0]
    more = len(violations) - 1
    message = f"{first.instance_path}: {first.message}" + (f" (and {more} more)" if more else "")
    return structs.replace(verdict, violations=violations, message=message)


@functools.cache
def _judge(policy: str) -> InProcessJudge:
    """Return the judge for a policy in JSON; it is cached in the child process together with its compiled schemas."""
    limit_heaps()  # large texts leave no gaps between the compiled schemas
    values = json.loads(policy)
    return InProcessJudge(JudgePolicy(**{**values, "ignored_fields": tuple(values["ignored_fields"])}))


def inspect_schema(schema: str, policy: str) -> Any:
    """Return the problem with a schema as JSON values, for the parent process."""
    return to_json(_judge(policy).inspect(schema))


def constants(schema: str, policy: str) -> Any:
    """Return the constant answers that conform to the schema, for the parent process."""
    return _judge(policy).constants(schema)


def judge_answer(schema: str, policy: str, text: str, truncated: bool, trivial: bool) -> Iterator[Any]:
    """
    Judge an answer for the parent process: yield the verdict and the instance, then further details as soon as they are
    known.

    The instance is only sent if the text also contains a fence or reasoning; otherwise the parent process parses the
    whole text. With `trivial`, the verdict lists the constant answers that conform to the schema.
    """
    judge = _judge(policy)
    verdicts = judge.judge(schema, text, truncated=truncated)
    first = next(verdicts)
    if trivial:
        first = structs.replace(first, trivial=judge.constants(schema))
    # JSON has no Decimal, so the parent process gets a double
    instance = "null" if PARTLY.isdisjoint(first.notes) else json.dumps(first.instance, default=float)
    yield first.to_dict(), instance
    for verdict in verdicts:
        details = {"message": verdict.message, "second_opinion": verdict.second_opinion}
        yield {**details, "violations": to_json(verdict.violations)}
