from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pytest_jsbench.core.cases import Prompt
from pytest_jsbench.core.errors import EngineError, RecordError
from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Declined,
    EngineInfo,
    FaultKind,
    Origin,
    Request,
    ResponseFormat,
    Sent,
    ServerAnswer,
)
from pytest_jsbench.core.messages import Message, Role, read_messages
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.recorded.engine import FACTORY, RecordingEngine
from pytest_jsbench.engines.recorded.recordings import Recording, Recordings, json_change, prompt_change
from tests.support import examples
from tests.support.conversation import PROMPT, TURNS
from tests.support.engine_calls import request
from tests.support.examples import replace
from tests.support.recording import Fixed, record

NASTY = 'Line one\nline "two"\r\n\x1b[31m\u202e\ud800 ä \U0001f600\n'


def replayed(folder: Path, asked: Request, **options: Any) -> Completion | Declined:
    engine = FACTORY.build(EngineConfig(name="recorded", options={"folder": str(folder), **options}))
    return engine.generate(asked)


def asking(content: str = "Say it", **schema: Any) -> Request:
    prompt = Prompt(messages=(Message(role="user", content=content),))
    return replace(request({"type": "object", **schema}), prompt=prompt)


@pytest.mark.parametrize(
    "answer", [replace(examples.completion(), text=NASTY, reasoning=NASTY, sent=None), examples.declined()]
)
def test_recorded_answer_is_replayed_exactly(tmp_path: Path, answer: Completion | Declined) -> None:
    record(tmp_path, asking(NASTY), answer)

    said = replayed(tmp_path, asking(NASTY))

    assert replace(said, sent=None) == replace(answer, sent=None)
    assert said.sent == Sent(response_format=ResponseFormat.JSON_SCHEMA, params=asking(NASTY).params)


def test_recording_is_readable_without_invisible_characters(tmp_path: Path) -> None:
    path = record(tmp_path, asking("One\nTwo"), replace(examples.completion(), text=NASTY, reasoning="Hm.\n\nOslo."))

    text = path.read_text("utf-8")
    data = json.loads(text)
    assert data["messages"] == [{"role": "user", "content": ["One", "Two"]}]
    assert data["answer"]["text"] == NASTY.split("\n")
    assert data["answer"]["reasoning"] == ["Hm.", "", "Oslo."]
    assert (data["engine"], data["model"], data["schema"]) == ("fixed", "m1", {"type": "object"})
    assert "ä \U0001f600" in text
    assert not {"\x1b", "\u202e", "\r"} & set(text)


def test_recording_changes_only_with_its_answer(tmp_path: Path) -> None:
    path = record(tmp_path, asking(), examples.completion(tgt=1.0))
    before = path.read_text()

    record(tmp_path, asking(), examples.completion(tgt=2.0))
    assert path.read_text() == before

    record(tmp_path, asking(), examples.completion("no", tgt=2.0))
    assert path.read_text() != before


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (asking("Say that"), 'the prompt differs from the recording: line 1 was "Say it", is "Say that"'),
        (asking(required=["n"]), "the schema differs from the recording: $.required is new"),
    ],
)
def test_changed_prompt_or_schema_is_reported(tmp_path: Path, asked: Request, message: str) -> None:
    record(tmp_path, asking(), examples.completion())

    with pytest.raises(CallError) as refused:
        replayed(tmp_path, asked)

    assert refused.value.kind is FaultKind.ENGINE
    assert refused.value.message == f"{message}; record it again with --jsbench-record"


def test_missing_recording_is_reported_with_its_path(tmp_path: Path) -> None:
    record(tmp_path, asking(), examples.completion())

    with pytest.raises(CallError, match=r"^no recorded answer: .*~3\.json does not exist; record it again with --jsb"):
        replayed(tmp_path, replace(asking(), repeat=2))


