"""Test applications that retry after invalid answers, and those whose model calls tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_jsbench.reports import run_json
from tests.support.applications import asking, outcomes, run
from tests.support.bench import NUMBER, Bench
from tests.support.commands import ran
from tests.support.openai_wire import SECRET, error_body, whole
from tests.support.provider import Asked, Provider, Reply, json_reply

pytest.importorskip("openai", reason="needs the package openai")

LOOP = f"""
import json
import pydantic
from application import call

class Refused(Exception):
    pass

class Even(pydantic.BaseModel):
    n: int

    @pydantic.field_validator("n")
    @classmethod
    def even(cls, n):
        assert n % 2 == 0, "odd"
        return n

def loop(jsbench, text, tries=3):
    messages = [{{"role": "user", "content": text}}]
    shape = {{"type": "json_schema", "json_schema": {{"name": "n", "schema": {NUMBER!r}}}}}
    for left in range(tries, 0, -1):
        body = {{"model": "m", "messages": messages, "response_format": shape}}
        status, answer = call(jsbench.endpoint.openai_url, body)
        if status == 500:
            continue
        content = json.loads(answer)["choices"][0]["message"]["content"]
        try:
            return Even.model_validate_json(content)
        except pydantic.ValidationError as error:
            if left == 1:
                raise Refused("gave up") from error
        messages = [*messages, {{"role": "assistant", "content": content}}, {{"role": "user", "content": text}}]
"""


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with Provider() as provider:
        provider.choose = counting
        yield provider


def counting(asked: Asked) -> Reply:
    """Answer by the number of the turn, or with the text in the first message."""
    turns, text = len(asked.body["messages"]) // 2 + 1, asked.body["messages"][0]["content"]
    if text == "odd":
        return json_reply(whole('{"n": 1}'))
    if text == "fixes":
        return json_reply(whole('{"n": -1}' if turns == 1 else '{"n": 2}'))
    return json_reply(whole('{"n": 2}'))


def test_retry_loop_that_never_succeeds_counts_once_as_type_refused(bench: Bench, provider: Provider) -> None:
    pytest.importorskip("pydantic")
    bench.write({"test_one.py": LOOP + "def test_loop(jsbench):\n    loop(jsbench, 'odd')\n"})

    result = run(bench, "test_one.py", *asking(provider), "--jsbench-output=out")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- calls -*",
            "test_one::test_loop: passed, 29 tokens, called again",
            "test_one::test_loop@2: passed, 29 tokens, called again",
            "test_one::test_loop@3: passed, 29 tokens",
            "pass rate  1/1 = 1.000 *",
            "tests      0/1 = 0.000 passed; type_refused 1",
            "tokens     60 in *, 27 out *",
            "again      2 calls followed by another call for the same answer: only the*",
        ]
    )
    figures = bench.run_json()["metrics"]
    assert {name: figures[name] for name in ("planned", "missing", "excluded", "called_again")} == {
        "planned": 1,
        "missing": 0,
        "excluded": 0,
        "called_again": 2,
    }


@pytest.mark.parametrize(
    ("calls", "planned", "passed"),
    [
        ("loop(jsbench, 'fixes')", 1, 1),
        ("loop(jsbench, 'even'); loop(jsbench, 'even')", 2, 2),
        ("loop(jsbench, 'even'); loop(jsbench, 'other')", 2, 2),
    ],
)
def test_what_came_right_is_one_and_two_samples_of_the_same_are_two(
    bench: Bench, provider: Provider, calls: str, planned: int, passed: int
) -> None:
    pytest.importorskip("pydantic")
    bench.write({"test_one.py": LOOP + f"def test_loop(jsbench):\n    {calls}\n"})

    result = run(bench, "test_one.py", *asking(provider), "--jsbench-output=out")

    result.assert_outcomes(passed=1)
    figures = bench.run_json()["metrics"]
    assert (figures["planned"], figures["passed"], figures["missing"]) == (planned, passed, 0)
    assert figures["failure_counts"]["schema_violation"] == 0
    rates = {tries: rate for tries, rate in figures["pass_after"].items() if tries.isdigit()}
    assert rates == ({"0": 0.0, "1": 1.0} if "fixes" in calls else {})
    assert (figures["tests_passed"], result.ret) == (1.0, 0)


def test_failed_call_that_the_client_retried_is_not_an_error(bench: Bench, provider: Provider) -> None:
    pytest.importorskip("pydantic")
    replies = [json_reply(error_body("broke"), status=500), *[json_reply(whole('{"n": 2}'))] * 2]
    provider.choose = lambda _: replies.pop(0)
    repeated = "import pytest\n@pytest.mark.jsbench(repeats=2)\ndef test_loop(jsbench):\n    loop(jsbench, 'x')\n"
    bench.write({"test_one.py": LOOP + repeated})

    result = run(bench, "test_one.py", *asking(provider), "--jsbench-output=out")

    result.assert_outcomes(passed=1)
    figures = bench.run_json()["metrics"]
    assert [figures[name] for name in ("planned", "errors", "missing", "passed", "called_again")] == [2, 0, 0, 2, 1]
    ((name, case),) = bench.run_json()["cases"].items()
    assert (name, case["attempts"]) == ("test_one::test_loop", ["passed", "passed"])


TOOLS = """
import pytest
from application import call

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "required": [field]}}}
    for name, field in (("find", "city"), ("count", "n"))
]

def use(jsbench, content, choice="auto", **more):
    body = {"model": "m", "messages": [{"role": "user", "content": content}], "tools": TOOLS, "tool_choice": choice}
    call(jsbench.endpoint.openai_url, {**body, **more})
    return [(one.tool, one.verdict.failure_type, len(one.calls)) for one in jsbench.endpoint.answers]

