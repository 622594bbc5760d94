from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.generations import SAMPLING, GenerationParams, ResponseFormat
from pytest_jsbench.records.metadata import Sampling
from pytest_jsbench.run.plan import check_conflicts
from pytest_jsbench.schemas.dialects import NAMES
from pytest_jsbench.settings.option import Option
from pytest_jsbench.settings.options import BY_NAME, CALL_OPTIONS, MOST_REPEATS, OPTIONS, SAMPLING_OPTIONS
from pytest_jsbench.settings.spelling import rewritten_errors, spelled
from tests.support.packages import install

PUBLISHING = """
[project]
name = "publishing"
version = "2.1"
[project.entry-points."pytest_jsbench.publications"]
raises = "jsbench_own_publication:Raises"
odd = "jsbench_own_publication:Odd"
"""
PUBLICATIONS = """
class Raises:
    def options(): raise OSError("its file is not there")

class Odd:
    def options(): return {"temprature": "0"}
"""


@pytest.mark.parametrize(("name", "fault"), [("raises", "OSError: its file is not there"), ("odd", "KeyError: 'temp")])
def test_failed_publication_is_reported_in_one_line_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, fault: str
) -> None:
    files = {"jsbench_own_publication.py": PUBLICATIONS, "pyproject.toml": PUBLISHING}
    install(tmp_path / "site", files, monkeypatch)
    with pytest.raises(ValueError, match=rf"^publication '{name}' has no options: {fault}.*; update that package"):
        BY_NAME["preset"].of_text(name)


def test_every_dialect_can_be_the_default() -> None:
    assert BY_NAME["default_dialect"].choices == tuple(NAMES)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("tasks", ",", "expected names separated by commas, found ','"),
        ("extra_fields", "", "expected names separated by commas, found ''"),
        ("adapt", "shrink", "expected verbatim, narrow[:SUBSET] or relax[:SUBSET] (subsets: openai, "),
        ("adapt", "narrow:cohere", "expected verbatim, narrow[:SUBSET] or relax[:SUBSET] (subsets: openai, "),
        ("shots", "x", "expected a whole number of at least 0, found 'x'"),
        ("context", "0", "expected a whole number of at least 1, found '0'"),
        ("concurrency", "1.0", "expected a whole number of at least 1, found '1.0'"),
        ("temperature", "nan", "expected a number of at least 0, found 'nan'"),
        ("timeout", "inf", "expected seconds above 0, found 'inf'"),
        ("response_format", "xml", "expected one of text, json_object, json_schema, tool, found 'xml'"),
        ("batch", "x.py", "expected one of wait, leave, found 'x.py'"),
        ("sample", "0", "expected a whole number of at least 1, alone or with a seed as in 300:7, found '0'"),
        ("sample", "3:x", "expected a whole number of at least 1, alone or with a seed as in 300:7, found '3:x'"),
        ("engine_option", "sk-secret", "expected KEY=VALUE, found no ="),
        ("engine_option", "=x", "expected KEY=VALUE, found no KEY"),
        ("export", "csv", "expected NAME=PATH, such as every_eval_ever=exported, found 'csv'"),
    ],
)
def test_invalid_option_text_is_rejected_with_expectation(name: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match="expected") as refused:
        BY_NAME[name].of_text(text)

    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("temperature", 1, 1.0),
        ("seed", 0, 0),
        ("response_format", "tool", ResponseFormat.TOOL),
        ("response_format", ResponseFormat.TEXT, ResponseFormat.TEXT),
        ("record_mode", "new", "new"),
        ("base_url", "http://x", "http://x"),
    ],
)
def test_a_program_gives_values_of_their_types_and_no_texts_of_them(name: str, given: object, value: object) -> None:
    assert BY_NAME[name].of_value(given) == value
    for wrong in (None, object(), [given]):
        with pytest.raises(ValueError, match=r"^(a |one of )"):
            BY_NAME[name].of_value(wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"instances": "builtin", "dataset": "x"},
            "--jsbench-instances has its own schemas; remove --jsbench-da",
        ),
        (
            {"instances": "builtin", "record": "x"},
            "--jsbench-instances calls no model, so there is nothing to record; ",
        ),
        (
            {"instances": "builtin", "replay": "x"},
            "--jsbench-instances calls no model, so there is nothing to replay; ",
        ),
        (
            {"redact": True, "record": "x"},
            "--jsbench-redact writes no answers, but a recording contains answers; remove",
        ),
        ({"redact": True, "batch": "wait"}, "--jsbench-redact writes no answers, but a batch keeps answers in a file "),
        (
            {"record_mode": "new", "record": "x", "batch": "wait"},
            "--jsbench-record-mode=new calls only for missing answers",
        ),
    ],
)
def test_conflicting_options_are_rejected(options: dict[str, Any], message: str) -> None:
    nothing = dict.fromkeys(BY_NAME)

    with pytest.raises(JSBenchError) as refused:
        check_conflicts({**nothing, **options})

    assert str(refused.value).startswith(message)
    assert refused.value.option in options
    for name in options:
        check_conflicts({**nothing, name: options[name]})
    check_conflicts({**nothing, "redact": False, "record": "x", "record_mode": "all"})


