"""
JSONSchemaBench's layout: one config per task, splits, rows of `json_schema` and `unique_id`; by name or on disk.

A folder that is laid out just as it is published is read file by file, as any Parquet files are. Names of the hub, and
folders in any other layout, are left to the `datasets` library, which takes a second and 100 MB to import, and copies
what it reads; first a folder is seen to name no file outside of it.
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
from pytest_jsbench.core.text import described, printable
from pytest_jsbench.datasets.base import ListedCase, Listing, Selection, choose_tasks
from pytest_jsbench.datasets.sources import parquet
from pytest_jsbench.datasets.sources.rows import of_table

_SCHEMA, _ID = "json_schema", "unique_id"
_SPLITS_ALL = "all"
#: the name of all tasks together, which is no task
_WHOLE = "default"
#: seconds in which a hub that is there says so
_PATIENCE = 5.0
#: bytes of a dataset card
_LARGEST_CARD = 1_000_000
#: where the library looks for a description of the files
_CARDS = ("README.md", ".huggingface.yaml")
_NAMING = frozenset({"data_files", "data_dir", "path"})


def _listing(selection: Selection, configs: Sequence[str], find: Callable[[str], Iterable[ListedCase]]) -> Listing:
    """
    The selection's part of the rows that are found by config.

    A hub repository may name its whole as one more config, `default`, and the tasks are its parts.
    """
    parts = [name for name in configs if name != _WHOLE] or configs
    whole = selection.tasks is not None and _WHOLE in selection.tasks and _WHOLE in configs
    tasks = choose_tasks(selection.source, parts, None if whole else selection.tasks)
    entries = (entry for task in tasks for entry in islice(find(task), selection.limit))
    return Listing.of(replace(selection, tasks=None), entries)


def choose_splits(selection: Selection, task: str, known: Sequence[str]) -> Sequence[str]:
    """The splits to take of a task; DatasetError where it has none of that name."""
    if selection.split == _SPLITS_ALL:
        return known
    if selection.split not in known:
        expected = nearest(selection.split, [*known, _SPLITS_ALL])
        message = f"dataset '{selection.source}' has no split '{selection.split}' in {task}: {expected}"
        raise DatasetError(message, found=selection.split, expected=tuple(known), where=selection.source)
    return [selection.split]


def open_hub(selection: Selection, *, revision: str | None = None) -> Listing:
    """
    The selection's part of a hub dataset, through the `datasets` library, its cache and its offline mode.

    The source is a folder; or a name, which ends in `@` and the revision where there is one.
    """
    source = selection.source
    if importlib.util.find_spec("datasets") is None:
        raise _needs_library(source)
    import datasets  # heavy: 2 s

    repository = source.removesuffix(f"@{revision}") if revision else source
    with _quiet(), _cached_where_unreachable(repository, revision):
        try:
            configs: list[str] = datasets.get_dataset_config_names(repository, revision=revision)
        except Exception as error:
            raise _unreachable(source, error) from error
        return _listing(selection, configs, partial(_find_in_library, selection, repository, revision))


def _find_in_library(selection: Selection, repository: str, revision: str | None, task: str) -> Iterator[ListedCase]:
    import datasets

    source = selection.source
    try:
        loaded = datasets.load_dataset(repository, task, revision=revision)
    except Exception as error:
        raise _unreachable(source, error) from error
    for split in choose_splits(selection, task, list(loaded)):
        table = loaded[split]
        columns = tuple(table.column_names)
        if missing := {_SCHEMA, _ID} - set(columns):
            message = (
                f"dataset '{source}' has no column {', '.join(sorted(missing))} in {task}; "
                f"expected {_SCHEMA} and {_ID}, as JSONSchemaBench has"
            )
            raise DatasetError(message, found=columns, expected=(_SCHEMA, _ID), where=source)
        yield from of_table(table, task=task, place=f"{source} {safe_name(task)}")


def _needs_library(source: str) -> DatasetError:
    message = f"dataset '{source}' needs the package datasets: pip install 'pytest-jsbench[datasets]'"
    if not Path(source).expanduser().exists():
        message += " (no file or folder here has this name, so it is one of the hub)"
    return DatasetError(message)


def _unreachable(source: str, error: Exception) -> DatasetError:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return DatasetError(
        f"cannot load dataset '{source}': {reason}; "
        "a local copy works too: --jsbench-dataset=PATH/TO/FOLDER in the hub's layout"
    )


@contextlib.contextmanager
def _cached_where_unreachable(repository: str, revision: str | None) -> Iterator[None]:
    """
    As with HF_HUB_OFFLINE=1 where no connection to the hub can be made.

    What is cached is then used at once, and what is not is an error at once, where the library would try again and
    again for half a minute.
    """
    import datasets
    import huggingface_hub.constants as hub

    if Path(repository).exists() or (fault := _no_connection(repository, revision)) is None:
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


def _no_connection(repository: str, revision: str | None) -> str | None:
    """Why no connection to the hub, or the mirror that HF_ENDPOINT names, can be made; None when all is well."""
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        huggingface_hub.HfApi().dataset_info(repository, revision=revision, timeout=_PATIENCE)
    except (HfHubHTTPError, OfflineModeIsEnabled):
        return None  # an answer; the library says what it means
    except Exception as error:  # noqa: BLE001  of whichever HTTP library the hub's client uses
        return described(error, limit=120)
    return None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's progress bars and log lines, which would stand in the middle of pytest's output."""
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
    """DatasetError where a file of the folder is a link out of it, or its card names one that is not inside."""
    for path in folder.rglob("*"):
        if path.is_symlink() and not inside(folder, path):
            raise DatasetError(f"{printable(str(path))}: leads out of {folder}")
    for name in _CARDS:
        for value in _named(_front_matter(folder, name)):
            if not _is_inside(value):
                message = f"{folder / name} names the file '{printable(value, 100)}'; expected a relative path inside"
                raise DatasetError(message)


def read_card(folder: Path, name: str = _CARDS[0]) -> str:
    """The text of a folder's card; Unreadable where there is none."""
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
            raise _needs_library(str(folder))
        return parse_yaml(text)
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


#: task to split to files
_Layout = Mapping[str, Mapping[str, Sequence[Path]]]


def open_folder(selection: Selection, folder: Path) -> Listing | None:
    """The selection's part of a folder as it is published; None where it is laid out otherwise."""
    layout = find_layout(folder)
    if layout is None:
        return None
    reader = FileReader(root=folder)

    def find(task: str) -> Iterator[ListedCase]:
        for split in choose_splits(selection, task, list(layout[task])):
            for path in layout[task][split]:
                yield from parquet.find(reader, path, task=task)

    return _listing(selection, [*layout, _WHOLE], find)


def find_layout(folder: Path) -> _Layout | None:
    """Sort the files by the folder's card; None where it is laid out otherwise."""
    try:
        card = read_card(folder)
    except Unreadable:
        return None
    if importlib.util.find_spec("pyarrow") is None:  # what to do without it is the library's to say
        return None
    layout: dict[str, dict[str, list[Path]]] = {}
    task = split = ""
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
    whole = bool(splits) and all(splits) and files == sorted(folder.rglob("*.parquet"))
    return layout if whole else None
