"""
The `scripted` engine: answers that are known beforehand, for tests of a suite and of this package.

`--jsbench-engine-option answers=FILE` names an answers file (`scripts`); `answers=package.module:function` a
function that gets the Request and returns a string, an answer as in the file, a Completion or a Declined, or
raises CallError.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.engines.imports import import_object, is_reference
from pytest_jsbench.engines.messages import one_line
from pytest_jsbench.engines.options import Options, choose_format
from pytest_jsbench.engines.scripts import Answers, Script
from pytest_jsbench.errors import EngineError
from pytest_jsbench.generations import (
    CallError,
    Completion,
    Declined,
    EngineInfo,
    FaultKind,
    ResponseFormat,
    Sent,
)
from pytest_jsbench.timing import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.generations import Request

OPTIONS = frozenset({"answers"})


class ScriptedEngine:
    """Says what it is told."""

    def __init__(self, source: Answers | Callable[[Request], Any], info: EngineInfo) -> None:
        self._source = source
        self._info = info
        self._sent = Sent(response_format=info.response_format)
        self._tries: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()

    @property
    def info(self) -> EngineInfo:
        """Who it is, for reports."""
        return self._info

    def generate(self, request: Request) -> Completion | Declined:
        """The answer for the request; it takes as long as it says."""
        answer = self._find(request)
        if isinstance(answer, Completion | Declined):
            return answer
        watch = Stopwatch()
        _spend(answer, request.params.timeout, watch)
        if answer.fault is not None and self._breaks(answer, request):
            message = answer.message or f"a scripted fault: {answer.fault}"
            raise CallError(answer.fault, message, status=answer.status, retry_after=answer.retry_after)
        if answer.decline is not None:
            message = answer.message or f"scripted: {answer.decline}"
            return Declined(
                reason=answer.decline,
                message=message,
                timing=watch.stop(),
                usage=answer.usage,
                sent=self._sent,
            )
        return Completion(
            text=answer.text or "",
            finish_reason=answer.finish_reason,
            timing=watch.stop(),
            usage=answer.usage,
            sent=self._sent,
        )

    def close(self) -> None:
        """Nothing to let go of."""

    def _find(self, request: Request) -> Script | Completion | Declined:
        if isinstance(self._source, Answers):
            script = self._source.find(request.key, request.repeat)
            if script is None:
                message = f"no answer for {request.key} in {self._source.source}"
                raise CallError(FaultKind.ENGINE, message)
            return script
        try:
            answer = self._source(request)
        except CallError:
            raise
        except Exception as error:
            message = one_line(f"the answers function raised {type(error).__name__}: {error}")
            raise CallError(FaultKind.ENGINE, message) from error
        if isinstance(answer, Completion | Declined):
            return answer
        try:
            return Script.from_value(answer, where=f"the answer for {request.key}")
        except EngineError as error:
            raise CallError(FaultKind.ENGINE, one_line(str(error))) from None

    def _breaks(self, script: Script, request: Request) -> bool:
        if script.times is None:
            return True
        attempt = (str(request.key), request.repeat)
        with self._lock:
            self._tries[attempt] += 1
            return self._tries[attempt] <= script.times


def _spend(script: Script, timeout: float, watch: Stopwatch) -> None:
    """Let the scripted time pass; an answer that takes longer than the call may is a timeout."""
    first = min(script.ttft if script.ttft is not None else script.delay, timeout)
    time.sleep(first)
    if script.ttft is not None and script.ttft <= timeout:
        watch.token()
    time.sleep(max(0.0, min(script.delay, timeout) - first))
    if max(script.delay, script.ttft or 0.0) > timeout:
        raise CallError(FaultKind.TIMEOUT, f"no complete answer within {timeout:g} s")
    if script.ttft is not None and script.delay > script.ttft:
        watch.token()


class ScriptedFactory:
    """Builds the `scripted` engine."""

    concurrency = 16
    shared = False
    max_tokens = 2048

    def check(self, config: EngineConfig) -> None:
        """See that the answers can be read."""
        _source(config)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Who the engine will be; no answers are read for it."""
        return _describe(config)

    def prepare(self, config: EngineConfig) -> AbstractContextManager[EngineConfig]:
        """Nothing is shared."""
        return nullcontext(config)

    def build(self, config: EngineConfig) -> ScriptedEngine:
        """The engine, with its answers read."""
        return ScriptedEngine(_source(config), _describe(config))


def _source(config: EngineConfig) -> Answers | Callable[[Request], Any]:
    options = Options(config, OPTIONS)
    if "answers" not in config.options:
        message = (
            f"engine '{config.name}' needs answers: --jsbench-engine-option answers=FILE, or"
            " answers=package.module:function"
        )
        raise EngineError(message)
    answers = options.text("answers", default="")
    if is_reference(answers) and not Path(answers).exists():
        function = import_object(answers, purpose=f"the answers of engine '{config.name}'")
        if not callable(function):
            message = f"{answers} is no function, but a {type(function).__name__}"
            raise EngineError(message)
        return function
    return Answers.from_file(Path(answers))


def _describe(config: EngineConfig) -> EngineInfo:
    return EngineInfo(
        engine=config.name,
        model=config.model or "scripted",
        response_format=choose_format(config, (ResponseFormat.JSON_SCHEMA, *ResponseFormat)),
        # an answer may be scripted to come token by token
        streaming=True,
    )


FACTORY = ScriptedFactory()
