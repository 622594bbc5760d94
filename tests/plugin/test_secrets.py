from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engines.anthropic_wire import error_body as anthropic_error
from tests.engines.gemini_wire import error_body as gemini_error
from tests.engines.openai_wire import error_body as openai_error
from tests.engines.provider import Provider, Reply, json_reply, raw_reply, stream_reply
from tests.engines.speakers import SPEAKERS
from tests.plugin.conftest import WITHOUT_SLOW_PLUGINS, Bench

if TYPE_CHECKING:
    from collections.abc import Callable

#: of no provider's form, so that nothing but the very word can give it away
KEY = "Zq7-not-to-be-told-4411"
#: each names the key, as providers do that quote what they were sent
REPLIES: tuple[Callable[[str], Reply], ...] = (
    lambda words: json_reply(openai_error(words, code="invalid_api_key"), status=401),
    lambda words: json_reply(anthropic_error(words, "authentication_error"), status=401),
    lambda words: json_reply(openai_error(words), status=400),
    lambda words: json_reply(gemini_error(words), status=400),
    lambda words: raw_reply(words.encode(), status=502, kind="text/html"),
    lambda words: raw_reply(words.encode(), kind="application/json"),
    lambda words: raw_reply(words.encode(), kind="text/html"),
    lambda words: stream_reply(f"data: {words}\n\n"),
    lambda words: stream_reply(f'data: {{"error": {{"message": "{words}"}}}}\n\n'),
    lambda words: stream_reply(words, reset=True),
)


@pytest.mark.parametrize("engine", ["openai", "anthropic", "anthropic-bedrock", "gemini"])
def test_no_key_is_in_anything_that_is_shown_or_written(
    bench: Bench, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    speaker = next(speaker for speaker in SPEAKERS if speaker.engine == engine)
    pytest.importorskip(speaker.package, reason=f"the {engine} engine needs its package")
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    for number in range(len(REPLIES) + 1):
        bench.case(f"c{number}")
    with Provider() as provider:
        provider.replies.extend(reply(f"you sent Bearer {KEY} ({KEY!r})") for reply in REPLIES)
        provider.replies.append(speaker.good())
        result = bench.pytester.runpytest_inprocess(
            f"--jsbench-engine={engine}",
            "--jsbench-model=m",
            f"--jsbench-base-url={provider.url}",
            "--jsbench-api-key-env=MY_KEY",
            *("--jsbench-dataset=schemas", "--jsbench-retries=0", "-p", "no:randomly"),
            *WITHOUT_SLOW_PLUGINS,
            *bench.workers,
            *("--jsbench-output=out", "--junitxml=junit.xml", "--benchmark-json=benchmark.json"),
            *("-vv", "-rA", "--tb=long", "--showlocals", "--log-level=DEBUG", "--log-file=log.txt"),
        )
        assert any(KEY in str(asked.headers) for asked in provider.asked)
    result.assert_outcomes(failed=len(REPLIES) + 1)
    assert KEY not in result.stdout.str() + result.stderr.str()
    files = [path for path in bench.path.rglob("*") if path.is_file()]
    assert {"junit.xml", "benchmark.json", "log.txt", "records.jsonl", "run.json"} <= {path.name for path in files}
    assert [path.name for path in files if KEY.encode() in path.read_bytes()] == []


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(f"--jsbench-dataset=no-such-owner/{KEY}/no-such-folder", id="a dataset"),
        pytest.param(f"--jsbench-where={KEY} >", id="a condition"),
        pytest.param(f"--jsbench-prompt=no-such-prompt-{KEY}", id="a prompt"),
        pytest.param(f"--jsbench-response-format={KEY}", id="a response format"),
    ],
)
@pytest.mark.parametrize("place", ["HF_TOKEN", "base URL"])
def test_a_usage_error_that_quotes_a_secret_is_shown_without_it(
    bench: Bench, wrong: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.case("c")
    if place == "HF_TOKEN":
        monkeypatch.setenv("HF_TOKEN", KEY)
    url = f"http://me:{KEY}@127.0.0.1:9/v1" if place == "base URL" else "http://127.0.0.1:9/v1"
    result = bench.pytester.runpytest_inprocess(
        *("--jsbench-engine=openai", "--jsbench-model=m", f"--jsbench-base-url={url}", "--jsbench-dataset=schemas"),
        *(wrong, *WITHOUT_SLOW_PLUGINS),
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    shown = result.stdout.str() + result.stderr.str()
    assert "[key]" in shown
    assert KEY not in shown
