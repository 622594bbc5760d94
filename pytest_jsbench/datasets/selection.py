"""Select cases of a dataset by condition, number, sample and shard, in the same way on every machine."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import ConditionError, DatasetError
from pytest_jsbench.core.text import format_count
from pytest_jsbench.datasets.base import CaseSource, Listing, Sample, Selection
from pytest_jsbench.datasets.registry import open_dataset

if TYPE_CHECKING:
    from pytest_jsbench.datasets.conditions import Condition


def open_selected(selection: Selection, objects: object = None) -> Listing:
    """
    Open the dataset of a selection, or the objects that a program passes.

    The conditions are applied first, then the limit per task, then the sample.
    """
    condition = _condition(selection.where)
    # the limit applies to the cases that meet the conditions
    wanted = selection if condition is None else replace(selection, limit=None)
    if objects is not None:
        from pytest_jsbench.datasets.sources.objects import open_in_memory

        dataset = open_in_memory(wanted, objects)
    elif selection.labelled:
        from pytest_jsbench.datasets.labelled import open_labelled

        dataset = open_labelled(wanted)
    else:
        dataset = open_dataset(wanted)
    if condition is None and selection.sample is None:
        return dataset
    keys = list(dataset.keys())
    if condition is not None:
        matching = find_matching(condition, dataset, default_dialect=selection.default_dialect)
        if not matching:
            conditions = "', '".join(selection.where)
            total = format_count(len(keys), "case")
            raise DatasetError(f"no case of '{selection.source}' meets '{conditions}'; the dataset has {total}")
        keys = [key for group in group_by_task(matching).values() for key in group[: selection.limit]]
    if selection.sample is not None:
        keys = draw_sample(keys, selection.sample)
    return dataset.only(keys)


def find_matching(condition: Condition, dataset: CaseSource, *, default_dialect: str) -> list[CaseKey]:
    """Return the cases of a dataset that meet a condition, in order."""
    from pytest_jsbench.datasets.conditions import Subject
    from pytest_jsbench.verdicts import Judge, JudgePolicy

    # the judge's process starts only if a condition needs it
    with Judge(JudgePolicy(default_dialect=default_dialect)) as judge:
        subjects = (Subject(dataset, key, default_dialect, judge) for key in dataset.keys())
        return [subject.key for subject in subjects if condition(subject)]


def _condition(where: Sequence[str]) -> Condition | None:
    """Return a condition that is met if all of the given conditions are met; None without conditions."""
    if not where:
        return None
    from pytest_jsbench.datasets.conditions import all_of, parse

    try:
        return all_of([parse(text) for text in where])
    except ConditionError as error:
        message = f"--jsbench-where: {error}"
        raise ConditionError(message, found=error.found, expected=error.expected, option="where") from None


def draw_sample(keys: Sequence[CaseKey], sample: Sample) -> list[CaseKey]:
    """
    Draw a sample of the cases in proportion to the tasks' sizes (largest remainder method), and keep their order.

    Only the hash of seed and key decides which cases of a task are drawn, not the order of the cases, the machine or
    the version of Python. A larger dataset changes a sample as little as possible.
    """
    groups = group_by_task(keys)
    shares = _shares([len(group) for group in groups.values()], sample.size)
    drawn: set[CaseKey] = set()
    for group, share in zip(groups.values(), shares, strict=True):
        drawn.update(sorted(group, key=lambda key: _rank(key, sample.seed))[:share])
    return [key for key in keys if key in drawn]


def group_by_task(keys: Iterable[CaseKey]) -> dict[str, list[CaseKey]]:
    """Group cases by task, with tasks and cases in their original order."""
    groups: dict[str, list[CaseKey]] = {}
    for key in keys:
        groups.setdefault(key.task, []).append(key)
    return groups


def _shares(counts: Sequence[int], size: int) -> list[int]:
    """Divide `size` among groups in proportion to their counts; if remainders are equal, earlier groups get more."""
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
    """Environment variables with which a job scheduler numbers the jobs of a job array."""

    #: Name of the variable with the job's number.
    variable: str
    #: Number of the first job, or the name of the variable with this number.
    first: int | str
    #: Name of the variable with the step between two numbers; empty if there is no such variable.
    step: str = ""
    #: Name of the variable with the number of jobs; empty if there is no such variable.
    jobs: str = ""

    def number(self, environ: Mapping[str, str]) -> int | None:
        """Return the number of this job's shard, from 1; None if the scheduler did not start this process."""
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
    """One of `count` disjoint parts of a dataset."""

    #: Number of the shard, starting at 1.
    number: int
    count: int
    #: Environment variable with the number, as NAME=VALUE; empty if the user set the number.
    origin: str = ""

    @classmethod
    def parse(cls, text: str, environ: Mapping[str, str]) -> Shard:
        """
        Parse a shard: `2/5`, `1of5` (the same shard, counted from 0), or `auto/5` (with the job scheduler's number).

        Raise ValueError for any other text, and for `auto` unless exactly one scheduler sets a number.
        """
        match = _TEXT.fullmatch(text)
        if match and match["auto"]:
            return cls._from_scheduler(text, int(match["count"]), environ)
        count = int(match["count"]) if match else 0
        number = int(match["number"] or int(match["index"]) + 1) if match else 1
        if number > count:
            raise ValueError(f"expected NUMBER/COUNT such as 2/5, 1of5 (counted from 0) or auto/5, found {text!r}")
        return cls(number=number, count=count)

    @classmethod
    def _from_scheduler(cls, text: str, count: int, environ: Mapping[str, str]) -> Shard:
        numbers = {job: number for job in _SCHEDULERS if (number := job.number(environ)) is not None}
        if len(numbers) != 1:
            names = " or ".join(job.variable for job in numbers or _SCHEDULERS)
            raise ValueError(
                f"{text} reads the shard from {names}; expected one of these variables, found {len(numbers)}; "
                "set the shard, such as 2/5, or 1of5 counted from 0"
            )
        ((job, number),) = numbers.items()
        origin = f"{job.variable}={environ[job.variable]}"
        jobs = environ.get(job.jobs, "")
        # if a single job is resubmitted, the job count differs, and the job's number is not a shard
        if jobs not in ("", str(count)):
            advice = f"set the shard, such as 2/{count}"
            raise ValueError(f"{text} with {origin}: the number of jobs is {jobs}; expected {count}; {advice}")
        if not 1 <= number <= count:
            raise ValueError(f"{text} with {origin} is shard {number} of {count}; expected as many jobs as shards")
        return cls(number=number, count=count, origin=origin)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def take(self, keys: Sequence[CaseKey]) -> Sequence[CaseKey]:
        """Return the shard's cases: every `count`-th case, so that each task is distributed evenly over the shards."""
        return keys[self.number - 1 :: self.count]
