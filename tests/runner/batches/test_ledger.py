from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.runner.batches.ledger import read_parts
from pytest_jsbench.runs.journal import BATCHES
from tests import examples


@pytest.mark.parametrize("place", ["id", "handed_in_at"])
@pytest.mark.parametrize("text", ["::stop-commands::x", "a\x1b[2J", "a\u202e", "a\n::error::b"])
def test_a_batch_whose_name_cannot_be_shown_is_refused_in_one_line(tmp_path: Path, place: str, text: str) -> None:
    metadata = examples.metadata()
    part = {"id": "batch_1", "handed_in_at": "2026-11-21T10:00:00+00:00", "requests": ["a"], "ended": False}

    (tmp_path / BATCHES).write_text(json.dumps({"run": metadata.to_dict(), "batches": [part]}))
    assert [one.id for one in read_parts(tmp_path, metadata)] == ["batch_1"]

    (tmp_path / BATCHES).write_text(json.dumps({"run": metadata.to_dict(), "batches": [{**part, place: text}]}))
    with pytest.raises(RecordError, match=f"{place} is '.*', which cannot be shown") as caught:
        read_parts(tmp_path, metadata)
    assert len(str(caught.value).splitlines()) == 1
