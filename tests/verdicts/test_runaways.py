from __future__ import annotations

import gzip
import json
import time
from typing import Any

import pytest

from pytest_jsbench.verdicts import Note
from pytest_jsbench.verdicts.runaways import find_runaways
from tests.support.public_data import DATA

LABELLED = DATA / "labelled" / "instances.jsonl.gz"
ROW = {"sku": "a-1", "name": "Desk lamp", "price": 12.5}
ROWS = [{**ROW, "price": number} for number in range(10)]


def notes(text: str, *, is_document: bool = True) -> dict[Note, float]:
    return {runaway.note: runaway.share for runaway in find_runaways(text, is_document=is_document)}


def deep(levels: int) -> Any:
    return {"node": 1, "below": deep(levels - 1)} if levels else None


def test_white_space_before_the_end_of_a_document_is_noted_with_its_share() -> None:
    assert notes('{"a": 1' + " \n" * 196 + "}") == {Note.WHITESPACE: 0.98}


def test_short_and_small_runs_of_white_space_are_not_noted() -> None:
    text = " ".join(f"word{number}" for number in range(1000))

    assert notes('{"a": 1' + " " * 99 + "}") == {}
    assert notes(f'{{"a": 1{" " * 200}, "b": "{text}"}}') == {}


@pytest.mark.parametrize("indent", [2, 4, 8])
@pytest.mark.parametrize("levels", [5, 20, 40])
def test_indentation_is_not_white_space_that_ran_away(indent: int, levels: int) -> None:
    assert Note.WHITESPACE not in notes(json.dumps(deep(levels), indent=indent))


@pytest.mark.parametrize("unit", ["a", "ha ", "!?", "The end. ", f"{json.dumps(ROW)}, ", json.dumps(ROWS)])
def test_repeated_text_is_noted_wherever_it_is(unit: str) -> None:
    count = max(6, 200 // len(unit))
    repeated = unit * count
    before = "".join(chr(97 + (number * number) % 23) for number in range(61))

    for place in range(0, 61, 7):
        text = before[:place] + repeated + before[place:]
        assert notes(text) == {Note.REPEATING: pytest.approx(len(repeated) / len(text), abs=0.02)}


def test_text_repeated_five_times_is_not_noted() -> None:
    assert notes(json.dumps([ROW] * 5)) == {}
    assert notes(json.dumps([ROW] * 7)) == {Note.REPEATING: pytest.approx(0.99, abs=0.02)}


@pytest.mark.parametrize("item", ["0", "-1.5e3", "true", "null", "[0, 0]"])
def test_equal_numbers_are_noted_only_in_an_incomplete_document(item: str) -> None:
    items = f"[{', '.join([item] * 200)}"

    assert notes(f"{items}]") == {}
    assert set(notes(items, is_document=False)) == {Note.REPEATING}


def test_digits_of_one_number_are_noted() -> None:
    assert set(notes("0." + "3" * 150)) == {Note.REPEATING}


def test_white_space_is_not_noted_as_repeating_too() -> None:
    assert set(notes('{"a":' + " " * 500, is_document=False)) == {Note.WHITESPACE}


@pytest.mark.parametrize(
    "text",
    [
        " " * 4_000_000,
        "ab" * 2_000_000,
        "".join(f"{number:x}" for number in range(160_000)) * 5,
        "[" + "0," * 2_000_000,
        (" " * 99 + "x") * 40_000,
        ("a" * 400_000 + "b" + "a" * 400_001 + "c") * 5,
    ],
    ids=["spaces", "pairs", "five times", "zeros", "short runs", "nearly equal"],
)
def test_time_is_proportional_to_the_text(text: str) -> None:
    started = time.process_time()
    find_runaways(text, is_document=False)

    assert time.process_time() - started < 2


@pytest.mark.skipif(not LABELLED.exists(), reason="the labelled answers are not on this machine")
def test_labelled_valid_answers_are_hardly_ever_noted() -> None:
    noted = []
    count = 0
    with gzip.open(LABELLED, "rt", encoding="utf-8") as lines:
        for line in lines:
            answer = json.loads(line)
            if not answer["valid"]:
                continue
            count += 1
            for indent in (None, 4):
                text = json.dumps(answer["data"], ensure_ascii=False, indent=indent)
                noted += [(answer["id"], note) for note in notes(text)]

    assert count > 6_000
    assert set(noted) == {("Github_easy---o40228#0", Note.REPEATING)}
