"""
The `recorded` engine: answers kept beside the tests (`--jsbench-replay`); no key, no SDK, no call.

`--jsbench-engine-option folder=DIR` names the folder that `--jsbench-record` filled.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import EngineError, JSBenchError
from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Declined,
    EngineInfo,
    FaultKind,
    Request,
    ResponseFormat,
    Sent,
)
from pytest_jsbench.engines.base import TokenCounter, UnsharedFactory
from pytest_jsbench.engines.options import Options
from pytest_jsbench.engines.recorded.recordings import (
    Recording,
    Recordings,
    json_change,
    prompt_change,
    settings_change,
)
from pytest_jsbench.runs import journal

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_jsbench.core.prompts import Prompt
    from pytest_jsbench.engines.base import Engine, EngineConfig

OPTIONS = frozenset({"folder", "strict"})
_AGAIN = "record it again with --jsbench-record"


class RecordedEngine:
    """Answers each request with the recording of the same request; built once in each worker, it keeps no file open."""

    def __init__(self, recordings: Recordings, info: EngineInfo, *, strict: bool) -> None:
        self._recordings = recordings
        self._info = info
        #: whether an answer that was asked for with other settings is none
        self._strict = strict

    @property
    def info(self) -> EngineInfo:
        """Who answered then, for reports."""
        return self._info

    def generate(self, request: Request) -> Completion | Declined:
        """The recorded answer; CallError where there is none, or it was one to another prompt or schema."""
        try:
            recording = self._find(request)
        except JSBenchError as error:
            raise CallError(FaultKind.ENGINE, str(error)) from error
        if recording is None:
            path = self._recordings.path(request.key, request.repeat)
            raise CallError(FaultKind.ENGINE, f"no recorded answer: {path} is not there; {_AGAIN}")
        if changed := _changed(recording, request):
            raise CallError(FaultKind.ENGINE, f"{changed}; {_AGAIN}")
        before = {**recording.engine, **recording.params}
        settings = settings_change(recording.said, before, request.origin.said, repeat=request.repeat)
        if settings and self._strict:
            raise CallError(FaultKind.ENGINE, f"the settings are not the recorded ones: {settings}; {_AGAIN}")
        used: dict[str, Any] = {"temperature": None, "seed": None, **recording.params}
        sent = Sent(
            response_format=ResponseFormat(recording.engine["response_format"]),
            params=replace(request.params, **used),
            asked_otherwise=settings or None,
        )
        return replace(recording.answer, sent=sent)

    def _find(self, request: Request) -> Recording | None:
        """The recording of the same question of the same test, of equal ones the n-th; or else of the same place."""
        if (first := request.origin.first) is not None:
            recorded = self._recordings.of_test(first, request.repeat)
            equal = [one for one in recorded if not _changed(one, request)]
            if request.origin.equal_before < len(equal):
                return equal[request.origin.equal_before]
            if equal:  # asked more often than it was recorded
                return None
        return self._recordings.read(request.key, request.repeat)

    def close(self) -> None:
        """Nothing is open."""


def _changed(recording: Recording, request: Request) -> str:
    """What is asked otherwise than it was recorded; empty where nothing is."""
    changes = {
        "prompt": prompt_change(recording.prompt, request.prompt),
        "schema": json_change(recording.schema, request.schema),
    }
    return "; ".join(f"the {name} is not the recorded one: {change}" for name, change in changes.items() if change)


class RecordedFactory(UnsharedFactory):
    """Builds the `recorded` engine."""

    options = OPTIONS

    def check(self, config: EngineConfig) -> None:
        """See that the folder is there."""
        _recordings(config)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Who answered then."""
        return _describe(config)

    def build(self, config: EngineConfig) -> RecordedEngine:
        """The engine; each recording is read when it is asked for."""
        strict = Options(config, OPTIONS).flag("strict", default=False)
        return RecordedEngine(_recordings(config), _describe(config), strict=strict)


def _recordings(config: EngineConfig) -> Recordings:
    options = Options(config, OPTIONS)
    if "folder" not in config.options:
        message = f"engine '{config.name}' needs a folder: --jsbench-replay DIR, as --jsbench-record DIR filled it"
        raise EngineError(message)
    folder = Path(options.text("folder", default=""))
    if not folder.is_dir():
        message = f"no recorded answers: {folder} is no folder; fill it with --jsbench-record and an engine"
        raise EngineError(message, found=str(folder), expected="a folder", where="--jsbench-replay")
    if runs := journal.find_runs(folder):
        message = (
            f"no recorded answers in {folder}, which is {journal.what_is_in(folder)}: name what --jsbench-record "
            f"filled, or say the run again with --jsbench-engine=replay --jsbench-engine-option=records={runs[-1]}"
        )
        raise EngineError(message, found=str(runs[-1]), expected="recorded answers", where=str(folder))
    return Recordings(folder)


def _describe(config: EngineConfig) -> EngineInfo:
    recordings = _recordings(config)
    try:
        engines = [recording.engine for recording in recordings.all()]
    except JSBenchError as error:
        raise EngineError(f"engine '{config.name}': {error}") from error
    if not engines:
        found = journal.what_is_in(recordings.folder)
        message = (
            f"no recorded answers in {recordings.folder}, which is {found}; fill it with --jsbench-record and an engine"
        )
        raise EngineError(message)
    models = sorted({each["model"] for each in engines})
    return EngineInfo(
        engine=config.name,
        model=models[0] if len(models) == 1 else "several",
        response_format=ResponseFormat(engines[0]["response_format"]),
        streaming=all(each["streaming"] for each in engines),
        details={"recorded_engine": ", ".join(sorted({each["engine"] for each in engines}))},
    )


FACTORY = RecordedFactory()


class RecordingEngine:
    """
    Asks an engine and writes each answer into a folder, before the runner sees it. A call that broke leaves nothing.

    With `--jsbench-record`, each worker puts one around the run's engine. The threads of the calls in flight enter
    `generate`; each answer goes into a file of its own. `close`, at the end of the session, closes the engine.
    """

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self._recordings = Recordings(folder)

    @property
    def info(self) -> EngineInfo:
        """Who answers."""
        return self._engine.info

    def generate(self, request: Request) -> Completion | Declined:
        """The engine's answer, written down."""
        schema = copy.deepcopy(request.schema)  # which an engine may change
        answer = self._engine.generate(request)
        try:
            self._recordings.write(Recording.of(request, schema, answer, self.info))
        except JSBenchError as error:
            raise CallError(FaultKind.ENGINE, f"the answer came and is not recorded: {error}") from error
        return answer

    def count_tokens(self, prompt: Prompt) -> int | None:
        """The tokens of the prompt, where the engine can say."""
        return self._engine.count_tokens(prompt) if isinstance(self._engine, TokenCounter) else None

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()
