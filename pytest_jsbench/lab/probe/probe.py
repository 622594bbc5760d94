"""A probe asks a server in each way it can be asked: which answers conform, and which belong to another question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import Any, assert_never

from pytest_jsbench.adaptation.changes import Adapted
from pytest_jsbench.adaptation.narrowing import adapt
from pytest_jsbench.adaptation.subsets import Subset, find_subset
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import (
    Completion,
    Decided,
    Declined,
    DeclineReason,
    EngineInfo,
    Failed,
    FaultKind,
    ResponseFormat,
)
from pytest_jsbench.core.text import sentence
from pytest_jsbench.engines.base import EngineConfig, EngineFactory
from pytest_jsbench.engines.presets import is_preset, subset_of
from pytest_jsbench.engines.secrets import describe
from pytest_jsbench.lab.probe.enforcement import (
    Enforcement,
    KeywordReplies,
    LevelReplies,
    ModeFinding,
    ProbeMode,
    Replies,
    Reply,
    ReplyKind,
)
from pytest_jsbench.lab.probe.questions import (
    KEYWORDS,
    ProbeQuestion,
    Words,
    any_question,
    keyword_question,
    object_question,
    words_of,
)
from pytest_jsbench.records.records import Record
from pytest_jsbench.run.attempts import Runner
from pytest_jsbench.run.in_flight import CallsInFlight
from pytest_jsbench.run.limits import Refused
from pytest_jsbench.run.session import RunSession
from pytest_jsbench.settings.variant import Variant
from pytest_jsbench.verdicts import FailureType, JudgePolicy

#: the formats that promise something, the strongest promise first
FORMATS = (ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL, ResponseFormat.JSON_OBJECT)
#: those that are given a schema
WITH_SCHEMA = frozenset({ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL})
#: questions for each keyword
PER_KEYWORD = 3
#: nothing is forgiven that a server which holds to the schema could not have sent
POLICY = JudgePolicy(extra_fields="allow", fences="forbid", reasoning="strip")
#: statuses by which a server says that it does not take the request
_REFUSING = frozenset({400, 422, 501})
#: a model that reasons needs room for it
_LEAST_TOKENS_TO_REASON = 4096
INTERRUPTED = "interrupted"
CUT_OFF = "cut off at the token limit; --max-tokens raises it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlan:
    """All that a probe will ask, unless what it finds makes the rest needless."""

    #: the ways of asking, each a variant of one run
    ways: Mapping[ProbeMode, Variant]
    #: calls in flight, rising
    levels: tuple[int, ...]
    keywords: tuple[str, ...]
    #: questions at each level, or as many as are in flight there
    calls: int
    #: asks without a response format; None where the engine cannot
    control: Variant | None

    def at_level(self, in_flight: int) -> int:
        """The number of questions at that level."""
        return max(self.calls, in_flight)

    @property
    def most_calls(self) -> int:
        """The most calls that it comes to, apart from retries."""
        modes = len(self.ways) * sum(map(self.at_level, self.levels))
        formats = {mode.response_format for mode in self.ways} & WITH_SCHEMA
        keywords = len(formats) * len(self.keywords) * min(PER_KEYWORD, self.calls)
        return modes + keywords + (self.calls if self.control is not None else 0)


def ways_of(
    base: Variant,
    formats: Iterable[ResponseFormat] | None = None,
    *,
    reasoning: Mapping[str, Any] | None = None,
    no_reasoning: Mapping[str, Any] | None = None,
) -> dict[ProbeMode, Variant]:
    """
    Find the ways in which the engine can be asked, in one of these formats or in any that it knows.

    Streaming and not, unless the configuration says which; with and without the fields that ask for reasoning, if there
    are any. EngineError where the engine cannot be asked at all, or not in a format that was named.
    """
    describe(base.factory, base.engine)
    reasonings = [
        (reasons, _with_body(base.engine, fields)) for reasons, fields in _reasonings(reasoning, no_reasoning)
    ]
    for _, config in reasonings:
        describe(base.factory, config)
    ways: dict[ProbeMode, Variant] = {}
    for response_format in FORMATS if formats is None else formats:
        for reasons, config in reasonings:
            try:
                modes = list(_streamed_or_not(base, replace(config, response_format=response_format), reasons))
            except EngineError:
                if formats is not None:
                    raise
                continue
            ways.update((mode, way) for mode, way in modes if mode.response_format is response_format)
    return ways


def control_of(base: Variant) -> Variant | None:
    """The way that asks for text; None where the engine always holds to a schema."""
    plain = replace(base.engine, response_format=ResponseFormat.TEXT)
    try:
        info = describe(base.factory, plain)
    except EngineError:
        return None
    return replace(base, name="control", engine=plain) if info.response_format is ResponseFormat.TEXT else None


def documented_subset(info: EngineInfo) -> str | None:
    """The subset of a preset, or of a provider at its own address; None where nothing is known of the server."""
    return subset_of(info.engine) if info.provider is not None or is_preset(info.engine) else None


def keywords_within(subset: str | None) -> tuple[str, ...]:
    """The keywords whose questions the provider's subset takes as they are; all, where no subset is known."""
    known = find_subset(subset or "")
    return tuple(keyword for keyword in KEYWORDS if known is None or _fits(keyword, known))


