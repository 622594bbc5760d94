"""Validate with jsonschema-rs, which determines the verdict."""

from __future__ import annotations

import functools
import json
import re
from itertools import islice
from typing import TYPE_CHECKING, Any

import jsonschema_rs

from pytest_jsbench.core.errors import nearest
from pytest_jsbench.core.text import printable
from pytest_jsbench.schemas.dialects import DIALECTS, DRAFT_4, DRAFT_7
from pytest_jsbench.schemas.keywords import NAMED, last_keyword
from pytest_jsbench.schemas.references import References, json_path, place_of
from pytest_jsbench.verdicts.branches import NearestBranches, ReportedError, enum_message
from pytest_jsbench.verdicts.extra_fields import FieldNames
from pytest_jsbench.verdicts.formats import checks
from pytest_jsbench.verdicts.patterns import pattern_keyword, rewritten_patterns
from pytest_jsbench.verdicts.schema_text import ReadSchema
from pytest_jsbench.verdicts.verdicts import SchemaReason, Verdict, Violation, invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from jsonschema_rs import KeywordValidator

#: Maximum number of violations that a verdict lists.
MOST_VIOLATIONS = 20

#: Maximum length in characters of a schema whose errors are all sorted; jsonschema-rs creates all errors at once.
_LONGEST_SORTED = 150_000
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
#: Beginning of a reference to a metaschema. A search for fixed text is ten times as fast as the regular expression.
_REFERENCE = '"$ref": "http'
_METASCHEMA = re.compile(r"https?://json-schema\.org/")
_METASCHEMA_REFERENCE = re.compile(r'"\$ref": "https?://json-schema\.org/')
_FORMAT = re.compile(r'"format"\s*:\s*"([^"]*)"')
_CONTENTS = ("contentEncoding", "contentMediaType")


class _Annotation:
    """Keyword for jsonschema-rs that accepts every instance."""

    def __init__(self, parent_schema: object, value: object, schema_path: object) -> None:
        pass

    def validate(self, instance: object) -> None:
        """Accept any instance."""


class RustValidator:
    """A schema compiled by jsonschema-rs."""

    def __init__(self, compiled: jsonschema_rs.Validator, originals: Mapping[str, str]) -> None:
        self._compiled = compiled
        self._originals = originals

    def is_valid(self, instance: object) -> bool:
        """Return whether the instance conforms to the schema."""
        return self._compiled.is_valid(instance)

    def violations(self, instance: object, names: FieldNames, most: int = MOST_VIOLATIONS) -> tuple[Violation, ...]:
        """Return the first violations of an instance that does not conform; with `most=1`, only one is computed."""
        errors: Iterable[jsonschema_rs.ValidationError] = ()
        if most > 1:
            errors = islice(self._compiled.iter_errors(instance), most)
        else:
            try:
                self._compiled.validate(instance)
            except jsonschema_rs.ValidationError as error:
                # with its traceback, the error would keep this frame, and with it the schema, until the garbage
                # collector runs: 45 MB after the 9,557 schemas of JSONSchemaBench
                errors = (error.with_traceback(None),)
        nearest = NearestBranches(instance, names)
        return tuple(nearest.violation(_to_reported_error(error, self._originals)) for error in errors)


def compile_schema(read: ReadSchema, *, formats: bool) -> RustValidator | Verdict | None:
    """Compile the schema in its dialect, offline; None if jsonschema-rs may have rejected a pattern."""
    # schemas without patterns are not searched for them
    has_patterns = '"pattern' in read.text or read.hides_ascii
    if has_patterns and "patternProperties/" in read.text:
        return None  # a reference may point to an escaped pattern below `patternProperties`
    try:
        with rewritten_patterns(read.references.schemas if has_patterns else ()) as originals:
            keywords = {"pattern": pattern_keyword(originals)} if has_patterns else {}
            compiled = _compile(read, keywords, formats=formats)
        # the metaschema of draft 4 in the library accepts any value for `enum`
        if read.dialect.validator == DRAFT_4.validator and ('"enum"' in read.text or read.hides_ascii):
            _metaschema(read.dialect.validator).validate(read.schema)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        is_schema_invalid = isinstance(error, jsonschema_rs.ValidationError) and not _is_unresolved_reference(error)
        return None if has_patterns and is_schema_invalid else _problem(error, read)
    return RustValidator(compiled, originals)


def _compile(
    read: ReadSchema, keywords: dict[str, type[KeywordValidator]], *, formats: bool
) -> jsonschema_rs.Validator:
    validator: type[jsonschema_rs.Validator] = getattr(jsonschema_rs, read.dialect.validator)
    refers = _REFERENCE in read.text and _METASCHEMA_REFERENCE.search(read.text)
    # draft 6 does not define these keywords; draft 7 (validation, 8) allows validators to assert them, like `format`
    asserts_contents = formats and read.dialect.validator == DRAFT_7.validator
    if not asserts_contents and ('"content' in read.text or read.hides_ascii):
        keywords |= dict.fromkeys(_CONTENTS, _Annotation)
    # each check makes compiling slower, so only the formats in the schema are included
    available = checks(read.dialect) if formats else {}
    named = available if read.hides_ascii else _FORMAT.findall(read.text)
    return validator(
        read.schema,
        formats={name: available[name] for name in named if name in available},
        validate_formats=formats,
        keywords=keywords,
        offline=True,
        registry=_metaschemas() if refers else None,
    )


