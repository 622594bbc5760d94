from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_jsbench.core.errors import ImportFailed
from pytest_jsbench.core.extensions import import_object, is_reference


def test_an_object_is_found_by_its_module_and_name() -> None:
    assert import_object("pathlib:Path", purpose="x") is Path
    assert import_object("pathlib:Path.exists", purpose="x") is Path.exists
    assert import_object("pathlib:*", purpose="x") is sys.modules["pathlib"]


@pytest.mark.parametrize("text", ["pathlib", "pathlib:", ":Path", "a b:c", "C:\\models", "a:*.b", "a.:b"])
def test_what_is_no_reference_is_told_apart(text: str) -> None:
    assert not is_reference(text)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("no_such_module_at_all:Name", "x: cannot import no_such_module_at_all: ModuleNotFoundError"),
        ("pathlib:Pth", "x: pathlib has no 'Pth': did you mean 'Path'?"),
        ("nothing", "x: 'nothing' is not of the form package.module:name"),
    ],
)
def test_what_cannot_be_had_is_one_line(reference: str, message: str) -> None:
    with pytest.raises(ImportFailed) as caught:
        import_object(reference, purpose="x")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_module_that_raises_cannot_write_to_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "raises_on_import.py").write_text("raise ValueError('\\x1b[31mred\\nand two lines')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportFailed, match=r"ValueError: \\x1b\[31mred and two lines$"):
        import_object("raises_on_import:Name", purpose="x")


def test_a_module_that_quotes_a_key_while_it_is_imported_does_not_show_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "quotes_a_key.py").write_text("raise ValueError('bad key sk-0123456789abcdef')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportFailed, match=r"bad key \[key\]") as caught:
        import_object("quotes_a_key:Name", purpose="x")
    assert "sk-0123" not in str(caught.value)
