"""
The `scripted` engine: answers from a file or a function.

An answers file is a JSON object that maps each case to its answer, or JSON lines of `{"task"?, "id", …answer}`. A case
is named `task::id` or `id`; `*` stands for all other cases. An answer is

* a string, which is the text itself;
* an object with one of `text`, `instance` (sent as JSON), `calls` (tool calls: a list of `{"name", "arguments"}`),
  `decline` (`refusal` or `unsupported_schema`) and `fault` (a fault kind). Optional fields are `message`,
  `finish_reason`, `usage`, and `delay` and `ttft` in seconds. With a fault, the fields `status`, `retry_after` and
  `times` are optional too; `times` is the number of calls that fail, and later calls return the answer in the other
  fields;
* a list of such strings and objects, one for each repeat of the case; the last element also answers all later repeats.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import EngineError, describe_exhaustion, nearest
from pytest_jsbench.core.extensions import find_function
from pytest_jsbench.core.files import FileReader, Unreadable, parse_json
from pytest_jsbench.core.generations import (
    CalledTool,
    CallError,
    Completion,
    Declined,
    DeclineReason,
    EngineInfo,
    FaultKind,
    FinishReason,
    ResponseFormat,
    Sent,
    Usage,
)
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.base import FORWARDABLE_APIS, EngineFactory
from pytest_jsbench.engines.engine_options import Options, choose_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from enum import StrEnum

    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.engines.base import EngineConfig

EVERY_OTHER = "*"
#: Maximum value of `delay`, `ttft` and `retry_after`, in seconds.
_LONGEST_DELAY = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The scripted result of one call."""

    text: str | None = None
    #: Tool calls of the answer.
    calls: tuple[CalledTool, ...] = ()
    decline: DeclineReason | None = None
    fault: FaultKind | None = None
    message: str = ""
    finish_reason: FinishReason = FinishReason.STOP
    usage: Usage = field(default_factory=Usage)
    #: Duration of the whole call in seconds.
    delay: float = 0.0
    #: Time until the first token in seconds; None if the answer is not streamed.
    ttft: float | None = None
    status: int | None = None
    retry_after: float | None = None
    #: Number of calls that fail before a call is answered; None if all calls fail.
    times: int | None = None

    @classmethod
    def from_value(cls, value: object, *, where: str) -> Script:
        """Parse one answer; raise EngineError, which states what is wrong."""
        if isinstance(value, str):
            return cls(text=value)
        if not isinstance(value, Mapping):
            raise _script_error(where, f"expected a string or an object, found {value!r}")
        names = {entry.name for entry in fields(cls)} | {"instance"}
        for name in value:
            if name not in names:
                raise _script_error(where, f"unknown field '{name}': {nearest(str(name), names)}")
        _check_outcomes(value, where)
        content = {name: _read(name, member, where) for name, member in value.items() if name != "instance"}
        if "instance" in value:
            content["text"] = json.dumps(value["instance"], ensure_ascii=False)
        return cls(**content)


def _check_outcomes(value: Mapping[str, Any], where: str) -> None:
    outcomes = [name for name in ("text", "instance", "calls", "decline") if name in value]
    if len(outcomes) > 1:
        raise _script_error(where, f"'{outcomes[0]}' and '{outcomes[1]}' exclude each other")
    if not outcomes and "fault" not in value:
        raise _script_error(where, "expected one of text, instance, calls, decline, fault")
    if "times" in value and not ("fault" in value and outcomes):
        raise _script_error(
            where, "'times' requires a fault and an answer after the fault (text, instance, calls or decline)"
        )


_WORDS: Mapping[str, type[StrEnum]] = {"decline": DeclineReason, "fault": FaultKind, "finish_reason": FinishReason}


def _read(name: str, value: Any, where: str) -> Any:
    if (words := _WORDS.get(name)) is not None:
        try:
            return words(str(value))
        except ValueError:
            nearest_word = nearest(str(value), [word.value for word in words])
            raise _script_error(where, f"unknown {name} {value!r}: {nearest_word}") from None
    match name:
        case "usage":
            return _usage(value, where)
        case "calls":
            return _calls(value, where)
        case "delay" | "ttft" | "retry_after":
            is_valid = type(value) in (int, float) and 0 <= value <= _LONGEST_DELAY
            expected = "a number of seconds"
        case "status" | "times":
            is_valid = type(value) is int and value > 0
            expected = "a whole number above 0"
        case _:
            is_valid = isinstance(value, str)
            expected = "a string"
    if not is_valid:
        raise _script_error(where, f"'{name}' must be {expected}, found {value!r}")
    return value


