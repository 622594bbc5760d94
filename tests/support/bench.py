"""Whole pytest runs in a directory of their own, with scripted answers."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.remembered_packages import remember_packages
from tests.support.warm_python import OF_A_SESSION

#: Plugins that take longer to import than most tests here take to run, in each worker again.
SLOW_PLUGINS = ("hypothesispytest", "anyio")
#: Plugins that repeat tests, change their order or write reports; only the tests about them load them.
OTHER_PLUGINS = (
    "flaky",
    "html",
    "metadata",
    "pytest-retry",
    "pytest_jsonreport",
    "randomly",
    "rerunfailures",
    "timeout",
)
WITHOUT_SLOW_PLUGINS = tuple(f"-pno:{name}" for name in (*SLOW_PLUGINS, *OTHER_PLUGINS))
NUMBER = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "required": ["n"]}
#: Source of the module that each bench has next to its tests.
ANSWERING = Path(__file__).with_name("answering.py").read_text("utf-8")
COUNTED = "--jsbench-engine-option=answers=answering:counted"


def import_session_modules() -> None:
    """Import the modules of a session, since pytester unloads modules that were first imported in its runs."""
    for module in (
        *OF_A_SESSION,
        "numpy",  # its extension module cannot be loaded twice
        "httpcore2",  # httpx2, used by the applications' clients, imports it late and compares its exceptions by class
    ):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    remember_packages()


def unless_said(args: Iterable[str], *defaults: str) -> list[str]:
    """Return the options that the arguments do not set: two values of one option would be two variants."""
    names = {default: default[: default.rindex("=") + 1] for default in defaults}
    return [default for default, name in names.items() if not any(arg.startswith(name) for arg in args)]


@dataclass(kw_only=True)
class Bench:
    """A directory with schemas and scripted answers, and pytest run in it."""

    pytester: pytest.Pytester
    #: Directory below pytester's own.
    folder: str = ""
    workers: tuple[str, ...] = ()
    #: Answer by case id.
    answers: dict[str, Any] = field(default_factory=dict)
    #: Plugins to load in addition to the default ones.
    plugins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.write({"answering.py": ANSWERING})

    @property
    def path(self) -> Path:
        return self.pytester.path / self.folder

    def case(self, name: str, answer: Any = '{"n": 1}', *, task: str = "orders", schema: Any = None) -> None:
        """Add a case; a value that is not text is written to the answers file unchanged."""
        path = self.path / "schemas" / task / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(schema if isinstance(schema, str) else json.dumps(NUMBER if schema is None else schema))
        self.answers[name] = answer

    def arguments(self, *args: str) -> list[str]:
        self.write({"answers.json": json.dumps(self.answers)})
        return [
            *unless_said(args, "--jsbench-engine=scripted", "--jsbench-engine-option=answers=answers.json"),
            *unless_said(args, "--jsbench-dataset=schemas"),
            *self.quick,
            *args,
        ]

    @property
    def quick(self) -> list[str]:
        """The options of each run: its workers, and no third-party plugin that it does not need."""
        left_out = {"benchmark", *OTHER_PLUGINS, *SLOW_PLUGINS}.difference(self.plugins)
        return [*(f"-pno:{name}" for name in sorted(left_out)), *self.workers]

    def run(self, *args: str) -> pytest.RunResult:
        return self.pytester.runpytest_inprocess(*self.arguments(*args))

    def run_only(self, *args: str, **options: Any) -> pytest.RunResult:
        """Run pytest with only the engine and dataset that these options name."""
        return self.pytester.runpytest_inprocess(*self.quick, *args, **options)

    def run_subprocess(self, *args: str) -> pytest.RunResult:
        return self.pytester.runpytest_subprocess(*self.arguments(*args))

    def run_in(self, folder: str = "out") -> Path:
        """Return the only run in a directory of runs."""
        (run,) = (self.path / folder).iterdir()
        return run

    def lines(self, folder: str = "out") -> list[dict[str, Any]]:
        """Read the header and the records of a run from its file."""
        return [json.loads(line) for line in (self.run_in(folder) / "records.jsonl").read_text().splitlines()]

    def records(self, folder: str = "out") -> list[dict[str, Any]]:
        header, *records = self.lines(folder)
        assert header["type"] == "run"
        return records

    def run_json(self, folder: str = "out") -> dict[str, Any]:
        data: dict[str, Any] = json.loads((self.run_in(folder) / "run.json").read_text())
        return data

    def calls(self) -> list[str]:
        """Return the calls that answering functions have logged since the last time."""
        path = self.path / "calls.txt"
        lines = sorted(path.read_text().splitlines()) if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


#: Runs a test in one process, and again with two workers.
both_ways = pytest.mark.parametrize("bench", ["plain", pytest.param("xdist", marks=pytest.mark.slow)], indirect=True)
#: Runs a test only with two workers.
with_workers = pytest.mark.parametrize("bench", ["xdist"], indirect=True)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A finished run with one case of each outcome, with all its output."""

    bench: Bench
    result: pytest.RunResult
