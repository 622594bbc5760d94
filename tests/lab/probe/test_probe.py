from __future__ import annotations

import pytest

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import GenerationParams
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.registry import find
from pytest_jsbench.lab.probe.probe import documented_subset, ways_of
from pytest_jsbench.prompts import find_template
from pytest_jsbench.settings.variant import Variant


def variant(engine: str) -> Variant:
    config = EngineConfig(name=engine, model="m", base_url="http://127.0.0.1:9/v1")
    return Variant(
        factory=find(engine),
        engine=config,
        said={},
        template=find_template("schema", shots=0),
        params=GenerationParams(max_tokens=10),
        concurrency=1,
    )


def ways(engine: str, **reasoning: object) -> list[str]:
    return [str(mode) for mode in ways_of(variant(engine), reasoning=reasoning or None)]


@pytest.mark.parametrize("engine", ["anthropic", "lmstudio"])
def test_a_format_that_the_engine_does_not_know_is_left_out_with_reasoning_too(engine: str) -> None:
    expected = [
        f"{response_format}, {sent}, reasoning {reasoning}"
        for response_format in ("json_schema", "tool")
        for reasoning in ("off", "on")
        for sent in ("streamed", "in one piece")
    ]
    assert ways(engine, thinking=True) == expected


@pytest.mark.parametrize(
    ("engine", "at_home", "elsewhere"),
    [
        ("openai", "openai", None),
        ("anthropic", "anthropic", None),
        ("gemini", "gemini", None),
        ("groq", "groq", "groq"),
    ],
)
def test_a_provider_is_asked_within_its_subset_and_an_unknown_server_about_all(
    engine: str, at_home: str, elsewhere: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sdk in ("OPENAI", "ANTHROPIC", "GOOGLE_GEMINI"):
        monkeypatch.delenv(f"{sdk}_BASE_URL", raising=False)
    found = [
        documented_subset(find(engine).describe(EngineConfig(name=engine, model="m", base_url=url)))
        for url in (None, "http://127.0.0.1:9/v1")
    ]
    assert found == [at_home, elsewhere]


def test_what_asks_for_reasoning_is_refused_where_the_engine_has_no_body_to_add_it_to() -> None:
    with pytest.raises(EngineError, match="engine 'scripted' has no option 'extra_body'"):
        ways("scripted", thinking=True)
