from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_jsbench.plugin.options.settings import Settings
from pytest_jsbench.plugin.options.variant_settings import VariantSettings
from pytest_jsbench.runs import journal
from pytest_jsbench.runs.variants import together
from tests import examples

ENGINE = "--jsbench-engine=scripted"
BOTH = {"long": "schema", "short": "chat"}


def read(pytester: pytest.Pytester, *args: str) -> Settings:
    return Settings.from_config(pytester.parseconfig(*args))


def names(pytester: pytest.Pytester, *args: str) -> list[str]:
    return list(read(pytester, ENGINE, *args).variants)


def only(settings: Settings) -> VariantSettings:
    (variant,) = settings.variants.values()
    return variant


def test_one_way_to_ask_has_no_name(pytester: pytest.Pytester) -> None:
    settings = read(pytester, ENGINE, "--jsbench-model=a", "--jsbench-temperature=0.5", "--jsbench-prompt=chat")

    assert list(settings.variants) == [""]
    assert (only(settings).engine.model, only(settings).temperature, only(settings).prompt) == ("a", 0.5, "chat")


def test_options_that_are_typed_twice_are_multiplied_their_values_in_the_order_of_the_command_line(
    pytester: pytest.Pytester,
) -> None:
    settings = read(
        pytester,
        ENGINE,
        *("--jsbench-prompt=schema", "--jsbench-model=A", "--jsbench-model", "B", "--jsbench-prompt=chat"),
        "--jsbench-shots=2",
    )

    assert [(name, one.engine.model, one.prompt, one.shots) for name, one in settings.variants.items()] == [
        ("A-schema", "A", "schema", 2),
        ("A-chat", "A", "chat", 2),
        ("B-schema", "B", "schema", 2),
        ("B-chat", "B", "chat", 2),
    ]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--jsbench-temperature=0", "--jsbench-temperature=0.7"], ["temperature-0", "temperature-0.7"]),
        (["--jsbench-max-tokens=50", "--jsbench-max-tokens=2048"], ["max-tokens-50", "max-tokens-2048"]),
        (["--jsbench-concurrency=1", "--jsbench-concurrency=32"], ["concurrency-1", "concurrency-32"]),
        (["--jsbench-shots=0", "--jsbench-shots=3"], ["shots-0", "shots-3"]),
        (["--jsbench-adapt=verbatim", "--jsbench-adapt=narrow:openai"], ["verbatim", "narrow-openai"]),
        (["--jsbench-response-format=text", "--jsbench-response-format=tool"], ["text", "tool"]),
        (["--jsbench-base-url=http://a:8000/v1", "--jsbench-base-url=http://b/v1"], ["a-8000-v1", "b-v1"]),
        (
            ["--jsbench-engine-option=stream=true", "--jsbench-engine-option=stream=false"],
            ["stream-true", "stream-false"],
        ),
        (["--jsbench-model=org/a b", "--jsbench-model=org/a:b"], ["org-a-b", "org-a-b-2"]),
        (["--jsbench-model=GPT", "--jsbench-model=gpt"], ["GPT", "gpt-2"]),
        (["--jsbench-model=/models/tiny.gguf", "--jsbench-model=/models/big.gguf"], ["tiny.gguf", "big.gguf"]),
        (["--jsbench-model=a", "--jsbench-model=a"], [""]),
        (["--jsbench-temperature=0", "--jsbench-temperature=0.0"], [""]),
        (["--jsbench-engine-option=a=1", "--jsbench-engine-option=b=1"], [""]),
    ],
)
def test_a_variant_is_named_after_what_it_has_for_itself(
    pytester: pytest.Pytester, args: list[str], expected: list[str]
) -> None:
    assert names(pytester, *args) == expected


def test_no_secret_is_part_of_a_name(pytester: pytest.Pytester) -> None:
    found = names(
        pytester,
        *("--jsbench-base-url=http://me:hunter2@a/v1", "--jsbench-base-url=http://me:hunter2@b/v1"),
        *("--jsbench-engine-option=api_key=sk-one", "--jsbench-engine-option=api_key=sk-two"),
    )

    assert len(set(found)) == 4
    assert not any(secret in name for name in found for secret in ("hunter2", "sk-", "me"))


