from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.plugin.configuration import Settings
from pytest_jsbench.records import journal
from pytest_jsbench.records.questions import combine_variants
from pytest_jsbench.run.plan import policy_of
from pytest_jsbench.run.variants import Variant, make_variants
from pytest_jsbench.settings.layers import place_path
from tests.support import examples

ENGINE = "--jsbench-engine=scripted"
BOTH = {"long": "schema", "short": "chat"}


def read(pytester: pytest.Pytester, *args: str) -> Settings:
    return Settings.from_config(pytester.parseconfig(*args))


def variants(pytester: pytest.Pytester, *args: str) -> dict[str, Variant]:
    return make_variants(read(pytester, *args).spec)


def names(pytester: pytest.Pytester, *args: str) -> list[str]:
    return list(read(pytester, ENGINE, *args).spec.asks)


def only(pytester: pytest.Pytester, *args: str) -> Variant:
    (variant,) = variants(pytester, ENGINE, *args).values()
    return variant


def test_single_variant_has_no_name(pytester: pytest.Pytester) -> None:
    variant = only(pytester, "--jsbench-model=a", "--jsbench-temperature=0.5", "--jsbench-prompt=chat")

    assert (variant.name, variant.template.name) == ("", "chat")
    assert (variant.engine.model, variant.params.temperature) == ("a", 0.5)


def test_as_many_calls_are_in_flight_as_the_server_of_ours_has_slots(pytester: pytest.Pytester) -> None:
    local = "--jsbench-engine=local"
    slots = [[local], [local, "--jsbench-engine-option=slots=1"], [local, "--jsbench-engine-option=slots=many"]]
    made = [variants(pytester, *args)[""].concurrency for args in slots]
    given = variants(pytester, local, "--jsbench-engine-option=slots=1", "--jsbench-concurrency=3")[""].concurrency

    assert (made, given) == ([4, 1, 4], 3)


def test_repeated_options_are_multiplied_in_command_line_order(
    pytester: pytest.Pytester,
) -> None:
    made = variants(
        pytester,
        ENGINE,
        *("--jsbench-prompt=schema", "--jsbench-model=A", "--jsbench-model", "B", "--jsbench-prompt=chat"),
        "--jsbench-shots=2",
    )

    assert [(name, one.engine.model, one.template.name, one.shots) for name, one in made.items()] == [
        ("A-schema", "A", "schema", 2),
        ("A-chat", "A", "chat", 2),
        ("B-schema", "B", "schema", 2),
        ("B-chat", "B", "chat", 2),
    ]


@pytest.mark.slow
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
def test_variant_is_named_after_its_distinct_options(
    pytester: pytest.Pytester, args: list[str], expected: list[str]
) -> None:
    assert names(pytester, *args) == expected


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--jsbench-rewrite=order,inline"], {"original": (), "order": ("order",), "inline": ("inline",)}),
        (
            ["--jsbench-rewrite=order:7", "--jsbench-rewrite=inline", "--jsbench-rewrite=order:7"],
            {"original": (), "order-7": ("order:7",), "inline": ("inline",)},
        ),
        (
            ["--jsbench-model=a", "--jsbench-model=b", "--jsbench-rewrite=inline"],
            {"a": (), "a-inline": ("inline",), "b": (), "b-inline": ("inline",)},
        ),
        (
            ["--jsbench-model=a", "--jsbench-model=a-inline", "--jsbench-rewrite=inline"],
            {"a": (), "a-inline": ("inline",), "a-inline-2": (), "a-inline-inline": ("inline",)},
        ),
    ],
)
def test_each_rewriting_follows_its_variant(
    pytester: pytest.Pytester, args: list[str], expected: dict[str, tuple[str, ...]]
) -> None:
    asks = read(pytester, ENGINE, *args).spec.asks

    assert {name: ask.rewrite for name, ask in asks.items()} == expected
    assert list(asks) == list(expected)
    made = variants(pytester, ENGINE, *args)
    assert {name: str(one.rewrite or "") for name, one in made.items()} == {
        name: "".join(rewriting) for name, rewriting in expected.items()
    }


