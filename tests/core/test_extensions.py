from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

from pytest_jsbench.core.errors import ExportError, ImportFailed
from pytest_jsbench.core.extensions import extension, find_entry_points, import_object, is_reference, load
from tests.support.packages import install

GROUP = "pytest_jsbench.things"


def package(name: str, entry_points: str) -> dict[str, str]:
    header = f'[project]\nname = "{name}"\nversion = "1.0"\n'
    return {"pyproject.toml": f'{header}[project.entry-points."{GROUP}"]\n{entry_points}\n'}


def test_extensions_of_packages_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "one", package("one", 'a = "json:dumps"'), monkeypatch)
    install(tmp_path / "two", package("two", 'b = "json:loads"'), monkeypatch)

    found = find_entry_points("thing", error=ExportError)

    assert {name: point.value for name, point in found.items()} == {"a": "json:dumps", "b": "json:loads"}
    assert load(found["b"], kind="thing", error=ExportError) is json.loads


def test_name_provided_by_two_packages_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "one", package("one", 'a = "json:dumps"'), monkeypatch)
    install(tmp_path / "two", package("two", 'a = "json:loads"'), monkeypatch)

    with pytest.raises(ExportError) as caught:
        find_entry_points("thing", error=ExportError)

    message = (
        "thing 'a' is provided twice, by json:loads (package two 1.0) and by json:dumps (package one 1.0); uninstall"
    )
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("order", [("pytest-jsbench", "two"), ("two", "pytest-jsbench")])
def test_third_party_extension_takes_precedence_over_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[str, str]
) -> None:
    for name in order:
        function = "loads" if name == "two" else "dumps"
        install(tmp_path / name, package(name, f'a = "json:{function}"'), monkeypatch)

    assert extension("thing", "a", error=ExportError) is json.loads


def test_unknown_extension_advises_to_reinstall_stale_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "two", package("two", 'other = "json:loads"'), monkeypatch)
    with pytest.raises(ExportError) as unknown:
        extension("thing", "own", error=ExportError)
    things = metadata.entry_points(group=GROUP)
    monkeypatch.setattr(metadata, "entry_points", lambda **wanted: things.select(**wanted))
    with pytest.raises(ExportError) as stale:
        extension("thing", "own", error=ExportError)

    message = "unknown thing 'own': expected one of other"
    assert str(unknown.value) == message
    assert str(stale.value) == f"{message}; pytest-jsbench is installed without its newest entry points: reinstall it"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_module_at_all:x", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("json:dump_all", "AttributeError: module 'json' has no attribute 'dump_all'"),
    ],
)
def test_import_error_is_one_line_with_package_and_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, reason: str
) -> None:
    install(tmp_path / "one", package("one", f'a = "{value}"'), monkeypatch)

    with pytest.raises(ExportError) as caught:
        load(find_entry_points("thing", error=ExportError)["a"], kind="thing", error=ExportError)

    message = f"thing 'a': cannot import {value} (package one 1.0): {reason}; update that package, or uninstall it"
    assert str(caught.value) == message


def test_an_object_is_found_by_its_module_and_name() -> None:
    assert import_object("pathlib:Path", purpose="x") is Path
    assert import_object("pathlib:Path.exists", purpose="x") is Path.exists
    assert import_object("pathlib:*", purpose="x") is sys.modules["pathlib"]


@pytest.mark.parametrize("text", ["pathlib", "pathlib:", ":Path", "a b:c", "C:\\models", "a:*.b", "a.:b"])
def test_is_reference_rejects_other_texts(text: str) -> None:
    assert not is_reference(text)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("no_such_module_at_all:Name", "x: cannot import no_such_module_at_all: ModuleNotFoundError"),
        ("pathlib:Pth", "x: pathlib has no 'Pth': did you mean 'Path'?"),
        ("nothing", "x: 'nothing' is not of the form package.module:name"),
    ],
)
def test_import_object_failure_is_one_line(reference: str, message: str) -> None:
    with pytest.raises(ImportFailed) as caught:
        import_object(reference, purpose="x")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("\x1b[31mred\nand two lines", "\\x1b[31mred and two lines"), ("bad key sk-0123456789abcdef", "bad key [key]")],
)
def test_failing_import_prints_nothing_and_shows_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, shown: str
) -> None:
    (tmp_path / "raises_on_import.py").write_text(f"raise ValueError({text!r})")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "raises_on_import", raising=False)
    with pytest.raises(ImportFailed, match=rf"ValueError: {re.escape(shown)}$"):
        import_object("raises_on_import:Name", purpose="x")


def test_current_directory_is_imported_from_after_all_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pathlib.py").write_text("Path = None")
    (tmp_path / "only_in_current_directory.py").write_text("NAME = 1")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.chdir(tmp_path)
    try:
        assert import_object("only_in_current_directory:NAME", purpose="x") == 1
        assert import_object("pathlib:Path", purpose="x") is Path
        assert sys.path[-1] == str(tmp_path)
    finally:
        sys.modules.pop("only_in_current_directory", None)
