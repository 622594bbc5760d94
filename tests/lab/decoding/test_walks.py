from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import log

import pytest

from pytest_jsbench.lab.decoding.libraries import Matcher
from pytest_jsbench.lab.decoding.vocabulary import Tokenizer, Vocabulary
from pytest_jsbench.lab.decoding.walks import Draw, Likeliest, Offered, State, Step, Walk, accepts

VOCABULARY = Vocabulary(tokens=(b"", b"a", b"b", b"ab", b"c", b"d"), end=0)
END, A, B, AB, C, D = range(6)


class Texts(Matcher):
    """A grammar that is a list of texts."""

    def __init__(self, *texts: bytes) -> None:
        self._texts = texts
        self._said = b""

    def mask(self) -> bytes:
        bits = sum(1 << token for token in range(len(VOCABULARY.tokens)) if self._continues(token))
        return bits.to_bytes(4, "little")

    def _continues(self, token: int) -> bool:
        if token == END:
            return self._said in self._texts
        return any(text.startswith(self._said + VOCABULARY.tokens[token]) for text in self._texts)

    def advance(self, token: int) -> None:
        assert self._continues(token)
        self._said += VOCABULARY.tokens[token]


def walk(*texts: bytes) -> Walk:
    return Walk(Texts(*texts), Likeliest(), end=END)


def offered(*positions: list[int]) -> list[Offered]:
    """Offer tokens, each half as likely as the one before it."""
    return [[(token, -0.7 * (n + 1)) for n, token in enumerate(tokens)] for tokens in positions]


def step(*taken: int, state: State = State.OPEN) -> Step:
    return Step(taken=taken, state=state)


def test_the_models_own_choice_is_taken_as_long_as_it_may_come() -> None:
    assert walk(b"abcd", b"abdd", b"c").step(offered([A, C], [B, C], [C, D])) == step(A, B, C, D, state=State.DONE)


def test_walk_takes_the_best_allowed_token_and_drops_later_offers() -> None:
    assert walk(b"abca", b"abda", b"abdc", b"ca").step(offered([D, B, A, C], [B], [C])) == step(A, B)


def test_what_can_be_no_other_is_taken_without_the_model() -> None:
    here = walk(b"cda", b"cdb")
    assert here.step([]) == step(C, D)
    assert here.step(offered([B, A])) == step(B, state=State.DONE)


def test_an_end_is_taken_only_where_the_model_wants_it() -> None:
    here = walk(b"a", b"ab")
    assert here.step(offered([A, END])) == step(A)
    assert here.step(offered([END, B])) == step(state=State.DONE)


def test_walk_is_stuck_without_an_allowed_token_until_more_are_offered() -> None:
    here = walk(b"ad", b"bd", b"bc")
    assert here.step(offered([C, D])) == step(state=State.STUCK)
    assert here.step(offered([C, D, B, A])) == step(B)


def test_where_nothing_at_all_may_come_the_walk_is_dead() -> None:
    assert walk().step([]) == step(state=State.DEAD)
    assert walk().step(offered([A])) == step(state=State.DEAD)


def test_a_grammar_takes_a_text_only_to_its_end() -> None:
    tokenizer = Tokenizer(VOCABULARY)
    begin: Callable[[], Texts] = lambda: Texts(b"abc", b"abd")  # noqa: E731
    found = {text: accepts(begin, text, tokenizer, end=END) for text in (b"abc", b"ab", b"abcd", b"acb", b"abx")}

    assert [accepted for accepted, _ in found.values()] == [True, False, False, False, None]
    # ab and c, ab, ab and c, a
    assert [len(seconds) for _, seconds in found.values()] == [2, 1, 2, 1, 0]


#: Probabilities of eight tokens, in descending order; the mask forbids the first and the sixth.
PROBABILITIES = (0.3, 0.25, 0.2, 0.1, 0.08, 0.04, 0.02, 0.01)
ALLOWED = (1, 2, 3, 4, 6, 7)
MASK = bytes([sum(1 << token for token in ALLOWED)])
ALL: Offered = [(token, log(likely)) for token, likely in enumerate(PROBABILITIES)]
DRAWS = 4000


def softmax(temperature: float, tokens: Sequence[int] = ALLOWED) -> dict[int, float]:
    weights = {token: PROBABILITIES[token] ** (1 / temperature) for token in tokens}
    return {token: weight / sum(weights.values()) for token, weight in weights.items()}


def drawn(draw: Draw, *widths: int) -> int:
    """Return the next token, offering more tokens until it is known."""
    return next(token for width in widths if (token := draw.choose(ALL[:width], MASK)) is not None)


def shares(draw: Draw, *widths: int) -> dict[int, float]:
    counted = Counter(drawn(draw, *widths) for _ in range(DRAWS))
    return {token: count / DRAWS for token, count in counted.items()}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("widths", [(8,), (2, 5, 8), (3, 4, 5, 6, 7, 8)])
def test_draw_follows_softmax_over_allowed_tokens_with_few_offered(temperature: float, widths: tuple[int, ...]) -> None:
    found = shares(Draw(temperature=temperature, seed=1), *widths)
    # No other token occurs; each share has a standard deviation of 0.008.
    assert found == pytest.approx(softmax(temperature), abs=0.025)


def test_the_likeliest_offered_are_enough_for_most_draws() -> None:
    draw, asked = Draw(temperature=0.5, seed=1), 0
    for _ in range(1000):
        if draw.choose(ALL[:5], MASK) is None:
            asked += 1
            assert drawn(draw, 8) in ALLOWED
    # Tokens not offered weigh 0.004 of all, with a known upper bound of 0.045.
    assert 0 < asked < 70


@pytest.mark.parametrize(("top_p", "nucleus"), [(0.01, [1]), (0.5, [1, 2]), (0.8, [1, 2, 3]), (0.999, ALLOWED)])
@pytest.mark.parametrize("widths", [(8,), (2, 3, 4, 5, 8)])
def test_top_p_is_applied_to_allowed_tokens_before_temperature(
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
    # llama.cpp's logarithm of a probability of 0.
    offered = [(0, log(0.999)), (1, -800.0), (2, -900.0), (3, -3.4e38)]
    found = {Draw(temperature=temperature, seed=seed).choose(offered, bytes([0b1110])) for seed in range(20)}
    assert found == ({1} if temperature < 1 else {1, 2, 3})
    # Other allowed tokens might be likelier than the offered ones.
    assert Draw(temperature=temperature, seed=1).choose(offered, bytes([0b11110])) in ({1, None} | found)


def test_nothing_is_taken_where_nothing_that_was_offered_may_come() -> None:
    for choice in (Likeliest(), Draw(temperature=1.0, seed=1)):
        assert choice.choose(ALL[:1], MASK) is None
        assert choice.choose(ALL[:2], MASK) in (1, None)
    assert Likeliest().choose(ALL, MASK) == 1
