"""The requests of a run's batches, and their answers: in a file, from which an engine gives them to each test."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.core.files import IndexedLines, private
from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Declined,
    Failed,
    FaultKind,
    Request,
    generation_from_dict,
    generation_to_dict,
)
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.runner.attempts import Runner
from pytest_jsbench.runner.limits import Refused
from pytest_jsbench.runs.records import MissingReason

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from pytest_jsbench.core.generations import EngineInfo
    from pytest_jsbench.engines.batch_api import Result
    from pytest_jsbench.runs.records import Attempt


def gather(
    runner: Runner, attempts: Iterable[Attempt], load: Callable[[CaseKey], Case | BrokenCase]
) -> Iterator[Request]:
    """
    The requests that the runner would send to its engine for these attempts.

    An attempt that ends before its call has none: its schema or prompt is broken, or its schema cannot be adapted.
    """
    engine = _Gathering(runner.engine.info)
    gathering = dataclasses.replace(runner, engine=engine, retries=0, admission=None)
    for attempt in attempts:
        gathering.attempt(load(attempt.key), repeat=attempt.repeat)
        yield from engine.taken()


def name_of(request: Request) -> str:
    """A request's name in a batch: the same for the same attempt that asks the same, and for no other."""
    params = request.params
    asked = {
        "task": request.key.task,
        "id": request.key.id,
        "repeat": request.repeat,
        "messages": request.prompt.to_messages(),
        "schema": request.schema,
        "params": [params.max_tokens, params.temperature, params.seed],
    }
    return digest(asked).replace(":", "-")[:_LENGTH]


#: `sha256-` and 160 bits of it; both providers allow 64 characters
_LENGTH = 47


class _Gathering:
    """An engine that collects its requests, and does not answer."""

    def __init__(self, info: EngineInfo) -> None:
        self.info = info
        self._requests: list[Request] = []

    def generate(self, request: Request) -> Completion | Declined:
        self._requests.append(request)
        raise CallError(FaultKind.ENGINE, "only gathered")

    def taken(self) -> list[Request]:
        requests, self._requests = self._requests, []
        return requests

    def close(self) -> None: ...


class BatchAnswers:
    """
    Writes the file of answers, one line for each request; of two lines of one request the later counts.

    The controller opens it before the batches are submitted; `Submission` writes to it in one thread. It is closed
    before any worker reads the file through `BatchedEngine`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        self._file = private(self._path).open("a", encoding="ascii")
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _traceback: TracebackType | None) -> None:
        self._file.close()

    def write(self, result: Result) -> None:
        """Write the outcome of a request."""
        name, generation = result
        self._line({"name": name, "generation": generation_to_dict(generation)})

    def refuse(self, name: str, reason: MissingReason, message: str) -> None:
        """Write why a request has no answer in this run."""
        self._line({"name": name, "refused": {"reason": reason.value, "message": message}})

    def _line(self, data: dict[str, Any]) -> None:
        self._file.write(json.dumps(data, allow_nan=False) + "\n")


class BatchedEngine:
    """
    Answers each request from the file of answers.

    Each worker makes one in the place of the provider's engine. The file is indexed at the first request, after the
    batches have ended; the worker's threads then call `generate` at the same time.
    """

    def __init__(self, path: Path, info: EngineInfo) -> None:
        self._path = path
        self._info = info
        self._lines: IndexedLines[str] | None = None
        self._lock = threading.Lock()

    @property
    def info(self) -> EngineInfo:
        """Who answered."""
        return self._info

    def generate(self, request: Request) -> Completion | Declined:
        """The answer; CallError where the request failed, Refused where it was not made or has no answer yet."""
        found = self._find(name_of(request))
        if found is None:
            raise CallError(FaultKind.ENGINE, f"no batch of this run holds {request.key}")
        if (refused := found.get("refused")) is not None:
            raise Refused(MissingReason(refused["reason"]), refused["message"])
        generation = generation_from_dict(found["generation"])
        if isinstance(generation, Failed):
            raise CallError(generation.kind, generation.message, status=generation.status)
        assert isinstance(generation, Completion | Declined)
        return generation

    def close(self) -> None:
        """Nothing is held open."""

    def _find(self, name: str) -> dict[str, Any] | None:
        with self._lock:
            if self._lines is None and self._path.exists():
                self._lines = IndexedLines(self._path, lambda line: str(line["name"]))
        return None if self._lines is None else self._lines.get(name)
