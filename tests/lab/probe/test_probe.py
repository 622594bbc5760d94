from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import GenerationParams, ResponseFormat
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.registry import find
from pytest_jsbench.lab.probe.calls import ProbeCalls
from pytest_jsbench.lab.probe.enforcement import Enforcement, ProbeMode, Replies, Reply, ReplyKind
from pytest_jsbench.lab.probe.probe import Probe, ProbePlan, documented_subset, ways_of
from pytest_jsbench.lab.probe.question_calls import QuestionCalls
from pytest_jsbench.lab.probe.questions import KEYWORDS, SHAPES, Words
from pytest_jsbench.prompts import find_template
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.records import MissingReason
from pytest_jsbench.run.limits import Refused
from pytest_jsbench.run.question import Question
from pytest_jsbench.run.record_keeper import Answered, AttemptResult, missing_attempt
from pytest_jsbench.run.variants import Variant
from tests.support import examples
from tests.support.fuzzing import at_least


def variant(engine: str) -> Variant:
    config = EngineConfig(name=engine, model="m", base_url="http://127.0.0.1:9/v1")
    return Variant(
        factory=find(engine),
        engine=config,
        user_settings={},
        template=find_template("schema", shots=0),
        params=GenerationParams(max_tokens=10),
        concurrency=1,
    )


def ways(engine: str, **reasoning: object) -> list[str]:
    return [str(mode) for mode in ways_of(variant(engine), reasoning=reasoning or None)]


@pytest.mark.parametrize("engine", ["anthropic", "lmstudio"])
def test_unsupported_response_format_is_left_out_also_with_reasoning(engine: str) -> None:
    expected = [
        f"{response_format}, {sent}, reasoning {reasoning}"
        for response_format in ("json_schema", "tool")
        for reasoning in ("off", "on")
        for sent in ("streamed", "in one piece")
    ]
    assert ways(engine, thinking=True) == expected


@pytest.mark.parametrize(
    ("engine", "at_home", "elsewhere"),
    [
        ("openai", "openai", None),
        ("anthropic", "anthropic", None),
        ("gemini", "gemini", None),
        ("groq", "groq", "groq"),
    ],
)
def test_known_provider_is_probed_within_its_subset_others_on_everything(
    engine: str, at_home: str, elsewhere: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sdk in ("OPENAI", "ANTHROPIC", "GOOGLE_GEMINI"):
        monkeypatch.delenv(f"{sdk}_BASE_URL", raising=False)
    found = [
        documented_subset(find(engine).describe(EngineConfig(name=engine, model="m", base_url=url)))
        for url in (None, "http://127.0.0.1:9/v1")
    ]
    assert found == [at_home, elsewhere]


class Simulated(Probe):
    """A probe of a simulated server with a given number of wrong answers at each load."""

    def __init__(self, plan: ProbePlan, chance: Random, wrong_at: Callable[[int], float]) -> None:
        calls: Any = SimpleNamespace(restart_peak=lambda _: lambda: 0, interrupted=False)
        super().__init__(plan, calls, QuestionCalls(calls), Words(chance))
        self._chance = chance
        self._wrong_at = wrong_at
        self.controls["prompt"] = Replies(planned=5, replies=(Reply(kind=ReplyKind.VIOLATES),) * 5)

    def _ask(self, variant: str, questions: Sequence[Any], *, in_flight: int, shown: Any = None) -> Replies:
        wrong = [self._chance.random() < self._wrong_at(in_flight) for _ in questions]
        kinds = [ReplyKind.VIOLATES if one else ReplyKind.CONFORMS for one in wrong]
        return Replies(planned=len(kinds), replies=tuple(Reply(kind=kind, traced=True) for kind in kinds))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong_at", "statement"),
    [
        (lambda _: 0.0, Enforcement.ENFORCED),
        (lambda _: 0.02, Enforcement.SOMETIMES_WRONG),
        (lambda _: 0.5, Enforcement.NOT_ENFORCED),
        (lambda in_flight: 0.3 if in_flight > 8 else 0.0, Enforcement.BREAKS_UNDER_LOAD),
        (lambda in_flight: 0.9 if in_flight > 1 else 0.0, Enforcement.BREAKS_UNDER_LOAD),
    ],
    ids=["sound", "wrong in 2 of 100", "only shown", "breaks above 8", "breaks above 1"],
)
def test_the_same_server_gives_the_same_statement_in_19_of_20_probes(
    wrong_at: Callable[[int], float], statement: Enforcement
) -> None:
    mode = ProbeMode(response_format=ResponseFormat.JSON_SCHEMA, streaming=True)
    plan = ProbePlan(
        ways={mode: variant("openai")},
        levels=(1, 8, 32),
        keywords=tuple(KEYWORDS),
        shapes=tuple(SHAPES),
        calls=5,
        more_under_load=True,
        control=None,
    )
    seeds = range(at_least(200))
    findings = [Simulated(plan, Random(seed), wrong_at)._find(mode) for seed in seeds]

    assert sum(finding.enforcement is statement for finding in findings) >= 0.95 * len(seeds)


def test_reasoning_fields_are_rejected_for_engine_without_request_body() -> None:
    with pytest.raises(EngineError, match="engine 'scripted' has no option 'extra_body'"):
        ways("scripted", thinking=True)


def test_probe_counts_the_calls_that_were_made_and_no_refused_ones() -> None:
    def ask(question: Question) -> Answered:
        asked.append(question)
        if len(asked) == 3:
            raise KeyboardInterrupt
        record = examples.record("c")
        outcome = AttemptFacts.of(record)
        missing = missing_attempt(question.attempt, Refused(MissingReason.LIMIT, "spent"))
        return Answered(AttemptResult(result=missing if len(asked) == 2 else outcome), record)

    asked: list[Question] = []
    mode = ProbeMode(response_format=ResponseFormat.JSON_SCHEMA, streaming=True)
    ways = {mode: variant("openai")}
    plan = ProbePlan(ways=ways, levels=(1,), keywords=(), calls=3, control=None)
    session: Any = SimpleNamespace(ask=ask, stop=lambda: None)
    calls = ProbeCalls(session, 1)
    probe = Probe(plan, calls, QuestionCalls(calls), Words(Random(1)))

    replies = probe._ask(mode.variant, probe._questions(ResponseFormat.JSON_OBJECT, 3), in_flight=1)
    calls.stop()

    assert len(asked) == 3
    assert (calls.made, len(replies.replies), replies.planned) == (2, 2, 3)
    assert calls.interrupted
