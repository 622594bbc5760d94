from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log

import pytest

from pytest_jsbench.engines.decoding.draws import Draw, Likeliest, Offered

#: of eight tokens, the likeliest first; the mask forbids the first and the sixth
PROBABILITIES = (0.3, 0.25, 0.2, 0.1, 0.08, 0.04, 0.02, 0.01)
ALLOWED = (1, 2, 3, 4, 6, 7)
MASK = bytes([sum(1 << token for token in ALLOWED)])
ALL: Offered = [(token, log(likely)) for token, likely in enumerate(PROBABILITIES)]
DRAWS = 4000


def softmax(temperature: float, tokens: Sequence[int] = ALLOWED) -> dict[int, float]:
    weights = {token: PROBABILITIES[token] ** (1 / temperature) for token in tokens}
    return {token: weight / sum(weights.values()) for token, weight in weights.items()}


def drawn(draw: Draw, *widths: int) -> int:
    """The next token, offered ever more."""
    return next(token for width in widths if (token := draw.choose(ALL[:width], MASK)) is not None)


def shares(draw: Draw, *widths: int) -> dict[int, float]:
    counted = Counter(drawn(draw, *widths) for _ in range(DRAWS))
    return {token: count / DRAWS for token, count in counted.items()}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("widths", [(8,), (2, 5, 8), (3, 4, 5, 6, 7, 8)])
def test_tokens_are_drawn_by_the_softmax_over_those_allowed_however_few_were_offered_first(
    temperature: float, widths: tuple[int, ...]
) -> None:
    found = shares(Draw(temperature=temperature, seed=1), *widths)
    # no other token comes; a share of so many has a standard deviation of 0.008
    assert found == pytest.approx(softmax(temperature), abs=0.025)


def test_the_likeliest_offered_are_enough_for_most_draws() -> None:
    draw, asked = Draw(temperature=0.5, seed=1), 0
    for _ in range(1000):
        if draw.choose(ALL[:5], MASK) is None:
            asked += 1
            assert drawn(draw, 8) in ALLOWED
    # what was not offered weighs 0.004 of all, and at most 0.045 by what is known of it
    assert 0 < asked < 70


@pytest.mark.parametrize(("top_p", "nucleus"), [(0.01, [1]), (0.5, [1, 2]), (0.8, [1, 2, 3]), (0.999, ALLOWED)])
@pytest.mark.parametrize("widths", [(8,), (2, 3, 4, 5, 8)])
def test_top_p_leaves_the_likeliest_of_those_allowed_before_the_temperature(
    top_p: float, nucleus: Sequence[int], widths: tuple[int, ...]
) -> None:
    found = shares(Draw(temperature=2.0, top_p=top_p, seed=1), *widths)
    assert found == pytest.approx(softmax(2.0, nucleus), abs=0.025)


def test_the_same_seed_draws_the_same_and_another_something_else() -> None:
    first, again, other = (
        [drawn(draw, 3, 8) for _ in range(20)] for draw in (Draw(temperature=1.0, seed=seed) for seed in (5, 5, 6))
    )
    assert first == again != other


@pytest.mark.parametrize("temperature", [1e-300, 0.01, 1e300])
def test_no_temperature_and_no_probability_is_too_small_or_too_large(temperature: float) -> None:
    # llama.cpp's logarithm of a probability of 0
    offered = [(0, log(0.999)), (1, -800.0), (2, -900.0), (3, -3.4e38)]
    found = {Draw(temperature=temperature, seed=seed).choose(offered, bytes([0b1110])) for seed in range(20)}
    assert found == ({1} if temperature < 1 else {1, 2, 3})
    # others might be likelier than what was offered and may come
    assert Draw(temperature=temperature, seed=1).choose(offered, bytes([0b11110])) in ({1, None} | found)


def test_nothing_is_taken_where_nothing_that_was_offered_may_come() -> None:
    for choice in (Likeliest(), Draw(temperature=1.0, seed=1)):
        assert choice.choose(ALL[:1], MASK) is None
        assert choice.choose(ALL[:2], MASK) in (1, None)
    assert Likeliest().choose(ALL, MASK) == 1
