"""Find pages of one tool list (`tools/list` of MCP) in numbered files, such as `page-1.json` and `page-2.json`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>[0-9]{1,9})", re.DOTALL)
#: Series of numbered files: their directory, the part of their names before the number, and their suffix.
_Series = tuple[Path, str, str]


def _position(path: Path) -> tuple[_Series, int] | None:
    """Return the series and the number of a file; None if the file's name does not end in a number."""
    match = _NUMBERED.fullmatch(path.stem)
    if match is None:
        return None
    return (path.parent, match["stem"], path.suffix.lower()), int(match["number"])


class ToolPages:
    """
    Pages of tool lists in the right order, if each page is a separate file.

    A response does not contain the cursor of its request. Therefore, files are treated as pages of one list only if
    their names end in consecutive numbers, all but the last have a `nextCursor`, and all of these cursors differ.
    """

    def __init__(self, paths: Iterable[Path], cursor_of: Callable[[Path], str | None]) -> None:
        """
        Group the files by series.

        `cursor_of` returns a file's `nextCursor`: an empty text if no page follows, None if the file is not a list of
        tools.
        """
        self._cursor_of = cache(cursor_of)
        self._joined: dict[Path, tuple[Path, ...]] = {}
        self._series: dict[_Series, dict[int, list[Path]]] = defaultdict(lambda: defaultdict(list))
        for path in paths:
            if (position := _position(path)) is not None:
                self._series[position[0]][position[1]].append(path)

    def pages_with(self, path: Path) -> tuple[Path, ...]:
        """Return all pages of the page's list in order; only the page itself if it does not belong to several pages."""
        if path not in self._joined:
            pages = self._series_of(path)
            cursors = [cursor for page in pages if (cursor := self._cursor_of(page))]
            is_one_list = len(set(cursors)) == len(cursors)
            self._joined |= {page: pages if is_one_list else (page,) for page in pages}
        return self._joined[path]

    def _series_of(self, path: Path) -> tuple[Path, ...]:
        """Return the files with consecutive numbers around this one, from the first page to the last."""
        first = path
        while (before := self._neighbor(first, -1)) is not None and self._cursor_of(before):
            first = before
        pages = [first]
        while self._cursor_of(pages[-1]) and (after := self._neighbor(pages[-1], 1)) is not None:
            pages.append(after)
        return tuple(pages)

    def _neighbor(self, path: Path, step: int) -> Path | None:
        """
        Return the only list of tools with the next or previous number; None if no file or several files have this
        number.
        """
        position = _position(path)
        if position is None:
            return None
        numbers = self._series[position[0]]
        followers = numbers.get(position[1] + step, [])
        is_certain = len(numbers[position[1]]) == len(followers) == 1
        return followers[0] if is_certain and self._cursor_of(followers[0]) is not None else None
