"""The verdict's own validator: jsonschema-rs."""

from __future__ import annotations

import functools
import json
import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import jsonschema_rs

from pytest_jsbench.core.text import printable
from pytest_jsbench.schemas.dialects import DRAFT_4, DRAFT_7
from pytest_jsbench.schemas.locations import json_path, json_pointer
from pytest_jsbench.schemas.references import References
from pytest_jsbench.schemas.walking import last_keyword
from pytest_jsbench.verdicts.ecma_patterns import pattern_fault
from pytest_jsbench.verdicts.formats import checks
from pytest_jsbench.verdicts.patterns import BeyondRustError, TranslatedSchema, translate_schema
from pytest_jsbench.verdicts.schema_text import ReadSchema, SchemaReason, invalid
from pytest_jsbench.verdicts.verdicts import SchemaProblem, Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from jsonschema_rs import KeywordValidator

#: violations that a verdict lists
MOST_VIOLATIONS = 20

#: a search for fixed words is a tenth of what one for a pattern costs
_REFERENCE = '"$ref": "http'
_METASCHEMA_REFERENCE = re.compile(r'"\$ref": "https?://json-schema\.org/')
_FORMAT = re.compile(r'"format"\s*:\s*"([^"]*)"')
_CONTENTS = ("contentEncoding", "contentMediaType")
_ENGINE_GAVE_UP = frozenset({"BacktrackLimitExceeded", "RegexEngineFailure"})


class BacktrackingLimitError(Exception):
    """A pattern met the engine's limit, so that nobody knows whether the string matches."""


class Validator(Protocol):
    """A schema compiled by one library."""

    @property
    def may_backtrack(self) -> bool:
        """Whether an instance found invalid may be one that a pattern's limit left undecided."""

    def is_valid(self, instance: object) -> bool:
        """Whether the instance conforms."""

    def first_violation(self, instance: object) -> Violation:
        """One violation of an instance that does not conform, or BacktrackingLimitError."""

    def violations(self, instance: object) -> tuple[Violation, ...]:
        """The first violations of an instance that does not conform."""


class _Annotation:
    """A keyword that no instance can break, for jsonschema-rs."""

    def __init__(self, parent_schema: object, value: object, schema_path: object) -> None:
        pass

    def validate(self, instance: object) -> None:
        """Whatever it is."""


class RustValidator:
    """A schema compiled by jsonschema-rs."""

    def __init__(self, compiled: jsonschema_rs.Validator, patterns: TranslatedSchema) -> None:
        self._compiled = compiled
        self._patterns = patterns
        self.may_backtrack = patterns.may_backtrack

    def is_valid(self, instance: object) -> bool:
        """Whether the instance conforms."""
        return self._compiled.is_valid(instance)

    def first_violation(self, instance: object) -> Violation:
        """One violation of an instance that does not conform."""
        try:
            self._compiled.validate(instance)
        except jsonschema_rs.ValidationError as error:
            return _violation(error, self._patterns)
        message = "jsonschema-rs calls the same instance invalid and valid"
        raise AssertionError(message)

    def violations(self, instance: object) -> tuple[Violation, ...]:
        """The first violations of an instance that does not conform."""
        errors = islice(self._compiled.iter_errors(instance), MOST_VIOLATIONS)
        return tuple(_violation(error, self._patterns) for error in errors)


def compile_schema(read: ReadSchema, *, formats: bool) -> RustValidator | SchemaProblem:
    """The schema in its own dialect, offline; BeyondRustError where the library cannot match one of its patterns."""
    # `pattern` or `patternProperties`; no other schema is worth the search
    speaks = '"pattern' in read.text or read.hides_ascii
    patterns = translate_schema(read.schema) if speaks else TranslatedSchema()
    try:
        with patterns.in_place():
            compiled = _compile(read, formats=formats)
        # of draft 4 the library's own metaschema takes any values for `enum`
        if read.dialect.validator == DRAFT_4.validator and ('"enum"' in read.text or read.hides_ascii):
            _draft_4().validate(read.schema)
    except (ValueError, jsonschema_rs.ReferencingError) as refused:
        return _problem(refused, patterns, read)
    return RustValidator(compiled, patterns)