@pytest.mark.parametrize(
    "broken",
    [
        "{",
        "[]",
        "{}",
        '{"answer": {"type": "guess"}}',
        '{"answer": {"type": "failed", "kind": "server", "message": "", "status": null}}',
        "[" * 100_000,
    ],
)
def test_invalid_recording_is_named_before_the_run(tmp_path: Path, broken: str) -> None:
    path = record(tmp_path, asking(), examples.completion())
    path.write_text(broken)

    with pytest.raises(EngineError, match=r"^engine 'recorded': .*\.json: "):
        FACTORY.describe(EngineConfig(name="recorded", options={"folder": str(tmp_path)}))


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        (None, "engine 'recorded' needs a directory written by --jsbench-record: --jsbench-engine-option folder=DIR"),
        ("nowhere", "no recorded answers: nowhere is not a directory; fill it with --jsbench-record and an engine"),
        (".", "no recorded answers in ., which is an empty directory; fill it with --jsbench-record and an engine"),
    ],
)
def test_without_recordings_the_next_step_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str | None, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    config = EngineConfig(name="recorded", options={} if folder is None else {"folder": folder})

    with pytest.raises(EngineError) as refused:
        FACTORY.describe(config)

    assert str(refused.value).startswith(message)


def test_recorded_engine_names_the_recorded_model(tmp_path: Path) -> None:
    record(tmp_path, asking(), examples.completion())

    info = FACTORY.describe(EngineConfig(name="recorded", options={"folder": str(tmp_path)}))

    assert (info.engine, info.model, info.details) == ("recorded", "m1", {"recorded_engine": "fixed"})


@pytest.mark.parametrize("mode", ["all", "new"])
def test_answer_is_returned_although_it_cannot_be_recorded(tmp_path: Path, mode: str) -> None:
    folder, lost = tmp_path / "answers", list[str]()
    folder.write_text("a file, where a folder should be")
    fixed = Fixed(examples.completion())
    engine = RecordingEngine(fixed, folder, lost=lost.append, only_new=mode == "new")

    assert engine.generate(asking()) == fixed.answer

    assert lost == [f"cannot write recorded answers to {folder}: Not a directory; no more calls are made"]


def test_recording_engine_counts_tokens_if_supported(tmp_path: Path) -> None:
    class Counting(Fixed):
        def count_tokens(self, prompt: Prompt) -> int:
            return len(prompt.messages)

    prompt = asking().prompt

    assert RecordingEngine(Counting(examples.completion()), tmp_path, lost=pytest.fail).count_tokens(prompt) == 1
    assert RecordingEngine(Fixed(examples.completion()), tmp_path, lost=pytest.fail).count_tokens(prompt) is None


def nth(number: int, content: str, *, equal_before: int = 0, **said: Any) -> Request:
    """Return the n-th request of one test."""
    asked = asking(content)
    origin = Origin(first=asked.key, equal_before=equal_before, test=said)
    return replace(asked, key=asked.key.numbered(number), origin=origin)


def text_of(answer: Completion | Declined) -> str:
    assert isinstance(answer, Completion)
    return answer.text


def test_recordings_of_a_test_are_found_by_request_in_any_order(tmp_path: Path) -> None:
    for number, (content, equal_before) in enumerate([("a", 0), ("b", 0), ("a", 1)], start=1):
        asked = nth(number, content, equal_before=equal_before)
        record(tmp_path, asked, examples.completion(f"{content}{number}"))

    assert text_of(replayed(tmp_path, nth(1, "b"))) == "b2"
    assert text_of(replayed(tmp_path, nth(2, "a"))) == "a1"
    assert text_of(replayed(tmp_path, nth(3, "a", equal_before=1))) == "a3"
    with pytest.raises(CallError, match=r"^no recorded answer: "):
        replayed(tmp_path, nth(4, "a", equal_before=2))
    with pytest.raises(CallError, match=r"^the prompt differs from the recording: line 1 was \"b\", is \"c\"; "):
        replayed(tmp_path, nth(2, "c"))


WARM: dict[str, Any] = {"temperature": 0.5, "model": "m"}


@pytest.mark.parametrize(
    ("now", "otherwise"),
    [
        (WARM, None),
        ({"model": "n"}, 'model was "m", is "n", temperature was 0.5, is not set'),
        ({**WARM, "seed": 3}, "seed was not set, is 3"),
    ],
)
def test_changed_settings_are_reported_or_rejected(tmp_path: Path, now: dict[str, Any], otherwise: str | None) -> None:
    record(tmp_path, nth(1, "a", **WARM), examples.completion())

    sent = replayed(tmp_path, nth(1, "a", **now)).sent

    assert sent is not None
    assert sent.asked_otherwise == otherwise
    if otherwise is not None:
        with pytest.raises(CallError, match=f"^the settings differ from the recording: {otherwise}; record it"):
            replayed(tmp_path, nth(1, "a", **now), strict=True)


