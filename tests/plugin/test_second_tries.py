"""Second tries of wrong answers in whole runs: they change no verdict, and are written, resumed and replayed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.bench import Bench

REPAIRABLE = "--jsbench-engine-option=answers=answering:repairable"
OWN = """
import pytest
NUMBER = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "required": ["n"]}

@pytest.mark.jsbench(schema=NUMBER, prompt="one")
def test_last(jsbench):
    answer = jsbench.generate(repairs=2)
    assert answer.instance == {"n": 1}
    assert answer.verdict.passed

@pytest.mark.jsbench(schema=NUMBER, prompt="one")
def test_wrong(jsbench):
    jsbench.generate(repairs="1:blind")
"""


@pytest.fixture
def five(bench: Bench) -> Bench:
    for name in ("right", "quick", "slow", "never", "cut"):
        bench.case(name)
    return bench


def metrics_of(bench: Bench, folder: str) -> dict[str, Any]:
    metrics: dict[str, Any] = json.loads((bench.run_in(folder) / "run.json").read_text())["metrics"]
    return metrics


def calls_of(bench: Bench) -> list[str]:
    path = bench.path / "calls.txt"
    calls = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return sorted(calls)


def ends_of(bench: Bench, folder: str) -> dict[str, list[str | None]]:
    """Return the failure types of the first answer and of each try, by case."""
    return {
        record["id"]: [
            record["verdict"]["failure_type"],
            *(each["verdict"]["failure_type"] for each in record.get("repairs", {"tries": []})["tries"]),
        ]
        for record in bench.records(folder)
    }


def test_first_answer_decides_and_tries_are_figures_of_their_own(five: Bench) -> None:
    result = five.run(REPAIRABLE, "--jsbench-repairs=2", "--jsbench-output=out", "--jsbench-gate=pass_after.2>=0.8")

    metrics = metrics_of(five, "out")
    assert ends_of(five, "out") == {
        "right": [None],
        "quick": ["schema_violation", None],
        "slow": ["schema_violation", "schema_violation", None],
        "never": ["schema_violation"] * 3,
        "cut": ["syntax_error", None],
    }
    assert (metrics["pass_rate"], metrics["pass_after"]["1"], metrics["pass_after"]["2"]) == (0.2, 0.6, 0.8)
    assert (metrics["repair_rate"], metrics["repair_rates"]["schema_violation"]) == (0.75, pytest.approx(2 / 3))
    assert (metrics["repair_tries"], metrics["repairs_open"], metrics["output_tokens"]) == (6, 0, 25)
    assert (metrics["repair_input_tokens"], metrics["repair_output_tokens"]) == (4 * 30 + 2 * 50, 30)
    assert metrics["repair_time_p50"] == 0.5
    result.stdout.fnmatch_lines(
        ["repairs *0.200 after 0, 0.600 after 1,*", "*repaired 3/4 = 0.750 of the wrong answers*"]
    )


def test_follow_up_has_the_findings_or_not(five: Bench) -> None:
    messages = {}
    for follow_up in ("errors", "blind"):
        five.run(REPAIRABLE, f"--jsbench-repairs=1:{follow_up}", f"--jsbench-output={follow_up}")
        (quick,) = (each for each in five.records(follow_up) if each["id"] == "quick")
        messages[follow_up] = quick["repairs"]["tries"][0]["message"]

    assert "- $.n: -1 is less than the minimum of 0" in messages["errors"]
    assert "minimum" not in messages["blind"]
    assert ends_of(five, "blind")["quick"] == ["schema_violation", "schema_violation"]


def test_resumed_run_makes_only_the_missing_tries(five: Bench) -> None:
    (five.path / "down").touch()
    five.run(REPAIRABLE, "--jsbench-repairs=1", "--jsbench-output=out")
    first = (ends_of(five, "out")["cut"], metrics_of(five, "out")["repairs_open"])
    calls_of(five)
    (five.path / "down").unlink()

    five.run(REPAIRABLE, "--jsbench-repairs=2", "--jsbench-resume=out", "--jsbench-output=again")

    assert first == (["syntax_error", "api_error"], 1)
    assert calls_of(five) == ["cut 1", "never 2", "slow 2"]
    assert ends_of(five, "again")["cut"] == ["syntax_error", None]
    assert metrics_of(five, "again")["pass_after"]["2"] == 0.8


def test_other_follow_ups_start_with_the_same_first_answers(five: Bench) -> None:
    five.run(REPAIRABLE, "--jsbench-repairs=2", "--jsbench-output=errors")
    calls_of(five)

    five.run(REPAIRABLE, "--jsbench-repairs=2:blind", "--jsbench-resume=errors", "--jsbench-output=blind")

    assert calls_of(five) == ["cut 1", "never 1", "never 2", "quick 1", "quick 2", "slow 1", "slow 2"]
    after = metrics_of(five, "blind")["pass_after"]
    assert (after["1"], after["2"]) == (0.4, 0.6)


def test_recordings_and_runs_replay_the_tries(five: Bench) -> None:
    five.run(REPAIRABLE, "--jsbench-repairs=2", "--jsbench-record=answers", "--jsbench-output=out")
    calls_of(five)
    for number, source in enumerate(("answers", str(five.run_in("out").relative_to(five.path)))):
        replayed = ("--jsbench-dataset=schemas", f"--jsbench-replay={source}", "--jsbench-repairs=2")
        five.run_only(*replayed, f"--jsbench-output=replay{number}")

        assert ends_of(five, f"replay{number}") == ends_of(five, "out")
    assert calls_of(five) == []


def test_redacted_run_has_no_text_of_the_tries(five: Bench) -> None:
    five.run(REPAIRABLE, "--jsbench-repairs=2", "--jsbench-redact", "--jsbench-output=out")

    lines = (five.run_in("out") / "records.jsonl").read_text()
    assert metrics_of(five, "out")["pass_after"]["2"] == 0.8
    assert "minimum of 0" not in lines
    assert '{\\"n\\"' not in lines


def test_run_without_the_option_has_nothing_of_it(five: Bench) -> None:
    result = five.run(REPAIRABLE, "--jsbench-output=out")

    text = (five.run_in("out") / "records.jsonl").read_text()
    assert "repairs" not in text
    assert "repairs" not in result.stdout.str()
    assert metrics_of(five, "out")["pass_after"] == {}


@pytest.mark.parametrize("value", ["11", "x", "2:", "2:loud", "-1"])
def test_wrong_values_are_rejected_with_what_is_expected(bench: Bench, value: str) -> None:
    bench.case("right")

    result = bench.run(REPAIRABLE, f"--jsbench-repairs={value}")

    result.stderr.fnmatch_lines(["*--jsbench-repairs*expected a whole number from 0 to 10, alone or as in 2:blind*"])


def test_own_test_gets_the_last_answer_and_metrics_the_first(bench: Bench) -> None:
    (bench.path / "test_own.py").write_text(OWN)
    source = "--jsbench-engine-option=answers=answering:repaired_once"

    result = bench.run_only("--jsbench-engine=scripted", source, "--jsbench-output=out", "test_own.py")

    result.assert_outcomes(passed=1, failed=1)
    metrics = metrics_of(bench, "out")
    assert (metrics["pass_rate"], metrics["pass_after"]["1"], metrics["tests_passed"]) == (0.0, 0.5, 0.5)


def test_cost_limit_stops_the_tries_and_keeps_the_first_answer(bench: Bench) -> None:
    pytest.importorskip("genai_prices", reason="needs genai-prices")
    bench.case("one")
    limits = ("--jsbench-max-cost=0.0008", "--jsbench-max-tokens=500", "--jsbench-repairs=5")

    bench.run_only(
        "--jsbench-engine=answering:WrongAtAPrice", "--jsbench-dataset=schemas", *limits, "--jsbench-output=out"
    )

    metrics = metrics_of(bench, "out")
    assert calls_of(bench) == ["1", "3"]
    assert ends_of(bench, "out") == {"one": ["schema_violation", "schema_violation"]}
    assert (metrics["repairs_open"], metrics["missing"]) == (1, 0)
    assert (metrics["cost"], metrics["repair_cost"]) == (pytest.approx(0.000327), pytest.approx(0.000327))
