"""Marks of the suite's items: the task always, dialect and features where `-m` or `-k` asks for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import pytest

from pytest_jsbench.cases import CaseKey
from pytest_jsbench.datasets.base import Dataset
from pytest_jsbench.datasets.facts import DIALECTS, FEATURES
from pytest_jsbench.datasets.selecting import CaseFacts
from pytest_jsbench.records import Record

_MENTIONED = re.compile(r"[\w.\-]*jsbench_[\w.\-]*")

#: a case's marks, by its key; absent where it has none
Marks = Mapping[CaseKey, Sequence[str]]


def task_mark(task: str) -> str:
    """The mark of a task's cases."""
    return "jsbench_task_" + re.sub(r"\W", "_", task)


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


def register(config: pytest.Config, tasks: Iterable[str]) -> None:
    """Declare the marks, so that `--strict-markers` and `--markers` know them."""
    for task in dict.fromkeys(tasks):
        config.addinivalue_line("markers", f"{task_mark(task)}: a case of the task {task} (pytest-jsbench)")
    for name, meaning in _OF_SCHEMAS.items():
        config.addinivalue_line("markers", f"{name}: {meaning} (pytest-jsbench)")


def failure_mark(name: str) -> str:
    """The mark, and so the report keyword, of a failure type."""
    return f"jsbench_{name}"


def code_mark(code: str) -> str:
    """The mark of a project's own code."""
    return f"jsbench_code_{code}"


def add_markers(item: pytest.Item, record: Record) -> None:
    """Mark an item by how its attempt failed."""
    if record.verdict.failure_type is not None:
        item.add_marker(failure_mark(record.verdict.failure_type))
    for code in record.codes:
        line = f"{code_mark(code)}: set by pytest-jsbench, while it runs, on a case that a classifier calls so"
        if line not in item.config.getini("markers"):  # for --strict-markers, which cannot know it before
            item.config.addinivalue_line("markers", line)
        item.add_marker(code_mark(code))


def asked_for(config: pytest.Config) -> bool:
    """Whether `-m` or `-k` names a mark that depends on the schema, so that every schema must be read."""
    text = f"{config.option.markexpr} {config.option.keyword}".lower()
    return any(word in name for word in _MENTIONED.findall(text) for name in _OF_SCHEMAS)


def of_schemas(dataset: Dataset, *, default_dialect: str) -> Marks:
    """The dialect's mark and the features' of each case that holds a schema; reads them all."""
    marks: dict[CaseKey, Sequence[str]] = {}
    for key in dataset.keys():
        if (facts := CaseFacts(dataset, key, default_dialect).facts) is not None:
            marks[key] = (dialect_mark(facts.dialect), *sorted(map(feature_mark, facts.features)))
    return marks