def test_seed_of_a_repeat_is_not_a_changed_setting(tmp_path: Path) -> None:
    def second(seed: int) -> Request:
        return replace(nth(1, "a", seed=seed), repeat=1)

    record(tmp_path, replace(second(5), params=structs.replace(second(5).params, seed=6)), examples.completion())

    assert text_of(replayed(tmp_path, second(5), strict=True)) == '{"n": 1}'
    with pytest.raises(CallError, match="seed was 6, is 8"):
        replayed(tmp_path, second(7), strict=True)


def fill_up(folder: Path, asked: Request, text: str, *, strict: bool = False) -> str | None:
    """Call the engine only if there is no recording; return the recorded model."""
    fixed = Fixed(examples.completion(text))
    engine = RecordingEngine(fixed, folder, lost=pytest.fail, only_new=True, strict=strict)
    known = engine.remembered(asked)
    if known is None:
        engine.generate(asked)
        return None
    return known.model


def recorded_answers(folder: Path) -> dict[str, tuple[str, str]]:
    """Return the recorded prompts and answers, by file name."""
    return {
        path.stem: (one.prompt.messages[0].content, text_of(one.answer))
        for path, one in ((path, Recordings(folder).try_read(path)) for path in Recordings(folder).paths())
        if one is not None
    }


def test_mode_new_calls_only_for_missing_recordings(tmp_path: Path) -> None:
    record(tmp_path, nth(1, "a"), examples.completion("1"))
    record(tmp_path, nth(2, "b"), examples.completion("2"))

    found = [fill_up(tmp_path, nth(number, asked), "new") for number, asked in [(1, "c"), (2, "a"), (3, "b")]]

    assert found == [None, "m1", "m1"]
    first = nth(1, "a").key.id
    assert recorded_answers(tmp_path) == {first: ("a", "1"), f"{first}@2": ("b", "2"), f"{first}@3": ("c", "new")}
    assert text_of(replayed(tmp_path, nth(1, "c"))) == "new"


def test_mode_new_repeats_a_call_with_other_settings_only_if_strict(tmp_path: Path) -> None:
    record(tmp_path, nth(1, "a", temperature=0.5), examples.completion("1"))

    assert fill_up(tmp_path, nth(1, "a", temperature=0.7), "2") == "m1"
    assert fill_up(tmp_path, nth(1, "a", temperature=0.7), "2", strict=True) is None
    assert recorded_answers(tmp_path) == {nth(1, "a").key.id: ("a", "2")}


def test_mode_new_reports_an_unreadable_recording(tmp_path: Path) -> None:
    path = record(tmp_path, nth(1, "a"), examples.completion("1"))
    path.write_text("<<<<<<< ours")

    with pytest.raises(CallError, match="no call was made: fix the file, or remove it"):
        fill_up(tmp_path, nth(1, "a"), "2")
    assert path.read_text() == "<<<<<<< ours"


def whole(number: int, text: str = "{}", call: str = "a") -> dict[str, Any]:
    choice = {"message": {"content": text, "tool_calls": [{"id": call}]}}
    return {"id": f"c-{number}", "created": number, "timings": {"ms": number}, "choices": [choice]}


def begun(number: int) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": f"m-{number}", "role": "assistant"}}


