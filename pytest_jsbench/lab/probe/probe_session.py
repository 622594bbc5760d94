"""Start the run that makes the calls of a probe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_jsbench.lab.probe.check import CheckPlan
from pytest_jsbench.lab.probe.probe import POLICY, ProbePlan
from pytest_jsbench.metrics.prices import price_of
from pytest_jsbench.records.metadata import Entry
from pytest_jsbench.run.description import describe_run
from pytest_jsbench.run.handover import Handover
from pytest_jsbench.run.plan import Plan, RateLimits
from pytest_jsbench.run.session import RunSession
from pytest_jsbench.run.variants import Variant
from pytest_jsbench.settings.options import LimitOptions
from pytest_jsbench.settings.spec import RunSpec


@contextmanager
def open_session(
    base: Variant, plan: ProbePlan, checks: CheckPlan, *, limits: RateLimits, retries: int | None
) -> Iterator[RunSession]:
    """
    Start a run with a variant for each mode, and those of the checks; its records are deleted at its end.

    Raise PriceError if the cost is limited and the model of `base` has no price.
    """
    run = Plan(
        variants={"": base},
        suite=False,
        policy=POLICY,
        limits=limits,
        spec=RunSpec(limits=LimitOptions({"retries": retries})),
    )
    if limits.max_cost is not None:
        price_of(describe_run(run, Entry.LIBRARY))
    ways = [*plan.ways.values(), *([] if plan.control is None else [plan.control])]
    ways += checks.variants.values() if checks.names else []
    run = replace(run, variants={way.name: way for way in ways})
    prepared = {way.name: way.engine for way in ways}
    with TemporaryDirectory(prefix="jsbench-probe-", ignore_cleanup_errors=True) as folder:
        metadata = describe_run(run, Entry.LIBRARY)
        handover = Handover(metadata=metadata, folder=None, shared=Path(folder))
        with closing(RunSession(run, handover, prepared=prepared)) as session:
            session.begin(())
            session.open(cases=())
            yield session
