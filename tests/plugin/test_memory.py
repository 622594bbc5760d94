from __future__ import annotations

import pytest

from tests.support.bench import Bench

#: Prints the number of allocated blocks of memory when all tests have ended.
COUNTING = """
import gc
import sys

import pytest

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop():
    try:
        return (yield)
    finally:
        gc.collect()
        print("blocks", sys.getallocatedblocks(), flush=True)
"""
#: Maximum number of blocks of memory that a failed attempt keeps, with those of pytest's own items and reports, but
#: without JUnit's elements, another 47. It keeps 125.
MOST = 140


@pytest.mark.slow
def test_failed_attempt_keeps_few_blocks_of_memory(bench: Bench) -> None:
    bench.write({"conftest.py": COUNTING})
    blocks = []
    for count in (100, 300):
        for number in range(count):
            bench.case(f"c{number}", '{"n": "x"}')
        result = bench.run_subprocess("-s", "-q", "--tb=no")
        (line,) = (line for line in result.outlines if "blocks" in line)
        blocks.append(int(line.rpartition("blocks ")[2]))

    assert (blocks[1] - blocks[0]) / 200 < MOST
