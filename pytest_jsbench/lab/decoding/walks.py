"""A text walked through a grammar, token by token, as the child process of a decoding library does it."""

from __future__ import annotations

import functools
import random
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from math import exp, log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.lab.decoding.libraries import LIBRARIES, Unsupported, is_set
from pytest_jsbench.lab.decoding.vocabulary import Tokenizer, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_jsbench.lab.decoding.libraries import Library, Matcher
    from pytest_jsbench.lab.decoding.vocabulary import Tokenizer

#: tokens, the likeliest first, each with the logarithm of its probability without a mask
Offered = Sequence[tuple[int, float]]

#: what the probabilities of all tokens may be short of 1, in single precision
_ROUNDING = 1e-6
#: the largest power of e, nearly, that a float holds
_LARGEST = 700.0
#: more tokens than this that can be no others are taken one request at a time
_MOST_FORCED = 256


class Likeliest:
    """Takes the likeliest token that may come."""

    def choose(self, offered: Offered, mask: bytes) -> int | None:
        """Return the first token that the mask allows; None where more must be offered before it is known."""
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
        """Return the token that the point falls on; None where more must be offered before it is known."""
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
        offered_weight = weights[-1]
        while True:
            if self._point is None:
                self._point = self._random.random() * (offered_weight + beyond)
            point = self._point
            if offered_weight <= point < offered_weight + beyond:
                return None
            # past the end: the others weigh less than was thought, and the point is drawn again
            self._point = None
            if point < offered_weight:
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
        """Count the likeliest that are `top_p` of all that may come; None where that hangs on what was not offered."""
        sums = list(accumulate(exp(likely) for _, likely in allowed))
        fewest, most = (bisect_left(sums, self._top_p * (sums[-1] + more)) + 1 for more in (0.0, rest))
        return fewest if fewest == most else None


class State(StrEnum):
    """The place where a walk stands."""

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
    """A text in the making; of the tokens offered that the grammar lets come next, the choice takes one."""

    def __init__(self, matcher: Matcher, choice: Likeliest | Draw, *, end: int) -> None:
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
        state = self._take_forced(taken)  # which adds to them
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


def accepts(
    begin: Callable[[], Matcher], text: bytes, tokenizer: Tokenizer, *, end: int
) -> tuple[bool | None, list[float]]:
    """
    Tell whether the grammar takes the text to its end; None where the vocabulary has no tokens for it.

    With it come the seconds from taking a token to the mask for the next, of each token that was taken: without the
    first mask, which is the grammar's compilation.
    """
    tokens = tokenizer(text)
    seconds: list[float] = []
    if tokens is None:
        return None, seconds
    matcher = begin()
    mask = matcher.mask()
    for token in tokens:
        if not matcher.allows(token, mask):
            return False, seconds
        start = time.perf_counter()
        matcher.advance(token)
        mask = matcher.mask()
        seconds.append(time.perf_counter() - start)
    return matcher.allows(end, mask), seconds


class Session:
    """Compiles a grammar, one at a time, and then walks through it or asks it."""

    def __init__(self, library: Library, vocabulary: Vocabulary) -> None:
        self._library = library
        self._end = vocabulary.end
        self._tokenizer = Tokenizer(vocabulary)
        #: begins a text in the compiled grammar
        self._start: Callable[[], Matcher] | None = None
        self._walk: Walk | None = None

    def compile(self, schema: Any) -> dict[str, Any]:
        """Compile a schema: the seconds, or the library's words where it cannot."""
        self._start = self._walk = None
        start = time.perf_counter()
        try:
            self._start = self._library.compile(schema)
            compiled = time.perf_counter()
            # some do a part of the work only when the first mask is asked for
            self._start().mask()
        except Unsupported as error:
            return {"unsupported": str(error)}
        except RuntimeError as error:
            if "bad_alloc" in str(error):  # no word about the schema: the memory is at its end
                raise
            return {"unsupported": str(error)}
        return {"seconds": time.perf_counter() - start, "compiled": compiled - start}

    def begin(self, sampling: Mapping[str, Any] | None) -> dict[str, Any]:
        """Begin a text, of which tokens are drawn so, or the likeliest taken."""
        assert self._start is not None
        choice = Likeliest() if sampling is None else Draw(**sampling)
        self._walk = Walk(self._start(), choice, end=self._end)
        return self.step([])

    def step(self, offered: Sequence[Offered]) -> dict[str, Any]:
        """Go on with what the model offers."""
        assert self._walk is not None
        step = self._walk.step(offered)
        return {"taken": step.taken, "state": step.state.value}

    def accepts(self, text: str) -> dict[str, Any]:
        """Walk through a text, as far as the grammar takes it."""
        assert self._start is not None
        data = text.encode("utf-8", "surrogatepass")
        accepted, seconds = accepts(self._start, data, self._tokenizer, end=self._end)
        return {"accepts": accepted, "masks": [float(f"{each:.3g}") for each in seconds]}


@functools.lru_cache(maxsize=1)
def _session(library: str, model: str) -> Session:
    vocabulary = Vocabulary.from_gguf(Path(model))
    return Session(LIBRARIES[library](vocabulary), vocabulary)


def load(library: str, model: str) -> None:
    """Have the library loaded, with the vocabulary of a model's file."""
    _session(library, model)


def call(library: str, model: str, method: str, *arguments: Any) -> Any:
    """Call a method of the session."""
    return getattr(_session(library, model), method)(*arguments)
