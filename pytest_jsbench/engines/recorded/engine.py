"""
The `recorded` engine: answers kept beside the tests (`--jsbench-replay`); no key, no SDK, no call.

`--jsbench-engine-option folder=DIR` names the folder that `--jsbench-record` filled.
"""

from __future__ import annotations

import copy
import itertools
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_jsbench.core.errors import EngineError, JSBenchError, RecordError
from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Declined,
    EngineInfo,
    FaultKind,
    Request,
    ResponseFormat,
)
from pytest_jsbench.engines.base import PASSED_ON, Remembered, TokenCounter, UnsharedFactory
from pytest_jsbench.engines.options import Options
from pytest_jsbench.engines.recorded.recordings import Recording, Recordings, equal_to
from pytest_jsbench.records import journal

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.core.prompts import Prompt
    from pytest_jsbench.engines.base import Engine, EngineConfig

OPTIONS = frozenset({"folder", "strict"})
_AGAIN = "record it again with --jsbench-record"


class RecordedEngine:
    """Answers each request with the recording of the same request; built once in each worker, it keeps no file open."""

    def __init__(self, recordings: Recordings, info: EngineInfo, *, strict: bool) -> None:
        self._recordings = recordings
        self.info = info
        #: whether an answer that was asked for with other settings is none
        self._strict = strict

    def generate(self, request: Request) -> Completion | Declined:
        """Find the recorded answer; CallError where there is none, or it was one to another prompt or schema."""
        try:
            recording = self._recordings.find(request)
        except JSBenchError as error:
            raise CallError(FaultKind.ENGINE, str(error)) from error
        if recording is None:
            path = self._recordings.path(request.key, request.repeat)
            raise CallError(FaultKind.ENGINE, f"no recorded answer: {path} is not there; {_AGAIN}")
        if changed := recording.changed(request):
            raise CallError(FaultKind.ENGINE, f"{changed}; {_AGAIN}")
        answer = recording.answer_to(request)
        if self._strict and answer.sent is not None and (settings := answer.sent.asked_otherwise):
            raise CallError(FaultKind.ENGINE, f"the settings are not the recorded ones: {settings}; {_AGAIN}")
        return answer

    def close(self) -> None:
        """Nothing is open."""


