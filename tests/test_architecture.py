"""Test that the package has the layout of docs/architecture.md, and that documented names exist."""

from __future__ import annotations

import ast
import importlib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sources import nodes, trees
from tools.reference import PACKAGE, ROOT, contract

MODULES = sorted(PACKAGE.rglob("*.py"))
PAGE = ROOT / "docs" / "architecture.md"
#: Figures of the page in order, as level and package.
PICTURED = [(0, "pytest_jsbench"), (1, "pytest_jsbench.plugin")]
#: Names that are documented for authors of extensions, by module.
DOCUMENTED = {
    "pytest_jsbench": (
        *("CallError", "Case", "Completion", "EngineConfig", "EngineInfo", "JSBench", "JudgePolicy", "Record"),
        *("Request", "Run", "Stopwatch", "Summary", "assert_conforms", "judge"),
    ),
    "pytest_jsbench.datasets.base": ("CaseSource", "Selection", "choose_tasks"),
    "pytest_jsbench.engines.base": ("GrammarMatcher", "EngineFactory"),
    "pytest_jsbench.testing": ("EngineContract",),
}


def test_a_public_class_has_its_name_alone() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(path)

    assert len(homes) > 100
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_a_run_is_built_in_one_place() -> None:
    places: dict[str, list[str]] = {"Admission": [], "ProjectRunner": [], "RecordKeeper": [], "Runner": []}
    for path, inner in nodes().items():
        for node in inner:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in places:
                places[node.func.id].append(path)

    assert places.pop("RecordKeeper") == ["run/session.py"]
    assert set(map(tuple, places.values())) == {("run/runners.py",)}


def test_attempts_are_made_in_one_place() -> None:
    places = [
        path
        for path, inner in nodes().items()
        for node in inner
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "attempt"
    ]

    # a test's runner passes the call of the session on to the runner of its engine
    assert sorted(places) == ["run/project_runner.py", "run/session.py"]


def test_no_other_package_imports_the_lab() -> None:
    places = []
    for path, inner in nodes().items():
        names = [
            *(alias.name for node in inner if isinstance(node, ast.Import) for alias in node.names),
            *(node.module or "" for node in inner if isinstance(node, ast.ImportFrom)),
            *(str(node.value) for node in inner if isinstance(node, ast.Constant)),
        ]
        if any(re.search(r"\blab\b(?!/)", name) for name in names):
            places.append(path)

    assert "lab/probe/command.py" in places
    assert [path for path in places if not path.startswith("lab/")] == []


def test_the_top_of_the_package_is_seen_at_a_glance() -> None:
    names = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES} - {"__init__", "__main__"}

    assert "core" in names
    assert len(names) <= 20, sorted(names)


def test_no_module_is_longer_than_600_lines() -> None:
    lengths = {str(path.relative_to(PACKAGE)): len(path.read_text("utf-8").splitlines()) for path in MODULES}

    assert {name: length for name, length in lengths.items() if length > 600} == {}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in DOCUMENTED.items() for name in names])
def test_names_documented_for_extensions_exist(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)


