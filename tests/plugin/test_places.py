"""Test relative paths: those in the ini file start at that file, those on the command line where pytest was started."""

from __future__ import annotations

import json
import sys
import textwrap

import pytest

from tests.support.bench import NUMBER, Bench


@pytest.fixture
def placed(bench: Bench) -> Bench:
    """Create a schema with its answer, a prompt, and a subdirectory in which pytest may be started."""
    bench.write(
        {
            "schemas/number.json": json.dumps(NUMBER),
            "answers.json": '{"*": "{\\"n\\": 1}"}',
            "ask.j2": "Conform to {{ schema_json }}",
            "shared/part.json": '{"$id": "http://shared/part"}',
            "tests/unit/empty.txt": "",
        }
    )
    return bench


@pytest.mark.parametrize(
    ("bench", "source"),
    [("xdist", "schemas"), ("plain", "schemas/number.json"), ("plain", "schemas/*.json")],
    indirect=["bench"],
)
def test_paths_of_the_ini_file_start_where_it_is(placed: Bench, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    placed.pytester.makeini(
        f"[pytest]\njsbench_engine = scripted\njsbench_dataset = {source}\njsbench_prompt = ask.j2\n"
        "jsbench_engine_option = answers=answers.json\njsbench_output = kept\njsbench_registry = shared\n"
    )
    monkeypatch.chdir(placed.path / "tests" / "unit")

    result = placed.run_only("-v")

    result.assert_outcomes(passed=1)
    assert "schemas::number" in result.stdout.str()
    assert len(list((placed.path / "kept").glob("*/records.jsonl"))) == 1


@pytest.mark.parametrize("bench", ["plain", "xdist"], indirect=True)
@pytest.mark.parametrize(
    ("ini", "file"), [("", "place_of_ini.py"), ("pythonpath = src\n", "src/place_of_ini.py")], ids=["ini", "pythonpath"]
)
def test_module_next_to_the_ini_file_is_found_from_a_subdirectory(
    placed: Bench, ini: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed.write({file: f"NUMBERS = {{'number': {NUMBER}}}\n"})
    placed.pytester.makeini(
        f"[pytest]\n{ini}jsbench_engine = scripted\njsbench_dataset = place_of_ini:NUMBERS\n"
        "jsbench_engine_option = answers=answers.json\n"
    )
    monkeypatch.chdir(placed.path / "tests" / "unit")

    result = placed.run_only("-v")

    result.assert_outcomes(passed=1)
    assert "place_of_ini::number" in result.stdout.str()


@pytest.mark.slow
def test_directory_of_the_ini_file_is_the_last_to_import_from_and_only_during_the_run(
    placed: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"""
        import sys
        from pathlib import Path

        place = "last" if sys.path[-1] == str(Path(__file__).parent) else "not_last"
        NUMBERS = {{place: {NUMBER}}}
    """
    placed.write({"place_of_ini.py": textwrap.dedent(module)})
    placed.pytester.makeini(
        "[pytest]\njsbench_engine = scripted\njsbench_dataset = place_of_ini:NUMBERS\n"
        "jsbench_engine_option = answers=answers.json\n"
    )
    monkeypatch.chdir(placed.path / "tests" / "unit")

    run = f"pytest.main({[*placed.quick, '-v']}); print('left behind:', {str(placed.path)!r} in sys.path)"

    result = placed.pytester.run(sys.executable, "-c", f"import sys, pytest; {run}")

    assert "place_of_ini::last" in result.stdout.str()
    assert result.outlines[-1] == "left behind: False"


def test_paths_of_the_command_line_start_where_pytest_was_started(
    placed: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed.pytester.makeini("[pytest]\njsbench_engine = scripted\njsbench_dataset = nothing.json\n")
    monkeypatch.chdir(placed.path / "schemas")

    result = placed.run_only("--jsbench-dataset=number.json", "--jsbench-engine-option=answers=../answers.json")

    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("bench", "source"),
    [("xdist", "schemas"), ("plain", "schemas/*.json"), ("plain", "rows.jsonl"), ("xdist", "rows.parquet")],
    indirect=["bench"],
)
def test_a_test_that_goes_to_another_folder_takes_no_case_with_it(
    bench: Bench, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"id": f"case{number}", "json_schema": json.dumps(NUMBER)} for number in range(12)]
    for row in rows:
        bench.case(row["id"])
        bench.write({f"schemas/orders/{row['id']}.expected.json": '{"n": 1}'})
    bench.write(
        {
            "rows.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows),
            "elsewhere/empty.txt": "",
            "conftest.py": f"import os\n\ndef pytest_runtest_protocol(item):\n"
            f"    os.chdir({str(bench.path / 'elsewhere')!r})\n",
        }
    )
    if source == "rows.parquet":
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), bench.path / source)
    monkeypatch.chdir(bench.path)

    result = bench.run(f"--jsbench-dataset={source.replace('schemas/*', 'schemas/*/*')}", "--jsbench-concurrency=1")

    result.assert_outcomes(passed=12)
    if source == "schemas":
        result.stdout.fnmatch_lines(["*12/12*"])


