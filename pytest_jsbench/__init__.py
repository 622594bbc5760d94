"""
Check whether a model, called through an engine, returns JSON that conforms to a schema.

The packages, from the lowest layer up (docs/architecture.md has the diagram):

    core                                shared values, errors, text, files
    schemas, prompts                    parse JSON Schema; render a case as messages
    datasets, adaptation, verdicts      read cases; adapt schemas to a provider's subset; judge answers
    records                             read and write the files of a run
    engines, metrics                    generate answers; compute metrics from records
    run, reports, fixture               make attempts; report on a run; the `jsbench` fixture for a project's tests
    plugin, cli, library                the pytest plugin; the command `jsbench`; the Python API

Packages in `lab/` are loaded through the entry points of pyproject.toml, like third-party packages. Importing
`pytest_jsbench` imports no subpackage: each name below is loaded on first use. `__all__` contains the names that
docs/library.md documents; the other names are for authors of engines.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, Prompt, Schema
    from pytest_jsbench.core.errors import JSBenchError
    from pytest_jsbench.core.generations import CallError, Completion, Declined, Failed, Request, Usage
    from pytest_jsbench.core.generations import DeclineReason as DeclineReason
    from pytest_jsbench.core.generations import EngineInfo as EngineInfo
    from pytest_jsbench.core.generations import FaultKind as FaultKind
    from pytest_jsbench.core.generations import FinishReason as FinishReason
    from pytest_jsbench.core.generations import ResponseFormat as ResponseFormat
    from pytest_jsbench.core.generations import Sent as Sent
    from pytest_jsbench.core.messages import Message, ToolCall
    from pytest_jsbench.core.timing import Stopwatch as Stopwatch
    from pytest_jsbench.core.timing import Timing
    from pytest_jsbench.core.version import __version__ as __version__
    from pytest_jsbench.engines.base import Engine as Engine
    from pytest_jsbench.engines.base import EngineConfig as EngineConfig
    from pytest_jsbench.fixture.conformance import assert_conforms, judge
    from pytest_jsbench.fixture.jsbench import Answer, JSBench
    from pytest_jsbench.library.dataset import Dataset
    from pytest_jsbench.library.engine import OpenEngine, open_engine
    from pytest_jsbench.library.evaluation import aevaluate, evaluate
    from pytest_jsbench.library.pydantic_models import EvalMetrics, EvalOutput, load_evaluation
    from pytest_jsbench.library.run import EvaluatedRun, load_run, plot_runs
    from pytest_jsbench.metrics.summary import Summary, summarize
    from pytest_jsbench.records.metadata import RunMetadata as RunMetadata
    from pytest_jsbench.records.records import Record
    from pytest_jsbench.records.runs import Run
    from pytest_jsbench.run.plan import RateLimits
    from pytest_jsbench.verdicts import FailureType, Judge, JudgePolicy, Verdict, Violation


_HOMES = {
    "fixture.jsbench": ("Answer", "JSBench"),
    "core.cases": ("BrokenCase", "Case", "CaseKey", "Prompt", "Schema"),
    "core.messages": ("Message", "ToolCall"),
    "core.errors": ("JSBenchError",),
    "library.dataset": ("Dataset",),
    "library.engine": ("OpenEngine", "open_engine"),
    "library.evaluation": ("aevaluate", "evaluate"),
    "library.pydantic_models": ("EvalMetrics", "EvalOutput", "load_evaluation"),
    "library.run": ("EvaluatedRun", "load_run", "plot_runs"),
    "run.plan": ("RateLimits",),
    "fixture.conformance": ("assert_conforms", "judge"),
    "engines.base": ("Engine", "EngineConfig"),
    "core.generations": (
        *("CallError", "Completion", "DeclineReason", "Declined", "EngineInfo", "Failed"),
        *("FaultKind", "FinishReason", "Request", "ResponseFormat", "Sent", "Usage"),
    ),
    "core.timing": ("Stopwatch", "Timing"),
    "records.runs": ("Run",),
    "records.metadata": ("RunMetadata",),
    "records.records": ("Record",),
    "metrics.summary": ("Summary", "summarize"),
    "core.version": ("__version__",),
    "verdicts": ("FailureType", "Judge", "JudgePolicy", "Verdict", "Violation"),
}

__all__ = [
    "Answer",
    "BrokenCase",
    "CallError",
    "Case",
    "CaseKey",
    "Completion",
    "Dataset",
    "Declined",
    "EvalMetrics",
    "EvalOutput",
    "EvaluatedRun",
    "Failed",
    "FailureType",
    "JSBench",
    "JSBenchError",
    "Judge",
    "JudgePolicy",
    "Message",
    "OpenEngine",
    "Prompt",
    "RateLimits",
    "Record",
    "Request",
    "Run",
    "Schema",
    "Summary",
    "Timing",
    "ToolCall",
    "Usage",
    "Verdict",
    "Violation",
    "aevaluate",
    "assert_conforms",
    "evaluate",
    "judge",
    "load_evaluation",
    "load_run",
    "open_engine",
    "plot_runs",
    "summarize",
]


if not TYPE_CHECKING:  # with `__getattr__`, type checkers would accept every name
    if find_spec("pydantic") is None:  # so that `import *` works without pydantic
        __all__ = [name for name in __all__ if name not in _HOMES["library.pydantic_models"]]

    def __getattr__(name: str) -> object:
        for module, names in _HOMES.items():
            if name in names:
                return getattr(importlib.import_module(f"{__name__}.{module}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