@functools.cache
def _metaschemas() -> jsonschema_rs.Registry:
    """Return the published metaschemas; the library itself includes only the metaschema of the current dialect."""
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

    return jsonschema_rs.Registry([(uri, REGISTRY.contents(uri)) for uri in REGISTRY])


@functools.cache
def _metaschema(draft: str) -> jsonschema_rs.Validator:
    """Return the published metaschema of a draft, which does not check patterns."""
    from jsonschema_specifications import REGISTRY

    uri = next(dialect.uri for dialect in DIALECTS if dialect.validator == draft)
    validator: type[jsonschema_rs.Validator] = getattr(jsonschema_rs, draft)
    metaschema = REGISTRY.contents(uri.removesuffix("#"))
    return validator(metaschema, validate_formats=False, offline=True, registry=_metaschemas())


def _first_fault(error: jsonschema_rs.ValidationError, read: ReadSchema) -> jsonschema_rs.ValidationError:
    """Return the first error in the schema, sorted by place; if the schema is very large, return the given error."""
    metaschema = _metaschema(read.dialect.validator)
    schema = read.schema
    if len(read.text) > _LONGEST_SORTED and isinstance(schema, dict):
        # in draft 4, `exclusiveMinimum` requires `minimum`, and `exclusiveMaximum` requires `maximum`
        bounds = {keyword: schema[keyword] for keyword in ("minimum", "maximum") if keyword in schema}
        parts = ({**bounds, **part} for part in _split_schema(schema))
        schema = next((part for part in parts if not metaschema.is_valid(part)), schema)
        if len(json.dumps(schema, default=float)) > _LONGEST_SORTED:
            return error
    faults = metaschema.iter_errors(schema)
    return min(faults, key=lambda fault: (json_path(fault.instance_path), fault.message), default=error)


def _split_schema(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a schema for each keyword, and for each name in keywords such as `properties`, sorted by place."""
    for keyword in sorted(schema, key=lambda keyword: json_path((keyword,))):
        value = schema[keyword]
        if keyword in NAMED and isinstance(value, dict):
            yield from ({keyword: {name: value[name]}} for name in sorted(value, key=lambda name: json_path((name,))))
        else:
            yield {keyword: value}


def _is_unresolved_reference(error: Exception) -> bool:
    return isinstance(error, jsonschema_rs.ValidationError) and type(error.kind).__name__ == "Referencing"


def _problem(error: Exception, read: ReadSchema) -> Verdict:
    if not isinstance(error, jsonschema_rs.ValidationError):
        return invalid(SchemaReason.METASCHEMA, str(error).partition("\n")[0])
    if _is_unresolved_reference(error):
        # if there are several unresolvable references, the library reports a different one each time
        return unresolvable(read) or invalid(SchemaReason.UNRESOLVABLE_REFERENCE, error.message)
    error = _first_fault(error, read)
    message = error.message
    if isinstance(error.instance, str) and [*error.schema_path][-2:] == ["type", "anyOf"]:
        name = printable(error.instance, 40)
        message = f"'{name}' is not a type: {nearest(name, _TYPES)}"
    return invalid(SchemaReason.METASCHEMA, f"{json_path(error.instance_path)}: {message}")


def unresolvable(read: ReadSchema) -> Verdict | None:
    """Return the problem with the first unresolvable reference; None if all references can be resolved."""
    whole = {} if isinstance(read.schema, bool) else read.schema
    for schema, reference in References(whole, read.dialect).find_unresolved():
        if not _METASCHEMA.match(reference):
            message = (
                f"$ref {json.dumps(reference)} cannot be resolved in the schema; remote documents are never fetched"
            )
            return invalid(SchemaReason.UNRESOLVABLE_REFERENCE, f"{place_of(whole, schema)}: {message}")
    return None


def _to_reported_error(error: jsonschema_rs.ValidationError, originals: Mapping[str, str]) -> ReportedError:
    kind: Any = error.kind
    # after a reference below `propertyNames`, the evaluation path no longer contains `propertyNames`
    names = type(kind).__name__ == "PropertyNames"
    keyword = "propertyNames" if names else last_keyword(error.evaluation_path)
    steps = tuple(error.schema_path)
    path = tuple(
        originals.get(str(step), step) if before == "patternProperties" else step
        for before, step in zip((None, *steps), steps, strict=False)
    )
    allowed = getattr(kind, "options", None)
    return ReportedError(
        keyword=keyword,
        place=tuple(error.instance_path),
        schema_path=path,
        message=_message(error, keyword, originals),
        allowed=[kind.expected_value] if keyword == "const" and hasattr(kind, "expected_value") else allowed,
        forbidden=type(kind).__name__ == "FalseSchema",
        read_branches=lambda: [
            [_to_reported_error(each, originals) for each in branch] for branch in getattr(kind, "context", ())
        ],
    )


def _message(error: jsonschema_rs.ValidationError, keyword: str, originals: Mapping[str, str]) -> str:
    kind: Any = error.kind
    name = type(kind).__name__
    if name == "Enum":
        return enum_message(error.instance, kind.options)
    message: str = kind.error.message if name == "PropertyNames" else error.message
    if name == "Contains" and keyword in {"minContains", "maxContains"}:
        fault = "few" if keyword == "minContains" else "many"
        message = f"too {fault} items match the schema under 'contains'"
    if name == "Not":  # the message quotes a part of the schema, with rewritten patterns
        for patterns in originals.items():
            written, original = (json.dumps(pattern, ensure_ascii=False) for pattern in patterns)
            message = message.replace(written, original)
    return message
