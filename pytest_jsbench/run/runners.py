"""Build the engines, limits and runners of a run's questions, each at first use."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from pytest_jsbench.adaptation.adapter import adapter
from pytest_jsbench.core.call_lock import CallLock
from pytest_jsbench.core.generations import Origin, ResponseFormat
from pytest_jsbench.core.json_values import digest, to_json
from pytest_jsbench.engines.base import Engine, EngineConfig, GrammarMatcher, without_credentials
from pytest_jsbench.engines.engine_secrets import build, check, describe, public
from pytest_jsbench.engines.engine_secrets import prepare as prepare_engine
from pytest_jsbench.engines.presets import subset_of
from pytest_jsbench.engines.registry import find, require_forwarding
from pytest_jsbench.records.records import AnsweredBy, AskedBy
from pytest_jsbench.records.setting_differences import RECORDED
from pytest_jsbench.run.attempts import Runner
from pytest_jsbench.run.call_layers import Limits, ScheduledStarts
from pytest_jsbench.run.case_rewriter import CaseRewriter
from pytest_jsbench.run.isolation import Isolation
from pytest_jsbench.run.labelled_attempts import AcceptanceRunner
from pytest_jsbench.run.limits import Admission, LimitsFile, Refused
from pytest_jsbench.run.project_runner import ProjectRunner
from pytest_jsbench.run.variants import errors_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pytest_jsbench.core.generations import GenerationParams
    from pytest_jsbench.engines.base import EngineFactory
    from pytest_jsbench.run.call_layers import Layer
    from pytest_jsbench.run.handover import Handover
    from pytest_jsbench.run.plan import Plan
    from pytest_jsbench.run.question import ForwardedCall, ProjectCall, Question
    from pytest_jsbench.run.variants import Variant
    from pytest_jsbench.verdicts import Judge

T = TypeVar("T", Engine, GrammarMatcher)


class Runners:
    """
    The runners of one process's questions, with the engines that they call and the limits of the calls.

    A run's session creates one object. Any thread may call its methods; the session closes it when no more attempts are
    made.
    """

    def __init__(
        self,
        plan: Plan,
        handover: Handover,
        *,
        judge: Callable[[], Judge],
        prepared: Mapping[str, EngineConfig],
        engines: Mapping[str, Engine],
        stop_recording: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._handover = handover
        self._judge = judge
        #: Engine configurations that another process has prepared, by the name of the variant.
        self._prepared = prepared
        #: Engines that the caller has opened and will close, by the name of the variant.
        self._given_engines = engines
        #: Function that ends the run because an answer cannot be recorded; its argument is the reason.
        self._stop_recording = stop_recording
        self._lock = threading.RLock()
        self._resources = ExitStack()
        self._runners: dict[str, Runner] = {}
        self._suite_runners: dict[str, Runner | AcceptanceRunner] = {}
        #: Configurations of the engines whose shared resources have been started, by the name of the variant.
        self._configs: dict[str, EngineConfig] = {}
        #: Engines that tests name, by a digest of variant and configuration, since a configuration may contain a key.
        self._test_engines: dict[str, Engine] = {}
        #: Lock for these engines alone: starting one may take long, and the variants' engines need not wait for it.
        self._starting = threading.Lock()
        #: Limits of the concurrent attempts of a project's tests, by the name of the variant.
        self._windows = {
            name: threading.BoundedSemaphore(variant.concurrency) for name, variant in plan.variants.items()
        }
        #: Limits by variant, by engine and model (which determine the price), and by server (which has its own rate
        #: limit).
        self._admissions: dict[tuple[str, AnsweredBy, str], Admission] = {}
        #: Reason why no more calls are made; None while calls are made.
        self._refusal: Refused | None = None

    def for_variant(self, variant: str) -> Runner:
        """Return the runner for the variant's engine."""
        with self._lock:
            if variant not in self._runners:
                settings = self._plan.variants[variant]
                # the judge starts while the engine imports its dependencies
                self._judge().start()
                engine = self._given_engines.get(variant)
                if engine is None:
                    engine = self._build(settings, lambda config: build(settings.factory, config))
                self._runners[variant] = self._new_runner(settings, engine)
            return self._runners[variant]

    def for_suite(self, variant: str) -> Runner | AcceptanceRunner:
        """Return the runner for the suite's attempts of the variant."""
        with self._lock:
            if variant not in self._suite_runners:
                self._suite_runners[variant] = self._new_suite_runner(self._plan.variants[variant])
            return self._suite_runners[variant]

    def for_call(self, question: Question, call: ProjectCall) -> ProjectRunner:
        """
        Return the runner for a call of a project's test: that of the variant, or of the engine that the test names.

        An engine that a test names has its own context length and price; the limits of the run still apply.
        """
        variant = self._plan.variants[question.attempt.variant]
        run = self.for_variant(variant.name)
        # if recorded answers are replayed, engines that tests name are not called
        config = variant.engine if self._replays else call.settings.engine_config(variant.engine)
        runner = run if config == variant.engine else self._with_engine(run, variant, config)
        prompt = call.prompt
        runner = replace(
            runner,
            template=runner.template if prompt is None else lambda _: prompt,
            origin=replace(
                runner.origin,
                first=call.first,
                equal_before=call.equal_before,
                same_before=call.same_before,
                test=call.settings.recorded_settings(),
            ),
        )
        if call.exchange is None:
            params = _factory_of(variant, config).sampled(config, self._params(variant, call))
            runner = replace(runner, params=params)
        else:
            runner = replace(runner, params=call.settings.params(runner.params))
            runner = self._forwarding(runner, variant, config, call.exchange)
        model = runner.origin.model
        is_of_run = model is None and runner.engine is run.engine
        return ProjectRunner(
            runner=runner,
            window=self._windows[variant.name],
            answered_by=None if is_of_run else _answered_by(runner.engine, model),
            asked_by=self.asked_by(question, call),
            exchange=call.exchange,
        )

    def asked_by(self, question: Question, call: ProjectCall) -> AskedBy:
        """
        Return the test that asks, with a digest of everything that affects an answer except the question: engine and
        sampling, or the origin of a passed answer.
        """
        if call.given is not None:
            return AskedBy(test=call.test, line=call.line, terms=digest(asdict(call.given.by)))
        variant = self._plan.variants[question.attempt.variant]
        params = self._params(variant, call).with_repeat(question.attempt.repeat)
        terms = {
            "engine": dump_settings(public(call.settings.engine_config(variant.engine))),
            **params.sampling,
        }
        if call.exchange is not None:
            terms["exchange"] = call.exchange.recorded_settings
        return AskedBy(test=call.test, line=call.line, terms=digest(terms))

    def admission(self, variant: str, who: AnsweredBy, config: EngineConfig) -> Admission:
        """Return the limits for calls of an engine; raise PriceError if cost is limited and the model has no price."""
        key = variant, who, f"{config.name}{_address_suffix(config)}{_key_suffix(config)}"
        with self._lock:
            if key not in self._admissions:
                # if other variants cost money, a local server without a price counts as free; the header reports this
                free = self._plan.limits.max_cost is None or (who.provider is None and bool(variant))
                price = None
                if not free:
                    from pytest_jsbench.metrics.prices import price_of

                    price = price_of(self._handover.metadata.of_variant(variant), who)
                self._admissions[key] = Admission(
                    self.limits_file(),
                    price=price,
                    provider=provider_name(who, config, self._plan.engines),
                    server=key[2],
                    concurrency=self._plan.variants[variant].concurrency,
                    interrupted=self._handover.interrupted,
                )
                if self._refusal is not None:
                    self._admissions[key].stop(self._refusal)
            return self._admissions[key]

    def limits_file(self) -> LimitsFile:
        """Open the file of limits that all processes of the run share."""
        return LimitsFile(self._handover.shared / "limits.db", self._plan.limits)

    def refuse(self, refusal: Refused) -> None:
        """Make no more calls, for the given reason."""
        with self._lock:
            self._refusal = self._refusal or refusal
            for admission in self._admissions.values():
                admission.stop(refusal)

    def close(self) -> None:
        """Close the engines and the limits."""
        with ExitStack() as last:  # each resource is closed even if closing another raises an error
            for admission in self._admissions.values():
                last.callback(admission.close)
            last.callback(self._resources.close)

    @property
    def _replays(self) -> bool:
        """Whether recorded answers are replayed."""
        return self._plan.spec.recordings.replay is not None

    def _new_suite_runner(self, variant: Variant) -> Runner | AcceptanceRunner:
        """
        Return a runner for labelled answers, for the answers of a provider's batches, or for the
        variant's engine.
        """
        labelled = self._plan.cases.labelled
        if labelled is not None:
            acceptor: GrammarMatcher = self._build(variant, variant.factory.build_matcher)
            return AcceptanceRunner(acceptor=acceptor, judge=self._judge(), instances=labelled.instances)
        if self._plan.spec.execution.batch is None:
            return self._with_load(variant, self.for_variant(variant.name))
        from pytest_jsbench.run.batch_answers import BatchedEngine

        info = replace(describe(variant.factory, variant.engine), streaming=False)
        runner = self._new_runner(variant, BatchedEngine(self._handover.answers, info))
        return replace(runner, retries=0, admission=None, isolation=None)

    def _new_runner(self, variant: Variant, engine: Engine) -> Runner:
        who = self._handover.metadata.of_variant(variant.name).engine_asked
        admission = self.admission(variant.name, who, variant.engine)
        return Runner(
            engine=self._recording(variant, engine),
            judge=self._judge(),
            template=variant.template.render,
            params=variant.sampled,
            retries=self._plan.spec.limits.retries,
            adapter=adapter(variant.adapt),
            rewriter=CaseRewriter.of(variant.rewrite, self._plan.policy.default_dialect),
            origin=Origin(run=variant.user_settings, rewrite="" if variant.rewrite is None else str(variant.rewrite)),
            context=variant.context or engine.info.context,
            comparers=self._plan.comparers,
            measures_load=self._plan.measures_load,
            admission=admission,
            isolation=self._isolation(variant, engine, admission),
        )

    def _isolation(self, variant: Variant, engine: Engine, admission: Admission) -> Isolation | None:
        """Return the layer that finds the request that breaks the variant's server; None if the user does not ask."""
        if not self._plan.spec.limits.isolate_crashes:
            return None
        server = f"{variant.engine.name}{_address_suffix(variant.engine)}"
        lock = CallLock(self._handover.shared / f"in-flight-{digest(server).removeprefix('sha256:')[:24]}.db")
        lock.create()
        return Isolation(
            lock=lock,
            check=partial(Limits(admission).call, lambda request, _: engine.generate(request)),
            patience=admission.patience,
            sleep=admission.sleep,
        )

    def _build(self, variant: Variant, make: Callable[[EngineConfig], T]) -> T:
        with errors_of(variant.name):
            made = make(self._prepare(variant))
        self._resources.callback(made.close)
        return made

    def _prepare(self, variant: Variant) -> EngineConfig:
        """Start the resources that the variant's engines share, unless they were started before."""
        name = variant.name
        if name not in self._configs:
            prepared = self._prepared.get(name)
            self._configs[name] = prepared or self._resources.enter_context(prepare(self._plan, variant))
        return self._configs[name]

    def _with_load(self, variant: Variant, runner: Runner) -> Runner:
        """Return the runner of the suite's attempts with the run's rate and plain calls, if it has any."""
        load = self._plan.load
        starts = None
        if load.rate is not None and runner.admission is not None:
            starts = ScheduledStarts(load.rate, runner.admission)
        layers: tuple[Layer, ...] = () if starts is None else (starts,)
        if load.plain_share is not None:
            from pytest_jsbench.run.plain_calls import PlainCalls

            engine = self._build(
                variant, lambda config: build(variant.factory, replace(config, response_format=ResponseFormat.TEXT))
            )
            plain = replace(runner, engine=engine, load_layers=layers)
            layers = (PlainCalls(plain, load.plain_share, starts=starts), *layers)
        return replace(runner, load_layers=layers) if layers else runner

    def _with_engine(self, runner: Runner, variant: Variant, config: EngineConfig) -> Runner:
        """Return the runner with the engine that a test names, and with its context, adapter and limits."""
        engine = self._test_engine(variant, config)
        mode, _, _ = variant.adapt.partition(":")
        subset = subset_of(config.name)
        return replace(
            runner,
            engine=engine,
            context=variant.context or engine.info.context,
            admission=self.admission(variant.name, _answered_by(engine), config),
            isolation=None,
            adapter=runner.adapter if mode == "verbatim" or subset is None else adapter(f"{mode}:{subset}"),
        )

    def _test_engine(self, variant: Variant, config: EngineConfig) -> Engine:
        name = digest([variant.name, dump_settings(to_json(config))])
        with self._starting:
            if name not in self._test_engines:
                factory = _factory_of(variant, config)
                check(factory, config)
                prepared = self._resources.enter_context(prepare_engine(factory, config))
                engine = self._recording(variant, build(factory, prepared, variant.engine))
                self._resources.callback(engine.close)
                self._test_engines[name] = engine
            return self._test_engines[name]

    def _forwarding(self, runner: Runner, variant: Variant, config: EngineConfig, call: ForwardedCall) -> Runner:
        """
        Return the runner for a call by an application. The call is forwarded unchanged, and only the application
        retries it.
        """
        factory = _factory_of(variant, config)
        require_forwarding(factory, config.name, call.path)
        # a local server answers with its only model under any name; a recording contains the model's name
        named = not factory.shared and config.name not in RECORDED
        model = call.model if named and call.model not in ("", runner.engine.info.model) else None
        admission = runner.admission
        if model is not None:
            admission = self.admission(variant.name, _answered_by(runner.engine, model), config)
        test = {**runner.origin.test, **call.recorded_settings}
        return replace(
            runner,
            params=call.params(runner.params),
            adapter=None,
            rewriter=None,
            context=None,
            origin=replace(runner.origin, exchange=call, model=model, test=test),
            admission=admission,
        )

    def _params(self, variant: Variant, call: ProjectCall) -> GenerationParams:
        """Return the sampling parameters of a test's call."""
        params = variant.params
        config = call.settings.engine_config(variant.engine)
        if config.name != variant.engine.name and not self._replays and "max_tokens" not in variant.user_settings:
            params = structs.replace(params, max_tokens=_factory_of(variant, config).max_tokens)
        return call.settings.params(params)

    def _recording(self, variant: Variant, engine: Engine) -> Engine:
        """Return the engine; if the variant records answers, it is wrapped so that they are written to a file."""
        recording = variant.recording
        if recording is None:
            return engine
        from pytest_jsbench.engines.recorded.engine import RecordingEngine

        return RecordingEngine(
            engine,
            recording.path,
            only_new=recording.only_new,
            strict=recording.strict,
            lost=self._stop_recording,
        )


