from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.core.allocator import Leftovers
from pytest_jsbench.core.generations import Completion
from pytest_jsbench.runner.record_keeper import RecordKeeper
from pytest_jsbench.runs.journal import Journal
from pytest_jsbench.runs.outcomes import AttemptOutcome
from pytest_jsbench.runs.resumption import Recorded
from tests import examples

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("characters", "waits"), [(1_000, True), (1_000_000, False)])
def test_a_large_record_does_not_wait_in_memory_for_its_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, characters: int, waits: bool
) -> None:
    gone: list[int] = []
    monkeypatch.setattr(Leftovers, "add", lambda _, size: gone.append(size))
    generation = examples.completion()
    assert isinstance(generation, Completion)
    record = examples.record("a", generation=replace(generation, text="x" * characters))
    journal = Journal(tmp_path / "records.jsonl", examples.metadata())
    keeper = RecordKeeper(
        journal,
        recorded=Recorded(),
        case=lambda _: pytest.fail("nothing is taken over"),
        comparers={},
        classifiers=(),
        redaction=None,
        refuse=lambda _: None,
        must_keep=True,
    )

    result, written = keeper.write(record)
    journal.close()

    assert written == record
    assert (result.record is not None) is waits
    assert gone[0] >= characters
    assert isinstance(result.result, AttemptOutcome)
    assert result.result.read() == record
