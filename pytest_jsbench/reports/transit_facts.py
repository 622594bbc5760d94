"""Describe how the schemas that reached `jsbench.endpoint` compare with the declared ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_jsbench.core.text import format_count
from pytest_jsbench.schemas.schema_comparison import Relation

if TYPE_CHECKING:
    from pytest_jsbench.metrics.metrics import Metrics
    from pytest_jsbench.reports.blocks import Fact

#: Relations that a report mentions, from the one that harms most.
_MENTIONED = (Relation.DIFFERENT, Relation.WIDER, Relation.ABSENT, Relation.UNKNOWN)


def facts_of_transit(total: Metrics) -> Iterator[Fact]:
    """Yield the number of calls whose schema is not known to be as strict as declared; nothing if there are none."""
    counts = [f"{relation} {total.transit[relation]:,}" for relation in _MENTIONED if total.transit.get(relation)]
    if counts:
        calls = format_count(sum(total.transit.values()), "call")
        yield "schemas", f"{calls} compared with the declared schema: {', '.join(counts)}"
