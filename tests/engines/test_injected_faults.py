"""A run with every fault for every API, streaming and not: once before a valid answer, and permanently."""

from __future__ import annotations

import json
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from msgspec import structs

from pytest_jsbench.core.cases import Case, CaseKey, Prompt, safe_name
from pytest_jsbench.core.generations import (
    Completion,
    Decided,
    Declined,
    DeclineReason,
    Failed,
    GenerationParams,
    ResponseFormat,
    Sent,
)
from pytest_jsbench.core.messages import Message
from pytest_jsbench.engines.engine_options import is_installed
from pytest_jsbench.engines.http import client as http_client
from pytest_jsbench.engines.http import sdk_client
from pytest_jsbench.engines.registry import find
from pytest_jsbench.records.records import Record
from pytest_jsbench.run.attempts import Runner
from pytest_jsbench.run.call_layers import RETRIED
from pytest_jsbench.verdicts import Judge
from tests.support.api_servers import SPEAKERS, TEXT, THROUGH_SDKS, Speaker
from tests.support.engine_calls import CITY, completion_of
from tests.support.injected_faults import FAULTS, OVERSIZED, Injected
from tests.support.provider import Asked, Provider, Reply

pytestmark = pytest.mark.slow

#: Seconds for one call: a slow fault uses all of them, any other one hardly any on an idle machine.
SHORT, LONG = 2.5, 60.0
RETRIES = 1