@pytest.mark.parametrize(
    ("path", "first", "again", "changes"),
    [
        ("/chat/completions", whole(1), whole(2), False),
        ("/chat/completions", whole(1), whole(2, "[]"), True),
        ("/chat/completions", whole(1), whole(2, call="b"), True),
        ("/messages", begun(1), begun(2), False),
        ("/responses", {"id": "r-1"}, {"id": "r-2"}, True),
        ("/messages", [1], [2], True),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
def test_recording_of_an_application_call_changes_only_with_its_answer(
    tmp_path: Path, path: str, first: Any, again: Any, changes: bool, streamed: bool
) -> None:
    def served(body: Any) -> Completion:
        text = f"event: x\ndata: {json.dumps(body)}\n\ndata: [DONE]\n\n" if streamed else json.dumps(body)
        kind = "text/event-stream" if streamed else "application/json"
        answer = ServerAnswer(path=path, status=200, content_type=kind, body=text)
        return replace(examples.completion(), server=answer)

    recorded = record(tmp_path, asking(), served(first)).read_text()

    assert (record(tmp_path, asking(), served(again)).read_text() != recorded) is changes


def test_recording_again_in_another_order_changes_no_file(tmp_path: Path) -> None:
    engine = RecordingEngine(Fixed(examples.completion("1")), tmp_path, lost=pytest.fail)
    for number, asked in enumerate("ab", start=1):
        engine.generate(nth(number, asked))
    before = recorded_answers(tmp_path)

    again = RecordingEngine(Fixed(examples.completion("1")), tmp_path, lost=pytest.fail)
    for number, asked in [(2, "a"), (1, "b")]:
        again.generate(nth(number, asked))
    assert recorded_answers(tmp_path) == before

    again.generate(nth(3, "c"))
    again.generate(nth(1, "d"))  # its file has the second request
    first = nth(1, "a").key.id
    assert recorded_answers(tmp_path) == {**before, f"{first}@3": ("c", "1"), f"{first}@4": ("d", "1")}


def test_concurrent_equal_requests_get_separate_recordings(
    tmp_path: Path,
) -> None:
    def record_all(*order: int) -> None:
        engine = RecordingEngine(Fixed(examples.completion("1")), tmp_path, lost=pytest.fail)
        for number in order:
            engine.generate(nth(number, "a", equal_before=number - 1))

    record_all(3, 1, 4, 2)
    recorded = recorded_answers(tmp_path)
    record_all(2, 4, 1, 3, 5)

    assert len(recorded) == 4
    assert len(recorded_answers(tmp_path)) == 5
    assert recorded.items() < recorded_answers(tmp_path).items()
    for number in range(1, 6):
        replayed(tmp_path, nth(number, "a", equal_before=number - 1))


def test_mode_new_ignores_recordings_of_concurrent_calls(tmp_path: Path) -> None:
    record(tmp_path, nth(1, "a"), examples.completion("1"))
    engine = RecordingEngine(Fixed(examples.completion("2")), tmp_path, lost=pytest.fail, only_new=True)

    found = []
    for number in (1, 4, 3, 2):
        asked = nth(number, "a", equal_before=number - 1)
        found.append(engine.remembered(asked) is not None)
        if not found[-1]:
            engine.generate(asked)

    assert found == [True, False, False, False]
    assert sorted(text for _, text in recorded_answers(tmp_path).values()) == ["1", "2", "2", "2"]


def test_a_recording_is_read_once_while_its_file_stays(tmp_path: Path) -> None:
    for number, asked in enumerate("abc", start=1):
        record(tmp_path, nth(number, asked), examples.completion(asked))
    recordings, first = Recordings(tmp_path), nth(1, "a").key
    paths = recordings.paths()

    held = {path: recordings.try_read(path) for path in paths}
    assert all(recordings.try_read(path) is one for path, one in held.items())
    record(tmp_path, nth(2, "b"), examples.completion("again"))
    assert [text_of(one.answer) for one in recordings.read_of_test(first, 0)] == ["a", "again", "c"]


CALLED = '…lls": [{"id": "call_%s", "type": "functi'


def prompt(*contents: str, role: Role = "user") -> Prompt:
    return Prompt(messages=tuple(Message(role=role, content=content) for content in contents))


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (prompt("a"), prompt("a"), ""),
        (prompt("Read the text"), prompt("Read this text"), 'line 1 was "Read the text", is "Read this text"'),
        (prompt("One\nTwo\nThree"), prompt("One\nTwo\nFour"), 'line 3 was "Three", is "Four"'),
        (prompt("One"), prompt("One\nTwo"), 'line 1 was "One", is "One"'),
        (prompt("a", "b"), prompt("a", "c"), 'line 1 of message 2 was "b", is "c"'),
        (prompt("a"), prompt("a", "c"), "number of messages was 1, is 2"),
        (prompt("a"), prompt("a", role="system"), "role was user, is system"),
        (
            Prompt(messages=PROMPT.messages[:5]),
            Prompt(messages=tuple(read_messages(json.loads(json.dumps(TURNS[:5]).replace("7}", "9}"))))),
            'line 1 of message 3 was "find_order({"id": 7})", is "find_order({"id": 9})"',
        ),
        (
            Prompt(messages=PROMPT.messages[:5]),
            Prompt(messages=tuple(read_messages(json.loads(json.dumps(TURNS[:5]).replace("call_7", "call_9"))))),
            f'line 1 of message 3 was "{CALLED % "7"}…", is "{CALLED % "9"}…"',
        ),
        (prompt("\x1b[31m"), prompt("\x1b[32m"), 'line 1 was "\\x1b[31m", is "\\x1b[32m"'),
        (
            *(prompt(f"{'x' * 500}same {age} end") for age in ("old", "new")),
            f'line 1 was "…{"x" * 15}same old end", is "…{"x" * 15}same new end"',
        ),
    ],
)
def test_the_first_difference_of_two_prompts_is_shown(before: Prompt, after: Prompt, change: str) -> None:
    assert prompt_change(before, after) == change


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ({"a": [1]}, {"a": [1]}, ""),
        ({"type": "string"}, {"type": "number"}, '$.type was "string", is "number"'),
        ({"a": {"b": 1}}, {"a": {"c": 1}}, "$.a.b is gone, $.a.c is new"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "$.a[1] was 2, is 3"),
        ({"a": [1, 2]}, {"a": [1]}, "$.a was [1, 2], is [1]"),
        (True, 1, "$ was true, is 1"),
        (0.0, False, "$ was 0.0, is false"),
        ({"minimum": 0}, {"minimum": 0.0}, ""),
        (1, 1.5, "$ was 1, is 1.5"),
        ({"a": 1, "b": 1, "c": 1, "d": 1}, {}, "$.a is gone, $.b is gone and 2 more"),
    ],
)
def test_json_change_names_the_paths_of_the_first_differences(before: Any, after: Any, change: str) -> None:
    assert json_change(before, after) == change


