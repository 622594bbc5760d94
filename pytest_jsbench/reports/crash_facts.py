"""Describe which requests broke the server of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_jsbench.core.text import list_names, printable

if TYPE_CHECKING:
    from pytest_jsbench.records.runs import Run

#: Maximum number of attempts that are named.
_MOST_NAMED = 5


def facts_of_crashes(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the attempts whose request broke the server."""
    names = [printable(name) for name in run.broke_server]
    if not names:
        return
    named = list_names(names, _MOST_NAMED)
    yield "crashes", f"the server was broken by {named}, with no other call in flight"
