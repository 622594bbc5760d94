"""The blocks of code on a page, and what their comments say of running them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)$")
_COMMENT = re.compile(r"^\s*<!-- (?P<word>not run|run|file)(?:: (?P<rest>.+?))? -->$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block, and the comment in the line before it."""

    page: str
    line: int
    language: str
    text: str
    #: why it is not run; None where it is
    not_run: str | None = None
    #: whether it is run as it stands in `tox -e docs`, and rehearsed otherwise
    slow: bool = False
    #: the file that it shows
    file: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """The commands, a line each; of a console session those after the prompt."""
        text = re.sub(r" *\\\n *", " ", self.text)
        if self.language == "console":
            lines = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
        else:
            lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines()]
        return [part.strip() for line in lines if line for part in line.split("&&")]

    @property
    def output(self) -> str:
        """What a console session shows after its last command."""
        return re.split(r"^\$ .*\n", self.text, flags=re.MULTILINE)[-1]


def blocks_of(path: Path) -> list[Block]:
    """The blocks of a page, in order."""
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
    """A command's words, as a shell takes it apart; unquoted patterns are given what they match."""
    words: list[str] = []
    for word in shlex.split(command):
        found = sorted(map(str, Path().glob(word))) if "*" in word and f"'{word}'" not in command else []
        words += found or [word]
    return words
