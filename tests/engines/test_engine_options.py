from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from pytest_jsbench.core.errors import EngineError, MissingRequirement, UnknownEngine
from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.engines import engine_options as module
from pytest_jsbench.engines.base import Address, EngineConfig
from pytest_jsbench.engines.engine_options import Options, find_address, find_key, require_package
from pytest_jsbench.engines.registry import find, names

KNOWN = frozenset({"stream", "slots", "name", "body"})


def options(**values: Any) -> Options:
    return Options(EngineConfig(name="e", options=values), KNOWN)


def test_errors_have_found_expected_and_where() -> None:
    with pytest.raises(EngineError) as unknown:
        options(streem=True)
    nearest = "did you mean 'stream'? (one of body, name, slots, stream)"
    assert str(unknown.value) == f"engine 'e' has no option 'streem': {nearest}"
    assert (unknown.value.found, unknown.value.expected, unknown.value.where) == ("streem", sorted(KNOWN), "e")
    with pytest.raises(EngineError) as wrong:
        options(slots="many").count("slots", default=1)
    assert (wrong.value.found, wrong.value.expected, wrong.value.where) == ("str", "a whole number above 0", "slots")
    with pytest.raises(UnknownEngine) as engine:
        find("opnai")
    assert engine.value.found == "opnai"
    assert engine.value.expected == names()
    with pytest.raises(MissingRequirement) as key:
        find_key(EngineConfig(name="e"), ("NO_SUCH_KEY",), optional=False)
    assert (key.value.expected, key.value.where) == ("a key", "NO_SUCH_KEY")


@pytest.mark.parametrize(
    ("name", "values", "read", "message"),
    [
        ("stream", ("yes", 1, None), lambda given: given.flag("stream", default=True), "must be true or false"),
        ("slots", (0, -1, True, 1.5, "2"), lambda given: given.count("slots", default=4), "a whole number above 0"),
        (
            *("name", ("a b", "", "x" * 65, "ü", 3)),
            *(lambda given: given.identifier("name", default="output"), "option 'name' of engine 'e' must be"),
        ),
        (
            *("name", ("txt", "", 1), lambda given: given.choice("name", ResponseFormat, default=ResponseFormat.TEXT)),
            "must be text or json_object or json_schema or tool, found",
        ),
        ("slots", (0, 1.5, True, "1"), lambda given: given.share("slots"), "a number above 0 and up to 1"),
        ("name", ("", True, 1), lambda given: given.field("name", default="x"), "the name of a parameter, or false"),
    ],
)
def test_value_of_the_wrong_type_is_rejected(
    name: str, values: tuple[object, ...], read: Callable[[Options], object], message: str
) -> None:
    for value in values:
        with pytest.raises(EngineError, match=message):
            read(options(**{name: value}))


def test_headers_are_strings_and_are_not_shown() -> None:
    with pytest.raises(EngineError, match="a JSON object of strings") as caught:
        options(body={"authorization": 123456}).texts("body")
    assert "123456" not in str(caught.value)


CONFIG = EngineConfig(name="openai")
KEY = ("JSBENCH_TEST_KEY",)


def test_outdated_package_is_reported_with_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    for version, found in (("3.0.0rc1", None), ("1.99.3", r"needs pytest>=3, found 1\.99\.3: pip install")):
        monkeypatch.setattr(module, "package_version", lambda _, version=version: version)
        with nullcontext() if found is None else pytest.raises(MissingRequirement, match=found):
            require_package("openai", "pytest", extra="openai", minimum=(3,))


def test_key_is_stripped_of_white_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JSBENCH_TEST_KEY", " abc-def\n")
    key = find_key(CONFIG, KEY, optional=False)
    assert (key.value, key.variable) == ("abc-def", "JSBENCH_TEST_KEY")
    assert "abc" not in repr(key)


@pytest.mark.parametrize("value", ["abc\u2026def", "abc\ndef"])
def test_invalid_key_is_rejected_without_being_printed(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("JSBENCH_TEST_KEY", value)
    with pytest.raises(MissingRequirement, match="JSBENCH_TEST_KEY") as caught:
        find_key(CONFIG, KEY, optional=False)
    assert "abc" not in str(caught.value)


def test_address_is_read_from_the_sdks_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://h/v1")
    assert find_address(CONFIG, "OPENAI_BASE_URL") == Address(url="http://h/v1")
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    assert find_address(CONFIG, "OPENAI_BASE_URL") is None