def test_message_names_options_in_the_form_of_each_entry_point() -> None:
    def spell(option: Option[Any]) -> str:
        return f"<{option.name}>"

    assert [spelled(f"a {option.flag}=x", spell) for option in OPTIONS] == [f"a <{name}>=x" for name in BY_NAME]
    for unchanged in ("pytest --jsbench-shard", "--jsbench-sharding", "--jsbench-shard-size", "--jsbench"):
        assert spelled(unchanged, spell) == unchanged
    with (
        pytest.raises(JSBenchError, match=r"^add <gate>, or --jsbench-gates$"),
        rewritten_errors(lambda text: spelled(text, spell)),
    ):
        raise JSBenchError("add --jsbench-gate, or --jsbench-gates")


def test_repeats_are_bounded() -> None:
    read = BY_NAME["repeats"]

    assert read.of_text("10000") == MOST_REPEATS
    with pytest.raises(ValueError, match="a whole number from 1 to 10,000"):
        read.of_text("10001")


def test_options_of_a_call_are_the_parameters_that_an_engine_gets_and_a_run_records() -> None:
    assert set(GenerationParams.__struct_fields__) == set(CALL_OPTIONS) == set(Sampling.__annotations__)
    assert set(SAMPLING) == set(SAMPLING_OPTIONS)


@pytest.mark.slow
def test_additional_option_reaches_every_entry_point_records_documentation_and_comparison(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.additional_option", str(tmp_path)]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])

    found = json.loads((tmp_path / "found.json").read_text())

    answered = {name: runs for name, runs in found.items() if isinstance(runs, list)}
    assert answered == {
        "command line": [["", 2, '{"top_k": 2}']],
        "ini": [["", 3, '{"top_k": 3}']],
        "TOML": [["first", 6, '{"top_k": 6}'], ["second", 7, '{"top_k": 7}']],
        "several values": [["top-k-8", 8, '{"top_k": 8}'], ["top-k-9", 9, '{"top_k": 9}']],
        "marker": [["", 2, '{"top_k": 4}', '{"top_k": 5}']],
        "keyword": [["", 1, '{"top_k": 1}']],
    }
    assert found["options"] == {"haste": 3}
    assert found["invalid"].startswith("ERROR: --jsbench-top-k: expected a whole number of at least 1, found 'none'")
    assert "--jsbench-top-k=N" in found["help"]
    assert "the same as --jsbench-top-k" in found["help"]
    assert "### `--jsbench-top-k`\n\n`--jsbench-top-k N`: Number of the likeliest tokens" in found["docs"]
    compared = [line.split() for line in found["compare"].splitlines()]
    assert ["top_k", "answers", "2", "1"] in compared
    assert ["haste", "times", "3", "default"] in compared
