from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, safe_name
from pytest_jsbench.core.errors import DatasetError, JSBenchError
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.documents import DocumentFolder
from pytest_jsbench.datasets.sources.folder import open_files
from pytest_jsbench.prompts import PROMPTS, find_template
from pytest_jsbench.verdicts import Judge
from tests.support.dataset_reading import keys, opened, problem, read, schema, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names = ("b.json", "a.json", "orders/one.json", "orders/two.json", "deep/er/three.json")
    return write(tmp_path / "schemas", {name: {"title": name} for name in names})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{oops", "not JSON"),
        (b"[1]", "a JSON array is not a JSON Schema; expected an object, true or false"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_file_without_a_schema_is_a_broken_case_with_its_path(tmp_path: Path, content: bytes, message: str) -> None:
    path = write(tmp_path, {"bad.json": content}) / "bad.json"

    assert problem(path).startswith(f"{path}: ")
    assert message in problem(path)


def test_a_folder_without_schemas_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"no schemas in .*: expected \*\.json, \*\.yaml or"):
        opened(tmp_path)


def test_a_file_of_fifty_megabytes_is_not_read(folder: Path) -> None:
    with (folder / "huge.json").open("wb") as file:
        file.truncate(50_000_000)

    message = f"{folder / 'huge.json'}: cannot be read: 50,000,000 bytes; expected at most 10,000,000"
    assert problem(folder, "huge") == message


def test_schema_is_not_parsed_before_its_case_is_read(tmp_path: Path) -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "format": "uuid"}
    tool = {"name": "find", "inputSchema": {"type": "object"}}
    parsed: list[str] = []

    class NotingFolder(DocumentFolder):
        def parse(self, path: Path) -> object:
            parsed.append(path.name)
            return super().parse(path)

    root = write(tmp_path / "s", {"schema.json": schema, "tool.json": tool})
    dataset = open_files(Selection(source=str(root)), sorted(root.iterdir()), root=root, documents=NotingFolder)

    assert [str(key) for key in dataset.keys()] == ["s::schema", "s::find"]
    assert parsed == ["tool.json"]


@pytest.mark.parametrize("levels", [900, 100_000])
@pytest.mark.parametrize(
    "top", ['{"$ref": "b.json", "not": ', '{"openapi": "3.0.0", "info": {}, "components": {"schemas": {"A": ']
)
def test_deep_schema_is_not_judged_and_does_not_end_the_process(
    folder: Path, judge: Judge, top: str, levels: int
) -> None:
    open_braces = levels + top.count("{") - top.count("}")
    (folder / "deep.json").write_text(top + '{"not": ' * levels + "{}" + "}" * open_braces)
    dataset = opened(folder / "deep.json")

    case = dataset.case(dataset.keys()[0])

    if isinstance(case, BrokenCase):
        assert "nested too deeply" in case.problem
    else:
        verdict = judge.inspect(case.schema)
        assert verdict is not None
        assert verdict.reason == "too_deep"


@pytest.mark.parametrize("name", ["a::b", "\x1b[31m", b"\xff\xfe".decode("utf-8", "surrogateescape")])
def test_a_file_of_any_name_is_read_by_a_safe_one(tmp_path: Path, name: str) -> None:
    root = write(tmp_path / "schemas", {f"{name}.json": "{oops"})

    assert keys(root) == [f"schemas::{safe_name(name)}"]
    message = problem(root, safe_name(name))
    assert message.isprintable()
    message.encode()


def test_two_files_of_one_name_stay_two_cases(folder: Path) -> None:
    pytest.importorskip("yaml", reason="needs the extra yaml")
    write(folder, {"a.yaml": "title: other"})

    assert keys(folder)[:3] == ["schemas::a", "schemas::a.2", "schemas::b"]
    assert schema(folder, "a.2") == {"title": "other"}


def test_the_order_is_of_names_and_not_of_a_disk_or_a_language(tmp_path: Path) -> None:
    root = write(tmp_path / "schemas", {f"{name}.json": True for name in ("b", "a10", "Z", "é", "a", "a2", "a-b")})
    expected = [f"schemas::{name}" for name in ("Z", "a-b", "a", "a10", "a2", "b", "é")]
    paths = list(root.iterdir())

    for order in (paths, paths[::-1]):
        dataset = open_files(Selection(source=str(root)), order, root=root)
        assert [str(key) for key in dataset.keys()] == expected


