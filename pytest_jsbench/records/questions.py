"""Compare the questions of runs and their variants; runs with the same questions can share answers."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_jsbench.core.generations import SAMPLING
from pytest_jsbench.records.metadata import RunMetadata

#: Fields that must be equal in two runs for their answers to be interchangeable.
_IDENTITY = ("engine", "model", "response_format", "provider", "adapt", "rewrite")
#: Details of an engine that do not affect answers: versions of packages, and the number of parallel calls.
_VERSION = re.compile(r"v?\d+(\.\w+)*|unknown")
_CAPACITY = frozenset({"slots"})
#: Fields for which the run's metadata contain the number of values if variants differ.
_COUNTED = {
    "engine": "engines",
    "model": "models",
    "response_format": "response formats",
    "prompt": "prompts",
    "adapt": "adaptations",
}
#: Fields that are None in the run's metadata if variants differ.
_NONE_IF_DIFFERENT = ("streaming", "provider", "prompt_digest", "shots", "concurrency")
#: Fields that are empty in the run's metadata if variants differ.
_EMPTY_IF_DIFFERENT = ("repairs", "rewrite")
#: Mappings that are reduced to the entries that all variants share.
_PARTS = ("details", "params", "asked_params", "options")


def difference(theirs: RunMetadata, ours: RunMetadata) -> str:
    """Return the first difference between the questions of two variants as a phrase; empty if there is none."""
    for name in _IDENTITY:
        then = getattr(theirs, name)
        now = getattr(ours, name)
        if then != now:
            return f"{name} {json.dumps(then)}, this run {json.dumps(now)}"
    for name in SAMPLING:
        then = _requested_params(theirs).get(name)
        now = _requested_params(ours).get(name)
        if then != now:
            return f"{name} {json.dumps(then)}, this run {json.dumps(now)}"
    then = engine_settings(theirs)
    now = engine_settings(ours)
    if then != now:
        return f"the engine options {json.dumps(then)}, this run {json.dumps(now)}"
    return ""


def _requested_params(metadata: RunMetadata) -> Mapping[str, Any]:
    return metadata.params if metadata.asked_params is None else metadata.asked_params


def engine_settings(metadata: RunMetadata) -> dict[str, Any]:
    """Return the details of the engine that affect answers."""
    return {
        name: value
        for name, value in metadata.details.items()
        if name not in _CAPACITY and not (isinstance(value, str) and _VERSION.fullmatch(value))
    }


def combine_variants(variants: Sequence[RunMetadata]) -> RunMetadata:
    """Return the metadata of the run with these variants; shared fields are taken from the first variant."""
    shared: dict[str, Any] = {}
    for name, noun in _COUNTED.items():
        values = dict.fromkeys(getattr(variant, name) for variant in variants)
        shared[name] = next(iter(values)) if len(values) == 1 else f"{len(values)} {noun}"
    for name in _NONE_IF_DIFFERENT:
        values = dict.fromkeys(getattr(variant, name) for variant in variants)
        shared[name] = next(iter(values)) if len(values) == 1 else None
    for name in _PARTS:
        shared[name] = common_entries([getattr(variant, name) for variant in variants])
    for name in _EMPTY_IF_DIFFERENT:
        values = dict.fromkeys(getattr(variant, name) for variant in variants)
        shared[name] = next(iter(values)) if len(values) == 1 else ""
    return replace(variants[0], **shared, variant="", plan=None, variants=tuple(variants))


def common_entries(mappings: Sequence[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """Return the entries that all mappings have in common; None if one of the mappings is None."""
    given = [mapping for mapping in mappings if mapping is not None]
    if len(given) < len(mappings):
        return None
    first, *others = given
    return {
        name: value for name, value in first.items() if all(name in other and other[name] == value for other in others)
    }


def each(metadata: RunMetadata) -> tuple[RunMetadata, ...]:
    """
    Return the metadata of each variant, as if it were a separate run; for a run without variants, only its own
    metadata.
    """
    return tuple(metadata.of_variant(variant.variant) for variant in metadata.variants) or (metadata,)


def match(theirs: RunMetadata, ours: RunMetadata) -> dict[str, str]:
    """
    Map each variant of another run to our variant with the same questions; a run without variants counts as one, named
    "".

    A variant is matched at most once, with the most similar variant. If several are equally similar, the variant with
    the same name is chosen. If the names differ too, no variant is chosen, because the records do not contain the
    difference, such as a server's address.
    """
    by_likeness: dict[tuple[bool, bool, bool], list[tuple[str, str]]] = {}
    for their, our in itertools.product(each(theirs), each(ours)):
        if difference(their, our):
            continue
        prompts = [(variant.prompt, variant.shots, variant.prompt_digest) for variant in (their, our)]
        # the most important criterion first
        likeness = (prompts[0] == prompts[1], their.variant == our.variant, their.concurrency == our.concurrency)
        by_likeness.setdefault(likeness, []).append((their.variant, our.variant))
    matched: dict[str, str] = {}
    seen_theirs: set[str] = set()
    seen_ours: set[str] = set()
    for likeness in sorted(by_likeness, reverse=True):
        free = [pair for pair in by_likeness[likeness] if pair[0] not in seen_theirs and pair[1] not in seen_ours]
        same_prompt, same_name, same_concurrency = likeness
        similar = free
        if not same_name:
            similar = [*by_likeness.get((same_prompt, True, same_concurrency), ()), *by_likeness[likeness]]
        count_theirs = Counter(name for name, _ in similar)
        count_ours = Counter(name for _, name in similar)
        matched |= {their: our for their, our in free if count_theirs[their] == count_ours[our] == 1}
        seen_theirs.update(name for name, _ in free)
        seen_ours.update(name for _, name in free)
    return matched


def find_unmatched_variants(theirs: RunMetadata, ours: RunMetadata) -> dict[str, str]:
    """Map each of our variants without a match in the other run to a phrase that describes the difference."""
    matched = frozenset(match(theirs, ours).values())
    return {
        variant.variant: _describe_mismatch(theirs, variant) for variant in each(ours) if variant.variant not in matched
    }


def _describe_mismatch(theirs: RunMetadata, ours: RunMetadata) -> str:
    of_theirs = {variant.variant: variant for variant in each(theirs)}
    then = of_theirs.get(ours.variant, next(iter(of_theirs.values())) if len(of_theirs) == 1 else None)
    if then is not None and (otherwise := difference(then, ours)):
        return f"used {otherwise}"
    if all(difference(variant, ours) for variant in of_theirs.values()):
        return f"has no variant with the same settings: {', '.join(of_theirs)}"
    return "has ambiguous answers, because several variants have the same settings"
