"""Generate or check a text with a grammar, token by token, in the child process of a decoding library."""

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

#: The model's candidates for the next token, most likely first: pairs of token id and unmasked log-probability.
Offered = Sequence[tuple[int, float]]

#: Rounding error of the sum of all probabilities in single precision.
_ROUNDING = 1e-6
#: Approximately the largest exponent x for which a float can represent e**x.
_LARGEST = 700.0
#: Maximum number of forced tokens (the only tokens that the grammar allows) that are taken in one request.
_MOST_FORCED = 256


class Likeliest:
    """Strategy that chooses the most likely allowed token."""

    def choose(self, offered: Offered, mask: bytes) -> int | None:
        """Return the first candidate that the mask allows; None if the mask allows none of the candidates."""
        return next((token for token, _ in offered if is_set(mask, token)), None)


class Draw:
    """
    Strategy that samples from the softmax over the allowed tokens, with temperature and `top_p` as in llama.cpp.

    One object is used for one text, in one thread. At first, only the most likely tokens are offered. For the total
    weight of the other tokens, an upper bound is computed, and a random point is drawn between 0 and the total weight
    of all tokens. If the point falls on an offered token, this token is chosen; otherwise more tokens are requested for
    the same point. The result has exactly the same distribution as if all tokens had been offered.
    """

    def __init__(self, *, temperature: float, top_p: float = 1.0, seed: int | None = None) -> None:
        self._temperature = temperature
        self._top_p = top_p
        # random() gives the same values for a seed in all versions of Python; numpy does not guarantee this.
        self._random = random.Random(seed)  # noqa: S311  no secret depends on it
        #: Point drawn for the next token; kept until a token is chosen.
        self._point: float | None = None

    def choose(self, offered: Offered, mask: bytes) -> int | None:
        """Return the token that the point falls on; None if more candidates are needed to decide."""
        allowed = [pair for pair in offered if is_set(mask, pair[0])]
        if not allowed:
            return None
        others = int.from_bytes(mask, "little").bit_count() - len(allowed)
        rest = max(1 - sum(exp(likely) for _, likely in offered), _ROUNDING) if others else 0.0
        if self._top_p < 1:
            cut = self._nucleus(allowed, rest)
            if cut is None:
                return None
            allowed = allowed[:cut]
            rest = 0.0
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
            # the upper bound overestimates the total weight: a point beyond the actual total is drawn again
            self._point = None
            if point < offered_weight:
                return allowed[bisect_right(weights, point)][0]

    def _bound(self, least: float, best: float, rest: float, others: int) -> float:
        """
        Return an upper bound for the weight of tokens that were not offered; these are at most as likely as the last
        offered token.
        """
        each = log(others) + (least - best) / self._temperature
        if self._temperature > 1:
            together = log(others) + (log(rest) - log(others) - best) / self._temperature
        else:
            together = log(rest) - least + (least - best) / self._temperature
        return exp(min(each, together, _LARGEST))

    def _nucleus(self, allowed: Offered, rest: float) -> int | None:
        """
        Return the number of most likely tokens that together reach `top_p` of the allowed probability; None if more
        candidates are needed to decide.
        """
        sums = list(accumulate(exp(likely) for _, likely in allowed))
        fewest, most = (bisect_left(sums, self._top_p * (sums[-1] + more)) + 1 for more in (0.0, rest))
        return fewest if fewest == most else None


class State(StrEnum):
    """States of a text after a step of its generation."""

    #: The document is incomplete and can be continued.
    OPEN = "open"
    #: None of the offered tokens can be taken, so more candidates are needed.
    STUCK = "stuck"
    #: The document is complete, and its end was chosen.
    DONE = "done"
    #: The grammar allows no next token.
    DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The tokens that were added to a text in one step, and the text's state afterwards."""

    taken: tuple[int, ...]
    state: State


class Walk:
    """A text that is generated token by token; `choice` selects one of the offered tokens that the grammar allows."""

    def __init__(self, matcher: Matcher, choice: Likeliest | Draw, *, end: int) -> None:
        self._matcher = matcher
        self._choice = choice
        self._end = end

    def step(self, offered: Sequence[Offered]) -> Step:
        """
        Take a token from the model's candidates for each of the next positions.

        Candidates for a position are valid only if the model's most likely token was taken at the previous position.
        Finally, take the forced tokens, which need no candidates.
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
        state = self._take_forced(taken)  # also appends to `taken`
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
    Return whether the grammar accepts the text as a complete document; None if the vocabulary has no tokens for the
    text.

    Also return the seconds from each token to the mask for the next token. The first mask is left out, since its time
    counts as compilation.
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
    """A loaded library that compiles one grammar at a time, and generates or checks texts with this grammar."""

    def __init__(self, library: Library, vocabulary: Vocabulary) -> None:
        self._library = library
        self._end = vocabulary.end
        self._tokenizer = Tokenizer(vocabulary)
        #: Function that starts a text in the compiled grammar; None before a grammar is compiled.
        self._start: Callable[[], Matcher] | None = None
        self._walk: Walk | None = None

    def compile(self, schema: Any) -> dict[str, Any]:
        """Compile a schema; return the compile times in seconds, or the library's message if it is unsupported."""
        self._start = self._walk = None
        start = time.perf_counter()
        try:
            self._start = self._library.compile(schema)
            compiled = time.perf_counter()
            # some libraries do part of the compilation when the first mask is requested
            self._start().mask()
        except Unsupported as error:
            return {"unsupported": str(error)}
        except RuntimeError as error:
            if "bad_alloc" in str(error):  # the process is out of memory, so this is not an unsupported schema
                raise
            return {"unsupported": str(error)}
        return {"seconds": time.perf_counter() - start, "compiled": compiled - start}

    def begin(self, sampling: Mapping[str, Any] | None) -> dict[str, Any]:
        """
        Begin a text, and take the tokens that the grammar forces at its start. The tokens after these
        are sampled with the parameters in `sampling`; if `sampling` is None, the most likely allowed
        token is taken.
        """
        assert self._start is not None
        choice = Likeliest() if sampling is None else Draw(**sampling)
        self._walk = Walk(self._start(), choice, end=self._end)
        return self.step([])

    def step(self, offered: Sequence[Offered]) -> dict[str, Any]:
        """Continue the text with tokens from the model's candidates."""
        assert self._walk is not None
        step = self._walk.step(offered)
        return {"taken": step.taken, "state": step.state.value}

    def accepts(self, text: str) -> dict[str, Any]:
        """Return whether the grammar accepts a text, and the seconds for each mask."""
        assert self._start is not None
        data = text.encode("utf-8", "surrogatepass")
        accepted, seconds = accepts(self._start, data, self._tokenizer, end=self._end)
        return {"accepts": accepted, "masks": [float(f"{each:.3g}") for each in seconds]}


@functools.lru_cache(maxsize=1)
def _session(library: str, model: str) -> Session:
    vocabulary = Vocabulary.from_gguf(Path(model))
    return Session(LIBRARIES[library](vocabulary), vocabulary)


def load(library: str, model: str) -> None:
    """Load the library, with the vocabulary of a model's file."""
    _session(library, model)


def call(library: str, model: str, method: str, *arguments: Any) -> Any:
    """Call a method of this process's session; load the library first if necessary."""
    return getattr(_session(library, model), method)(*arguments)
