"""Propose simpler forms of a candidate: a subschema in place of its parent, smaller numbers, shorter texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pytest_jsbench.run.reduction.candidate import SCHEMA, Candidate, DocumentKind, DocumentPlace
from pytest_jsbench.run.reduction.schema_parts import (
    DEFINITIONS,
    PartKind,
    Path,
    part_at,
    removable_paths,
    remove_paths,
    replace_part,
    walk_parts,
)
from pytest_jsbench.run.reduction.tool_parts import simpler_offers
from pytest_jsbench.schemas.keywords import NAMED
from pytest_jsbench.schemas.references import follow, tokens_of

#: Keywords whose subschemas apply to the same value, and can be merged into their parent.
_IN_PLACE = ("allOf", "anyOf", "oneOf", "then", "else", "not", "if")
#: Patterns that replace a longer one.
_SIMPLE_PATTERNS = ("", "a", "^a$", "^[a-z]+$")


def simpler_forms(candidate: Candidate) -> Iterator[Candidate]:
    """Yield smaller candidates, each with one edit; those that remove the most come first."""
    limit = candidate.size
    for form in _all_forms(candidate):
        if form.size < limit:
            yield form


def forms_at(candidate: Candidate, pointer: str, place: DocumentPlace = SCHEMA) -> Iterator[Candidate]:
    """
    Yield smaller candidates with the schema at this pointer, which has the violated keyword: this schema alone, and the
    whole schema without the siblings on the way to it.
    """
    schema = candidate.document_at(place)
    path = _path_of(schema, tokens_of(pointer)[:-1])
    if not path or not isinstance(schema, Mapping):
        return
    limit = candidate.size
    child = part_at(schema, path)
    siblings = [
        (*path[:at], name)
        for at in range(len(path))
        if at and path[at - 1] in NAMED
        for name in part_at(schema, path[:at])
        if name != path[at]
    ]
    schemas = [_as_root(schema, child, ()), _as_root(schema, child, DEFINITIONS)]
    schemas.append(_without_unused(remove_paths(schema, siblings)))
    yield from (form for form in (candidate.with_document(place, each) for each in schemas) if form.size < limit)


def _path_of(schema: Any, tokens: Sequence[str]) -> Path:
    """Return the path of the schema at these steps of a pointer; empty if there is none."""
    path: list[str | int] = []
    part = schema
    for token in tokens:
        step: str | int = int(token) if isinstance(part, list) and token.isdecimal() else token
        inside = step in part if isinstance(part, Mapping) else isinstance(step, int) and step < len(part)
        if not inside:
            return ()
        part = part[step]
        path.append(step)
    return tuple(path) if isinstance(part, Mapping) else ()


def _all_forms(candidate: Candidate) -> Iterator[Candidate]:
    if candidate.answer is not None:
        yield from _narrow_both(candidate)
    yield from simpler_offers(candidate)
    for place in candidate.schema_places:
        schema = candidate.document_at(place)
        if not isinstance(schema, Mapping):
            continue
        for edit in (_promote_subschemas, _merge_branches, _inline_references, _simplify_values):
            yield from map(partial(candidate.with_document, place), edit(schema))
    if candidate.answer is not None:
        yield from map(candidate.with_answer, _simpler_answers(candidate.answer.value))


def subschemas_of(part: Any) -> Iterator[Path]:
    """Yield the path of each schema directly below a schema."""
    for keyword, value in part.items():
        if keyword in NAMED and isinstance(value, Mapping):
            yield from ((keyword, name) for name, each in value.items() if isinstance(each, Mapping))
        elif isinstance(value, list):
            yield from ((keyword, at) for at, each in enumerate(value) if isinstance(each, Mapping))
        elif isinstance(value, Mapping):
            yield (keyword,)


def _schemas_in(schema: Any) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for path, kind, part in walk_parts(schema):
        if kind is PartKind.SCHEMA and isinstance(part, Mapping):
            yield path, part


def _promote_subschemas(schema: Any) -> Iterator[Any]:
    """Yield the schema with a subschema in place of its parent; the root keeps its dialect and definitions."""
    for path, part in _schemas_in(schema):
        for below in subschemas_of(part):
            child = part_at(part, below)
            if path:
                yield replace_part(schema, path, child)
            else:
                yield _as_root(schema, child, ())
                yield _as_root(schema, child, DEFINITIONS)


def _as_root(schema: Mapping[str, Any], child: Mapping[str, Any], keywords: Sequence[str]) -> dict[str, Any]:
    """Return a subschema as a root, with the dialect and these other keywords of the original root."""
    kept = {name: schema[name] for name in ("$schema", *keywords) if name in schema}
    return {**kept, **child}


def _merge_branches(schema: Any) -> Iterator[Any]:
    """Yield the schema with a branch merged into its parent, in place of all branches."""
    for path, part in _schemas_in(schema):
        for keyword, *at in subschemas_of(part):
            if keyword in _IN_PLACE:
                rest = {name: value for name, value in part.items() if name != keyword}
                yield replace_part(schema, path, {**rest, **part_at(part, (keyword, *at))})


def _inline_references(schema: Any) -> Iterator[Any]:
    """Yield the schema with a reference replaced by its target, and without definitions that are no longer used."""
    for path, part in _schemas_in(schema):
        reference = part.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            continue
        target = follow(schema, tokens_of(reference))
        if isinstance(target, Mapping):
            rest = {name: value for name, value in part.items() if name != "$ref"}
            yield _without_unused(replace_part(schema, path, {**target, **rest}))


def _without_unused(schema: Any) -> Any:
    used = [part["$ref"] for _, part in _schemas_in(schema) if isinstance(part.get("$ref"), str)]
    unused = [
        (keyword, name)
        for keyword in DEFINITIONS
        for name in (schema.get(keyword) or {})
        if not any(f"/{keyword}/{name}" in reference for reference in used)
    ]
    return remove_paths(schema, unused)


def _simplify_values(schema: Any) -> Iterator[Any]:
    for path, kind, part in walk_parts(schema):
        keyword = path[-1] if path else ""
        if keyword == "type" and isinstance(part, list) and len(part) == 1:
            yield replace_part(schema, path, part[0])
        elif kind is PartKind.NAMES and not part:
            yield remove_paths(schema, [path])
        elif keyword == "patternProperties" and kind is PartKind.NAMES:
            for name, each in part.items():
                others = {other: below for other, below in part.items() if other != name}
                yield from (replace_part(schema, path, {**others, text: each}) for text in _SIMPLE_PATTERNS)
        elif keyword == "pattern" and isinstance(part, str):
            yield from (replace_part(schema, path, text) for text in (*_SIMPLE_PATTERNS, *shorter_texts(part)))
        elif kind in (PartKind.SCALAR, PartKind.DATA):
            yield from (replace_part(schema, path, number) for number in smaller_numbers(part))


def smaller_numbers(value: Any) -> list[int]:
    """Return simpler numbers for a number, the simplest first; an empty list for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return []
    sign = -1 if value < 0 else 1
    size = abs(int(value))
    numbers = dict.fromkeys((0, sign, 2 * sign, sign * (size // 2), sign * (size - 1), sign * size))
    return [number for number in numbers if number != value]


def shorter_texts(text: str) -> list[str]:
    """Return the text without parts: halves, then quarters, down to single characters."""
    texts: dict[str, None] = {}
    width = len(text) // 2
    while width:
        texts |= dict.fromkeys(text[:at] + text[at + width :] for at in range(0, len(text), width))
        width //= 2
    return list(texts)


def _simpler_answers(value: Any) -> Iterator[Any]:
    for path, _, part in walk_parts(value, PartKind.DATA):
        if isinstance(part, dict | list):
            members = part.values() if isinstance(part, dict) else part
            yield from (replace_part(value, path, member) for member in members)
        elif isinstance(part, str):
            yield from (replace_part(value, path, text) for text in ("", *shorter_texts(part)[:32]))
        else:
            yield from (replace_part(value, path, number) for number in smaller_numbers(part))


def _narrow_both(candidate: Candidate) -> Iterator[Candidate]:
    """Yield candidates in which a subschema and the part of the answer that it describes take the place of both."""
    assert candidate.answer is not None
    for schema_path, answer_path in _described_parts(candidate.schema, candidate.answer.value):
        child = part_at(candidate.schema, schema_path)
        part = part_at(candidate.answer.value, answer_path)
        if isinstance(child, Mapping) and isinstance(candidate.schema, Mapping):
            yield candidate.with_schema(_as_root(candidate.schema, child, DEFINITIONS)).with_answer(part)
    for schema_path, answer_path in _described_parts(candidate.schema, candidate.answer.value):
        smaller = remove_paths(candidate.answer.value, [answer_path])
        yield candidate.with_schema(remove_paths(candidate.schema, [schema_path])).with_answer(smaller)
        if isinstance(schema_path[-1], str) and schema_path[-1] == "items":
            yield candidate.with_answer(smaller)


def _described_parts(schema: Any, answer: Any) -> Iterator[tuple[Path, Path]]:
    """Yield the path of each subschema in `properties` and `items` with the path of a part that it describes."""
    pending: list[tuple[Path, Any, Path, Any]] = [((), schema, (), answer)]
    for schema_path, part, answer_path, value in pending:
        if schema_path:
            yield schema_path, answer_path
        if not isinstance(part, Mapping):
            continue
        properties = part.get("properties")
        if isinstance(properties, Mapping) and isinstance(value, dict):
            named = [name for name in properties if name in value]
            pending += [
                ((*schema_path, "properties", name), properties[name], (*answer_path, name), value[name])
                for name in named
            ]
        items = part.get("items")
        if isinstance(items, Mapping) and isinstance(value, list):
            pending += [((*schema_path, "items"), items, (*answer_path, at), member) for at, member in enumerate(value)]


def removable_groups(candidate: Candidate) -> Iterator[tuple[DocumentPlace, int]]:
    """Yield the levels of removable parts, outer levels first: the place of their document, and their depth in it."""
    for place in candidate.places:
        deepest = max(map(len, removable_paths_at(candidate, place)), default=0)
        yield from ((place, depth) for depth in range(1, deepest + 1))


def removable_paths_at(candidate: Candidate, place: DocumentPlace) -> list[Path]:
    """Return the paths of the parts of a document that can be removed."""
    kind = PartKind.DATA if place.kind is DocumentKind.ANSWER else PartKind.SCHEMA
    return removable_paths(candidate.document_at(place), kind)
