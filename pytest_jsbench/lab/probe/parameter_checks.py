"""Check whether a server honours temperature, seed, token limit and stop sequences, and refuses malformed requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_jsbench.core.generations import Completion, FinishReason
from pytest_jsbench.lab.probe.check import (
    Bench,
    Check,
    CheckAnswer,
    CheckFinding,
    CheckPlan,
    ServerFault,
    Setup,
    faulty,
    sound,
    undecided,
    without_evidence,
)

#: Prompt for a long text that differs each time, unless sampling is off.
STORY = "Write a long story about the sea."
#: Number of answers with the same settings that are compared.
_ANSWERS = 3
#: Minimum number of characters of a text that is compared.
_LONG_ENOUGH = 20
_TOO_SHORT = "too few answers are long enough to be compared"
#: Maximum number of characters of a token, for servers that do not report the number of tokens.
_LONGEST_TOKEN = 16
#: Minimum number of characters of a stop sequence, and of the text before it.
_STOP_LENGTH, _BEFORE_STOP = 3, 5


def _texts(answers: Sequence[CheckAnswer]) -> list[str]:
    """Return the texts that are long enough to be compared."""
    texts = [answer.completion.text for answer in answers if answer.completion is not None]
    return [text for text in texts if len(text) >= _LONG_ENOUGH]


def _stories(bench: Bench, setup: Setup, repeats: Sequence[int]) -> list[CheckAnswer]:
    """Request the same story in one piece, or streamed if the engine cannot do otherwise, with these seeds."""
    streamed = bench.plan.transfers(setup)[0]
    return bench.send([bench.call(setup, STORY, streamed=streamed, repeat=repeat) for repeat in repeats])


def check_temperature(bench: Bench) -> CheckFinding:
    """Compare how many different answers come with temperature 0 and with temperature 1."""
    check = "temperature"
    cold = _stories(bench, Setup.COLD_TEXT, [0] * _ANSWERS)
    hot = _stories(bench, Setup.HOT_TEXT, range(_ANSWERS))
    if (found := without_evidence(check, hot) or without_evidence(check, cold)) is not None:
        return found
    at_zero, at_one = _texts(cold), _texts(hot)
    if len(at_zero) < _ANSWERS or len(at_one) < _ANSWERS:
        return undecided(check, _TOO_SHORT, [*cold, *hot])
    counts = [f"{len(set(texts))} of {_ANSWERS}" for texts in (at_zero, at_one)]
    said = f"distinct answers: {counts[0]} at temperature 0, {counts[1]} at temperature 1"
    if len(set(at_one)) == 1:
        return faulty(check, f"ignored: {said}", [ServerFault.TEMPERATURE_IGNORED])
    if len(set(at_zero)) == _ANSWERS:
        return faulty(check, f"ignored, or sampled at 0: {said}", [ServerFault.TEMPERATURE_IGNORED])
    if len(set(at_zero)) == len(set(at_one)):
        return undecided(check, said)
    return sound(check, said)


def check_seed(bench: Bench) -> CheckFinding:
    """Compare answers with the same seed and with different seeds, at temperature 1."""
    check = "seed"
    same = _stories(bench, Setup.HOT_TEXT, [0] * _ANSWERS)
    others = _stories(bench, Setup.HOT_TEXT, range(1, _ANSWERS))
    if (found := without_evidence(check, same)) is not None:
        return found
    with_same, with_other = _texts(same), _texts(others)
    if len(with_same) < _ANSWERS or not with_other:
        return undecided(check, _TOO_SHORT, [*same, *others])
    if len({*with_same, *with_other}) == 1:
        return undecided(check, "all answers at temperature 1 are the same, whatever the seed")
    most = max(with_same.count(text) for text in with_same)
    if most == 1:
        said = f"ignored: {_ANSWERS} answers with the same seed are all different"
        return faulty(check, said, [ServerFault.SEED_IGNORED])
    if all(text in with_same for text in with_other):
        return undecided(check, "answers with other seeds are the same as with the same seed")
    return sound(check, f"{most} of {_ANSWERS} answers with the same seed are the same, and others differ")


def check_max_tokens(bench: Bench) -> CheckFinding:
    """Request a long text with a small token limit."""
    check = "max_tokens"
    limit = bench.plan.params(Setup.LIMITED_TEXT).max_tokens
    transfers = bench.plan.transfers(Setup.LIMITED_TEXT)
    answers = bench.send([bench.call(Setup.LIMITED_TEXT, STORY, streamed=each) for each in transfers * 2])
    if (found := without_evidence(check, answers)) is not None:
        return found
    completions = [answer.completion for answer in answers if answer.completion is not None]
    if over := [each for each in completions if _is_longer(each, limit)]:
        tokens = over[0].usage.output_tokens
        length = f"{len(over[0].text)} characters" if tokens is None else f"{tokens} tokens"
        return faulty(check, f"ignored: {length} with a limit of {limit} tokens", [ServerFault.LIMIT_IGNORED])
    ended = [each for each in completions if each.finish_reason is FinishReason.LENGTH]
    if unreported := [each for each in completions if _reaches(each, limit) and each not in ended]:
        reason = unreported[0].finish_word or unreported[0].finish_reason.value
        said = f"applied, but the finish reason of a truncated answer is {reason}, not length"
        return faulty(check, said, [ServerFault.LIMIT_UNREPORTED])
    if not ended:
        return undecided(check, f"all answers are shorter than the limit of {limit} tokens", answers)
    return sound(check, f"{len(ended)} of {len(completions)} answers are truncated at {limit} tokens, and say so")


def _is_longer(answer: Completion, limit: int) -> bool:
    tokens = answer.usage.output_tokens
    return len(answer.text) > limit * _LONGEST_TOKEN if tokens is None else tokens > limit


def _reaches(answer: Completion, limit: int) -> bool:
    return answer.usage.output_tokens == limit


def check_stop(bench: Bench) -> CheckFinding:
    """Request a text, and request it again with a word of this text as the stop sequence."""
    check = "stop"
    sampling = {"temperature": 0}
    first = bench.send([bench.own_call(STORY, sampling)])
    if (found := without_evidence(check, first)) is not None:
        return found
    text = "" if first[0].completion is None else first[0].completion.text
    stop = _choose_stop(text)
    if not stop:
        return undecided(check, "the answer has no word for a stop sequence")
    fields = {**sampling, "stop": [stop]}
    answers = bench.send([bench.own_call(STORY, fields, streamed=streamed) for streamed in (False, True, False)])
    if (found := without_evidence(check, answers)) is not None:
        return found
    completions = [answer.completion for answer in answers if answer.completion is not None]
    if wrong := [each for each in completions if stop in each.text]:
        said = f"ignored: {len(wrong)} of {len(completions)} answers contain the stop sequence"
        return faulty(check, said, [ServerFault.STOP_IGNORED], ((f"stop is {stop!r}, and the answer", wrong[0].text),))
    expected = text.partition(stop)[0].strip()
    stopped = [each for each in completions if each.text.strip() == expected]
    if not stopped:
        return undecided(check, "the answers differ without the stop sequence too", answers)
    return sound(check, f"{len(stopped)} of {len(completions)} answers end before the stop sequence")


def _choose_stop(text: str) -> str:
    """Return a word of the text that first occurs after its beginning; empty if there is none."""
    words = (word for word in text.split() if len(word) >= _STOP_LENGTH and word.isascii() and word.isalpha())
    return next((word for word in words if text.index(word) >= _BEFORE_STOP), "")


def _malformed() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield malformed requests, each with a description and the fields of its body."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    tool = {"type": "function", "function": {"name": "store", "parameters": schema}}
    named = {"type": "json_schema", "json_schema": {"name": "output", "schema": {"type": "no_such_type"}}}
    yield "messages that are a text", {"messages": "Answer with the word yes."}
    yield "a temperature that is a text", {"temperature": "hot"}
    yield "an unknown response format", {"response_format": {"type": "no_such_format"}}
    yield "a schema with an unknown type", {"response_format": named}
    yield (
        "a tool choice that is not offered",
        {"tools": [tool], "tool_choice": {"type": "function", "function": {"name": "no_such_tool"}}},
    )


def check_malformed(bench: Bench) -> CheckFinding:
    """Send malformed requests, which the server should refuse with a client error."""
    check = "malformed"
    requests = list(_malformed())
    answers = bench.send([bench.own_call("Answer with the word yes.", fields) for _, fields in requests])
    accepted, failed, refused = [], [], 0
    for answer, (name, _) in zip(answers, requests, strict=False):
        if answer.completion is not None:
            accepted.append(name)
        elif answer.status is not None and answer.status >= 500:
            failed.append(f"{name} (status {answer.status})")
        else:
            refused += answer.refused
    parts = [f"accepts {', '.join(accepted)}"] if accepted else []
    parts += [f"answers with a server error to {', '.join(failed)}"] if failed else []
    faults = [
        *([ServerFault.MALFORMED_ACCEPTED] if accepted else []),
        *([ServerFault.MALFORMED_FAILS] if failed else []),
    ]
    if faults:
        return faulty(check, "; ".join(parts), faults)
    if refused < len(requests):
        return undecided(check, next((each.message for each in answers if not each.refused), "interrupted"))
    return sound(check, f"{refused} of {refused} malformed requests are refused")


def _needs_seed(plan: CheckPlan) -> str:
    lacking = plan.lacks(Setup.HOT_TEXT)
    return lacking or ("the API has no seed" if plan.params(Setup.HOT_TEXT).seed is None else "")


def _needs_own_requests(plan: CheckPlan) -> str:
    return plan.lacks(Setup.TEXT) or ("" if plan.path else "only for Chat Completions")


PARAMETER_CHECKS = (
    Check(
        name="temperature",
        calls=lambda _: 2 * _ANSWERS,
        obstacle=lambda plan: plan.lacks(Setup.COLD_TEXT, Setup.HOT_TEXT),
        run=check_temperature,
    ),
    Check(
        name="seed",
        calls=lambda _: 2 * _ANSWERS - 1,
        obstacle=_needs_seed,
        run=check_seed,
    ),
    Check(
        name="max_tokens",
        calls=lambda plan: 2 * len(plan.transfers(Setup.LIMITED_TEXT)),
        obstacle=lambda plan: plan.lacks(Setup.LIMITED_TEXT),
        run=check_max_tokens,
    ),
    Check(
        name="stop",
        calls=lambda _: 4,
        obstacle=_needs_own_requests,
        run=check_stop,
    ),
    Check(
        name="malformed",
        calls=lambda _: len(list(_malformed())),
        obstacle=_needs_own_requests,
        run=check_malformed,
    ),
)
