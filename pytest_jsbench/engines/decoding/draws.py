"""Which of the tokens that a mask allows is taken: the likeliest, or one drawn at a temperature."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import exp, log
from typing import Any, Protocol

from pytest_jsbench.engines.decoding.libraries import is_set

#: tokens, the likeliest first, each with the logarithm of its probability without a mask
Offered = Sequence[tuple[int, float]]

#: what the probabilities of all tokens may be short of 1, in single precision
_ROUNDING = 1e-6
#: the largest power of e, nearly, that a float holds
_LARGEST = 700.0


class TokenChoice(Protocol):
    """Takes one token after another, for one text."""

    def choose(self, offered: Offered, mask: bytes) -> int | None:
        """The next token; None where more must be offered before it is known."""


class Likeliest:
    """Takes the likeliest token that may come."""

    def choose(self, offered: Offered, mask: bytes) -> int | None:
        """The first that the mask allows."""
        return next((token for token, _ in offered if is_set(mask, token)), None)


class Draw:
    """
    Draws from the softmax over the tokens that may come, at a temperature; `top_p` comes before that, as in llama.cpp.

    Made for one text, and asked by one thread. Only the likeliest tokens are offered at first. What the others weigh
    has an upper bound, and a point is drawn under the weights of all: where it falls among the offered, the token is
    known, and else more are wanted, for the same point. So the distribution is exactly that over all tokens.
    """

    def __init__(self, *, temperature: float, top_p: float = 1.0, seed: int | None = None) -> None:
        self._temperature = temperature
        self._top_p = top_p
        # its random() is the same in all versions of Python for one seed, which numpy does not promise of its own
        self._random = random.Random(seed)  # noqa: S311  no secret hangs on it
        #: drawn for the next token, and not yet found among those that were offered
        self._point: float | None = None

    def choose(self, offered: Offered, mask: bytes) -> int | None:
        """The token that the point falls on."""
        allowed = [pair for pair in offered if is_set(mask, pair[0])]
        if not allowed:
            return None
        others = int.from_bytes(mask, "little").bit_count() - len(allowed)
        rest = max(1 - sum(exp(likely) for _, likely in offered), _ROUNDING) if others else 0.0
        if self._top_p < 1:
            cut = self._nucleus(allowed, rest)
            if cut is None:
                return None
            allowed, rest = allowed[:cut], 0.0
        best = allowed[0][1]
        weights = list(accumulate(exp((likely - best) / self._temperature) for _, likely in allowed))
        return self._fall(allowed, weights, self._bound(offered[-1][1], best, rest, others) if rest else 0.0)

    def _fall(self, allowed: Offered, weights: Sequence[float], beyond: float) -> int | None:
        known = weights[-1]
        while True:
            if self._point is None:
                self._point = self._random.random() * (known + beyond)
            point = self._point
            if known <= point < known + beyond:
                return None
            # past the end: the others weigh less than was thought, and the point is drawn again
            self._point = None
            if point < known:
                return allowed[bisect_right(weights, point)][0]

    def _bound(self, least: float, best: float, rest: float, others: int) -> float:
        """At least what the tokens weigh that were not offered: none is likelier than the least that was."""
        each = log(others) + (least - best) / self._temperature
        if self._temperature > 1:
            together = log(others) + (log(rest) - log(others) - best) / self._temperature
        else:
            together = log(rest) - least + (least - best) / self._temperature
        return exp(min(each, together, _LARGEST))

    def _nucleus(self, allowed: Offered, rest: float) -> int | None:
        """How many of the likeliest are `top_p` of all that may come; None where that hangs on what was not offered."""
        sums = list(accumulate(exp(likely) for _, likely in allowed))
        fewest, most = (bisect_left(sums, self._top_p * (sums[-1] + more)) + 1 for more in (0.0, rest))
        return fewest if fewest == most else None


def choice(sampling: Mapping[str, Any] | None) -> TokenChoice:
    """The draw that was asked for, or the likeliest."""
    return Likeliest() if sampling is None else Draw(**sampling)
