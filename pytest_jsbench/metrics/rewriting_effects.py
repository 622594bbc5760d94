"""Compare the variants of a run in pairs: rewritten schemas only with the original schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_jsbench.metrics.comparison import Comparison, Pair, RunOutcomes, pairs
from pytest_jsbench.metrics.difference_sentences import difference_sentence

#: For each kind of rewriting, the condition in a sentence.
_CONDITIONS = {
    "order": "properties, required names and enum values have another order",
    "inline": "$ref is inlined",
}


def pairs_of_variants(variants: Sequence[RunOutcomes], rewritings: Mapping[str, str]) -> list[Pair]:
    """
    Compare the variants in pairs, with p-values adjusted for the number of all pairs.

    `rewritings` contains the rewriting of each variant by name, empty for original schemas. A variant with rewritten
    schemas follows the variant with the original schemas, with which alone it is compared.
    """
    originals: list[RunOutcomes] = []
    with_rewritten: list[Sequence[RunOutcomes]] = []
    for variant in variants:
        if not rewritings[variant[0]]:
            originals.append(variant)
        elif originals:
            with_rewritten.append((originals[-1], variant))
    compared = pairs(originals, *with_rewritten)
    return [replace(pair, rewriting=rewritings[pair.second]) for pair in compared]


def effect_sentence(comparison: Comparison, rewriting: str) -> str:
    """Describe the effect of a rewriting on the pass rate, in percentage points, with the test of the difference."""
    kind, _, seed = rewriting.partition(":")
    condition = _CONDITIONS.get(kind, kind) + (f" (seed {seed})" if seed else "")
    value = comparison.difference.value
    effect = f"unknown effect if {condition}"
    if value is not None:
        points = f"{100 * abs(value):.1f} points"
        verb = "gains" if value > 0 else "loses"
        effect = f"{verb} {points} if {condition}" if value else f"neither gains nor loses if {condition}"
    return f"{effect}: {difference_sentence(comparison.difference)}"
