from __future__ import annotations

import io
import json

import pytest

from pytest_jsbench.cli.main import main
from pytest_jsbench.engines.presets import PRESET_NAMES
from pytest_jsbench.engines.registry import names


def shown(*arguments: str) -> str:
    out = io.StringIO()
    assert main(["engines", *arguments], out=out) == 0
    return out.getvalue()


def test_every_engine_and_every_preset_has_a_row() -> None:
    first = {line.partition(" ")[0] for line in shown().splitlines()}
    assert first >= {*names(), "Engine", "Preset"}


def test_the_table_of_engines_is_within_eighty_columns() -> None:
    engines, *_ = shown().split("\n\n")

    assert max(map(len, engines.splitlines())) <= 80


def test_a_preset_is_shown_with_all_that_is_known_of_it() -> None:
    text = shown("groq")
    assert text.startswith("groq: Groq, as of 2026-11\n  base_url: https://api.groq.com/openai/v1\n")
    assert "  unstreamed: json_schema, json_object\n" in text
    assert "  ! strict with few models only" in text
    assert "mistral" not in text


def test_an_engine_is_shown_with_its_options() -> None:
    assert shown("scripted") == "scripted: answers\n"


def test_as_json_nothing_is_left_out() -> None:
    data = json.loads(shown("--json"))
    assert data["presets"].keys() == PRESET_NAMES
    assert data["engines"].keys() == set(names()) - PRESET_NAMES
    assert data["presets"]["mistral"]["seed_field"] == "random_seed"
    assert data["presets"]["mistral"]["sources"]
    assert "formats" in data["engines"]["openai"]


def test_a_name_that_nobody_has_is_one_line_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["engines", "grok"]) == 2
    assert "unknown engine 'grok': did you mean 'groq'?" in capsys.readouterr().err
