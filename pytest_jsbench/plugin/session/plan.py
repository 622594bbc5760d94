"""What a run is to do: which cases are put to which engine, in which words and with which sampling."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import BatchError, JSBenchError
from pytest_jsbench.core.generations import GenerationParams
from pytest_jsbench.core.prompts import Template
from pytest_jsbench.engines.base import EngineConfig, EngineFactory
from pytest_jsbench.engines.registry import find, require_acceptor, require_batches, sampled
from pytest_jsbench.engines.secrets import check
from pytest_jsbench.plugin.session.cases import Selected
from pytest_jsbench.prompts import find_template

if TYPE_CHECKING:
    from pytest_jsbench.plugin.options.settings import Settings
    from pytest_jsbench.plugin.options.variant_settings import VariantSettings
    from pytest_jsbench.plugin.session.handover import Handover
    from pytest_jsbench.runner.classifiers import Classifier
    from pytest_jsbench.runs.records import Record

_HOOK = "pytest_jsbench_classify"


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantPlan:
    """What the attempts of one variant are made with."""

    settings: VariantSettings
    factory: EngineFactory
    template: Template
    params: GenerationParams
    #: its calls in flight in this process
    concurrency: int

    @classmethod
    def make(cls, settings: Settings, variant: VariantSettings, *, workers: int) -> VariantPlan:
        """Find everything by its name; JSBenchError where something is not there."""
        factory = _find_engine(settings, variant)
        return cls(
            settings=variant,
            factory=factory,
            template=find_template(variant.prompt, shots=variant.shots),
            params=GenerationParams(
                max_tokens=variant.max_tokens or factory.max_tokens,
                temperature=variant.temperature,
                seed=variant.seed,
                timeout=settings.timeout,
            ),
            concurrency=variant.concurrency or _share(factory, workers),
        )

    @property
    def name(self) -> str:
        """The variant's name; empty where the run has no other."""
        return self.settings.name

    @property
    def engine(self) -> EngineConfig:
        """Whom it asks."""
        return self.settings.engine

    @property
    def sampled(self) -> GenerationParams:
        """How its answers are sampled, as far as the engine says."""
        return sampled(self.factory, self.engine, self.params)

    def check_engine(self, *, only_lists: bool) -> None:
        """Refuse what the engine can never do, before anything is written or called."""
        if not only_lists:
            check(self.factory, self.engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What this process is to do; made of the settings, and in a worker of what the controller has selected."""

    #: in their order, by their names
    variants: Mapping[str, VariantPlan]
    selected: Selected
    #: the cases of this shard, in the dataset's order
    keys: Sequence[CaseKey]
    #: what gives failed attempts codes
    classifiers: tuple[Classifier, ...]

    @classmethod
    def make(
        cls, settings: Settings, handed: Handover | None, *, hook: Callable[[Record], object] | None = None
    ) -> Plan:
        """Find everything by its name and open the dataset; JSBenchError where something is not there."""
        if settings.batch is not None and len(settings.variants) > 1:
            message = f"--jsbench-batch hands in one variant at a time, and these are {', '.join(settings.variants)}: "
            raise BatchError(f"{message}run each by itself", found=tuple(settings.variants), where="--jsbench-batch")
        workers = 1 if handed is None else handed.workers
        variants: dict[str, VariantPlan] = {}
        for name, variant in settings.variants.items():
            with errors_of(name):
                variants[name] = VariantPlan.make(settings, variant, workers=workers)
        selected = Selected.make(settings, {} if handed is None else handed.selected)
        everything = selected.dataset.keys()
        return cls(
            variants=variants,
            selected=selected,
            keys=everything if settings.shard is None else settings.shard.take(everything),
            classifiers=_find_classifiers(settings.classify, hook),
        )

    @property
    def engines(self) -> tuple[EngineConfig, ...]:
        """Whom the variants ask."""
        return tuple(variant.engine for variant in self.variants.values())

    @property
    def concurrency(self) -> int:
        """The calls in flight in this process, of all variants together."""
        return sum(variant.concurrency for variant in self.variants.values())

    def check_engines(self, *, only_lists: bool) -> None:
        """Refuse what an engine can never do, before anything is written or called."""
        for name, variant in self.variants.items():
            with errors_of(name):
                variant.check_engine(only_lists=only_lists)


@contextmanager
def errors_of(variant: str) -> Iterator[None]:
    """Inside, an error that a user can mend says which variant it is of, where there are several."""
    try:
        yield
    except JSBenchError as error:
        if variant:
            error.args = (f"variant '{variant}': {error.args[0] if error.args else ''}", *error.args[1:])
        raise


def _find_engine(settings: Settings, variant: VariantSettings) -> EngineFactory:
    factory = find(variant.engine.name)
    if settings.selection.labelled:
        require_acceptor(factory, variant.engine.name)
    if settings.batch is not None:
        require_batches(factory, variant.engine.name)
    return factory


def _share(factory: EngineFactory, workers: int) -> int:
    """The calls in flight of one of so many processes, where the engine counts those of all together."""
    return -(-factory.concurrency // workers) if factory.shared else factory.concurrency


def _find_classifiers(names: Sequence[str], hook: Callable[[Record], object] | None) -> tuple[Classifier, ...]:
    """The classifiers of these names, and the hook where anybody implements it."""
    from pytest_jsbench.runner.classifiers import Classifier, find

    found = [find(name) for name in names]
    if hook is not None:
        found.append(Classifier(name=_HOOK, origin="a hook", function=hook))
    return tuple(found)
