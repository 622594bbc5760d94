"""The probe against llama.cpp: its chat holds answers to their schemas, its Responses take schemas and do not."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.cli.main import main

if TYPE_CHECKING:
    from pytest_jsbench.engines.base import EngineConfig

pytest.importorskip("xllamacpp", reason="the local engine needs the package xllamacpp")


@pytest.mark.parametrize(("api", "found", "status"), [("chat", "enforced", 0), ("responses", "ignored_silently", 1)])
def test_llama_cpp_is_probed_for_real(
    local_config: EngineConfig, monkeypatch: pytest.MonkeyPatch, api: str, found: str, status: int
) -> None:
    monkeypatch.setenv("PROBED_KEY", str(local_config.api_key))
    whom = ["--engine=openai", f"--base-url={local_config.base_url}", f"--model={local_config.model}"]
    what = ["--api-key-env=PROBED_KEY", f"--engine-option=api={api}", "--engine-option=stream=true", "--temperature=0"]
    few = ["--format=json_schema", "--concurrency=1", "--keywords=none", "--calls=3", "--max-tokens=48"]
    out = io.StringIO()

    assert main(["probe", *whom, *what, *few, "--json"], out=out) == status

    data = json.loads(out.getvalue())
    (mode,) = data["modes"]
    assert mode["enforcement"] == found
    assert (mode["conforming"], mode["decided"]) == (3 if status == 0 else 0, 3)
    assert (data["control"]["conforms"], data["calls"]) == (0, 6)  # the schema alone, without enforcement
