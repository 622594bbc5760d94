"""A text walked through a grammar, token by token."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_jsbench.engines.decoding.draws import Offered, TokenChoice
    from pytest_jsbench.engines.decoding.libraries import Matcher
    from pytest_jsbench.engines.decoding.vocabulary import Tokenizer

#: more tokens than this that can be no others are taken one request at a time
_MOST_FORCED = 256


class State(StrEnum):
    """Where a walk stands."""

    #: more tokens are wanted
    OPEN = "open"
    #: which token comes next is not among those that were offered: more of them are wanted
    STUCK = "stuck"
    #: the document is complete and was ended
    DONE = "done"
    #: the grammar lets nothing at all come next
    DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The tokens that a walk took, and where it stands then."""

    taken: tuple[int, ...]
    state: State


class Walk:
    """One text in the making; of the tokens offered that the grammar lets come next, the choice takes one."""

    def __init__(self, matcher: Matcher, choice: TokenChoice, *, end: int) -> None:
        self._matcher = matcher
        self._choice = choice
        self._end = end

    def step(self, offered: Sequence[Offered]) -> Step:
        """
        Take tokens, given the model's likeliest at each position.

        What is offered for a position holds only while the model's own choice was taken before it. At the end come
        the tokens that can be no others, about which no model has a say.
        """
        taken: list[int] = []
        for ranked in offered:
            mask = self._matcher.mask()
            token = self._choice.choose(ranked, mask)
            if token is None:
                return Step(taken=tuple(taken), state=State.STUCK if any(mask) else State.DEAD)
            if token == self._end:
                return Step(taken=tuple(taken), state=State.DONE)
            self._take(token, taken)
            if token != ranked[0][0]:
                break
        state = self._take_forced(taken)
        return Step(taken=tuple(taken), state=state)

    def _take_forced(self, taken: list[int]) -> State:
        for _ in range(_MOST_FORCED):
            allowed = int.from_bytes(self._matcher.mask(), "little")
            if not allowed:
                return State.DEAD
            if allowed.bit_count() > 1:
                return State.OPEN
            token = allowed.bit_length() - 1
            if token == self._end:
                return State.DONE
            self._take(token, taken)
        return State.OPEN

    def _take(self, token: int, taken: list[int]) -> None:
        self._matcher.advance(token)
        taken.append(token)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """What came of a text that was given to a grammar."""

    #: whether the grammar takes the text to its end; None where the vocabulary has no tokens for it
    accepted: bool | None
    #: seconds from taking a token to the mask for the next, of each token that was taken
    masks: tuple[float, ...] = ()


def accepts(begin: Callable[[], Matcher], text: bytes, tokenizer: Tokenizer, *, end: int) -> Walked:
    """Walk a text through the grammar, and time each mask after the first, which is the grammar's compilation."""
    tokens = tokenizer(text)
    if tokens is None:
        return Walked(accepted=None)
    matcher = begin()
    mask = matcher.mask()
    masks: list[float] = []
    for token in tokens:
        if not matcher.allows(token, mask):
            return Walked(accepted=False, masks=tuple(masks))
        start = time.perf_counter()
        matcher.advance(token)
        mask = matcher.mask()
        masks.append(time.perf_counter() - start)
    return Walked(accepted=matcher.allows(end, mask), masks=tuple(masks))
