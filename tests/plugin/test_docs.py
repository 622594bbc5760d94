"""The commands of docs/datasets.md run, and their tests are called what it says."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugin.conftest import WITHOUT_SLOW_PLUGINS, Bench

for needed in ("yaml", "pydantic", "pyarrow.parquet"):
    pytest.importorskip(needed, reason="needs the extras yaml, pydantic and datasets")

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = re.findall(r"```console\n(.*?)```", (DOCS / "datasets.md").read_text("utf-8"), flags=re.DOTALL)


def source(block: str) -> str:
    (name,) = re.findall(r"--jsbench-dataset='?([^' \n]+)", block)[:1]
    return str(name)


@pytest.mark.parametrize("block", BLOCKS, ids=source)
def test_a_command_collects_the_tests_that_stand_below_it(plain: Bench, block: str) -> None:
    shutil.copytree(DOCS / "examples", plain.path, dirs_exist_ok=True)
    *before, command = re.findall(r"^\$ (.*)$", block, flags=re.MULTILINE)
    for line in before:
        subprocess.run([sys.executable, *shlex.split(line)[1:]], cwd=plain.path, check=True)
    shown = re.findall(r"^(?:FAILED )?(jsbench::\S+)", block, flags=re.MULTILINE)

    asked = [argument for argument in shlex.split(command)[1:] if argument.startswith("--jsbench")]
    listed = (*asked, "--collect-only", "-q", "-p", "no:randomly", *WITHOUT_SLOW_PLUGINS)
    result = plain.pytester.runpytest_inprocess(*listed)

    assert result.ret == pytest.ExitCode.OK
    collected = [line for line in result.outlines if line.startswith("jsbench::")]
    assert shown
    assert collected == shown if "--collect-only" in command else set(shown) <= set(collected)


def test_every_kind_of_source_has_a_command() -> None:
    named = {source(block) for block in BLOCKS}

    assert named == {
        *("api.json", "shop:*", "shop:Order", "tools", "schemas", "schemas/invoice.json", "schemas/**/*.yaml"),
        *("rows.jsonl", "rows.parquet", "functions.json"),
    }
