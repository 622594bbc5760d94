from __future__ import annotations

import json

import pytest

from pytest_jsbench.engines.presets import PRESET_NAMES
from pytest_jsbench.engines.providers.openai import DEFAULT_MODEL
from pytest_jsbench.engines.registry import names
from tests.support.commands import failed, shown


def test_engines_lists_engines_and_presets_in_eighty_columns() -> None:
    text = shown("engines")

    assert {line.partition(" ")[0] for line in text.splitlines()} >= {*names(), "Engine", "Preset"}
    assert max(map(len, text.split("\n\n")[0].splitlines())) <= 80


def test_an_engine_is_shown_with_its_options() -> None:
    assert shown("engines", "scripted") == "scripted: answers\n"
    assert shown("engines", "openai").endswith(f"\n  default model: {DEFAULT_MODEL}\n")


def test_as_json_nothing_is_left_out() -> None:
    data = json.loads(shown("engines", "--json"))
    assert data["presets"].keys() == PRESET_NAMES
    assert data["engines"].keys() == set(names()) - PRESET_NAMES
    assert data["presets"]["mistral"]["seed_field"] == "random_seed"
    assert data["presets"]["mistral"]["sources"]
    assert "formats" in data["engines"]["openai"]
    assert data["default_models"].keys() >= {"anthropic", "gemini", "local", "openai"}


def test_unknown_engine_is_one_line_with_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown engine 'grok': did you mean 'groq'?" in failed(capsys, "engines", "grok")
