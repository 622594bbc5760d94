"""Compares the order of an answer's properties with that in which its schema names them; no schema asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_jsbench.schemas.references import CertainReferences, follow

if TYPE_CHECKING:
    from pytest_jsbench.schemas.keywords import Tokens

#: pairs of a schema and a value that are looked at; of an answer with more nothing is said
_MOST_PLACES = 5_000


def order_kept(schema: Any, instance: object) -> bool | None:
    """
    Whether each object of a conforming answer has its named properties in the schema's order.

    None where no object has two of them. Alternatives are not looked into: which one an object conforms to, and which
    order it is then to have, may be no single one.
    """
    references = CertainReferences(schema)
    kept: bool | None = None
    pending: list[tuple[Tokens, object]] = [((), instance)]
    seen: set[tuple[Tokens, int]] = set()
    while pending:
        path, value = pending.pop()
        place = (path, id(value))
        if not isinstance(value, dict | list) or place in seen:
            continue
        subschema = follow(schema, path)
        if not isinstance(subschema, Mapping):
            continue
        seen.add(place)
        if len(seen) > _MOST_PLACES:
            return None
        if isinstance(value, dict) and isinstance(properties := subschema.get("properties"), Mapping):
            named = [name for name in value if name in properties]
            if len(named) > 1:
                kept = kept is not False and named == [name for name in properties if name in value]
        pending += _below(references, path, subschema, value)
    return kept


def _below(
    references: CertainReferences, path: Tokens, schema: Mapping[str, Any], value: dict[str, Any] | list[Any]
) -> Iterator[tuple[Tokens, object]]:
    """The subschemas that certainly apply to the value, or to a part of it."""
    if (target := references.find(path, schema.get("$ref"))) is not None:
        yield target, value
    if isinstance(branches := schema.get("allOf"), list):
        yield from (((*path, "allOf", str(number)), value) for number in range(len(branches)))
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        yield from (((*path, "items"), item) for item in value)
    elif isinstance(value, dict) and isinstance(properties := schema.get("properties"), Mapping):
        yield from (((*path, "properties", name), member) for name, member in value.items() if name in properties)
