"""The run as one process knows it: its cases and their marks, and how pytest's tests stand to it."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.core.cases import CaseKey, safe_name
from pytest_jsbench.datasets.base import CaseSource, Listing
from pytest_jsbench.plugin.configuration import Settings
from pytest_jsbench.plugin.output_masking import Secrecy
from pytest_jsbench.run.handover import Handover
from pytest_jsbench.run.session import RunSession
from pytest_jsbench.schemas.features import DIALECTS, FEATURES
from pytest_jsbench.settings.plan import Cases, Plan
from pytest_jsbench.verdicts import FailureType

if TYPE_CHECKING:
    from pytest_jsbench.records.outcomes import AttemptOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The run as this process knows it."""

    config: pytest.Config
    settings: Settings
    #: keeps secrets out of what is shown and sent
    secrecy: Secrecy
    session: RunSession
    #: the marks of single cases
    marks: Marks = field(default_factory=dict)
    #: xdist's name of this process; None in the only process and in the controller
    worker: str | None = None
    #: whether xdist may give this worker's tests to another, so that it must not call ahead of them
    steals: bool = False

    @property
    def plan(self) -> Plan:
        """The plan of the run."""
        return self.session.plan

    @property
    def handover(self) -> Handover:
        """The findings of its start."""
        return self.session.handover


RUN_CONTEXT = pytest.StashKey[RunContext]()

#: what a test asks through, and what its fixtures ask through for several tests; with variants both are parametrized
FIXTURE, SHARED = "jsbench", "jsbench_shared"


def variant_of(item: pytest.Item) -> str:
    """Name the variant that a project's test asks; empty where the run has one way to ask, or the test is not one."""
    callspec = getattr(item, "callspec", None)
    params = {} if callspec is None else callspec.params
    variant = params.get(FIXTURE, params.get(SHARED))
    return variant if isinstance(variant, str) else ""


def uses(item: pytest.Item, fixture: str) -> bool:
    """Say whether the test asks for the fixture, by itself or through another."""
    return isinstance(item, pytest.Function) and fixture in item.fixturenames


def key_of(nodeid: str, variant: str = "") -> CaseKey:
    """Name the case of a test, the same for all variants: its module, dotted, is the task."""
    path, _, name = nodeid.partition("::")
    name, _, parameters = name.partition("[")
    parameters = parameters.removesuffix("]")
    if variant:
        parameters = parameters.removeprefix(variant).removeprefix("-")
    name = name.replace("::", ".") + (f"-{parameters}" if parameters else "")
    return CaseKey(task=safe_name(path.removesuffix(".py").replace("/", ".")), id=safe_name(name))


#: tests from which on the properties of each are few: pytest's JUnit file and its reports hold those of all
MANY = 10_000

_MENTIONED = re.compile(r"[\w.\-]*jsbench_[\w.\-]*")

#: a case's marks, by its key; absent where it has none
Marks = Mapping[CaseKey, Sequence[str]]


def select(settings: Settings, handed: Mapping[str, Any]) -> tuple[Cases, Marks]:
    """Take the cases that the controller has handed over, or select them where none has."""
    selection, description = settings.selection, settings.selection.to_dict()
    if handed and not selection.labelled:
        from pytest_jsbench.datasets.prepared import open_prepared
        from pytest_jsbench.datasets.registry import open_dataset

        prepared = open_prepared(Path(handed["folder"]), reopen=_once(lambda: open_dataset(selection)))
        marks: Marks = {CaseKey.parse(key): names for key, names in handed["marks"].items()}
        return Cases(source=prepared, said=description, strict=selection.strict), marks
    from pytest_jsbench.datasets.selection import open_selected

    source = open_selected(selection)
    labelled = source if selection.labelled else None
    marks = _marks_of_schemas(source, selection.default_dialect) if asked_for(settings.expressions) else {}
    return Cases(source=source, said=description, labelled=labelled, strict=selection.strict), marks


def hand_over(cases: Cases, marks: Marks, folder: Path) -> dict[str, Any]:
    """Write the cases down in a folder; return what `select` is to be given, as JSON values."""
    from pytest_jsbench.datasets.prepared import prepare

    prepare(cases.source, folder)
    return {"folder": str(folder), "marks": {str(key): list(names) for key, names in marks.items()}}


def _once(open_source: Callable[[], Listing]) -> Callable[[], Listing]:
    """Open it when it is first needed, and only once: the threads of all calls in flight come at the same time."""
    lock, opened = threading.Lock(), functools.cache(open_source)

    def get() -> Listing:
        with lock:
            return opened()

    return get


def mark(*parts: str) -> str:
    """Write the name of a mark: `mark("task", "Git hub")` is `jsbench_task_Git_hub`."""
    return "_".join(["jsbench", *(re.sub(r"\W", "_", part) for part in parts)])


def dialect_mark(dialect: str) -> str:
    """Write the name of the mark of the cases of a dialect."""
    return mark(dialect) if dialect.startswith("draft") else mark("draft", dialect)


_OF_SCHEMAS = {
    **{dialect_mark(name): f"the schema's dialect is {name}" for name in DIALECTS},
    **{mark(name): f"the schema has {meaning}" for name, meaning in FEATURES.items()},
}


def declare_marks(config: pytest.Config, plan: Plan) -> None:
    """Declare the marks, so that `--strict-markers` and `--markers` know them."""
    tasks = dict.fromkeys(key.task for key in plan.keys)
    meanings = {
        **{mark(kind): "set by pytest-jsbench, while it runs, on a case that ended so" for kind in FailureType},
        **{mark("task", task): f"a case of the task {task} (pytest-jsbench)" for task in tasks},
        **{mark("variant", name): f"asked of the variant {name} (pytest-jsbench)" for name in plan.variants if name},
        **{name: f"{meaning} (pytest-jsbench)" for name, meaning in _OF_SCHEMAS.items()},
    }
    for name, meaning in meanings.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def add_markers(item: pytest.Item, attempt: AttemptOutcome) -> None:
    """Mark an item by how its attempt failed."""
    if attempt.failure_type is not None:
        item.add_marker(mark(attempt.failure_type))
    for code in attempt.codes:
        line = f"{mark('code', code)}: set by pytest-jsbench, while it runs, on a case that a classifier calls so"
        if line not in item.config.getini("markers"):  # for --strict-markers, which cannot know it before
            item.config.addinivalue_line("markers", line)
        item.add_marker(mark("code", code))


def asked_for(expressions: str) -> bool:
    """Say whether `-m` or `-k` names a mark that depends on the schema, so that every schema must be read."""
    return any(word in name for word in _MENTIONED.findall(expressions.lower()) for name in _OF_SCHEMAS)


def _marks_of_schemas(dataset: CaseSource, default_dialect: str) -> Marks:
    """Read all schemas, for the dialect's mark and the features' of each case that holds one."""
    from pytest_jsbench.datasets.conditions import Subject

    marks: dict[CaseKey, Sequence[str]] = {}
    for key in dataset.keys():
        if (facts := Subject(dataset, key, default_dialect).facts) is not None:
            marks[key] = (dialect_mark(facts.dialect), *sorted(map(mark, facts.features)))
    return marks