_SOURCES = {
    "command line": ("", ["--jsbench-dataset=schemas", "--jsbench-dataset=more.json"]),
    "ini": ("pytest.ini:[pytest]\njsbench_dataset =\n    schemas\n    more.json\n", []),
    "toml": ('pyproject.toml:[tool.pytest.ini_options]\njsbench_dataset = ["schemas", "more.json"]\n', []),
    "pytest's toml": ('pytest.toml:[pytest]\njsbench_dataset = ["schemas", "more.json"]\n', []),
}


@pytest.mark.parametrize("place", _SOURCES)
def test_several_datasets_are_one_suite_from_each_place(placed: Bench, place: str) -> None:
    if place == "pytest's toml" and pytest.version_tuple < (9,):
        pytest.skip("pytest reads its own TOML from version 9 on")
    content, arguments = _SOURCES[place]
    name, _, text = content.partition(":")
    placed.write({"more.json": json.dumps(NUMBER), **({name: text} if name else {})})
    options = ["--jsbench-engine=scripted", "--jsbench-engine-option=answers=answers.json", "--jsbench-output=kept"]

    result = placed.run_only(*options, *arguments, "-v")

    assert "schemas::number" in result.stdout.str()
    assert "::more " in result.stdout.str()
    (run,) = placed.path.glob("kept/*/run.json")
    dataset = json.loads(run.read_text("utf-8"))["run"]["dataset"]
    assert dataset["sources"] == ["schemas", "more.json"]
    assert dataset["source"] == "schemas + more.json"


@pytest.mark.parametrize(("file", "head"), [("pytest.toml", "[pytest]"), ("pyproject.toml", "[tool.pytest]")])
def test_dataset_may_be_a_string_in_toml_of_pytest(placed: Bench, file: str, head: str) -> None:
    if pytest.version_tuple < (9,):
        pytest.skip("pytest reads its own TOML from version 9 on")
    placed.write({file: f'{head}\njsbench_dataset = "schemas"\n'})

    result = placed.run_only("--jsbench-engine=scripted", "--jsbench-engine-option=answers=answers.json")

    result.assert_outcomes(passed=1)


def test_dataset_given_twice_is_one_source(placed: Bench) -> None:
    options = ["--jsbench-engine=scripted", "--jsbench-engine-option=answers=answers.json", "--jsbench-output=kept"]

    result = placed.run_only(*options, "--jsbench-dataset=schemas", "--jsbench-dataset=schemas")

    result.assert_outcomes(passed=1)
    (run,) = placed.path.glob("kept/*/run.json")
    assert json.loads(run.read_text("utf-8"))["run"]["dataset"]["source"] == "schemas"
