"""The table of docs/rules.md that says what each keyword says of an object's keys."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.schemas.dialects import DIALECTS, NAMES, Dialect
from pytest_jsbench.schemas.keywords import BY_KIND, KEYWORDS
from pytest_jsbench.verdicts.extra_fields import FieldNames

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"
#: what is extra in the answer, by the column
EXTRA = {"names `z`": [], "makes a map": ["z.y"], "closed: `z` is extra": ["z"], "open": []}
ANSWER = {"a": 1, "z": {"y": 2}}
COUNTING = {"minItems", "maxItems", "uniqueItems", "minContains", "maxContains"}


def rows() -> list[dict[str, str]]:
    section = PAGE.read_text(encoding="utf-8").partition("## Keyword by keyword")[2].partition("## The second")[0]
    table = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return [dict(zip(table[0], cells, strict=True)) for cells in table[2:]]


ROWS = rows()


def knowing(said: str) -> tuple[Dialect, ...]:
    """The dialects that a cell of the second column is about."""
    names = list(NAMES)
    if said == "all":
        return DIALECTS
    if said.startswith("to "):
        return DIALECTS[: names.index(said.removeprefix("to ")) + 1]
    first = names.index(said.removesuffix(" on"))
    return DIALECTS[first:] if said.endswith(" on") else DIALECTS[first : first + 1]


def cases() -> Iterator[Any]:
    for row in ROWS:
        keyword, dialects = row["keyword"].strip("`"), knowing(row["known in"])
        for column, paths in EXTRA.items():
            for schema in re.findall("`(.*?)`", row[column]):
                yield pytest.param(keyword, dialects, schema, paths, id=f"{column.split()[0]} {schema}")


def extra_fields(keyword: str, schema: dict[str, Any], dialect: Dialect) -> list[str]:
    in_array = keyword in BY_KIND["array"]
    extra = FieldNames(schema, dialect).extra_fields([0, ANSWER] if in_array else ANSWER)
    return [path.removeprefix("$[1]." if in_array else "$.") for path in extra.listed()]


@pytest.mark.parametrize(("keyword", "dialects", "schema", "paths"), list(cases()))
def test_each_keyword_says_what_the_page_says(
    keyword: str, dialects: tuple[Dialect, ...], schema: str, paths: list[str]
) -> None:
    read = json.loads(schema)
    silent = {name: value for name, value in read.items() if name != keyword}
    for dialect in DIALECTS:
        known = dialect in dialects
        assert extra_fields(keyword, read, dialect) == (paths if known else extra_fields(keyword, silent, dialect))


def test_the_page_has_a_row_for_each_keyword_that_can_say_anything_of_names() -> None:
    listed = [row["keyword"].strip("`") for row in ROWS]
    assert len(listed) == len(set(listed))
    assert set(listed) == KEYWORDS - BY_KIND["string"] - BY_KIND["number"] - COUNTING


def test_each_row_of_the_page_has_a_closed_or_an_open_object_and_names_where_it_can() -> None:
    assert sum(len(re.findall("`(.*?)`", row[column])) for row in ROWS for column in EXTRA) > 90
    assert all("`" in row["open"] for row in ROWS)
