"""
Replace the references in a schema by copies of their definitions.

A reference stays if its definition is recursive, if implementations may disagree about its target, or if a copy would
have a duplicate identifier. Keywords next to a reference keep their meaning in the schema's dialect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from pytest_jsbench.adaptation.adapter import Change
from pytest_jsbench.adaptation.rewriting import NotRewritten, Rewritten
from pytest_jsbench.core.json_values import to_json
from pytest_jsbench.core.text import format_count
from pytest_jsbench.schemas.dialects import DRAFT_4, DRAFT_2020_12, Dialect, dialect_of, find_dialect
from pytest_jsbench.schemas.keywords import DATA, KEYWORDS, NAMED, Tokens
from pytest_jsbench.schemas.references import CertainReferences, follow, pointer_of, tokens_of

#: Maximum size of the result, as a multiple of the number of values in the original; small schemas may grow to
#: `_SMALL` values.
_MOST_GROWTH = 10
_SMALL = 2_000
#: Keywords that identify a schema, so that a copy would be a duplicate, or that depend on the path of evaluation.
_IDENTIFIERS = frozenset({"$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$schema"})
_DYNAMIC = frozenset({"$dynamicRef", "$recursiveRef"})
_DEFINITIONS = ("$defs", "definitions")
#: Keywords that may contain schemas; all other keywords are kept as they are.
_WITH_SCHEMAS = KEYWORDS.union(NAMED, ("contentSchema",)) - DATA
#: Keywords next to a reference that are kept even if the dialect ignores them: none can make an instance invalid.
_KEPT_BESIDE = frozenset(
    {"title", "description", "default", "examples", "$comment", "readOnly", "writeOnly", "deprecated", "$schema",
     *_DEFINITIONS}
)  # fmt: skip

_NO_REFERENCE = "the schema has no $ref to inline"


class _CannotInline(Exception):
    """Raised with the reason why no reference is replaced."""


class _NothingToInline(_CannotInline):
    """Raised if the schema has no reference that could be replaced."""


def inline_to_json(schema: Any, dialect: str) -> Any:
    """Return the result of `inline` as JSON values; `dialect` is the `$schema` URI for a schema without `$schema`."""
    return to_json(inline(schema, find_dialect(dialect) or DRAFT_2020_12))


def inline(schema: Any, default: Dialect) -> Rewritten | NotRewritten:
    """Return the schema with definitions in place of references; `default` applies to a schema without `$schema`."""
    dialect = dialect_of(schema, default)
    if not isinstance(schema, dict) or dialect is None:
        return NotRewritten(message=_NO_REFERENCE)
    inliner = _Inliner(schema, dialect)
    try:
        rewritten = inliner.result()
    except _CannotInline as problem:
        return NotRewritten(message=str(problem), failed=not isinstance(problem, _NothingToInline))
    kept = "".join(f"; kept: {count} {reason}" for reason, count in inliner.kept.items())
    note = f"{format_count(inliner.replaced, 'reference')} replaced by the definition{kept}"
    return Rewritten(schema=rewritten, change=Change(kind="inlined", keyword="$ref", path="", note=note))


class _Inliner:
    """The replacement of the references in one schema."""

    def __init__(self, root: dict[str, Any], dialect: Dialect) -> None:
        self._root = root
        self._dialect = dialect
        self._references = CertainReferences(root)
        #: Targets of the references inside the schema at each place.
        self._targets: dict[Tokens, frozenset[Tokens]] = {}
        self._recursive: dict[Tokens, bool] = {}
        self._left = max(_SMALL, _MOST_GROWTH * sum(1 for _ in _values(root)))
        #: Number of replaced references.
        self.replaced = 0
        #: Number of references that were kept, by reason.
        self.kept: Counter[str] = Counter()

    def result(self) -> dict[str, Any]:
        """Return the rewritten schema; raise _CannotInline if it would be equal to the original, or too large."""
        schemas = [schema for _, schema in _subschemas((), self._root)]
        if any(not _DYNAMIC.isdisjoint(schema) for schema in schemas):
            raise _CannotInline("the schema has a dynamic reference, whose target depends on the path of evaluation")
        outside = {keyword: value for keyword, value in self._root.items() if keyword not in _DEFINITIONS}
        rewritten = self._copy(outside, ())
        if isinstance(rewritten, bool):
            raise _CannotInline("the schema is only a reference to true or false")
        definitions = self._copy_used_definitions(rewritten)
        if not self.replaced:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.kept.items())
            raise _NothingToInline(f"no $ref can be inlined: {reasons}" if reasons else _NO_REFERENCE)
        if not definitions.keys().isdisjoint(rewritten):
            raise _CannotInline("the definition of the whole schema has definitions of its own")
        complete = {**rewritten, **definitions}
        for target in filter(None, map(_place_of, _references_from(complete))):
            if follow(complete, target) is None:
                raise _CannotInline(f"{pointer_of(target)} would no longer exist")
        return complete

    def _copy_used_definitions(self, rewritten: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return copies of the definitions to which the kept references lead, by keyword and name."""
        copies: dict[str, dict[str, Any]] = {}
        seen: set[str] = set()
        pending = list(_references_in(rewritten))
        while pending:
            reference = pending.pop()
            if reference in seen:
                continue
            seen.add(reference)
            target = _place_of(reference)
            for keyword in _DEFINITIONS:
                group = self._root.get(keyword)
                for name, definition in group.items() if isinstance(group, dict) else ():
                    is_used = target is None or target[:2] == (keyword, name)
                    if is_used and name not in copies.get(keyword, {}):
                        copy = self._copy(definition, (keyword, name))
                        copies.setdefault(keyword, {})[name] = copy
                        pending += _references_in(copy)
            if target is not None:  # the target may be in a keyword in which no references are replaced
                pending += _references_in(follow({**rewritten, **copies}, target))
        return copies

    def _copy(self, schema: Any, path: Tokens) -> Any:
        """Return a copy of the subschema at this place of the original schema, with references replaced."""
        self._left -= 1
        if self._left < 0:
            raise _CannotInline("inlining would make the schema too large, since definitions use other definitions")
        if not isinstance(schema, dict):
            return schema
        if isinstance(schema.get("$ref"), str):
            target = self._find_replaceable(schema, path)
            if target is not None:
                self.replaced += 1
                return self._join(schema, path, self._copy(follow(self._root, target), target))
        return {keyword: self._copy_value(keyword, value, (*path, keyword)) for keyword, value in schema.items()}

    def _copy_value(self, keyword: str, value: Any, path: Tokens) -> Any:
        if keyword not in _WITH_SCHEMAS:
            self._left -= sum(1 for _ in _values(value))
            return value
        if isinstance(value, list):
            return [self._copy(part, (*path, str(at))) for at, part in enumerate(value)]
        if keyword in NAMED and isinstance(value, dict):
            return {name: self._copy(part, (*path, name)) for name, part in value.items()}
        return self._copy(value, path)

    def _find_replaceable(self, schema: dict[str, Any], path: Tokens) -> Tokens | None:
        """Return the place of the definition that may replace a reference; None if the reference is kept."""
        target = self._references.find(path, schema["$ref"])
        definition = None if target is None else follow(self._root, target)
        if target is None or not isinstance(definition, dict | bool):
            self.kept["with an unknown target"] += 1
        elif self._is_recursive(target):
            self.kept["recursive"] += 1
        elif self._has_identifier(schema, path, definition, target):
            self.kept["of a definition with an identifier"] += 1
        elif isinstance(definition, bool) and self._dialect is DRAFT_4:
            self.kept["with an unknown target"] += 1
        else:
            return target
        return None

    def _has_identifier(self, schema: dict[str, Any], path: Tokens, definition: Any, target: Tokens) -> bool:
        """Return whether a copy of the definition, or the schema with the reference, has an identifier."""
        parts = [part for _, part in _subschemas(target, definition)]
        is_root_with_id = not path and self._dialect.lone_references and not {"$id", "id"}.isdisjoint(schema)
        return is_root_with_id or any(isinstance(part.get(name), str | bool) for part in parts for name in _IDENTIFIERS)

    def _is_recursive(self, target: Tokens) -> bool:
        """Return whether the definition refers to itself, directly or through other definitions."""
        if target not in self._recursive:
            seen: set[Tokens] = set()
            pending = list(self._find_targets(target))
            while pending:
                place = pending.pop()
                if place not in seen:
                    seen.add(place)
                    pending += self._find_targets(place)
            self._recursive[target] = target in seen
        return self._recursive[target]

    def _find_targets(self, place: Tokens) -> frozenset[Tokens]:
        if place not in self._targets:
            parts = _subschemas(place, follow(self._root, place))
            found = (self._references.find(path, part["$ref"]) for path, part in parts if "$ref" in part)
            self._targets[place] = frozenset(target for target in found if target is not None)
        return self._targets[place]

    def _join(self, schema: dict[str, Any], path: Tokens, definition: Any) -> Any:
        """Return the copied definition together with the keywords next to the reference to it."""
        beside = {
            keyword: self._copy_value(keyword, value, (*path, keyword))
            for keyword, value in schema.items()
            if keyword != "$ref" and (not self._dialect.lone_references or keyword in _KEPT_BESIDE)
        }
        if not beside:
            return definition
        is_annotated = self._dialect.lone_references or beside.keys().isdisjoint(self._dialect.keywords)
        if is_annotated and isinstance(definition, dict) and beside.keys().isdisjoint(definition):
            head = {keyword: value for keyword, value in beside.items() if keyword not in _DEFINITIONS}
            return {**head, **definition, **beside}
        # a reference applies like `allOf`; its own branches keep their places, to which other references may point
        branches = beside.get("allOf", [])
        return {**beside, "allOf": [*(branches if isinstance(branches, list) else []), definition]}


