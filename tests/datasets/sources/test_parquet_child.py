from __future__ import annotations

from pathlib import Path

import pytest

from pytest_jsbench.datasets.sources.parquet_child import start_for, table_calls


@pytest.mark.parametrize(
    ("source", "started"),
    [
        ("rows.parquet", 1),
        ("layout", 1),
        ("schemas", 0),
        ("schemas/one.json", 0),
        ("schemas/*.json", 0),
        ("builtin", 0),
        ("owner/name", 0),
        ("no/such/place", 0),
    ],
)
def test_child_starts_for_datasets_with_parquet_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, started: int
) -> None:
    for name in ("rows.parquet", "layout/easy/test-00000-of-00001.parquet", "schemas/one.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.chdir(tmp_path)
    starts: list[str] = []
    monkeypatch.setattr(table_calls(), "start", starts.append)

    start_for(source)

    assert len(starts) == started
