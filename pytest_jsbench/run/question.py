"""Describe an attempt that a session is to make: the case, who asks, and what a test sets for the call."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import structs

from pytest_jsbench.core.generations import Exchange
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.records.records import Record
from pytest_jsbench.records.rejudging import compare_values, verdict_on
from pytest_jsbench.settings.options import SAMPLING_OPTIONS

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Case, CaseKey, Prompt, Schema
    from pytest_jsbench.core.generations import Completion, GenerationParams, ResponseFormat
    from pytest_jsbench.records.records import AnsweredBy, Attempt
    from pytest_jsbench.records.repairs import RepairPlan
    from pytest_jsbench.records.transit import Transit
    from pytest_jsbench.values import Comparer
    from pytest_jsbench.verdicts import Judge


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSettings:
    """Engine and sampling settings of a test's calls; if a setting is None, the variant's value applies."""

    engine: str | None = None
    model: str | None = None
    base_url: str | None = field(default=None, repr=False)
    api_key_env: str | None = None
    response_format: ResponseFormat | None = None
    engine_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    #: Options of a single call by name, such as the temperature.
    call: Mapping[str, Any] = field(default_factory=dict)

    def recorded_settings(self) -> dict[str, Any]:
        """Return the settings in the form that a recording stores."""
        settings = EngineConfig(
            name=self.engine or "", model=self.model, response_format=self.response_format, options=self.engine_options
        ).public_settings()
        settings |= {name: self.call.get(name) for name in SAMPLING_OPTIONS}
        return {name: value for name, value in settings.items() if value not in (None, "")}

    def engine_config(self, run: EngineConfig) -> EngineConfig:
        """Return the configuration of the run's engine, or of the named engine, changed by these settings."""
        base = run if self.engine in {None, run.name} else EngineConfig(name=str(self.engine))
        names = ("model", "base_url", "api_key_env", "response_format")
        changes = {name: value for name in names if (value := getattr(self, name)) is not None}
        return dataclasses.replace(base, **changes, options={**base.options, **self.engine_options})

    def params(self, run: GenerationParams) -> GenerationParams:
        """Return the run's sampling parameters, changed by these settings."""
        return structs.replace(run, **{name: value for name, value in self.call.items() if value is not None})


class ForwardedCall(Exchange, Protocol):
    """A call that an application under test makes itself, with its own model, schemas and sampling parameters."""

    @property
    def model(self) -> str:
        """The model that the application requested; empty if it requested none."""

    @property
    def transit(self) -> Transit | None:
        """How the schemas of the request compare with the declared ones; None if no declared schema applies."""

    @property
    def recorded_settings(self) -> dict[str, Any]:
        """The settings of the call in the form that a recording stores."""

    def params(self, run: GenerationParams) -> GenerationParams:
        """Return the sampling parameters of the call; the timeout is that of the run."""

    def schema_for(self, answer: Completion) -> Schema | None:
        """Return the schema for judging the answer; None if there is no schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalAnswer:
    """An answer that an application got from its own client, and that a test passes to `jsbench.check`."""

    #: The answer in the form that an engine returns, without times.
    generation: Completion
    #: Model and provider of the answer, if given, for which the published prices apply.
    by: AnsweredBy

    def record(
        self,
        case: Case,
        prompt: Prompt | None,
        *,
        repeat: int,
        judge: Judge,
        comparers: Mapping[str, Comparer],
    ) -> Record:
        """
        Judge the answer like that of an engine, and return the record; if the schema is invalid, the attempt is
        excluded from the metrics.
        """
        problem = judge.inspect(case.schema)
        record = Record.of(
            key=case.key,
            repeat=repeat,
            schema=case.schema,
            prompt=None if problem else prompt,
            generation=None if problem else self.generation,
            verdict=problem or verdict_on(self.generation, case.schema, (), judge),
            started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            answered_by=self.by,
        )
        return record if problem else compare_values(record, case.expected, comparers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCall:
    """A call of a project's own test: the test, and what it sets in place of the variant's settings."""

    #: Node id of the test, or a name for shared answers.
    test: str
    #: Line in the test's file, counted from 1; None if unknown.
    line: int | None
    #: The prompt that the test sets; None if the run's default prompt with the schema is used.
    prompt: Prompt | None
    settings: CallSettings
    #: Key of the test's first question.
    first: CaseKey
    #: Number of earlier questions with the same prompt and schema in this run of the test.
    equal_before: int = 0
    #: Number of earlier questions with the same prompt, schema, API path and settings, for a call by an application;
    #: equal to `equal_before` for other questions.
    same_before: int = 0
    #: The application's call with the question; None if the test itself makes the call.
    exchange: ForwardedCall | None = None
    #: The answer that the test passed to `check`, so that no call is made; None if a call is made.
    given: ExternalAnswer | None = None

    #: How the test asks again for a wrong answer; None if only the run's option applies.
    repairs: RepairPlan | None = None

    @property
    def is_reusable(self) -> bool:
        """Whether an earlier answer to the same question may be used; an application's call is always made."""
        return self.exchange is None and self.given is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One attempt of the suite, of a project's own test, or of a probe."""

    attempt: Attempt
    #: Case of a test or a probe; None for the run's case with the attempt's key, which is read for the attempt.
    case: Case | None = None
    #: Call of a project's own test; None for the suite and a probe, whose records are found by the attempt.
    call: ProjectCall | None = None
    #: Time at which the attempt was queued (a value of time.perf_counter); None if it was not queued.
    planned_at: float | None = None
    #: Whether the test makes several attempts; the run's own repeats apply to the cases of the suite.
    is_repeated: bool = False
