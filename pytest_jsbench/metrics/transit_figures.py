"""Define the figures of the schemas that reached an endpoint, which no rate includes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pytest_jsbench.metrics.figure import COUNT, Better, Display, FigureSet, metric
from pytest_jsbench.schemas.schema_comparison import Relation

#: Relations with their display: a server may use the freedom that a looser schema gives.
_RELATIONS: dict[str, Display] = {
    relation: {"better_when": Better.LOWER} if relation not in {Relation.EQUAL, Relation.NARROWER} else {}
    for relation in Relation
}


class TransitFigures(FigureSet):
    """Figures of the requests of applications."""

    comes_last = True

    @metric(COUNT, members=_RELATIONS, counted_open=("missing",))
    def transit(self) -> Mapping[Relation, int]:
        """
        Number of calls of an application, by the worst relation of a schema that reached the endpoint to the declared
        schema; empty if no schema was compared. Calls with a fault are not included.
        """
        relations = Counter(attempt.transit for attempt in self._groups.attempts if attempt.transit is not None)
        return {relation: relations[relation] for relation in Relation} if relations else {}
