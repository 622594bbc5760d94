"""The whole adaptation of one schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_jsbench.adaptation.changes import Adapted, Blocked, Contradiction, Inexpressible, Ledger
from pytest_jsbench.adaptation.document import SchemaDocument
from pytest_jsbench.adaptation.limits import Endings, excess, referred
from pytest_jsbench.adaptation.narrowing import Narrowing

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.changes import Mode
    from pytest_jsbench.adaptation.constraints import Node
    from pytest_jsbench.adaptation.document import Path
    from pytest_jsbench.adaptation.subsets import Subset
    from pytest_jsbench.core.cases import Schema


def adapt(schema: Schema, subset: Subset, mode: Mode) -> Adapted | Inexpressible:
    """The schema in the words of the subset, with what that changed, or the first thing it has no words for."""
    try:
        return _adapt(schema, subset, mode)
    except Blocked as blocked:
        return blocked.found
    except Contradiction:
        return Inexpressible(keyword="", path="", message="nothing that the provider could be asked for conforms")


def _adapt(schema: Schema, subset: Subset, mode: Mode) -> Adapted:
    adapted, ledger = _finite(schema, subset, mode)
    exceeded = list(excess(adapted, subset))
    if any(keyword == "required" for keyword, _ in exceeded) and not subset.all_required:
        # too many are optional: require them all
        adapted, ledger = _finite(schema, replace(subset, all_required=True), mode)
        exceeded = list(excess(adapted, subset))
    for keyword, message in exceeded:
        ledger.refuse(keyword, (), message)
    if not ledger.changes() and adapted != schema:
        ledger.note("rewritten", "", (), "the same in other words")
    return Adapted(schema=adapted, changes=ledger.changes())


def _finite(schema: Schema, subset: Subset, mode: Mode) -> tuple[Node, Ledger]:
    """The adapted schema without the properties that, once required, would go on for ever."""
    omitted: frozenset[Path] = frozenset()
    while True:
        ledger = Ledger(mode)
        narrowing = Narrowing(SchemaDocument(schema), subset, ledger, omitted)
        root = narrowing.root()
        endings = Endings(root, narrowing.definitions)
        endless = {path for node, path in narrowing.context.made_required if not endings.ends(node)}
        if endless <= omitted:
            break
        omitted |= endless
    if not endings.root_ends:
        ledger.refuse("$ref", (), "every answer would have to go on for ever")
    head = {}
    if isinstance(schema, Mapping) and "$schema" in schema:
        if "$schema" in subset.keywords:
            head = {"$schema": schema["$schema"]}
        else:
            ledger.note("dropped_annotation", "$schema", (), "says nothing about validity")
    definitions = referred(root, narrowing.definitions)
    tail = {"$defs": definitions} if definitions else {}
    return {**head, **root, **tail}, ledger
