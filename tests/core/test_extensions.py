from __future__ import annotations

from pathlib import Path

import pytest

from pytest_jsbench.core.errors import ExportError
from pytest_jsbench.core.extensions import installed, load
from tests.packages import install

GROUP = "pytest_jsbench_test.things"


def package(name: str, entry_points: str) -> dict[str, str]:
    header = f'[project]\nname = "{name}"\nversion = "1.0"\n'
    return {"pyproject.toml": f'{header}[project.entry-points."{GROUP}"]\n{entry_points}\n'}


def test_what_packages_bring_is_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "one", package("one", 'a = "json:dumps"'), monkeypatch)
    install(tmp_path / "two", package("two", 'b = "json:loads"'), monkeypatch)

    found = installed(GROUP, kind="thing", error=ExportError)

    assert {name: point.value for name, point in found.items()} == {"a": "json:dumps", "b": "json:loads"}
    assert load(found["b"], kind="thing", error=ExportError) is __import__("json").loads


def test_a_name_that_two_packages_bring_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "one", package("one", 'a = "json:dumps"'), monkeypatch)
    install(tmp_path / "two", package("two", 'a = "json:loads"'), monkeypatch)

    with pytest.raises(ExportError) as caught:
        installed(GROUP, kind="thing", error=ExportError)

    said = "thing 'a' is brought twice, by json:loads (package two 1.0) and by json:dumps (package one 1.0); uninstall"
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_module_at_all:x", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("json:dump_all", "AttributeError: module 'json' has no attribute 'dump_all'"),
    ],
)
def test_what_cannot_be_imported_is_one_line_with_the_package_and_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, reason: str
) -> None:
    install(tmp_path / "one", package("one", f'a = "{value}"'), monkeypatch)

    with pytest.raises(ExportError) as caught:
        load(installed(GROUP, kind="thing", error=ExportError)["a"], kind="thing", error=ExportError)

    said = f"thing 'a': cannot import {value} (package one 1.0): {reason}; update that package, or uninstall it"
    assert str(caught.value) == said
