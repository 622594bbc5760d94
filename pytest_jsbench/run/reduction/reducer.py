"""
Find the smallest candidate that still fails, by hierarchical delta debugging and single edits.

If the case offers tools, as many as possible are removed first, and then messages. In each schema, parts are removed
level by level from the outside: first all parts of a level at once, then halves, then smaller shares (G. Misherghi and
Z. Su, HDD: Hierarchical Delta Debugging, ICSE 2006). Single edits follow, such as a subschema in place of its parent.
All steps repeat until nothing smaller fails. No calls are made here: `FindFailing` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from pytest_jsbench.run.reduction.candidate import Candidate, DocumentPlace
from pytest_jsbench.run.reduction.edits import removable_groups, removable_paths_at, simpler_forms
from pytest_jsbench.run.reduction.schema_parts import Path, annotation_paths, remove_paths
from pytest_jsbench.run.reduction.tool_parts import with_tools, without_descriptions

T = TypeVar("T")


class FindFailing(Protocol):
    """Decides which candidates still fail."""

    def __call__(self, candidates: Iterable[Candidate]) -> Candidate | None:
        """Return the first of the candidates that still fails in the same way; None if there is none."""


def reduce_candidate(candidate: Candidate, find_failing: FindFailing) -> Candidate:
    """Return the smallest candidate found: no removal and no edit of it fails any more."""
    candidate = _remove_tools(candidate, find_failing)
    candidate = _remove_annotations(candidate, find_failing)
    while True:
        before = candidate
        candidate = _remove_tools(candidate, find_failing)
        candidate = _remove_messages(candidate, find_failing)
        candidate = _remove_by_level(candidate, find_failing)
        candidate = _apply_edits(candidate, find_failing)
        if candidate == before:
            return candidate


def _remove_tools(candidate: Candidate, find_failing: FindFailing) -> Candidate:
    if candidate.offer is None:
        return candidate
    return _remove_most(candidate, candidate.offer.names, partial(with_tools, candidate), find_failing)


def _remove_messages(candidate: Candidate, find_failing: FindFailing) -> Candidate:
    """Remove messages of the case; the last one, which requests the answer, is kept."""
    if not candidate.messages:
        return candidate
    *others, last = candidate.messages

    def with_kept(kept: Sequence[int]) -> Candidate:
        return replace(candidate, messages=(*kept, last))

    return _remove_most(candidate, others, with_kept, find_failing)


def _remove_annotations(candidate: Candidate, find_failing: FindFailing) -> Candidate:
    if candidate.offer is not None:
        candidate = find_failing([without_descriptions(candidate)]) or candidate
    for place in candidate.schema_places:
        candidate = _remove_parts(candidate, place, annotation_paths(candidate.document_at(place)), find_failing)
    return candidate


def _remove_by_level(candidate: Candidate, find_failing: FindFailing) -> Candidate:
    for place, depth in removable_groups(candidate):
        paths = [path for path in removable_paths_at(candidate, place) if len(path) == depth]
        candidate = _remove_parts(candidate, place, paths, find_failing)
    return candidate


def _remove_parts(
    candidate: Candidate, place: DocumentPlace, paths: Sequence[Path], find_failing: FindFailing
) -> Candidate:
    """Remove as many of the parts of a document as possible."""
    document = candidate.document_at(place)

    def with_kept(kept: Sequence[Path]) -> Candidate:
        return candidate.with_document(place, remove_paths(document, frozenset(paths) - frozenset(kept)))

    return _remove_most(candidate, paths, with_kept, find_failing)


def _remove_most(
    current: Candidate,
    items: Sequence[T],
    with_kept: Callable[[Sequence[T]], Candidate | None],
    find_failing: FindFailing,
) -> Candidate:
    """
    Remove as many items as possible: shares of half the size each time, down to single items.

    `with_kept` returns the candidate with only these items, or None if it would be invalid.
    """
    kept = list(items)
    width = len(kept)
    while width and kept:
        start = 0
        while start < len(kept):
            limit = current.size
            places = range(start, len(kept), width)
            # one at a time: a large schema has thousands of parts, and often the first share can be removed
            forms = (with_kept(kept[:at] + kept[at + width :]) for at in places)
            found = find_failing(form for form in forms if form is not None and form.size < limit)
            if found is None:
                break
            shares = ((at, kept[:at] + kept[at + width :]) for at in places)
            start, kept = next((at, share) for at, share in shares if with_kept(share) == found)
            current = found
        width //= 2
    return current


def _apply_edits(candidate: Candidate, find_failing: FindFailing) -> Candidate:
    while (found := find_failing(simpler_forms(candidate))) is not None:
        candidate = found
    return candidate
