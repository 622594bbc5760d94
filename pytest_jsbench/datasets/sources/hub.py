"""
Read datasets of the Hugging Face hub in JSONSchemaBench's layout, by name or from disk.

In this layout, each task is a config with splits, and each row has the columns `json_schema` and `unique_id`. If the
files are on this disk, in a directory or in the hub's cache, and the dataset card names each of them once, they are
read as other Parquet files are. All else is read with the `datasets` library, which takes a second and 100 MB to
import, and copies what it reads. A directory is first checked for references to files outside of it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath, PureWindowsPath

from pytest_jsbench.core.cases import safe_name
from pytest_jsbench.core.errors import DatasetError, nearest
from pytest_jsbench.core.files import FileReader, Unreadable, inside
from pytest_jsbench.core.text import describe_error, printable
from pytest_jsbench.datasets.base import ListedCase, Listing, Selection, choose_tasks
from pytest_jsbench.datasets.sources import parquet
from pytest_jsbench.datasets.sources.parquet_child import table_calls
from pytest_jsbench.datasets.sources.rows import table_cases

_SCHEMA = "json_schema"
_ID = "unique_id"
_SPLITS_ALL = "all"
#: Name of the config that contains all tasks; it is not a task itself.
_WHOLE = "default"
#: Time limit for the hub's response in seconds.
_PATIENCE = 5.0
#: Maximum size of a dataset card in bytes.
_LARGEST_CARD = 1_000_000
#: Files in which the `datasets` library looks for a description of the data files.
_CARDS = ("README.md", ".huggingface.yaml")
_FILE_KEYS = frozenset({"data_files", "data_dir", "path"})


def _list_rows(selection: Selection, configs: Sequence[str], find: Callable[[str], Iterable[ListedCase]]) -> Listing:
    """
    Return the selected rows, with `find` as the function that yields the rows of a config.

    A hub repository may also have a config `default` with all of its data; only the other configs are tasks.
    """
    parts = [name for name in configs if name != _WHOLE] or configs
    whole = selection.tasks is not None and _WHOLE in selection.tasks and _WHOLE in configs
    tasks = choose_tasks(selection.source, parts, None if whole else selection.tasks)
    entries = (entry for task in tasks for entry in islice(find(task), selection.limit))
    return Listing.from_entries(replace(selection, tasks=None), entries)


def choose_splits(selection: Selection, task: str, known: Sequence[str]) -> Sequence[str]:
    """Return the splits of a task to read; raise DatasetError if the task does not have the selected split."""
    if selection.split == _SPLITS_ALL:
        return known
    if selection.split not in known:
        expected = nearest(selection.split, [*known, _SPLITS_ALL])
        message = f"dataset '{selection.source}' has no split '{selection.split}' in {task}: {expected}"
        raise DatasetError(message, found=selection.split, expected=tuple(known), where=selection.source)
    return [selection.split]


def open_hub(selection: Selection, *, revision: str | None = None) -> Listing:
    """
    Open a hub dataset with the `datasets` library, its cache and its offline mode.

    The source is a directory, or a name that may end in `@` and a revision.
    """
    source = selection.source
    if importlib.util.find_spec("datasets") is None:
        raise _missing_library_error(source)
    repository = source.removesuffix(f"@{revision}") if revision else source
    if not Path(repository).exists() and (cached := _open_cached(selection, repository, revision)) is not None:
        return cached
    table_calls().let_go()  # it may have been started for this directory
    import datasets  # slow to import

    with _hide_output(), _offline_if_unreachable(repository, revision):
        try:
            configs: list[str] = datasets.get_dataset_config_names(repository, revision=revision)
        except Exception as error:
            raise _loading_error(source, error) from error
        return _list_rows(selection, configs, partial(_find_in_library, selection, repository, revision))


def _find_in_library(selection: Selection, repository: str, revision: str | None, task: str) -> Iterator[ListedCase]:
    import datasets

    source = selection.source
    try:
        loaded = datasets.load_dataset(repository, task, revision=revision)
    except Exception as error:
        raise _loading_error(source, error) from error
    for split in choose_splits(selection, task, list(loaded)):
        table = loaded[split]
        _check_columns(source, task, table.column_names)
        yield from table_cases(table, task=task, place=f"{source} {safe_name(task)}")


def _check_columns(source: str, task: str, columns: Sequence[str]) -> None:
    if missing := {_SCHEMA, _ID} - set(columns):
        message = (
            f"dataset '{source}' has no column {', '.join(sorted(missing))} in {task}; "
            f"expected {_SCHEMA} and {_ID}, as in JSONSchemaBench"
        )
        raise DatasetError(message, found=tuple(columns), expected=(_SCHEMA, _ID), where=source)


def _open_cached(selection: Selection, repository: str, revision: str | None) -> Listing | None:
    """
    Open a dataset in the hub's cache, if all selected files of its present revision are there.

    Each split must be one file, so that rows have the same numbers as in the library. If the hub cannot be reached, the
    cached revision is read.
    """
    from huggingface_hub import constants

    cache = Path(constants.HF_HUB_CACHE) / f"datasets--{repository.replace('/', '--')}"
    commit = _cached_commit(cache, revision)
    if commit is None:
        return None
    layout = find_layout(cache / "snapshots" / commit, root=cache)
    if layout is None or not _is_cached(layout, selection):
        return None
    if commit != revision and not constants.HF_HUB_OFFLINE and not _is_present(repository, revision, commit):
        return None
    reader = FileReader(root=cache)

    def find(task: str) -> Iterator[ListedCase]:
        place = f"{selection.source} {safe_name(task)}"
        check = partial(_check_columns, selection.source, task)
        for split in choose_splits(selection, task, list(layout[task])):
            (path,) = layout[task][split]
            yield from parquet.find(reader, path, task=task, place=place, check=check)

    return _list_rows(selection, [*layout, _WHOLE], find)


#: Name of a revision's directory in the hub's cache.
_COMMIT = re.compile(r"[0-9a-f]{40}")


def _cached_commit(cache: Path, revision: str | None) -> str | None:
    """Return the commit that the hub's cache has for a revision; None if there is none."""
    if revision is not None and _COMMIT.fullmatch(revision):
        return revision
    try:
        commit = FileReader(root=cache).read_text(cache / "refs" / (revision or "main")).strip()
    except Unreadable:
        return None
    return commit if _COMMIT.fullmatch(commit) else None


