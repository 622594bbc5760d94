from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_jsbench.records import journal
from tests.support import examples
from tests.support.commands import failed, shown


def test_plan_without_a_run_has_no_cost() -> None:
    data = json.loads(shown("plan", "--cases", "1000", "--json"))
    assert (data["calls"], data["cost"]) == (1000, None)
    assert 0.9 < data["power"] < 1
    assert "1 call: 1 case, 1 attempt each" in shown("plan", "--cases", "1")


@pytest.mark.parametrize(
    "arguments", [("--rate", "2"), ("--rate", "1.5"), ("--cases", "0"), ("--difference", "0"), ("--power", "nan")]
)
def test_what_no_run_can_have_is_refused_in_one_line(
    arguments: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    error = failed(capsys, "plan", *arguments)

    assert f"{arguments[0]}: expected a number from" in error
    assert error.endswith(f", found {arguments[1]}\n")


def test_a_share_is_told_in_one_way() -> None:
    text = " ".join(shown("plan", "--rate", "1", "--difference", "0.0001", "--power", "0.999").split())

    assert "is detected with 0 % power" in text
    assert "for 99.9 % power" in text
    assert ": 0.964 to 1.000" in text


def test_a_plan_says_what_could_not_be_read_of_its_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = examples.run(examples.record("a"), examples.record("b"))
    journal.write(tmp_path / "records.jsonl", records.metadata, records.records)
    with (tmp_path / "records.jsonl").open("a") as file:
        file.write('{"torn')

    shown("plan", tmp_path)

    assert "records.jsonl:4: " in capsys.readouterr().err


def test_a_plan_takes_from_its_run_how_alike_attempts_at_a_case_end(tmp_path: Path) -> None:
    metadata = examples.variants(cold={"params": {"temperature": 0}}, warm={"params": {"temperature": 1}})
    metadata = examples.replace(metadata, repeats=2)
    records = [
        examples.replace(
            examples.record(f"c{at}", verdict=examples.VIOLATED if passes else examples.PASSED), variant=name, repeat=k
        )
        for at in range(8)
        for name in ("cold", "warm")
        for k, passes in enumerate((at % 2, at % 4 // 2 if name == "warm" else at % 2))
    ]
    found = examples.run_of_variants(metadata, *records)
    journal.write(tmp_path / "records.jsonl", found.metadata, found.records)

    text = shown("plan", tmp_path, "--repeats", "3")

    assert "correlation between attempts at a case: 0.52, estimated from the run" in text
    assert "at temperature 0 (variants: cold), attempts at a case are identical" in text
    assert ", assumed" in shown("plan", "--repeats", "3")
    assert json.loads(shown("plan", tmp_path, "--correlation", "1", "--json"))["correlation"] == 1
