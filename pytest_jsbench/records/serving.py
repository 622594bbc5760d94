"""Collect what the servers said about themselves in the answers of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_jsbench.records.facts import AttemptFacts
    from pytest_jsbench.records.metadata import RunMetadata

#: Maximum number of different names of one kind; a server may send another fingerprint with each answer.
_MOST_NAMES = 20


def add_served(metadata: RunMetadata, outcomes: Iterable[AttemptFacts]) -> RunMetadata:
    """Return the metadata with the models, fingerprints and providers that served the run, and each of its variants."""
    names: dict[str, dict[str, Counter[str]]] = {}
    for outcome in outcomes:
        if outcome.served_by is None or outcome.remembered:
            continue
        for variant in {"", outcome.variant}:
            counts = names.setdefault(variant, {})
            for kind in outcome.served_by.__struct_fields__:
                if name := getattr(outcome.served_by, kind):
                    counts.setdefault(kind, Counter())[name] += 1
    served = {
        variant: {kind: [name for name, _ in _rank(counter)] for kind, counter in counts.items()}
        for variant, counts in names.items()
    }
    variants = tuple(replace(variant, served=served.get(variant.variant, {})) for variant in metadata.variants)
    return replace(metadata, served=served.get(metadata.variant, {}), variants=variants)


def _rank(counter: Counter[str]) -> list[tuple[str, int]]:
    """Return the names with their counts, the most frequent first; the order does not depend on that of the answers."""
    return sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:_MOST_NAMES]
