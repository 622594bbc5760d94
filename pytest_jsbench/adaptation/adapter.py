"""
Adapts schemas in a child process, within bounds of time and memory, since a hostile schema can take very long.

The result is the schema that is sent, and each change in it, or the reason why there is none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast

from pytest_jsbench.core.cases import Schema
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.guarded_calls import BoundExceeded, CallBroke, ChildNotStarted, guarded_calls
from pytest_jsbench.core.json_values import from_json
from pytest_jsbench.schemas.references import pointer_of

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.document import Path

#: `narrow`: the adapted schema admits no more than the original; `relax`: it may leave out what the subset lacks
Mode = Literal["narrow", "relax"]
#: admits less · admits the same · left out what does not affect validity · admits more
ChangeKind = Literal["tightened", "rewritten", "dropped_annotation", "widened"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A line of the ledger: how a keyword at a place of the original was changed."""

    #: whether it makes the schema narrower, says the same, drops what asserts nothing, or makes it wider
    kind: ChangeKind
    #: the keyword that was changed
    keyword: str
    #: JSON pointer, in the original, to the schema in which the keyword stands or now stands
    path: str
    #: what was done, in a few words
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapted:
    """A schema that the provider takes, and how it differs from the original."""

    schema: Schema
    changes: tuple[Change, ...] = ()
    #: why the provider is likely to refuse it all the same
    foretold: tuple[str, ...] = ()

    @property
    def lossy(self) -> bool:
        """True where an answer that conforms to this schema may break the original."""
        return any(change.kind == "widened" for change in self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inexpressible:
    """The provider's subset cannot express the schema; names the first obstacle."""

    keyword: str
    #: JSON pointer, in the original, to the schema in which the keyword stands
    path: str
    message: str


class Blocked(Exception):
    """The schema cannot be expressed in the subset; ends the adaptation."""

    def __init__(self, obstacle: Inexpressible) -> None:
        super().__init__(obstacle.message)
        self.obstacle = obstacle


class Contradiction(Exception):
    """No instance conforms at this place."""


class Ledger:
    """Lists the changes, each once; when relaxing, a keyword that is left out is a change too."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self._changes: dict[Change, None] = {}

    def note(self, kind: ChangeKind, keyword: str, path: Path, note: str) -> None:
        """Add one change."""
        self._changes[Change(kind=kind, keyword=keyword, path=pointer_of(path), note=note)] = None

    def give_up(self, keyword: str, path: Path, message: str) -> None:
        """Report a keyword that the subset lacks: `narrow` ends here, `relax` notes that the caller leaves it out."""
        if self.mode == "narrow":
            self.refuse(keyword, path, message)
        self.note("widened", keyword, path, message)

    def refuse(self, keyword: str, path: Path, message: str) -> NoReturn:
        """End the adaptation: the subset cannot express this in either mode."""
        raise Blocked(Inexpressible(keyword=keyword, path=pointer_of(path), message=message))

    def mark(self) -> int:
        """The present number of changes, for `back_to`."""
        return len(self._changes)

    def back_to(self, mark: int) -> None:
        """Remove the changes noted since the mark, of an alternative that was dropped."""
        while len(self._changes) > mark:
            self._changes.popitem()

    def changes(self) -> tuple[Change, ...]:
        """All changes, in the order of their places."""
        return tuple(self._changes)


def changes_by_engine(before: Schema, after: Schema) -> tuple[Change, ...]:
    """The changes that an engine made to a schema before it sent it, keyword by keyword, as `bounded` does."""
    from pytest_jsbench.adaptation.bounding import put_below

    ledger = Ledger("relax")
    own = isinstance(before, Mapping) and put_below(before) is not None  # the user's, written in the same shape
    if not own and isinstance(after, Mapping) and (itself := put_below(after)) is not None:
        ledger.note("rewritten", "$ref", (), "the schema was put below $defs by the engine, where a pointer finds it")
        after = itself
    places: list[tuple[Path, Any, Any]] = [((), before, after)]
    for path, was, now in places:  # which grows meanwhile
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            for name in {**was, **now}:
                forbids = was.get(name) is False
                if name not in now and forbids and path[-1:] == ("properties",):  # another keyword says so
                    note = "what is forbidden was left out by the engine"
                    ledger.note("rewritten", "properties", path[:-1], note)
                elif name not in now:
                    implied = _is_implied(name, was, now)
                    reworded = implied or (forbids and name == "items") or name in _NAMES_OF_PLACES
                    ledger.note("rewritten" if reworded else "widened", name, path, "left out by the engine")
                elif name not in was:
                    ledger.note("tightened", name, path, f"set by the engine{_bound(now[name])}")
                else:
                    places.append(((*path, name), was[name], now[name]))
        elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
            places += [((*path, str(at)), *pair) for at, pair in enumerate(zip(was, now, strict=True))]
        elif was != now and not (was is True and now == {}):  # which says the same
            lower = _bound(was) and _bound(now) and path[-1:] in _UPPER_BOUNDS and now < was
            kind: ChangeKind = "tightened" if now is False or lower else "rewritten"
            ledger.note(kind, path[-1] if path else "", path[:-1], f"changed by the engine{_bound(now)}")
    return ledger.changes()


def _is_implied(name: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return whether a keyword that was left out rejects nothing that the others accept."""
    if name == "allOf":  # an engine leaves it out only where it merges it
        return isinstance(was[name], list)
    if name == "items":
        listed, most = was.get("prefixItems"), now.get("maxItems")
        return isinstance(listed, list) and isinstance(most, int | float) and most <= len(listed)
    for exclusive, inclusive, sign in _BOUNDS_OF_A_SIDE:
        left, kept = was.get(name), now.get(exclusive if name == inclusive else inclusive)
        if name in (exclusive, inclusive) and isinstance(left, int | float) and isinstance(kept, int | float):
            return sign * kept > sign * left or (kept == left and name == inclusive)
    return False


_BOUNDS_OF_A_SIDE = (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1))


