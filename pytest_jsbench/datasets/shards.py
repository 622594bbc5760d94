"""Shards: a dataset in parts, for as many machines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_jsbench.cases import CaseKey

_TEXT = re.compile(r"([1-9]\d{0,5})/([1-9]\d{0,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One of `count` parts of a dataset; together they are the whole, and no two have a case in common."""

    #: from 1
    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read `2/5`; ValueError when it is not that."""
        found = _TEXT.fullmatch(text)
        number, count = (int(found[1]), int(found[2])) if found else (1, 0)
        if number > count:
            message = f"expected NUMBER/COUNT such as 2/5, found {text!r}"
            raise ValueError(message)
        return cls(number=number, count=count)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def take(self, keys: Sequence[CaseKey]) -> Sequence[CaseKey]:
        """The cases of this part: every `count`-th, so that each task is spread over all parts alike."""
        return keys[self.number - 1 :: self.count]
