"""Test that pyproject.toml declares each imported package, as a dependency or in the extra that uses it."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import pytest

from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.registry import find
from tests.support.sources import trees
from tools.reference import PACKAGE, ROOT, assert_installed_anew

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
GROUPS: dict[str, list[str | dict[str, str]]] = PYPROJECT["dependency-groups"]
#: Distributions whose name differs from the module's.
DISTRIBUTIONS = {"yaml": "pyyaml", "xdist": "pytest-xdist"}
#: Packages that are used if they are installed: idna (docs/rules.md), and trio for a test in its loop.
IF_THERE = {"idna", "trio"}
ASKING = ["openai", "anthropic", "gemini", "bedrock", "vertex", "local", "llguidance", "outlines", "xgrammar"]
#: Extras that parts of the package are used with, by the longest matching path.
USED_WITH = {
    "engines/http": ASKING,
    "engines/base.py": ASKING,
    "engines/providers": ["openai", "anthropic", "gemini", "bedrock", "vertex"],
    "engines/providers/batches.py": ["openai", "anthropic", "gemini"],
    "engines/local.py": ["local", "llguidance", "outlines", "xgrammar"],
    "engines/local_server.py": ["local", "llguidance", "outlines", "xgrammar"],
    "lab/decoding/engines.py": ["llguidance", "outlines", "xgrammar"],
    "prompts/files.py": ["prompts"],
    "reports/html": ["report"],
    "reports/plot.py": ["plot"],
    "datasets/sources/hub.py": ["datasets"],
    "datasets/sources/parquet_tables.py": ["datasets", "frames"],
    "metrics/prices.py": ["openai", "anthropic", "gemini"],
    "verdicts/local_repair.py": ["repair"],
}
#: Packages that an engine's module needs for only one of its extras.
OF_A_CLOUD = {
    ("engines/providers/clouds.py", "botocore"): ["bedrock"],
    ("engines/http/answers.py", "botocore"): ["bedrock"],
    ("engines/providers/clouds.py", "google-auth"): ["vertex"],
    # packages that only users of one of them install
    ("lab/decoding/engines.py", "filelock"): ["outlines", "xgrammar"],
}


def requirements(lines: list[str]) -> set[str]:
    """Return the names of the distributions, including those of the named extras of this package."""
    names: set[str] = set()
    for line in lines:
        name = re.match(r"[\w.-]+", line)
        assert name is not None
        if name[0] == PROJECT["name"]:
            extras = re.findall(r"\w+", line[len(name[0]) :])
            names.update(*(requirements(EXTRAS[extra]) for extra in extras))
        else:
            names.add(name[0].lower())
    return names


def imports(tree: ast.Module) -> Iterator[str]:
    """Yield the distributions that a module imports anywhere in its text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules = [node.module or ""]
        else:
            continue
        for module in modules:
            top = module.partition(".")[0]
            if module.startswith("google.auth"):
                yield "google-auth"
            elif top not in sys.stdlib_module_names and top != PACKAGE.name:
                yield DISTRIBUTIONS.get(top, top.replace("_", "-"))


@pytest.fixture(scope="module")
def imported() -> list[tuple[str, str]]:
    """Return the distributions that each module imports."""
    return sorted({(path, name) for path, tree in trees().items() for name in imports(tree) if name not in IF_THERE})


def test_each_imported_package_is_a_dependency_or_in_an_extra(imported: list[tuple[str, str]]) -> None:
    always = requirements(PROJECT["dependencies"])
    undeclared = []
    for module, name in imported:
        room = max((prefix for prefix in USED_WITH if module.startswith(prefix)), key=len, default="")
        extras = OF_A_CLOUD.get((module, name), USED_WITH.get(room, []))
        declared = [name in always | requirements(EXTRAS[extra]) for extra in extras]
        if not (all(declared) if declared else name in always.union(*map(requirements, EXTRAS.values()))):
            undeclared.append(f"{module}: {name} is not declared by {extras or 'anything'}")

    assert len(imported) > 60
    assert undeclared == []


@pytest.mark.parametrize("engine", ["openai", "anthropic"])
def test_an_engine_s_extra_has_its_sdk(engine: str) -> None:
    factory: Any = find(engine)
    sdk = factory.settings(EngineConfig(name=engine, model="m", options={"transport": "sdk"})).sdk

    assert f"{sdk.package}>={'.'.join(map(str, sdk.minimum))}" in EXTRAS[engine]


def test_each_declared_entry_point_is_installed_and_loads() -> None:
    assert_installed_anew()
    points = [point for point in metadata.distribution(PROJECT["name"]).entry_points if ".lab." in point.value]

    assert len(points) > 10
    assert [point.name for point in points if point.load() is None] == []


def test_the_table_names_modules_and_extras_that_there_are(imported: list[tuple[str, str]]) -> None:
    assert [room for room in USED_WITH if not (PACKAGE / room).exists()] == []
    assert {extra for extras in USED_WITH.values() for extra in extras} <= set(EXTRAS)
    assert [pair for pair in OF_A_CLOUD if pair not in imported] == []


@pytest.mark.parametrize("extra", [*ASKING, "all"])
def test_engine_extras_install_xdist_and_pytest_benchmark(extra: str) -> None:
    assert {"pytest-xdist", "pytest-benchmark"} <= requirements(EXTRAS[extra])


def test_tools_of_contributors_are_groups_and_no_extras() -> None:
    assert GROUPS.keys() == {"test", "lint", "docs", "dev"}
    assert GROUPS.keys() & EXTRAS.keys() == set()
    assert [{"include-group": name} for name in ("test", "lint", "docs")] == GROUPS["dev"][:3]
    lines = [line for group in GROUPS.values() for line in group if isinstance(line, str)]
    assert [line for line in lines if line.startswith(PROJECT["name"])] == [], "a group does not install the checkout"
