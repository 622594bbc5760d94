"""Calls of tools that come in pieces: which call a piece belongs to, and what its name and arguments are."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

#: where a piece belongs in an answer: its block or item, and the part of it; pieces are put in this order
Place = tuple[int, int]
FIRST: Place = (0, 0)


def join_pieces(pieces: Iterable[str]) -> str:
    """Join the pieces of a text; the halves of a surrogate pair may be in two of them."""
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def tool_name(pieces: Sequence[str], declared: Collection[str] = ()) -> str:
    """
    Return the name that the pieces are: parts of it, or the whole name several times, or more of it each time.

    The declared tools decide where a name can be read in several ways.
    """
    name = ""
    for piece in pieces:
        if piece != name:
            name += piece
    growing = len(pieces) > 1 and all(later.startswith(piece) for piece, later in pairwise(pieces))
    candidates = [name, "".join(pieces), *(pieces[-1:] if growing else ())]
    return next((candidate for candidate in candidates if candidate in declared), name)


def is_document(text: str) -> bool:
    """Return whether the text is a whole JSON document."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


@dataclass(slots=True)
class PartialCall:
    """A call of a tool, as far as it has come."""

    #: identifier that the server gave it last; None if it gave none
    id: object = None
    #: pieces of its name, or its name several times
    names: list[str] = field(default_factory=list)
    #: pieces of its arguments
    pieces: list[str] = field(default_factory=list)
    #: its arguments if no pieces come
    default: str | None = None

    @property
    def arguments(self) -> str:
        """The arguments so far; a first `{}` is left out if others follow it."""
        if len(self.pieces) > 1 and self.pieces[0].strip() == "{}":
            rest = join_pieces(self.pieces[1:])
            if rest.lstrip().startswith("{"):
                return rest
        return join_pieces(self.pieces)

    def _is_complete(self) -> bool:
        # a piece that ends otherwise is not parsed: this is called for each piece of some servers' calls
        return bool(self.pieces) and self.pieces[-1].rstrip().endswith(("}", "]")) and is_document(self.arguments)

    def ends_before(self, *, own: object, name: object, arguments: object) -> bool:
        """
        Return whether a piece with this identifier, name and arguments begins another call at the same index.

        Some servers give all calls one index, some give one call another identifier or its whole name in each piece.
        So a piece without a name continues the call. One with a name begins another if its identifier and its name are
        new, or if the arguments so far are complete and it brings further ones.
        """
        if not name:
            return False
        is_complete = arguments not in (None, "") and self._is_complete()
        if own and self.id and own != self.id:
            return name != tool_name(self.names) or is_complete
        # servers that identify calls leave the identifier out of later pieces
        return is_complete and not own and not self.id


class CallsByIndex:
    """Calls of a stream of Chat Completions, whose pieces have an index, an identifier, both or neither."""

    __slots__ = ("_by_id", "_calls", "_latest")

    def __init__(self, calls: Mapping[Place, PartialCall]) -> None:
        self._calls = calls
        #: places of the calls that have come last at each index
        self._latest: dict[int, Place] = {}
        #: places of calls, by their identifiers
        self._by_id: dict[str, Place] = {}

    def place(self, index: int | None, number: int, *, own: object, name: object, arguments: object) -> Place:
        """Return the place of the call that a piece belongs to, by its index, or else its identifier or number."""
        if index is None and isinstance(own, str) and own in self._by_id:
            return self._by_id[own]
        first = number if index is None else index
        place = self._latest.get(first, (first, 0))
        call = self._calls.get(place)
        if call is not None and call.ends_before(own=own, name=name, arguments=arguments):
            place = first, place[1] + 1
        self._latest[first] = place
        if isinstance(own, str) and own:
            self._by_id[own] = place
        return place
