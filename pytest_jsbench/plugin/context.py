"""Define the state of a run in one process, and select the cases of the run and their pytest marks."""

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
from pytest_jsbench.core.guarded_calls import end_idle_children
from pytest_jsbench.datasets.base import CaseSource, Listing
from pytest_jsbench.plugin.configuration import Settings
from pytest_jsbench.plugin.output_masking import Secrecy
from pytest_jsbench.run.handover import Handover
from pytest_jsbench.run.plan import Cases, Plan
from pytest_jsbench.run.session import RunSession
from pytest_jsbench.schemas.features import DIALECTS, FEATURES
from pytest_jsbench.verdicts import FailureType

if TYPE_CHECKING:
    from pytest_jsbench.records.facts import AttemptFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The state of the run in this process."""

    config: pytest.Config
    settings: Settings
    #: Masks secrets in everything that pytest prints or sends between processes.
    secrecy: Secrecy
    session: RunSession
    #: Names of pytest marks by case.
    marks: Marks = field(default_factory=dict)
    #: Reasons why the failures of quarantined cases are excused, by case.
    excuses: Mapping[CaseKey, str] = field(default_factory=dict)
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
        """The data that the start of the run created for all processes."""
        return self.session.handover


RUN_CONTEXT = pytest.StashKey[RunContext]()

#: Names of the fixture for a single test, and of the fixture for answers that several tests share. If the run has
#: variants, both fixtures are parametrized.
FIXTURE, SHARED = "jsbench", "jsbench_shared"


def variant_of(item: pytest.Item) -> str:
    """Return the variant with which a project's test makes calls; empty for other tests, and without variants."""
    callspec = getattr(item, "callspec", None)
    params = {} if callspec is None else callspec.params
    variant = params.get(FIXTURE, params.get(SHARED))
    return variant if isinstance(variant, str) else ""


def uses(item: pytest.Item, fixture: str) -> bool:
    """Return whether the test uses the fixture, directly or through another fixture."""
    return isinstance(item, pytest.Function) and fixture in item.fixturenames


def key_of(nodeid: str, variant: str = "") -> CaseKey:
    """
    Return the case key of a project's test. The key is the same for all variants, and its task is the dotted name of
    the test's module.
    """
    path, _, name = nodeid.partition("::")
    name, _, parameters = name.partition("[")
    parameters = parameters.removesuffix("]")
    if variant:
        parameters = parameters.removeprefix(variant).removeprefix("-")
    name = name.replace("::", ".") + (f"-{parameters}" if parameters else "")
    return CaseKey(task=safe_name(path.removesuffix(".py").replace("/", ".")), id=safe_name(name))


#: Number of tests above which each test gets only a few properties: pytest keeps all properties in memory and writes
#: them to the JUnit file.
MANY = 10_000

_MENTIONED = re.compile(r"[\w.\-]*jsbench_[\w.\-]*")

#: Names of pytest marks by case; a case without marks is absent.
Marks = Mapping[CaseKey, Sequence[str]]


def select(settings: Settings, handed: Mapping[str, Any]) -> tuple[Cases, Marks]:
    """Read the cases that the controller selected (`handed`); select the cases if `handed` is empty."""
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
    """Write the selected cases to a directory; return the argument `handed` for `select`, as JSON values."""
    from pytest_jsbench.datasets.prepared import prepare

    prepare(cases.source, folder)
    end_idle_children()  # the workers read what was prepared
    return {"folder": str(folder), "marks": {str(key): list(names) for key, names in marks.items()}}


def _once(open_source: Callable[[], Listing]) -> Callable[[], Listing]:
    """
    Return a function that opens the source at its first call, and returns it again later; several threads may call the
    function at the same time.
    """
    lock = threading.Lock()
    opened = functools.cache(open_source)

    def get() -> Listing:
        with lock:
            return opened()

    return get


@functools.lru_cache(maxsize=1024)
def mark(*parts: str) -> str:
    """Return the name of a pytest mark; for example, `mark("task", "Git hub")` returns `jsbench_task_Git_hub`."""
    return "_".join(["jsbench", *(re.sub(r"\W", "_", part) for part in parts)])


def dialect_mark(dialect: str) -> str:
    """Return the name of the mark for cases of a dialect."""
    return mark(dialect) if dialect.startswith("draft") else mark("draft", dialect)


_OF_SCHEMAS = {
    **{dialect_mark(name): f"the schema's dialect is {name}" for name in DIALECTS},
    **{mark(name): f"the schema has {meaning}" for name, meaning in FEATURES.items()},
}


def declare_marks(config: pytest.Config, plan: Plan) -> None:
    """Declare the marks in pytest's configuration, for `--strict-markers` and `--markers`."""
    tasks = dict.fromkeys(key.task for key in plan.keys)
    meanings = {
        **{mark(kind): "set by pytest-jsbench on a case with this failure type" for kind in FailureType},
        **{mark("task", task): f"a case of the task {task} (pytest-jsbench)" for task in tasks},
        **{mark("variant", name): f"a test of the variant {name} (pytest-jsbench)" for name in plan.variants if name},
        **{name: f"{meaning} (pytest-jsbench)" for name, meaning in _OF_SCHEMAS.items()},
    }
    for name, meaning in meanings.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


@functools.lru_cache(maxsize=1024)
def _marker(name: str) -> pytest.MarkDecorator:
    """Return the same marker for equal names, because pytest keeps the markers of all items."""
    marker: pytest.MarkDecorator = getattr(pytest.mark, name)
    return marker


def add_markers(item: pytest.Item, attempt: AttemptFacts) -> None:
    """Add marks for the failure type and the codes of the attempt to the item."""
    if attempt.failure_type is not None:
        item.add_marker(_marker(mark(attempt.failure_type)))
    for code in attempt.codes:
        line = f"{mark('code', code)}: set by pytest-jsbench during the run on a case with this classifier code"
        if line not in item.config.getini("markers"):  # declared only now, since the code was unknown before
            item.config.addinivalue_line("markers", line)
        item.add_marker(_marker(mark("code", code)))


def selects_schema_marks(expressions: str) -> bool:
    """Return whether `-m` or `-k` contains a mark that depends on the schemas, so that all schemas must be read."""
    return any(word in name for word in _MENTIONED.findall(expressions.lower()) for name in _OF_SCHEMAS)


def _marks_of_schemas(dataset: CaseSource, default_dialect: str) -> Marks:
    """Read all schemas, and return the marks for the dialect and the features of each case with a schema."""
    from pytest_jsbench.datasets.conditions import Subject

    marks: dict[CaseKey, Sequence[str]] = {}
    for key in dataset.keys():
        if (facts := Subject(dataset, key, default_dialect).facts) is not None:
            marks[key] = (dialect_mark(facts.dialect), *sorted(map(mark, facts.features)))
    return marks