def _factory_of(variant: Variant, config: EngineConfig) -> EngineFactory:
    """Return the factory of an engine that a test's call uses: the variant's, unless the test names another engine."""
    return variant.factory if config.name == variant.engine.name else find(config.name)


def prepare(plan: Plan, variant: Variant) -> AbstractContextManager[EngineConfig]:
    """
    Start the resources of a variant's engine that the processes of the run share; nothing is started if no model is
    called.
    """
    if plan.cases.labelled is not None:
        return nullcontext(variant.engine)
    return prepare_engine(variant.factory, variant.engine)


def provider_name(who: AnsweredBy, config: EngineConfig, engines: Collection[EngineConfig]) -> str:
    """
    Return the name under which the state of the provider is tracked and reported.

    The name includes the address or the environment variable of the key if the run's variants differ in them, since
    calls to one address or with one key may fail while other calls succeed.
    """
    at = _address_suffix(config) if len({engine.base_url for engine in engines}) > 1 else ""
    key = _key_suffix(config) if len({engine.api_key_env for engine in engines}) > 1 else ""
    return f"{who.engine} {who.model}{at}{key}"


def dump_settings(value: object) -> str:
    """Return settings as JSON text; engine options in a marker may be objects of any type."""
    return json.dumps(value, sort_keys=True, default=repr)


def _answered_by(engine: Engine, model: str | None = None) -> AnsweredBy:
    return AnsweredBy(engine=engine.info.engine, model=model or engine.info.model, provider=engine.info.provider)


def _address_suffix(config: EngineConfig) -> str:
    return f" at {without_credentials(config.base_url)}" if config.base_url else ""


def _key_suffix(config: EngineConfig) -> str:
    return f" with {config.api_key_env}" if config.api_key_env else ""