def test_a_machine_without_open_files_makes_no_case_a_broken_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = opened(folder)
    key = dataset.keys()[0]

    def exhausted(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", exhausted)
        with pytest.raises(JSBenchError, match=r"cannot be read: out of open files \(ulimit -n\)"):
            dataset.case(key)

    assert isinstance(dataset.case(key), Case)


ARGUMENTS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
RESULT = {"type": "object", "properties": {"celsius": {"type": "number"}}}

CHAT = {"type": "function", "function": {"name": "weather", "strict": True, "parameters": ARGUMENTS}}
RESPONSES = {"type": "function", "name": "weather", "parameters": ARGUMENTS}
BARE = {"name": "weather", "description": "d", "parameters": ARGUMENTS}
ANTHROPIC = {"name": "weather", "description": "d", "input_schema": ARGUMENTS}
MCP = {"name": "weather", "title": "Weather", "inputSchema": ARGUMENTS}
MCP_BOTH = {**MCP, "outputSchema": RESULT}


@pytest.mark.parametrize("tool", [CHAT, RESPONSES, BARE, ANTHROPIC, MCP])
def test_each_provider_s_definition_is_a_case_of_its_arguments(tmp_path: Path, tool: dict[str, Any]) -> None:
    source = write(tmp_path / "tools", {"a.json": tool})

    assert keys(source) == ["tools::weather"]
    assert schema(source) == ARGUMENTS


@pytest.mark.parametrize(
    "document",
    [
        [MCP, {**CHAT, "function": {**CHAT["function"], "name": "b"}}],  # type: ignore[dict-item]
        {"tools": [ANTHROPIC, {**ANTHROPIC, "name": "b"}], "model": "m"},
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [MCP, {**MCP, "name": "b"}], "nextCursor": None}},
        {"functions": [BARE, {**BARE, "name": "b"}]},
    ],
)
def test_a_list_of_tools_is_a_task_of_the_file_s_name(tmp_path: Path, document: Any) -> None:
    source = write(tmp_path, {"server.json": document})

    assert keys(source) == ["server::weather", "server::b"]
    assert schema(source, "b") == ARGUMENTS


def test_result_of_a_tool_is_a_separate_case(tmp_path: Path) -> None:
    source = write(tmp_path / "mcp", {"weather.json": MCP_BOTH, "other.json": {**MCP, "name": "other"}})

    assert keys(source) == ["mcp::other", "mcp::weather", "mcp::weather.output"]
    assert schema(source, "weather.output") == RESULT


@pytest.mark.parametrize("arguments", [[1], "{}"])
def test_tool_with_invalid_schema_is_a_broken_case(tmp_path: Path, arguments: object) -> None:
    source = write(tmp_path, {"tools.json": {"name": "weather", "inputSchema": arguments}})

    assert "is not a JSON Schema; expected an object, true or false" in problem(source, "weather")


@pytest.mark.parametrize(
    "own",
    [
        {"type": "object", "properties": {"name": {"type": "string"}, "parameters": {"type": "object"}}},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "name": "x", "parameters": {}},
        {"title": "tools", "properties": {"tools": {"type": "array"}}},
        {"description": "openapi function inputSchema"},
    ],
)
def test_a_schema_about_tools_is_a_schema(tmp_path: Path, own: Any) -> None:
    assert schema(write(tmp_path, {"a.json": own}), "a") == own


@pytest.mark.parametrize("prompt", PROMPTS)
def test_the_tool_and_its_description_reach_the_prompt(tmp_path: Path, prompt: str) -> None:
    source = write(tmp_path, {"weather.json": {**MCP_BOTH, "description": "How warm it is \ud800.\nNow."}})
    arguments, result = read(source, "weather"), read(source, "weather.output")
    assert isinstance(arguments, Case)
    assert isinstance(result, Case)

    heads = [find_template(prompt).render(case).messages[-1].content.split("\n\n")[0] for case in (arguments, result)]

    assert heads == [
        "Give the arguments of a call of the tool weather: How warm it is ?.\nNow.",
        "Give a result of the tool weather: How warm it is ?.\nNow.",
    ]


def test_a_template_of_one_s_own_has_the_tool_as_about(tmp_path: Path) -> None:
    pytest.importorskip("jinja2", reason="templates need the extra prompts")
    template = tmp_path / "prompt.j2"
    template.write_text("{{ about }} {{ id }}", "utf-8")
    case = Case(key=CaseKey(task="t", id="x"), schema=True, about="Give the arguments of a call of the tool x.")

    rendered = find_template(str(template)).render(case)

    assert rendered.messages[0].content == "Give the arguments of a call of the tool x. x"


@pytest.mark.parametrize(
    "inner",
    ["node_modules/p/package.json", ".git/a.json", ".ipynb_checkpoints/a-checkpoint.json", "x/__pycache__/a.json",
     "venv/lib/a.json", "conda/lib/a.json", "._a.json", "x/._a.json", ".cache/rows.parquet"],
)  # fmt: skip
def test_files_of_tools_are_no_schemas(tmp_path: Path, inner: str) -> None:
    root = write(
        tmp_path / "s",
        {"a.json": True, "deep/b.json": True, "venv/pyvenv.cfg": "", "conda/conda-meta/history": "", inner: "{oops"},
    )

    assert keys(root) == ["s::a", "deep::b"]
    assert keys(f"{root}/**/*.json") == ["s::a", "deep::b"]


def test_pattern_that_names_a_hidden_directory_reads_it(tmp_path: Path) -> None:
    root = write(tmp_path / "s", {".schemas/a.json": True})

    assert keys(root / ".schemas") == [".schemas::a"]
    assert keys(f"{root}/.schemas/*.json") == [".schemas::a"]
