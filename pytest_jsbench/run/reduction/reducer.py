"""
Find the smallest candidate that still fails, by hierarchical delta debugging and single edits.

Parts are removed level by level from the outside: first all parts of a level at once, then halves, then smaller shares
(G. Misherghi and Z. Su, HDD: Hierarchical Delta Debugging, ICSE 2006). Single edits follow, such as a subschema in
place of its parent. Both repeat until nothing smaller fails. No calls are made here: `FindFailing` decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from pytest_jsbench.run.reduction.candidate import Candidate
from pytest_jsbench.run.reduction.edits import removable_groups, simpler_forms
from pytest_jsbench.run.reduction.schema_parts import PartKind, Path, annotation_paths, removable_paths, remove_paths


class FindFailing(Protocol):
    """Decides which candidates still fail."""

    def __call__(self, candidates: Iterable[Candidate]) -> Candidate | None:
        """Return the first of the candidates that still fails in the same way; None if there is none."""


def reduce_candidate(candidate: Candidate, find_failing: FindFailing) -> Candidate:
    """Return the smallest candidate found: no removal and no edit of it fails any more."""
    candidate = _remove_parts(candidate, True, annotation_paths(candidate.schema), find_failing)
    while True:
        before = candidate
        candidate = _remove_by_level(candidate, find_failing)
        candidate = _apply_edits(candidate, find_failing)
        if candidate == before:
            return candidate


def _remove_by_level(candidate: Candidate, find_failing: FindFailing) -> Candidate:
    for in_schema, depth in removable_groups(candidate):
        paths = [path for path in _paths_in(candidate, in_schema) if len(path) == depth]
        candidate = _remove_parts(candidate, in_schema, paths, find_failing)
    return candidate


def _paths_in(candidate: Candidate, in_schema: bool) -> list[Path]:
    if in_schema:
        return removable_paths(candidate.schema)
    return [] if candidate.answer is None else removable_paths(candidate.answer.value, PartKind.DATA)


def _remove_parts(candidate: Candidate, in_schema: bool, paths: Sequence[Path], find_failing: FindFailing) -> Candidate:
    """Remove as many of the parts as possible: shares of half the size each time, down to single parts."""
    kept = list(paths)
    width = len(kept)
    current = candidate
    while width and kept:
        start = 0
        while start < len(kept):
            limit = current.size
            places = range(start, len(kept), width)
            # one at a time: a large schema has thousands of parts, and often the first share can be removed
            forms = (_without(candidate, in_schema, paths, kept[:at] + kept[at + width :]) for at in places)
            found = find_failing(form for form in forms if form.size < limit)
            if found is None:
                break
            shares = ((at, kept[:at] + kept[at + width :]) for at in places)
            start, kept = next(
                (at, share) for at, share in shares if _without(candidate, in_schema, paths, share) == found
            )
            current = found
        width //= 2
    return current


def _without(candidate: Candidate, in_schema: bool, paths: Sequence[Path], kept: Sequence[Path]) -> Candidate:
    """Return the candidate with only the kept ones of these parts."""
    removed = frozenset(paths) - frozenset(kept)
    if in_schema:
        return candidate.with_schema(remove_paths(candidate.schema, removed))
    assert candidate.answer is not None
    return candidate.with_answer(remove_paths(candidate.answer.value, removed))


def _apply_edits(candidate: Candidate, find_failing: FindFailing) -> Candidate:
    while (found := find_failing(simpler_forms(candidate))) is not None:
        candidate = found
    return candidate
