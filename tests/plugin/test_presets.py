"""Test engines selected by the name of a provider: `--jsbench-engine=groq`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.bench import Bench
from tests.support.openai_wire import whole
from tests.support.provider import Provider, json_reply

pytest.importorskip("urllib3", reason="calls to a provider need the package urllib3")


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as provider:
        provider.choose = lambda _: json_reply(whole('{"n": 1}'))
        yield provider


def called(bench: Bench, provider: Provider, *args: str) -> pytest.RunResult:
    return bench.run_only(
        *("--jsbench-engine=groq", "--jsbench-model=openai/gpt-oss-20b", f"--jsbench-base-url={provider.url}/v1"),
        *("--jsbench-engine-option=schema_name=order", "--jsbench-dataset=schemas", *args),
    )


def test_provider_name_selects_its_preset_and_subset(bench: Bench, provider: Provider) -> None:
    bench.case("a", schema={"type": "object", "properties": {"n": {"type": "integer"}}})
    unique = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 2}
    bench.case("b", schema={"type": "object", "properties": {"n": unique}})
    result = called(bench, provider, "--jsbench-output=out", "--jsbench-adapt=narrow")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*, narrow:groq@*", "unsupported_schema: uniqueItems at /properties/n: *; nothing was sent"]
    )
    (asked,) = provider.asked
    assert "stream" not in asked.body
    assert asked.body["response_format"]["json_schema"]["schema"]["required"] == ["n"]
    header = bench.lines()[0]["run"]
    assert (header["engine"], header["details"]["preset"]) == ("groq", "groq@2026-11")


def test_a_run_is_not_resumed_by_a_preset_that_has_changed(bench: Bench, provider: Provider) -> None:
    bench.case("a")
    called(bench, provider, "--jsbench-output=out")
    assert called(bench, provider, "--jsbench-resume=out").ret == pytest.ExitCode.OK
    for records in bench.path.glob("out/*/records.jsonl"):
        records.write_text(records.read_text().replace('"groq@2026-11"', '"groq@2025-01"'))
    result = called(bench, provider, "--jsbench-resume=out")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(['ERROR: *"preset": "groq@2025-01"*, this run *"preset": "groq@2026-11"*'])
    assert len(provider.asked) == 1


def test_mode_unknown_to_the_provider_is_one_line_before_any_call(bench: Bench, provider: Provider) -> None:
    bench.case("a")
    result = called(bench, provider, "--jsbench-engine-option=stream=true")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *engine 'groq' does not stream json_schema: remove stream=true*"])
    assert provider.asked == []
