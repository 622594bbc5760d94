from __future__ import annotations

import importlib.util

import pytest

from pytest_jsbench.core.errors import EngineError, MissingRequirement
from pytest_jsbench.engines import options
from pytest_jsbench.engines.base import Address, EngineConfig
from pytest_jsbench.engines.options import find_address, find_key, find_model, require_package

CONFIG = EngineConfig(name="openai")
KEY = ("JSBENCH_TEST_KEY",)


def test_a_missing_package_is_said_with_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingRequirement) as caught:
        require_package("openai", "openai", extra="openai")
    expected = "engine 'openai' needs the package openai: pip install 'pytest-jsbench[openai]'"
    assert str(caught.value) == expected


def test_a_package_that_is_too_old_is_said_with_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "package_version", lambda _: "1.99.3")
    with pytest.raises(MissingRequirement, match=r"needs pytest>=3, found 1\.99\.3: pip install"):
        require_package("openai", "pytest", extra="openai", minimum=(3,))


def test_a_package_that_is_new_enough_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "package_version", lambda _: "3.0.0rc1")
    require_package("openai", "pytest", extra="openai", minimum=(3,))


def test_a_missing_key_names_both_ways_to_give_it() -> None:
    with pytest.raises(MissingRequirement) as caught:
        find_key(CONFIG, ("OPENAI_API_KEY",), optional=False)
    assert str(caught.value) == (
        "engine 'openai' needs a key: set OPENAI_API_KEY, or name another variable with --jsbench-api-key-env"
    )


def test_the_variable_that_was_named_is_the_only_one_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JSBENCH_TEST_KEY", "wrong-one")
    config = EngineConfig(name="openai", api_key_env="JSBENCH_OTHER")
    with pytest.raises(MissingRequirement, match=r"JSBENCH_OTHER, named by --jsbench-api-key-env, is not set"):
        find_key(config, KEY, optional=True)


def test_a_key_comes_without_the_line_end_it_was_pasted_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JSBENCH_TEST_KEY", " abc-def\n")
    key = find_key(CONFIG, KEY, optional=False)
    assert (key.value, key.variable) == ("abc-def", "JSBENCH_TEST_KEY")
    assert "abc" not in repr(key)


@pytest.mark.parametrize("value", ["abc\u2026def", "abc\ndef"])
def test_a_key_no_header_can_carry_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("JSBENCH_TEST_KEY", value)
    with pytest.raises(MissingRequirement, match="JSBENCH_TEST_KEY") as caught:
        find_key(CONFIG, KEY, optional=False)
    assert "abc" not in str(caught.value)


def test_a_server_that_asks_for_no_key_gets_none() -> None:
    assert find_key(CONFIG, KEY, optional=True).value == ""


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://h/v1", "http://", "http://h:x/", "http://[::1"])
def test_what_is_no_address_is_refused_before_any_call(url: str) -> None:
    with pytest.raises(EngineError, match=r"--jsbench-base-url is not an address"):
        find_address(EngineConfig(name="openai", base_url=url), "OPENAI_BASE_URL")


def test_the_sdks_own_variable_gives_the_address_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://h/v1")
    assert find_address(CONFIG, "OPENAI_BASE_URL") == Address(url="http://h/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    assert find_address(CONFIG, "OPENAI_BASE_URL") is None


def test_another_server_has_no_default_model() -> None:
    with pytest.raises(EngineError) as caught:
        find_model(CONFIG, url="http://h/v1", default="x")
    expected = "--jsbench-model is needed with http://h/v1 (http://h/v1/models lists them)"
    assert str(caught.value) == expected
    assert find_model(CONFIG, url=None, default="x") == "x"
