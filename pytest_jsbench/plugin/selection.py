"""The cases of the run: selected once, by the only process or by xdist's controller, and handed to the workers."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_jsbench.cases import CaseKey
from pytest_jsbench.datasets.base import Dataset, Selection
from pytest_jsbench.plugin.marks import Marks, asked_for, of_schemas

if TYPE_CHECKING:
    import pytest

    from pytest_jsbench.datasets.labelled import LabelledDataset


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The cases of the run, in order, and the marks of those that have any of their own."""

    dataset: Dataset
    #: the whole of it, where its labelled answers are asked about and no model is called
    labelled: LabelledDataset | None = None
    marks: Marks = field(default_factory=dict)

    @classmethod
    def open(cls, config: pytest.Config, selection: Selection) -> Selected:
        """Select the cases; DatasetError or ConditionError where that cannot be done."""
        from pytest_jsbench.datasets.selecting import open_selected, whole

        dataset = open_selected(selection)
        labelled = cast("LabelledDataset", whole(dataset)) if selection.labelled else None
        marks = of_schemas(dataset, default_dialect=selection.default_dialect) if asked_for(config) else {}
        return cls(dataset=dataset, labelled=labelled, marks=marks)

    @classmethod
    def take(cls, handed: Mapping[str, Any], config: pytest.Config, selection: Selection) -> Selected:
        """What another process has handed over; selected again where its files are out of reach (on another host)."""
        folder = Path(handed.get("folder", ""))
        if selection.labelled or not handed or not folder.is_dir():
            return cls.open(config, selection)
        from pytest_jsbench.datasets.prepared import PreparedDataset
        from pytest_jsbench.datasets.registry import open_dataset

        dataset = PreparedDataset.open(folder, reopen=_once(lambda: open_dataset(selection)))
        return cls(dataset=dataset, marks={CaseKey.parse(key): marks for key, marks in handed["marks"].items()})

    def hand_over(self, folder: Path) -> dict[str, Any]:
        """Write the cases down in a folder; what `take` is to be given, as JSON values."""
        from pytest_jsbench.datasets.prepared import prepare

        prepare(self.dataset, folder)
        return {"folder": str(folder), "marks": {str(key): list(marks) for key, marks in self.marks.items()}}


def _once(open_source: Callable[[], Dataset]) -> Callable[[], Dataset]:
    """Open it when it is first needed, and only once: the threads of all calls in flight come at the same time."""
    lock, opened = threading.Lock(), functools.cache(open_source)

    def get() -> Dataset:
        with lock:
            return opened()

    return get
