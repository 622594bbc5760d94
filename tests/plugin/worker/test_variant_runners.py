from __future__ import annotations

import pytest

from pytest_jsbench import EngineConfig
from pytest_jsbench.plugin.worker.variant_runners import provider_name
from pytest_jsbench.runs.records import AnsweredBy

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
