from __future__ import annotations

import base64
import gzip
import hashlib
import json
from typing import Any

from pytest_jsbench.core.cases import Expected
from pytest_jsbench.records.answer_digests import add_digest
from pytest_jsbench.records.records import Cause, End, ProjectTestOutcome, Record
from pytest_jsbench.reports.html.case_list import PageSpace, pack_cases
from pytest_jsbench.values import match
from tests.support import examples
from tests.support.examples import record, replace
from tests.support.report_pages import needs_jinja2, page, unpacked

pytestmark = needs_jinja2


def test_page_shows_the_packed_schema_with_hidden_characters_visible() -> None:
    text = page(record("a", schema={"title": "\u202e\U000e0041\ufeff ##[error]x", "maximum": 12345678901234567890}))

    assert unpacked(text, "chunk0")[0]["schema"] == (
        '{"title": "\\u202e\\udb40\\udc41\\ufeff #\\u0023[error]x", "maximum": 12345678901234567890}'
    )
    assert "JSON.stringify" not in text


def test_page_shows_the_actual_value_next_to_a_wrong_expected_one() -> None:
    expected = Expected(value={"total": 99.5, "items": [{"n": 1}, {"n": 2}], "tags": [], "<b>": "a\u202e"})
    answer = {"total": 95.9, "items": [{"n": 1}], "tags": [], "<b>": "b", "more": 1}
    one = replace(record("a"), expected=expected, match=match(expected, answer))

    text = page(one, record("b"))

    (detail,) = unpacked(text, "chunk0")[:1]
    assert '<th scope="col">Values right</th>' in text
    assert "Values right" not in page(record("b"))

    assert [line for line, found in detail["expected"] if not found] == [
        "{",
        '  "items": [',
        "    {",
        '      "n": 1',
        "    },",
        "    {",
        "    }",
        "  ],",
        '  "tags": [],',
        "}",
    ]
    assert [pair for pair in detail["expected"] if pair[1]] == [
        ['  "total": 99.5,', "95.9"],
        ['      "n": 2', "missing"],
        ['  "<b>": "a\\u202e"', '"b"'],
    ]
    assert detail["values"].endswith("$.more: 1; expected no value")


def test_page_marks_the_fields_that_differ_between_the_answers_to_a_case() -> None:
    answers = ({"n": 1, "m": "x"}, {"n": 2, "m": "x"})
    made = [
        add_digest(
            replace(record("a", verdict=replace(examples.PASSED, instance=answer)), repeat=repeat), is_repeated=True
        )
        for repeat, answer in enumerate(answers)
    ]

    text = page(*made, record("b"))

    line = "fields that differ between the answers to this case: n"
    marked = [line in detail["verdict"].splitlines() for detail in unpacked(text, "chunk0")]
    assert sorted(marked) == [False, True, True]
    assert "<caption>Fields that differ in repeats</caption>" in text
    assert "Fields that differ in repeats" not in page(record("b"))


def test_huge_details_are_cut_with_a_pointer_to_the_rest() -> None:
    numbers = list(range(100_000))
    huge = record("a", generation=examples.completion("x" * 5_000_000), schema={"enum": numbers})

    text = page(replace(huge, expected=Expected(value=numbers)))

    assert len(text) < 200_000
    (detail,) = unpacked(text, "chunk0")
    assert detail["answer"].endswith("… and 4,990,000 characters more, in records.jsonl")
    assert detail["expected"][-1] == ["… truncated: records.jsonl contains all lines", ""]
    assert len(detail["expected"]) < 10_000
    schema, note = detail["schema"].split("\n")
    assert schema.startswith('{"enum": [0, 1, 2')
    assert note == "… truncated: records.jsonl contains all 688,900 characters"


def test_list_precedes_the_details_and_works_without_them() -> None:
    text = page(*(record(f"c{at}") for at in range(101)), record("bad", verdict=examples.VIOLATED))

    assert text.index('id="index"') < text.index('"use strict"') < text.index('id="chunk0"') < text.index('id="chunk1"')
    index = unpacked(text, "index")
    assert index["outcomes"] == ["passed", "schema_violation"]
    assert index["tasks"] == ["simple"]
    assert index["keywords"] == sorted({keyword for one in index["cases"] for keyword in one["keywords"]}) != []


