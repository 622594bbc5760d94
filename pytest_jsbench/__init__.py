"""
Does this model, behind this engine, return JSON that conforms to my schema?

Reading order is import order; each module imports only what stands above it:

    errors, timing          what can go wrong; how long it took
    extensions              what installed packages bring by entry point
    cases                   the JSON Schemas to be answered
    typeschemas, contracts  schemas of Python types; what one answer must conform to
    prompts                 a case as messages
    generations, missing    what is asked of an engine and what comes back; why nothing did
    verdicts, statistics    the judge; pure numbers
    records, identity       one attempt, all that is needed to judge it again; what makes two runs ask the same
    outcomes, comparisons   how each case ended; what changed from one run to another
    classifiers             a project's own names for how attempts failed
    summaries               a run's metrics
    figures, gates          a metric by its name; the condition on it that decides the exit status
    engines, datasets       adapters to providers and sources
    journal, limits         records on disk, the moment they exist; what all processes of a run share
    evaluations             anyone's files of metrics
    runner, exports         attempts with retries; what is written at the end
    resumption, merging     an earlier run gone on with; shards put together
    batching                attempts handed in together as a provider's batches
    terms, asking           what a project's own test asks for; what it asks through, and the answer
    plugin, cli             pytest; the `jsbench` command

Importing this package imports none of them: the names below are loaded when they are used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_jsbench.asking import Answer, JSBench
    from pytest_jsbench.cases import Case, CaseKey
    from pytest_jsbench.conformance import assert_conforms
    from pytest_jsbench.engines.base import Engine, EngineConfig
    from pytest_jsbench.generations import CallError, Completion, Declined, EngineInfo, Failed, Request, Usage
    from pytest_jsbench.prompts import Message, Prompt
    from pytest_jsbench.records import Record, Run, RunMetadata
    from pytest_jsbench.summaries import Summary, summarize
    from pytest_jsbench.timing import Stopwatch, Timing
    from pytest_jsbench.verdicts import FailureType, Judge, JudgePolicy, Verdict, Violation, judge

__version__ = "0.1.0"

_HOMES = {
    "asking": ("Answer", "JSBench"),
    "cases": ("Case", "CaseKey"),
    "conformance": ("assert_conforms",),
    "engines.base": ("Engine", "EngineConfig"),
    "generations": ("CallError", "Completion", "Declined", "EngineInfo", "Failed", "Request", "Usage"),
    "prompts": ("Message", "Prompt"),
    "records": ("Record", "Run", "RunMetadata"),
    "summaries": ("Summary", "summarize"),
    "timing": ("Stopwatch", "Timing"),
    "verdicts": ("FailureType", "Judge", "JudgePolicy", "Verdict", "Violation", "judge"),
}

__all__ = [
    "Answer",
    "CallError",
    "Case",
    "CaseKey",
    "Completion",
    "Declined",
    "Engine",
    "EngineConfig",
    "EngineInfo",
    "Failed",
    "FailureType",
    "JSBench",
    "Judge",
    "JudgePolicy",
    "Message",
    "Prompt",
    "Record",
    "Request",
    "Run",
    "RunMetadata",
    "Stopwatch",
    "Summary",
    "Timing",
    "Usage",
    "Verdict",
    "Violation",
    "assert_conforms",
    "judge",
    "summarize",
]


if not TYPE_CHECKING:  # a type checker is to know the names above, and no others

    def __getattr__(name: str) -> object:
        for module, names in _HOMES.items():
            if name in names:
                return getattr(importlib.import_module(f"{__name__}.{module}"), name)
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
