from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench import JudgePolicy, evaluate, open_engine
from tests.plugin.conftest import Bench

ANSWERS = {"good": '{"n": 1}', "bad": '{"n": "x"}', "prose": "no"}


@pytest.mark.parametrize("resumed", [False, True])
def test_the_same_case_gives_the_same_record_by_either_door(bench: Bench, tmp_path: Path, resumed: bool) -> None:
    for name, text in ANSWERS.items():
        bench.case(name, {"text": text, "usage": {"input_tokens": 3, "output_tokens": 2}})
    library = tmp_path / "library"
    options = ("--jsbench-output=out", "--jsbench-seed=5", "--jsbench-repeats=2", "--jsbench-extra-fields=allow")
    policy = JudgePolicy(extra_fields="allow")
    bench.run(*options)
    with open_engine("scripted", answers=str(bench.path / "answers.json"), seed=5) as engine:
        evaluate(engine, str(bench.path / "schemas"), output=library, repeats=2, policy=policy)
        if resumed:
            bench.run(*options, "--jsbench-resume=out")
            again = evaluate(
                engine, str(bench.path / "schemas"), output=library, repeats=2, policy=policy, resume=library
            )
            assert again.resumed == 6

    records = [
        [timeless(line) for line in path.read_text().splitlines()]
        for path in (max(bench.path.glob("out/*/records.jsonl")), max(library.glob("*/records.jsonl")))
    ]
    by_plugin, by_library = records
    assert by_plugin[1:] == by_library[1:]
    assert len(by_plugin) == 1 + 6
    of_plugin, of_library = by_plugin[0]["run"], by_library[0]["run"]
    assert of_library.pop("entry") == "library"
    del of_plugin["versions"]["pytest"]
    assert (of_plugin.pop("resumed_from") is None) == (of_library.pop("resumed_from") is None) == (not resumed)
    assert of_plugin == of_library


def timeless(line: str) -> Any:
    """A line without what differs from run to run: its times, its names, and how the folder was called."""
    data = json.loads(line)
    if data["type"] == "run":
        for name in ("run_id", "uuid", "started_at"):
            del data["run"][name]
        del data["run"]["dataset"]["source"]
        return data
    del data["started_at"], data["queue_s"], data["generation"]["timing"]
    return data
