"""What the README shows is what the code does; its blocks are run by `tests/docs`."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_jsbench.plugin.options.declared import OPTIONS

README = Path(__file__).parents[1] / "README.md"


def test_every_option_in_it_exists() -> None:
    assert set(re.findall(r"--jsbench-[a-z-]+", README.read_text("utf-8"))) <= {option.flag for option in OPTIONS}
