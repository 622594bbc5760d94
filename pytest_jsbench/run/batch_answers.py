"""Name the requests of a provider's batches, and write and read the file with the answers to these requests."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.files import IndexedLines, private
from pytest_jsbench.core.generations import CallError, Completion, Declined, Failed, FaultKind, Generation, Request
from pytest_jsbench.core.json_values import digest, from_json, to_json
from pytest_jsbench.records.records import MissingReason
from pytest_jsbench.run.limits import Refused

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from pytest_jsbench.core.generations import EngineInfo
    from pytest_jsbench.engines.base import Result

#: Length of a request's name in characters: `sha256-` and 160 bits of the hash; providers allow 64 characters.
_LENGTH = 47


def name_of(request: Request) -> str:
    """Return a request's name in a batch, which is a hash of the attempt and of the request's content."""
    params = request.params
    content = {
        "task": request.key.task,
        "id": request.key.id,
        "repeat": request.repeat,
        "messages": request.prompt.to_messages(),
        "schema": request.schema,
        "params": [params.max_tokens, params.temperature, params.seed],
    }
    if request.offer is not None:
        content |= {"offer": to_json(request.offer), "tool_choice": params.tool_choice}
    if request.origin.rewrite:  # a schema with another order has the same digest
        content["rewrite"] = request.origin.rewrite
    return digest(content).replace(":", "-")[:_LENGTH]


class BatchAnswers:
    """
    Writer of the answers file, with one line per request; if a request has several lines, the last line counts.

    The controller opens the file before the batches are submitted; `Submission` writes to the file in one thread. The
    file is closed before any worker reads it with `BatchedEngine`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        self._file = private(self._path).open("a", encoding="ascii")
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _traceback: TracebackType | None) -> None:
        self._file.close()

    def write(self, result: Result) -> None:
        """Write the result of a request."""
        name, generation = result
        self._line({"name": name, "generation": to_json(generation)})

    def refuse(self, name: str, reason: MissingReason, message: str) -> None:
        """Write the reason why a request has no answer in this run."""
        self._line({"name": name, "refused": {"reason": reason.value, "message": message}})

    def _line(self, data: dict[str, Any]) -> None:
        self._file.write(json.dumps(data, allow_nan=False) + "\n")


class BatchedEngine:
    """
    An engine that returns the answer to each request from the answers file.

    Each worker creates this engine instead of the provider's engine. The file is indexed at the first request, after
    the batches have ended; the worker's threads then call `generate` concurrently.
    """

    def __init__(self, path: Path, info: EngineInfo) -> None:
        #: Description of the provider's engine.
        self.info = info
        self._path = path
        self._lines: IndexedLines[str] | None = None
        self._lock = threading.Lock()

    def generate(self, request: Request) -> Completion | Declined:
        """
        Return the answer; raise CallError if the request failed, or Refused if it was not made or
        has no answer yet.
        """
        with self._lock:
            if self._lines is None and self._path.exists():
                self._lines = IndexedLines(self._path, lambda line: str(line["name"]))
        line = None if self._lines is None else self._lines.get(name_of(request))
        if line is None:
            raise CallError(FaultKind.ENGINE, f"no batch of this run contains {request.key}")
        if (refused := line.get("refused")) is not None:
            raise Refused(MissingReason(refused["reason"]), refused["message"])
        generation = from_json(Generation, line["generation"])
        if isinstance(generation, Failed):
            raise CallError(generation.kind, generation.message, status=generation.status)
        assert isinstance(generation, Completion | Declined)
        return generation

    def close(self) -> None:
        """Do nothing, since no resources are open."""