def test_conversation_with_tools_is_recorded_unchanged() -> None:
    info = EngineInfo(engine="e", model="m", response_format=ResponseFormat.TEXT, streaming=True)
    asked = replace(request(), prompt=PROMPT)
    written = json.loads(json.dumps(Recording.of(asked, True, examples.completion(), info).to_dict()))

    assert written["messages"][2] == {**TURNS[2], "content": [""]}
    assert written["messages"][6] == {"role": "user", "content": ["In which city? As JSON."]}
    assert Recording.from_dict(written).describe_changes(replace(asked, schema=True)) == ""


@pytest.mark.parametrize(
    ("hostile", "problem"),
    [
        *(({"status": status}, f"server.status is {status}; ") for status in (-1, 0, 100, 199, 300, 307, 399, 600)),
        *(
            ({"status": status}, f"server.status is {json.dumps(status)}: expected int, got ")
            for status in (True, "307", 200.5, None)
        ),
        ({"content_type": "text/html\r\nRefresh: 0; url=//x"}, r"server.content_type is text/html\r\nRefresh: 0"),
        ({"content_type": "text/html\n"}, r"server.content_type is text/html\n; expected a media type"),
        *(({"content_type": kind}, "expected a media type") for kind in ("json", "a/b; c", "a /b", "\xe4/b", "a/b\0")),
        ({"content_type": 5}, "server.content_type is 5: expected str, got int"),
        ({"path": 5}, "server.path is 5: expected str, got int"),
        ({"body": ["\ud800"]}, "server.body contains a lone surrogate"),
    ],
)
def test_recording_with_a_redirect_or_header_injection_is_invalid(hostile: dict[str, Any], problem: str) -> None:
    server = ServerAnswer(path="/chat/completions", status=200, content_type="application/json", body="{}")
    info = EngineInfo(engine="e", model="m", response_format=ResponseFormat.TEXT, streaming=True)
    written = Recording.of(request(), True, replace(examples.completion(), server=server), info).to_dict()
    assert Recording.from_dict(written).answer.server == server

    with pytest.raises(RecordError) as refused:
        Recording.from_dict({**written, "server": {**written["server"], **hostile}})

    assert problem in str(refused.value)
