"""The constraints of one place: what all its subschemas state together, keyword by keyword."""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pytest_jsbench.adaptation.changes import Contradiction
from pytest_jsbench.adaptation.document import KINDS, SchemaPart, canonical
from pytest_jsbench.schemas.keywords import ANNOTATIONS, BY_KIND, KEYWORDS

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.changes import Ledger
    from pytest_jsbench.adaptation.document import Path, SchemaDocument
    from pytest_jsbench.adaptation.subsets import Subset

Node = dict[str, Any]


class Adapt(Protocol):
    """Adapts the schema that all of the parts make together."""

    def __call__(self, parts: tuple[SchemaPart, ...], path: Path) -> Node:
        """The adapted schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The values that every step of one adaptation uses."""

    subset: Subset
    document: SchemaDocument
    ledger: Ledger
    place: Adapt
    #: the places of the properties that are left out
    omitted: frozenset[Path]
    #: optional properties that the subset requires: the adapted schema and its place
    made_required: list[tuple[Node, Path]] = field(default_factory=list)


class Constraints:
    """Subschemas without references or choices that all apply to one instance."""

    def __init__(self, nodes: list[SchemaPart], path: Path) -> None:
        self.nodes = nodes
        #: the place in the original at which changes are reported
        self.path = nodes[0].path if nodes else path

    def stated(self, keyword: str) -> list[tuple[Any, Path]]:
        """Each value of the keyword, with the place of its node."""
        return [(node.schema[keyword], node.path) for node in self.nodes if keyword in node.schema]

    def where(self, keyword: str) -> Path:
        """The place of the first node that has the keyword; of the first node where none has it."""
        return next((path for _, path in self.stated(keyword)), self.path)

    def numbers(self, keyword: str, ledger: Ledger) -> list[int | float]:
        """The values of the keyword, each a finite number; anything else ends the adaptation."""
        values = self.stated(keyword)
        for value, path in values:
            if isinstance(value, bool) or not isinstance(value, int | float):
                ledger.refuse(keyword, path, "not a number")
            if not abs(value) <= sys.float_info.max:  # a whole number of JSON has no bound
                ledger.refuse(keyword, path, "not a finite number of double precision")
        return [value for value, _ in values]

    def kinds(self, ledger: Ledger) -> tuple[str, ...] | None:
        """The types that all nodes allow, in the order of the first; None for any."""
        kinds: tuple[str, ...] | None = None
        for declared, path in self.stated("type"):
            listed = [declared] if isinstance(declared, str) else declared
            if not isinstance(listed, list) or not listed or not all(kind in KINDS for kind in listed):
                ledger.refuse("type", path, "not a type of JSON Schema")
            kinds = tuple(dict.fromkeys(listed)) if kinds is None else _meet(kinds, listed)
        if kinds is not None and "number" in kinds:
            kinds = tuple(kind for kind in kinds if kind != "integer")
        if kinds == ():
            raise Contradiction
        return kinds

    def constrained_kinds(self) -> tuple[str, ...]:
        """The types that have a keyword of their own here."""
        keywords = {keyword for node in self.nodes for keyword in node.schema}
        return tuple(kind for kind in KINDS if keywords & BY_KIND.get(kind, frozenset()))

    def values(self, ledger: Ledger) -> list[Any] | None:
        """The values in every `enum` and `const`; None where there is neither."""
        lists: list[list[Any]] = [[value] for value, _ in self.stated("const")]
        for listed, path in self.stated("enum"):
            if not isinstance(listed, list):
                ledger.refuse("enum", path, "not a list")
            lists.append(listed)
        if not lists:
            return None
        common = set.intersection(*({canonical(value) for value in one} for one in lists))
        return [value for value in lists[0] if canonical(value) in common]

    def annotations(self, subset: Subset, ledger: Ledger) -> Node:
        """The annotations that the provider takes; the others are noted as dropped."""
        kept: Node = {}
        for node in self.nodes:
            for keyword, value in node.schema.items():
                if keyword in KEYWORDS or keyword in ("$defs", "definitions", "$schema"):
                    continue
                if keyword in subset.keywords and keyword in ANNOTATIONS and keyword not in kept:
                    kept[keyword] = copy.deepcopy(value)
                else:
                    ledger.note("dropped_annotation", keyword, node.path, "says nothing about validity")
        return kept


def _meet(one: tuple[str, ...], other: list[str]) -> tuple[str, ...]:
    met = [kind for kind in one if kind in other or (kind == "integer" and "number" in other)]
    if "number" in one and "integer" in other and "number" not in other:
        met.append("integer")
    return tuple(dict.fromkeys(met))