def _is_cached(layout: _Layout, selection: Selection) -> bool:
    """Return whether each split of the selected tasks is one file in the cache."""
    chosen = selection.tasks
    tasks = list(layout) if chosen is None or _WHOLE in chosen else [task for task in layout if task in chosen]
    splits = [paths for task in tasks for paths in layout[task].values()]
    return bool(splits) and all(len(paths) == 1 and paths[0].name.endswith(_ONLY_FILE) for paths in splits)


#: End of the name of a split's only file.
_ONLY_FILE = "00000-of-00001.parquet"


def _is_present(repository: str, revision: str | None, commit: str) -> bool:
    """Return whether a revision is this commit on the hub, or the hub cannot be reached."""
    found, fault = _commit_on_hub(repository, revision)
    return found == commit or fault is not None


def _missing_library_error(source: str) -> DatasetError:
    message = f"dataset '{source}' needs the package datasets: pip install 'pytest-jsbench[datasets]'"
    if not Path(source).expanduser().exists():
        message += " (no local file or directory has this name, so it is a name on the hub)"
    return DatasetError(message)


def _loading_error(source: str, error: Exception) -> DatasetError:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return DatasetError(
        f"cannot load dataset '{source}': {reason}; "
        "or use a local copy with the same layout: --jsbench-dataset=PATH/TO/DIRECTORY"
    )


@contextlib.contextmanager
def _offline_if_unreachable(repository: str, revision: str | None) -> Iterator[None]:
    """
    Switch to offline mode, as with HF_HUB_OFFLINE=1, if the hub cannot be reached.

    In offline mode, the library reads its cache, and reports missing data at once. Otherwise, it would retry for half a
    minute.
    """
    import datasets
    import huggingface_hub.constants as hub

    fault = None if Path(repository).exists() else _commit_on_hub(repository, revision)[1]
    if fault is None:
        yield
        return
    before = datasets.config.HF_HUB_OFFLINE, hub.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = hub.HF_HUB_OFFLINE = True
    try:
        yield
    except DatasetError as error:
        raise DatasetError(f"cannot reach {hub.ENDPOINT} ({fault}), and {error}") from error
    finally:
        datasets.config.HF_HUB_OFFLINE, hub.HF_HUB_OFFLINE = before


def _commit_on_hub(repository: str, revision: str | None) -> tuple[str | None, str | None]:
    """
    Return the commit of a revision on the hub, or on the mirror in HF_ENDPOINT, and the reason if the hub cannot be
    reached.

    Both are None if the hub rejects the request; the library will report the problem.
    """
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        found = huggingface_hub.HfApi().dataset_info(repository, revision=revision, timeout=_PATIENCE)
    except (HfHubHTTPError, OfflineModeIsEnabled):
        return None, None
    except Exception as error:  # noqa: BLE001  the type depends on the HTTP library of the hub's client
        return None, describe_error(error, limit=120)
    return found.sha, None


