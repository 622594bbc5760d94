"""Compare outputs with the reviewed files of `tests/snapshots`; `pytest --update-snapshots` writes the files."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_jsbench import __version__

FOLDER = Path(__file__).parents[1] / "snapshots"


@dataclass(frozen=True, kw_only=True)
class Snapshots:
    """Reviewed files, which are compared with texts, or written."""

    #: Directory of the files.
    folder: Path = FOLDER
    #: Directory whose path is replaced in each text.
    root: Path
    is_updating: bool

    def check(self, texts: Mapping[str, str]) -> None:
        """Fail with the differences of all texts from the files with these names."""
        differing = []
        for name, text in texts.items():
            path, found = self.folder / name, self.normalise(text)
            if self.is_updating:
                path.write_text(found, "utf-8", newline="\n")
            expected = path.read_text("utf-8") if path.exists() else ""
            if found != expected:
                lines = (expected.splitlines(), found.splitlines())
                differing.append("\n".join(difflib.unified_diff(*lines, f"snapshots/{name}", "found", lineterm="")))
        if differing:
            pytest.fail("\n\n".join([*differing, "If this is intended: pytest --update-snapshots"]), pytrace=False)

    def normalise(self, text: str) -> str:
        """Replace the paths of this test and the version."""
        text = text.replace(self.root.as_uri(), "file:///ROOT").replace(str(self.root), "/ROOT")
        text = text.replace(f"pytest-jsbench {__version__}", "pytest-jsbench VERSION")
        return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
