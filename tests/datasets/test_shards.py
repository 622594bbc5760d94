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


def test_a_shard_is_said_as_it_is_read() -> None:
    assert str(Shard.parse("2/5")) == "2/5"


@pytest.mark.parametrize("text", ["", "2", "0/5", "6/5", "2/0", "-1/5", "a/b", "2/5/6", "1/9999999"])
def test_what_is_no_shard_is_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected NUMBER/COUNT such as 2/5, found "):
        Shard.parse(text)
