from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import ConditionError, DatasetError
from pytest_jsbench.datasets.base import Sample, Selection
from pytest_jsbench.datasets.selection import open_selected, sampled


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


def test_all_conditions_must_be_met_and_the_order_stays(schemas: Path) -> None:
    assert selected(schemas, where=("keywords:pattern", "task:few or id:s00")) == [
        "few::s03",
        "few::s06",
        "few::s09",
        "many::s00",
    ]


def test_a_broken_row_meets_no_condition_on_its_schema_and_not_its_contrary(schemas: Path) -> None:
    assert "few::s00" not in selected(schemas, where=("not keywords:type",))
    assert selected(schemas, where=("id:s00",)) == ["few::s00", "many::s00"]


def test_a_limit_counts_what_meets_the_conditions(schemas: Path) -> None:
    assert selected(schemas, where=("keywords:pattern",), limit=1) == ["few::s03", "many::s00"]


def test_a_sample_is_taken_of_what_is_left(schemas: Path) -> None:
    taken = selected(schemas, where=("keywords:pattern",), limit=3, sample=Sample(size=4))

    assert Counter(key.partition("::")[0] for key in taken) == {"few": 2, "many": 2}
    assert set(taken) <= set(selected(schemas, where=("keywords:pattern",), limit=3))


def test_conditions_that_nothing_meets_are_one_line(schemas: Path) -> None:
    with pytest.raises(DatasetError, match=r"none of the 40 cases of dataset '.*' meets 'size>1000'"):
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
    taken = sampled(KEYS, Sample(size=size))

    assert Counter(key.task for key in taken) == shares
    assert taken == [key for key in KEYS if key in set(taken)]


def test_a_sample_is_the_same_on_every_machine() -> None:
    # the first by the SHA-256 of "0\0task\0id", as coreutils' sha256sum gives it
    assert {str(key) for key in sampled(KEYS, Sample(size=6))} == {
        *("a::o13", "a::o38", "a::o34"),
        *("b::o5", "b::o4"),
        "c::o17",
    }


def test_another_seed_takes_others_and_the_order_of_the_cases_decides_nothing() -> None:
    first = set(sampled(KEYS, Sample(size=20)))

    assert set(sampled(KEYS, Sample(size=20, seed=1))) != first
    assert set(sampled(list(reversed(KEYS)), Sample(size=20))) == first


def test_a_larger_sample_holds_the_smaller_one_where_shares_grow() -> None:
    assert set(sampled(KEYS, Sample(size=10))) <= set(sampled(KEYS, Sample(size=20)))
