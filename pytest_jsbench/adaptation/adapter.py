"""
Adapt schemas in a child process with limits on time and memory, since adapting a hostile schema can take very long.

The result is the schema to send with a list of its changes, or the reason why the schema cannot be adapted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast

from pytest_jsbench.core.cases import Schema
from pytest_jsbench.core.child_process import ChildNotStarted
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.guarded_calls import BoundExceeded, CallBroke, guarded_calls
from pytest_jsbench.core.json_values import from_json
from pytest_jsbench.schemas.references import pointer_of

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.document import Path

#: Mode of adaptation: `narrow` never makes the schema accept more; `relax` may remove keywords that the subset lacks.
Mode = Literal["narrow", "relax"]
#: Effect of a change: the schema accepts fewer instances (`tightened`), the same instances (`rewritten`;
#: `dropped_annotation` if an annotation was removed; `reordered` or `inlined` by --jsbench-rewrite), or more instances
#: (`widened`).
ChangeKind = Literal["tightened", "rewritten", "dropped_annotation", "reordered", "inlined", "widened"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Change of one keyword in one subschema of the original schema."""

    #: Effect of the change on the instances that the schema accepts.
    kind: ChangeKind
    #: Keyword that was changed.
    keyword: str
    #: JSON pointer to the subschema with the keyword, in the original schema.
    path: str
    #: Short description of the change.
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapted:
    """Schema that was adapted to a provider's subset, with the changes from the original schema."""

    schema: Schema
    changes: tuple[Change, ...] = ()
    #: Reasons why the provider is likely to reject the adapted schema anyway.
    foretold: tuple[str, ...] = ()

    @property
    def lossy(self) -> bool:
        """True if an instance of the adapted schema may be invalid for the original schema."""
        return any(change.kind == "widened" for change in self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inexpressible:
    """Reason why a schema cannot be expressed in the provider's subset: the first keyword that prevents it."""

    keyword: str
    #: JSON pointer to the subschema with the keyword, in the original schema.
    path: str
    message: str


class Blocked(Exception):
    """Raised to end the adaptation if the schema cannot be expressed in the subset."""

    def __init__(self, obstacle: Inexpressible) -> None:
        super().__init__(obstacle.message)
        self.obstacle = obstacle


class Contradiction(Exception):
    """Raised if no instance conforms to all subschemas that apply to one location."""


class Ledger:
    """Log of the changes that one adaptation makes, without duplicates."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self._changes: dict[Change, None] = {}

    def note(self, kind: ChangeKind, keyword: str, path: Path, note: str) -> None:
        """Add a change to the log."""
        self._changes[Change(kind=kind, keyword=keyword, path=pointer_of(path), note=note)] = None

    def give_up(self, keyword: str, path: Path, message: str) -> None:
        """Report a keyword that the subset lacks: end the adaptation (`narrow`), or log its removal (`relax`)."""
        if self.mode == "narrow":
            self.refuse(keyword, path, message)
        self.note("widened", keyword, path, message)

    def refuse(self, keyword: str, path: Path, message: str) -> NoReturn:
        """End the adaptation, because the subset cannot express the keyword in either mode."""
        raise Blocked(Inexpressible(keyword=keyword, path=pointer_of(path), message=message))

    def mark(self) -> int:
        """Return the current number of changes, as the argument for `rollback`."""
        return len(self._changes)

    def rollback(self, mark: int) -> None:
        """Remove the changes that were logged after the mark, because their alternative was dropped."""
        while len(self._changes) > mark:
            self._changes.popitem()

    def changes(self) -> tuple[Change, ...]:
        """Return all changes in the order in which they were made."""
        return tuple(self._changes)


#: Time limit for one schema in seconds; the largest published schemas take half a second.
SECONDS = 10.0


class CannotBound(EngineError):
    """Raised if narrowing a schema for a small model exceeds a limit; the message names the limit."""


def bound_within(schema: Schema, *, seconds: float = SECONDS) -> Schema:
    """Narrow the schema for a small model in the child process; raise CannotBound if that exceeds a limit."""
    try:
        narrowed: Schema = _call_child("bounding:bound_for_llama_cpp", schema, seconds=seconds)
    except BoundExceeded as exceeded:
        raise CannotBound(f"the schema cannot be narrowed for a small model {exceeded}") from None
    return narrowed


def adapt_within(schema: Schema, subset: str, mode: Mode, *, seconds: float = SECONDS) -> Adapted | Inexpressible:
    """Adapt the schema to the named subset in the child process; raise EngineError for an internal error."""
    try:
        values = _call_child("narrowing:adapt_to_json", schema, subset, mode, seconds=seconds)
    except BoundExceeded as exceeded:
        return Inexpressible(keyword="", path="", message=f"the schema cannot be adapted {exceeded}")
    return from_json(Inexpressible, values) if "message" in values else from_json(Adapted, values)


def _call_child(function: str, *arguments: object, seconds: float) -> Any:
    try:
        return guarded_calls().call(f"pytest_jsbench.adaptation.{function}", *arguments, seconds=seconds)
    except (CallBroke, ChildNotStarted) as error:
        raise EngineError(f"internal error in the adaptation: {error}") from None


def adapter(text: str, *, seconds: float = SECONDS) -> Callable[[Schema], Adapted | Inexpressible] | None:
    """
    Return the function that adapts schemas as in `narrow:openai`; None for `verbatim`.

    Raise ValueError for an unknown mode or subset.
    """
    mode, _, subset = text.partition(":")
    if text == "verbatim":
        return None
    from pytest_jsbench.adaptation.subsets import SUBSETS, find_subset

    if mode not in {"narrow", "relax"} or find_subset(subset) is None:
        raise ValueError(
            f"expected verbatim, narrow:NAME or relax:NAME, with a NAME of {', '.join(SUBSETS)}; found {text!r}"
        )
    return partial(adapt_within, subset=subset, mode=cast("Mode", mode), seconds=seconds)
