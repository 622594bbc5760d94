"""Define how the schemas that reached an endpoint compare with the declared ones; never part of a verdict."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Struct

from pytest_jsbench.core.text import list_names, printable
from pytest_jsbench.schemas.keyword_differences import DifferenceKind, SchemaDifference
from pytest_jsbench.schemas.keywords import ANNOTATIONS
from pytest_jsbench.schemas.references import pointer_of
from pytest_jsbench.schemas.schema_comparison import Relation

#: Relations, from the one that harms most to the one that harms least.
_FROM_WORST = (
    Relation.DIFFERENT,
    Relation.WIDER,
    Relation.ABSENT,
    Relation.UNKNOWN,
    Relation.NARROWER,
    Relation.EQUAL,
)
#: Relations that mean that a server may answer with values that the declared schema rejects.
_LOOSER = frozenset({Relation.DIFFERENT, Relation.WIDER, Relation.ABSENT})
#: Maximum number of differences that a summary names.
_MOST_NAMED = 3
_EXPLAINED = {
    Relation.EQUAL: "accepts the same values as the declared schema",
    Relation.NARROWER: "accepts fewer values than the declared schema",
    Relation.WIDER: "accepts more values than the declared schema",
    Relation.DIFFERENT: "accepts other values than the declared schema",
    Relation.UNKNOWN: "could not be compared with the declared schema",
}


class SchemaInTransit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schema of a request that reached an endpoint, compared with the declared schema."""

    #: Name of the tool whose parameters the schema describes; empty for the schema of the answer.
    tool: str = ""
    #: JSON pointer to the schema in the request; empty if no schema arrived.
    place: str = ""
    #: Relation of the schema that arrived to the declared schema.
    relation: Relation
    #: Value of `strict` in the request; None if the request has none there.
    strict: bool | None = None
    #: Keywords that were lost, added or changed; the first hundred.
    differences: tuple[SchemaDifference, ...] = ()
    #: JSON text of a value that only the schema that arrived accepts; empty if none was found or it is long.
    accepted: str = ""
    #: JSON text of a value that only the declared schema accepts; empty if none was found or it is long.
    rejected: str = ""
    #: Reason why the relation is unknown; empty if it is known.
    reason: str = ""

    def places_of(self, kind: DifferenceKind) -> tuple[str, ...]:
        """Return the places of the differences of one kind."""
        return tuple(each.place for each in self.differences if each.kind == kind)

    @property
    def summary(self) -> str:
        """How the schemas differ, in one line."""
        name = f"the schema of tool {printable(self.tool, 60)}" if self.tool else "the schema"
        if self.relation is Relation.ABSENT:
            return f"{name} did not reach the endpoint"
        text = f"{name} that reached the endpoint {_EXPLAINED[self.relation]}"
        if self.relation in _LOOSER and self.accepted:
            text += f", such as {printable(self.accepted, 120)}"
        if self.reason:
            text += f": {printable(self.reason)}"
        named = [f"{each.kind} {printable(each.place, 80, cut='middle')}" for each in self._telling_differences()]
        return f"{text} ({list_names(named, _MOST_NAMED)})" if named else text

    def _telling_differences(self) -> list[SchemaDifference]:
        """Return the differences; those that may make the schema looser come first."""
        kinds = ("lost", "changed", "added")
        return sorted(self.differences, key=lambda each: (each.keyword in ANNOTATIONS, kinds.index(each.kind)))


class Transit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The schemas of a request that reached an endpoint, compared with the declared ones."""

    #: Each declared schema that the request should contain.
    schemas: Annotated[tuple[SchemaInTransit, ...], msgspec.Meta(min_length=1)]

    @property
    def relation(self) -> Relation:
        """The worst relation of a schema: different, wider, absent, unknown, narrower, equal."""
        return min((each.relation for each in self.schemas), key=_FROM_WORST.index)

    @property
    def strict(self) -> bool | None:
        """Whether the request sets `strict` for all schemas; None if it sets none."""
        given = {each.strict for each in self.schemas}
        return None if given == {None} else given == {True}

    @property
    def lost(self) -> tuple[str, ...]:
        """Places of the keywords and properties that were lost, as JSON pointers; those of tools begin with /tools."""
        return self._places_of("lost")

    @property
    def added(self) -> tuple[str, ...]:
        """Places of the keywords and properties that were added."""
        return self._places_of("added")

    @property
    def changed(self) -> tuple[str, ...]:
        """Places of the keywords whose value was changed."""
        return self._places_of("changed")

    def _places_of(self, kind: DifferenceKind) -> tuple[str, ...]:
        places = []
        for each in self.schemas:
            before = pointer_of(("tools", each.tool)) if each.tool else ""
            places += [f"{before}{place}" for place in each.places_of(kind)]
        return tuple(places)

    @property
    def is_looser(self) -> bool:
        """Whether a server may answer with values that a declared schema rejects."""
        return self.relation in _LOOSER

    @property
    def summary(self) -> str:
        """How the worst schema differs, in one line."""
        return min(self.schemas, key=lambda each: _FROM_WORST.index(each.relation)).summary
