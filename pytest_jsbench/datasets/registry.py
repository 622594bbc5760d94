"""From a source's name to its dataset."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_jsbench.datasets.base import Dataset, Selection
from pytest_jsbench.errors import DatasetError

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def open_dataset(selection: Selection) -> Dataset:
    """The dataset of a selection: `builtin`, a file, a folder, or a hub name; DatasetError says what else was found."""
    source = selection.source
    if source == "builtin":
        from pytest_jsbench.datasets.builtin import BuiltinDataset

        return BuiltinDataset.open(selection)
    path = Path(source).expanduser()
    if path.is_dir():
        return _open_folder(selection, path)
    if path.is_file():
        from pytest_jsbench.datasets.folder import FolderDataset

        return FolderDataset.open(selection, [path], root=path.parent)
    if _HUB_NAME.fullmatch(source) and not path.parent.is_dir():
        from pytest_jsbench.datasets.hub import HubDataset

        return HubDataset.open(selection)
    message = (
        f"no dataset '{source}': expected builtin, a schema file, a folder of *.json, "
        "a folder in the hub's layout, or a hub name such as epfl-dlab/JSONSchemaBench"
    )
    raise DatasetError(message)


def _open_folder(selection: Selection, folder: Path) -> Dataset:
    if next(folder.rglob("*.parquet"), None) is not None:
        from pytest_jsbench.datasets.parquet_folder import ParquetFolder, find_layout

        if (layout := find_layout(folder)) is not None:
            return ParquetFolder.open(selection, layout)
        from pytest_jsbench.datasets.hub import HubDataset

        return HubDataset.open(selection)
    from pytest_jsbench.datasets.folder import FolderDataset

    paths = [path for path in folder.rglob("*.json") if path.is_file()]
    if not paths:
        message = f"no schemas in {folder}: expected *.json files, or *.parquet in the hub's layout"
        raise DatasetError(message)
    return FolderDataset.open(selection, paths, root=folder)