def _fits(keyword: str, subset: Subset) -> bool:
    schema = keyword_question(keyword, Words(Random(0))).schema  # noqa: S311  no secret
    adapted = adapt(schema, subset, "narrow")
    return isinstance(adapted, Adapted) and adapted.schema == schema


def _reasonings(
    on: Mapping[str, Any] | None, off: Mapping[str, Any] | None
) -> Iterator[tuple[bool | None, Mapping[str, Any]]]:
    if on is None and off is None:
        yield None, {}
        return
    yield False, off or {}
    if on is not None:
        yield True, on


def _with_body(config: EngineConfig, fields: Mapping[str, Any]) -> EngineConfig:
    """The configuration that sends these fields too."""
    if not fields:
        return config
    body = {**config.options.get("extra_body", {}), **fields}
    return replace(config, options={**config.options, "extra_body": body})


def _streamed_or_not(base: Variant, config: EngineConfig, reasons: bool | None) -> Iterator[tuple[ProbeMode, Variant]]:
    configs = [config]
    if "stream" not in config.options:
        both = [replace(config, options={**config.options, "stream": stream}) for stream in (True, False)]
        configs = both if _takes(base.factory, both[0]) else configs
    least_tokens = _LEAST_TOKENS_TO_REASON if reasons else 0
    params = replace(base.params, max_tokens=max(base.params.max_tokens, least_tokens))
    for streamed in configs:
        info = describe(base.factory, streamed)
        mode = ProbeMode(response_format=info.response_format, streaming=info.streaming, reasoning=reasons)
        yield mode, replace(base, name=str(mode), engine=streamed, params=params)


def _takes(factory: EngineFactory, config: EngineConfig) -> bool:
    try:
        describe(factory, config)
    except EngineError:
        return False
    return True


