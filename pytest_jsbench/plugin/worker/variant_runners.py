"""Makes the attempts of one variant: its engine, its limits, its prompt and its sampling."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pytest_jsbench.adaptation.adapter import adapter
from pytest_jsbench.core.generations import Origin
from pytest_jsbench.engines.addresses import without_credentials
from pytest_jsbench.engines.base import Acceptor, Engine, EngineConfig
from pytest_jsbench.engines.registry import require_acceptor
from pytest_jsbench.engines.secrets import build, describe
from pytest_jsbench.metrics.prices import price_of
from pytest_jsbench.plugin.session.context import RunContext, prepare
from pytest_jsbench.plugin.session.secrecy import usage_errors
from pytest_jsbench.runner.attempts import Runner
from pytest_jsbench.runner.limits import Admission, Refused
from pytest_jsbench.settings.variant import Variant, errors_of

if TYPE_CHECKING:
    from contextlib import ExitStack

    import pytest

    from pytest_jsbench.plugin.worker.items import JSBenchCase
    from pytest_jsbench.runs.records import AnsweredBy, Record
    from pytest_jsbench.verdicts import Judge

T = TypeVar("T", Engine, Acceptor)


class VariantRunner:
    """
    Makes the attempts of one variant in this process.

    The worker makes one for each of the run's variants. It calls `open` when the test loop begins, which builds the
    engine; after it the threads of the look-ahead enter `attempt`, and a project's tests `runner`, `admission` and
    `recorded` from whichever thread they ask in. `refuse`, from any thread, lets no more calls begin; the worker's
    resources close the engine, and `close` the limits.
    """

    def __init__(
        self,
        config: pytest.Config,
        context: RunContext,
        variant: Variant,
        *,
        judge: Callable[[], Judge],
        resources: ExitStack,
        lost: Callable[[str], None],
    ) -> None:
        self.variant = variant
        self._metadata = context.metadata_of(variant.name)
        self._config = config
        self._context = context
        self._judge = judge
        self._resources = resources
        #: told why an answer could not be recorded
        self._lost = lost
        self._lock = threading.RLock()
        #: None where no model is called
        self._runner: Runner | None = None
        self._batch_runner: Runner | None = None
        #: makes the record of a case; its second argument is the time at which the case was queued
        self._make: Callable[[JSBenchCase, float], Record] | None = None
        #: by the engine and model, which decide the price, and by the server, which has limits of its own
        self._admissions: dict[tuple[AnsweredBy, str], Admission] = {}
        #: why no more calls are made; None while they are made
        self._refusal: Refused | None = None

    def open(self, *, cases: bool) -> None:
        """Build what the tests will need; `cases` says whether any of the suite is among them."""
        if self._context.plan.cases.labelled is None:
            if self._context.plan.batch is None or not cases:
                self.runner()
            self._make = self._generated
        elif cases:
            self._make = self._acceptance()

    def attempt(self, item: JSBenchCase, planned_at: float) -> Record:
        """The record of the item's attempt; Refused where it may not be made."""
        assert self._make is not None
        record = self._make(item, planned_at)
        return replace(record, variant=self.variant.name) if self.variant.name else record

    def runner(self) -> Runner:
        """The runner of the variant's engine, built when it is first needed."""
        with self._lock:
            if self._runner is None:
                judge = self._judge()
                # it takes as long to start as an engine takes to import its SDK
                judge.start()
                engine = self.recorded(self._build(partial(build, self.variant.factory)))
                self._runner = self._new_runner(engine, judge)
            return self._runner

    def suite_runner(self) -> Runner:
        """The runner of the suite's attempts: of the variant's engine, or of the answers in the provider's batches."""
        if self._context.plan.batch is None:
            return self.runner()
        with self._lock:
            if self._batch_runner is None:
                from pytest_jsbench.runner.batches import BatchedEngine

                info = describe(self.variant.factory, self.variant.engine)
                engine = BatchedEngine(self._context.handover.answers, replace(info, streaming=False))
                runner = self._new_runner(self.recorded(engine), self._judge())
                self._batch_runner = replace(runner, retries=0, admission=None)
            return self._batch_runner

    def admission(self, who: AnsweredBy, config: EngineConfig) -> Admission:
        """The limits as they hold for an engine's calls; PriceError if cost is limited and the model has no price."""
        limits, server = self._context.handover.limits, f"{config.name}{_at(config)}{_with(config)}"
        with self._lock:
            if (who, server) not in self._admissions:
                # beside variants that are paid for, one's own server costs nothing, and the header says so
                free = limits.max_cost is None or (who.provider is None and bool(self.variant.name))
                price = None if free else price_of(self._metadata, who)
                self._admissions[who, server] = Admission(
                    self._context.handover.shared_limits(),
                    price=price,
                    provider=provider_name(who, config, self._context.plan.engines),
                    server=server,
                    concurrency=self.variant.concurrency,
                    interrupted=self._context.handover.interrupted,
                )
                if self._refusal is not None:
                    self._admissions[who, server].stop(self._refusal)
            return self._admissions[who, server]

    def recorded(self, engine: Engine) -> Engine:
        """The engine; with --jsbench-record each of its answers is written to a file."""
        kept = self.variant.recording
        if kept is None:
            return engine
        from pytest_jsbench.engines.recorded.engine import RecordingEngine

        return RecordingEngine(engine, kept.path, lost=self._lost, only_new=kept.only_new, strict=kept.strict)

    def refuse(self, refusal: Refused) -> None:
        """Make no more calls, for this reason."""
        with self._lock:
            self._refusal = self._refusal or refusal
            for admission in self._admissions.values():
                admission.stop(refusal)

    def close(self) -> None:
        """Let go of the limits."""
        for admission in self._admissions.values():
            admission.close()

    def _new_runner(self, engine: Engine, judge: Judge) -> Runner:
        variant = self.variant
        return Runner(
            engine=engine,
            judge=judge,
            template=variant.template.render,
            params=variant.sampled,
            retries=self._context.plan.retries,
            adapter=adapter(variant.adapt),
            origin=Origin(run=variant.said),
            context=variant.context or engine.info.context,
            comparers=self._context.plan.comparers,
            admission=self.admission(self._metadata.engine_asked, variant.engine),
        )

    def _generated(self, item: JSBenchCase, planned_at: float) -> Record:
        """Ask the engine for an answer to the case."""
        case = self._context.plan.cases.case(item.key)
        if self._context.plan.batch is not None:  # its answer is here: the controller waited for the batches
            return self.suite_runner().attempt(case, repeat=item.repeat)
        return self.runner().attempt(case, repeat=item.repeat, planned_at=planned_at)

    def _acceptance(self) -> Callable[[JSBenchCase, float], Record]:
        """What asks the engine's grammar which of a case's labelled answers it accepts."""
        from pytest_jsbench.runner.attempts import AcceptanceRunner

        labelled = self._context.plan.cases.labelled
        assert labelled is not None
        judge = self._judge()
        factory = require_acceptor(self.variant.factory, self.variant.engine.name)
        acceptor: Acceptor = self._build(factory.build_acceptor)
        runner = AcceptanceRunner(acceptor=acceptor, judge=judge)
        return lambda item, planned_at: runner.attempt(
            labelled.case(item.key), labelled.instances(item.key), planned_at=planned_at
        )

    def _build(self, build: Callable[[EngineConfig], T]) -> T:
        with usage_errors(self._config), errors_of(self.variant.name):
            prepared = self._context.handover.prepared.get(self.variant.name)
            built = build(prepared or self._resources.enter_context(prepare(self._context, self.variant)))
        self._resources.callback(built.close)
        return built


def provider_name(who: AnsweredBy, config: EngineConfig, engines: Collection[EngineConfig]) -> str:
    """
    Who is called, for what is known and said of how a provider is doing.

    Where the run's variants ask at several addresses, or with several keys, one may be down, or a key wrong, alone.
    """
    at = _at(config) if len({one.base_url for one in engines}) > 1 else ""
    key = _with(config) if len({one.api_key_env for one in engines}) > 1 else ""
    return f"{who.engine} {who.model}{at}{key}"


def _at(config: EngineConfig) -> str:
    return f" at {without_credentials(config.base_url)}" if config.base_url else ""


def _with(config: EngineConfig) -> str:
    return f" with {config.api_key_env}" if config.api_key_env else ""
