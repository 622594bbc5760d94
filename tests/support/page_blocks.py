"""Parse the code blocks of a page, and the comments that control how tests run them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.reference import ROOT

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
#: Directories of earlier runs, to which the commands of the pages refer.
RUNS = ("20260101T000000Z-local-a", "20260102T000000Z-local-b", "20260103T000000Z-local-c")

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)$")
_COMMENT = re.compile(r"^\s*<!-- (?P<word>not run|run|file)(?:: (?P<rest>.+?))? -->$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block, with the comment on the line before it."""

    page: str
    line: int
    language: str
    text: str
    #: Reason why it is not run; None if it is.
    not_run: str | None = None
    #: Whether `tox -e docs` runs it with the real model; other tests run it with a stand-in.
    slow: bool = False
    #: File that it shows.
    file: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """Commands, one per line; in a console session those after the prompt."""
        text = re.sub(r" *\\\n *", " ", self.text)
        if self.language == "console":
            lines = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
        else:
            lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines()]
        return [part.strip() for line in lines if line for part in line.split("&&")]

    @property
    def output(self) -> str:
        """Output of the last command of a console session."""
        return re.split(r"^\$ .*\n", self.text, flags=re.MULTILINE)[-1]


def blocks_of(path: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    return list(_blocks(path.name, path.read_text("utf-8").splitlines()))


def _blocks(page: str, lines: list[str]) -> Iterator[Block]:
    opened, language, indent = None, "", ""
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if opened is None:
            opened, language, indent = number, fence["language"], fence["indent"]
            continue
        comment = _COMMENT.match(lines[opened - 1]) if opened else None
        word, rest = (comment["word"], comment["rest"]) if comment else ("", None)
        yield Block(
            page=page,
            line=opened + 1,
            language=language,
            text="\n".join(one.removeprefix(indent) for one in lines[opened + 1 : number]) + "\n",
            not_run=rest or "" if word == "not run" else None,
            slow=word == "run" and rest == "slow",
            file=rest if word == "file" else None,
        )
        opened = None


def words_of(command: str) -> list[str]:
    """Split a command into words as a shell does; unquoted patterns are expanded."""
    words: list[str] = []
    for word in shlex.split(command):
        found = sorted(map(str, Path().glob(word))) if "*" in word and f"'{word}'" not in command else []
        words += found or [word]
    return words
