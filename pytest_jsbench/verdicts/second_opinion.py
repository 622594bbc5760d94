"""Validate with the library jsonschema: for the second opinion, or as the only validator if the user chooses it."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Any

import jsonschema
from jsonschema import validators
from jsonschema.exceptions import FormatError
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

from pytest_jsbench.schemas.keywords import last_keyword, walk
from pytest_jsbench.schemas.pattern_syntax import describe_foreign_syntax
from pytest_jsbench.schemas.references import json_path, place_of
from pytest_jsbench.verdicts.branches import NearestBranches, ReportedError, enum_message
from pytest_jsbench.verdicts.extra_fields import FieldNames
from pytest_jsbench.verdicts.format_grammars import conforms
from pytest_jsbench.verdicts.patterns import ecma_matcher, pattern_fault
from pytest_jsbench.verdicts.schema_text import ReadSchema
from pytest_jsbench.verdicts.validation import MOST_VIOLATIONS, compile_schema, unresolvable
from pytest_jsbench.verdicts.verdicts import SchemaReason, SecondOpinion, Verdict, Violation, invalid

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

    from pytest_jsbench.schemas.dialects import Dialect

#: Format checks of jsonschema for 2020-12. The labels of published datasets were computed with them in all drafts.
_FORMAT_CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER
#: Keywords with which an instance can be invalid because a string does have its format.
_NOT_MONOTONIC = re.compile(r'"(?:not|oneOf|if|maxContains)"')

_UNIONS = frozenset({"anyOf", "oneOf"})


class GrammarChecker(jsonschema.FormatChecker):
    """
    Format checker that uses the grammars of one dialect.

    A string that the grammars cannot decide is added to `undecided`, and is accepted if `assumed` is true.
    `SecondOpinionSeeker` resets both attributes before each validation.
    """

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(())
        self._dialect = dialect
        self.assumed = True
        self.undecided: set[tuple[str, str]] = set()

    def check(self, instance: object, format: str) -> None:  # noqa: A002  the name of jsonschema's own parameter
        """Raise FormatError if a string does not have the format."""
        if not isinstance(instance, str):
            return
        conforming = conforms(format, instance, self._dialect)
        if conforming is None:
            self.undecided.add((format, instance))
            conforming = self.assumed
        if not conforming:
            raise FormatError(f"{instance!r} is not a {format!r}")


@functools.cache
def _extend_validator(validator: str, *, exact: bool) -> Any:
    cls = getattr(jsonschema, validator)
    keywords = dict(_ECMA_KEYWORDS)
    types = cls.TYPE_CHECKER
    if exact:
        keywords["multipleOf"] = _multiple_of
        # jsonschema supports `dependencies` up to draft 7, but the official test suite tests it in later drafts too
        keywords.setdefault("dependencies", jsonschema.Draft7Validator.VALIDATORS["dependencies"])
    if exact and types.is_type(1.0, "integer"):
        types = types.redefine("integer", _is_integer)
    return validators.extend(cls, keywords, type_checker=types)  # type: ignore[no-untyped-call]


def _is_integer(_types: object, instance: object) -> bool:
    if isinstance(instance, Decimal):
        return instance == instance.to_integral_value()
    return (isinstance(instance, int) and not isinstance(instance, bool)) or (
        isinstance(instance, float) and instance.is_integer()
    )


Errors = Iterator[jsonschema.ValidationError]


def _pattern(validator: Any, pattern: str, instance: Any, _schema: object) -> Errors:
    if validator.is_type(instance, "string") and not ecma_matcher(pattern)(instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: dict[str, Any], instance: Any, _schema: object) -> Errors:
    for pattern, subschema in patterns.items() if validator.is_type(instance, "object") else ():
        for name in filter(ecma_matcher(pattern), instance):
            yield from validator.descend(instance[name], subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, rest: object, instance: Any, schema: dict[str, Any]) -> Errors:
    # jsonschema joins all `patternProperties` into one pattern, which changes their meaning
    matchers = [ecma_matcher(pattern) for pattern in schema.get("patternProperties", {})]
    for name in instance if validator.is_type(instance, "object") else ():
        if name not in schema.get("properties", {}) and not any(matches(name) for matches in matchers):
            if rest is False:
                yield jsonschema.ValidationError(f"Additional properties are not allowed ({name!r} was unexpected)")
            else:
                yield from validator.descend(instance[name], rest, path=name)


_ECMA_KEYWORDS: Mapping[str, Any] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
}


def _multiple_of(validator: Any, factor: object, instance: Any, _schema: object) -> Errors:
    """Check `multipleOf` with the numbers as written; with binary fractions, 4.35 would not be a multiple of 0.01."""
    if validator.is_type(instance, "number") and Fraction(str(instance)) % Fraction(str(factor)):
        yield jsonschema.ValidationError(f"{instance!r} is not a multiple of {factor!r}")


class PythonValidator:
    """
    A schema compiled by jsonschema; with `exact`, numbers are compared as they are written.

    Python compares a Decimal with a float by the binary value of the float, so if there is any Decimal, all floats are
    converted to Decimals.
    """

    def __init__(self, read: ReadSchema, checker: jsonschema.FormatChecker | None, *, exact: bool) -> None:
        self._read = read
        self._checker = checker
        self._exact = exact

    @functools.cached_property
    def _as_it_is(self) -> Validator:
        return self._compile(self._read)

    @functools.cached_property
    def _by_decimals(self) -> Validator:
        return self._compile(replace(self._read, schema=_as_decimals(self._read.schema)))

    def _compile(self, read: ReadSchema) -> Validator:
        # with its own registry, jsonschema never loads references from the network or the disk
        cls = _extend_validator(read.dialect.validator, exact=self._exact)
        compiled: Validator = cls(read.convert_to_published_draft(), registry=REGISTRY, format_checker=self._checker)
        return compiled

    def _errors(self, instance: Any) -> Errors:
        if self._exact and (self._read.has_decimals or _has_decimal(instance)):
            return self._by_decimals.iter_errors(_as_decimals(instance))
        return self._as_it_is.iter_errors(instance)

    def is_valid(self, instance: Any) -> bool:
        """Return whether the instance conforms to the schema."""
        return next(self._errors(instance), None) is None

    def violations(self, instance: Any, names: FieldNames, most: int = MOST_VIOLATIONS) -> tuple[Violation, ...]:
        """Return the first violations of an instance that does not conform."""
        nearest = NearestBranches(instance, names)
        return tuple(nearest.violation(_to_reported_error(error)) for error in islice(self._errors(instance), most))


def _to_reported_error(error: jsonschema.ValidationError) -> ReportedError:
    value: Any = error.validator_value
    allowed = {"enum": value, "const": [value]}.get(str(error.validator))
    return ReportedError(
        keyword=last_keyword(error.absolute_schema_path),
        place=tuple(error.absolute_path),
        schema_path=tuple(error.absolute_schema_path),
        message=enum_message(error.instance, value) if error.validator == "enum" else error.message,
        allowed=allowed,
        forbidden=error.validator is None,
        schemas=value if error.validator in _UNIONS else None,
        read_branches=lambda: _branches(error),
    )


def _branches(error: jsonschema.ValidationError) -> list[list[ReportedError]]:
    """Group the errors inside a failed `anyOf` or `oneOf` by its branches."""
    if error.validator not in _UNIONS or not error.context or not isinstance(error.validator_value, list):
        return []
    branches: list[list[ReportedError]] = [[] for _ in error.validator_value]
    # if a branch is the schema `false`, its error has no path
    forbidding = [number for number, branch in enumerate(error.validator_value) if branch is False]
    for inner in error.context:
        path = inner.relative_schema_path
        branches[int(path[0]) if path else forbidding.pop(0)].append(_to_reported_error(inner))
    return branches


def _has_decimal(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_decimal, value.values()))
    return any(map(_has_decimal, value)) if isinstance(value, list) else isinstance(value, Decimal)


def _as_decimals(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_decimals(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_as_decimals(member) for member in value]
    return Decimal(repr(value)) if isinstance(value, float) else value


class SecondOpinionSeeker:
    """Comparison of jsonschema's result with the result of jsonschema-rs, for the instances of one schema."""

    def __init__(self, read: ReadSchema, *, formats: bool) -> None:
        self._checker = GrammarChecker(read.dialect)
        self.validator = PythonValidator(read, self._checker if formats else None, exact=True)
        self._is_not_monotonic = _NOT_MONOTONIC.search(read.text) is not None

    def opinion(self, instance: Any, *, valid: bool) -> SecondOpinion:
        """
        Validate the instance with jsonschema, and compare the result with `valid`; return `undecided` if the result
        depends on a string whose format cannot be checked.
        """
        try:
            results = self._validate_with_assumptions(instance)
        except BaseException as error:
            # rpds, which jsonschema uses, panics if Python's stack is full, and a Rust panic is not an Exception
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            return SecondOpinion.UNDECIDED
        if len(results) > 1 or (self._is_not_monotonic and len(self._checker.undecided) > 1):
            return SecondOpinion.UNDECIDED
        return SecondOpinion.AGREES if results == {valid} else SecondOpinion.DISAGREES

    def _validate_with_assumptions(self, instance: Any) -> set[bool]:
        """Return the results of validating twice: as if all undecided strings had their format, and as if none had."""
        self._checker.undecided.clear()
        self._checker.assumed = True
        results = {self.validator.is_valid(instance)}
        if self._checker.undecided:
            self._checker.assumed = False
            results.add(self.validator.is_valid(instance))
        return results


