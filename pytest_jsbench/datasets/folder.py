"""Schema files: one file, or a folder of `*.json`, whose sub-folders are the tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_jsbench.cases import BrokenCase, Case, CaseKey, safe_name
from pytest_jsbench.datasets.base import Selection, choose_tasks, parse_case
from pytest_jsbench.errors import DatasetError


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderDataset:
    """Cases that are files, read one by one when they are asked for."""

    files: Mapping[CaseKey, Path]

    @classmethod
    def open(cls, selection: Selection, paths: Sequence[Path], *, root: Path) -> FolderDataset:
        """The selection's part of these files; the task of a file is the folder it stands in."""
        by_task: dict[str, list[Path]] = {}
        for path in sorted(paths):
            folder = path.parent.relative_to(root).as_posix()
            task = safe_name(root.resolve().name or "schemas" if folder == "." else folder)
            by_task.setdefault(task, []).append(path)
        found: dict[CaseKey, Path] = {}
        for task in choose_tasks(selection.source, list(by_task), selection.tasks):
            for path in by_task[task][: selection.limit]:
                key = CaseKey(task=task, id=safe_name(path.stem))
                if key in found:
                    message = f"{path} and {found[key]} would both be case {key}: rename one of them"
                    raise DatasetError(message)
                found[key] = path
        return cls(files=found)

    def keys(self) -> Sequence[CaseKey]:
        """The selected cases."""
        return tuple(self.files)

    def case(self, key: CaseKey) -> Case | BrokenCase:
        """One of them; broken where its file cannot be read or holds no JSON Schema."""
        path = self.files[key]
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            return BrokenCase(key=key, problem=f"{path}: cannot be read: {error}")
        return parse_case(key, text, where=str(path))
