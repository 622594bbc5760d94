"""
Narrow a schema so that a small model finishes its answer.

With an open schema, a 135M model generates invented properties and endless arrays and strings until the token limit.
Therefore, objects without `additionalProperties` are closed, strings get a `maxLength` of at most 40 and arrays a
`maxItems` of at most 2, or more if the schema requires more. Every instance of the narrowed schema is valid for the
original. To ensure this, a subschema stays unchanged if narrowing it would make the whole schema wider (in `not`, in
`if`, in a `oneOf` whose branches may overlap, and in the targets of references in these). If two nodes apply to the
same instance (`allOf`, `$ref` with siblings), neither is narrowed itself, because together they could then reject every
instance.

After that, boolean subschemas are replaced by equivalent objects, and references are written as JSON pointers, since
llama.cpp supports neither boolean subschemas nor other references.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pytest_jsbench.adaptation.always_true import always_true_keywords
from pytest_jsbench.adaptation.document import SchemaDocument, SchemaPart, disjoint, names_in, outline
from pytest_jsbench.adaptation.merging import (
    can_move_properties,
    is_number,
    may_exclude_alternatives,
    merge_scalars,
    spread_alternatives,
)
from pytest_jsbench.schemas.dialects import DIALECTS, dialect_of
from pytest_jsbench.schemas.keywords import ANNOTATIONS, NAMED, REFERENCES, Tokens, find_schemas, rebuild
from pytest_jsbench.schemas.references import References, follow, pointer_of, tokens_of

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.document import Path
    from pytest_jsbench.core.cases import Schema

LONGEST_STRING = 40
#: Maximum length of strings with a format, such as e-mail addresses and URIs.
LONGEST_FORMATTED = 64
LONGEST_ARRAY = 2
#: Formats that llama.cpp matches with a rule of fixed length.
_FIXED_FORMATS = ("date", "date-time", "time", "uuid")
#: Bounds of this value or more are treated as invalid.
_ABSURD = 10**9
#: Token of a JSON pointer without escapes, since llama.cpp does not support escapes.
_PLAIN = re.compile(r"[\w.$-]+")
_POINTER = re.compile(rf"#(?:/{_PLAIN.pattern})+")
_ROOT = ("$defs", "root")


class _Care(IntEnum):
    """Parts of a subschema that may be narrowed."""

    #: Neither the node itself nor its subschemas may be narrowed.
    FROZEN = 0
    #: Only the node's subschemas may be narrowed.
    LOOSE = 1
    #: The node itself and its subschemas may be narrowed.
    FREE = 2


_ANNOTATIONS = ANNOTATIONS - {
    "$dynamicAnchor", "$recursiveAnchor", "contentEncoding", "contentMediaType", "contentSchema",
}  # fmt: skip
#: Keywords that may allow or require properties other than those in the node's `properties`.
_OPENERS = REFERENCES | {
    "additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames", "allOf", "anyOf",
    "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies", "enum", "const",
}  # fmt: skip
#: Keywords in `_OPENERS` that often accept every object, such as `propertyNames: {"type": "string"}`.
_OFTEN_TRUE = frozenset({"propertyNames", "patternProperties", "dependentSchemas", "dependencies"})
#: Keywords supported by llama.cpp whose value is a list of subschemas.
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
#: Keywords with one subschema, and the parts of the subschema that may be narrowed.
_CARE_OF_ONE = {
    **dict.fromkeys(("additionalProperties", "additionalItems", "items"), _Care.FREE),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), _Care.FREE),
    **dict.fromkeys(("then", "else"), _Care.LOOSE),
    **dict.fromkeys(("not", "if", "propertyNames"), _Care.FROZEN),
}
#: Keywords with several subschemas, and the parts of each subschema that may be narrowed.
_CARE_OF_EACH = {
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions", "prefixItems", "items"), _Care.FREE),
    **dict.fromkeys(("dependentSchemas", "dependencies"), _Care.LOOSE),
}


def bound_schema(schema: Schema) -> Schema:
    """Return a narrowed copy of the schema."""
    if not isinstance(schema, Mapping):
        return schema
    original: Mapping[str, Any] = schema
    if not any("allOf" in reference for reference in _texts_under(original, REFERENCES)):
        original = rebuild(original, merge_scalars)
    if can_move_properties(original):
        exclusive = may_exclude_alternatives(original)
        original = rebuild(original, partial(spread_alternatives, exclusive=exclusive))
    return _bound_document(original)


def _bound_document(schema: Mapping[str, Any]) -> Schema:
    document = SchemaDocument(schema)
    limits: dict[Path, _Care] = {}
    while True:
        walk = _Walk(document, limits)
        narrowed: Mapping[str, Any] = walk.visit(schema, (), _Care.FREE)
        if not walk.lowered:
            break
    # references in a subschema with its own identifier start at the subschema, but `_Walk` resolves them from the root
    embedded = (_texts_under(member, ("$id", "id")) for member in schema.values())
    confined = _Care.FROZEN in limits.values() and any(map(any, embedded))
    tuples = "prefixItems" in document.dialect.keywords
    result: Schema = rebuild(schema if confined else narrowed, partial(_without_booleans, tuples=tuples))
    return result


def bound_for_llama_cpp(schema: Schema) -> Schema:
    """Return the narrowed schema, with references as JSON pointers, the only form that llama.cpp supports."""
    return with_pointers(bound_schema(schema))


class _Walk:
    """
    One pass over the schema.

    If a node may not be narrowed, the targets of its references may not be narrowed either. The attribute `lowered` is
    true if the pass has found such a target, so that another pass is required.
    """

    def __init__(self, document: SchemaDocument, limits: dict[Path, _Care]) -> None:
        self._document = document
        self._limits = limits
        self.lowered = False

    def visit(self, schema: Any, path: Path, care: _Care) -> Any:
        """Return the narrowed copy of the subschema at the path."""
        if not isinstance(schema, Mapping):
            return schema
        care = min(care, self._limits.get(path, _Care.FREE))
        if care is _Care.FROZEN:
            # strings in data such as `enum` are followed, too, which only freezes more subschemas than necessary
            for reference in _texts_under(schema, REFERENCES):
                self._lower_limit(reference, _Care.FROZEN)
            return schema
        # with a single keyword, only one subschema applies to the instance
        inner = care if len(schema.keys() - _ANNOTATIONS) == 1 else _Care.LOOSE
        result = {keyword: self._visit_value(schema, keyword, (*path, keyword), inner) for keyword in schema}
        if care is _Care.FREE:
            if "prefixItems" in self._document.dialect.keywords:
                _end_after_tuple(result)
            _add_bounds(result, closable=self._is_closable(schema, path))
        return result

    def _is_closable(self, schema: Mapping[str, Any], path: Path) -> bool:
        """Return whether `additionalProperties: false` forbids no property that another keyword requires or allows."""
        openers = _OPENERS & schema.keys()
        if openers and openers <= _OFTEN_TRUE:  # this check is slow, but only few nodes need it
            openers -= set(always_true_keywords(SchemaPart(schema=schema, path=path), self._document))
        return not openers and _has_enough_names(schema)

    def _visit_value(self, schema: Mapping[str, Any], keyword: str, path: Path, inner: _Care) -> Any:
        """Return the narrowed value of a keyword; `inner` is the care for subschemas of the same instance."""
        value = schema[keyword]
        if keyword in REFERENCES and isinstance(value, str) and inner is not _Care.FREE:
            self._lower_limit(value, inner)
        if keyword in ("allOf", "anyOf"):
            alone = keyword == "anyOf" or (isinstance(value, list) and len(value) == 1)
            return self._visit_each(value, path, inner if alone else _Care.LOOSE)
        if keyword == "oneOf":
            return self._visit_each(value, path, inner if _are_disjoint(self._document, path, value) else _Care.FROZEN)
        if keyword == "contains":
            return self.visit(value, path, _Care.FROZEN if "maxContains" in schema else _Care.LOOSE)
        care = _CARE_OF_ONE.get(keyword)
        if care is not None and not (care is _Care.FREE and isinstance(value, list | bool)):
            return self.visit(value, path, care)
        return self._visit_each(value, path, _CARE_OF_EACH[keyword]) if keyword in _CARE_OF_EACH else value

    def _visit_each(self, value: Any, path: Path, care: _Care) -> Any:
        if isinstance(value, Mapping):
            return {name: self.visit(member, (*path, name), care) for name, member in value.items()}
        if isinstance(value, list):
            return [self.visit(member, (*path, str(n)), care) for n, member in enumerate(value)]
        return value

    def _lower_limit(self, reference: str, care: _Care) -> None:
        pointer = unquote(reference.removeprefix("#"))
        if pointer and not pointer.startswith("/"):
            # an anchor or another document: the target may be anywhere
            pointer = ""
            if care is not _Care.FROZEN:
                return
        path = tokens_of(pointer)
        if self._limits.get(path, _Care.FREE) > care:
            self._limits[path] = care
            self.lowered = True


def _without_booleans(node: dict[str, Any], *, tuples: bool) -> dict[str, Any]:
    """
    Replace boolean subschemas in place, since llama.cpp does not support them; the node is a copy.

    `tuples` is true if the dialect has the keyword `prefixItems`.
    """
    for keyword, value in node.items():
        if keyword in _LISTS and isinstance(value, list):
            node[keyword] = [{} if member is True else member for member in value]
        elif keyword in NAMED and isinstance(value, Mapping):
            node[keyword] = {name: {} if member is True else member for name, member in value.items()}
    for inclusive, sign in (("minimum", 1), ("maximum", -1)):
        _keep_stricter(node, inclusive, sign)
    fixed = node.get("prefixItems")
    if node.get("items") is False and isinstance(fixed, list) and tuples:
        del node["items"]
        given = node.get("maxItems")
        node["maxItems"] = min(len(fixed), given) if isinstance(given, int | float) else len(fixed)
    properties = node.get("properties")
    # in a closed object, a property that is not named is forbidden anyway
    closed = node.get("additionalProperties") is False and "patternProperties" not in node
    named = properties.items() if isinstance(properties, dict) else ()
    forbidden = [name for name, value in named if value is False]
    if forbidden and (closed or "propertyNames" not in node):
        node["properties"] = {name: value for name, value in named if value is not False}
        if not closed:
            node["propertyNames"] = {"not": {"enum": forbidden}}
    return node


def _keep_stricter(node: dict[str, Any], inclusive: str, sign: int) -> None:
    """Remove the less strict of the inclusive and the exclusive bound, since llama.cpp reads only one of them."""
    exclusive = f"exclusive{inclusive.capitalize()}"
    bounds = [node.get(inclusive), node.get(exclusive)]
    if not all(map(is_number, bounds)):
        return
    del node[inclusive if sign * node[exclusive] >= sign * node[inclusive] else exclusive]


def _texts_under(value: Any, keywords: Collection[str]) -> Iterator[str]:
    """Yield all text values of these keywords at any depth, including texts in data such as `enum`."""
    if isinstance(value, Mapping):
        for key, member in value.items():
            if key in keywords and isinstance(member, str):
                yield member
            yield from _texts_under(member, keywords)
    elif isinstance(value, list):
        for member in value:
            yield from _texts_under(member, keywords)


def _add_bounds(node: dict[str, Any], *, closable: bool) -> None:
    """Add the missing bounds to the node, which is changed in place, as it is already a copy."""
    if "enum" in node or "const" in node:
        return
    declared = node.get("type")
    kinds = {declared} if isinstance(declared, str) else set(names_in(declared))
    if ("properties" in node or "object" in kinds) and closable:
        node["additionalProperties"] = False
    if "string" in kinds and "pattern" not in node and node.get("format") not in _FIXED_FORMATS:
        longest = LONGEST_FORMATTED if "format" in node else LONGEST_STRING
        _cap(node, "maxLength", max(longest, _bound_of(node.get("minLength"))))
    if "array" in kinds or ("items" in node and not kinds):
        tuples = [len(node[name]) for name in ("prefixItems", "items") if isinstance(node.get(name), list)]
        contained = _bound_of(node.get("minContains", 1)) if "contains" in node else 0
        _cap(node, "maxItems", max(LONGEST_ARRAY, _bound_of(node.get("minItems")), max(tuples, default=0) + contained))


def _end_after_tuple(node: dict[str, Any]) -> None:
    """Limit an array to its `prefixItems`, since llama.cpp ignores `items` next to `prefixItems`."""
    listed = node.get("prefixItems")
    items = node.get("items")
    if not isinstance(listed, list) or not listed or not isinstance(items, Mapping) or "contains" in node:
        return
    if _bound_of(node.get("minItems")) <= len(listed) and "unevaluatedItems" not in node:
        del node["items"]
        _cap(node, "maxItems", len(listed))


def _cap(node: dict[str, Any], keyword: str, most: int) -> None:
    """Set this upper bound of the node, unless the node already has a smaller one."""
    given = node.get(keyword)
    if given is None or (isinstance(given, int | float) and given > most):
        node[keyword] = most


def _has_enough_names(node: Mapping[str, Any]) -> bool:
    """Return whether the named properties are enough to satisfy `required` and `minProperties`."""
    properties = node.get("properties", {})
    required = node.get("required", [])
    return (
        isinstance(properties, Mapping)
        and isinstance(required, list)
        and all(isinstance(name, str) and name in properties for name in required)
        and _bound_of(node.get("minProperties")) <= len(properties)
    )


def _are_disjoint(document: SchemaDocument, path: Path, branches: Any) -> bool:
    """Return whether no instance is valid for two of the branches; False if uncertain."""
    if not isinstance(branches, list):
        return False
    parts = (SchemaPart(schema=branch, path=(*path, str(number))) for number, branch in enumerate(branches))
    outlines = [outline(document, part) for part in parts]
    return all(disjoint(own, other) for own, other in itertools.combinations(outlines, 2))


def _bound_of(value: Any) -> int:
    """Return a keyword's value as a whole number; 0 for a value that is not a valid bound."""
    is_valid = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _ABSURD
    return int(value) if is_valid else 0


