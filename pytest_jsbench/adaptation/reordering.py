"""Put the properties, required names and enum values of a schema in another order, which no instance depends on."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeVar

from pytest_jsbench.adaptation.adapter import Change
from pytest_jsbench.adaptation.document import canonical
from pytest_jsbench.adaptation.rewriting import NotRewritten, Rewritten
from pytest_jsbench.core.json_values import to_json
from pytest_jsbench.schemas.keywords import rebuild

T = TypeVar("T")


def reorder_to_json(schema: Any, seed: int) -> Any:
    """Return the result of `reorder` as JSON values."""
    return to_json(reorder(schema, seed))


def reorder(schema: Any, seed: int) -> Rewritten | NotRewritten:
    """Return the schema in the order that the seed selects; each list has another order than in the given schema."""
    counts: Counter[str] = Counter()

    def change(part: dict[str, Any]) -> dict[str, Any]:
        properties = part.get("properties")
        if isinstance(properties, dict) and len(properties) > 1:
            counts["properties"] += 1
            part["properties"] = {name: properties[name] for name in _shuffle(list(properties), seed)}
        for keyword in ("required", "enum"):
            values = part.get(keyword)
            if isinstance(values, list) and len(set(map(canonical, values))) > 1:
                counts[keyword] += 1
                part[keyword] = _shuffle(values, seed)
        return part

    rewritten = rebuild(schema, change)
    if not counts:
        return NotRewritten(message="the schema has no two properties, required names or enum values to reorder")
    parts = [f"{keyword} {count}" for keyword, count in counts.items()]
    note = f"another order, seed {seed} ({', '.join(parts)})"
    return Rewritten(schema=rewritten, change=Change(kind="reordered", keyword=next(iter(counts)), path="", note=note))


def _shuffle(values: Sequence[T], seed: int) -> list[T]:
    """Return the values in an order that depends only on the seed and the values, and differs from the given order."""
    ordered = sorted(values, key=lambda value: hashlib.sha256(f"{seed}:{canonical(value)}".encode()).digest())
    # as JSON, since 1 == True in Python
    is_given = list(map(canonical, ordered)) == list(map(canonical, values))
    return [*ordered[1:], ordered[0]] if is_given else ordered
