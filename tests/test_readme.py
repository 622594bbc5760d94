"""What the README shows is what the code does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench import Completion, EngineConfig
from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.plugin.options.declared import OPTIONS
from tests.engines.asking import request

README = Path(__file__).parents[1] / "README.md"


@pytest.fixture(scope="module")
def text() -> str:
    return README.read_text("utf-8")


def test_every_option_in_it_exists(text: str) -> None:
    assert set(re.findall(r"--jsbench-[a-z-]+", text)) <= {option.flag for option in OPTIONS}


def test_the_engine_that_it_shows_is_one(text: str) -> None:
    (code,) = [code for code in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL) if "class Echo" in code]
    namespace: dict[str, Any] = {"__name__": "readme"}
    exec(compile(code, str(README), "exec"), namespace)
    engine = namespace["Echo"](EngineConfig(name="readme:Echo"))
    schema = {"type": "object", "examples": [json.dumps({"a": 1})]}
    answer = engine.generate(request(schema))
    engine.close()
    assert isinstance(answer, Completion)
    assert (answer.text, engine.info.response_format) == ('{"a": 1}', ResponseFormat.TEXT)