class Probe:
    """
    Asks the questions of a plan, one way of asking after the other.

    The command makes one with the session of a run, of which each way is a variant, and takes its findings one by one
    in its main thread; the calls run in the threads of `CallsInFlight`. Ctrl-C ends the asking: what is known until
    then is still given out. It keeps every question, so that an answer that belongs to another is known for what it is.
    """

    def __init__(self, plan: ProbePlan, session: RunSession, random: Random) -> None:
        self._plan = plan
        self._session = session
        self._words = Words(random)
        self._in_flight: CallsInFlight[Reply] = CallsInFlight(max(plan.levels))
        #: the number of the question that each word belongs to
        self._owners: dict[str, int] = {}
        self._asked = 0
        self._formats_with_keywords: set[ResponseFormat] = set()
        #: the replies where the schema was only shown; None where there is no such way, or not yet
        self.control: Replies | None = None
        self.calls = 0
        self.interrupted = False

    def ask_control(self) -> Replies | None:
        """Ask with the schema only shown, where the engine can be asked so: once, and before anything else."""
        if self._plan.control is not None:
            questions = self._questions(ResponseFormat.JSON_SCHEMA, self._plan.calls)
            runner = self._session.runner(self._plan.control.name)
            self.control = self._ask(runner, questions, in_flight=self._plan.levels[0], shown=True)
        return self.control

    def findings(self) -> Iterator[ModeFinding]:
        """Ask in each way, in their order, and say what is found."""
        try:
            for mode, way in self._plan.ways.items():
                if self.interrupted:
                    yield ModeFinding(mode=mode, levels=(), unfinished=INTERRUPTED)
                else:
                    yield self._find(mode, self._session.runner(way.name))
        finally:
            self._in_flight.stop()
            self._session.stop()

    def _find(self, mode: ProbeMode, runner: Runner) -> ModeFinding:
        levels: list[LevelReplies] = []
        keywords: tuple[KeywordReplies, ...] = ()
        assert runner.admission is not None
        for in_flight in self._plan.levels:
            questions = self._questions(mode.response_format, self._plan.at_level(in_flight))
            runner.admission.peak = 0
            replies = self._ask(runner, questions, in_flight=in_flight)
            levels.append(LevelReplies(in_flight=in_flight, peak=runner.admission.peak, replies=replies))
            if self.interrupted or replies.enforcement is not Enforcement.ENFORCED:
                break
        sound = levels[0].replies.enforcement is Enforcement.ENFORCED
        if sound and not self.interrupted and mode.response_format in WITH_SCHEMA - self._formats_with_keywords:
            self._formats_with_keywords.add(mode.response_format)
            keywords = tuple(self._ask_keywords(runner))
        return ModeFinding(
            mode=mode,
            levels=tuple(levels),
            keywords=keywords,
            control=self.control if mode.response_format in WITH_SCHEMA else None,
            unfinished=INTERRUPTED if self.interrupted else "",
        )

    def _questions(self, response_format: ResponseFormat, count: int) -> list[ProbeQuestion]:
        if response_format not in WITH_SCHEMA:
            return [object_question(self._words) for _ in range(count)]
        return [any_question(self._words, plain=bool(at % 2)) for at in range(count)]

    def _ask_keywords(self, runner: Runner) -> Iterator[KeywordReplies]:
        for keyword in self._plan.keywords:
            count = min(PER_KEYWORD, self._plan.calls)
            questions = [keyword_question(keyword, self._words) for _ in range(count)]
            replies = self._ask(runner, questions, in_flight=self._plan.levels[0])
            if replies.replies:
                yield KeywordReplies(keyword=keyword, replies=replies)
            if self.interrupted:
                return

    def _ask(
        self, runner: Runner, questions: Sequence[ProbeQuestion], *, in_flight: int, shown: bool = False
    ) -> Replies:
        """Ask so many at once; what is known when Ctrl-C is pressed is kept."""
        numbered = list(enumerate(questions, start=self._asked))
        self._asked += len(questions)
        for number, question in numbered:
            self._owners.update(dict.fromkeys(question.words, number))
        waiting = ((number, self._call(runner, question, number, shown)) for number, question in numbered)
        replies: list[Reply] = []
        try:
            for number, call in islice(waiting, in_flight):
                self._in_flight.add(number, call)
            for number, _ in numbered:
                replies.append(self._in_flight.take(number))
                for later, call in islice(waiting, 1):
                    self._in_flight.add(later, call)
        except KeyboardInterrupt:
            self.interrupted = True
        self.calls += len(replies)
        return Replies(planned=len(questions), replies=tuple(replies))

    def _call(self, runner: Runner, question: ProbeQuestion, number: int, shown: bool) -> Callable[[], Reply]:
        def call() -> Reply:
            try:
                record = runner.attempt(question.case(number, shown=shown))
            except Refused as refused:
                return Reply(kind=ReplyKind.UNDECIDED, wanted=question.wanted, message=refused.message)
            return self._read(record, question, number)

        return call

    def _read(self, record: Record, question: ProbeQuestion, number: int) -> Reply:
        """Read the record as the reply to the question."""
        match record.generation:
            case Completion(text=text):
                reply = self._read_answer(record, question, number, text)
            case Declined(reason=DeclineReason.UNSUPPORTED_SCHEMA, message=message):
                reply = Reply(kind=ReplyKind.REFUSED, message=message)
            case Failed(kind=FaultKind.BAD_REQUEST, status=status, message=message) if status in _REFUSING:
                reply = Reply(kind=ReplyKind.REFUSED, message=message)
            case Declined(message=message) | Failed(message=message):
                reply = Reply(kind=ReplyKind.UNDECIDED, message=message)
            case Decided() | None:
                reply = Reply(kind=ReplyKind.UNDECIDED, message=record.verdict.message)
            case never:
                assert_never(never)
        return replace(reply, wanted=question.wanted, message=sentence(reply.message))

    def _read_answer(self, record: Record, question: ProbeQuestion, number: int, text: str) -> Reply:
        verdict, words = record.verdict, words_of(text)
        foreign = any(self._owners.get(word, number) != number for word in words)
        cut_off = verdict.failure_type is FailureType.TRUNCATED and question.may_begin(text)
        kind = ReplyKind.VIOLATES
        if foreign:
            kind = ReplyKind.MIXED_UP
        elif verdict.passed:
            kind = ReplyKind.CONFORMS
        elif cut_off or verdict.failure_type in (FailureType.UNJUDGED, FailureType.REFUSAL):
            kind = ReplyKind.UNDECIDED
        message = CUT_OFF if cut_off else verdict.message
        return Reply(kind=kind, traced=bool(words & question.marks), text=text, message=message)