def compile_with_jsonschema(read: ReadSchema, *, formats: bool, exact: bool) -> PythonValidator | Verdict:
    """
    Compile the schema with jsonschema, or return the problem with the schema.

    References are resolved with jsonschema-rs, since jsonschema resolves them only during validation.
    """
    cls: Any = getattr(jsonschema, read.dialect.validator)
    # parse with floats instead of Decimals, since the metaschema does not accept a Decimal as an integer
    plain = replace(read, schema=json.loads(read.text))
    metaschema = cls(cls.META_SCHEMA, registry=REGISTRY, format_checker=_schema_formats(read.dialect.validator))
    faults = ((json_path(error.absolute_path), error) for error in metaschema.iter_errors(plain.schema))
    path, fault = min(faults, key=lambda place: (place[0], place[1].message), default=("", None))
    if fault is not None:
        if fault.validator == "format" and fault.validator_value == "regex":
            return _pattern_problem(str(fault.instance), path)
        return invalid(SchemaReason.METASCHEMA, f"{path}: {fault.message}")
    if isinstance(read.schema, dict) and (problem := _first_bad_pattern(read.schema)):
        return problem
    compiled = compile_schema(read, formats=False) or unresolvable(read)
    if isinstance(compiled, Verdict) and compiled.reason == SchemaReason.UNRESOLVABLE_REFERENCE:
        return compiled
    checker = GrammarChecker(read.dialect) if exact else _FORMAT_CHECKER
    return PythonValidator(read if exact else plain, checker if formats else None, exact=exact)