def _calls(value: object, where: str) -> tuple[CalledTool, ...]:
    """Parse tool calls; arguments that are not a string are sent as JSON."""
    calls = []
    for call in value if isinstance(value, list) else [None]:
        if not isinstance(call, Mapping) or call.keys() != {"name", "arguments"} or not isinstance(call["name"], str):
            raise _script_error(where, "'calls' must be a list of objects with the fields name and arguments")
        arguments = call["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        calls.append(CalledTool(name=call["name"], arguments=text))
    return tuple(calls)


def _usage(value: object, where: str) -> Usage:
    from pytest_jsbench.engines.http.calls import count

    names = {entry.name for entry in fields(Usage)}
    if not isinstance(value, Mapping) or not set(value) <= names:
        raise _script_error(
            where, f"'usage' must be an object with the fields {', '.join(sorted(names))}, found {value!r}"
        )
    for name, tokens in value.items():
        if name == "service_tier" and isinstance(tokens, str):
            continue
        if count(tokens) is None:
            raise _script_error(where, f"'{name}' must be a whole number of tokens, found {tokens!r}")
    return Usage(**value)


def _script_error(where: str, what: str) -> EngineError:
    return EngineError(f"{where}: {what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFile:
    """The answers of one file, by case."""

    source: str
    by_case: Mapping[str, tuple[Script, ...]]

    @classmethod
    def from_file(cls, path: Path) -> ScriptFile:
        """Read the file; raise EngineError with the position of the error."""
        text = FileReader(root=path.parent, error=EngineError).read_text(path)
        by_case = {}
        for name, values in _entries(text, path):
            where = f"{path}, {name}"
            if not values:
                raise _script_error(where, "expected an answer for each repeat, found an empty list")
            by_case[name] = tuple(Script.from_value(value, where=where) for value in values)
        return cls(source=str(path), by_case=by_case)

    def find(self, key: CaseKey, repeat: int) -> Script | None:
        """Return the answer for one attempt; None if the file has no answer for the attempt."""
        for name in (str(key), key.id, EVERY_OTHER):
            if scripts := self.by_case.get(name):
                return scripts[min(repeat, len(scripts) - 1)]
        return None


def _entries(text: str, path: Path) -> Iterable[tuple[str, list[Any]]]:
    """Return the answers by case, from one JSON object or from JSON lines."""
    try:
        document = parse_json(text)
    except Unreadable as error:
        try:
            parse_json(text.lstrip().partition("\n")[0])
        except Unreadable:
            raise _script_error(str(path), error.problem) from None
        return _lines(text, path)
    # A single JSON line is an object too, but only a JSON line has an "id".
    if isinstance(document, Mapping) and not isinstance(document.get("id"), str):
        return [(name, value if isinstance(value, list) else [value]) for name, value in document.items()]
    return _lines(text, path)


def _lines(text: str, path: Path) -> Iterable[tuple[str, list[Any]]]:
    """Return the answers by case; several lines for a case are its repeats, in order."""
    answers: dict[str, list[Any]] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            entry = parse_json(line)
        except Unreadable as error:
            raise _script_error(where, error.problem) from None
        if not isinstance(entry, Mapping) or not isinstance(entry.get("id"), str):
            raise _script_error(where, 'expected an object with an "id"')
        name = f"{entry['task']}::{entry['id']}" if "task" in entry else entry["id"]
        answer = {field: value for field, value in entry.items() if field not in ("task", "id")}
        answers.setdefault(name, []).append(answer)
    return answers.items()


class ScriptedEngine:
    """An engine that returns scripted answers."""

    def __init__(self, source: ScriptFile | Callable[[Request], Any], info: EngineInfo) -> None:
        self._source = source
        self.info = info
        self._sent = Sent(response_format=info.response_format)
        self._tries: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()

    def generate(self, request: Request) -> Completion | Declined:
        """Return the answer for the request, after its scripted delay."""
        answer = self._answer(request)
        exchange = request.origin.exchange
        return answer if exchange is None else exchange.answer_with(answer)

    def _answer(self, request: Request) -> Completion | Declined:
        answer = self._find(request)
        if isinstance(answer, Completion | Declined):
            return answer
        watch = Stopwatch()
        _wait(answer, request.params.timeout, watch)
        if answer.fault is not None and self._fails(answer, request):
            message = answer.message or f"a scripted fault: {answer.fault}"
            raise CallError(answer.fault, message, status=answer.status, retry_after=answer.retry_after)
        timing = watch.stop()
        usage = answer.usage
        if answer.decline is not None:
            message = answer.message or f"scripted: {answer.decline}"
            return Declined(reason=answer.decline, message=message, timing=timing, usage=usage, sent=self._sent)
        return Completion(
            text="\n".join(call.arguments for call in answer.calls) or answer.text or "",
            calls=answer.calls,
            finish_reason=answer.finish_reason,
            timing=timing,
            usage=usage,
            sent=self._sent,
        )

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _find(self, request: Request) -> Script | Completion | Declined:
        if isinstance(self._source, ScriptFile):
            script = self._source.find(request.key, request.repeat)
            if script is None:
                raise CallError(FaultKind.ENGINE, f"no answer for {request.key} in {self._source.source}")
            return script
        try:
            answer = self._source(request)
        except CallError:
            raise
        except Exception as error:
            if describe_exhaustion(error):  # the function is not at fault: the run stops making calls
                raise
            message = one_line(f"the answers function raised {type(error).__name__}: {error}")
            raise CallError(FaultKind.ENGINE, message) from error
        if isinstance(answer, Completion | Declined):
            return answer
        try:
            return Script.from_value(answer, where=f"the answer for {request.key}")
        except EngineError as error:
            raise CallError(FaultKind.ENGINE, one_line(str(error))) from None

    def _fails(self, script: Script, request: Request) -> bool:
        if script.times is None:
            return True
        attempt = (str(request.key), request.repeat)
        with self._lock:
            self._tries[attempt] += 1
            return self._tries[attempt] <= script.times


def _wait(script: Script, timeout: float, watch: Stopwatch) -> None:
    """Sleep for the scripted delay; raise CallError if the delay exceeds the timeout."""
    first = min(script.ttft if script.ttft is not None else script.delay, timeout)
    time.sleep(first)
    if script.ttft is not None and script.ttft <= timeout:
        watch.token()
    time.sleep(max(0.0, min(script.delay, timeout) - first))
    if max(script.delay, script.ttft or 0.0) > timeout:
        raise CallError(FaultKind.TIMEOUT, f"no complete answer within {timeout:g} s")
    if script.ttft is not None and script.delay > script.ttft:
        watch.token()


class ScriptedFactory(EngineFactory):
    """The factory for the `scripted` engine."""

    options = frozenset({"answers"})
    passes_on = FORWARDABLE_APIS

    def check(self, config: EngineConfig) -> None:
        """Check that the answers can be read."""
        self._source(config)

    def describe(self, config: EngineConfig) -> EngineInfo:
        """Describe the engine, without reading its answers."""
        Options(config, self.options)  # raises EngineError for an unknown option
        return EngineInfo(
            engine=config.name,
            model=config.model or "scripted",
            response_format=choose_format(config, (ResponseFormat.JSON_SCHEMA, *ResponseFormat)),
            # True, because a script may specify the time to the first token.
            streaming=True,
            offers_tools=True,
        )

    def build(self, config: EngineConfig) -> ScriptedEngine:
        """Build the engine and read its answers."""
        return ScriptedEngine(self._source(config), self.describe(config))

    def _source(self, config: EngineConfig) -> ScriptFile | Callable[[Request], Any]:
        remedy = "--jsbench-engine-option answers=FILE, or answers=package.module:function"
        answers = Options(config, self.options).required_text("answers", "answers", remedy)
        if not Path(answers).exists():
            kind = f"engine '{config.name}': answers"
            if function := find_function(answers, {}, kind=kind, takes="a request", error=EngineError):
                return function[1]
        return ScriptFile.from_file(Path(answers))


FACTORY = ScriptedFactory()
