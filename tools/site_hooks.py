"""Hooks of mkdocs.yml: pages that are files at the top, each page as Markdown, and `llms.txt` (https://llmstxt.org)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Line of a page that is replaced by a file of the repository.
_INCLUDED = re.compile(r"^\[[^\]]+\]\(\.\./([A-Z]+\.md)\)$", re.MULTILINE)
#: Line that mkdocstrings replaces by docstrings.
_FROM_DOCSTRINGS = re.compile(r"^::: ", re.MULTILINE)
_PERMANENT_LINK = re.compile(r'<a [^>]*class="headerlink"[^>]*>.*?</a>')
_HEADING = re.compile(r"\A\s*# .+\n")
#: Name that llmstxt.org gives to a section that a reader with little room leaves out.
_OPTIONAL = {"Appendices": "Optional"}
_INTRODUCTION = (
    "The package adds the options `--jsbench-…` to pytest, the command `jsbench`, and the Python package",
    "`pytest_jsbench`. Read [agents.md](agents.md) first: recipes with the exact command and what its exit status",
    "means. The engines `local` and `scripted` need no key. Each page below is Markdown; a browser takes the name with",
    "`.html`.",
)


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Return the page, or the file of the repository that it consists of, with links as seen from docs/."""
    included = _INCLUDED.search(markdown)
    if included is not None:
        text = (Path(config.config_file_path).parent / included[1]).read_text("utf-8")
        markdown = text.replace("](docs/", "](")
    page.meta["source"] = markdown
    return markdown


def on_page_content(html: str, page: Any, **_: Any) -> None:
    """Convert the docstrings of a reference back to Markdown; other pages are Markdown already."""
    if _FROM_DOCSTRINGS.search(page.meta["source"]):
        from markdownify import ATX, markdownify

        html = _PERMANENT_LINK.sub("", html)
        html = re.sub(r'(<a [^>]*href="[\w-]+)\.html', r"\1.md", html)
        text = markdownify(html, heading_style=ATX, bullets="-", code_language="python", escape_underscores=False)
        page.meta["source"] = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def on_nav(nav: Any, config: Any, **_: Any) -> None:
    """Keep the navigation for `llms.txt`."""
    config.extra["navigation"] = nav


def on_post_build(config: Any, **_: Any) -> None:
    """Write each page as Markdown next to its HTML, and the list of the pages."""
    site = Path(config.site_dir)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", "", *_INTRODUCTION]
    for heading, pages in _sections(config.extra["navigation"]):
        lines += ["", f"## {heading}", ""]
        for page in pages:
            source = page.meta["source"]
            place = Path(page.file.dest_uri).with_suffix(".md")
            (site / place).write_text(source, "utf-8")
            lines.append(f"- [{page.title}]({config.site_url or ''}{place.as_posix()}): {_first_sentence(source)}")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def _sections(navigation: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield the sections of the navigation; pages outside of any come first, appendices last."""
    yield "Start", [item for item in navigation.items if item.is_page]
    sections = [item for item in navigation.items if item.is_section]
    for section in sorted(sections, key=lambda each: each.title == "Appendices"):
        yield _OPTIONAL.get(section.title, section.title), section.children


def _first_sentence(markdown: str) -> str:
    """Return the first sentence of a page, without links."""
    body = re.sub(r"<!--.*?-->|```.*?```", "", _HEADING.sub("", markdown), flags=re.DOTALL)
    paragraph = next(each for each in body.split("\n\n") if re.match(r"[\w`*]", each.strip()))
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
    return re.split(r"(?<=[a-z`)][.:?]) ", text)[0].removesuffix(":")