FORCED = {"type": "function", "function": {"name": "count"}}
pytestmark = pytest.mark.jsbench(check=False)

def test_auto(jsbench):
    assert use(jsbench, '[["find", {"city": 1}], ["count", {"n": 1}]]') == [("find", None, 2)]

def test_second(jsbench):
    assert use(jsbench, '[["find", {"city": 1}], ["count", {}]]') == [("count", "schema_violation", 2)]

def test_text(jsbench):
    assert use(jsbench, '[]') == []

def test_no_call(jsbench):
    assert use(jsbench, '[]', "required") == [(None, "no_call", 0)]

def test_unknown(jsbench):
    assert use(jsbench, '[["drop", {}]]') == [("drop", "unknown_tool", 1)]

def test_wrong(jsbench):
    assert use(jsbench, '[["find", {"city": 1}]]', FORCED) == [("find", "wrong_tool", 1)]

def test_forced(jsbench):
    assert use(jsbench, '[["count", {"n": 1}]]', FORCED) == [("count", None, 1)]

def test_forced_twice(jsbench):
    assert use(jsbench, '[["count", {"n": 1}], ["count", {"n": 2}]]', FORCED) == [("count", None, 2)]

def test_several(jsbench):
    content = '[["find", {"city": 1}], ["count", {"n": 1}]]'
    assert use(jsbench, content, parallel_tool_calls=False) == [("find", "wrong_tool", 2)]
"""


def calling(asked: Asked) -> Reply:
    """Call the tools that the message lists, with their arguments as objects; answer with a text if it lists none."""
    listed: list[Any] = json.loads(asked.body["messages"][0]["content"])
    calls = [{"id": "c", "function": {"name": name, "arguments": value}} for name, value in listed]
    return json_reply(whole(None if calls else "hello", message={"tool_calls": calls} if calls else {}))


@pytest.mark.slow
def test_tool_calls_are_judged_by_their_declarations_live_and_replayed(bench: Bench, provider: Provider) -> None:
    provider.choose = calling
    bench.write({"test_one.py": TOOLS})
    expected = {
        "test_auto": None,
        "test_second": "schema_violation",
        "test_text": "invalid_schema",
        "test_no_call": "no_call",
        "test_unknown": "unknown_tool",
        "test_wrong": "wrong_tool",
        "test_forced": None,
        "test_forced_twice": None,
        "test_several": "wrong_tool",
    }

    result = run(bench, "test_one.py", *asking(provider), "--jsbench-output=out", "--jsbench-record=kept")

    result.assert_outcomes(passed=9)
    assert outcomes(bench.records()) == expected
    result.stdout.fnmatch_lines(
        [
            "failures   wrong_tool 2, no_call 1, unknown_tool 1, schema_violation 1",
            "noted      not_text 7, forced_tool_repeated 1",
        ]
    )

    result = run(bench, "test_one.py", "--jsbench-replay=kept", "--jsbench-output=again")

    result.assert_outcomes(passed=9)
    assert outcomes(bench.records("again")) == expected


KINDS = """
import pytest
from application import ask
from test_one import use

CITY = {"type": "object", "required": ["city"]}
pytestmark = pytest.mark.jsbench(check=False)

def test_schema_of_the_request(jsbench):
    ask(jsbench.endpoint.openai_url, '[]', {"type": "string"})

@pytest.mark.jsbench(schema={"type": "array"})
def test_schema_of_the_marker(jsbench):
    ask(jsbench.endpoint.openai_url, '[]', {"type": "string"})

@pytest.mark.jsbench(schema=CITY, prompt="[]")
def test_generated(jsbench):
    jsbench.generate()

def test_handed_in(jsbench):
    jsbench.check('{"city": "Oslo"}', schema=CITY)

def test_unknown_tool_that_must_be_called(jsbench):
    use(jsbench, '[["drop", {}]]', "required")
"""


def test_live_figures_of_each_kind_of_attempt_equal_those_of_jsbench_judge(bench: Bench, provider: Provider) -> None:
    provider.choose = calling
    bench.write({"test_one.py": TOOLS, "test_kinds.py": KINDS})
    run(bench, "test_one.py", "test_kinds.py", *asking(provider), "--jsbench-output=out")
    folder = bench.run_in("out")

    ran("judge", folder, f"--output={bench.path / 'again'}")

    live, again = (run_json.read(path).figures for path in (folder, bench.path / "again"))
    shared = live.keys() & again.keys()
    assert {name: (live[name], again[name]) for name in shared if live[name] != again[name]} == {}
    assert len(shared) > 50
    constants = {one["id"]: one["verdict"].get("trivial") for one in bench.records()}
    # each tool requires a field, so that no constant answer passes
    assert {name: texts for name, texts in constants.items() if texts} == {
        "test_schema_of_the_request": ['""'],
        "test_schema_of_the_marker": ["[]"],
    }


def test_failed_call_is_retried_if_the_model_chooses_the_schema(bench: Bench, provider: Provider) -> None:
    replies = [lambda _: json_reply(error_body("broke"), status=500), calling]
    provider.choose = lambda asked: replies.pop(0)(asked)
    head, _, _ = TOOLS.partition("FORCED")
    test = """def test_again(jsbench):
    use(jsbench, '[["find", {"city": 1}]]')
    assert use(jsbench, '[["find", {"city": 1}]]')[1:] == [("find", None, 1)]
"""
    bench.write({"test_one.py": head + test})

    result = run(bench, "test_one.py", *asking(provider), "--jsbench-output=out")

    result.assert_outcomes(passed=1)
    figures = bench.run_json()["metrics"]
    assert [figures[name] for name in ("planned", "errors", "passed", "called_again")] == [1, 0, 1, 1]