def _bound(value: object) -> str:
    """The value of a bound, as the end of a note; other values are of the schema, which is in the record."""
    return f": {json.dumps(value)}" if isinstance(value, bool | int | float) else ""


#: by which references find a schema; where they are left out, pointers do
_NAMES_OF_PLACES = frozenset({"$schema", "$id", "id"})
_UPPER_BOUNDS = (("maxLength",), ("maxItems",))
#: the largest real schemas take half a second
SECONDS = 10.0


class CannotBound(EngineError):
    """A schema that is too much to be narrowed for a small model; the message says for what."""


def bounded_within(schema: Schema, *, seconds: float = SECONDS) -> Schema:
    """Narrow the schema for a small model, in the child process; CannotBound where that takes more than it may."""
    try:
        narrowed: Schema = _called("bounding:for_llama_cpp", schema, seconds=seconds)
    except BoundExceeded as exceeded:
        raise CannotBound(f"the schema cannot be bounded {exceeded}") from None
    return narrowed


def adapt_within(schema: Schema, subset: str, mode: Mode, *, seconds: float = SECONDS) -> Adapted | Inexpressible:
    """Adapt the schema to the subset of that name, in the child process; EngineError for a fault of the adaptation."""
    try:
        values = _called("narrowing:adapted_json", schema, subset, mode, seconds=seconds)
    except BoundExceeded as exceeded:
        return Inexpressible(keyword="", path="", message=f"the schema cannot be adapted {exceeded}")
    return from_json(Inexpressible, values) if "message" in values else from_json(Adapted, values)


def _called(function: str, *arguments: object, seconds: float) -> Any:
    try:
        return guarded_calls().call(f"pytest_jsbench.adaptation.{function}", *arguments, seconds=seconds)
    except (CallBroke, ChildNotStarted) as error:
        raise EngineError(f"a fault of the adaptation, {error}") from None


def adapter(text: str) -> Callable[[Schema], Adapted | Inexpressible] | None:
    """The function that adapts a schema in that mode; None for `verbatim`, ValueError for an unknown mode or subset."""
    mode, _, subset = text.partition(":")
    if text == "verbatim":
        return None
    from pytest_jsbench.adaptation.subsets import SUBSETS, find_subset

    if mode not in {"narrow", "relax"} or find_subset(subset) is None:
        raise ValueError(f"expected verbatim, or narrow or relax and one of {', '.join(SUBSETS)}, found {text!r}")
    return partial(adapt_within, subset=subset, mode=cast("Mode", mode))
