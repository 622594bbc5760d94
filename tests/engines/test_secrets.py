from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.engines import registry
from pytest_jsbench.engines.addresses import Address, without_credentials
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.openai.settings import OpenAISettings
from pytest_jsbench.engines.registry import find
from pytest_jsbench.engines.secrets import check, find_secrets, mark, outline, public, public_extras, shown_option

URL = "http://me:pass-word%2F1@h:8000/v1/?token=T0ken-of-url&n=1"


def config(**options: Any) -> EngineConfig:
    return EngineConfig(name="openai", model="m", base_url=URL, options=options)


def test_user_password_and_query_of_an_address_are_apart_from_it() -> None:
    address = Address.parse(URL)
    assert (address.url, address.userinfo) == ("http://h:8000/v1/", ("me", "pass-word/1"))
    assert address.query == {"token": "T0ken-of-url", "n": "1"}
    assert "pass-word" not in repr(address)
    assert without_credentials(URL) == "http://…@h:8000/v1/?…"


@pytest.mark.parametrize(
    "text", ["http://me:pa#ss-word@h/", "me:ss-word@h", "http://me:pa?ss-word@h/", "http//h/?token=ss-word"]
)
def test_what_is_no_address_is_not_quoted_where_it_may_hold_a_password(text: str) -> None:
    with pytest.raises(EngineError, match="--jsbench-base-url is not an address") as caught:
        OpenAISettings.from_config(EngineConfig(name="openai", model="m", base_url=text))
    assert "ss-word" not in str(caught.value)


def test_a_value_is_read_from_the_environment_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_VALUE", "Held-by-variable\n")
    settings = OpenAISettings.from_config(
        config(extra_headers={"x-one": "env:MY_VALUE"}, extra_body={"a": [{"b": "env:MY_VALUE"}]})
    )
    assert settings.extra_headers == {"x-one": "Held-by-variable"}
    assert settings.extra_body == {"a": [{"b": "Held-by-variable"}]}
    assert settings.extra_query == {"token": "T0ken-of-url", "n": "1"}
    assert settings.extras == {"extra_body": {"a": [{"b": "env:MY_VALUE"}]}, "extra_headers": ["x-one"]}


def test_a_variable_that_is_not_set_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_VALUE", raising=False)
    with pytest.raises(EngineError, match=r"^option 'extra_headers' .* variable MY_VALUE, which is not set$"):
        OpenAISettings.from_config(config(extra_headers={"x-one": "env:MY_VALUE"}))


def test_of_an_option_only_names_numbers_and_flags_may_be_known() -> None:
    value = {
        "top_k": 5,
        "strict": True,
        "backend": "fast",
        "api_key": 12345678,
        "more": [{"pin": None, "max_tokens": 9}],
    }
    assert outline(value) == {
        "top_k": 5, "strict": True, "backend": "…", "api_key": "…", "more": [{"pin": None, "max_tokens": 9}],
    }  # fmt: skip


def test_an_authorization_is_a_secret_and_an_author_is_none() -> None:
    value = {"authorization": 12345678, "author": 12345678}

    assert outline(value) == {"authorization": "…", "author": 12345678}


@pytest.mark.parametrize("engine", registry._BUILT_IN)
def test_an_option_of_ours_is_shown_as_it_was_given_unless_it_may_hold_a_secret(engine: str) -> None:
    options: frozenset[str] = getattr(find(engine), "options")  # noqa: B009  plain factories have none

    hidden = {name for name in options if shown_option(name, "plain") != "plain"}

    assert hidden == options & {"extra_body", "extra_headers", "extra_query"}


def test_texts_that_change_answers_tell_runs_apart_and_keys_do_not() -> None:
    one = public_extras(config(extra_body={"backend": "fast", "api_key": "Key-number-one"}))
    other = public_extras(config(extra_body={"backend": "exact", "api_key": "Key-number-one"}))
    renewed = public_extras(config(extra_body={"backend": "fast", "api_key": "Key-number-two"}))
    assert one != other
    assert one == renewed
    assert public(config(extra_headers={"x": "a"})) == public(config(extra_headers={"x": "b"}))


def test_a_mark_has_too_few_bits_to_find_a_text_by() -> None:
    marks = {mark({"word": f"{number:04}"}) for number in range(10_000)}
    assert len(marks) == 256


def test_what_a_user_gave_is_known_and_what_is_public_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:Proxy-pass@h:1")
    monkeypatch.setenv("OF_A_PLUGIN_TOKEN", "Long-enough-token-1")
    monkeypatch.setenv("MODE_TOKEN", "production")
    options = {
        "extra_headers": {"x-one": "Header-one", "accept": "application/json", "authorization": "Bearer Held-value"},
        "extra_body": {"nested": {"auth": {"value": "Nested-value"}}, "backend": "constrained"},
    }
    said = "pass-word/1 T0ken-of-url Proxy-pass Long-enough-token-1 Header-one Held-value Nested-value"
    kept = "production application/json constrained"
    left = find_secrets(config(**options)).out_of_answer(f"{said}|{kept}")
    assert left.replace("*", "").split("|") == [" " * 6, kept]


class Unsuited(EngineError):
    def __init__(self, password: str, *, tries: int) -> None:
        super().__init__(f"{password} is refused after {tries}", found=password, expected=["a", password], where="here")


def test_an_engines_error_keeps_its_class_and_its_values_without_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_config: EngineConfig) -> None:
        raise Unsuited("Pass-word-of-this-run", tries=2)

    factory = find("openai")
    monkeypatch.setattr(type(factory), "check", lambda _self, config: refuse(config))

    with pytest.raises(Unsuited) as caught:
        check(factory, config(extra_headers={"x-one": "Pass-word-of-this-run"}))

    error = caught.value
    assert (str(error), error.found, error.where) == ("[key] is refused after 2", "[key]", "here")
    assert error.expected == ["a", "[key]"]


def test_a_configuration_prints_no_value_that_may_be_a_secret() -> None:
    shown = repr(config(extra_body={"api_key": "Nested-value"})) + repr(OpenAISettings.from_config(config()))
    assert not any(secret in shown for secret in ("pass-word", "T0ken", "Nested-value"))