def test_rewritings_can_be_configured(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\njsbench_rewrite = order, inline\n")

    assert names(pytester) == ["original", "order", "inline"]
    assert names(pytester, "--jsbench-rewrite=inline") == ["original", "inline"]


def test_rewritings_can_be_set_in_the_table(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml('[[tool.jsbench.variants]]\nname = "v"\nengine = "scripted"\nrewrite = "inline"\n')

    assert list(read(pytester, "--jsbench-variants=all").spec.asks) == ["v", "v-inline"]


def test_invalid_rewriting_among_several_is_one_line(pytester: pytest.Pytester) -> None:
    with pytest.raises(JSBenchError, match="--jsbench-rewrite: expected order, order:SEED or inline, found 'x'"):
        read(pytester, ENGINE, "--jsbench-rewrite=x", "--jsbench-rewrite=inline")


def test_no_secret_is_part_of_a_name(pytester: pytest.Pytester) -> None:
    named = names(
        pytester,
        *("--jsbench-base-url=http://me:hunter2@a/v1", "--jsbench-base-url=http://me:hunter2@b/v1"),
        *("--jsbench-engine-option=api_key=sk-one", "--jsbench-engine-option=api_key=sk-two"),
    )

    assert len(set(named)) == 4
    assert not any(secret in name for name in named for secret in ("hunter2", "sk-", "me"))


def test_typed_options_replace_configured_ones_and_the_last_one_wins(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\naddopts = --jsbench-model=one --jsbench-model=two\njsbench_model = three\n")
    assert only(pytester).engine.model == "two"

    monkeypatch.setenv("PYTEST_ADDOPTS", "--jsbench-model=four")
    assert only(pytester).engine.model == "four"
    assert only(pytester, "--jsbench-model=five").engine.model == "five"
    assert names(pytester, "--jsbench-model=five", "--jsbench-model=six") == ["five", "six"]


def test_typed_engine_option_replaces_the_configured_one_by_key(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\naddopts = --jsbench-engine-option=a=0 --jsbench-engine-option=b=0\n")

    made = variants(pytester, ENGINE, "--jsbench-engine-option=a=1", "--jsbench-engine-option=a=2")

    assert [dict(one.engine.options) for one in made.values()] == [{"a": 1, "b": 0}, {"a": 2, "b": 0}]


def test_several_engines_are_one_line_that_points_to_the_table(pytester: pytest.Pytester) -> None:
    with pytest.raises(JSBenchError, match=r"--jsbench-engine is set more than once, .*tool\.jsbench\.variants"):
        read(pytester, ENGINE, "--jsbench-engine=openai", "--jsbench-model=a")


def test_invalid_value_among_several_is_reported_in_one_line(pytester: pytest.Pytester) -> None:
    with pytest.raises(JSBenchError, match="--jsbench-shots: expected a whole number of at least 0, found 'x'"):
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
    ran = combine_variants([replace(examples.metadata(), variant=name, prompt=prompt) for name, prompt in BOTH.items()])
    journal.write(pytester.path / "records.gw0.jsonl", ran, [])
    (pytester.path / "records.jsonl").touch()

    made = variants(pytester, f"--jsbench-replay={pytester.path}")

    assert {name: one.template.name for name, one in made.items()} == BOTH


@pytest.mark.parametrize(("file", "typed"), [("asked.txt", True), ("pytest.ini", False)])
def test_gate_in_an_argument_file_counts_as_typed(pytester: pytest.Pytester, file: str, typed: bool) -> None:
    gate = "--jsbench-gate=pass_rate>=0.5"
    (pytester.path / file).write_text(gate if typed else f"[pytest]\naddopts = {gate}\n")

    settings = read(pytester, ENGINE, *([f"@{file}"] if typed else []))

    assert settings.spec.gates.gate == ["pass_rate>=0.5"]
    assert settings.gates_typed == typed


def test_preset_sets_options_that_are_not_set_otherwise(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\njsbench_shots = 1\n")

    settings = read(pytester, ENGINE, "--jsbench-preset=jsonschemabench", "--jsbench-split=test")

    assert (settings.selection.source, settings.selection.split) == ("epfl-dlab/JSONSchemaBench", "test")
    assert settings.selection.tasks is not None
    assert len(settings.selection.tasks) == 8
    (one,) = make_variants(settings.spec).values()
    assert (one.template.name, one.shots, one.params.temperature, one.params.timeout) == ("chat", 1, 0.0, 80.0)
    assert policy_of(settings.spec.judging).extra_fields == "allow"
    assert "--jsbench-preset=jsonschemabench" in settings.rerun


def test_unknown_preset_is_a_usage_error(pytester: pytest.Pytester) -> None:
    with pytest.raises(
        pytest.UsageError,
        match="--jsbench-preset: expected a publication: unknown publication 'x': expected one of jsonschemabench",
    ):
        read(pytester, ENGINE, "--jsbench-preset=x")


TABLE = """
[[tool.jsbench.variants]]
name = "small one"
engine = "openai"
model = "gpt-5.4-mini"
temperature = 0.5
[[tool.jsbench.variants]]
name = "free"
engine = "scripted"
prompt = "chat"
engine_option = { answers = "answers.json", latency = 0.1 }
[[tool.jsbench.variants]]
name = "plain"
"""


def read_table(pytester: pytest.Pytester, *args: str, table: str = TABLE, file: str = "pyproject.toml") -> Settings:
    (pytester.path / file).write_text(table)
    return Settings.from_config(pytester.parseconfig(*args))


def test_a_table_makes_a_variant_of_each_of_its_entries(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\njsbench_engine = local\njsbench_model = tiny.gguf\njsbench_max_tokens = 9\n")

    variants = make_variants(read_table(pytester).spec)

    assert {name: (one.engine.name, one.engine.model) for name, one in variants.items()} == {
        "small-one": ("openai", "gpt-5.4-mini"),
        "free": ("scripted", None),  # the options of the ini file are for its own engine
        "plain": ("local", "tiny.gguf"),
    }
    assert variants["small-one"].params.temperature == 0.5
    assert dict(variants["free"].engine.options) == {"answers": "answers.json", "latency": 0.1}
    sampled = [(one.template.name, one.params.max_tokens) for one in variants.values()]
    assert sampled == [("schema", 9), ("chat", 9), ("schema", 9)]


def test_variants_can_be_selected_in_any_order(
    pytester: pytest.Pytester,
) -> None:
    assert list(read_table(pytester, "--jsbench-variants=free,small-one").spec.asks) == ["free", "small-one"]
    with pytest.raises(JSBenchError, match="variant 'plain' has no engine: set engine in its table, or"):
        make_variants(read_table(pytester, "--jsbench-variants=all").spec)


def test_table_is_in_its_own_file_or_in_pyproject_but_not_both(pytester: pytest.Pytester) -> None:
    own = TABLE.replace("tool.jsbench.", "")

    assert list(read_table(pytester, "--jsbench-variants=free", table=own, file="jsbench.toml").spec.asks) == ["free"]
    with pytest.raises(JSBenchError, match=r"variants are defined in .*pyproject\.toml and in .*jsbench\.toml; define"):
        read_table(pytester, "--jsbench-variants=free")


def test_table_names_files_relative_to_its_own(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    table = '[[tool.jsbench.variants]]\nname = "a"\nprompt = "short.j2"\nengine_option = { answers = "a.json" }\n'
    pytester.makefile(".j2", short="{{ schema }}")
    pytester.makefile(".json", a="{}")
    (pytester.path / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\n{table}")
    monkeypatch.chdir(pytester.mkdir("below"))

    ask = Settings.from_config(pytester.parseconfig("--jsbench-engine=scripted")).spec.asks["a"]

    assert ask.prompt.replace("\\", "/") == "../short.j2"
    assert [(key, value.replace("\\", "/")) for key, value in ask.engine_option] == [("answers", "../a.json")]


def test_command_line_with_the_same_options_omits_the_table(pytester: pytest.Pytester) -> None:
    settings = read_table(pytester, "--jsbench-engine=scripted", "--jsbench-model=x")

    assert list(settings.spec.asks) == [""]
    assert settings.variants_left_out.endswith(
        "pyproject.toml are not used, since --jsbench-engine is on the command line"
    )
    with pytest.raises(
        JSBenchError, match=r"--jsbench-engine conflicts with variant 'free' in .*: remove --jsbench-engine"
    ):
        read_table(pytester, "--jsbench-variants=free", "--jsbench-engine=scripted")


def test_ini_table_is_kept_if_no_other_engine_is_set(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeini("[pytest]\njsbench_variants = small-one\n")

    with pytest.raises(JSBenchError, match=r"--jsbench-temperature conflicts with variant 'small-one' in"):
        read_table(pytester, "--jsbench-temperature=1")
    assert read_table(pytester, "--jsbench-temperature=1", "--jsbench-engine=scripted").variants_left_out


@pytest.mark.parametrize("option", ["record", "replay"])
def test_answers_are_recorded_and_replayed_without_unused_table(pytester: pytest.Pytester, option: str) -> None:
    pytester.makeini("[pytest]\njsbench_engine = scripted\n")

    settings = read_table(pytester, f"--jsbench-{option}=kept")

    assert list(settings.spec.asks) == [""]
    assert settings.variants_left_out.endswith("not used; to record or replay them, add --jsbench-variants=all")


def test_typed_options_missing_in_the_table_multiply_its_variants(pytester: pytest.Pytester) -> None:
    args = ("--jsbench-variants=free,plain", "--jsbench-shots=0", "--jsbench-shots=2", "--jsbench-engine-option=x=1")
    table = TABLE.replace('name = "plain"', 'name = "plain"\nengine = "scripted"')

    variants = make_variants(read_table(pytester, *args, table=table).spec)

    assert list(variants) == ["free-shots-0", "free-shots-2", "plain-shots-0", "plain-shots-2"]
    assert [one.engine.options["x"] for one in variants.values()] == [1, 1, 1, 1]


def test_each_variant_records_to_and_replays_from_its_own_directory(pytester: pytest.Pytester) -> None:
    recorded = make_variants(read_table(pytester, "--jsbench-variants=free,small-one", "--jsbench-record=kept").spec)
    replayed = make_variants(read_table(pytester, "--jsbench-variants=free,small-one", "--jsbench-replay=kept").spec)

    assert {name: one.recording and one.recording.path for name, one in recorded.items()} == {
        "free": pytester.path / "kept" / "free",
        "small-one": pytester.path / "kept" / "small-one",
    }
    for name, one in replayed.items():
        assert one.engine.name == "recorded"
        assert one.engine.options["folder"] == str(pytester.path / "kept" / name)


NAMED = '[[tool.jsbench.variants]]\nname = "a"\n'


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (f'{NAMED}modle = "x"', r"variant 'a': unknown key 'modle': did you mean 'model'\?"),
        (f"{NAMED}temperature = 'hot'", r"variant 'a': temperature: expected a number of at least 0, found 'hot'"),
        (f"{NAMED}shots = true", r"variant 'a': shots: expected a string or a number, found a bool"),
        (f"{NAMED}model = ['a', 'b']", r"variant 'a': model: expected a string or a number, found an array"),
        (f"{NAMED}response_format = 'json'", r"variant 'a': response_format: expected one of text, .*, found 'json'"),
        (f"{NAMED}engine_option = 'a=1'", r"variant 'a': engine_option: expected a table such as .*, found a string"),
        (f"{NAMED}engine_option = {{ at = 2026-01-01 }}", r"variant 'a': engine_option: expected a table such as"),
        (f"{NAMED}dataset = 'x'", r"variant 'a': unknown key 'dataset': expected one of adapt, "),
        ("[[tool.jsbench.variants]]\nmodel = 'x'", r"variant 1: name is missing; expected a name with letters"),
        ("[[tool.jsbench.variants]]\nname = ''", r"variant 1: name is an empty string; expected a name with letters"),
        ("[[tool.jsbench.variants]]\nname = '///'", r"variant 1: name is '///'; expected a name with letters"),
        ("[[tool.jsbench.variants]]\nname = 'all'", r"variant 1: name is 'all'; expected .* and not 'all'"),
        (
            f"{NAMED}{NAMED.upper().replace('TOOL.JSBENCH.VARIANTS', 'tool.jsbench.variants').replace('NAME', 'name')}",
            r"variant 2: duplicate name 'A'",
        ),
        ("[[tool.jsbench.variant]]\nname = 'a'", r"\[tool\.jsbench\] of .*: unknown key 'variant': did you mean"),
        ("[tool.jsbench.variants]\na = 'x'", r"\[tool\.jsbench\] of .*: expected \[\[tool\.jsbench\.variants\]\]"),
        ("[tool]\njsbench = 3", r"\[tool\.jsbench\] of .*: expected \[\[tool\.jsbench\.variants\]\]"),
        ("", r"--jsbench-variants: found neither \[\[tool\.jsbench\.variants\]\] in pyproject\.toml"),
        ("[[tool.jsbench.variants]]\nname = 'aba'", r"--jsbench-variants: no variant 'a' in .*: expected one of aba"),
    ],
)
def test_a_mistake_in_a_table_is_one_line_that_names_its_place(
    pytester: pytest.Pytester, table: str, message: str
) -> None:
    pytester.makeini("[pytest]\n")

    with pytest.raises(JSBenchError, match=message):
        read_table(pytester, "--jsbench-engine=scripted", "--jsbench-variants=a", table=table)


def test_invalid_toml_table_is_one_line(pytester: pytest.Pytester) -> None:
    with pytest.raises(JSBenchError, match=r"jsbench\.toml: cannot be read: Expected"):
        read_table(pytester, "--jsbench-engine=scripted", table="[[variants", file="jsbench.toml")


def test_module_name_in_an_ini_file_is_not_a_path(tmp_path: Path) -> None:
    here = tmp_path / "inner"
    here.mkdir()
    (tmp_path / "s.json").write_text("{}")

    assert place_path("shop.models:*", tmp_path, here) == "shop.models:*"
    assert place_path("schemas/*.json", tmp_path, here) == str(Path("..", "schemas", "*.json"))
    assert place_path("s.json", tmp_path, here) == str(Path("..", "s.json"))
