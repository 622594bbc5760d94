"""Strategies for random schemas, and small schemas that become large when references and alternatives are expanded."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st


def values(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy for these values, and arrays and objects of them."""
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        max_leaves=6,
    )


def nodes(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy for schemas of one to three keywords."""
    lists = st.lists(inner, min_size=1, max_size=3)
    maps = st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3)
    likely: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from(["object", "array", "string", ["array", "object"]]),
        "properties": maps, "required": st.sampled_from([["a"], ["a", "b"]]), "items": inner, "allOf": lists,
        "anyOf": lists, "oneOf": lists, "additionalProperties": inner, "patternProperties": maps, "not": inner,
        "prefixItems": lists,
    }  # fmt: skip
    rare: dict[str, st.SearchStrategy[Any]] = {
        "if": inner, "then": inner, "else": inner, "contains": inner, "maxContains": st.just(1),
        "dependentSchemas": maps, "unevaluatedProperties": inner, "unevaluatedItems": inner, "propertyNames": inner,
    }  # fmt: skip
    strategies = {**likely, **rare}
    names = st.sampled_from([*sorted(likely) * 3, *sorted(rare)])

    @cache
    def node(*keywords: str) -> st.SearchStrategy[Any]:
        return st.fixed_dictionaries({keyword: strategies[keyword] for keyword in keywords})

    return st.sets(names, min_size=1, max_size=3).flatmap(lambda chosen: node(*sorted(chosen)))


def schemas(leaves: list[Any], *references: str) -> st.SearchStrategy[Any]:
    """Return a strategy for schemas without references, and so without cycles."""
    return st.recursive(st.sampled_from([*leaves, *({"$ref": r} for r in references)]), nodes, max_leaves=8)


def chain(length: int, *, alike: bool = True, **beside: Any) -> dict[str, Any]:
    """Return definitions that each use the next one twice, in identical or different form."""
    definitions: dict[str, Any] = {"end": {"type": "object", "properties": {"a": {}}}}
    for number in range(length):
        following = {"$ref": f"#/$defs/d{number + 1}" if number + 1 < length else "#/$defs/end"}
        other = following if alike else {**following, "maxProperties": 9 + number}
        definitions[f"d{number}"] = {"anyOf": [following, other], "minProperties": 1, **beside}
    return {"$ref": "#/$defs/d0", "$defs": definitions}


def wide(levels: int, width: int) -> dict[str, Any]:
    """Return alternatives that are distinguished by what many others contain, level after level."""
    definitions: dict[str, Any] = {"end": {"type": "object"}}
    for number in range(levels):
        following = f"#/$defs/w{number + 1}" if number + 1 < levels else "#/$defs/end"
        definitions[f"w{number}"] = {"allOf": [{"$ref": following}] * width}
    return {"oneOf": [{"$ref": "#/$defs/w0"}, {"type": "string"}], "$defs": definitions}


def lowered_one_by_one(length: int) -> dict[str, Any]:
    """Return references that are each known to be delicate only after the following one."""
    definitions = {f"r{number:05}": {"allOf": [{"$ref": f"#/$defs/r{number + 1:05}"}, {}]} for number in range(length)}
    ordered = dict(sorted(definitions.items(), reverse=True))
    return {"not": {"$ref": "#/$defs/r00000"}, "$defs": {f"r{length:05}": {"type": "string"}, **ordered}}
