"""An application that calls `jsbench.endpoint`, and the options and outcomes of its runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.bench import Bench
from tests.support.provider import Provider

#: An application that calls the engine, and calls it again if the answer is not valid.
APPLICATION = """
import json, urllib.error, urllib.request

def call(url, body, **headers):
    sent_headers = {"content-type": "application/json", "authorization": "Bearer the-caller-s-own-key", **headers}
    request = urllib.request.Request(url + "/chat/completions", json.dumps(body).encode(), sent_headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()

def ask(url, text, schema, **more):
    shape = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    return call(url, {"model": "m", "messages": [{"role": "user", "content": text}], "response_format": shape, **more})

def text_of(answer):
    return json.loads(answer[1])["choices"][0]["message"]["content"]
"""
#: Header of tests on how their application handles a failed call, or prose.
LOOKING = "import pytest\npytestmark = pytest.mark.jsbench(check=False)\n"


def run(bench: Bench, *args: str) -> pytest.RunResult:
    bench.write({"application.py": APPLICATION})
    return bench.run_only(*args)


def asking(provider: Provider) -> list[str]:
    return ["--jsbench-engine=openai", "--jsbench-model=m", f"--jsbench-base-url={provider.url}/v1"]


def outcomes(records: list[dict[str, Any]]) -> dict[str, str | None]:
    return {one["id"]: one["verdict"]["failure_type"] for one in records}
