"""What a source was found to hold, and the part of it that a selection takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_jsbench.cases import BrokenCase, Case, CaseKey, safe_name
from pytest_jsbench.datasets.base import Selection, choose_tasks
from pytest_jsbench.errors import DatasetError

#: cases of a dataset, each of which is a test
MOST_CASES = 500_000
#: reads the case whose key it is given
Read = Callable[[CaseKey], Case | BrokenCase]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One case that is there to be read: what its source calls it, and how to read it."""

    task: str
    name: str
    read: Read


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A dataset of found cases, each read when it is asked for."""

    reads: Mapping[CaseKey, Read]

    @classmethod
    def of(cls, selection: Selection, found: Iterable[Found]) -> Listing:
        """The selection's part, task by task in the order in which tasks were first found."""
        by_task: dict[str, list[Found]] = {}
        kept = 0
        for one in found:
            group = by_task.setdefault(safe_name(one.task), [])
            if selection.limit is None or len(group) < selection.limit:
                group.append(one)
                kept += 1
            if kept > MOST_CASES:
                message = (
                    f"dataset '{selection.source}' holds more than {MOST_CASES:,} cases; --jsbench-limit takes fewer"
                )
                raise DatasetError(message)
        reads: dict[CaseKey, Read] = {}
        tried: dict[CaseKey, int] = {}
        for task in choose_tasks(selection.source, list(by_task), selection.tasks):
            for one in by_task[task]:
                reads[free_key(reads, task, one.name, tried)] = one.read
        return cls(reads=reads)

    def keys(self) -> Sequence[CaseKey]:
        """The selected cases."""
        return tuple(self.reads)

    def case(self, key: CaseKey) -> Case | BrokenCase:
        """One of them."""
        return self.reads[key](key)


def free_key(taken: Mapping[CaseKey, object], task: str, name: str, tried: dict[CaseKey, int]) -> CaseKey:
    """
    The key of that name in a safe task, or, where it is taken, the first free one of `name.2`, `name.3`, …

    What was tried of each name is noted, so that a million rows of one name are not a million times a million steps.
    """
    safe = safe_name(name)
    key = wanted = CaseKey(task=task, id=safe)
    number = tried.get(wanted, 2)
    while key in taken:
        key = CaseKey(task=task, id=f"{safe}.{number}")
        number += 1
    tried[wanted] = number
    return key
