from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.lab.probe.enforcement import (
    Enforcement,
    KeywordReplies,
    LevelReplies,
    ModeFinding,
    ProbeMode,
    Replies,
    Reply,
    ReplyKind,
)
from pytest_jsbench.metrics.statistics import one_sided_fisher

MODE = ProbeMode(response_format=ResponseFormat.JSON_SCHEMA, streaming=True)
KINDS = {
    "c": ReplyKind.CONFORMS,
    "v": ReplyKind.VIOLATES,
    "m": ReplyKind.MIXED_UP,
    "r": ReplyKind.REFUSED,
    "u": ReplyKind.UNDECIDED,
}


def replies(letters: str, *, planned: int | None = None) -> Replies:
    """Make replies of the kinds given by letters; `t` is a wrong answer which shows that the model saw the schema."""
    found = tuple(Reply(kind=KINDS.get(one, ReplyKind.VIOLATES), traced=one == "t") for one in letters)
    return Replies(planned=len(letters) if planned is None else planned, replies=found)


def finding(*levels: str, control: str = "vvvvv", **keywords: str) -> ModeFinding:
    asked = [1, 8, 32]
    return ModeFinding(
        mode=MODE,
        levels=tuple(
            LevelReplies(in_flight=at, peak=at, replies=replies(level))
            for at, level in zip(asked, levels, strict=False)
        ),
        keywords=tuple(KeywordReplies(keyword=name, replies=replies(one)) for name, one in keywords.items()),
        control=replies(control) if control else None,
    )


@pytest.mark.parametrize(
    ("letters", "found"),
    [
        ("ccccc", Enforcement.ENFORCED),
        ("cccuu", Enforcement.ENFORCED),
        ("ccuuu", Enforcement.UNDECIDED),
        ("uuuuu", Enforcement.UNDECIDED),
        ("", Enforcement.UNDECIDED),
        ("vvvvv", Enforcement.IGNORED),
        ("vuuuu", Enforcement.IGNORED),
        ("tvvvv", Enforcement.NOT_ENFORCED),
        ("ccccv", Enforcement.NOT_ENFORCED),
        ("ccccm", Enforcement.MIXES_UP),
        ("rrrrr", Enforcement.REFUSED),
        ("ccccr", Enforcement.REFUSED),
        ("vrrrr", Enforcement.IGNORED),
    ],
)
def test_one_wrong_answer_says_all_and_a_broken_call_says_nothing(letters: str, found: Enforcement) -> None:
    assert replies(letters).enforcement is found


@pytest.mark.parametrize(
    ("one", "found", "sound"),
    [
        (finding("ccccc", "cccccccc"), Enforcement.ENFORCED, 8),
        (finding("ccccc", "cccccccv"), Enforcement.SOMETIMES_WRONG, 8),
        (finding("ccccv", "c" * 30 + "v"), Enforcement.SOMETIMES_WRONG, 8),
        (finding("ccccc", "cccccvvv"), Enforcement.NOT_ENFORCED, 1),
        (finding("ccccc", "cccccccc", "vvvv"), Enforcement.BREAKS_UNDER_LOAD, 8),
        (finding("ccccc", "cccccccm"), Enforcement.MIXES_UP, 1),
        (finding("ccccc", "uuuuuuuu"), Enforcement.UNDECIDED, 1),
        (finding("ccccc", "rrrrrrrr"), Enforcement.UNDECIDED, 1),
        (finding("uuuuu"), Enforcement.UNDECIDED, 0),
        (finding(), Enforcement.UNDECIDED, 0),
        (finding("ccccc", pattern="cvv"), Enforcement.BROKEN_FOR_KEYWORDS, 1),
        (finding("ccccc", pattern="ccv"), Enforcement.SOMETIMES_WRONG, 1),
        (finding("ccccc", "vvvvvvvv", pattern="ccv"), Enforcement.BREAKS_UNDER_LOAD, 1),
        (finding("ccccc", control="ccccc"), Enforcement.UNDECIDED, 1),
        (finding("ccccc", control="uuuuu"), Enforcement.ENFORCED, 1),
        (finding("ccccc", control=""), Enforcement.ENFORCED, 1),
    ],
)
def test_mode_has_one_finding(one: ModeFinding, found: Enforcement, sound: int) -> None:
    assert (one.enforcement, one.sound_up_to) == (found, sound)
    assert one.passed is (found is Enforcement.ENFORCED)


def test_a_load_that_was_never_reached_is_not_said_to_be_borne() -> None:
    slow = LevelReplies(in_flight=32, peak=5, replies=replies("c" * 32))

    assert replace(finding("ccccc"), levels=(slow,)).sound_up_to == 5


def test_finding_blames_load_if_the_lower_level_is_right_as_often() -> None:
    one = finding("ccccc", "cccvvvvv")
    below = LevelReplies(in_flight=1, peak=1, replies=replies("cccccccc"))

    assert one.enforcement is Enforcement.NOT_ENFORCED
    assert replace(one, below=below).enforcement is Enforcement.BREAKS_UNDER_LOAD
    wrong_too = replace(below, replies=replies("cccvvvvv"))
    assert replace(one, below=wrong_too).enforcement is Enforcement.NOT_ENFORCED


def test_a_keyword_is_blamed_only_where_the_judge_names_it() -> None:
    def keyword(name: str, *violated: str) -> KeywordReplies:
        wrong = Reply(kind=ReplyKind.VIOLATES, violated=frozenset(violated))
        return KeywordReplies(keyword=name, replies=Replies(planned=2, replies=(wrong, wrong)))

    asked = (keyword("additionalProperties", "additionalProperties"), keyword("minLength", "additionalProperties"))
    assert replace(finding("ccccc"), keywords=asked).broken == ("additionalProperties",)
    assert replace(finding("ccccc"), keywords=(keyword("pattern"), keyword("large", "enum"))).broken == (
        "pattern",
        "large",
    )


def test_mode_with_rejected_or_unknown_keyword_is_enforced_but_not_passed() -> None:
    for letters in ("rrr", "uuu"):
        one = finding("ccccc", pattern="ccc", allOf=letters)

        assert one.enforcement is Enforcement.ENFORCED
        assert not one.passed
        assert one.refused + one.undecided == ("allOf",)


@pytest.mark.parametrize(
    ("table", "chance"),
    [
        # scipy.stats.fisher_exact(..., alternative="greater")
        (((5, 5), (0, 5)), 1 / 252),
        (((3, 3), (0, 3)), 1 / 20),
        (((8, 10), (2, 10)), 0.011507),
        (((5, 5), (5, 5)), 1.0),
        (((0, 5), (5, 5)), 1.0),
    ],
)
def test_the_one_sided_exact_test(table: tuple[tuple[int, int], tuple[int, int]], chance: float) -> None:
    assert one_sided_fisher(*table) == pytest.approx(chance, rel=1e-4)
