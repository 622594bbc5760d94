"""Where paths start: those of the ini file where that file is, those of the command line where pytest was started."""

from __future__ import annotations

import json

import pytest

from tests.plugin.conftest import NUMBER, WITHOUT_SLOW_PLUGINS


@pytest.mark.parametrize(
    ("source", "workers"), [("schemas", ("-n", "2")), ("schemas/number.json", ()), ("schemas/*.json", ())]
)
def test_paths_of_the_ini_file_start_where_it_is(
    pytester: pytest.Pytester, source: str, workers: tuple[str, ...]
) -> None:
    below = pytester.mkdir("tests") / "unit"
    below.mkdir()
    pytester.mkdir("schemas").joinpath("number.json").write_text(json.dumps(NUMBER))
    (pytester.path / "answers.json").write_text('{"*": "{\\"n\\": 1}"}')
    (pytester.path / "ask.j2").write_text("Conform to {{ schema_json }}")
    pytester.makeini(
        f"[pytest]\njsbench_engine = scripted\njsbench_dataset = {source}\njsbench_prompt = ask.j2\n"
        "jsbench_engine_option = answers=answers.json\njsbench_output = kept\n"
    )
    pytester.chdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(below)
        result = pytester.runpytest_subprocess("-v", *WITHOUT_SLOW_PLUGINS, *workers)

    result.assert_outcomes(passed=1)
    assert "schemas::number" in result.stdout.str()
    assert len(list((pytester.path / "kept").glob("*/records.jsonl"))) == 1


def test_paths_of_the_command_line_start_where_pytest_was_started(pytester: pytest.Pytester) -> None:
    below = pytester.mkdir("below")
    (below / "number.json").write_text(json.dumps(NUMBER))
    (below / "answers.json").write_text('{"*": "{\\"n\\": 1}"}')
    pytester.makeini("[pytest]\njsbench_engine = scripted\njsbench_dataset = nothing.json\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(below)
        result = pytester.runpytest_subprocess(
            "--jsbench-dataset=number.json", "--jsbench-engine-option=answers=answers.json", *WITHOUT_SLOW_PLUGINS
        )
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("source", "workers"),
    [
        *((source, ()) for source in ("schemas", "schemas/*.json", "rows.jsonl", "rows.parquet")),
        *((source, ("-n", "2")) for source in ("schemas", "rows.parquet")),
    ],
)
def test_a_test_that_goes_to_another_folder_takes_no_case_with_it(
    pytester: pytest.Pytester, source: str, workers: tuple[str, ...]
) -> None:
    rows = [{"id": f"case{number}", "json_schema": json.dumps(NUMBER)} for number in range(12)]
    schemas = pytester.mkdir("schemas")
    for row in rows:
        (schemas / f"{row['id']}.json").write_text(row["json_schema"])
        (schemas / f"{row['id']}.expected.json").write_text('{"n": 1}')
    (pytester.path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    if source == "rows.parquet":
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), pytester.path / source)
    (pytester.path / "answers.json").write_text('{"*": "{\\"n\\": 1}"}')
    elsewhere = pytester.mkdir("elsewhere")
    (pytester.path / "conftest.py").write_text(
        f"import os\n\ndef pytest_runtest_protocol(item):\n    os.chdir({str(elsewhere)!r})\n"
    )
    result = pytester.runpytest_subprocess(
        "--jsbench-engine=scripted",
        "--jsbench-engine-option=answers=answers.json",
        f"--jsbench-dataset={source}",
        "--jsbench-concurrency=1",
        *WITHOUT_SLOW_PLUGINS,
        *workers,
    )
    result.assert_outcomes(passed=12)
    if source == "schemas":
        result.stdout.fnmatch_lines(["*12/12*"])
