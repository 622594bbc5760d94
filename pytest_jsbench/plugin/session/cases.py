"""The cases of the run: selected once, by the only process or by xdist's controller, and handed to the workers."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.datasets.base import CaseSource, Listing
from pytest_jsbench.datasets.conditions import Subject
from pytest_jsbench.records.outcomes import AttemptOutcome
from pytest_jsbench.schemas.features import DIALECTS, FEATURES
from pytest_jsbench.settings.plan import Cases

if TYPE_CHECKING:
    from pytest_jsbench.plugin.settings import Settings


def select(settings: Settings, handed: Mapping[str, Any]) -> tuple[Cases, Marks]:
    """Take what another process has handed over; select here where none has, or its files are on another host."""
    folder, selection = Path(handed.get("folder", "")), settings.selection
    said, strict = selection.to_dict(), selection.strict
    if selection.labelled or not handed or not folder.is_dir():
        from pytest_jsbench.datasets.selection import open_selected

        source = open_selected(selection)
        labelled = source if selection.labelled and isinstance(source, Listing) else None
        wanted = asked_for(settings.expressions)
        marks = of_schemas(source, default_dialect=selection.default_dialect) if wanted else {}
        return Cases(source=source, said=said, labelled=labelled, strict=strict), marks
    from pytest_jsbench.datasets.prepared import open_prepared
    from pytest_jsbench.datasets.registry import open_dataset

    prepared = open_prepared(folder, reopen=_once(lambda: open_dataset(selection)))
    handed_marks = {CaseKey.parse(key): marks for key, marks in handed["marks"].items()}
    return Cases(source=prepared, said=said, strict=strict), handed_marks


def hand_over(cases: Cases, marks: Marks, folder: Path) -> dict[str, Any]:
    """Write the cases down in a folder; return what `select` is to be given, as JSON values."""
    from pytest_jsbench.datasets.prepared import prepare

    prepare(cases.source, folder)
    return {"folder": str(folder), "marks": {str(key): list(names) for key, names in marks.items()}}


def _once(open_source: Callable[[], CaseSource]) -> Callable[[], CaseSource]:
    """Open it when it is first needed, and only once: the threads of all calls in flight come at the same time."""
    lock, opened = threading.Lock(), functools.cache(open_source)

    def get() -> CaseSource:
        with lock:
            return opened()

    return get


#: tests from which on the properties of each are few: pytest's JUnit file and its reports hold those of all
MANY = 10_000

_MENTIONED = re.compile(r"[\w.\-]*jsbench_[\w.\-]*")

#: a case's marks, by its key; absent where it has none
Marks = Mapping[CaseKey, Sequence[str]]


def task_mark(task: str) -> str:
    """The mark of a task's cases."""
    return "jsbench_task_" + re.sub(r"\W", "_", task)


def variant_mark(variant: str) -> str:
    """The mark of what one of the run's variants is asked."""
    return "jsbench_variant_" + re.sub(r"\W", "_", variant)


def dialect_mark(dialect: str) -> str:
    """The mark of the cases of a dialect."""
    return "jsbench_" + (dialect if dialect.startswith("draft") else f"draft-{dialect}").replace("-", "_")


def feature_mark(feature: str) -> str:
    """The mark of the cases whose schema has a feature."""
    return f"jsbench_{feature}"


_OF_SCHEMAS = {
    **{dialect_mark(name): f"the schema's dialect is {name}" for name in DIALECTS},
    **{feature_mark(name): f"the schema has {meaning}" for name, meaning in FEATURES.items()},
}


def register(config: pytest.Config, tasks: Iterable[str], variants: Iterable[str]) -> None:
    """Declare the marks, so that `--strict-markers` and `--markers` know them."""
    for task in dict.fromkeys(tasks):
        config.addinivalue_line("markers", f"{task_mark(task)}: a case of the task {task} (pytest-jsbench)")
    for variant in variants:
        config.addinivalue_line("markers", f"{variant_mark(variant)}: asked of the variant {variant} (pytest-jsbench)")
    for name, meaning in _OF_SCHEMAS.items():
        config.addinivalue_line("markers", f"{name}: {meaning} (pytest-jsbench)")


def failure_mark(name: str) -> str:
    """The mark, and so the report keyword, of a failure type."""
    return f"jsbench_{name}"


def code_mark(code: str) -> str:
    """The mark of a code that a classifier gave."""
    return f"jsbench_code_{code}"


def add_markers(item: pytest.Item, attempt: AttemptOutcome) -> None:
    """Mark an item by how its attempt failed."""
    if attempt.failure_type is not None:
        item.add_marker(failure_mark(attempt.failure_type))
    for code in attempt.codes:
        line = f"{code_mark(code)}: set by pytest-jsbench, while it runs, on a case that a classifier calls so"
        if line not in item.config.getini("markers"):  # for --strict-markers, which cannot know it before
            item.config.addinivalue_line("markers", line)
        item.add_marker(code_mark(code))


def asked_for(expressions: str) -> bool:
    """Whether what `-m` and `-k` say names a mark that depends on the schema, so that every schema must be read."""
    return any(word in name for word in _MENTIONED.findall(expressions.lower()) for name in _OF_SCHEMAS)


def of_schemas(dataset: CaseSource, *, default_dialect: str) -> Marks:
    """The dialect's mark and the features' of each case that holds a schema; reads them all."""
    marks: dict[CaseKey, Sequence[str]] = {}
    for key in dataset.keys():
        if (facts := Subject(dataset, key, default_dialect).facts) is not None:
            marks[key] = (dialect_mark(facts.dialect), *sorted(map(feature_mark, facts.features)))
    return marks