@functools.cache
def _schema_formats(validator: str) -> jsonschema.FormatChecker:
    """Return the format checks for validating schemas by the dialect's metaschema; patterns must be ECMA-262."""
    checker = jsonschema.FormatChecker()
    checker.checkers = {**getattr(jsonschema, validator).FORMAT_CHECKER.checkers, "regex": (_is_pattern, ())}
    return checker


def _is_pattern(value: object) -> bool:
    return not isinstance(value, str) or pattern_fault(value) is None


def _pattern_problem(pattern: str, path: str) -> Verdict:
    fault = f"is not an ECMA-262 pattern: {pattern_fault(pattern)}"
    foreign = describe_foreign_syntax(pattern)
    remark = f"; it has {foreign}" if foreign else ""
    return invalid(SchemaReason.PATTERN, f"{path}: {pattern[:100]!r} {fault}{remark}")


def _first_bad_pattern(schema: dict[str, Any]) -> Verdict | None:
    """Return the problem with the first invalid pattern in a schema; metaschemas do not check all patterns."""
    for subschema in walk(schema):
        named = subschema.get("patternProperties")
        for pattern in (subschema.get("pattern"), *(named if isinstance(named, dict) else ())):
            if not _is_pattern(pattern):
                return _pattern_problem(pattern, place_of(schema, subschema))
    return None
