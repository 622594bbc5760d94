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


TELLING = """
import os, pytest

KEY = os.environ["MY_KEY"]

def test_it_checks(jsbench):
    jsbench.check("{}", schema={"type": "object"})

def test_it_is_expected_to_fail():
    pytest.xfail(f"refused {KEY}")

@pytest.mark.xfail(reason=f"refused {KEY}")
def test_it_is_marked():
    assert False

@pytest.mark.xfail(reason=f"refused {KEY}", strict=True)
def test_it_passes_though_it_is_marked():
    pass

def test_it_is_skipped():
    pytest.skip(f"refused {KEY}")

def test_it_has_properties(record_property, record_testsuite_property, record_xml_attribute):
    record_property("header", f"Bearer {KEY}")
    record_property(KEY, {"header": [KEY]})
    record_testsuite_property("header", KEY)
    record_xml_attribute("header", KEY)
    record_property("number", 5)

def test_it_fails_in_parts(subtests):
    with subtests.test("part"):
        pytest.xfail(f"refused {KEY}")
    with subtests.test("part"):
        assert KEY == ""
"""


@pytest.mark.parametrize("broken", ["raise RuntimeError(KEY)", "pytest.skip(KEY, allow_module_level=True)"])
def test_a_key_in_a_reason_or_a_property_of_a_test_is_hidden(
    bench: Bench, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    bench.write({"test_telling.py": TELLING, "test_broken.py": TELLING.partition("def")[0] + broken})

    result = bench.pytester.runpytest_inprocess(
        *("--jsbench-engine=openai", "--jsbench-model=m", "--jsbench-api-key-env=MY_KEY", "-p", "no:randomly"),
        *("--jsbench-base-url=http://127.0.0.1:9/v1", "--jsbench-output=out", "--junitxml=junit.xml", "-rA"),
        *(
            *WITHOUT_SLOW_PLUGINS,
            *bench.workers,
            "-W",
            "ignore",
            "--continue-on-collection-errors",
            "test_telling.py",
            "test_broken.py",
        ),
    )

    result.stdout.fnmatch_lines(["XFAIL *refused ?key?*"])
    assert KEY not in result.stdout.str() + result.stderr.str()
    written = [path for path in bench.path.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    assert [path.name for path in written if KEY.encode() in path.read_bytes()] == []
    report = (bench.path / "junit.xml").read_text()
    assert '"header" value="Bearer [key]"' in report
    assert '"number" value="5"' in report
