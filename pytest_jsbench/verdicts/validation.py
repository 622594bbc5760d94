"""The verdict's own validator: jsonschema-rs."""

from __future__ import annotations

import functools
import re
from itertools import islice
from typing import Any, Protocol

import jsonschema_rs

from pytest_jsbench.core.text import printable
from pytest_jsbench.schemas.locations import json_path, json_pointer
from pytest_jsbench.schemas.walking import last_keyword
from pytest_jsbench.verdicts.formats import checks
from pytest_jsbench.verdicts.patterns import misread, rewrite_misread, rewrite_schema
from pytest_jsbench.verdicts.schema_text import ReadSchema, SchemaReason, invalid
from pytest_jsbench.verdicts.verdicts import SchemaProblem, Violation

#: violations that a verdict lists
MOST_VIOLATIONS = 20

#: look-around and references back, the only patterns that jsonschema-rs matches by backtracking
_MAY_BACKTRACK = re.compile(r"\(\?[=!<>]|\\[1-9k]")
#: a search for fixed words is a tenth of what one for a pattern costs
_REFERENCE = '"$ref": "http'
_METASCHEMA_REFERENCE = re.compile(r'"\$ref": "https?://json-schema\.org/')
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


class RustValidator:
    """A schema compiled by jsonschema-rs."""

    def __init__(self, compiled: jsonschema_rs.Validator, *, may_backtrack: bool) -> None:
        self._compiled = compiled
        self.may_backtrack = may_backtrack

    def is_valid(self, instance: object) -> bool:
        """Whether the instance conforms."""
        return self._compiled.is_valid(instance)

    def first_violation(self, instance: object) -> Violation:
        """One violation of an instance that does not conform."""
        try:
            self._compiled.validate(instance)
        except jsonschema_rs.ValidationError as error:
            return _violation(error)
        message = "jsonschema-rs calls the same instance invalid and valid"
        raise AssertionError(message)

    def violations(self, instance: object) -> tuple[Violation, ...]:
        """The first violations of an instance that does not conform."""
        return tuple(map(_violation, islice(self._compiled.iter_errors(instance), MOST_VIOLATIONS)))


def compile_schema(read: ReadSchema, *, formats: bool) -> RustValidator | SchemaProblem:
    """The schema in its own dialect, offline."""
    # `pattern` or `patternProperties`, perhaps written with an escape; no other schema is worth the search
    text = read.text.replace("\\\\", "\\") if "pattern" in read.text or "\\u" in read.text else ""
    schema = rewrite_schema(read.schema, rewrite_misread) if misread(text) else read.schema
    try:
        compiled = _compile(read, schema, formats=formats)
    except (ValueError, jsonschema_rs.ReferencingError) as refused:
        rewritten = rewrite_schema(read.schema)
        if rewritten == schema:
            return _problem(refused)
        try:
            compiled = _compile(read, rewritten, formats=formats)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            return _problem(error)
    return RustValidator(compiled, may_backtrack=_MAY_BACKTRACK.search(text) is not None)


def _compile(read: ReadSchema, schema: bool | dict[str, Any], *, formats: bool) -> jsonschema_rs.Validator:
    # handing over checks costs time in every build, so only schemas that speak of formats get them
    speaks = '"format"' in read.text or "\\u" in read.text
    handed = dict(checks(read.dialect)) if formats and speaks else None
    validator: type[jsonschema_rs.Validator] = getattr(jsonschema_rs, read.dialect.validator)
    refers = _REFERENCE in read.text and _METASCHEMA_REFERENCE.search(read.text)
    registry = _metaschemas() if refers else None
    return validator(schema, formats=handed, validate_formats=formats, offline=True, registry=registry)


@functools.cache
def _metaschemas() -> jsonschema_rs.Registry:
    """The published metaschemas: the library itself knows only that of the dialect at hand."""
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

    return jsonschema_rs.Registry([(uri, REGISTRY.contents(uri)) for uri in REGISTRY])


def _problem(error: Exception) -> SchemaProblem:
    if not isinstance(error, jsonschema_rs.ValidationError):
        return invalid(SchemaReason.METASCHEMA, str(error).partition("\n")[0])
    message = f"{json_path(error.instance_path)}: {error.message}"
    kind = error.kind
    if type(kind).__name__ == "Referencing":
        return invalid(SchemaReason.UNRESOLVABLE_REFERENCE, error.message)
    if type(kind).__name__ == "Format" and getattr(kind, "format", None) == "regex":
        return invalid(SchemaReason.PATTERN, f"{message}, or is too large to compile")
    return invalid(SchemaReason.METASCHEMA, message)


def _violation(error: jsonschema_rs.ValidationError) -> Violation:
    kind = type(error.kind).__name__
    if kind in _ENGINE_GAVE_UP:
        raise BacktrackingLimitError(printable(error.message, cut="middle"))
    # below `propertyNames` the path begins anew at a reference
    keyword = "propertyNames" if kind == "PropertyNames" else last_keyword(error.evaluation_path)
    message = error.message
    if kind == "Contains" and keyword in {"minContains", "maxContains"}:
        fault = "few" if keyword == "minContains" else "many"
        message = f"too {fault} items match the schema under 'contains'"
    return Violation(
        keyword=keyword,
        instance_path=json_path(error.instance_path),
        schema_path=json_pointer(error.schema_path),
        message=printable(message, cut="middle"),
    )
