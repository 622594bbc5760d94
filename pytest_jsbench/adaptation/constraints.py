"""What the subschemas of one place say together, keyword by keyword."""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pytest_jsbench.adaptation.changes import Contradiction
from pytest_jsbench.adaptation.outlines import KINDS, canonical
from pytest_jsbench.schemas.keywords import ANNOTATIONS, BY_KIND, KEYWORDS

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.changes import Ledger
    from pytest_jsbench.adaptation.document import Path, SchemaDocument, SchemaPart
    from pytest_jsbench.adaptation.subsets import Subset

Node = dict[str, Any]


class Adapt(Protocol):
    """Says in the subset's words what all of the parts ask for."""

    def __call__(self, parts: tuple[SchemaPart, ...], path: Path) -> Node:
        """The adapted schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the whole adaptation has in common."""

    subset: Subset
    document: SchemaDocument
    ledger: Ledger
    place: Adapt
    #: properties to be left out, by where they stand
    omitted: frozenset[Path]
    #: properties that were optional and had to be required: the adapted schema, and where it stands
    made_required: list[tuple[Node, Path]] = field(default_factory=list)


class Constraints:
    """The nodes of a conjunction."""

    def __init__(self, nodes: list[SchemaPart], path: Path) -> None:
        self.nodes = nodes
        #: the place in the original that changes are reported at
        self.path = nodes[0].path if nodes else path

    def said(self, keyword: str) -> list[tuple[Any, Path]]:
        """Each value of the keyword, with the node that says it."""
        return [(node.schema[keyword], node.path) for node in self.nodes if keyword in node.schema]

    def where(self, keyword: str) -> Path:
        """The node that says the keyword, the first node if none does."""
        return next((path for _, path in self.said(keyword)), self.path)

    def numbers(self, keyword: str, ledger: Ledger) -> list[int | float]:
        """The keyword's values, which have to be numbers."""
        values = self.said(keyword)
        for value, path in values:
            if isinstance(value, bool) or not isinstance(value, int | float):
                ledger.refuse(keyword, path, "not a number")
            if not abs(value) <= sys.float_info.max:  # a whole number of JSON has no bound
                ledger.refuse(keyword, path, "not a finite number of double precision")
        return [value for value, _ in values]

    def kinds(self, ledger: Ledger) -> tuple[str, ...] | None:
        """The types that all nodes allow, in the order of the first; None for any."""
        kinds: tuple[str, ...] | None = None
        for declared, path in self.said("type"):
            listed = [declared] if isinstance(declared, str) else declared
            if not isinstance(listed, list) or not listed or not all(kind in KINDS for kind in listed):
                ledger.refuse("type", path, "not a type of JSON Schema")
            kinds = tuple(dict.fromkeys(listed)) if kinds is None else _meet(kinds, listed)
        if kinds is not None and "number" in kinds:
            kinds = tuple(kind for kind in kinds if kind != "integer")
        if kinds == ():
            raise Contradiction
        return kinds

    def spoken_kinds(self) -> tuple[str, ...]:
        """The types whose keywords occur."""
        keywords = {keyword for node in self.nodes for keyword in node.schema}
        return tuple(kind for kind in KINDS if keywords & BY_KIND.get(kind, frozenset()))

    def values(self, ledger: Ledger) -> list[Any] | None:
        """The values that every `enum` and `const` names; None where there is none of them."""
        lists: list[list[Any]] = [[value] for value, _ in self.said("const")]
        for listed, path in self.said("enum"):
            if not isinstance(listed, list):
                ledger.refuse("enum", path, "not a list")
            lists.append(listed)
        if not lists:
            return None
        common = set.intersection(*({canonical(value) for value in one} for one in lists))
        return [value for value in lists[0] if canonical(value) in common]

    def annotations(self, subset: Subset, ledger: Ledger) -> Node:
        """The remarks that the provider takes; the others are noted as dropped."""
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
