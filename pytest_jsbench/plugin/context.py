"""The state of a run in one process: the cases and their marks, and the fixtures that tests use."""

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
from pytest_jsbench.run.plan import Cases, Plan
from pytest_jsbench.run.session import RunSession
from pytest_jsbench.schemas.features import DIALECTS, FEATURES
from pytest_jsbench.verdicts import FailureType

if TYPE_CHECKING:
    from pytest_jsbench.records.outcomes import AttemptOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The run as seen by this process."""

    config: pytest.Config
    settings: Settings
    #: Masks secrets in what is shown and sent.
    secrecy: Secrecy
    session: RunSession
    #: Names of pytest marks by case.
    marks: Marks = field(default_factory=dict)
    #: xdist's name for this process; None in the single process and in the controller.
    worker: str | None = None
    #: Whether xdist may move this worker's tests to another worker, so that no calls may be made ahead of the tests.
    steals: bool = False

    @property
    def plan(self) -> Plan:
        """The plan of the run."""
        return self.session.plan

    @property
    def handover(self) -> Handover:
        """The results of the run's start."""
        return self.session.handover


RUN_CONTEXT = pytest.StashKey[RunContext]()

#: The fixture of a single test, and the fixture for answers that several tests share; both are parametrized if the run
#: has variants.
FIXTURE, SHARED = "jsbench", "jsbench_shared"


def variant_of(item: pytest.Item) -> str:
    """Return the variant that a project's test calls; empty if the run has no variants, and for other tests."""
    callspec = getattr(item, "callspec", None)
    params = {} if callspec is None else callspec.params
    variant = params.get(FIXTURE, params.get(SHARED))
    return variant if isinstance(variant, str) else ""


def uses(item: pytest.Item, fixture: str) -> bool:
    """Return whether the test uses the fixture, directly or through another fixture."""
    return isinstance(item, pytest.Function) and fixture in item.fixturenames


def key_of(nodeid: str, variant: str = "") -> CaseKey:
    """
    Return the case key of a test, which is the same for all variants; the dotted name of the test's
    module is the task.
    """
    path, _, name = nodeid.partition("::")
    name, _, parameters = name.partition("[")
    parameters = parameters.removesuffix("]")
    if variant:
        parameters = parameters.removeprefix(variant).removeprefix("-")
    name = name.replace("::", ".") + (f"-{parameters}" if parameters else "")
    return CaseKey(task=safe_name(path.removesuffix(".py").replace("/", ".")), id=safe_name(name))


#: Number of tests above which each test has only a few properties, since pytest's JUnit file and reports keep all
#: properties.
MANY = 10_000

_MENTIONED = re.compile(r"[\w.\-]*jsbench_[\w.\-]*")

#: Names of pytest marks by case; a case without marks is absent.
Marks = Mapping[CaseKey, Sequence[str]]


def select(settings: Settings, handed: Mapping[str, Any]) -> tuple[Cases, Marks]:
    """Read the cases that the controller passed, or select the cases if it passed none."""
    selection = settings.selection
    description = settings.selection.to_dict()
    if handed and not selection.labelled:
        from pytest_jsbench.datasets.prepared import open_prepared
        from pytest_jsbench.datasets.registry import open_dataset

        prepared = open_prepared(Path(handed["folder"]), reopen=_once(lambda: open_dataset(selection)))
        marks: Marks = {CaseKey.parse(key): names for key, names in handed["marks"].items()}
        return Cases(source=prepared, description=description, strict=selection.strict), marks
    from pytest_jsbench.datasets.selection import open_selected

    source = open_selected(selection)
    labelled = source if selection.labelled else None
    marks = _marks_of_schemas(source, selection.default_dialect) if selects_schema_marks(settings.expressions) else {}
    return Cases(source=source, description=description, labelled=labelled, strict=selection.strict), marks


def write_selection(cases: Cases, marks: Marks, folder: Path) -> dict[str, Any]:
    """Write the selected cases to a directory; return the arguments for `select` as JSON values."""
    from pytest_jsbench.datasets.prepared import prepare

    prepare(cases.source, folder)
    return {"folder": str(folder), "marks": {str(key): list(names) for key, names in marks.items()}}


def _once(open_source: Callable[[], Listing]) -> Callable[[], Listing]:
    """
    Return a function that opens the source at its first call, and only once, since the threads of all calls in flight
    call it at the same time.
    """
    lock = threading.Lock()
    opened = functools.cache(open_source)

    def get() -> Listing:
        with lock:
            return opened()

    return get


def mark(*parts: str) -> str:
    """Return the name of a mark: `mark("task", "Git hub")` returns `jsbench_task_Git_hub`."""
    return "_".join(["jsbench", *(re.sub(r"\W", "_", part) for part in parts)])


def dialect_mark(dialect: str) -> str:
    """Return the name of the mark for cases of a dialect."""
    return mark(dialect) if dialect.startswith("draft") else mark("draft", dialect)


_OF_SCHEMAS = {
    **{dialect_mark(name): f"the schema's dialect is {name}" for name in DIALECTS},
    **{mark(name): f"the schema has {meaning}" for name, meaning in FEATURES.items()},
}


def declare_marks(config: pytest.Config, plan: Plan) -> None:
    """Declare the marks, so that `--strict-markers` and `--markers` know them."""
    tasks = dict.fromkeys(key.task for key in plan.keys)
    meanings = {
        **{mark(kind): "set by pytest-jsbench on a case with this result" for kind in FailureType},
        **{mark("task", task): f"a case of the task {task} (pytest-jsbench)" for task in tasks},
        **{mark("variant", name): f"a test of the variant {name} (pytest-jsbench)" for name in plan.variants if name},
        **{name: f"{meaning} (pytest-jsbench)" for name, meaning in _OF_SCHEMAS.items()},
    }
    for name, meaning in meanings.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def add_markers(item: pytest.Item, attempt: AttemptOutcome) -> None:
    """Add marks to an item that show how its attempt failed."""
    if attempt.failure_type is not None:
        item.add_marker(mark(attempt.failure_type))
    for code in attempt.codes:
        line = f"{mark('code', code)}: set by pytest-jsbench during the run on a case with this code of a classifier"
        if line not in item.config.getini("markers"):  # for --strict-markers, since the name was unknown before
            item.config.addinivalue_line("markers", line)
        item.add_marker(mark("code", code))


def selects_schema_marks(expressions: str) -> bool:
    """Return whether `-m` or `-k` names a mark that depends on the schemas, so that every schema must be read."""
    return any(word in name for word in _MENTIONED.findall(expressions.lower()) for name in _OF_SCHEMAS)


def _marks_of_schemas(dataset: CaseSource, default_dialect: str) -> Marks:
    """Read all schemas, and return the marks for the dialect and the features of each case with a schema."""
    from pytest_jsbench.datasets.conditions import Subject

    marks: dict[CaseKey, Sequence[str]] = {}
    for key in dataset.keys():
        if (facts := Subject(dataset, key, default_dialect).facts) is not None:
            marks[key] = (dialect_mark(facts.dialect), *sorted(map(mark, facts.features)))
    return marks
