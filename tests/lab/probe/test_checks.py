"""Tests of the checks against a fake server: each planted fault is found and named, and a sound server has none."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from random import Random
from typing import Any

import pytest

from pytest_jsbench.cli.main import main
from pytest_jsbench.core.generations import ResponseFormat
from pytest_jsbench.engines.engine_secrets import describe
from pytest_jsbench.lab.probe.calls import ProbeCall, ProbeCalls
from pytest_jsbench.lab.probe.check import Bench, CheckFinding
from pytest_jsbench.lab.probe.check_names import CHECK_NAMES
from pytest_jsbench.lab.probe.check_plan import plan_checks
from pytest_jsbench.lab.probe.demo_chat import ChatAnswer, ChatRequest, answer_of_text
from pytest_jsbench.lab.probe.probe import Probe, ProbePlan, control_of, ways_of
from pytest_jsbench.lab.probe.probe_session import open_session
from pytest_jsbench.lab.probe.question_calls import QuestionCalls
from pytest_jsbench.lab.probe.questions import Words
from pytest_jsbench.lab.probe.registry import CHECKS, find_obstacles, make_checks
from pytest_jsbench.run.in_flight import CallsInFlight
from pytest_jsbench.run.plan import RateLimits
from pytest_jsbench.run.variants import Variant
from pytest_jsbench.settings.call_options import Ask
from pytest_jsbench.settings.options import RecordingOptions
from tests.support.faulty_chat import PLANTED, FaultyChat, Planted
from tests.support.openai_wire import SECRET
from tests.support.provider import Provider

pytest.importorskip("urllib3", reason="calls to providers need the package urllib3")

#: Number of probes of the same server; in one of 20, another statement is accepted.
PROBES, MAY_DIFFER = 20, 1
#: Number of probes if the fault depends on concurrent requests; all must agree.
PROBES_UNDER_LOAD = 5


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """Yield a server that knows how many requests the probe is going to send, and how many of them at once."""
    make = ProbeCalls.make
    with Provider() as running:

        def announce(self: ProbeCalls, calls: Sequence[ProbeCall], *, in_flight: int) -> Any:
            if isinstance(running.choose, FaultyChat):
                running.choose.expect(len(calls), at_once=in_flight)
            return make(self, calls, in_flight=in_flight)

        monkeypatch.setattr(ProbeCalls, "make", announce)
        yield running


def arguments(provider: Provider, *more: str) -> list[str]:
    whom = ["--engine=openai", f"--base-url={provider.url}/v1", "--model=m"]
    return ["probe", *whom, "--format=json_schema", "--keywords=none", *more]


def check(provider: Provider, server: FaultyChat, *more: str) -> dict[str, Any]:
    """Return the findings of the checks from the JSON output, by name."""
    provider.choose = server
    out = io.StringIO()
    status = main(arguments(provider, "--json", *more), out=out)
    found = json.loads(out.getvalue())
    assert (status == 0) is found["passed"]
    return {each["check"]: each for each in found["checks"]}


def probe_planted(provider: Provider, planted: Planted) -> dict[str, Any]:
    """Return the finding of the check that should find the fault."""
    levels = "1,8" if planted.overlapped is not None else "1,4" if planted.afterwards is not None else "1"
    calls = "5" if planted.afterwards is not None else "1"
    options = (f"--checks={planted.check}", f"--concurrency={levels}", f"--calls={calls}", "--retries=0")
    found: dict[str, Any] = check(provider, FaultyChat(planted), *options)[planted.check]
    return found


#: Faults that need no concurrent requests, and one that does; all the others are in the slow test.
QUICKLY_FOUND = [
    name
    for name, planted in PLANTED.items()
    if name == "plain corrupted" or (planted.overlapped is None and planted.afterwards is None)
]


@pytest.mark.parametrize("name", QUICKLY_FOUND)
def test_each_planted_fault_is_found_and_named(provider: Provider, name: str) -> None:
    finding = probe_planted(provider, PLANTED[name])

    assert (finding["outcome"], finding["faults"]) == ("fault", [PLANTED[name].fault])
    assert finding["said"]


@contextmanager
def prober(provider: Provider, *names: str, levels: tuple[int, ...]) -> Iterator[Callable[[], list[CheckFinding]]]:
    """Yield a function that probes the server again, with new words, in the same run."""
    ask = Ask({"engine": "openai", "model": "m", "base_url": f"{provider.url}/v1"})
    base = replace(Variant.of("", ask, RecordingOptions()), concurrency=max(levels))
    ways = ways_of(base, [ResponseFormat.JSON_SCHEMA])
    plan = ProbePlan(ways=ways, levels=levels, keywords=(), calls=5, control=control_of(base))
    checks = plan_checks(names, base, plan, describe(base.factory, base.engine))
    with open_session(base, plan, checks, limits=RateLimits(), retries=0) as session:
        made = ProbeCalls(session, max(levels))

        def probe() -> list[CheckFinding]:
            words, questions = Words(Random(made.made)), QuestionCalls(made)
            asking = Probe(plan, made, questions, words)
            controls = asking.ask_controls() if "after_load" in names else {}
            if "after_load" in names:
                assert list(asking.findings())
            again = asking.ask_controls_again
            return list(make_checks(Bench(checks, made, questions, words, controls=controls, ask_controls=again)))

        try:
            yield probe
        finally:
            made.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_same_fault_is_named_in_most_probes_of_a_weak_model(provider: Provider, name: str) -> None:
    planted = PLANTED[name]
    waits = planted.overlapped is not None or planted.afterwards is not None
    probes, may_differ = (PROBES_UNDER_LOAD, 0) if waits else (PROBES, MAY_DIFFER)
    levels = (1, 8) if planted.overlapped is not None else (1, 4)
    found = []
    with prober(provider, planted.check, levels=levels) as probe:
        for seed in range(probes):
            provider.choose = FaultyChat(planted, Random(seed))
            found += probe()

    assert len(found) == probes
    others = [each for each in found if each.faults != (planted.fault,)]
    assert len(others) <= may_differ, others


def test_sound_server_passes_every_check(provider: Provider) -> None:
    found = check(provider, FaultyChat(), "--concurrency=1,2,4", "--calls=2")

    assert tuple(found) == CHECK_NAMES == tuple(CHECKS)
    assert {name: each["outcome"] for name, each in found.items()} == dict.fromkeys(CHECK_NAMES, "ok")


@pytest.mark.slow
def test_sound_server_with_a_weak_model_has_no_fault_in_20_of_20_probes(provider: Provider) -> None:
    found = []
    with prober(provider, *CHECK_NAMES, levels=(1, 2, 4)) as probe:
        for seed in range(PROBES):
            provider.choose = FaultyChat(random=Random(seed))
            found += probe()

    assert len(found) == PROBES * len(CHECKS)
    assert [each for each in found if each.faults] == []
    assert sum(each.passed for each in found) >= 0.95 * len(found)


@pytest.mark.parametrize(
    ("engine", "url", "expected"),
    [
        ("openai", "http://127.0.0.1:9/v1", {}),
        (
            "anthropic",
            "http://127.0.0.1:9",
            {
                "seed": "the API has no seed",
                "stop": "only for Chat Completions",
                "malformed": "only for Chat Completions",
            },
        ),
    ],
)
def test_checks_that_an_engine_cannot_make_are_listed_with_the_reason(
    engine: str, url: str, expected: dict[str, str]
) -> None:
    base = Variant.of("", Ask({"engine": engine, "model": "m", "base_url": url}), RecordingOptions())
    plan = ProbePlan(ways=ways_of(base), levels=(1, 2), keywords=(), calls=5, control=control_of(base))
    checks = plan_checks(CHECK_NAMES, base, plan, describe(base.factory, base.engine))

    assert find_obstacles(checks) == expected


def test_named_check_that_an_engine_cannot_make_is_a_usage_error(
    provider: Provider, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(provider, "--checks=mixed_load", "--concurrency=1"), out=io.StringIO()) == 2

    error = capsys.readouterr().err
    assert "the check 'mixed_load' cannot be made with engine 'openai': needs --concurrency of 2 or more" in error
    assert provider.asked == []


def test_interrupted_checks_are_undecided(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    take, taken = CallsInFlight.take, iter(range(1000))

    def stopped(self: Any, key: Any) -> Any:
        if next(taken) == 6:  # in the first check, after two controls and two modes
            raise KeyboardInterrupt
        return take(self, key)

    monkeypatch.setattr(CallsInFlight, "take", stopped)
    options = ("--checks=auto_tools,stop", "--concurrency=1", "--calls=1")

    found = check(provider, FaultyChat(PLANTED["strict ignored with auto"]), *options)

    assert {name: (each["outcome"], each["said"]) for name, each in found.items()} == {
        "auto_tools": ("undecided", "interrupted"),
        "stop": ("undecided", "interrupted"),
    }


def test_refused_tools_are_no_fault(provider: Provider) -> None:
    server = FaultyChat(refuses=lambda body: "tools" in body)

    found = check(provider, server, "--checks=auto_tools,format_with_tools", "--concurrency=1", "--calls=1")

    assert {name: each["outcome"] for name, each in found.items()} == dict.fromkeys(found, "refused")
    assert all("tools are not supported" in each["said"] for each in found.values())


def test_every_request_turns_reasoning_off_if_told_how(provider: Provider) -> None:
    off = '--no-reasoning={"enable_thinking": false}'
    names = ("several_calls", "seed", "stop", "mixed_load", "after_load")

    found = check(provider, FaultyChat(), off, f"--checks={','.join(names)}", "--concurrency=1,2", "--calls=1")

    assert tuple(found) == names
    assert [asked.body for asked in provider.asked if asked.body.get("enable_thinking") is not False] == []


def test_key_in_a_finish_reason_is_not_printed(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    def quote(answer: ChatAnswer, request: ChatRequest) -> ChatAnswer:
        return replace(answer, finish=f"tool_calls for {SECRET}") if request.streaming and answer.calls else answer

    monkeypatch.setenv("PROBED_KEY", SECRET)
    server = FaultyChat(Planted(check="streaming", fault="", answer=quote))
    options = ("--api-key-env=PROBED_KEY", "--checks=streaming", "--concurrency=1", "--calls=1")

    (finding,) = check(provider, server, *options).values()

    assert "finish reason of calls differs" in finding["said"]
    assert SECRET not in json.dumps(finding)
    assert f"tool_calls for {'*' * len(SECRET)}" in finding["said"]


def answer_in_turn(*kinds: str) -> Callable[[ChatAnswer, ChatRequest], ChatAnswer]:
    """Return a function that answers requests with two tools with calls, or with a text that is truncated, in turn."""
    waiting = cycle(kinds)

    def answer(sound: ChatAnswer, request: ChatRequest) -> ChatAnswer:
        if len(request.tools) < 2 or next(waiting) == "calls":
            return sound
        return ChatAnswer(text="I would rather", finish="length", input_tokens=sound.input_tokens)

    return answer


def test_finish_reasons_of_calls_and_of_a_text_are_not_compared(provider: Provider) -> None:
    planted = Planted(check="streaming", fault="", answer=answer_in_turn("calls", "text"))

    found = probe_planted(provider, planted)

    assert (found["outcome"], found["faults"]) == ("undecided", [])
    assert found["said"].startswith("only 3 of 4 requests can be compared: with temperature 0")


def change_pieces(change: Callable[[dict[str, Any]], list[dict[str, Any]]]) -> Callable[[Iterator[str]], Iterator[str]]:
    """Return a function that replaces each event with a call by events with pieces of it."""

    def events(sent: Iterator[str]) -> Iterator[str]:
        for event in sent:
            if '"tool_calls"' not in event.partition('"finish_reason"')[0]:
                yield event
                continue
            chunk = json.loads(event.removeprefix("data:"))
            (call,) = chunk["choices"][0]["delta"]["tool_calls"]
            for piece in change(call):
                chunk["choices"][0]["delta"]["tool_calls"] = [piece]
                yield f"data: {json.dumps(chunk)}\n\n"

    return events


def repeat_name(call: dict[str, Any], *, with_id: bool) -> list[dict[str, Any]]:
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    pieces = [{**call, "function": {"name": name, "arguments": part}} for part in (arguments[:5], arguments[5:])]
    return pieces if with_id else [pieces[0], {key: value for key, value in pieces[1].items() if key != "id"}]


@pytest.mark.parametrize("with_id", [True, False])
def test_name_that_each_piece_of_a_call_repeats_is_no_fault(provider: Provider, with_id: bool) -> None:
    repeat = change_pieces(lambda call: repeat_name(call, with_id=with_id))

    found = probe_planted(provider, Planted(check="streaming", fault="", events=repeat))

    assert found["outcome"] == "ok", found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda call: {**call, "index": 0, "id": "1"}, "the indices of streamed calls are the same for several calls"),
        (lambda call: {**call, "index": call["index"] + 1}, "the indices of streamed calls are 1, 2"),
        (lambda call: {**call, "index": [0]}, "the indices of streamed calls are missing"),
        (lambda call: {**call, "id": ["1"]}, "the ids of calls streamed are missing"),
        (lambda call: {**call, "id": "1"}, "the ids of calls streamed are the same for several calls"),
    ],
)
def test_wrong_indices_and_ids_of_streamed_calls_are_described(
    provider: Provider, change: Callable[[dict[str, Any]], dict[str, Any]], said: str
) -> None:
    planted = Planted(check="streaming", fault="", events=change_pieces(lambda call: [change(call)]))

    found = probe_planted(provider, planted)

    assert found["outcome"] == "fault"
    assert said in found["said"].split("; ")


def tell_in_turn(texts: str, finishes: str = "ssss") -> Callable[[ChatAnswer, ChatRequest], ChatAnswer]:
    """Return a function that answers requests for a story with texts and finish reasons by their letters, in turn."""
    words, ends = cycle(texts), cycle(finishes)
    reasons = {"s": "stop", "l": "length"}

    def answer(sound: ChatAnswer, request: ChatRequest) -> ChatAnswer:
        if request.wanted:
            return sound
        return replace(sound, text=f"The sea was calm in {next(words)}.", finish=reasons[next(ends)])

    return answer


@pytest.mark.parametrize(
    ("texts", "finishes", "faults"),
    [
        ("aabbabba", "s", []),
        ("aabbaabc", "s", []),
        ("aabbbbaa", "s", []),
        ("aabbaabb", "s", ["text_differs"]),
        # other words may end otherwise
        ("aabb", "ssll", ["text_differs"]),
        ("a", "ssll", ["finish_differs"]),
        ("a", "sslllsls", []),
    ],
)
def test_difference_between_transfers_counts_only_if_it_comes_again(
    provider: Provider, texts: str, finishes: str, faults: list[str]
) -> None:
    planted = Planted(check="streaming", fault="", answer=tell_in_turn(texts, finishes))

    found = probe_planted(provider, planted)

    assert found["faults"] == faults
    assert (found["outcome"] == "fault") is bool(faults)


Body = Mapping[str, Any]


def answer_briefly(answer: ChatAnswer, request: ChatRequest) -> ChatAnswer:
    """Return one call if it is required, or a text that is short and depends on the stop sequence."""
    if request.choice == "required":
        return replace(answer, calls=answer.calls[:1])
    return answer_of_text("Never." if request.stop else "Once upon a time.", request)


@pytest.mark.parametrize(
    ("name", "most", "matches", "answer"),
    [
        ("auto_tools", 1, lambda body: "tools" in body, answer_briefly),
        ("several_calls", 1, lambda body: "tools" in body, answer_briefly),
        ("format_with_tools", 100, lambda body: "tools" not in body, None),
        ("format_with_tools", 1, lambda body: "tools" in body and "response_format" not in body, None),
        ("tool_description", 1, lambda body: "tools" in body, None),
        ("temperature", 1, lambda body: body.get("temperature") == 0, None),
        ("temperature", 1, lambda body: body.get("temperature") == 1, None),
        ("seed", 1, lambda body: "seed" in body, None),
        ("seed", 100, lambda body: body.get("seed", 0) > 11, None),
        ("max_tokens", 1, lambda body: body.get("max_tokens") == 16, answer_briefly),
        ("stop", 1, lambda body: "stop" in body, answer_briefly),
    ],
)
def test_failed_call_is_the_reason_why_a_check_is_undecided(
    provider: Provider,
    name: str,
    most: int,
    matches: Callable[[Body], bool],
    answer: Callable[[ChatAnswer, ChatRequest], ChatAnswer] | None,
) -> None:
    left = iter(range(most))
    server = FaultyChat(refuses=lambda body: matches(body) and next(left, None) is not None)
    server.planted = None if answer is None else Planted(check=name, fault="", answer=answer)

    found = check(provider, server, f"--checks={name}", "--concurrency=1", "--calls=1")

    assert found[name]["outcome"] == "undecided"
    assert "tools are not supported" in found[name]["said"]


@pytest.mark.parametrize("alone", [True, False])
def test_fault_next_to_a_format_is_said_to_be_absent_without_one_only_if_there_were_calls(
    provider: Provider, alone: bool
) -> None:
    def ignore(answer: ChatAnswer, request: ChatRequest) -> ChatAnswer:
        if request.schema is None:
            return answer if alone else replace(answer, calls=(), text="no")
        return replace(answer, calls=tuple(replace(call, arguments="{}") for call in answer.calls))

    found = probe_planted(provider, Planted(check="format_with_tools", fault="", answer=ignore))

    assert found["faults"] == ["strict_ignored"]
    assert found["said"].endswith("but not without one") is alone
