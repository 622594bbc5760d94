"""Check that the site is complete, loads nothing from other servers, and has each page as Markdown for programs."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools import site_hooks
from tools.reference import PACKAGE, ROOT

_LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//|<link\b[^>]*\bhref=[\"']?https?://[^>]*>"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site once, strictly: a broken link is an error."""
    for needed in ("material", "mkdocstrings", "griffe_sphinx", "markdownify"):
        pytest.importorskip(needed, reason="needs the dependency group docs")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    path = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(path), strict=True))
    return path


def test_site_loads_nothing_external(site: Path) -> None:
    pages = list(site.rglob("*.html"))

    assert site / "own-tests.html" in pages
    for page in pages:
        found = [one for one in _LOADED.findall(page.read_text("utf-8")) if "rel=canonical" not in one]
        assert found == [], page
        # The theme would load the program that draws these from another server.
        assert not re.search(r"class=[\"']?mermaid", page.read_text("utf-8")), page
    for style in site.rglob("*.css"):
        assert not re.search(r"@import|url\([\"']?https?://", style.read_text("utf-8")), style


def test_llms_txt_lists_each_page_as_markdown(site: Path) -> None:
    text = (site / "llms.txt").read_text("utf-8")
    links = re.findall(r"^- \[[^\]]+\]\(([\w-]+\.md)\): \S", text, flags=re.MULTILINE)

    assert re.match(r"# pytest-jsbench\n\n> .+\n\n\w", text)
    assert re.findall(r"^## (.+)", text, flags=re.MULTILINE)[-1] == "Optional"
    assert sorted(links) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))
    assert [link for link in links if not (site / link).read_text("utf-8").startswith("# ")] == []
    assert "](engines.md#finish-reasons)" in (site / "changelog.md").read_text("utf-8")


def test_reference_as_markdown_has_docstrings_and_comments_on_fields(site: Path) -> None:
    text = (site / "api.md").read_text("utf-8")

    assert "::: " not in text
    assert ".html" not in text
    assert "\n### assert_conforms\n\n```python\nassert_conforms(\n" in text
    assert "Raise AssertionError unless the answer passes" in text
    shown = text.partition("\n#### timeout\n")[2].partition("\n#### ")[0]
    (comment,) = re.findall(r"#: (.*)\n    timeout: float", (PACKAGE / "verdicts" / "verdicts.py").read_text("utf-8"))
    assert comment in shown


def test_page_that_is_a_file_at_the_top_has_links_as_in_docs(tmp_path: Path) -> None:
    (tmp_path / "NEWS.md").write_text("# News\n\n[Engines](docs/engines.md)\n")
    page: Any = SimpleNamespace(meta={})
    config = SimpleNamespace(config_file_path=str(tmp_path / "mkdocs.yml"))

    text = site_hooks.on_page_markdown("# N\n\n[NEWS.md](../NEWS.md)\n", page, config)

    assert text == page.meta["source"] == "# News\n\n[Engines](engines.md)\n"


def test_first_sentence_of_a_page_has_no_block_and_no_link() -> None:
    page = "# Title\n\n```text\noutput\n```\n\n<!-- a note -->\nRead [the other\npage](other.md) first. Then this.\n"

    assert site_hooks._first_sentence(page) == "Read the other page first."
