"""Compare a declared schema with what became of it, in a child process with limits on time and memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.child_process import ChildNotStarted
from pytest_jsbench.core.guarded_calls import BoundExceeded, CallBroke, guarded_calls
from pytest_jsbench.core.json_values import from_json
from pytest_jsbench.schemas.keyword_differences import SchemaDifference

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Schema

#: Time limit for one comparison in seconds; schemas of applications take some milliseconds.
SECONDS = 5.0


class Relation(StrEnum):
    """Relation of the values that a schema accepts to the values that the declared schema accepts."""

    #: Both accept the same values.
    EQUAL = "equal"
    #: It accepts only values of the declared schema, but not all of them.
    NARROWER = "narrower"
    #: It accepts all values of the declared schema, and others.
    WIDER = "wider"
    #: It accepts other values, and rejects some values of the declared schema.
    DIFFERENT = "different"
    #: No proof and no value shows the relation.
    UNKNOWN = "unknown"
    #: No schema arrived.
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaComparison:
    """Relation of a schema to the declared schema, and the keywords that differ."""

    relation: Relation
    #: Keywords that were lost, added or changed; the first hundred.
    differences: tuple[SchemaDifference, ...] = ()
    #: JSON text of a value that only the schema that arrived accepts; empty if none was found or it is long.
    accepted: str = ""
    #: JSON text of a value that only the declared schema accepts; empty if none was found or it is long.
    rejected: str = ""
    #: Reason why the relation is unknown; empty if it is known.
    reason: str = ""


def compare_schemas(declared: Schema, arrived: Schema, *, seconds: float = SECONDS) -> SchemaComparison:
    """
    Compare the values that two schemas accept; the relation is unknown if that exceeds a limit.

    Formats are compared like other keywords, and annotations only as differences.
    """
    try:
        found = _call_child("differences_to_json", declared, arrived, seconds)
        differences: tuple[SchemaDifference, ...] = from_json(tuple[SchemaDifference, ...], found)
    except _NotCompared as error:
        return SchemaComparison(relation=Relation.UNKNOWN, reason=str(error))
    try:
        values = _call_child("relation_to_json", declared, arrived, seconds)
    except _NotCompared as error:
        return SchemaComparison(relation=Relation.UNKNOWN, differences=differences, reason=str(error))
    comparison: SchemaComparison = from_json(SchemaComparison, values)
    return replace(comparison, differences=differences)


class _NotCompared(Exception):
    """Raised if the comparison exceeds a limit or fails; the message is the reason."""


def _call_child(function: str, declared: Schema, arrived: Schema, seconds: float) -> Any:
    try:
        return guarded_calls().call(
            f"pytest_jsbench.schemas.containment:{function}", declared, arrived, seconds=seconds
        )
    except BoundExceeded as exceeded:
        raise _NotCompared(f"the schemas cannot be compared {exceeded}") from None
    except (CallBroke, ChildNotStarted) as error:
        raise _NotCompared(f"the schemas cannot be compared: {error}") from None
