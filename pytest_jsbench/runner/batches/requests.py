"""What the attempts of a run would ask, without asking it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey
from pytest_jsbench.core.generations import CallError, Completion, Declined, FaultKind, Request
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.runner.attempts import Runner

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import EngineInfo
    from pytest_jsbench.runs.records import Attempt


def gather(
    runner: Runner, attempts: Iterable[Attempt], load: Callable[[CaseKey], Case | BrokenCase]
) -> Iterator[Request]:
    """
    The requests that the runner would make of its engine for these attempts.

    There is none for an attempt that ends before it is asked: a broken schema or prompt, one that cannot be adapted.
    """
    engine = _Gathering(runner.engine.info)
    gathering = dataclasses.replace(runner, engine=engine, retries=0, admission=None)
    for key, repeat in attempts:
        gathering.attempt(load(key), repeat=repeat)
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
    """An engine that notes what it is asked, and does not answer."""

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
