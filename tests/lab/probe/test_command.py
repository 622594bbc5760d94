"""Tests of the probe against a fake HTTP server: each fault that a server can have is found and named."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jsonschema_rs
import pytest

from pytest_jsbench.cli.main import main
from pytest_jsbench.formats import load_format_schema
from pytest_jsbench.lab.probe import demo_server
from pytest_jsbench.lab.probe.demo_chat import ChatRequest, make_conforming_value
from pytest_jsbench.run.in_flight import CallsInFlight
from tests.support.enforcing_server import Enforcing, refusal, said
from tests.support.openai_wire import SECRET
from tests.support.provider import Provider, json_reply, unreachable_url

pytest.importorskip("urllib3", reason="calls to providers need the package urllib3")

#: Number of questions for each control and each mode.
CALLS = 3


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv("PROBED_KEY", SECRET)
    with Provider() as running:
        yield running


def arguments(provider: Provider, *more: str) -> list[str]:
    whom = ["--engine=openai", f"--base-url={provider.url}/v1", "--model=m", "--api-key-env=PROBED_KEY"]
    return ["probe", *whom, f"--calls={CALLS}", "--checks=none", *more]


def probed(provider: Provider, server: Enforcing, *more: str, status: int) -> dict[str, Any]:
    """Return the findings for a server from the JSON output, by mode."""
    provider.choose = server
    out = io.StringIO()
    assert main(arguments(provider, "--json", *more), out=out) == status
    found = json.loads(out.getvalue())
    jsonschema_rs.Draft202012Validator(load_format_schema("probe")).validate(found)
    assert found.keys() == load_format_schema("probe")["properties"].keys()
    assert found["enforced"] is (status == 0)
    return {name(mode): mode for mode in found["modes"]}


def name(mode: dict[str, Any]) -> str:
    reasoning = {None: "", True: " reasoning", False: " no reasoning"}[mode["reasoning"]]
    return f"{mode['response_format']} {'streamed' if mode['streaming'] else 'whole'}{reasoning}"


def findings(modes: dict[str, Any]) -> dict[str, str]:
    return {key: mode["enforcement"] for key, mode in modes.items()}


ALONE = ("--concurrency=1", "--keywords=none")
SCHEMA = ("--format=json_schema", "--engine-option=stream=false")


@pytest.mark.slow
def test_server_that_enforces_every_schema_is_reported_with_evidence(provider: Provider) -> None:
    modes = probed(provider, Enforcing(), "--concurrency=1,4", status=0)

    assert set(findings(modes).values()) == {"enforced"}
    assert len(modes) == 6
    schema = modes["json_schema streamed"]
    assert (schema["conforming"], schema["decided"]) == (7, 7)
    assert schema["sound_up_to"] == max(level["peak"] for level in schema["levels"]) <= 4
    assert schema["p_value"] == pytest.approx(1 / 120)  # 3 of 3 wrong answers in the control, among 10.
    assert {one["enforcement"] for one in schema["keywords"]} == {"enforced"}
    assert len(schema["keywords"]) > 15
    assert schema["not_asked"] == []
    assert modes["json_schema whole"]["not_asked"] == ["keywords"]
    assert modes["json_schema whole"]["keywords"] == []


@pytest.mark.parametrize(
    ("drops", "asked", "expected"),
    [
        (
            lambda question: question.streaming,
            ("--format=json_schema",),
            {"json_schema streamed": "ignored_silently", "json_schema whole": "enforced"},
        ),
        (
            lambda question: question.tool is not None,
            ("--format=json_schema,tool", "--engine-option=stream=true"),
            {"json_schema streamed": "enforced", "tool streamed": "ignored_silently"},
        ),
        (
            lambda question: question.reasoning,
            (*SCHEMA, '--reasoning={"reasoning_effort": "low"}'),
            {"json_schema whole no reasoning": "enforced", "json_schema whole reasoning": "ignored_silently"},
        ),
    ],
    ids=["streamed", "tool", "reasoning"],
)
def test_probe_finds_a_schema_dropped_in_one_mode_only(
    provider: Provider, drops: Callable[[ChatRequest], bool], asked: tuple[str, ...], expected: dict[str, str]
) -> None:
    modes = probed(provider, Enforcing(drops=drops), *ALONE, *asked, status=1)

    assert findings(modes) == expected
    example = next(mode["example"] for mode in modes.values() if mode["enforcement"] == "ignored_silently")
    assert example["answer"] == example["wanted"]
    tokens = [call.body["max_tokens"] for call in provider.asked if "max_tokens" in call.body]
    assert (tokens[-1:] > tokens[:1]) is ("json_schema whole reasoning" in expected)


@pytest.mark.parametrize(
    ("fault", "enforcement", "words"),
    [
        ({"capacity": 2}, "breaks_under_load", "breaks above 1 in flight: at 8, 2 of 8 conform"),
        # Each answer would conform for another question.
        ({"mixes_up": True}, "mixes_up", "mixes up answers above 1 in flight: at 8, 8 of 8 belong to other requests"),
    ],
)
def test_probe_finds_a_server_that_breaks_above_a_load(
    provider: Provider, fault: dict[str, Any], enforcement: str, words: str
) -> None:
    server = Enforcing(alone=3 * CALLS, together=8, **fault)

    modes = probed(provider, server, *SCHEMA, "--concurrency=1,8", "--keywords=none", status=1)

    (mode,) = modes.values()
    assert (mode["enforcement"], mode["said"], mode["sound_up_to"]) == (enforcement, words, 1)
    assert [(level["in_flight"], level["peak"]) for level in mode["levels"]] == [(1, 1), (8, 8)]


@pytest.mark.parametrize("keyword", ["pattern", "minimum", "$ref"])
def test_a_server_that_drops_schemas_with_one_keyword_is_broken_for_it(provider: Provider, keyword: str) -> None:
    server = Enforcing(drops=lambda question: f'"{keyword}"' in json.dumps(question.schema))
    asked = "--keywords=const,pattern,minimum,$ref"

    modes = probed(provider, server, *SCHEMA, "--concurrency=1", asked, status=1)

    (mode,) = modes.values()
    assert mode["enforcement"] == "broken_for_keywords"
    assert [one["keyword"] for one in mode["keywords"] if one["enforcement"] != "enforced"] == [keyword]
    assert f"broken for keyword {keyword}: " in mode["said"]


def test_keyword_broken_in_one_mode_is_probed_in_the_other_modes_too(provider: Provider) -> None:
    server = Enforcing(drops=lambda question: question.streaming and question.uses("pattern"))
    asked = ("--format=json_schema,tool", "--concurrency=1", "--keywords=const,pattern,nested")

    modes = probed(provider, server, *asked, status=1)

    found = {
        key: {one["keyword"]: one["enforcement"] == "enforced" for one in mode["keywords"]}
        for key, mode in modes.items()
    }
    whole = {"const": True, "pattern": False, "nested": True}
    assert found == {
        "json_schema streamed": whole,
        "json_schema whole": {"pattern": True},
        "tool streamed": whole,
        "tool whole": {"pattern": True},
    }
    assert findings(modes) == {key: "broken_for_keywords" if key.endswith("streamed") else "enforced" for key in found}
    assert {"const", "nested"} <= set(modes["tool whole"]["not_asked"])
    assert modes["tool whole"]["said"].endswith("1 of 1 keywords enforced")


def test_probe_finds_a_server_that_only_shows_the_schema_to_the_model(provider: Provider) -> None:
    shown = iter(range(100))
    server = Enforcing(drops=lambda question: question.schema is not None and next(shown) % 2 == 1)

    modes = probed(provider, server, *ALONE, *SCHEMA, status=1)

    assert findings(modes) == {"json_schema whole": "not_enforced"}


@pytest.mark.parametrize("role", ["user", "system"])
def test_probe_is_undecided_if_the_model_conforms_in_the_control(provider: Provider, role: str) -> None:
    def instead(question: ChatRequest) -> Any:
        content = provider.asked[-1].body["messages"][-1]["content"] if role == "user" else question.shown
        shown = content.partition("conforms to this JSON schema:\n\n")[2]
        return said(json.dumps(make_conforming_value(json.loads(shown))), question) if shown else None

    modes = probed(provider, Enforcing(instead=instead), *ALONE, *SCHEMA, status=1)

    (mode,) = modes.values()
    assert mode["enforcement"] == "undecided"
    assert mode["said"].endswith("but 3 of 3 also conform if the schema is only in a message")


def test_a_server_that_drops_large_schemas_is_broken_for_them_alone(provider: Provider) -> None:
    server = Enforcing(drops=lambda question: len(json.dumps(question.schema)) > 2_000)

    modes = probed(provider, server, *SCHEMA, "--concurrency=1", "--keywords=const,large,nested,recursive", status=1)

    (mode,) = modes.values()
    assert mode["broken_for"] == ["large"]
    assert mode["said"].startswith("broken for large schemas: otherwise 3 of 3 conform")


def test_a_server_that_opens_closed_objects_is_broken_for_that_alone(provider: Provider) -> None:
    def instead(question: ChatRequest) -> Any:
        if not question.schema:
            return None
        return said(json.dumps({**make_conforming_value(question.schema), "more": 1}), question)

    names = "--keywords=additionalProperties,minLength"
    server = Enforcing(
        instead=lambda question: instead(question) if "minLength" in json.dumps(question.schema) else None
    )

    modes = probed(provider, server, *SCHEMA, "--concurrency=1", names, status=1)

    (mode,) = modes.values()
    assert mode["broken_for"] == ["additionalProperties"]


def test_duplicate_key_shows_that_the_schema_is_not_enforced(provider: Provider) -> None:
    def instead(question: ChatRequest) -> Any:
        if not question.schema:
            return None
        text = json.dumps(make_conforming_value(question.schema))
        return said(f"{text[:-1]}, {text[1:]}", question)

    modes = probed(provider, Enforcing(instead=instead), *ALONE, *SCHEMA, status=1)

    assert findings(modes) == {"json_schema whole": "not_enforced"}


def test_an_answer_has_256_tokens_at_most_unless_more_are_asked_for(provider: Provider) -> None:
    probed(provider, Enforcing(), *ALONE, *SCHEMA, status=0)
    probed(provider, Enforcing(), *ALONE, *SCHEMA, "--max-tokens=300", status=0)

    limits = {value for asked in provider.asked for name, value in asked.body.items() if name.startswith("max_")}
    assert limits == {256, 300}


def test_rejected_mode_or_keyword_is_reported_with_the_servers_message(provider: Provider) -> None:
    words = "Invalid schema for response_format: this is not supported"
    server = Enforcing(
        instead=lambda question: refusal(words) if question.tool or "allOf" in json.dumps(question.schema) else None
    )

    modes = probed(
        provider,
        server,
        *("--concurrency=1", "--keywords=const,allOf", "--format=json_schema,tool", "--engine-option=stream=false"),
        status=1,
    )

    assert modes["tool whole"]["enforcement"] == "refused"
    assert words in modes["tool whole"]["said"]
    assert modes["json_schema whole"]["said"].endswith("1 of 2 keywords enforced; refused for allOf")


def test_duplicate_keys_in_json_object_are_shown_in_the_terminal(provider: Provider) -> None:
    server = Enforcing(instead=lambda question: said('{"a": 1, "a": 2}', question) if question.object_only else None)
    asked = ("--concurrency=1,4", "--keywords=none", "--format=json_object", "--engine-option=stream=false")

    assert findings(probed(provider, server, *asked, status=1)) == {"json_object whole": "not_enforced"}

    out = io.StringIO()
    assert main(arguments(provider, *asked), out=out) == 1
    lines = out.getvalue().splitlines()
    assert '  which is wrong        an object with the same key twice: "a"; expected each key once' in lines
    assert "  not probed            4 in flight" in lines


def test_a_broken_network_is_undecided_and_never_not_enforced(provider: Provider) -> None:
    broken = json_reply({"error": {"message": "out of order"}}, status=503)
    server = Enforcing(instead=lambda question: broken if question.streaming and question.schema else None)

    modes = probed(provider, server, *ALONE, "--format=json_schema", "--retries=0", status=1)

    assert findings(modes) == {"json_schema streamed": "undecided", "json_schema whole": "enforced"}
    assert "out of order" in modes["json_schema streamed"]["said"]
    assert "undecided: 3 without a usable answer: " in modes["json_schema streamed"]["said"], "each word once"


def test_terminal_prints_number_of_calls_first_and_escapes_answers(provider: Provider) -> None:
    hostile = "\x1b[31m\u202e" + SECRET
    provider.choose = Enforcing(instead=lambda question: said(hostile, question) if question.schema else None)
    out = io.StringIO()

    assert main(arguments(provider, *ALONE, *SCHEMA, "-v"), out=out) == 1

    lines = out.getvalue().splitlines()
    assert lines[0] == "openai m: 1 mode, 9 calls if there are no faults, up to 1 at once"
    assert lines[1] == "control: with the schema only in the prompt: 0 of 3 conform"
    assert lines[2] == "control: with the schema only in the system message: 0 of 3 conform"
    assert lines[4] == "json_schema, in one piece: ignored silently: 0 of 3 conform (95 %: 0.00 to 0.71)"
    assert "  1 in flight: 0 of 3 conform" in lines
    assert lines[-1] == "enforced in 0 of 1 modes; 9 calls"
    assert "\x1b" not in out.getvalue()
    assert SECRET not in out.getvalue()
    assert "\\x1b[31m\\u202e***" in out.getvalue()


def _interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("stop", [_interrupt, lambda: signal.raise_signal(signal.SIGTERM)], ids=["Ctrl-C", "SIGTERM"])
def test_who_stops_it_is_shown_what_is_known_and_asks_no_more(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, stop: Callable[[], None]
) -> None:
    take, taken = CallsInFlight.take, iter(range(1000))

    def stopped(self: Any, key: Any) -> Any:
        if next(taken) == 4 * CALLS + 1:  # In the second mode.
            stop()
        return take(self, key)

    monkeypatch.setattr(CallsInFlight, "take", stopped)

    modes = probed(provider, Enforcing(), *ALONE, status=1)

    words = [mode["said"] for mode in modes.values()]
    assert words[0].startswith("enforced: 3 of 3")
    assert words[1] == "undecided: interrupted; 1 of 1 conform, 2 not sent"
    assert set(words[2:]) == {"undecided: interrupted"}


@pytest.mark.parametrize(
    ("wrong", "said_of_it"),
    [
        (["--format=xml"], "found 'xml': expected one of json_object, json_schema, tool"),
        (["--concurrency=0"], "expected a whole number of at least 1"),
        (["--keywords=patern"], "jsbench probe: --keywords: found 'patern': did you mean 'pattern'? (one of"),
        (["--reasoning=low"], "expected a JSON object"),
        (["--engine-option=sk-secret-without-equals"], "expected KEY=VALUE"),
    ],
)
def test_a_wrong_option_is_usage(
    provider: Provider, capsys: pytest.CaptureFixture[str], wrong: list[str], said_of_it: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments(provider, *wrong), out=io.StringIO())

    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert said_of_it in error
    assert len(error.splitlines()) == 1
    assert "sk-secret" not in error


def test_engine_that_cannot_be_probed_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    url = unreachable_url()

    assert main(["probe", "--engine=openai", f"--base-url={url}/v1"], out=io.StringIO()) == 2
    assert main(["probe", "--engine=opnai"], out=io.StringIO()) == 2
    assert main(["probe", "--engine=openai", f"--base-url={url}/v1", "--model=m", "--engine-option=a=1"]) == 2
    assert main(["probe", "--engine=anthropic", f"--base-url={url}", "--model=m", "--format=json_object"]) == 2
    assert main(["probe", "--engine=openai", f"--base-url={url}/v1", "--model=m", "--max-cost=1"]) == 2

    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 5
    assert f"--model is required with {url}/v1 ({url}/v1/models lists the models)" in errors[0]
    assert not any("--jsbench-" in error for error in errors)


@pytest.mark.slow
def test_demo_exposes_both_faults_without_key_model_or_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("HTTP_PROXY", unreachable_url())
    monkeypatch.delenv("NO_PROXY", raising=False)
    keys: list[str | None] = []

    class NotingHandler(demo_server.DemoHandler):
        def do_POST(self) -> None:  # noqa: N802  the base class has this name
            keys.append(self.headers.get("authorization"))
            super().do_POST()

    monkeypatch.setattr(demo_server, "serve_demo", partial(demo_server.serve_demo, NotingHandler))
    out = io.StringIO()

    assert main(["probe", "--demo", "--keywords=enum,pattern,format", "--checks=format_with_tools"], out=out) == 1

    streamed, whole = (line for line in out.getvalue().splitlines() if line.startswith("json_schema, "))
    assert re.fullmatch(
        r"json_schema, streamed: mixes up answers above [1-4] in flight: at [5-8], \d of 8 belong to other requests; "
        "broken for keyword pattern",
        streamed,
    )
    assert whole.startswith("json_schema, in one piece: mixes up answers above ")
    assert whole.endswith(" belong to other requests; keyword pattern enforced")
    shown = out.getvalue()
    assert "which is wrong        it contains words of another request\n" in shown
    assert re.search(r'which is wrong        \$\.\w+: "no-\w+" does not match "\^\w+-\[0-9\]\{4\}\$"\n', shown)
    assert re.search(r"^format_with_tools  fault      drops the response format next to tools", shown, re.MULTILINE)
    assert "enforced in 0 of 2 modes; checks: 1 fault; " in shown
    assert f"planted in the demo server: {demo_server.FAULTS}\n" in shown
    assert keys
    assert set(keys) <= {None, "Bearer none"}
    assert "NO_PROXY" not in os.environ


@pytest.mark.slow
def test_demo_can_be_probed_in_other_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    asked = [
        "--response-format=tool,json_object",
        "--concurrency=1",
        "--keywords=minimum,pattern",
        "--checks=none",
        "--json",
    ]

    assert main(["probe", "--demo", *asked], out=out) == 1

    found = {name(mode): mode["enforcement"] for mode in json.loads(out.getvalue())["modes"]}
    assert found["tool streamed"] == "broken_for_keywords"
    assert found["tool whole"] == "enforced"
    assert found["json_object streamed"] == found["json_object whole"] == "enforced"


def test_demo_and_a_server_of_the_user_are_not_probed_together(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments_of_both in (["--demo", "--engine=openai"], []):
        with pytest.raises(SystemExit):
            main(["probe", *arguments_of_both])
    assert main(["probe", "--demo", "--base-url=http://127.0.0.1:9"]) == 2

    both, neither, address = (line for line in capsys.readouterr().err.splitlines() if "--demo" in line)
    assert "not allowed with" in both
    assert "one of the arguments --engine --demo is required" in neither
    assert address.endswith("--demo probes a built-in server; remove --base-url, or replace --demo with --engine")


def test_demo_server_refuses_anything_but_a_question_of_a_probe() -> None:
    with demo_server.serve_demo() as url:
        for body in (b"[]", b"{", b'{"messages": []}'):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request(f"{url}/chat/completions", data=body))
            with refused.value:
                assert refused.value.code == 400