class RecordedFactory(UnsharedFactory):
    """Builds the `recorded` engine."""

    options = OPTIONS
    passes_on = PASSED_ON

    def check(self, config: EngineConfig) -> None:
        """See that the folder is there."""
        _recordings(config)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Who answered then."""
        recordings = _recordings(config)
        try:
            engines = [recordings.read(path).engine for path in recordings.paths()]
        except JSBenchError as error:
            raise EngineError(f"engine '{config.name}': {error}") from error
        if not engines:
            raise EngineError(_nothing_in(recordings.folder) + "; fill it with --jsbench-record and an engine")
        models = sorted({engine["model"] for engine in engines})
        return EngineInfo(
            engine=config.name,
            model=models[0] if len(models) == 1 else "several",
            response_format=ResponseFormat(engines[0]["response_format"]),
            streaming=all(engine["streaming"] for engine in engines),
            details={"recorded_engine": ", ".join(sorted({engine["engine"] for engine in engines}))},
        )

    def build(self, config: EngineConfig) -> RecordedEngine:
        """The engine; each recording is read when it is asked for."""
        strict = Options(config, OPTIONS).flag("strict", default=False)
        return RecordedEngine(_recordings(config), self.describe(config), strict=strict)


def _recordings(config: EngineConfig) -> Recordings:
    path = Options(config, OPTIONS).text("folder", default=None)
    if path is None:
        message = f"engine '{config.name}' needs what --jsbench-record filled: --jsbench-engine-option folder=DIR"
        raise EngineError(message)
    folder = Path(path)
    if not folder.is_dir():
        message = f"no recorded answers: {folder} is no folder; fill it with --jsbench-record and an engine"
        raise EngineError(message, found=str(folder), expected="a folder", option="replay")
    if runs := journal.find_runs(folder):
        message = (
            f"{_nothing_in(folder)}: name what --jsbench-record filled, or say the run again with "
            f"--jsbench-engine=replay --jsbench-engine-option=records={runs[-1]}"
        )
        raise EngineError(message, found=str(runs[-1]), expected="recorded answers", where=str(folder))
    return Recordings(folder)


def _nothing_in(folder: Path) -> str:
    return f"no recorded answers in {folder}, which is {journal.what_is_in(folder)}"


FACTORY = RecordedFactory()


class RecordingEngine:
    """
    Asks an engine and writes each answer into a folder, before the runner sees it. A call that broke leaves nothing.

    With `--jsbench-record`, each worker puts one around the run's engine. The threads of the calls in flight enter
    `generate`; each answer goes into a file of its own. `close`, at the end of the session, closes the engine.
    The answer to a question that is recorded goes into the file that has it, in whatever order a test now asks. One
    that cannot be written stands all the same, for it is paid for; `lost` is told why, and lets no more calls begin.

    With `only_new` (`--jsbench-record-mode=new`), only what is not recorded is asked, and what is recorded stays. The
    runner enters `remembered` before it waits for any limit, since nobody is called for what is there.
    """

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        *,
        lost: Callable[[str], None],
        only_new: bool = False,
        strict: bool = False,
    ) -> None:
        self._engine = engine
        self._recordings = Recordings(folder)
        self._lost = lost
        self._only_new = only_new
        #: whether an answer that was asked for with other settings is none
        self._strict = strict
        #: by the file's key and repeat, the question that it was written for
        self._written: dict[tuple[CaseKey, int], CaseKey] = {}
        #: the recordings of earlier runs; calls at once write theirs
        self._before = frozenset(self._recordings.paths())
        self._lock = threading.Lock()

    @property
    def info(self) -> EngineInfo:
        """Who answers."""
        return self._engine.info

    def remembered(self, request: Request) -> Remembered | None:
        """The recorded answer to the same prompt and schema; CallError where a recording cannot be read."""
        if not self._only_new:
            return None
        try:
            recording = self._recordings.find(request, among=self._before)
        except JSBenchError as error:
            message = f"{error}; nothing was asked: mend the file, or remove it"
            raise CallError(FaultKind.ENGINE, message) from error
        if recording is None or recording.changed(request) or self._is_taken(recording.key, request):
            return None
        answer = recording.answer_to(request)
        if self._strict and answer.sent is not None and answer.sent.asked_otherwise:
            return None
        return Remembered(answer=answer, model=recording.engine["model"])

    def generate(self, request: Request) -> Completion | Declined:
        """Ask the engine, and write its answer down."""
        schema = copy.deepcopy(request.schema)  # which an engine may change
        answer = self._engine.generate(request)
        recording = Recording.of(request, schema, answer, self.info)
        try:
            with self._lock:
                place = self._place(replace(request, schema=schema))
                self._recordings.write(replace(recording, key=place))
                self._written[place, request.repeat] = request.key
        except JSBenchError as error:
            why = getattr(error.__cause__, "strerror", None) or error
            self._lost(f"{self._recordings.folder} takes no more recorded answers: {why}; no more calls are made")
        return answer

    def _place(self, request: Request) -> CaseKey:
        """The key that names the answer's file: of the same question, or else one that this run has not written."""
        first, path = request.origin.first, self._recordings.path
        recorded: list[Recording] = []
        with suppress(RecordError):  # a file that cannot be read is written anew
            recorded = [] if first is None else self._recordings.of_test(first, request.repeat)
        equal, before = equal_to(request, [each for each in recorded if path(each.key, each.repeat) in self._before])
        if before < len(equal):
            return equal[before].key
        is_there = self._only_new and path(request.key, request.repeat).exists()
        if first is None or not (is_there or self._is_taken(request.key, request)):
            return request.key
        names = {each.key for each in recorded} | {key for key, _ in self._written}
        return next(key for key in map(first.numbered, itertools.count(2)) if key not in names)

    def _is_taken(self, key: CaseKey, request: Request) -> bool:
        """True where the file of that key has the answer to another question of this run."""
        return self._written.get((key, request.repeat), request.key) != request.key

    def count_tokens(self, prompt: Prompt) -> int | None:
        """The tokens of the prompt, where the engine can say."""
        return self._engine.count_tokens(prompt) if isinstance(self._engine, TokenCounter) else None

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()