def test_what_is_typed_replaces_what_is_configured_of_which_the_last_alone_wins(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\naddopts = --jsbench-model=one --jsbench-model=two\njsbench_model = three\n")
    assert only(read(pytester, ENGINE)).engine.model == "two"

    monkeypatch.setenv("PYTEST_ADDOPTS", "--jsbench-model=four")
    assert only(read(pytester, ENGINE)).engine.model == "four"
    assert only(read(pytester, ENGINE, "--jsbench-model=five")).engine.model == "five"
    assert names(pytester, "--jsbench-model=five", "--jsbench-model=six") == ["five", "six"]


def test_an_engine_option_of_the_configuration_is_replaced_where_its_key_is_typed(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\naddopts = --jsbench-engine-option=a=0 --jsbench-engine-option=b=0\n")

    settings = read(pytester, ENGINE, "--jsbench-engine-option=a=1", "--jsbench-engine-option=a=2")

    assert [dict(one.engine.options) for one in settings.variants.values()] == [{"a": 1, "b": 0}, {"a": 2, "b": 0}]


def test_several_engines_are_one_line_that_points_to_the_table(pytester: pytest.Pytester) -> None:
    with pytest.raises(pytest.UsageError, match=r"--jsbench-engine is given more than once: .*tool\.jsbench\.variants"):
        read(pytester, ENGINE, "--jsbench-engine=openai", "--jsbench-model=a")


def test_a_value_that_cannot_be_read_is_one_line_whichever_of_several_it_is(pytester: pytest.Pytester) -> None:
    with pytest.raises(pytest.UsageError, match="--jsbench-shots: expected a whole number of at least 0, found 'x'"):
        read(pytester, ENGINE, "--jsbench-shots=x", "--jsbench-shots=1")


def test_the_command_that_runs_a_case_again_makes_the_same_variants(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\naddopts = --jsbench-engine-option=a=0 --jsbench-engine-option=b=0\n")
    settings = read(
        pytester, ENGINE, "--jsbench-model=A", "--jsbench-model=B", "--jsbench-model=A", "--jsbench-engine-option=a=1"
    )

    assert settings.rerun == (
        "pytest --jsbench-engine=scripted --jsbench-model=A --jsbench-model=B "
        "--jsbench-engine-option=b=0 --jsbench-engine-option=a=1"
    )


def test_a_run_that_was_killed_is_replayed_in_each_of_its_variants(pytester: pytest.Pytester) -> None:
    ran = together([replace(examples.metadata(), variant=name, prompt=prompt) for name, prompt in BOTH.items()])
    journal.write(pytester.path / "records.gw0.jsonl", ran, [])
    (pytester.path / "records.jsonl").touch()

    settings = read(pytester, f"--jsbench-replay={pytester.path}")

    assert {name: one.prompt for name, one in settings.variants.items()} == BOTH


@pytest.mark.parametrize(("file", "typed"), [("asked.txt", True), ("pytest.ini", False)])
def test_a_gate_in_an_argument_file_is_typed_and_one_of_the_configuration_is_not(
    pytester: pytest.Pytester, file: str, typed: bool
) -> None:
    gate = "--jsbench-gate=pass_rate>=0.5"
    (pytester.path / file).write_text(gate if typed else f"[pytest]\naddopts = {gate}\n")

    settings = read(pytester, ENGINE, *([f"@{file}"] if typed else []))

    assert len(settings.gates) == 1
    assert settings.gates_typed == typed


def test_a_preset_says_what_neither_the_command_line_nor_the_ini_file_says(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\njsbench_shots = 1\n")

    settings = read(pytester, ENGINE, "--jsbench-preset=jsonschemabench", "--jsbench-split=test")

    assert (settings.selection.source, settings.selection.split) == ("epfl-dlab/JSONSchemaBench", "test")
    assert settings.selection.tasks is not None
    assert len(settings.selection.tasks) == 8
    (one,) = settings.variants.values()
    assert (one.prompt, one.shots, one.temperature) == ("chat", 1, 0.0)
    assert (settings.timeout, settings.policy.extra_fields) == (80.0, "allow")
    assert "--jsbench-preset=jsonschemabench" in settings.rerun


def test_a_preset_that_there_is_not_is_a_usage_error(pytester: pytest.Pytester) -> None:
    with pytest.raises(pytest.UsageError, match="--jsbench-preset: expected one of jsonschemabench, found 'x'"):
        read(pytester, ENGINE, "--jsbench-preset=x")
