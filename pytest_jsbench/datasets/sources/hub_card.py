"""What a folder in the hub's layout may name before a library opens it: files inside of it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import FileReader, Unreadable, inside
from pytest_jsbench.core.text import printable

#: bytes of a dataset card
LARGEST_CARD = 1_000_000
#: where the library looks for a description of the files
_CARDS = ("README.md", ".huggingface.yaml")
_NAMING = frozenset({"data_files", "data_dir", "path"})


def check_folder(folder: Path) -> None:
    """DatasetError where a file of the folder is a link out of it, or its card names one that is not inside."""
    for path in folder.rglob("*"):
        if path.is_symlink() and not inside(folder, path):
            message = f"{printable(str(path))}: leads out of {folder}"
            raise DatasetError(message)
    for name in _CARDS:
        for value in _named(_front_matter(folder, name)):
            if not _is_inside(value):
                message = f"{folder / name} names the file '{printable(value, 100)}'; expected a relative path inside"
                raise DatasetError(message)


def read_card(folder: Path, name: str = _CARDS[0]) -> str:
    """The text of a folder's card; Unreadable where there is none."""
    return FileReader(root=folder, largest=LARGEST_CARD).read_text(folder / name)


def _front_matter(folder: Path, name: str) -> object:
    if not (folder / name).exists():
        return None
    from pytest_jsbench.datasets.documents.yaml_text import parse_yaml

    try:
        text = read_card(folder, name).replace("\r\n", "\n")
        if name.endswith(".md"):
            text = text.partition("---\n")[2].partition("\n---")[0] if text.startswith("---") else ""
        return parse_yaml(text) if text.strip() else None
    except Unreadable as error:
        # the library would read it by rules of its own
        named = error if str(folder) in str(error) else Unreadable(error.problem, path=folder / name)
        raise DatasetError(str(named)) from None


def _named(value: object, *, naming: bool = False) -> Iterator[str]:
    """The texts that stand for files, wherever in the card."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _named(inner, naming=naming or key in _NAMING)
    elif isinstance(value, list):
        for inner in value:
            yield from _named(inner, naming=naming)
    elif naming and isinstance(value, str):
        yield value


def _is_inside(value: str) -> bool:
    windows = PureWindowsPath(value)
    rooted = windows.drive or windows.root or PurePosixPath(value).is_absolute() or value.startswith("~")
    return not (rooted or ".." in windows.parts or ":" in value)
