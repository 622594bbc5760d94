"""Tool calls that arrive in pieces: assign each piece to a call, and assemble names and arguments."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

#: Place of a piece in an answer: the number of its block or item, and of the part in the block or item; pieces are
#: sorted by place.
Place = tuple[int, int]
FIRST: Place = (0, 0)


def join_pieces(pieces: Iterable[str]) -> str:
    """Join the pieces of a text; a surrogate pair may be split across two pieces."""
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def tool_name(pieces: Sequence[str], declared: Collection[str] = ()) -> str:
    """
    Return a tool's name from pieces: parts of the name, the whole name repeated, or growing prefixes of the name.

    If the pieces can be joined in several ways, the name of a declared tool is preferred.
    """
    name = ""
    for piece in pieces:
        if piece != name:
            name += piece
    growing = len(pieces) > 1 and all(later.startswith(piece) for piece, later in pairwise(pieces))
    candidates = [name, "".join(pieces), *(pieces[-1:] if growing else ())]
    return next((candidate for candidate in candidates if candidate in declared), name)


def is_document(text: str) -> bool:
    """Return whether the text is a complete JSON document."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


@dataclass(slots=True)
class PartialCall:
    """The pieces of a tool call that have arrived."""

    #: Identifier that the server sent last; None if the server sent no identifier.
    id: object = None
    #: Pieces of the tool's name, or the whole name several times.
    names: list[str] = field(default_factory=list)
    #: Pieces of the call's arguments.
    pieces: list[str] = field(default_factory=list)
    #: Arguments to use if no pieces arrive.
    default: str | None = None

    @property
    def arguments(self) -> str:
        """The arguments so far, without an initial `{}` if other arguments follow."""
        if len(self.pieces) > 1 and self.pieces[0].strip() == "{}":
            rest = join_pieces(self.pieces[1:])
            if rest.lstrip().startswith("{"):
                return rest
        return join_pieces(self.pieces)

    def _is_complete(self) -> bool:
        # The end is checked first, because parsing at each piece is slow, and some servers send many pieces.
        return bool(self.pieces) and self.pieces[-1].rstrip().endswith(("}", "]")) and is_document(self.arguments)

    def ends_before(self, *, identifier: object, name: object, arguments: object) -> bool:
        """
        Return whether a piece with this identifier, name and arguments begins another call at the same index.

        Some servers send the same index for all calls; others send a new identifier with each piece of a call, or
        repeat the name. Therefore, a piece without a name continues the call. A piece with a name begins another call
        if its identifier and name are new, or if it contains arguments although the call's arguments are complete.
        """
        if not name:
            return False
        is_complete = arguments not in (None, "") and self._is_complete()
        if identifier and self.id and identifier != self.id:
            return name != tool_name(self.names) or is_complete
        # Servers that identify calls omit the identifier in later pieces.
        return is_complete and not identifier and not self.id


class CallsByIndex:
    """Calls of a stream of Chat Completions, whose pieces have an index, an identifier, both or neither."""

    __slots__ = ("_by_id", "_calls", "_latest")

    def __init__(self, calls: Mapping[Place, PartialCall]) -> None:
        self._calls = calls
        #: Place of the latest call at each index.
        self._latest: dict[int, Place] = {}
        #: Places of calls, by the call's identifier.
        self._by_id: dict[str, Place] = {}

    def place(self, index: int | None, number: int, *, identifier: object, name: object, arguments: object) -> Place:
        """Return the place of the call that a piece belongs to, by the index, or else by the identifier or number."""
        if index is None and isinstance(identifier, str) and identifier in self._by_id:
            return self._by_id[identifier]
        first = number if index is None else index
        place = self._latest.get(first, (first, 0))
        call = self._calls.get(place)
        if call is not None and call.ends_before(identifier=identifier, name=name, arguments=arguments):
            place = first, place[1] + 1
        self._latest[first] = place
        if isinstance(identifier, str) and identifier:
            self._by_id[identifier] = place
        return place
