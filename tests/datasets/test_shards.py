from __future__ import annotations

from collections import Counter

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.datasets.selection import Shard

KEYS = [CaseKey(task=task, id=str(number)) for task, size in (("a", 7), ("b", 30), ("c", 1)) for number in range(size)]


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_shards_are_the_whole_and_have_nothing_in_common(count: int) -> None:
    shards = [Shard(number=number, count=count).take(KEYS) for number in range(1, count + 1)]

    assert Counter(key for shard in shards for key in shard) == Counter(KEYS)


def test_each_task_is_spread_over_all_shards_alike() -> None:
    shards = [Counter(key.task for key in Shard(number=number, count=5).take(KEYS)) for number in range(1, 6)]

    assert {shard["a"] for shard in shards} <= {1, 2}
    assert {shard["b"] for shard in shards} == {6}
    assert {shard.total() for shard in shards} <= {7, 8}


@pytest.mark.parametrize(("text", "shown"), [("2/5", "2/5"), ("0of5", "1/5"), ("4of5", "5/5")])
def test_a_shard_is_counted_from_one_or_with_of_from_zero(text: str, shown: str) -> None:
    assert str(Shard.parse(text, {})) == shown


@pytest.mark.parametrize(
    "text", ["", "2", "0/5", "6/5", "2/0", "-1/5", "a/b", "2/5/6", "1/9999999", "5of5", "-1of5", "1of", "01of5", "auto"]
)
def test_what_is_no_shard_is_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected NUMBER/COUNT such as 2/5, or 1of5 .*, or auto/5, found "):
        Shard.parse(text, {})


SLURM = {"SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_STEP": "1"}


@pytest.mark.parametrize(
    ("environ", "number", "origin"),
    [
        ({"JOB_COMPLETION_INDEX": "0"}, 1, "JOB_COMPLETION_INDEX=0"),
        ({"JOB_COMPLETION_INDEX": "19"}, 20, "JOB_COMPLETION_INDEX=19"),
        ({**SLURM, "SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "20"}, 1, "SLURM_ARRAY_TASK_ID=1"),
        ({"SLURM_ARRAY_TASK_ID": "19", "SLURM_ARRAY_TASK_MIN": "0"}, 20, "SLURM_ARRAY_TASK_ID=19"),
        (
            {"SLURM_ARRAY_TASK_ID": "9", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_STEP": "4"},
            3,
            "SLURM_ARRAY_TASK_ID=9",
        ),
    ],
)
def test_a_job_of_a_scheduler_finds_its_own_shard_and_says_by_what(
    environ: dict[str, str], number: int, origin: str
) -> None:
    shard = Shard.parse("auto/20", environ)

    assert (shard.number, shard.count, shard.origin) == (number, 20, origin)


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({}, "from JOB_COMPLETION_INDEX or SLURM_ARRAY_TASK_ID; .*, found 0: name the shard"),
        ({"SLURM_ARRAY_TASK_ID": "3"}, "found 0"),
        (
            {"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "7", "SLURM_ARRAY_TASK_COUNT": "1"},
            "SLURM_ARRAY_TASK_ID=7 is one of 1 jobs; expected 20: name the shard",
        ),
        ({"JOB_COMPLETION_INDEX": ""}, "found 0"),
        ({**SLURM, "SLURM_ARRAY_TASK_ID": "3", "JOB_COMPLETION_INDEX": "3"}, "found 2"),
        ({"JOB_COMPLETION_INDEX": "20"}, "JOB_COMPLETION_INDEX=20 is shard 21 of 20; expected as many jobs as shards"),
    ],
)
def test_a_shard_that_no_scheduler_numbers_is_never_guessed(environ: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Shard.parse("auto/20", environ)
