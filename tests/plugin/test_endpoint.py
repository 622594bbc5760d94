"""Test applications that call the engine themselves, through `jsbench.endpoint`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from pytest_jsbench.records.records import MissingReason
from pytest_jsbench.run.attempts import Runner
from pytest_jsbench.run.limits import Refused
from tests.support.applications import APPLICATION, LOOKING, asking, outcomes, run
from tests.support.bench import NUMBER, Bench, with_workers
from tests.support.openai_wire import SECRET, chunk, error_body, usage_chunk, whole
from tests.support.provider import DONE, Asked, Provider, Reply, json_reply, raw_reply, stream_reply

pytest.importorskip("openai", reason="needs the package openai")

TESTS = f"""
import asyncio
import pytest
from application import ask, call, text_of

NUMBER = {NUMBER!r}

def test_it_asks(jsbench):
    assert text_of(ask(jsbench.endpoint.openai_url, 'echo {{"n": 1}}', NUMBER)) == '{{"n": 1}}'
    (answer,) = jsbench.endpoint.answers
    assert answer.instance == {{"n": 1}}
    assert (answer.usage.input_tokens, answer.timing.tgt > 0) == (20, True)

@pytest.mark.jsbench(check=False)
def test_it_asks_again(jsbench):
    url = jsbench.endpoint.openai_url
    ask(url, 'echo {{"n": -1}}', NUMBER)
    ask(url, 'echo {{"n": 2}}', NUMBER)
    assert [answer.verdict.passed for answer in jsbench.endpoint.answers] == [False, True]

def test_it_streams(jsbench):
    status, body = ask(jsbench.endpoint.openai_url, 'echo {{"n": 3}}', NUMBER, stream=True)
    assert body.endswith("data: [DONE]\\n\\n")
    (answer,) = jsbench.endpoint.answers
    assert (answer.text, answer.timing.ttft > 0) == ('{{"n": 3}}', True)

def test_it_asks_freely(jsbench):
    body = {{"model": "other", "messages": [{{"role": "user", "content": "echo hello"}}]}}
    assert text_of(call(jsbench.endpoint.openai_url, body)) == "hello"
    assert jsbench.endpoint.answers == ()

@pytest.mark.jsbench(schema={{**NUMBER, "required": ["n", "m"]}}, check=False)
def test_its_contract_is_stricter_than_what_it_sends(jsbench):
    ask(jsbench.endpoint.openai_url, 'echo {{"n": 4}}', NUMBER)
    (answer,) = jsbench.endpoint.answers
    assert answer.verdict.keyword == "required"

def test_it_asks_several_things_at_once(jsbench):
    async def asked():
        url = jsbench.endpoint.openai_url
        each = (asyncio.to_thread(ask, url, f'echo {{{{"n": {{n}}}}}}', NUMBER) for n in (5, 6, 7))
        return await asyncio.gather(*each)
    assert [text_of(one) for one in asyncio.run(asked())] == ['{{"n": 5}}', '{{"n": 6}}', '{{"n": 7}}']
    assert len(jsbench.endpoint.answers) == 3

@pytest.mark.jsbench(repeats=3)
def test_its_repeats_ask_for_themselves(jsbench):
    ask(jsbench.endpoint.openai_url, 'echo {{"n": 8}}', NUMBER)
    (answer,) = jsbench.endpoint.answers
    assert answer.verdict.passed
"""
KEYS = """
from application import call

def test_it_sends_keys_of_others(jsbench):
    mcp = {"type": "mcp", "server_label": "x", "headers": {"X-Whose": "of-the-one-server"}}
    body = {"model": "m", "messages": [{"role": "user", "content": "echo hello"}], "tools": [mcp]}
    body |= {"api_key": "of-the-other", "authorization": "of-the-others", "note": "sk-of-a-third-one", "n": 1}
    status, _ = call(jsbench.endpoint.openai_url, body)
    assert status == 200
"""
ENSEMBLE = """
import application

