from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from tests.support.commands import failed, of_variants, run, shown


def test_a_run_is_added_once_and_shown_in_each_form(tmp_path: Path) -> None:
    path, one = tmp_path / "h.jsonl", run(tmp_path / "run.json", "flash", 18)

    assert shown("history", "add", one, "--file", path) == (
        f"{path}: added a line for scripted, flash, json_schema: 20261121T100000Z-scripted-m\n"
    )
    assert "already has 20261121T100000Z-scripted-m: nothing added" in shown("history", "add", "--file", path, one)

    terminal, markdown = shown("history", "--file", path), shown("history", "--file", path, "--markdown")
    assert "0.90 (.68-.99)" in terminal
    assert "### `scripted, flash, json_schema`" in markdown
    assert "\n\n\n" not in terminal + markdown
    assert "since:" not in terminal + markdown
    (series,) = json.loads(shown("history", "--file", path, "--json"))["series"]
    assert (len(series["lines"]), series["since"]) == (1, [])


def test_runs_that_are_added_together_are_named_and_each_is_added_once(tmp_path: Path) -> None:
    path, folders = tmp_path / "h.jsonl", [of_variants(tmp_path / f"run{at}", gpt="pp") for at in (1, 2)]

    text = shown("history", "add", *folders, folders[0], "--file", path, "--label", "nightly")

    lines = [f"{path}: added a line for nightly gpt: run{at}, variant gpt" for at in (1, 2)]
    assert text.splitlines() == lines
    assert len(path.read_text().splitlines()) == 2


def test_the_table_is_within_eighty_columns(tmp_path: Path) -> None:
    path, one = tmp_path / "h.jsonl", run(tmp_path / "run.json", "a-model-of-a-long-name-" * 5, 18, cost=12.5)
    shown("history", "add", one, "--file", path)

    assert max(map(len, shown("history", "--file", path).splitlines())) <= 80


def test_damaged_line_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, one = tmp_path / "h.jsonl", run(tmp_path / "run.json", "flash", 18)
    shown("history", "add", one, "--file", path)
    path.write_text(path.read_text() + "{\n")

    shown("history", "--file", path)

    assert capsys.readouterr().err.startswith(f"jsbench: warning: {path}:2: not JSON")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs the extra plot")
def test_a_history_is_drawn_and_an_unknown_metric_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, one = tmp_path / "h.jsonl", run(tmp_path / "run.json", "flash", 18)
    shown("history", "add", one, "--file", path)

    shown("history", "--file", path, "--plot", tmp_path / "h.png")

    assert (tmp_path / "h.png").read_bytes().startswith(b"\x89PNG")
    arguments = ("history", "--file", path, "--plot", tmp_path / "x.png", "--metric", "pas_rate")
    assert "no metric 'pas_rate' in any line of the history: did you mean 'pass_rate'?" in failed(capsys, *arguments)


def test_what_cannot_be_shown_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, one = tmp_path / "h.jsonl", run(tmp_path / "run.json", "flash", 18)
    shown("history", "add", one, "--file", path, "--label", "nightly")

    assert "--file is missing: add the history file, such as" in failed(capsys, "history")
    missing, empty = tmp_path / "none.jsonl", tmp_path / "empty.jsonl"
    empty.touch()
    for file, problem in ((missing, "no such file"), (empty, "the file has no readable line")):
        message = f"jsbench: {file}: {problem}; jsbench history add RUN --file {file} adds a run\n"
        assert failed(capsys, "history", "--file", file) == message
    assert "--metric affects only a plot: add --plot" in failed(capsys, "history", "--file", path, "--metric=tgt_p50")
    error = failed(capsys, "history", "--file", one)
    assert error.startswith(f"jsbench: {one}:1: not JSON")
    assert error.endswith("; expected the lines that `jsbench history add` writes\n")
    assert "no run with the label 'other'" in failed(capsys, "history", "--file", path, "--label", "other")
    assert "cannot write" in failed(capsys, "history", "add", one, "--file", tmp_path / "no" / "h.jsonl")


def test_a_run_with_variants_has_a_line_and_a_table_for_each(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    for number, ends in enumerate(("pppppp", "vvvvvv")):
        one = of_variants(tmp_path / f"run{number}", gpt="pppppp", mini=ends)
        said = shown("history", "add", one, "--file", path, "--label", "nightly").splitlines()
        assert said == [
            f"{path}: added a line for nightly {name}: run{number}, variant {name}" for name in ("gpt", "mini")
        ]

    found = json.loads(shown("history", "--file", path, "--json"))["series"]

    since = {one["label"]: one["since"][0] for one in found}
    assert {label: one["difference"] for label, one in since.items()} == {"nightly gpt": 0.0, "nightly mini": -1.0}
    assert since["nightly mini"]["p_value_adjusted"] == pytest.approx(0.0625)


def test_runs_of_one_minute_are_told_apart_by_their_second(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    for at, ends in (("00", "pppppp"), ("07", "vvvvvv")):
        folder = of_variants(tmp_path / f"run{at}", gpt=ends)
        written = folder / "run.json"
        written.write_text(re.sub(r'("started_at": "[^"]*?:\d\d:)\d\d', rf"\g<1>{at}", written.read_text()))
        shown("history", "add", folder, "--file", path)

    said = shown("history", "--file", path)

    assert re.findall(r"^\d{8}T\d{4}(\d\d) ", said, re.MULTILINE) == ["00", "07"]
    assert re.search(r"newest +since \d{8}T\d{4}00: 6 fewer", said)
    assert max(map(len, said.splitlines())) <= 80
