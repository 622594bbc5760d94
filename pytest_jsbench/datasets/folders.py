"""Find the user's files in a directory, without the files of tools (caches, packages, environments, hidden files)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

#: Names of directories that tools create; `.ipynb_checkpoints`, `.venv` and `.git` are hidden anyway.
_OF_TOOLS = frozenset({"node_modules", "__pycache__", "site-packages"})
#: Files and directories at the top of a virtual environment of Python or conda.
_OF_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
#: Prefix of macOS's metadata files.
_METADATA = "._"


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files of a directory at any depth and links to missing files; follow no link to a directory."""
    for place, inner, names in os.walk(folder):
        here = Path(place)
        inner[:] = sorted(name for name in inner if not has_tool_schemas(here / name))
        for name in sorted(names):
            path = here / name
            if not name.startswith(_METADATA) and (path.is_file() or path.is_symlink()):
                yield path


def has_tool_schemas(folder: Path) -> bool:
    """Return whether a directory belongs to a tool, so that its schemas are not the user's."""
    if folder.name.startswith(".") or folder.name in _OF_TOOLS:
        return True
    return any((folder / name).exists() for name in _OF_ENVIRONMENTS)


def is_user_file(path: Path, *, root: Path) -> bool:
    """Return whether `files_below` yields this file below the root."""
    if path.name.startswith(_METADATA):
        return False
    parents = path.relative_to(root).parents
    return not any(has_tool_schemas(root / parent) for parent in parents if parent != Path())