def _compile(read: ReadSchema, *, formats: bool) -> jsonschema_rs.Validator:
    handed = _checks(read) if formats else None
    validator: type[jsonschema_rs.Validator] = getattr(jsonschema_rs, read.dialect.validator)
    refers = _REFERENCE in read.text and _METASCHEMA_REFERENCE.search(read.text)
    registry = _metaschemas() if refers else None
    # draft 6 does not know them, and draft 7 (validation, 8) lets them be asserted, as it does `format`
    asserts_contents = formats and read.dialect.validator == DRAFT_7.validator
    keywords: dict[str, type[KeywordValidator]] = {} if asserts_contents else dict.fromkeys(_CONTENTS, _Annotation)
    return validator(
        read.schema, formats=handed, validate_formats=formats, keywords=keywords, offline=True, registry=registry
    )


def _checks(read: ReadSchema) -> dict[str, Callable[[str], bool]]:
    """The checks to hand over; each costs time in every build, so only those of formats that the schema names."""
    known = checks(read.dialect)
    if read.hides_ascii:
        return dict(known)
    return {name: known[name] for name in _FORMAT.findall(read.text) if name in known}


@functools.cache
def _metaschemas() -> jsonschema_rs.Registry:
    """The published metaschemas: the library itself knows only that of the dialect at hand."""
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

    return jsonschema_rs.Registry([(uri, REGISTRY.contents(uri)) for uri in REGISTRY])


@functools.cache
def _draft_4() -> jsonschema_rs.Validator:
    """The published metaschema of draft 4; patterns are looked at elsewhere."""
    from jsonschema_specifications import REGISTRY

    metaschema = REGISTRY.contents(DRAFT_4.uri.removesuffix("#"))
    return jsonschema_rs.Draft4Validator(metaschema, validate_formats=False, offline=True)


def _problem(error: Exception, patterns: TranslatedSchema, read: ReadSchema) -> SchemaProblem:
    if not isinstance(error, jsonschema_rs.ValidationError):
        return invalid(SchemaReason.METASCHEMA, str(error).partition("\n")[0])
    kind = error.kind
    if type(kind).__name__ == "Referencing":
        # of several the library names another one each time
        whole = {} if isinstance(read.schema, bool) else read.schema
        first = json.dumps(References(whole, read.dialect).first_unresolved)
        message = error.message if first == "null" else f"$ref {first} leads to nothing here; nothing is ever fetched"
        return invalid(SchemaReason.UNRESOLVABLE_REFERENCE, message)
    path = json_path(patterns.original_path(error.instance_path))
    if type(kind).__name__ == "Format" and getattr(kind, "format", None) == "regex":
        return bad_pattern(patterns.original(str(error.instance)), path)
    return invalid(SchemaReason.METASCHEMA, f"{path}: {patterns.original_text(error.message, error.instance)}")


def bad_pattern(pattern: str, path: str) -> SchemaProblem:
    """The problem of a schema with a text that is no pattern; BeyondRustError where it is one."""
    fault = pattern_fault(pattern)
    if fault is None:
        raise BeyondRustError(pattern)
    return invalid(SchemaReason.PATTERN, f"{path}: {pattern[:100]!r} is no pattern of ECMA-262: {fault}")


def _violation(error: jsonschema_rs.ValidationError, patterns: TranslatedSchema) -> Violation:
    kind = type(error.kind).__name__
    if kind in _ENGINE_GAVE_UP:
        raise BacktrackingLimitError(printable(error.message, cut="middle"))
    # below `propertyNames` the path begins anew at a reference
    keyword = "propertyNames" if kind == "PropertyNames" else last_keyword(error.evaluation_path)
    message = _message(error, patterns)
    if kind == "Contains" and keyword in {"minContains", "maxContains"}:
        fault = "few" if keyword == "minContains" else "many"
        message = f"too {fault} items match the schema under 'contains'"
    return Violation(
        keyword=keyword,
        instance_path=json_path(error.instance_path),
        schema_path=json_pointer(patterns.original_path(error.schema_path)),
        message=printable(message, cut="middle"),
    )


def _message(error: jsonschema_rs.ValidationError, patterns: TranslatedSchema) -> str:
    """What the library says, with patterns as the schema itself writes them."""
    kind: Any = error.kind
    message: str = error.message
    match type(kind).__name__:
        case "Pattern":
            said = f'"{kind.pattern}"'
            return f'{message.removesuffix(said)}"{patterns.original(kind.pattern)}"'
        case "PropertyNames":
            return _message(kind.error, patterns)
        case "Not":
            return patterns.original_text(message, kind.schema)
    return message
