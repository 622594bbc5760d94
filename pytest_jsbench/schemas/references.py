"""`$ref` inside one document, offline."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urljoin

from pytest_jsbench.schemas.walking import children


class References:
    """Finds what a reference inside a schema points to; what lies outside of the document is not found."""

    def __init__(self, schema: dict[str, Any], id_keyword: str) -> None:
        self._id_keyword = id_keyword
        #: the longest list of schemas for the first items of an array
        self.longest_tuple = 0
        self._bases: dict[int, str] = {}
        self._resources: dict[str, dict[str, Any]] = {"": schema}
        self._anchors: dict[tuple[str, str], dict[str, Any]] = {}
        self._dynamic: dict[str, list[dict[str, Any]]] = {}
        self._recursive: list[dict[str, Any]] = []
        pending = [(schema, "")]
        while pending:
            subschema, base = pending.pop()
            if id(subschema) not in self._bases:
                base = self._enter(subschema, base)
                pending += [(child, base) for child in children(subschema)]

    def _enter(self, schema: dict[str, Any], base: str) -> str:
        """Index one schema; the base URI that holds inside it."""
        if isinstance(identifier := schema.get(self._id_keyword), str):
            uri, _, anchor = identifier.partition("#")
            if uri:
                base = _join(base, uri)
                self._resources.setdefault(base, schema)
            if anchor:
                self._anchors.setdefault((base, anchor), schema)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := schema.get(keyword), str):
                self._anchors.setdefault((base, name), schema)
        if isinstance(name := schema.get("$dynamicAnchor"), str):
            self._dynamic.setdefault(name, []).append(schema)
        if schema.get("$recursiveAnchor") is True:
            self._recursive.append(schema)
        for keyword in ("prefixItems", "items"):
            if isinstance(first := schema.get(keyword), list):
                self.longest_tuple = max(self.longest_tuple, len(first))
        self._bases[id(schema)] = base
        return base

    def targets(self, schema: dict[str, Any], keyword: str) -> list[object]:
        """
        Every schema of the document that a `$dynamicRef` or `$recursiveRef` in that schema may lead to.

        Which of them it is depends on the way that led here. Empty where it may lead out of the document.
        """
        first = self.resolve(schema, schema[keyword])
        if not isinstance(first, (dict, bool)):
            return []
        others: list[dict[str, Any]] = []
        if isinstance(first, dict) and keyword == "$dynamicRef" and isinstance(first.get("$dynamicAnchor"), str):
            others = self._dynamic[first["$dynamicAnchor"]]
        elif isinstance(first, dict) and keyword == "$recursiveRef" and first.get("$recursiveAnchor") is True:
            others = self._recursive
        return [first, *(other for other in others if other is not first)]

    def resolve(self, schema: dict[str, Any], reference: object) -> object:
        """What the reference in that schema points to; None where that is not in the document."""
        if not isinstance(reference, str):
            return None
        uri, _, fragment = reference.partition("#")
        base = self._bases.get(id(schema), "")
        if uri:
            base = _join(base, uri)
        if fragment and not fragment.startswith("/"):
            return self._anchors.get((base, fragment))
        found = _follow(self._resources.get(base), unquote(fragment))
        if found is None and not uri:
            # many a generated `id` names the place in the instance and was never meant as a base URI
            found = _follow(self._resources[""], unquote(fragment))
        return found


def _join(base: str, uri: str) -> str:
    try:
        return urljoin(base, uri)
    except ValueError:  # such as "Invalid IPv6 URL"
        return uri


def _follow(value: Any, pointer: str) -> object:
    for token in pointer.split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and token in value:
            value = value[token]
        elif isinstance(value, list) and token.isdecimal() and int(token) < len(value):
            value = value[int(token)]
        else:
            return None
    return value
