"""
Read datasets of the Hugging Face hub in JSONSchemaBench's layout, by name or from disk.

In this layout, each task is a config with splits, and each row has the columns `json_schema` and `unique_id`. A
directory in exactly this layout is read file by file, as other Parquet files are. Hub names, and directories in other
layouts, are read with the `datasets` library, which takes a second and 100 MB to import, and copies what it reads. A
directory is first checked for references to files outside of it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
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
    import datasets  # slow to import

    repository = source.removesuffix(f"@{revision}") if revision else source
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
        columns = tuple(table.column_names)
        if missing := {_SCHEMA, _ID} - set(columns):
            message = (
                f"dataset '{source}' has no column {', '.join(sorted(missing))} in {task}; "
                f"expected {_SCHEMA} and {_ID}, as in JSONSchemaBench"
            )
            raise DatasetError(message, found=columns, expected=(_SCHEMA, _ID), where=source)
        yield from table_cases(table, task=task, place=f"{source} {safe_name(task)}")


def _missing_library_error(source: str) -> DatasetError:
    message = f"dataset '{source}' needs the package datasets: pip install 'pytest-jsbench[datasets]'"
    if not Path(source).expanduser().exists():
        message += " (no local file or directory has this name, so it is a name on the hub)"
    return DatasetError(message)


def _loading_error(source: str, error: Exception) -> DatasetError:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return DatasetError(
        f"cannot load dataset '{source}': {reason}; "
        "or use a local copy in the hub's layout: --jsbench-dataset=PATH/TO/DIRECTORY"
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

    fault = None if Path(repository).exists() else _connection_fault(repository, revision)
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


def _connection_fault(repository: str, revision: str | None) -> str | None:
    """Return the reason why the hub, or the mirror in HF_ENDPOINT, cannot be reached; None if it can be reached."""
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        huggingface_hub.HfApi().dataset_info(repository, revision=revision, timeout=_PATIENCE)
    except (HfHubHTTPError, OfflineModeIsEnabled):
        return None  # the hub can be reached; the library will report the problem
    except Exception as error:  # noqa: BLE001  the type depends on the HTTP library of the hub's client
        return describe_error(error, limit=120)
    return None


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
            raise DatasetError(f"{printable(str(path))}: leads out of {folder}; expected links to files inside of it")
    for name in _CARDS:
        for value in _file_names(_front_matter(folder, name)):
            if not _is_inside(value):
                message = f"refers to the file '{printable(value, 100)}'; expected a path inside of the directory"
                raise DatasetError(f"{folder / name} {message}")


def read_card(folder: Path, name: str = _CARDS[0]) -> str:
    """Return the text of a directory's dataset card; raise Unreadable if the card cannot be read."""
    return FileReader(root=folder, largest=_LARGEST_CARD).read_text(folder / name)


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
    """Open a directory in exactly JSONSchemaBench's layout; return None for any other layout."""
    layout = find_layout(folder)
    if layout is None:
        return None
    reader = FileReader(root=folder)

    def find(task: str) -> Iterator[ListedCase]:
        for split in choose_splits(selection, task, list(layout[task])):
            for path in layout[task][split]:
                yield from parquet.find(reader, path, task=task)

    return _list_rows(selection, [*layout, _WHOLE], find)


def find_layout(folder: Path) -> _Layout | None:
    """Return the files by task and split, as in the dataset card; None if the directory has another layout."""
    try:
        card = read_card(folder)
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
        elif not task or value != f"{task}/{split}-*":
            return None
        else:
            layout.setdefault(task, {})[split] = sorted((folder / task).glob(f"{split}-*.parquet"))
    splits = [paths for by_split in layout.values() for paths in by_split.values()]
    files = sorted(path for paths in splits for path in paths)
    is_complete = bool(splits) and all(splits) and files == sorted(folder.rglob("*.parquet"))
    return layout if is_complete else None