@contextlib.contextmanager
def _hide_output() -> Iterator[None]:
    """Hide the library's progress bars and log lines, which would appear in the middle of pytest's output."""
    import datasets

    bars = datasets.utils.logging.is_progress_bar_enabled()
    loggers = [logging.getLogger(name) for name in ("datasets", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    datasets.disable_progress_bars()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if bars:
            datasets.enable_progress_bars()


def check_folder(folder: Path) -> None:
    """Raise DatasetError if a link in the directory, or its dataset card, refers to a file outside of the directory."""
    for path in folder.rglob("*"):
        if path.is_symlink() and not inside(folder, path):
            raise DatasetError(
                f"{printable(str(path))}: is a symbolic link out of {folder}; expected targets inside of it"
            )
    for name in _CARDS:
        for value in _file_names(_front_matter(folder, name)):
            if not _is_inside(value):
                message = f"refers to the file '{printable(value, 100)}'; expected a path inside of the directory"
                raise DatasetError(f"{folder / name} {message}")


def read_card(folder: Path, name: str = _CARDS[0], *, root: Path | None = None) -> str:
    """Return the text of a directory's dataset card; raise Unreadable if it cannot be read, or is outside of `root`."""
    return FileReader(root=root or folder, largest=_LARGEST_CARD).read_text(folder / name)


def _front_matter(folder: Path, name: str) -> object:
    if not (folder / name).exists():
        return None
    from pytest_jsbench.datasets.yaml_text import parse_yaml

    try:
        text = read_card(folder, name).replace("\r\n", "\n")
        if name.endswith(".md"):
            text = text.partition("---\n")[2].partition("\n---")[0] if text.startswith("---") else ""
        if not text.strip():
            return None
        if importlib.util.find_spec("yaml") is None:
            raise _missing_library_error(str(folder))
        return parse_yaml(text)
    except Unreadable as error:
        # reject the card here: the library parses YAML differently, and might accept it
        has_path = str(folder) in str(error)
        raise DatasetError(str(error if has_path else Unreadable(error.problem, path=folder / name))) from None


def _file_names(value: object, *, names_file: bool = False) -> Iterator[str]:
    """Yield the file names in the card, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _file_names(inner, names_file=names_file or key in _FILE_KEYS)
    elif isinstance(value, list):
        for inner in value:
            yield from _file_names(inner, names_file=names_file)
    elif names_file and isinstance(value, str):
        yield value


def _is_inside(value: str) -> bool:
    windows = PureWindowsPath(value)
    rooted = windows.drive or windows.root or PurePosixPath(value).is_absolute() or value.startswith("~")
    return not (rooted or ".." in windows.parts or ":" in value)


#: Parquet files by split, for each task.
_Layout = Mapping[str, Mapping[str, Sequence[Path]]]


def open_folder(selection: Selection, folder: Path) -> Listing | None:
    """Open a directory whose dataset card names each of its files once; return None for any other layout."""
    layout = find_layout(folder)
    if layout is None or not all(paths for splits in layout.values() for paths in splits.values()):
        return None
    reader = FileReader(root=folder)

    def find(task: str) -> Iterator[ListedCase]:
        for split in choose_splits(selection, task, list(layout[task])):
            for path in layout[task][split]:
                yield from parquet.find(reader, path, task=task)

    return _list_rows(selection, [*layout, _WHOLE], find)


#: Names of files in a dataset card whose meaning is the same in the library and in pathlib.
_FILES = re.compile(r"(?!\.|__)[\w.-]+/(?:(?!\.|__)[\w.-]+)?\*?(?:\.parquet)?")


def find_layout(folder: Path, *, root: Path | None = None) -> _Layout | None:
    """
    Return the files by task and split, as in the dataset card; None if the card does not name each Parquet file once.

    The config with all data is left out. Files of the card that are missing are left out as well. The card may be a
    link to a file in `root`.
    """
    try:
        card = read_card(folder, root=root)
    except Unreadable:
        return None
    if importlib.util.find_spec("pyarrow") is None:  # `open_hub` reports the missing package
        return None
    layout: dict[str, dict[str, list[Path]]] = {}
    task = ""
    split = ""
    for line in card.splitlines():
        name, _, value = line.strip().removeprefix("-").strip().partition(": ")
        if name == "config_name":
            task = value
        elif name == "split":
            split = value
        elif name != "path" or task == _WHOLE:
            continue
        elif not (task and split and _FILES.fullmatch(value)) or split in layout.get(task, {}):
            return None
        else:
            layout.setdefault(task, {})[split] = sorted(folder.glob(value))
    files = sorted(path for splits in layout.values() for paths in splits.values() for path in paths)
    return layout if files and files == sorted(folder.rglob("*.parquet")) else None
