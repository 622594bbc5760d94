from __future__ import annotations

from contextlib import ExitStack

import pytest

from pytest_jsbench import EngineConfig
from pytest_jsbench.plugin.session.cases import select
from pytest_jsbench.plugin.session.context import RunContext
from pytest_jsbench.plugin.session.handover import Handover
from pytest_jsbench.plugin.settings import Settings
from pytest_jsbench.plugin.worker.variant_runners import VariantRunner, provider_name
from pytest_jsbench.runner.limits import Estimate
from pytest_jsbench.runs.records import AnsweredBy
from pytest_jsbench.runs.resumption import Recorded
from pytest_jsbench.settings.plan import Plan, RateLimits
from pytest_jsbench.settings.variant import make_variants
from pytest_jsbench.verdicts import Judge
from tests import examples

OURS = EngineConfig(name="openai", base_url="http://me:secret@a/v1", api_key_env="ONE")
THEIRS = EngineConfig(name="openai", base_url="http://b/v1", api_key_env="ONE")
OTHER_KEY = EngineConfig(name="openai", base_url="http://b/v1", api_key_env="TWO")


@pytest.mark.parametrize(
    ("engines", "name"),
    [
        ([OURS], "openai m"),
        ([OURS, OURS], "openai m"),
        ([OURS, THEIRS], "openai m at http://…@a/v1"),
        ([OURS, THEIRS, OTHER_KEY], "openai m at http://…@a/v1 with ONE"),
    ],
)
def test_servers_and_keys_of_one_model_fail_apart(engines: list[EngineConfig], name: str) -> None:
    assert provider_name(AnsweredBy(engine="openai", model="m"), OURS, engines) == name


def test_a_model_that_a_test_asks_at_another_address_has_the_limits_of_that_server(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfig("--jsbench-engine=scripted", "--jsbench-limit=1")
    settings = Settings.from_config(config)
    plan = Plan.of(settings.values, make_variants(settings.ways), select(settings, {})[0], suite=True)
    handover = Handover(metadata=examples.metadata(), folder=None, shared=pytester.path, limits=RateLimits())
    context = RunContext(settings=settings, plan=plan, handover=handover, recorded=Recorded(), worker=None)
    runner = VariantRunner(config, context, plan.variants[""], judge=Judge, resources=ExitStack(), lost=pytest.fail)
    who = AnsweredBy(engine="openai", model="m")

    admissions = [runner.admission(who, one) for one in (OURS, THEIRS, OURS)]

    estimate = Estimate(input_tokens=1, output_tokens=1, seconds=1)
    servers = [one.enter(lambda: estimate).server for one in admissions]
    assert servers == ["openai at http://…@a/v1 with ONE", "openai at http://b/v1 with ONE", servers[0]]
    assert admissions[0] is admissions[2]
