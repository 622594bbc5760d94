from __future__ import annotations

from collections.abc import Callable

from pytest_jsbench.engines.decoding.draws import Likeliest, Offered
from pytest_jsbench.engines.decoding.libraries import is_set
from pytest_jsbench.engines.decoding.vocabulary import Tokenizer, Vocabulary
from pytest_jsbench.engines.decoding.walks import State, Step, Walk, accepts

VOCABULARY = Vocabulary(tokens=(b"", b"a", b"b", b"ab", b"c", b"d"), end=0)
END, A, B, AB, C, D = range(6)


class Texts:
    """A grammar that is a list of texts."""

    def __init__(self, *texts: bytes) -> None:
        self._texts = texts
        self._said = b""

    def mask(self) -> bytes:
        bits = sum(1 << token for token in range(len(VOCABULARY.tokens)) if self._continues(token))
        return bits.to_bytes(4, "little")

    def allows(self, token: int, mask: bytes) -> bool:
        return is_set(mask, token)

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
    """Each half as likely as the one before it."""
    return [[(token, -0.7 * (n + 1)) for n, token in enumerate(tokens)] for tokens in positions]


def step(*taken: int, state: State = State.OPEN) -> Step:
    return Step(taken=taken, state=state)


def test_the_models_own_choice_is_taken_as_long_as_it_may_come() -> None:
    assert walk(b"abcd", b"abdd", b"c").step(offered([A, C], [B, C], [C, D])) == step(A, B, C, D, state=State.DONE)


def test_the_best_that_may_come_is_taken_and_what_was_offered_after_it_is_void() -> None:
    assert walk(b"abca", b"abda", b"abdc", b"ca").step(offered([D, B, A, C], [B], [C])) == step(A, B)


def test_what_can_be_no_other_is_taken_without_the_model() -> None:
    here = walk(b"cda", b"cdb")
    assert here.step([]) == step(C, D)
    assert here.step(offered([B, A])) == step(B, state=State.DONE)


def test_an_end_is_taken_only_where_the_model_wants_it() -> None:
    here = walk(b"a", b"ab")
    assert here.step(offered([A, END])) == step(A)
    assert here.step(offered([END, B])) == step(state=State.DONE)


def test_where_nothing_that_was_offered_may_come_the_walk_is_stuck_and_goes_on_with_more() -> None:
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

    assert [one.accepted for one in found.values()] == [True, False, False, False, None]
    # ab and c, ab, ab and c, a
    assert [len(one.masks) for one in found.values()] == [2, 1, 2, 1, 0]
