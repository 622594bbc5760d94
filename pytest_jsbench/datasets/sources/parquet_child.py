"""
The child process that reads Parquet files.

It takes a tenth of a second to start, and as long as the modules of a run take to import: `start_for` starts it before
them, so this module imports little.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pytest_jsbench.core.guarded_calls import GuardedCalls

#: Maximum address space for reading Parquet, in bytes; pyarrow's allocator reserves a gigabyte at the start.
MEMORY = 4 << 30
#: Module whose functions the child calls.
TABLES = "pytest_jsbench.datasets.sources.parquet_tables"


@lru_cache(maxsize=1)
def table_calls() -> GuardedCalls:
    """Return the calls of the child; its memory is limited, since a small file may decompress to any size."""
    return GuardedCalls(memory=MEMORY)


def start_for(source: str) -> None:
    """Start the child in the background if a dataset is a Parquet file, or a directory with one for each split."""
    path = Path(source).expanduser()
    if path.suffix == ".parquet" or next(path.glob("*/*.parquet"), None) is not None:
        table_calls().start(f"{TABLES}:prepare")
