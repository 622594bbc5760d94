"""What a run is to do: which cases are put to which engine, in which words and with which sampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.generations import GenerationParams
from pytest_jsbench.core.prompts import Template
from pytest_jsbench.engines.base import EngineFactory, ParamsChecker
from pytest_jsbench.engines.registry import find, require_acceptor, require_batches
from pytest_jsbench.engines.secrets import check
from pytest_jsbench.plugin.session.cases import Selected
from pytest_jsbench.prompts import find_template

if TYPE_CHECKING:
    from pytest_jsbench.plugin.options.settings import Settings
    from pytest_jsbench.plugin.session.handover import Handover
    from pytest_jsbench.runner.classifiers import Classifier
    from pytest_jsbench.runs.records import Record

_HOOK = "pytest_jsbench_classify"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What this process is to do; made of the settings, and in a worker of what the controller has selected."""

    factory: EngineFactory
    selected: Selected
    #: the cases of this shard, in the dataset's order
    keys: Sequence[CaseKey]
    template: Template
    params: GenerationParams
    #: what gives failed attempts codes
    classifiers: tuple[Classifier, ...]
    #: calls in flight in this process
    concurrency: int

    @classmethod
    def make(
        cls, settings: Settings, handed: Handover | None, *, hook: Callable[[Record], object] | None = None
    ) -> Plan:
        """Find everything by its name and open the dataset; JSBenchError where something is not there."""
        factory = _find_engine(settings)
        selected = Selected.make(settings, {} if handed is None else handed.selected)
        everything = selected.dataset.keys()
        return cls(
            factory=factory,
            selected=selected,
            keys=everything if settings.shard is None else settings.shard.take(everything),
            template=find_template(settings.prompt, shots=settings.shots),
            params=GenerationParams(
                max_tokens=settings.max_tokens or factory.max_tokens,
                temperature=settings.temperature,
                seed=settings.seed,
                timeout=settings.timeout,
            ),
            classifiers=_find_classifiers(settings.classify, hook),
            concurrency=settings.concurrency or _share(factory, 1 if handed is None else handed.workers),
        )

    def check_engine(self, settings: Settings) -> None:
        """Refuse what the engine can never do, before anything is written or called."""
        if not settings.only_lists:
            check(self.factory, settings.engine)
        if isinstance(self.factory, ParamsChecker):
            self.factory.check_params(self.params)


def _find_engine(settings: Settings) -> EngineFactory:
    factory = find(settings.engine.name)
    if settings.selection.labelled:
        require_acceptor(factory, settings.engine.name)
    if settings.batch is not None:
        require_batches(factory, settings.engine.name)
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