def ask(jsbench, **how):
    return application.ask(jsbench.endpoint.openai_url, "who", {"type": "object"}, **how)

def test_it_asks_several_the_same(jsbench, pytestconfig):
    order = [{"model": "a"}, {"model": "b"}, {"model": "a", "stream": True}]
    if pytestconfig.getoption("jsbench_replay"):  # as where they are asked at the same time
        order.reverse()
    for how in order:
        status, body = ask(jsbench, **how)
        assert (status, "data: " in body, 'I am ' + how["model"] in body) == (200, "stream" in how, True), body
"""
BROKEN = """
from application import ask

def test_it_is_refused(jsbench):
    status, body = ask(jsbench.endpoint.openai_url, "refuse", {"type": "object"})
    assert (status, "slow down" in body) == (429, True)
    assert jsbench.endpoint.answers[0].verdict.reason == "rate_limited"

@pytest.mark.jsbench(timeout=0.3)
def test_it_waits(jsbench):
    assert ask(jsbench.endpoint.openai_url, "wait", {"type": "object"})[0] == 504
"""


def echo(asked: Asked) -> Reply:
    """Answer with the text after `echo ` in the last message."""
    text = asked.body["messages"][-1]["content"]
    if text == "wait":
        return Reply(pieces=(), hang=True)
    if text == "refuse":
        return json_reply(error_body("slow down"), status=429, headers={"retry-after": "0"})
    text = text.removeprefix("echo ")
    if asked.body.get("stream"):
        return stream_reply(*(chunk(letter) for letter in text), chunk(finish="stop"), usage_chunk(), DONE)
    return json_reply(whole(text))


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with Provider() as provider:
        provider.choose = echo
        yield provider


@pytest.mark.slow
@with_workers
def test_application_calls_are_judged_recorded_and_replayed(bench: Bench, provider: Provider) -> None:
    bench.write({"test_one.py": TESTS})

    result = run(bench, *asking(provider), "--jsbench-record=kept", "--jsbench-output=out")

    result.assert_outcomes(passed=7)
    made = {
        "test_it_asks": None,
        "test_it_asks_again": "schema_violation",
        "test_it_asks_again@2": None,
        "test_it_streams": None,
        "test_it_asks_freely": "invalid_schema",
        "test_its_contract_is_stricter_than_what_it_sends": "schema_violation",
        "test_it_asks_several_things_at_once": None,
        "test_it_asks_several_things_at_once@2": None,
        "test_it_asks_several_things_at_once@3": None,
        "test_its_repeats_ask_for_themselves": None,
    }
    records = bench.records()
    assert outcomes(records) == made
    assert [one["repeat"] for one in records].count(2) == 1
    (free,) = (one for one in records if one["id"] == "test_it_asks_freely")
    assert (free["verdict"]["reason"], free["answered_by"]["model"]) == ("no_schema", "other")
    result.stdout.fnmatch_lines(
        ["pass rate  9/11*", "tokens     240 in*", "excluded   1 answer to an application's call without a schema"]
    )
    assert len(provider.asked) == len(made) + 2
    assert {asked.headers["authorization"] for asked in provider.asked} == {f"Bearer {SECRET}"}
    written = [path for path in bench.path.rglob("*") if path.is_file() and path.suffix in (".json", ".jsonl")]
    assert len(written) > len(made)
    assert not any(secret in path.read_text() for path in written for secret in (SECRET, "the-caller-s-own-key"))

    provider.asked.clear()
    again = run(bench, "--jsbench-replay=kept", "--jsbench-output=again")

    again.assert_outcomes(passed=7)
    assert outcomes(bench.records("again")) == made
    assert provider.asked == []
    assert [one.get("answered_by") for one in bench.records("again")] == [None] * (len(made) + 2)
    assert "unasked" not in again.stdout.str()
    assert "not asked again" not in again.stdout.str()


def test_same_question_to_several_models_has_an_answer_each(bench: Bench, provider: Provider) -> None:
    def named(asked: Asked) -> Reply:
        text = f"I am {asked.body['model']}"
        return stream_reply(chunk(text, finish="stop"), DONE) if asked.body.get("stream") else json_reply(whole(text))

    provider.choose = named
    bench.write({"test_one.py": LOOKING + ENSEMBLE})

    run(bench, *asking(provider), "--jsbench-record=kept", "test_one.py").assert_outcomes(passed=1)
    again = run(bench, "--jsbench-replay=kept", "test_one.py")

    again.assert_outcomes(passed=1)
    assert "other settings" not in again.stdout.str()


@pytest.mark.slow
def test_unrecorded_call_is_refused_and_mode_new_calls_only_that(bench: Bench, provider: Provider) -> None:
    bench.write({"test_one.py": TESTS})
    run(bench, *asking(provider), "--jsbench-record=kept", "-k", "test_it_asks").assert_outcomes(passed=4)
    bench.write({"test_one.py": TESTS.replace('echo {"n": 1}', 'echo {"n": 9}').replace('{"n": 1}', '{"n": 9}')})

    changed = run(bench, "--jsbench-replay=kept", "-k", "test_it_asks")

    changed.assert_outcomes(passed=3, failed=1)
    assert "jsbench: the prompt differs from the recording" in changed.stdout.str()
    provider.asked.clear()
    new = run(bench, *asking(provider), "--jsbench-record=kept", "--jsbench-record-mode=new")
    new.assert_outcomes(passed=7)
    assert sorted(asked.body["messages"][0]["content"] for asked in provider.asked) == [
        'echo {"n": 3}',
        'echo {"n": 4}',
        *['echo {"n": 8}'] * 3,
        'echo {"n": 9}',
    ]


def test_refusals_and_timeouts_reach_the_application_unchanged(bench: Bench, provider: Provider) -> None:
    bench.write({"test_one.py": LOOKING + BROKEN})

    result = run(bench, *asking(provider), "--jsbench-record=kept", "--jsbench-output=out")

    result.assert_outcomes(passed=2)
    assert {record["id"]: record["verdict"]["reason"] for record in bench.records()} == {
        "test_it_is_refused": "rate_limited",
        "test_it_waits": "timeout",
    }
    assert set(outcomes(bench.records()).values()) == {"api_error"}
    assert len(provider.asked) == 2
    assert not list((bench.path / "kept").iterdir())


def test_no_key_that_an_application_sends_is_recorded(bench: Bench, provider: Provider) -> None:
    bench.write({"test_one.py": KEYS})

    run(bench, *asking(provider), "--jsbench-record=kept", "--jsbench-output=out").assert_outcomes(passed=1)
    run(bench, "--jsbench-replay=kept", "--jsbench-replay-strict").assert_outcomes(passed=1)

    (asked,) = provider.asked
    assert "of-the-one-server" in json.dumps(asked.body)
    (kept,) = (bench.path / "kept").rglob("*.json")
    assert json.loads(kept.read_text())["said"]["test"]["n"] == 1
    written = [path for path in bench.path.rglob("*") if path.is_file() and path.suffix in (".json", ".jsonl", ".html")]
    assert not any(f"of-{one}" in path.read_text() for path in written for one in ("the-one", "the-other", "a-third"))


LED = """
import http.client, json
from urllib.parse import urlsplit