def schema_below_defs(schema: Mapping[str, Any]) -> Any:
    """Return the schema that `with_pointers` moved below `$defs`; None if the schema was not moved."""
    return follow(schema, _ROOT) if schema.get("$ref") == f"#{pointer_of(_ROOT)}" else None


def with_pointers(schema: Schema) -> Schema:
    """
    Return the schema with each `$ref` as a JSON pointer; unchanged if a reference cannot be written as a pointer.

    llama.cpp follows `#/$defs/node`, but neither anchors nor URIs nor `#`. If a reference is `#`, the schema is moved
    below `$defs`.
    """
    dialect = dialect_of(schema, DIALECTS[-1]) if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or dialect is None:
        return schema
    parts = list(find_schemas(schema))
    referring: dict[Tokens, Any] = {path: part for path, part in parts if isinstance(part.get("$ref"), str)}
    # pointers in a subschema with its own identifier start at that subschema
    nested = any(isinstance(part.get(name), str) for _, part in parts[1:] for name in ("$id", "id"))
    if not nested and all(_POINTER.fullmatch(part["$ref"]) for part in referring.values()):
        return schema
    references = References(schema, dialect)
    places = {id(part): path for path, part in parts}
    targets = {path: places.get(id(references.resolve(part, part["$ref"]))) for path, part in referring.items()}
    inside = [target for target in targets.values() if target is not None]
    if len(inside) < len(targets) or not all(_PLAIN.fullmatch(step) for target in inside for step in target):
        return schema
    result: dict[str, Any] = copy.deepcopy(schema)
    prefix = _ROOT if () in inside else ()
    for path, target in targets.items():
        follow(result, path)["$ref"] = f"#{pointer_of((*prefix, *(target or ())))}"
    for path, _ in parts if prefix else parts[1:]:
        for name in ("$id", "id"):  # with an identifier, pointers would start at this subschema
            if isinstance(follow(result, path).get(name), str):
                del follow(result, path)[name]
    if not prefix:
        return result
    result.pop("$schema", None)
    own = {name: schema[name] for name in ("$schema", "$id", "id") if isinstance(schema.get(name), str)}
    return {**own, "$ref": f"#{pointer_of(_ROOT)}", "$defs": {_ROOT[1]: result}}
