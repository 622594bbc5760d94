"""What the finish reasons of each wire format mean."""

from __future__ import annotations

import typing
from random import Random

import pytest

from pytest_jsbench.core.generations import CallError, Completion, Declined, DeclineReason, FaultKind, FinishReason
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.presets import ProviderPreset
from pytest_jsbench.engines.providers import openai
from pytest_jsbench.engines.providers.finish_reasons import CHAT_FINISH, MESSAGES_FINISH, RESPONSES_FINISH, TABLES
from tests.support.answer_reading import events, outcome
from tests.support.replies import SPEAKERS, Reply, Speaker


def test_finish_reasons_have_one_meaning_per_table() -> None:
    for table in TABLES:
        words = [word.lower() for row in table.rows for word in row.words]
        assert len(words) == len(set(words))


def test_finish_reasons_of_the_sdks_are_in_the_tables() -> None:
    import anthropic.types
    import anthropic.types.beta
    import openai.types.chat.chat_completion as chat
    import openai.types.responses as responses
    import openai.types.responses.response as response

    def words(hint: object) -> set[str]:
        return {word for part in (hint, *typing.get_args(hint)) for word in typing.get_args(part) if type(word) is str}

    def listed(table: object) -> set[str]:
        return {word for row in getattr(table, "rows") for word in row.words}  # noqa: B009

    assert words(chat.Choice.model_fields["finish_reason"].annotation) <= listed(CHAT_FINISH)
    assert words(anthropic.types.StopReason) | words(anthropic.types.beta.BetaStopReason) <= listed(MESSAGES_FINISH)
    details = words(response.IncompleteDetails.model_fields["reason"].annotation)
    assert details | words(responses.ResponseStatus) - {"incomplete"} <= listed(RESPONSES_FINISH)


CASES = [
    (name, word, row.meaning) for name, speaker in SPEAKERS.items() for row in speaker.finish.rows for word in row.words
]


def sent(speaker: Speaker, reply: Reply, *, streamed: bool) -> object:
    return events(*speaker.stream(reply, Random(3))) if streamed else speaker.whole(reply)


@pytest.mark.parametrize(("name", "word", "meaning"), CASES, ids=[f"{name}, {word}" for name, word, _ in CASES])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_finish_reason_of_a_partial_answer_has_its_meaning(
    name: str, word: str, meaning: object, *, streamed: bool
) -> None:
    speaker = SPEAKERS[name]
    result = outcome(speaker.wire, sent(speaker, Reply(text='{"city": "Os', finish=word), streamed=streamed))

    match meaning:
        case FinishReason.UNKNOWN:
            assert isinstance(result, CallError)
            assert (result.kind, f"'{word}'" in result.message) == (FaultKind.BAD_RESPONSE, True)
        case FinishReason():
            assert isinstance(result, Completion)
            assert (result.finish_reason, result.finish_word) == (meaning, "")
        case FaultKind():
            assert isinstance(result, CallError)
            # a failed response is explained by its error
            assert word == "failed" or (result.kind, f"'{word}'" in result.message) == (meaning, True)
        case _:
            assert meaning is DeclineReason.REFUSAL
            assert isinstance(result, Declined)


@pytest.mark.parametrize("name", SPEAKERS)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_unknown_finish_reason_needs_a_complete_document(name: str, *, streamed: bool) -> None:
    speaker = SPEAKERS[name]

    def of(text: str = "", **more: typing.Any) -> Completion | Declined | CallError:
        return outcome(speaker.wire, sent(speaker, Reply(text=text, finish="sunset", **more), streamed=streamed))

    for whole in (of('{"n": 1}'), of('```json\n{"n": 1}\n```'), of(calls=[("output", '{"n": 1}')])):
        assert isinstance(whole, Completion)
        assert (whole.finish_reason, whole.finish_word) == (FinishReason.UNKNOWN, "sunset")
    for text in ('{"n": ', "", "I would"):
        half = of(text)
        assert isinstance(half, CallError), text
        assert (half.kind, "'sunset'" in half.message) == (FaultKind.BAD_RESPONSE, True)


@pytest.mark.parametrize("word", ["STOP", "Tool-Calls", "Content-Filter", "MAX_TOKENS"])
def test_finish_reasons_ignore_case_and_hyphens(word: str) -> None:
    assert CHAT_FINISH.meaning(word) is not FinishReason.UNKNOWN


@pytest.mark.parametrize(
    ("words", "finish"),
    [
        (("STOP", "MAX_TOKENS"), FinishReason.LENGTH),
        (("MAX_TOKENS", "STOP"), FinishReason.LENGTH),
        (("FINISH_REASON_UNSPECIFIED", "STOP"), FinishReason.STOP),
    ],
)
def test_an_ordinary_end_replaces_only_an_unknown_one(words: tuple[str, ...], finish: FinishReason) -> None:
    speaker = SPEAKERS["gemini"]
    stream = [piece for word in words for piece in speaker.stream(Reply(text="{}", finish=word), Random(0))]
    result = outcome(speaker.wire, events(*stream))
    assert isinstance(result, Completion)
    assert result.finish_reason is finish


def test_preset_overrides_finish_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    preset = ProviderPreset(
        name="acme",
        title="Acme",
        base_url="http://h/v1",
        date="2026-11",
        sources=("https://acme.example",),
        formats={"chat": ()},
        finish_reasons={"stop": "length", "sunset": "server"},
    )
    monkeypatch.setattr(openai, "preset_of", lambda _: preset)
    options = {"formats": ["text"]}
    config = EngineConfig(name="acme", model="m", base_url=None, api_key=None, response_format=None, options=options)

    reasons = openai.openai_settings(config).wire.finish_reasons

    assert (reasons.meaning("stop"), reasons.meaning("sunset")) == (FinishReason.LENGTH, FaultKind.SERVER)
    assert CHAT_FINISH.meaning("stop") is FinishReason.STOP