def test_failed_attempts_come_first_in_a_long_list() -> None:
    verdicts = dict.fromkeys((7, 150), examples.VIOLATED) | {90: examples.EXCLUDED}
    text = page(*(record(f"c{at:03}", verdict=verdicts.get(at, examples.PASSED)) for at in range(151)))

    names = [one["name"].removeprefix("simple::") for one in unpacked(text, "index")["cases"]]
    assert names[:5] == ["c007", "c150", "c090", "c000", "c001"]
    assert len(set(names)) == 151
    assert unpacked(text, "index")["starts"] == [0, 100]
    assert [len(unpacked(text, name)) for name in ("chunk0", "chunk1")] == [100, 51]
    assert unpacked(text, "chunk0")[1]["verdict"].startswith("schema_violation: ")


def test_passed_attempts_with_wrong_values_precede_correct_ones() -> None:
    expected = Expected(value={"total": 99.5})
    wrong, right = (match(expected, {"total": total}) for total in (95.9, 99.5))
    failed = ProjectTestOutcome(end=End.FAILED, cause=Cause.ASSERTION, message="assert 3 == 4")
    special = {
        5: replace(record("c5"), expected=expected, match=right),
        60: replace(record("c60"), expected=expected, match=wrong),
        99: replace(record("c99"), test_outcome=failed),
        100: record("c100", verdict=examples.VIOLATED),
    }
    text = page(*(special.get(at) or record(f"c{at}") for at in range(101)))

    first = [(one["name"].removeprefix("simple::"), one["message"]) for one in unpacked(text, "index")["cases"][:4]]
    assert first[0] == ("c99", "assertion: assert 3 == 4")
    assert first[1][0] == "c100"
    assert first[2:] == [("c60", "$.total: 95.9; expected 99.5"), ("c0", "")]


def packed(*records: Record, **space: int) -> tuple[dict[str, Any], list[str]]:
    """Return the list of the attempts of a page with this space, and the chunks of their details."""
    cases = pack_cases(examples.run(*records), {}, space=PageSpace(**space))
    index: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(cases.listing)))
    return index, cases.chunks


def test_passed_attempts_lose_their_details_first_in_a_full_page() -> None:
    noise = [hashlib.sha512(str(at).encode()).hexdigest() for at in range(300)]
    verdicts = [examples.PASSED] * 250 + [examples.VIOLATED] * 50
    records = [
        record(f"c{at}", verdict=verdict, generation=examples.completion(text))
        for at, (text, verdict) in enumerate(zip(noise, verdicts, strict=True))
    ]

    index, chunks = packed(*records, details=8_000, chunk=50)

    assert (index["detailed"], index["unlisted"], len(index["cases"])) == (50, 0, 300)
    assert len(chunks) == 1
    assert {one["outcome"] for one in index["cases"][:50]} == {"schema_violation"}
    assert {one["outcome"] for one in index["cases"][50:]} == {"passed"}


def test_page_counts_passed_attempts_that_its_list_omits() -> None:
    bad = record("bad", verdict=examples.VIOLATED)

    index, _ = packed(bad, *(record(f"c{at}") for at in range(250)), listing=0)

    assert index["cases"][0]["name"] == "simple::bad"
    assert (len(index["cases"]), index["unlisted"]) == (100, 151)


def test_attempts_without_details_keep_their_message() -> None:
    expected = Expected(value={"total": 99.5})
    ends = [{"total": float(at)} for at in range(60)] + [{"total": 99.5}] * 60
    records = [
        replace(record(f"c{at:03}"), expected=expected, match=match(expected, end)) for at, end in enumerate(ends)
    ]

    messages = {one["name"]: one["message"] for one in packed(*records, details=1_000, chunk=10)[0]["cases"]}

    assert messages == {
        f"simple::c{at:03}": f"$.total: {end['total']}; expected 99.5" if at < 60 else "" for at, end in enumerate(ends)
    }
