"""The parent's side of judging: one child process, replaced when it hangs, crashes or takes too much memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.child_process import ChildNotStarted, ChildProcess, KeptChild, Program
from pytest_jsbench.core.child_service import AlarmKind, best_alarm
from pytest_jsbench.core.errors import JudgeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: bytes of address space; judging the largest real schemas takes a tenth of it
_MEMORY = 4 << 30
#: schemas that the child keeps the text of
_KEPT_SCHEMAS = 128


class Guard(KeptChild):
    """Passes requests to the judging child: `Judge` makes it, `KeptChild` starts, replaces and ends the child."""

    def __init__(self, policy: Mapping[str, Any], *, alarm: AlarmKind | None = None, memory: int = _MEMORY) -> None:
        super().__init__(
            Program(
                module="pytest_jsbench.verdicts.child", settings=policy, memory=memory, alarm=alarm or best_alarm()
            ),
            at_once=True,
        )

    def _start(self) -> ChildProcess:
        try:
            return _JudgingChild(self._program)
        except ChildNotStarted as error:
            message = f"the judge's process did not start: {error}"
            raise JudgeError(message) from error


class _JudgingChild(ChildProcess):
    """One running child, with the schemas that it knows."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._keys: dict[str, int] = {}

    def send(self, requests: Sequence[Mapping[str, Any]]) -> None:
        """Send requests, each with the schema only where the child does not know it."""
        super().send([self._with_key(request) for request in requests])

    def _with_key(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The request with a key for its schema, and without the text where the child has that already."""
        rest = dict(request)
        schema: str = rest["schema"]
        key = self._keys.get(schema)
        if key is not None:
            del rest["schema"]
        else:
            full = len(self._keys) == _KEPT_SCHEMAS
            key = self._keys.pop(next(iter(self._keys))) if full else len(self._keys)
            self._keys[schema] = key
        rest["key"] = key
        return rest
