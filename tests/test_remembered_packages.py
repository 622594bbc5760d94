"""The metadata of packages is the same whether it is read once or each time."""

from __future__ import annotations

import importlib.metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.remembered_packages import CachedAnswer, remember_packages
from tests.support.warm_python import OF_A_SESSION


def test_a_package_that_a_test_makes_is_found_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remember_packages()
    monkeypatch.syspath_prepend(tmp_path)
    assert not importlib.metadata.entry_points(group="made_by_a_test")

    made = tmp_path / "made-1.0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: made\nVersion: 1.0\n")
    (made / "entry_points.txt").write_text("[made_by_a_test]\none = made:one\n")

    assert importlib.metadata.version("made") == "1.0"
    assert [entry.value for entry in importlib.metadata.entry_points(group="made_by_a_test")] == ["made:one"]


def test_installed_packages_have_the_metadata_that_is_on_disk() -> None:
    remember_packages()
    found = {each.name: each for each in importlib.metadata.distributions() if isinstance(each, CachedAnswer)}

    assert importlib.metadata.version("pytest") == found["pytest"].version == pytest.__version__
    (root,) = {Path(str(found["pytest"].locate_file("")))}
    on_disk = importlib.metadata.PathDistribution(next(root.glob("pytest-*.dist-info")))
    assert found["pytest"].metadata.json == on_disk.metadata.json
    assert list(found["pytest"].entry_points) == list(on_disk.entry_points)
    assert found["pytest"].files == on_disk.files
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("no-such-package-of-ours")


def test_modules_imported_once_for_all_sessions_exist() -> None:
    ours = [name for name in OF_A_SESSION if name.startswith("pytest_jsbench.")]

    assert len(ours) > 20
    assert [name for name in ours if find_spec(name) is None] == []
