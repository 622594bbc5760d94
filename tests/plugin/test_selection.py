from __future__ import annotations

import json

import pytest

from pytest_jsbench.plugin.context import dialect_mark, mark, selects_schema_marks
from tests.support.bench import COUNTED, Bench, with_workers


@pytest.fixture
def varied(bench: Bench) -> Bench:
    """Cases of several features, dialects and tasks, whose calls are written down."""
    draft_4 = {"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"n": {}}}
    bench.case("loop", schema={"properties": {"n": {}, "next": {"$ref": "#"}}})
    bench.case("old", schema=draft_4)
    bench.case("plain", task="other")
    bench.case("broken", schema="{oops", task="other")
    return bench


def calls(bench: Bench, *args: str) -> list[str]:
    bench.run(COUNTED, *args)
    return bench.calls()


def test_only_what_meets_the_conditions_is_paid_for(varied: Bench) -> None:
    assert calls(varied, "--jsbench-where=not feature:recursive", "--jsbench-where=size>20") == [
        "orders::old",
        "other::plain",
    ]


@pytest.mark.parametrize(
    ("bench", "args", "expected"),
    [
        ("plain", ["-m", "jsbench_recursive"], ["orders::loop"]),
        ("plain", ["-m", "jsbench_draft_04 or jsbench_task_other"], ["orders::old", "other::plain"]),
        ("xdist", ["-m", "jsbench_draft_04 or jsbench_recursive"], ["orders::loop", "orders::old"]),
        ("plain", ["-k", "jsbench_recur or plain"], ["orders::loop", "other::plain"]),
    ],
    indirect=["bench"],
)
def test_marks_of_task_dialect_and_feature_select(varied: Bench, args: list[str], expected: list[str]) -> None:
    assert calls(varied, "--strict-markers", *args) == expected


@with_workers
def test_a_sample_is_the_same_in_every_process_and_stands_in_the_run(varied: Bench) -> None:
    made = calls(varied, "--jsbench-sample=2:7", "--jsbench-where=not id:broken", "--jsbench-output=out")

    assert len(made) == 2
    dataset = varied.run_json()["run"]["dataset"]
    assert (dataset["sample"], dataset["sample_seed"], dataset["cases"]) == (2, 7, 2)
    assert dataset["where"] == ["not id:broken"]


def test_no_process_that_asks_holds_what_reads_parquet(bench: Bench) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra datasets")
    import pyarrow

    rows = [{"json_schema": json.dumps({"title": f"é{n}"}), "unique_id": f"r{n}"} for n in range(6)]
    rows[3]["json_schema"] = "{oops"
    folder = bench.path / "hub"
    (folder / "easy").mkdir(parents=True)
    parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "easy" / "test-00000-of-00001.parquet")
    card = "---\nconfigs:\n- config_name: easy\n  data_files:\n  - split: test\n    path: easy/test-*\n---\n"
    (folder / "README.md").write_text(card)
    bench.write(
        {
            "answering.py": "import sys\ndef answer(request):\n"
            "    assert 'pyarrow' not in sys.modules\n    assert 'é' in request.schema['title']\n    return '{}'\n"
        }
    )

    result = bench.run_subprocess(
        "--jsbench-dataset=hub", "--jsbench-engine-option=answers=answering:answer", "--jsbench-where=not id:r5", "-rs"
    )

    result.assert_outcomes(passed=4, skipped=1)
    result.stdout.fnmatch_lines(["*invalid_schema*easy/test-00000-of-00001.parquet row 3: not JSON*"])
    assert not list(bench.path.glob("jsbench-*"))


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
    assert selects_schema_marks(f"{markexpr} {keyword}") is expected


def test_a_mark_is_a_name_that_m_understands() -> None:
    assert mark("task", "Git hub/easy-1.2") == "jsbench_task_Git_hub_easy_1_2"
    assert [dialect_mark(name) for name in ("draft-04", "2020-12", "unknown")] == [
        "jsbench_draft_04",
        "jsbench_draft_2020_12",
        "jsbench_draft_unknown",
    ]
