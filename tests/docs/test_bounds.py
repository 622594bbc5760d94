"""Check that the limits in docs/datasets.md are those of the code."""

from __future__ import annotations

from pathlib import Path

from pytest_jsbench.core import files
from pytest_jsbench.datasets import documents, yaml_text
from pytest_jsbench.datasets.columns import MOST_CASES
from pytest_jsbench.datasets.sources import parquet_tables

PAGE = Path(__file__).parents[2] / "docs" / "datasets.md"


def test_page_has_each_reading_limit() -> None:
    megabytes = 1_000_000
    bounds = {
        f"{documents.LARGEST_SCHEMA // megabytes} MB",
        f"{documents.LARGEST_DOCUMENT // megabytes} MB",
        f"{files.LARGEST_LINES // (1000 * megabytes)} GB; {files.LARGEST_UNPACKED // megabytes} MB",
        str(files.DEEPEST),
        f"{files.MOST_VALUES:,}; {yaml_text.MOST_VALUES:,}",
        f"{parquet_tables.LARGEST_GROUP // megabytes} MB",
        f"{MOST_CASES:,}",
    }
    section = PAGE.read_text("utf-8").partition("\n## What is read\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[2].strip() for line in section.splitlines() if line.startswith("|")]

    assert set(rows[2:]) == bounds
    assert yaml_text.DEEPEST == files.DEEPEST