@pytest.mark.parametrize("status", ["200", "300", "304", "307", "401"])
def test_it_asks(jsbench, status):
    parts = urlsplit(jsbench.endpoint.openai_url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    connection.request("POST", parts.path + "/chat/completions", json.dumps({"model": status, "messages": []}))
    answer = connection.getresponse()
    assert not 300 <= answer.status < 400
    assert {"location", "refresh"}.isdisjoint(answer.headers)
    connection.close()
"""


def test_a_server_that_leads_elsewhere_leads_no_application_there(bench: Bench, provider: Provider) -> None:
    bench.write({"test_one.py": LOOKING + LED})
    elsewhere = {"location": "https://stranger.example/v1", "refresh": "0; url=x"}
    provider.choose = lambda asked: json_reply(whole("{}"), status=int(asked.body["model"]), headers=elsewhere)

    run(bench, *asking(provider), "test_one.py").assert_outcomes(passed=5)


#: An application that hides a wrong answer, and tests that do not inspect it.
UNSEEN = f"""
import contextlib
import pytest
from application import ask, call, text_of

NUMBER = {NUMBER!r}
BAD, GOOD = 'echo {{"n": -1}}', 'echo {{"n": 1}}'

def talk(url, *texts):
    shape = {{"type": "json_schema", "json_schema": {{"name": "n", "schema": NUMBER}}}}
    turns = [{{"role": "user", "content": text}} for text in texts]
    call(url, {{"model": "m", "messages": turns, "response_format": shape}})

@pytest.fixture
def late(jsbench):
    yield
    ask(jsbench.endpoint.openai_url, BAD, NUMBER)

def test_fails_asserting_nothing(jsbench):
    ask(jsbench.endpoint.openai_url, BAD, NUMBER)

def test_fails_for_another_question_that_ended_well(jsbench):
    for text in (BAD, GOOD):
        ask(jsbench.endpoint.openai_url, text, NUMBER)

def test_fails_catching_it(jsbench):
    with contextlib.suppress(AssertionError):
        jsbench.using(schema=NUMBER).generate("echo prose")

def test_fails_catching_what_it_hands_in(jsbench):
    with contextlib.suppress(AssertionError):
        jsbench.using(schema=NUMBER).check("prose")

@pytest.mark.jsbench(repeats=2, min_pass=1)
def test_fails_in_each_repeat(jsbench):
    ask(jsbench.endpoint.openai_url, BAD, NUMBER)

def test_passes_and_its_teardown_fails(late):
    pass

@pytest.mark.xfail(strict=True)
def test_xfails_as_foretold(jsbench):
    ask(jsbench.endpoint.openai_url, BAD, NUMBER)

@pytest.mark.jsbench(check=False)
def test_passes_since_the_test_decides(jsbench):
    ask(jsbench.endpoint.openai_url, BAD, NUMBER)
    assert not jsbench.using(schema=NUMBER).generate("echo prose").verdict.passed

def test_passes_where_the_conversation_goes_on(jsbench):
    talk(jsbench.endpoint.openai_url, BAD)
    talk(jsbench.endpoint.openai_url, BAD, "n is too small", GOOD)

def test_passes_where_it_asks_again(jsbench):
    asking = jsbench.using(schema={{"type": "object", "required": ["n"]}}, prompt="turns")
    for _ in range(2):
        with contextlib.suppress(AssertionError):
            asking.generate()
"""


def test_failed_answer_fails_its_test_unless_the_test_decides(bench: Bench, provider: Provider) -> None:
    bench.write({"test_one.py": UNSEEN})
    turns: list[Asked] = []

    def choose(asked: Asked) -> Reply:
        if asked.body["messages"][-1]["content"] != "turns":
            return echo(asked)
        turns.append(asked)
        return json_reply(whole("prose" if len(turns) == 1 else '{"n": 1}'))

    provider.choose = choose
    args = ("-p", "no:benchmark", "-rA", "test_one.py", "--junitxml=junit.xml")

    result = run(bench, *asking(provider), *args)

    result.assert_outcomes(passed=4, failed=6, xfailed=1)
    output = result.stdout.str()
    for name in ("asserting_nothing", "for_another_question_that_ended_well", "catching_it", "in_each_repeat"):
        assert f"FAILED test_one.py::test_fails_{name} - s" in output
    assert "FAILED test_one.py::test_passes_and_its_teardown_fails - s" in output
    assert (
        "note:   the application received this answer; set check=False in the marker to let the test decide" in output
    )
    assert "entries are hidden" not in output
    assert "project_tests.py" not in output
    assert 'type="schema_violation"' in (bench.path / "junit.xml").read_text()


@pytest.mark.parametrize("outcome", ["skipped", "failed"])
def test_a_call_that_was_not_made_is_the_end_of_a_test_that_does_not_look(
    bench: Bench, provider: Provider, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    twice = "def test_it(jsbench):\n    for _ in range(2):\n        ask(jsbench.endpoint.openai_url, GOOD, NUMBER)\n"
    bench.write({"test_one.py": UNSEEN.partition("def talk")[0] + twice, "answers.json": "{}"})
    if outcome == "skipped":
        refused = Refused(MissingReason.LIMIT, "--jsbench-max-cost=1 would be exceeded")
        monkeypatch.setattr(Runner, "attempt", Mock(side_effect=refused))
        args = asking(provider)
    else:
        args = ["--jsbench-engine=scripted", "--jsbench-engine-option=answers=answers.json"]

    result = run(bench, "test_one.py", *args)

    result.assert_outcomes(**{outcome: 1})
    assert result.ret not in (pytest.ExitCode.OK, pytest.ExitCode.INTERNAL_ERROR)


CROWDED = """
import resource, subprocess, sys
from application import ask

CROWD = '''
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
host, port = sys.argv[1].split("/")[2].split(":")
callers = []
for _ in range(400):
    callers.append(socket.create_connection((host, int(port)), timeout=20))
    callers[-1].sendall(b"P")
print("here", flush=True)
sys.stdin.read()
'''

def test_it_asks(jsbench):
    resource.setrlimit(resource.RLIMIT_NOFILE, (250, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    url = jsbench.endpoint.openai_url
    crowd = subprocess.Popen([sys.executable, "-c", CROWD, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert crowd.stdout.readline() == b"here\\n"
    assert ask(url, "echo {}", {"type": "object"})[0] == 200
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_many_untrusted_connections_affect_neither_answer_nor_summary(bench: Bench, provider: Provider) -> None:
    bench.write({"test_one.py": CROWDED, "application.py": APPLICATION})

    arguments = (*bench.quick, *asking(provider), "--jsbench-output=out", "test_one.py")
    result = bench.pytester.runpytest_subprocess(*arguments, timeout=60)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["pass rate  1/1*", "verdict *PASSED*"])
    assert list((bench.path / "out").rglob("report.html"))


DEEP = """
import json, pytest
from application import call

@pytest.mark.parametrize("where", ["metadata", "tools", "messages"])
@pytest.mark.parametrize("depth", [240, 290, 310, 490])
def test_it_asks_deeply(jsbench, depth, where):
    deep = json.loads('{"a": ' * depth + "{}" + "}" * depth)
    body = {"model": "m", "messages": [{"role": "user", "content": "echo {}"}]}
    held = {"metadata": deep, "messages": [{"role": "user", "content": [{"type": "x", "y": deep}]}]}
    held["tools"] = [{"type": "function", "function": {"name": "f", "parameters": {"x": deep}}}]
    status, text = call(jsbench.endpoint.openai_url, {**body, where: held[where]})
    if depth > 300:
        assert (status, "the request nests more than 300 levels deep" in text) == (400, True), text
    else:
        assert (status, where) in {(200, "metadata"), (200, "messages"), (200 if depth < 250 else 400, "tools")}, text
"""


@pytest.mark.slow
def test_a_request_that_is_too_deep_is_refused_before_it_is_asked(bench: Bench, provider: Provider) -> None:
    bench.write({"test_one.py": DEEP})
    provider.choose = lambda _: json_reply(whole("{}"))

    result = run(bench, *asking(provider), "--jsbench-record=kept", "--jsbench-output=out", "test_one.py")

    assert not re.search(r"\b500\b", result.stdout.str())  # the name of the run may contain these digits
    assert len(provider.asked) == 5
    assert not [line for line in result.outlines if line.startswith("E  ") and "AssertionError" in line]


QUOTED = """
from application import call

def test_it_hears_of_the_key(jsbench):
    call(jsbench.endpoint.openai_url, {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]})
"""


def test_a_key_that_a_stream_cuts_in_two_is_in_no_recording(bench: Bench, provider: Provider) -> None:
    bench.write({"test_one.py": QUOTED})
    first, second = SECRET[:7], SECRET[7:]
    provider.choose = lambda _: stream_reply(chunk(f"my {first}"), chunk(second), chunk(finish="stop"), DONE)

    run(bench, *asking(provider), "--jsbench-record=kept", "test_one.py").assert_outcomes(passed=1)

    (kept,) = (bench.path / "kept").rglob("*.json")
    assert first not in kept.read_text()
    assert second not in kept.read_text()
    assert f'"content": "my {"*" * len(first)}"' in "\n".join(json.loads(kept.read_text())["server"]["body"])


HEARD = """
import json, pytest, urllib.error, urllib.request

@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("what", ["401", "200"])
def test_it_hears(jsbench, what, stream):
    sent = {"content-type": "application/json"}
    body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": what}]}
    url = jsbench.endpoint.openai_url + "/chat/completions"
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), sent), timeout=20)
    except urllib.error.HTTPError as refusal:
        answer = refusal
    with answer:
        text = answer.read().decode()
    with open("heard.txt", "a") as file:
        file.write(f"{answer.headers} {text}")
    assert answer.headers["x-echo"] == "Bearer [key]"
    assert (answer.status, "[key]" in text) == (int(what), True)
"""


def test_a_key_that_a_server_quotes_is_kept_from_the_application(bench: Bench, provider: Provider) -> None:
    bench.write({"test_one.py": HEARD})
    echoed = {"x-echo": f"Bearer {SECRET}"}

    def quoting(asked: Asked) -> Reply:
        words = f"you sent {SECRET}"
        if asked.body["messages"][-1]["content"] == "401":
            return json_reply(error_body(words), status=401, headers=echoed)
        if asked.body["stream"]:
            events = "".join([chunk(words), chunk(finish="stop"), DONE]).encode()
            return raw_reply(events, kind="text/event-stream", headers=echoed)
        return json_reply(whole(words), headers=echoed)

    provider.choose = quoting

    # a refusal fails its test, regardless of the test's assertions
    run(bench, *asking(provider), "test_one.py").assert_outcomes(passed=2, failed=2)

    heard = (bench.path / "heard.txt").read_text()
    assert (len(provider.asked), heard.count("you sent [key]"), heard.count("Bearer [key]")) == (4, 4, 4)
    assert SECRET not in heard


NOT_JUDGED = f"""
from application import ask, call

def test_judged(jsbench):
    ask(jsbench.endpoint.openai_url, 'echo {{"n": 1}}', {NUMBER!r})

def test_free(jsbench):
    call(jsbench.endpoint.openai_url, {{"model": "m", "messages": [{{"role": "user", "content": "echo {{}}"}}]}})

def test_both(jsbench):
    call(jsbench.endpoint.openai_url, {{"model": "m", "messages": [{{"role": "user", "content": "echo hello"}}]}})
    ask(jsbench.endpoint.openai_url, 'echo {{"n": 1}}', {NUMBER!r})
"""


@pytest.mark.parametrize("gate", ["--jsbench-min-pass-rate=1", "--jsbench-gate=passed>=1"])
def test_gate_is_not_met_by_a_test_whose_calls_carry_no_schema(bench: Bench, provider: Provider, gate: str) -> None:
    bench.write({"test_one.py": NOT_JUDGED})

    result = run(bench, "test_one.py", *asking(provider), gate)
    judged = run(bench, "test_one.py", *asking(provider), gate, "-k", "test_judged or test_both")

    not_judged = "1 test not judged: test_one.py::test_free; their calls have no schema: set a schema in their marker"
    assert (result.ret, judged.ret) == (1, 0)
    assert not_judged in " ".join(result.stdout.str().split())
    assert "verdict    PASSED" in judged.stdout.str()
