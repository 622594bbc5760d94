from __future__ import annotations

import pytest

from pytest_jsbench.plugin.context import asked_for, dialect_mark, mark


@pytest.mark.parametrize(
    ("markexpr", "keyword", "expected"),
    [
        ("", "", False),
        ("jsbench and not slow", "", False),
        ("jsbench_task_Github_easy", "", False),
        ("", "Github or recursive", False),
        ("not jsbench_recursive", "", True),
        ("jsbench_draft_2020_12", "", True),
        ("", "jsbench_recur and a", True),
        ("", "JSBENCH_REF", True),
    ],
)
def test_schemas_are_read_for_their_marks_only_where_one_is_named(markexpr: str, keyword: str, expected: bool) -> None:
    assert asked_for(f"{markexpr} {keyword}") is expected


def test_a_mark_is_a_name_that_m_understands() -> None:
    assert mark("task", "Git hub/easy-1.2") == "jsbench_task_Git_hub_easy_1_2"
    assert [dialect_mark(name) for name in ("draft-04", "2020-12", "unknown")] == [
        "jsbench_draft_04",
        "jsbench_draft_2020_12",
        "jsbench_draft_unknown",
    ]
