"""The part of a dataset that is wanted: by condition, by number, by sample; the same on every machine."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import ConditionError, DatasetError
from pytest_jsbench.core.text import counted
from pytest_jsbench.datasets.base import CaseSource, Listing, Sample, Selection
from pytest_jsbench.datasets.registry import open_dataset

if TYPE_CHECKING:
    from pytest_jsbench.datasets.conditions import Condition


def open_selected(selection: Selection, held: object = None) -> Listing:
    """
    Open the dataset of a selection, or what a program holds of one.

    Of what meets the conditions, the first of each task are taken, and of these a sample.
    """
    condition = _condition(selection.where)
    # the first of each task are counted among those that meet the conditions
    wanted = selection if condition is None else replace(selection, limit=None)
    if held is not None:
        from pytest_jsbench.datasets.sources.objects import open_in_memory

        dataset = open_in_memory(wanted, held)
    elif selection.labelled:
        from pytest_jsbench.datasets.labelled import open_labelled

        dataset = open_labelled(wanted)
    else:
        dataset = open_dataset(wanted)
    if condition is None and selection.sample is None:
        return dataset
    keys = list(dataset.keys())
    if condition is not None:
        met = meeting(condition, dataset, default_dialect=selection.default_dialect)
        if not met:
            conditions = "', '".join(selection.where)
            raise DatasetError(f"of {counted(len(keys), 'case')} in '{selection.source}' none meets '{conditions}'")
        keys = [key for group in by_task(met).values() for key in group[: selection.limit]]
    if selection.sample is not None:
        keys = sampled(keys, selection.sample)
    return dataset.only(keys)


def meeting(condition: Condition, dataset: CaseSource, *, default_dialect: str) -> list[CaseKey]:
    """The cases of a dataset that meet a condition, in their order."""
    from pytest_jsbench.datasets.conditions import Subject
    from pytest_jsbench.verdicts import Judge, JudgePolicy

    # its process starts where a condition asks for it
    with Judge(JudgePolicy(default_dialect=default_dialect)) as judge:
        subjects = (Subject(dataset, key, default_dialect, judge) for key in dataset.keys())
        return [subject.key for subject in subjects if condition(subject)]


def _condition(where: Sequence[str]) -> Condition | None:
    """The condition that all of these hold; None where there are none."""
    if not where:
        return None
    from pytest_jsbench.datasets.conditions import all_of, parse

    try:
        return all_of([parse(text) for text in where])
    except ConditionError as error:
        message = f"--jsbench-where: {error}"
        raise ConditionError(message, found=error.found, expected=error.expected, option="where") from None


def sampled(keys: Sequence[CaseKey], sample: Sample) -> list[CaseKey]:
    """
    As many of the cases, in their order, with each task's share in proportion (by the largest remainder).

    Which of a task's cases are taken is decided by the hash of seed and key, and by nothing else: not by the order
    of the cases, the machine or the version of Python. A larger dataset changes a sample as little as it can.
    """
    groups = by_task(keys)
    shares = _shares([len(group) for group in groups.values()], sample.size)
    taken: set[CaseKey] = set()
    for group, share in zip(groups.values(), shares, strict=True):
        taken.update(sorted(group, key=lambda key: _rank(key, sample.seed))[:share])
    return [key for key in keys if key in taken]


def by_task(keys: Iterable[CaseKey]) -> dict[str, list[CaseKey]]:
    """The cases by task, tasks and cases in their order."""
    groups: dict[str, list[CaseKey]] = {}
    for key in keys:
        groups.setdefault(key.task, []).append(key)
    return groups


def _shares(counts: Sequence[int], size: int) -> list[int]:
    """The numbers of each group that make up `size`; the earlier group has more where remainders are equal."""
    total = sum(counts)
    if size >= total:
        return list(counts)
    shares, remainders = zip(*(divmod(size * count, total) for count in counts), strict=True)
    left = size - sum(shares)
    favoured = set(sorted(range(len(counts)), key=lambda index: -remainders[index])[:left])
    return [share + (index in favoured) for index, share in enumerate(shares)]


def _rank(key: CaseKey, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\0{key.task}\0{key.id}".encode("utf-8", "surrogatepass")).digest()


_TEXT = re.compile(r"(?:(?P<number>[1-9]\d{0,5})/|(?P<index>0|[1-9]\d{0,5})of|(?P<auto>auto)/)(?P<count>[1-9]\d{0,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scheduler:
    """A scheduler of jobs: the variable that numbers each job, and the first number or the variable that has it."""

    variable: str
    first: int | str
    #: the variables that have the distance between two numbers, and how many jobs there are
    step: str = ""
    jobs: str = ""

    def number(self, environ: Mapping[str, str]) -> int | None:
        """The shard of this job, from 1; None where the scheduler has not started it."""
        try:
            first = self.first if isinstance(self.first, int) else int(environ[self.first])
            return (int(environ[self.variable]) - first) // int(environ.get(self.step, "1")) + 1
        except (KeyError, ValueError):
            return None


_SCHEDULERS = (
    _Scheduler(variable="JOB_COMPLETION_INDEX", first=0),  # a Job of Kubernetes with completionMode: Indexed
    _Scheduler(
        variable="SLURM_ARRAY_TASK_ID",
        first="SLURM_ARRAY_TASK_MIN",
        step="SLURM_ARRAY_TASK_STEP",
        jobs="SLURM_ARRAY_TASK_COUNT",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A part of a dataset, of `count` that are the whole together; no two have a case in common."""

    #: from 1
    number: int
    count: int
    #: the variable of the environment that has the number, with its value; empty where the user gave the number
    origin: str = ""

    @classmethod
    def parse(cls, text: str, environ: Mapping[str, str]) -> Shard:
        """
        Read `2/5`, `1of5` (the same, counted from 0) or `auto/5`, which takes the number from the job's scheduler.

        ValueError for any other text, and where no scheduler, or more than one, gives a number.
        """
        match = _TEXT.fullmatch(text)
        if match and match["auto"]:
            return cls._of_job(text, int(match["count"]), environ)
        count = int(match["count"]) if match else 0
        number = int(match["number"] or int(match["index"]) + 1) if match else 1
        if number > count:
            raise ValueError(f"expected NUMBER/COUNT such as 2/5, or 1of5 counted from 0, or auto/5, found {text!r}")
        return cls(number=number, count=count)

    @classmethod
    def _of_job(cls, text: str, count: int, environ: Mapping[str, str]) -> Shard:
        numbers = {job: number for job in _SCHEDULERS if (number := job.number(environ)) is not None}
        if len(numbers) != 1:
            names = " or ".join(job.variable for job in numbers or _SCHEDULERS)
            raise ValueError(
                f"{text} takes the shard from {names}; expected one of them in the environment, found {len(numbers)}: "
                "name the shard, such as 2/5, or 1of5 counted from 0"
            )
        ((job, number),) = numbers.items()
        origin, jobs = f"{job.variable}={environ[job.variable]}", environ.get(job.jobs, "")
        if jobs not in ("", str(count)):  # such as one of them, submitted again: its number says nothing without theirs
            message = f"{text} with {origin} is one of {jobs} jobs; expected {count}: name the shard, such as 2/{count}"
            raise ValueError(message)
        if not 1 <= number <= count:
            raise ValueError(f"{text} with {origin} is shard {number} of {count}; expected as many jobs as shards")
        return cls(number=number, count=count, origin=origin)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def take(self, keys: Sequence[CaseKey]) -> Sequence[CaseKey]:
        """The cases of this part: every `count`-th, so that each task is spread over all parts alike."""
        return keys[self.number - 1 :: self.count]
