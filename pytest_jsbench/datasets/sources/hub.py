"""JSONSchemaBench's layout: one config per task, splits, rows of `json_schema` and `unique_id`; by name or on disk."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, safe_name
from pytest_jsbench.core.errors import DatasetError, nearest
from pytest_jsbench.core.text import described
from pytest_jsbench.datasets.base import Row, Selection, choose_tasks, free_key
from pytest_jsbench.datasets.sources.rows import case_of

_SPLITS_ALL = "all"
#: the name of all tasks together, which is no task
WHOLE = "default"
#: seconds in which a hub that is there says so
_PATIENCE = 5.0


class Table(Protocol):
    """The part of `datasets.Dataset` that is used: rows on disk, read one by one."""

    @property
    def column_names(self) -> Sequence[str]:
        """What each row holds."""

    def __getitem__(self, index: int) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HubDataset:
    """Cases that are rows of Arrow tables, read one by one when they are asked for."""

    source: str
    rows: Mapping[CaseKey, tuple[Table, int]]

    @classmethod
    def open(cls, selection: Selection, *, revision: str | None = None) -> HubDataset:
        """
        The selection's part of a hub dataset, through the `datasets` library, its cache and its offline mode.

        The source is a folder; or a name, which ends in `@` and the revision where there is one.
        """
        if importlib.util.find_spec("datasets") is None:
            message = f"dataset '{selection.source}' needs the package datasets: pip install 'pytest-jsbench[datasets]'"
            if not Path(selection.source).expanduser().exists():
                message += " (no file or folder here has this name, so it is one of the hub)"
            raise DatasetError(message)
        rows: dict[CaseKey, tuple[Table, int]] = {}
        hub = _Hub(
            source=selection.source,
            repository=selection.source.removesuffix(f"@{revision}") if revision else selection.source,
            revision=revision,
        )
        with _quiet(), _cached_where_unreachable(hub):
            for task in choose_parts(selection, _configs(hub)):
                rows |= _task_rows(selection, hub, task)
        return cls(source=selection.source, rows=rows)

    def keys(self) -> Sequence[CaseKey]:
        """The selected cases."""
        return tuple(self.rows)

    def case(self, key: CaseKey) -> Case | BrokenCase:
        """One of them; broken where its row holds no JSON Schema."""
        table, index = self.rows[key]
        return case_of(key, table[index], where=f"{self.source} {key.task} row {index}")

    def all_rows(self) -> Iterator[tuple[CaseKey, Row]]:
        """Each case that is nothing but the text of a schema."""
        plain = {
            id(table) for table, _ in self.rows.values() if set(table.column_names) == {"json_schema", "unique_id"}
        }
        for key, (table, index) in self.rows.items():
            if id(table) in plain and isinstance(text := table[index]["json_schema"], str):
                yield key, Row(text=text, where=f"{self.source} {key.task} row {index}")


def choose_parts(selection: Selection, configs: Sequence[str]) -> list[str]:
    """The configs to take: a hub repository may name its whole as one more, `default`, and the tasks are its parts."""
    parts = [name for name in configs if name != WHOLE] or configs
    wanted = selection.tasks
    if wanted is not None and WHOLE in wanted and WHOLE in configs:
        wanted = None
    return choose_tasks(selection.source, parts, wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hub:
    """What the library is asked for, and how the user has named it."""

    source: str
    #: of the hub, or a folder
    repository: str
    #: a commit, tag or branch; None: the newest
    revision: str | None


def _configs(hub: _Hub) -> list[str]:
    import datasets  # heavy: 2 s

    try:
        names: list[str] = datasets.get_dataset_config_names(hub.repository, revision=hub.revision)
    except Exception as error:
        raise _unreachable(hub.source, error) from error
    return names


def _task_rows(selection: Selection, hub: _Hub, task: str) -> dict[CaseKey, tuple[Table, int]]:
    import datasets

    try:
        loaded = datasets.load_dataset(hub.repository, task, revision=hub.revision)
    except Exception as error:
        raise _unreachable(selection.source, error) from error
    rows: dict[CaseKey, tuple[Table, int]] = {}
    tried: dict[CaseKey, int] = {}
    for split in choose_splits(selection, task, list(loaded)):
        table = loaded[split]
        missing = {"json_schema", "unique_id"} - set(table.column_names)
        if missing:
            message = (
                f"dataset '{selection.source}' has no column {', '.join(sorted(missing))} in {task}; "
                "expected json_schema and unique_id, as JSONSchemaBench has"
            )
            raise DatasetError(
                message,
                found=tuple(table.column_names),
                expected=("json_schema", "unique_id"),
                where=selection.source,
            )
        for index, name in enumerate(table["unique_id"]):
            if selection.limit is not None and len(rows) >= selection.limit:
                return rows
            rows[free_key(rows, safe_name(task), str(name), tried)] = (table, index)
    return rows


def choose_splits(selection: Selection, task: str, known: Sequence[str]) -> Sequence[str]:
    """The splits to take of a task; DatasetError where it has none of that name."""
    if selection.split == _SPLITS_ALL:
        return known
    if selection.split not in known:
        expected = nearest(selection.split, [*known, _SPLITS_ALL])
        message = f"dataset '{selection.source}' has no split '{selection.split}' in {task}: {expected}"
        raise DatasetError(message, found=selection.split, expected=tuple(known), where=selection.source)
    return [selection.split]


def _unreachable(source: str, error: Exception) -> DatasetError:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return DatasetError(
        f"cannot load dataset '{source}': {reason}; "
        "a local copy works too: --jsbench-dataset=PATH/TO/FOLDER in the hub's layout"
    )


@contextlib.contextmanager
def _cached_where_unreachable(wanted: _Hub) -> Iterator[None]:
    """
    As with HF_HUB_OFFLINE=1 where no connection to the hub can be made.

    What is cached is then used at once, and what is not is an error at once, where the library would try again and
    again for half a minute.
    """
    import datasets
    import huggingface_hub.constants as hub

    if Path(wanted.repository).exists() or (fault := _no_connection(wanted)) is None:
        yield
        return
    before = datasets.config.HF_HUB_OFFLINE, hub.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = hub.HF_HUB_OFFLINE = True
    try:
        yield
    except DatasetError as error:
        message = f"cannot reach {hub.ENDPOINT} ({fault}), and {error}"
        raise DatasetError(message) from error
    finally:
        datasets.config.HF_HUB_OFFLINE, hub.HF_HUB_OFFLINE = before


def _no_connection(wanted: _Hub) -> str | None:
    """Why no connection to the hub, or the mirror that HF_ENDPOINT names, can be made; None when all is well."""
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        huggingface_hub.HfApi().dataset_info(wanted.repository, revision=wanted.revision, timeout=_PATIENCE)
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
