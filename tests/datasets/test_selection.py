from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import ConditionError, DatasetError
from pytest_jsbench.datasets.base import Sample, Selection
from pytest_jsbench.datasets.selection import Shard, draw_sample, open_selected


@pytest.fixture
def schemas(tmp_path: Path) -> Path:
    """Ten cases in the task `few`, thirty in `many`, every third with a pattern; one is broken."""
    for task, count in (("few", 10), ("many", 30)):
        for number in range(count):
            path = tmp_path / task / f"s{number:02}.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps({"pattern": "a"} if number % 3 == 0 else {"type": "string"}))
    (tmp_path / "few" / "s00.json").write_text("{oops")
    return tmp_path


def selected(source: Path, **selection: object) -> list[str]:
    return [str(key) for key in open_selected(Selection(source=str(source), **selection)).keys()]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("where", "limit", "expected"),
    [
        (("keywords:pattern", "task:few or id:s00"), None, ["few::s03", "few::s06", "few::s09", "many::s00"]),
        (("id:s00",), None, ["few::s00", "many::s00"]),
        # neither a condition nor its negation is known for a broken row
        (("not keywords:type", "id:s00"), None, ["many::s00"]),
        (("keywords:pattern",), 1, ["few::s03", "many::s00"]),
    ],
)
def test_limit_applies_to_cases_that_meet_all_conditions_in_order(
    schemas: Path, where: tuple[str, ...], limit: int | None, expected: list[str]
) -> None:
    assert selected(schemas, where=where, limit=limit) == expected


def test_sample_is_drawn_after_conditions_and_limit(schemas: Path) -> None:
    taken = selected(schemas, where=("keywords:pattern",), limit=3, sample=Sample(size=4))

    assert Counter(key.partition("::")[0] for key in taken) == {"few": 2, "many": 2}
    assert set(taken) <= set(selected(schemas, where=("keywords:pattern",), limit=3))


def test_conditions_that_nothing_meets_are_one_line(schemas: Path) -> None:
    with pytest.raises(DatasetError, match=r"no case of '.*' meets 'size>1000'; the dataset has 40 cases"):
        open_selected(Selection(source=str(schemas), where=("size>1000",)))


def test_a_condition_that_cannot_be_read_names_the_option(schemas: Path) -> None:
    with pytest.raises(ConditionError, match=r"--jsbench-where: unknown field 'sizes'"):
        open_selected(Selection(source=str(schemas), where=("sizes>1000",)))


KEYS = [
    CaseKey(task=task, id=f"o{number}") for task, count in (("a", 50), ("b", 30), ("c", 20)) for number in range(count)
]


@pytest.mark.parametrize(
    ("size", "shares"),
    [
        (10, {"a": 5, "b": 3, "c": 2}),
        (1, {"a": 1}),
        (3, {"a": 1, "b": 1, "c": 1}),
        (7, {"a": 4, "b": 2, "c": 1}),
        (99, {"a": 49, "b": 30, "c": 20}),
        (100, {"a": 50, "b": 30, "c": 20}),
        (1000, {"a": 50, "b": 30, "c": 20}),
    ],
)
def test_a_sample_has_each_task_in_proportion(size: int, shares: dict[str, int]) -> None:
    taken = draw_sample(KEYS, Sample(size=size))

    assert Counter(key.task for key in taken) == shares
    assert taken == [key for key in KEYS if key in set(taken)]


def test_a_sample_is_the_same_on_every_machine() -> None:
    # the first by the SHA-256 of "0\0task\0id", as coreutils' sha256sum gives it
    assert {str(key) for key in draw_sample(KEYS, Sample(size=6))} == {
        *("a::o13", "a::o38", "a::o34"),
        *("b::o5", "b::o4"),
        "c::o17",
    }


def test_sample_depends_on_the_seed_but_not_on_the_order_of_cases() -> None:
    first = set(draw_sample(KEYS, Sample(size=20)))

    assert set(draw_sample(KEYS, Sample(size=20, seed=1))) != first
    assert set(draw_sample(list(reversed(KEYS)), Sample(size=20))) == first


def test_larger_sample_contains_the_smaller_one() -> None:
    assert set(draw_sample(KEYS, Sample(size=10))) <= set(draw_sample(KEYS, Sample(size=20)))


SPLIT = [CaseKey(task=task, id=str(number)) for task, size in (("a", 7), ("b", 30), ("c", 1)) for number in range(size)]


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_shards_are_the_whole_and_have_nothing_in_common(count: int) -> None:
    shards = [Shard(number=number, count=count).take(SPLIT) for number in range(1, count + 1)]

    assert Counter(key for shard in shards for key in shard) == Counter(SPLIT)


def test_each_task_is_spread_evenly_over_all_shards() -> None:
    shards = [Counter(key.task for key in Shard(number=number, count=5).take(SPLIT)) for number in range(1, 6)]

    assert {shard["a"] for shard in shards} <= {1, 2}
    assert {shard["b"] for shard in shards} == {6}
    assert {shard.total() for shard in shards} <= {7, 8}


@pytest.mark.parametrize(("text", "shown"), [("2/5", "2/5"), ("0of5", "1/5"), ("4of5", "5/5")])
def test_a_shard_is_counted_from_one_or_with_of_from_zero(text: str, shown: str) -> None:
    assert str(Shard.parse(text, {})) == shown


@pytest.mark.parametrize(
    "text", ["", "2", "0/5", "6/5", "2/0", "-1/5", "a/b", "2/5/6", "1/9999999", "5of5", "-1of5", "1of", "01of5", "auto"]
)
def test_invalid_shard_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected NUMBER/COUNT such as 2/5, 1of5 .* or auto/5, found "):
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
def test_scheduler_job_gets_its_shard_from_the_environment(environ: dict[str, str], number: int, origin: str) -> None:
    shard = Shard.parse("auto/20", environ)

    assert (shard.number, shard.count, shard.origin) == (number, 20, origin)


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({}, "from JOB_COMPLETION_INDEX or SLURM_ARRAY_TASK_ID; .*, found 0; set the shard"),
        ({"SLURM_ARRAY_TASK_ID": "3"}, "found 0"),
        (
            {"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "7", "SLURM_ARRAY_TASK_COUNT": "1"},
            "SLURM_ARRAY_TASK_ID=7: the number of jobs is 1; expected 20; set the shard",
        ),
        ({"JOB_COMPLETION_INDEX": ""}, "found 0"),
        ({**SLURM, "SLURM_ARRAY_TASK_ID": "3", "JOB_COMPLETION_INDEX": "3"}, "found 2"),
        ({"JOB_COMPLETION_INDEX": "20"}, "JOB_COMPLETION_INDEX=20 is shard 21 of 20; expected as many jobs as shards"),
    ],
)
def test_a_shard_that_no_scheduler_numbers_is_never_guessed(environ: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Shard.parse("auto/20", environ)
