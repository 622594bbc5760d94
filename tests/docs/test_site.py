"""Check that the site is complete, and loads nothing from other servers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.reference import ROOT

pytest.importorskip("material", reason="needs the extra docs")

_LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//|<link\b[^>]*\bhref=[\"']?https?://[^>]*>"
)


def test_site_has_no_broken_links_and_loads_nothing_external(tmp_path: Path) -> None:
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    build(load_config(str(ROOT / ".mkdocs.yml"), site_dir=str(tmp_path), strict=True))

    pages = list(tmp_path.rglob("*.html"))
    assert (tmp_path / "own-tests.html") in pages
    for page in pages:
        found = [one for one in _LOADED.findall(page.read_text("utf-8")) if "rel=canonical" not in one]
        assert found == [], page
        # The theme would load the program that draws these from another server.
        assert not re.search(r"class=[\"']?mermaid", page.read_text("utf-8")), page
    for style in tmp_path.rglob("*.css"):
        assert not re.search(r"@import|url\([\"']?https?://", style.read_text("utf-8")), style