def _values(value: Any) -> Iterator[Any]:
    """Yield a JSON value and all values in it."""
    pending = [value]
    for each in pending:
        yield each
        if isinstance(each, dict):
            pending += each.values()
        elif isinstance(each, list):
            pending += each


def _subschemas(path: Tokens, schema: Any) -> Iterator[tuple[Tokens, dict[str, Any]]]:
    """Yield the schema at a place and all schemas in it, with their places."""
    pending: list[tuple[Tokens, Any]] = [(path, schema)]
    while pending:
        place, part = pending.pop()
        if not isinstance(part, dict):
            continue
        yield place, part
        for keyword, value in part.items():
            if keyword not in _WITH_SCHEMAS:
                continue
            if isinstance(value, list):
                pending += [((*place, keyword, str(at)), each) for at, each in enumerate(value)]
            elif keyword in NAMED and isinstance(value, dict):
                pending += [((*place, keyword, name), each) for name, each in value.items()]
            else:
                pending.append(((*place, keyword), value))


def _references_in(schema: Any) -> Iterator[str]:
    for _, part in _subschemas((), schema):
        reference = part.get("$ref")
        if isinstance(reference, str):
            yield reference


def _references_from(root: dict[str, Any]) -> Iterator[str]:
    """Yield the references in a schema and at the places to which they lead, which may be in unknown keywords."""
    seen: set[str] = set()
    pending: list[Any] = [root]
    while pending:
        for reference in _references_in(pending.pop()):
            if reference not in seen:
                seen.add(reference)
                yield reference
                target = _place_of(reference)
                pending += [] if target is None else [follow(root, target)]


def _place_of(reference: str) -> Tokens | None:
    """Return the place to which a JSON pointer in a reference leads; None for any other reference."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    return tokens_of(unquote(reference[1:]))