_INSTALLED = tuple(speaker for speaker in SPEAKERS if is_installed(speaker.package))
_SPOKEN = tuple(speaker for speaker in _INSTALLED if speaker not in THROUGH_SDKS)
_SPOKEN_THROUGH_SDKS = tuple(speaker for speaker in _INSTALLED if speaker in THROUGH_SDKS)
if not _SPOKEN:
    pytest.skip("needs the extra openai, anthropic or gemini", allow_module_level=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One case: a fault of one API, transient or permanent."""

    speaker: Speaker
    fault: Injected
    mended: bool

    @property
    def key(self) -> CaseKey:
        ending = "once" if self.mended else "for ever"
        return CaseKey(task=safe_name(self.speaker.name), id=safe_name(f"{self.fault.name}, {ending}"))

    @property
    def retries(self) -> int:
        """Expected number of retries."""
        waits = self.fault.retry_after
        return RETRIES if self.fault.expected in RETRIED and (waits is None or waits < 120) else 0

    def reply(self, number: int) -> Reply:
        return self.speaker.good() if self.mended and number else self.fault.serve(self.speaker)


def _scripts(speakers: tuple[Speaker, ...]) -> tuple[Script, ...]:
    return tuple(
        Script(speaker=speaker, fault=fault, mended=mended)
        for fault in sorted(FAULTS, key=lambda fault: not fault.slow)
        for mended in (True, False)
        for speaker in speakers
    )


SCRIPTS = _scripts(_SPOKEN)


@dataclass(slots=True)
class Result:
    """The records of the run, and what servers and log have recorded."""

    records: dict[CaseKey, Record] = field(default_factory=dict)
    asked: dict[CaseKey, list[Asked]] = field(default_factory=dict)
    engines: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)


def _outcome(record: Record) -> str:
    match record.generation:
        case Completion():
            return "answered"
        case Declined(reason=reason):
            return reason.value
        case Failed(kind=kind):
            return kind.value
        case Decided() | None:
            return "not asked"


class _Log(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))


def _prompt(case: Case) -> Prompt:
    return Prompt(messages=(Message(role="user", content=json.dumps([case.key.task, case.key.id])),))


def _key_of(asked: Asked) -> CaseKey:
    body = asked.body
    last = (body.get("messages") or body.get("input") or body["contents"])[-1]
    task, case_id = json.loads(last["content"] if "content" in last else last["parts"][0]["text"])
    return CaseKey(task=task, id=case_id)


@pytest.fixture(scope="module")
def result() -> Result:
    return _run(SCRIPTS, _SPOKEN)


@pytest.fixture(scope="module")
def result_through_sdks() -> Result:
    for speaker in _SPOKEN_THROUGH_SDKS:  # an SDK builds its types at the first call
        with Provider() as provider:
            provider.replies.append(speaker.good())
            completion_of(speaker.config(provider))
    return _run(_scripts(_SPOKEN_THROUGH_SDKS), _SPOKEN_THROUGH_SDKS)


def _run(every: tuple[Script, ...], speakers: tuple[Speaker, ...]) -> Result:
    result = Result()
    scripts = {script.key: script for script in every}

    def choose(asked: Asked) -> Reply:
        key = _key_of(asked)
        calls = result.asked.setdefault(key, [])
        calls.append(asked)
        return scripts[key].reply(len(calls) - 1)

    handler = _Log(result.log)
    root = logging.getLogger()
    level = root.level
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_client, "LONGEST_BODY", OVERSIZED)
        patch.setattr(sdk_client, "LONGEST_BODY", OVERSIZED)
        root.addHandler(handler)
        stack.callback(root.removeHandler, handler)
        root.setLevel(logging.DEBUG)
        stack.callback(root.setLevel, level)
        provider = stack.enter_context(Provider(choose=choose))
        judge = stack.enter_context(Judge())
        runners = {speaker.name: _runner(speaker, provider, judge, stack, result) for speaker in speakers}

        def attempt(script: Script) -> Record:
            runner = runners[script.speaker.name]
            params = GenerationParams(max_tokens=64, timeout=SHORT if script.fault.slow else LONG)
            return replace(runner, params=params).attempt(Case(key=script.key, schema=CITY))

        # all slow calls at once, because they only wait
        with ThreadPoolExecutor(sum(1 for script in every if script.fault.slow)) as pool:
            result.records.update(zip(scripts, pool.map(attempt, every), strict=True))
    return result


def _runner(speaker: Speaker, provider: Provider, judge: Judge, stack: ExitStack, result: Result) -> Runner:
    config = speaker.config(provider)
    engine = stack.enter_context(closing(find(config.name).build(config)))
    result.engines += [repr(config), repr(engine), repr(engine.info), repr(vars(engine))]
    return Runner(
        engine=engine,
        judge=judge,
        template=_prompt,
        params=GenerationParams(max_tokens=64),
        retries=RETRIES,
        first_back_off=0.05,
    )


@pytest.mark.parametrize("script", [s for s in SCRIPTS if s.retries and s.mended], ids=lambda s: " ".join(_words(s)))
def test_transient_fault_costs_a_retry(result: Result, script: Script) -> None:
    record = result.records[script.key]
    assert isinstance(record.generation, Completion), record.generation
    assert record.generation.text == TEXT
    assert record.verdict.passed
    assert record.retries == 1


@pytest.mark.parametrize(
    "script", [s for s in SCRIPTS if not (s.retries and s.mended)], ids=lambda s: " ".join(_words(s))
)
def test_permanent_fault_is_recorded_with_its_kind(result: Result, script: Script) -> None:
    record = result.records[script.key]
    assert _outcome(record) == script.fault.expected.value, record.generation
    assert record.retries == script.retries
    assert not record.verdict.passed
    if script.fault.status is not None and isinstance(record.generation, Failed):
        assert record.generation.status == script.fault.status
    if isinstance(record.generation, Failed | Declined):
        assert record.generation.message.strip()
        assert script.fault.words in record.generation.message
    if isinstance(record.generation, Declined):
        assert record.generation.sent == Sent(response_format=ResponseFormat.JSON_SCHEMA)
        assert "\n" not in record.generation.message


def _words(script: Script) -> list[str]:
    return [script.key.task, script.key.id]


def test_each_script_has_its_record_and_number_of_calls(result: Result) -> None:
    assert len(result.records) == len(SCRIPTS)
    for key, record in result.records.items():
        assert record.key == key
        assert len(result.asked[key]) == record.retries + 1


def test_retry_after_is_respected(result: Result) -> None:
    for script in SCRIPTS:
        if script.fault.retry_after is not None and script.retries:
            first, second = result.asked[script.key]
            assert second.at - first.at >= script.fault.retry_after


def test_unsupported_schema_needs_a_schema_in_the_request(result: Result) -> None:
    unsupported = [key for key, r in result.records.items() if _outcome(r) == DeclineReason.UNSUPPORTED_SCHEMA.value]
    assert unsupported == [script.key for script in SCRIPTS if script.fault.name == "a rejected schema"]


#: Faults that an SDK describes in its own words.
_WORDED = {"garbage", "an empty body", "plain words", "bytes"}


@pytest.mark.parametrize("speaker", _SPOKEN_THROUGH_SDKS, ids=lambda speaker: speaker.name)
def test_records_through_an_sdk_equal_those_without(
    result: Result, result_through_sdks: Result, speaker: Speaker
) -> None:
    own = next(other for other in _SPOKEN if other.name == speaker.name.removesuffix(", SDK"))
    scripts = _scripts((speaker,))

    assert len(scripts) == 2 * len(FAULTS)
    for script in scripts:
        words = script.fault.name not in _WORDED
        through = _comparable(result_through_sdks.records[script.key], words=words)
        assert through == _comparable(result.records[replace(script, speaker=own).key], words=words), script.fault.name


def _comparable(record: Record, *, words: bool) -> str:
    """Return what a record says of the answer, without times, and with or without the words of a fault."""
    generation = record.generation
    if isinstance(generation, Failed) and not words:
        return repr((generation.kind, generation.status, record.retries))
    if isinstance(generation, Completion | Declined):
        generation = structs.replace(generation, timing=None)
    # the servers of the two runs have two ports
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", repr((generation, record.verdict, record.retries)))


def test_no_key_is_in_any_record_log_or_representation(result: Result) -> None:
    _check_secrecy(result, _SPOKEN)


def test_no_key_is_in_any_record_log_or_representation_of_an_sdk(result_through_sdks: Result) -> None:
    _check_secrecy(result_through_sdks, _SPOKEN_THROUGH_SDKS)


def _check_secrecy(result: Result, speakers: tuple[Speaker, ...]) -> None:
    texts: list[Any] = [json.dumps(record.to_dict()) for record in result.records.values()]
    texts += [repr(record) for record in result.records.values()] + result.log + result.engines
    assert len(texts) > 2 * len(result.records)
    for secret in {speaker.secret for speaker in speakers}:
        assert not [text for text in texts if secret in text]
