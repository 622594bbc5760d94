from __future__ import annotations

import pytest

from pytest_jsbench.plugin.options.settings import Settings

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


def read(pytester: pytest.Pytester, *args: str, table: str = TABLE, file: str = "pyproject.toml") -> Settings:
    (pytester.path / file).write_text(table)
    return Settings.from_config(pytester.parseconfig(*args))


def test_a_table_makes_a_variant_of_each_of_its_entries(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\njsbench_engine = local\njsbench_model = tiny.gguf\njsbench_max_tokens = 9\n")

    variants = read(pytester).variants

    assert {name: (one.engine.name, one.engine.model) for name, one in variants.items()} == {
        "small-one": ("openai", "gpt-5.4-mini"),
        "free": ("scripted", None),  # what the ini file says is of its own engine
        "plain": ("local", "tiny.gguf"),
    }
    assert variants["small-one"].temperature == 0.5
    assert dict(variants["free"].engine.options) == {"answers": "answers.json", "latency": 0.1}
    assert [(one.prompt, one.max_tokens) for one in variants.values()] == [("schema", 9), ("chat", 9), ("schema", 9)]


def test_some_variants_may_be_asked_for_in_any_order_and_all_of_them_without_an_engine_in_the_ini_file(
    pytester: pytest.Pytester,
) -> None:
    assert list(read(pytester, "--jsbench-variants=free,small-one").variants) == ["free", "small-one"]
    with pytest.raises(pytest.UsageError, match="variant 'plain' names no engine: say engine in its table, or"):
        read(pytester, "--jsbench-variants=all")


def test_a_file_of_its_own_holds_the_table_and_one_of_the_two_does(pytester: pytest.Pytester) -> None:
    own = TABLE.replace("tool.jsbench.", "")

    assert list(read(pytester, "--jsbench-variants=free", table=own, file="jsbench.toml").variants) == ["free"]
    with pytest.raises(pytest.UsageError, match=r"variants stand in .*pyproject\.toml and in .*jsbench\.toml; keep"):
        read(pytester, "--jsbench-variants=free")


def test_files_of_a_table_are_those_beside_it(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    table = '[[tool.jsbench.variants]]\nname = "a"\nprompt = "short.j2"\nengine_option = { answers = "a.json" }\n'
    pytester.makefile(".j2", short="{{ schema }}")
    pytester.makefile(".json", a="{}")
    (pytester.path / "pyproject.toml").write_text(f"[tool.pytest.ini_options]\n{table}")
    monkeypatch.chdir(pytester.mkdir("below"))

    variant = Settings.from_config(pytester.parseconfig("--jsbench-engine=scripted")).variants["a"]

    assert variant.prompt.replace("\\", "/") == "../short.j2"
    assert str(variant.engine.options["answers"]).replace("\\", "/") == "../a.json"


def test_a_command_line_that_says_what_the_table_says_leaves_it_out(pytester: pytest.Pytester) -> None:
    settings = read(pytester, "--jsbench-engine=scripted", "--jsbench-model=x")

    assert list(settings.variants) == [""]
    assert settings.variants_left_out.endswith("pyproject.toml are left out, since --jsbench-engine is given here")
    with pytest.raises(
        pytest.UsageError, match=r"--jsbench-engine and variant 'free' in .* leave out --jsbench-engine"
    ):
        read(pytester, "--jsbench-variants=free", "--jsbench-engine=scripted")


def test_a_table_that_the_ini_file_asks_for_is_not_left_out_where_nobody_else_could_be_asked(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeini("[pytest]\njsbench_variants = small-one\n")

    with pytest.raises(pytest.UsageError, match=r"--jsbench-temperature and variant 'small-one' in .* in two ways"):
        read(pytester, "--jsbench-temperature=1")
    assert read(pytester, "--jsbench-temperature=1", "--jsbench-engine=scripted").variants_left_out


@pytest.mark.parametrize("option", ["record", "replay"])
def test_answers_are_recorded_and_replayed_without_a_table_that_is_not_asked_for(
    pytester: pytest.Pytester, option: str
) -> None:
    pytester.makeini("[pytest]\njsbench_engine = scripted\n")

    settings = read(pytester, f"--jsbench-{option}=kept")

    assert list(settings.variants) == [""]
    assert settings.variants_left_out.endswith("left out: --jsbench-variants=all records or replays them")


def test_what_the_table_does_not_say_may_be_typed_and_multiplies_it(pytester: pytest.Pytester) -> None:
    args = ("--jsbench-variants=free,plain", "--jsbench-shots=0", "--jsbench-shots=2", "--jsbench-engine-option=x=1")
    table = TABLE.replace('name = "plain"', 'name = "plain"\nengine = "scripted"')

    variants = read(pytester, *args, table=table).variants

    assert list(variants) == ["free-shots-0", "free-shots-2", "plain-shots-0", "plain-shots-2"]
    assert [one.engine.options["x"] for one in variants.values()] == [1, 1, 1, 1]


def test_each_variant_records_in_a_folder_of_its_own_and_answers_from_there(pytester: pytest.Pytester) -> None:
    recorded = read(pytester, "--jsbench-variants=free,small-one", "--jsbench-record=kept").variants
    replayed = read(pytester, "--jsbench-variants=free,small-one", "--jsbench-replay=kept").variants

    assert {name: one.record for name, one in recorded.items()} == {
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
        (f"{NAMED}shots = true", r"variant 'a': shots: expected a text or a number, found a bool"),
        (f"{NAMED}model = ['a', 'b']", r"variant 'a': model: expected a text or a number, found an array"),
        (f"{NAMED}response_format = 'json'", r"variant 'a': response_format: expected one of text, .*, found 'json'"),
        (f"{NAMED}engine_option = 'a=1'", r"variant 'a': engine_option: expected a table such as .*, found a text"),
        (f"{NAMED}engine_option = {{ at = 2026-01-01 }}", r"variant 'a': engine_option: expected a table such as"),
        (f"{NAMED}dataset = 'x'", r"variant 'a': unknown key 'dataset': expected one of adapt, "),
        ("[[tool.jsbench.variants]]\nmodel = 'x'", r"variant 1: name is not there; expected a name with letters"),
        ("[[tool.jsbench.variants]]\nname = ''", r"variant 1: name is an empty text; expected a name with letters"),
        ("[[tool.jsbench.variants]]\nname = '///'", r"variant 1: name is '///'; expected a name with letters"),
        ("[[tool.jsbench.variants]]\nname = 'all'", r"variant 1: name is 'all'; expected .* and not 'all'"),
        (
            f"{NAMED}{NAMED.upper().replace('TOOL.JSBENCH.VARIANTS', 'tool.jsbench.variants').replace('NAME', 'name')}",
            r"variant 2: there is a variant 'A' already",
        ),
        ("[[tool.jsbench.variant]]\nname = 'a'", r"\[tool\.jsbench\] of .*: unknown key 'variant': did you mean"),
        ("[tool.jsbench.variants]\na = 'x'", r"\[tool\.jsbench\] of .*: expected \[\[tool\.jsbench\.variants\]\]"),
        ("[tool]\njsbench = 3", r"\[tool\.jsbench\] of .*: expected \[\[tool\.jsbench\.variants\]\]"),
        ("", r"--jsbench-variants: there is no \[\[tool\.jsbench\.variants\]\] in pyproject\.toml"),
        ("[[tool.jsbench.variants]]\nname = 'aba'", r"--jsbench-variants: no variant 'a' in .*: expected one of aba"),
    ],
)
def test_a_mistake_in_a_table_is_one_line_that_names_its_place(
    pytester: pytest.Pytester, table: str, message: str
) -> None:
    pytester.makeini("[pytest]\n")

    with pytest.raises(pytest.UsageError, match=message) as caught:
        read(pytester, "--jsbench-engine=scripted", "--jsbench-variants=a", table=table)
    assert "\n" not in str(caught.value)


def test_a_table_that_is_no_toml_is_one_line(pytester: pytest.Pytester) -> None:
    with pytest.raises(pytest.UsageError, match=r"jsbench\.toml: cannot be read: Expected"):
        read(pytester, "--jsbench-engine=scripted", table="[[variants", file="jsbench.toml")
