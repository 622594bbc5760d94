"""The words of the pages: one for each thing, and no more of them than a reader can take in."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from pytest_jsbench.settings.options import OPTIONS
from pytest_jsbench.verdicts import FailureType
from tests.docs.reference import PACKAGE, ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
#: what is not read from beginning to end: references, evidence, and pages for who changes the package
NO_GUIDES = {"options", "commands", "formats", "providers", "rules", "metrics", "published", "decoding-results"} | {
    *("upstream", "architecture", "contributing", "security", "changelog", "README")
}
#: by what is not said: the glossary's word, or plain English
INSTEAD = {
    r"leav(?:e|es|ing) [^.\n]{0,40}\baway\b": "leave out",
    r"\bdata sets?\b": "dataset",
    r"test ?cases?\b": "case",
    r"\bgold(?:en)? answers?\b": "expected answer",
    r"\bvalidat(?:es|ed) against\b": "conforms to",
    r"\bmodel's response\b(?! format)": "answer",
    r"\b(?:a|the) run's verdict\b|\bverdict of (?:a|the) run\b(?!\.json)": "run verdict",
    r"\bprompt presets?\b|\bpresets? of (?:the )?(?:options|prompts?)\b": "publication, or the prompt's name",
}
#: pages on what is asked: a preset is a provider's
NO_PRESETS = {"prompts", "published", "library", "datasets", "comparing"}


def prose(page: Path) -> str:
    """The page without its blocks of code, the parts that a command makes, and what stands in code spans."""
    text = re.sub(r"<!-- (from the code|measured): .*?<!-- /\1 -->", "", page.read_text("utf-8"), flags=re.DOTALL)
    return re.sub(r"`[^`\n]+`", "", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_calls_a_thing_by_its_one_word(page: Path) -> None:
    text = prose(page)

    said = {instead: re.findall(pattern, text, flags=re.IGNORECASE) for pattern, instead in INSTEAD.items()}
    assert {instead: words for instead, words in said.items() if words} == {}


def test_help_calls_a_thing_by_its_one_word() -> None:
    for option in OPTIONS:
        for pattern, instead in INSTEAD.items():
            assert re.search(pattern, option.help, flags=re.IGNORECASE) is None, f"{option.flag}: say {instead}"


def test_messages_output_and_docstrings_call_a_thing_by_its_one_word() -> None:
    wrong = []
    for path in (each for kind in ("py", "html", "js", "yml", "json") for each in PACKAGE.rglob(f"*.{kind}")):
        if path.is_relative_to(PACKAGE / "datasets") and path.suffix == ".json":
            continue  # schemas of the cases, which others wrote
        texts = [path.read_text("utf-8")]
        if path.suffix == ".py":
            constants = (node.value for node in ast.walk(ast.parse(texts[0])) if isinstance(node, ast.Constant))
            texts = [text for text in constants if isinstance(text, str) and " " in text]
        wrong += [
            f"{path.name}: say {instead}, not {words[0]}"
            for text in texts
            for pattern, instead in INSTEAD.items()
            if (words := re.findall(pattern, text, flags=re.IGNORECASE))
        ]
    assert wrong == []


def test_pages_on_what_is_asked_call_nothing_a_preset() -> None:
    assert [name for name in sorted(NO_PRESETS) if "preset" in prose(ROOT / "docs" / f"{name}.md").casefold()] == []


def test_the_glossary_has_each_word_once_and_in_order() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    words = re.findall(r"^\| ([^|]+?) \|", page, flags=re.MULTILINE)[1:]
    words = [word for word in words if set(word) - {"-"}]

    assert len(words) > 30
    assert words == sorted(set(words), key=str.lower)


def test_each_failure_type_is_explained_where_results_are_read() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "judging.md").read_text("utf-8"), flags=re.MULTILINE)

    assert {kind.value for kind in FailureType} <= set(rows)


def test_the_guides_are_read_in_two_hours() -> None:
    counts = {page.stem: len(prose(page).split()) for page in PAGES if page.stem not in NO_GUIDES}

    assert sum(counts.values()) <= 20_000, counts
    assert {name: count for name, count in counts.items() if count > 1_500} == {}
