"""Where the changes of one adaptation are noted, and its obstacles."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pytest_jsbench.adaptation.model import Blocked, Change, Inexpressible
from pytest_jsbench.adaptation.reading import pointer

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.model import ChangeKind, Mode
    from pytest_jsbench.adaptation.reading import Path


class Ledger:
    """Notes each change once; what cannot be said is a change too when relaxing."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self._changes: dict[Change, None] = {}

    def note(self, kind: ChangeKind, keyword: str, path: Path, note: str) -> None:
        """One change."""
        self._changes[Change(kind=kind, keyword=keyword, path=pointer(path), note=note)] = None

    def give_up(self, keyword: str, path: Path, message: str) -> None:
        """What cannot be said: when relaxing, the caller leaves it out."""
        if self.mode == "narrow":
            self.refuse(keyword, path, message)
        self.note("widened", keyword, path, message)

    def refuse(self, keyword: str, path: Path, message: str) -> NoReturn:
        """What cannot be said in either mode."""
        raise Blocked(Inexpressible(keyword=keyword, path=pointer(path), message=message))

    def mark(self) -> int:
        """Where the ledger is now, to come back to."""
        return len(self._changes)

    def back_to(self, mark: int) -> None:
        """Forget what was noted since: that way was not taken."""
        while len(self._changes) > mark:
            self._changes.popitem()

    def changes(self) -> tuple[Change, ...]:
        """All changes, in the order of their places."""
        return tuple(self._changes)
