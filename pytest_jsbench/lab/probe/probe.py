"""Plan a probe's modes, and ask its questions in each mode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from msgspec import structs

from pytest_jsbench.adaptation.adapter import Adapted
from pytest_jsbench.adaptation.narrowing import adapt
from pytest_jsbench.adaptation.subsets import Subset, find_subset
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.generations import (
    EngineInfo,
    ResponseFormat,
)
from pytest_jsbench.engines.base import EngineConfig, EngineFactory
from pytest_jsbench.engines.engine_secrets import describe
from pytest_jsbench.engines.presets import is_preset, subset_of
from pytest_jsbench.lab.probe.calls import ProbeCalls
from pytest_jsbench.lab.probe.enforcement import (
    Enforcement,
    KeywordReplies,
    LevelReplies,
    ModeFinding,
    ProbeMode,
    Replies,
    is_hopeless,
)
from pytest_jsbench.lab.probe.question_calls import QuestionCall, QuestionCalls
from pytest_jsbench.lab.probe.questions import (
    KEYWORDS,
    SHAPES,
    ProbeQuestion,
    Shown,
    Words,
    any_question,
    keyword_question,
)
from pytest_jsbench.run.variants import Variant
from pytest_jsbench.verdicts import JudgePolicy

#: Response formats that promise JSON, the strongest first.
FORMATS = (ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL, ResponseFormat.JSON_OBJECT)
#: Response formats that send a schema.
WITH_SCHEMA = frozenset({ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL})
#: Number of questions for each keyword.
PER_KEYWORD = 3
#: Number of additional questions for a keyword with a wrong answer.
MORE_PER_KEYWORD = 6
#: Number of concurrent calls from which a server counts as loaded, and number of questions at such a level. If 2 of 100
#: answers are wrong, only 1 in 40 probes with this number of questions finds no fault.
_LOADED = 32
_QUESTIONS_UNDER_LOAD = 176
#: Maximum number of additional questions at the second-highest level if the highest has wrong answers.
_MOST_BELOW = 64
#: Policy for judging answers; a server that enforces the schema cannot send an answer that fails under this policy.
POLICY = JudgePolicy(extra_fields="allow", fences="forbid", reasoning="strip", duplicate_keys="fail")
#: Minimum token limit for answers with reasoning.
_LEAST_TOKENS_TO_REASON = 4096
INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlan:
    """The modes, levels, keywords and shapes to probe; after a fault, parts of the plan are skipped."""

    #: Variant of the run that makes the calls of each mode.
    ways: Mapping[ProbeMode, Variant]
    #: Numbers of concurrent calls, in ascending order.
    levels: tuple[int, ...]
    keywords: tuple[str, ...]
    #: Shapes of whole schemas to probe.
    shapes: tuple[str, ...] = ()
    #: Minimum number of questions at each level; a level has at least one question for each concurrent call.
    calls: int
    #: Whether levels that load the server get more questions; False if the user set the number.
    more_under_load: bool = False
    #: Variant without a response format; None if the engine always uses one.
    control: Variant | None

    def count_questions(self, in_flight: int) -> int:
        """Return the number of questions at a level."""
        under_load = _QUESTIONS_UNDER_LOAD if self.more_under_load and in_flight >= _LOADED else 0
        return max(self.calls, in_flight, under_load)

    @property
    def max_calls(self) -> int:
        """Number of calls, without retries, if no faults are found."""
        modes = len(self.ways) * sum(map(self.count_questions, self.levels))
        formats = {mode.response_format for mode in self.ways} & WITH_SCHEMA
        keywords = len(formats) * len((*self.keywords, *self.shapes)) * min(PER_KEYWORD, self.calls)
        return modes + keywords + self.calls * len(self.controls)

    @property
    def controls(self) -> tuple[Shown, ...]:
        """Locations of the schema in the control questions; the questions are sent once for each location."""
        if self.control is None:
            return ()
        formats = {mode.response_format for mode in self.ways}
        shown: tuple[Shown, ...] = ("prompt", "system message") if formats & WITH_SCHEMA else ()
        return (*shown, *(("nowhere",) if ResponseFormat.JSON_OBJECT in formats else ()))


def ways_of(
    base: Variant,
    formats: Iterable[ResponseFormat] | None = None,
    *,
    reasoning: Mapping[str, Any] | None = None,
    no_reasoning: Mapping[str, Any] | None = None,
) -> dict[ProbeMode, Variant]:
    """
    Return the engine's modes, each with its variant, for these formats or for all formats that the engine supports.

    Modes with and without streaming are separate unless the configuration sets streaming. Modes with and without
    reasoning are separate if `reasoning` contains the fields that turn reasoning on. Raise EngineError if the engine
    does not support a requested format.
    """
    describe(base.factory, base.engine)
    reasonings = [(reasons, with_body(base.engine, fields)) for reasons, fields in _reasonings(reasoning, no_reasoning)]
    for _, config in reasonings:
        describe(base.factory, config)
    ways: dict[ProbeMode, Variant] = {}
    for response_format in FORMATS if formats is None else formats:
        for reasons, config in reasonings:
            try:
                modes = list(vary_streaming(base, replace(config, response_format=response_format), reasons))
            except EngineError:
                if formats is not None:
                    raise
                continue
            ways.update((mode, way) for mode, way in modes if mode.response_format is response_format)
    return ways


def control_of(base: Variant) -> Variant | None:
    """Return the variant for control questions, without a response format; None if the engine always sets one."""
    plain = first_supported(base, (ResponseFormat.TEXT,))
    return None if plain is None else replace(base, name="control", engine=plain)


def first_supported(base: Variant, formats: Sequence[ResponseFormat]) -> EngineConfig | None:
    """Return the configuration with the first of these response formats that the engine supports; None without one."""
    for response_format in formats:
        config = replace(base.engine, response_format=response_format)
        try:
            info = describe(base.factory, config)
        except EngineError:
            continue
        if info.response_format is response_format:
            return config
    return None


def documented_subset(info: EngineInfo) -> str | None:
    """
    Return the name of the JSON Schema subset that the provider documents; None for a server that is
    neither a preset nor at the provider's own address.
    """
    return subset_of(info.engine) if info.provider is not None or is_preset(info.engine) else None


def select_fitting(names: Iterable[str], subset: str | None) -> tuple[str, ...]:
    """Return the keywords and shapes whose schemas need no change for the subset; without a subset, return all."""
    found_subset = find_subset(subset or "")
    return tuple(name for name in names if found_subset is None or _fits(name, found_subset))


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


def with_body(config: EngineConfig, fields: Mapping[str, Any]) -> EngineConfig:
    """Return the configuration with these fields added to requests."""
    if not fields:
        return config
    body = {**config.options.get("extra_body", {}), **fields}
    return replace(config, options={**config.options, "extra_body": body})


def vary_streaming(base: Variant, config: EngineConfig, reasons: bool | None) -> Iterator[tuple[ProbeMode, Variant]]:
    """Yield the modes with and without streaming, as far as the configuration leaves this open, with their variants."""
    configs = [config]
    if "stream" not in config.options:
        both = [replace(config, options={**config.options, "stream": stream}) for stream in (True, False)]
        configs = both if _accepts_config(base.factory, both[0]) else configs
    least_tokens = _LEAST_TOKENS_TO_REASON if reasons else 0
    params = structs.replace(base.params, max_tokens=max(base.params.max_tokens, least_tokens))
    for streamed in configs:
        info = describe(base.factory, streamed)
        mode = ProbeMode(response_format=info.response_format, streaming=info.streaming, reasoning=reasons)
        yield mode, replace(base, name=mode.variant, engine=streamed, params=params)


def _accepts_config(factory: EngineFactory, config: EngineConfig) -> bool:
    try:
        describe(factory, config)
    except EngineError:
        return False
    return True


class Probe:
    """
    A probe that asks the questions of a plan, one mode after the other.

    The command creates the probe with the calls of a run that has a variant for each mode, and iterates over the
    findings in the main thread. Ctrl-C ends the probe, and the findings so far are still returned.
    """

    def __init__(self, plan: ProbePlan, calls: ProbeCalls, questions: QuestionCalls, words: Words) -> None:
        self._plan = plan
        self._calls = calls
        self._asker = questions
        self._words = words
        #: Broken keywords and shapes of each response format whose keywords have been probed in a mode.
        self._broken: dict[ResponseFormat, tuple[str, ...]] = {}
        #: Replies to the control questions, by the location of the schema.
        self.controls: dict[Shown, Replies] = {}

    def ask_controls(self) -> Mapping[Shown, Replies]:
        """
        Ask the control questions without a response format, if the engine supports requests without one. Call this
        method once, before `findings`.
        """
        self.controls = self.ask_controls_again()
        return self.controls

    def ask_controls_again(self) -> dict[Shown, Replies]:
        """Ask control questions of the same kinds as before the findings; this does not affect the findings."""
        controls: dict[Shown, Replies] = {}
        for shown in self._plan.controls:
            assert self._plan.control is not None
            asked_as = ResponseFormat.JSON_OBJECT if shown == "nowhere" else ResponseFormat.JSON_SCHEMA
            questions = self._questions(asked_as, self._plan.calls)
            control = self._plan.control.name
            controls[shown] = self._ask(control, questions, in_flight=self._plan.levels[0], shown=shown)
        return controls

    def _control_of(self, response_format: ResponseFormat) -> Replies | None:
        """
        Return the replies to the format's control questions, for the location of the schema with the highest share of
        conforming answers; None without a control.
        """
        alike = [
            replies
            for shown, replies in self.controls.items()
            if (shown == "nowhere") is (response_format not in WITH_SCHEMA) and replies.decided
        ]
        return max(alike, key=lambda replies: replies.conforming / replies.decided, default=None)

    def findings(self) -> Iterator[ModeFinding]:
        """Ask the questions in each mode, in order, and yield the findings."""
        for mode in self._plan.ways:
            if self._calls.interrupted:
                yield ModeFinding(mode=mode, levels=(), unfinished=INTERRUPTED)
            else:
                yield self._find(mode)

    def _find(self, mode: ProbeMode) -> ModeFinding:
        finding = ModeFinding(mode=mode, levels=(), control=self._control_of(mode.response_format))
        for in_flight in self._plan.levels:
            level = self._ask_level(mode, in_flight, self._plan.count_questions(in_flight))
            finding = replace(finding, levels=(*finding.levels, level))
            if self._calls.interrupted or not _should_continue(finding):
                break
        last = finding.levels[-1]
        is_unclear = len(finding.levels) > 1 and last.replies.wrong > 0 and not finding.breaks_under_load
        if is_unclear and not self._calls.interrupted:
            fewer = finding.levels[-2].in_flight
            count = min(len(last.replies.replies), _MOST_BELOW)
            finding = replace(finding, below=self._ask_level(mode, fewer, count))
        not_asked = [f"{level} in flight" for level in self._plan.levels[len(finding.levels) :]]
        if mode.response_format in WITH_SCHEMA:
            first = finding.levels[0].replies
            sound = first.conforming > 0 and not is_hopeless(first)
            # in further modes of the format, only broken keywords are probed again: the fault may depend on the mode
            names = self._broken.get(mode.response_format, (*self._plan.keywords, *self._plan.shapes))
            if sound and names and not self._calls.interrupted:
                finding = replace(finding, keywords=tuple(self._ask_keywords(mode.variant, names)))
                self._broken.setdefault(mode.response_format, finding.broken)
                not_asked += [name for name in (*KEYWORDS, *SHAPES) if name not in names]
            else:
                not_asked.append("keywords")
        return replace(finding, not_asked=tuple(not_asked), unfinished=INTERRUPTED if self._calls.interrupted else "")

    def _ask_level(self, mode: ProbeMode, in_flight: int, count: int) -> LevelReplies:
        peak = self._calls.restart_peak(mode.variant)
        replies = self._ask(mode.variant, self._questions(mode.response_format, count), in_flight=in_flight)
        return LevelReplies(in_flight=in_flight, peak=peak(), replies=replies)

    def _questions(self, response_format: ResponseFormat, count: int) -> list[ProbeQuestion]:
        if response_format not in WITH_SCHEMA:
            # without a schema, the format promises only an object
            return [ProbeQuestion(schema={"type": "object"}, wanted=self._words.wrong()) for _ in range(count)]
        return [any_question(self._words, plain=bool(at % 2)) for at in range(count)]

    def _ask_keywords(self, variant: str, names: Iterable[str]) -> Iterator[KeywordReplies]:
        for name in names:
            replies = self._ask_about(variant, name, min(PER_KEYWORD, self._plan.calls))
            if replies.wrong and not self._calls.interrupted:
                replies += self._ask_about(variant, name, MORE_PER_KEYWORD)
            if replies.replies:
                yield KeywordReplies(keyword=name, replies=replies)
            if self._calls.interrupted:
                return

    def _ask_about(self, variant: str, name: str, count: int) -> Replies:
        questions = [keyword_question(name, self._words) for _ in range(count)]
        return self._ask(variant, questions, in_flight=self._plan.levels[0])

    def _ask(
        self, variant: str, questions: Sequence[ProbeQuestion], *, in_flight: int, shown: Shown | None = None
    ) -> Replies:
        """Ask the questions, at most `in_flight` at a time; after Ctrl-C, return the replies so far."""
        asked = [QuestionCall(variant=variant, question=question, shown=shown) for question in questions]
        return self._asker.ask(asked, in_flight=in_flight)


def _should_continue(finding: ModeFinding) -> bool:
    """Return whether to probe the next level."""
    last = finding.levels[-1].replies
    if last.enforcement in (Enforcement.MIXES_UP, Enforcement.REFUSED, Enforcement.UNDECIDED):
        return False
    return not finding.breaks_under_load and not is_hopeless(last)