def pictures() -> list[str]:
    """Return the figures of the page in Mermaid syntax."""
    return re.findall(r"^```mermaid\n(.*?)^```$", PAGE.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def drawn(picture: str) -> list[list[str]]:
    """Return the boxes of each layer, from top to bottom."""
    layers = re.findall(r"^ *subgraph .*?\n(.*?)^ *end$", picture, flags=re.MULTILINE | re.DOTALL)
    return [re.findall(r"^ *(\w+)(?:\[.*\])?$", layer, flags=re.MULTILINE) for layer in layers]


def arrows(picture: str) -> Iterator[tuple[str, str]]:
    """Return the start and the end of each arrow."""
    for line in re.findall(r"^ *\w+(?: --> \w+)+$", picture, flags=re.MULTILINE):
        yield from itertools.pairwise(line.strip().split(" --> "))


@pytest.mark.parametrize(("number", "container"), PICTURED)
def test_the_picture_has_the_layers_of_the_contract(number: int, container: str) -> None:
    assert [sorted(layer) for layer in drawn(pictures()[number])] == [sorted(layer) for layer in contract(container)]


@pytest.mark.parametrize(("number", "container"), PICTURED)
def test_each_arrow_of_the_picture_leads_from_a_layer_to_the_one_below(number: int, container: str) -> None:
    picture = pictures()[number]
    layers = re.findall(r"^ *subgraph (\w+)", picture, flags=re.MULTILINE)

    assert list(arrows(picture)) == list(itertools.pairwise(layers))


def test_helpers_that_tests_share_are_in_support() -> None:
    folder = Path(__file__).parent
    modules = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}
    helpers = [name for name in modules if not re.search(r"^support/|(?:^|/)(?:test_\w+|conftest|__init__)\.py$", name)]
    imported = [
        (name, module)
        for name, path in modules.items()
        for module in re.findall(r"^ *from (tests\.[\w.]+) import", path.read_text("utf-8"), flags=re.MULTILINE)
    ]

    assert len(imported) > 300
    assert helpers == []
    assert [pair for pair in imported if not pair[1].startswith("tests.support")] == []


def test_clocks_and_private_names_are_injected_and_not_patched() -> None:
    private = r'setattr\(\s*(?:[^"()]|\([^()]*\))+,\s*"_(?!_)|setattr\(\s*"pytest_jsbench[\w.]*\._'
    clock = r'setattr\(\s*(?:[\w.]+,\s*"(?:time|random)"|(?:time|random|datetime),)'
    patched = re.compile(f"{private}|{clock}")

    for line in ('setattr(shelf, "_PATIENCE", 1)', 'setattr("pytest_jsbench.a._B", 1)', 'setattr(type(a), "_b", 1)'):
        assert patched.search(line)
    for line in ('setattr(limits, "time", clock)', 'setattr(time, "sleep", wait)'):
        assert patched.search(line)
    own = Path(__file__)
    texts = {str(path): path.read_text("utf-8") for path in own.parent.rglob("*.py") if path != own}
    assert [(name, found[0]) for name, text in texts.items() for found in patched.finditer(text)] == []


@pytest.mark.skipif(not (ROOT / "tox.ini").exists(), reason="needs a whole checkout")
@pytest.mark.parametrize(("page", "least"), [("architecture", 40), ("contributing", 15)])
def test_every_path_on_pages_about_the_package_exists(page: str, least: int) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    named = set(re.findall(r"`([\w./]+(?:\.(?:py|json|toml|md|ini|yml)|/))`", text))

    assert len(named) > least
    assert [path for path in sorted(named) if not (ROOT / path).exists() and not (PACKAGE / path).exists()] == []


@pytest.mark.skipif(not (ROOT / "tox.ini").exists(), reason="needs a whole checkout")
def test_every_path_that_a_file_of_settings_names_exists() -> None:
    files = [ROOT / "tox.ini", ROOT / "pyproject.toml", *(ROOT / ".github").rglob("*.yml")]
    text = "\n".join(path.read_text("utf-8") for path in files)
    top = r"(?:tests|tools|docs|examples|benchmarks|pytest_jsbench|\.ci|\.github)"
    named = set(re.findall(rf"(?<![\w/-])(?:\.?/)?({top}/[\w./-]*\w)", text))

    assert len(named) > 25
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


@pytest.mark.skipif(not (ROOT / ".github").exists(), reason="needs a whole checkout")
def test_the_wheel_that_is_released_runs_before_it_is_handed_on() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    steps = ("python -m build", '/dist/*.whl)[report]"', "--jsbench-engine=scripted", "actions/upload-artifact")

    assert sorted(map(text.index, steps)) == [*map(text.index, steps)]
