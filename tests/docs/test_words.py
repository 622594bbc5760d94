"""The words of the pages: one for each thing, and no more of them than a reader can take in."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from pytest_jsbench.settings.options import OPTIONS
from pytest_jsbench.verdicts import FailureType
from tools.reference import PACKAGE, ROOT

PAGES = [*(ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "SECURITY")), *sorted((ROOT / "docs").glob("*.md"))]
#: Pages that are not read from beginning to end: references, evidence, and pages for contributors.
NO_GUIDES = {"options", "commands", "formats", "providers", "rules", "metrics", "published", "decoding-results"} | {
    *("tool-cases", "schemas-in-transit", "probe-checks", "faults"),
    *("upstream", "architecture", "contributing", "stability", "security", "changelog"),
    *("README", "CHANGELOG", "SECURITY"),
    *("agents", "api", "api-extensions"),
}
#: Term of the glossary, by the words that it replaces.
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
#: Wording that one cannot search for or skim, in code, comments, docs and names of tests, and what to write.
DIALECT = {
    r"\b(?:no|some)body\b|\bwho(?:m)?ever\b": "name the caller or reader, or write: no …",
    r"\bbr(?:oke|oken|eaks?|eaking) off\b": "interrupted, truncated",
    r"\bstrangers?\b": "third-party, untrusted",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\bthrice\b|\breckon(?:s|ed|ing)?\b|\bunsaid\b|\blest\b": "three times, compute, not set, so that … not",
    r"\bhand(?:s|ed|ing)? (?:it |them )?(?:in|over)\b": "submit, pass",
    r"\bg(?:o|oes|oing|one) on with\b": "resume, continue with",
    r"\bh(?:old|olds|eld|olding) (?:it |them |an answer |answers )?(?:to|against)\b": "enforce, validate, compare",
    r"\bthat there is not\b|\b(?:which|that|it) (?:is|was) (?-i:none)\b": "unknown, missing, is not a …",
    r"\bof wh(?:ich|om)\b": "split the sentence",
    r"\bwhere (?:there (?:is|are)|none)\b": "if …",
    r"(?<![`.\w])beside\b(?!`)": "next to, with, compared with",
    r"\bask(?:s|ed|ing)? (?:an?|the|another) (?:engine|server|provider)\b": "call, request, send",
    r"\bways? (?:to ask|of asking)\b": "variant, mode",
}
_ANY_DIALECT = re.compile("|".join(DIALECT), re.IGNORECASE)
#: Pages on prompts and cases; a preset is a provider's.
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


def python_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield strings, docstrings and comments of a module, and the names of its tests as words, each with its line."""
    source = path.read_text("utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.lineno, node.name.replace("_", " ")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def dialect(texts: Iterable[tuple[int, str]], where: str) -> list[str]:
    return [
        f"{where}:{line}: {match[0]!r}; write instead: {instead}"
        for line, text in texts
        if _ANY_DIALECT.search(text)
        for pattern, instead in DIALECT.items()
        for match in re.finditer(pattern, text, flags=re.IGNORECASE)
    ]


@pytest.mark.parametrize("root", [PACKAGE, ROOT / "tests", ROOT / "tools"], ids=lambda path: path.name)
def test_code_is_written_in_plain_english(root: Path) -> None:
    own = Path(__file__)
    wrong = [
        problem
        for path in sorted(root.rglob("*.py"))
        if path != own
        for problem in dialect(python_texts(path), str(path.relative_to(root.parent)))
    ]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_is_written_in_plain_english(page: Path) -> None:
    assert dialect(enumerate(page.read_text("utf-8").splitlines(), 1), page.name) == []


def test_dialect_is_recognized_with_what_to_write_instead() -> None:
    assert dialect([(3, "Where there is none, nobody is asked.")], "module.py") == [
        "module.py:3: 'nobody'; write instead: name the caller or reader, or write: no …",
        "module.py:3: 'Where there is'; write instead: if …",
    ]


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
