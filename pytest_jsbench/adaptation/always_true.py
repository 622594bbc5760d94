"""Find keywords whose values accept every instance, such as `propertyNames: {"type": "string"}`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pytest_jsbench.schemas.keywords import ANNOTATIONS, BY_KIND, KEYWORDS

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.document import SchemaDocument, SchemaPart

#: Maximum depth of references and branches to follow; a deeper schema is assumed to reject some instance.
_DEEPEST = 8
#: Patterns that match every string in every regular expression dialect.
_PATTERNS = frozenset({"", "^", "$", ".*", "^.*", ".*$", "()", "(?:)", r"[\s\S]*", r"^[\s\S]*", r"^[\s\S]*$"})


def always_true_keywords(part: SchemaPart, document: SchemaDocument) -> list[str]:
    """Return the keywords that can be removed from the subschema without any effect on validity."""
    return [keyword for keyword in part.schema if _accepts_all(keyword, part, document, _DEEPEST)]


def _accepts_all(keyword: str, part: SchemaPart, document: SchemaDocument, deepest: int) -> bool:
    test = _TESTS.get(keyword)
    if test is not None:
        return test(part.schema[keyword])
    if keyword == "propertyNames":
        return _accepts_strings(part.below(keyword), document, deepest)
    if keyword in ("unevaluatedProperties", "unevaluatedItems", "additionalProperties", "additionalItems", "items"):
        return _accepts_everything(part.schema[keyword])
    if keyword == "patternProperties":
        return _is_ineffective(part.schema)
    return False


def _accepts_strings(part: SchemaPart, document: SchemaDocument, deepest: int) -> bool:
    """Return whether a schema accepts every string; False if uncertain."""
    schema = part.schema
    if not isinstance(schema, Mapping):
        return schema is True
    if deepest == 0:
        return False
    if "$ref" in schema:
        target = document.resolve(part, schema["$ref"])
        if target is None or not _accepts_strings(target, document, deepest - 1):
            return False
        if document.dialect.lone_references:
            return True
    return all(
        _keyword_accepts_strings(keyword, part, document, deepest) for keyword in schema.keys() & KEYWORDS - {"$ref"}
    )


def _keyword_accepts_strings(keyword: str, part: SchemaPart, document: SchemaDocument, deepest: int) -> bool:
    value = part.schema[keyword]
    if keyword == "type":
        return value == "string" or (isinstance(value, list) and "string" in value)
    if keyword in ("allOf", "anyOf"):
        if not isinstance(value, list) or not value:
            return False
        accepted = (
            _accepts_strings(part.below(keyword, str(number)), document, deepest - 1) for number in range(len(value))
        )
        return all(accepted) if keyword == "allOf" else any(accepted)
    if keyword in _KEYWORDS_OF_OTHER_TYPES:
        return True
    return _accepts_all(keyword, part, document, deepest)


#: Keywords that have no effect on strings.
_KEYWORDS_OF_OTHER_TYPES = BY_KIND["object"] | BY_KIND["array"] | BY_KIND["number"]


def _accepts_everything(schema: object) -> bool:
    """Return whether a schema is `true` or contains only annotations."""
    return schema is True or (isinstance(schema, Mapping) and schema.keys() <= ANNOTATIONS)


def _is_ineffective(schema: Mapping[str, Any]) -> bool:
    """Return whether the schema accepts the same objects without its `patternProperties`; False if uncertain."""
    patterns = schema["patternProperties"]
    if not isinstance(patterns, Mapping):
        return False
    if not patterns:
        return True
    others = _accepts_everything(schema.get("additionalProperties", True)) and "unevaluatedProperties" not in schema
    return others and all(map(_accepts_everything, patterns.values()))


def _is_not_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value <= 0


def _is_empty_list(value: object) -> bool:
    return isinstance(value, list) and not value


def _requires_nothing(value: object) -> bool:
    return isinstance(value, Mapping) and all(_is_empty_list(names) for names in value.values())


def _applies_nothing(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        _is_empty_list(schema) or _accepts_everything(schema) for schema in value.values()
    )


_TESTS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("minLength", "minItems", "minProperties"), _is_not_positive),
    "uniqueItems": lambda value: value is False,
    "pattern": lambda value: isinstance(value, str) and value in _PATTERNS,
    "required": _is_empty_list,
    "dependentRequired": _requires_nothing,
    "dependentSchemas": _applies_nothing,
    "dependencies": _applies_nothing,
}
