from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.tool_offers import OfferedTool
from pytest_jsbench.datasets.registry import is_published
from pytest_jsbench.settings.layers import place_path
from tests.support.dataset_reading import keys, opened, problem, read, schema, write

WEATHER = {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
LIGHT = {"type": "function", "function": {"name": "set_light", "parameters": {"type": "object"}}}
CASES: list[Any] = [{"ask": "Is it raining in Paris?", "expect": "get_weather"}]
MODULE = '''
import abc
from pydantic import BaseModel

class Light(BaseModel):
    """Switch a light."""

    room: str

async def get_weather(city: str, days: int = 1) -> str:
    """
    Get the weather.

    Of a city.
    """

def _helper(): ...

def with_connection(connection: abc.ABC): ...

TOOLS = [get_weather, Light, {"name": "stop", "inputSchema": {"type": "object"}}]
BY_NAME = {"weather": get_weather}
'''
ARGUMENTS = {
    "type": "object",
    "properties": {
        "city": {"title": "City", "type": "string"},
        "days": {"default": 1, "title": "Days", "type": "integer"},
    },
    "required": ["city"],
    "additionalProperties": False,
}


def offered(source: object) -> tuple[OfferedTool, ...]:
    case = read(source)
    assert isinstance(case, Case), case
    assert case.offer is not None
    return case.offer.tools


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a module with tools next to `agent.json`, which expects the tool `get_weather`."""
    name = f"home_{tmp_path.name}".replace("-", "_")
    write(tmp_path, {f"{name}.py": MODULE, "agent.json": {"cases": CASES}})
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return name


def test_directory_of_definitions_offers_the_tools_of_all_its_files(tmp_path: Path) -> None:
    write(tmp_path, {"tools/b.json": [WEATHER], "tools/deep/a.json": LIGHT, "tools/notes.txt": "no tool"})
    write(tmp_path, {"agent.json": {"tools": "tools", "cases": CASES}})

    assert [tool.name for tool in offered(tmp_path / "agent.json")] == ["get_weather", "set_light"]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"tools/a.txt": ""}, "no *.json or *.yaml files in "),
        ({"tools/a.json": WEATHER, "tools/b.json": {"type": "object"}}, "b.json: tools contains no tool definition"),
        ({"tools/a.json": WEATHER, "tools/b.json": WEATHER}, "tools contains 'get_weather' 2 times"),
        ({}, "tools is 'tools/', which does not exist; expected a file in "),
    ],
)
def test_directory_that_cannot_be_offered_is_explained(tmp_path: Path, files: dict[str, Any], words: str) -> None:
    write(tmp_path, {**files, "agent.json": {"tools": "tools/", "cases": CASES}})

    assert words in problem(tmp_path / "agent.json")


def test_tools_outside_of_the_folder_are_read_only_if_the_user_names_them(tmp_path: Path) -> None:
    write(tmp_path, {"tools/weather.json": WEATHER, "inner/agent.json": {"tools": "../tools", "cases": CASES}})

    assert "tools is '../tools', which is outside of " in problem(tmp_path / "inner/agent.json")
    assert offered(f"{tmp_path}/inner/agent.json@{tmp_path}/tools")[0].name == "get_weather"


def test_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {"tools/weather.json": WEATHER, "inner/agent.json": {"tools": "link", "cases": CASES}})
    (tmp_path / "inner/link").symlink_to(tmp_path / "tools")

    assert "tools is 'link', which is outside of " in problem(tmp_path / "inner/agent.json")


@pytest.mark.parametrize("source", ["mcp:touch started", "HOME:*", "HOME:get_weather"])
def test_document_runs_no_program_that_it_names(home: str, source: str) -> None:
    source = source.replace("HOME", home)
    write(Path(), {"agent.json": {"tools": source, "cases": CASES}, f"{home}.py": "open('started', 'w').close()"})

    told = problem("agent.json")

    assert f"to run it, set --jsbench-dataset='agent.json@{source}'" in told
    assert not Path("started").exists()


@pytest.mark.parametrize("source", ["mcp:touch started", "HOME:*"])
def test_row_runs_no_program_that_it_names(home: str, source: str) -> None:
    source = source.replace("HOME", home)
    row = {"tools": source, "ask": "Is it raining?", "expect": "none"}
    write(Path(), {"rows.jsonl": row, f"{home}.py": "open('started', 'w').close()"})
    write(Path(), {"agent.json": {"tools": [WEATHER], "cases": [row]}})

    assert f"tools is the text '{source}'; expected a list of tool definitions" in problem("rows.jsonl")
    assert "which would run a program" in problem("agent.json")
    assert not Path("started").exists()


def test_functions_of_a_module_are_tools(home: str) -> None:
    (tool,) = offered(f"agent.json@{home}:get_weather")

    assert tool == OfferedTool(name="get_weather", description="Get the weather.\n\nOf a city.", parameters=ARGUMENTS)


def test_whole_module_offers_its_public_functions(home: str) -> None:
    write(Path(), {f"{home}.py": MODULE.replace("def with_connection(connection: abc.ABC)", "def stop()")})

    assert [tool.name for tool in offered(f"agent.json@{home}:*")] == ["get_weather", "stop"]


def test_module_without_functions_offers_its_models(home: str) -> None:
    text = "from pydantic import BaseModel\nclass get_weather(BaseModel):\n    city: str\n"
    write(Path(), {f"{home}.py": text})

    assert [tool.name for tool in offered(f"agent.json@{home}:*")] == ["get_weather"]


def test_list_of_functions_types_and_definitions_is_offered(home: str) -> None:
    tools = offered(f"agent.json@{home}:TOOLS")

    assert [(tool.name, tool.description) for tool in tools] == [
        ("get_weather", "Get the weather.\n\nOf a city."),
        ("Light", "Switch a light."),
        ("stop", ""),
    ]


def test_functions_are_offered_by_the_names_of_a_mapping(home: str) -> None:
    write(Path(), {"agent.json": {"cases": [{"ask": "Is it raining?", "expect": "weather"}]}})

    assert [tool.name for tool in offered(f"agent.json@{home}:BY_NAME")] == ["weather"]


def test_function_without_a_schema_is_named(home: str) -> None:
    with pytest.raises(DatasetError, match=f"^tools '{home}:with_connection': with_connection has no JSON Schema: "):
        opened(f"agent.json@{home}:with_connection")


def test_function_is_a_dataset_of_its_arguments(home: str) -> None:
    assert keys(f"{home}:get_weather") == [f"{home}::get_weather"]
    assert schema(f"{home}:get_weather") == ARGUMENTS
    assert keys(f"{home}:TOOLS") == [f"{home}::get_weather", f"{home}::Light", f"{home}::stop"]


def test_models_of_a_module_stay_its_dataset(home: str) -> None:
    assert keys(f"{home}:*") == [f"{home}::Light"]


def test_tools_that_the_user_names_replace_those_of_the_document(home: str) -> None:
    write(Path(), {"agent.json": {"tools": "missing.json", "cases": CASES}, "staging.json": [WEATHER, LIGHT]})

    assert [tool.name for tool in offered("agent.json@staging.json")] == ["get_weather", "set_light"]


def test_document_without_tools_states_how_to_name_them(tmp_path: Path) -> None:
    write(tmp_path, {"agent.json": {"cases": CASES}})

    assert "the document has no tools; add them, or set --jsbench-dataset=DOCUMENT@TOOLS" in problem(
        tmp_path / "agent.json"
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("agent.json@nothing", "unknown tools 'nothing'; expected a file, an OpenAPI document"),
        ("agent.json@no_such_module:*", "tools 'no_such_module:*': cannot import no_such_module"),
        ("agent.json@schema.json", "tools 'schema.json': schema.json: tools contains no tool definition"),
        ("schema.json@agent.json", "schema.json is not a document with cases"),
        ("broken.json@agent.json", "broken.json: not JSON: "),
    ],
)
def test_source_of_tools_that_is_wrong_is_explained(home: str, source: str, words: str) -> None:
    write(Path(), {"schema.json": {"type": "object"}, "broken.json": "{"})

    with pytest.raises(DatasetError, match=f"^{re.escape(words)}"):
        opened(source)


def test_suite_of_documents_with_tools_names_each_case(home: str) -> None:
    write(Path(), {"other.json": {"cases": CASES}, "staging.json": [WEATHER, LIGHT]})
    listing = opened("", sources=("agent.json@staging.json", f"other.json@{home}:get_weather"))

    assert [str(key) for key in listing.keys()] == ["agent::get_weather", "other::get_weather"]


@pytest.mark.parametrize("source", ["agent.json@HOME:*", "mcp:python server.py", "mcp:https://example.test/mcp"])
def test_own_sources_are_not_published(home: str, source: str) -> None:
    assert not is_published(source.replace("HOME", home))


def test_document_of_an_ini_file_is_relative_to_that_file(home: str, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    write(tmp_path, {"tools.json": [WEATHER]})

    def placed(source: str) -> object:
        return place_path(source, tmp_path, tmp_path / "inner")

    assert placed("agent.json@tools.json") == "../agent.json@../tools.json"
    assert placed("agent.json@home:*") == "../agent.json@home:*"
    assert placed("agent.json@mcp:python server.py") == "../agent.json@mcp:python server.py"
    assert placed("mcp:python [server].py") == "mcp:python [server].py"
