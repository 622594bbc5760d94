"""
The child process in which all judging happens.

It reads requests and writes replies as lines of JSON. It ends when its input does (the parent closed it, or
died), or by its own alarm when a step takes too long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.child_service import LAST, Service, encode
from pytest_jsbench.core.json_values import to_json
from pytest_jsbench.core.text import printable
from pytest_jsbench.verdicts.answer_text import PARTLY
from pytest_jsbench.verdicts.verdicts import FailureType, JudgePolicy, SchemaProblem, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_jsbench.core.child_service import Alarm
    from pytest_jsbench.verdicts.in_process import InProcessJudge

#: seconds for each step after the verdict itself: its violations, the second opinion
_DETAILS = 1.0

Reply = dict[str, Any]


def main(config: dict[str, Any]) -> None:
    """Serve until the input ends."""
    service = Service(config)
    service.limit_memory()
    settings = config["settings"]
    policy = JudgePolicy(**{**settings, "ignored_fields": tuple(settings["ignored_fields"])})
    try:
        judge = _load(policy)
    except ImportError as error:
        service.fail(error)
        return
    service.ready()
    clerk = Clerk(judge, service.alarm, service.send, policy.timeout)
    schemas: dict[int, str] = {}
    for request in service.requests():
        clerk.serve(_with_schema(request, schemas))


def _with_schema(request: dict[str, Any], schemas: dict[int, str]) -> dict[str, Any]:
    """The request with its schema's text, which is sent once and named by its key from then on."""
    key = request["key"]
    if "schema" in request:
        schemas[key] = request["schema"]
    return {**request, "schema": schemas[key]}


def _load(policy: JudgePolicy) -> InProcessJudge:
    """Import all that judging needs, so that no request's time goes into it."""
    from pytest_jsbench.verdicts.in_process import InProcessJudge

    if policy.validator != "jsonschema-rs":
        import pytest_jsbench.verdicts.second_opinion  # noqa: F401 - imported now rather than in a request
    return InProcessJudge(policy)


class Clerk:
    """Answers requests one after another: `main` makes it once, and the alarm bounds each step of an answer."""

    def __init__(self, judge: InProcessJudge, alarm: Alarm, send: Callable[[bytes], None], timeout: float) -> None:
        self._judge = judge
        self._alarm = alarm
        self._send = send
        self._timeout = timeout

    def serve(self, request: dict[str, Any]) -> None:
        """Send the replies to one request, and a last one that says so."""
        replies = self._replies(request)
        seconds = self._timeout
        while True:
            self._alarm.set(seconds)
            line = next(replies, None)
            self._alarm.off()
            if line is None:
                break
            self._send(line)
            seconds = min(_DETAILS, self._timeout)
        self._send(LAST)

    def _replies(self, request: dict[str, Any]) -> Iterator[bytes]:
        sent = False
        try:
            for reply in self._work(request):
                # a Decimal leaves as the double that everyone else reads
                yield encode(reply, float if "instance" in reply else None)
                sent = True
        except GeneratorExit:
            raise  # the parent is gone
        except MemoryError as error:
            if not sent:
                yield encode(_no_verdict(request, "memory", error))
        except BaseException as error:  # noqa: BLE001 - a fault of the judge, panics of Rust too, is no one's failure
            # a verdict that is out already stays: only its details are lost
            if not sent:
                yield encode(_no_verdict(request, "crashed", error))

    def _work(self, request: dict[str, Any]) -> Iterator[Reply]:
        if request["op"] == "inspect":
            yield {"problem": to_json(self._judge.inspect(request["schema"]))}
            return
        first = True
        for verdict in self._judge.judge(request["schema"], request["text"], truncated=request["truncated"]):
            reply: Reply = {"verdict": verdict.to_dict()}
            # what the whole text is, the parent reads there
            if first and not PARTLY.isdisjoint(verdict.notes):
                reply["instance"] = verdict.instance
            first = False
            yield reply


def _no_verdict(request: dict[str, Any], reason: str, error: BaseException) -> Reply:
    message = printable(f"{type(error).__name__}: {error}", cut="middle")
    if request["op"] == "inspect":
        problem = SchemaProblem(failure_type=FailureType.UNJUDGED, reason=reason, message=message)
        return {"problem": to_json(problem)}
    verdict = Verdict(failure_type=FailureType.UNJUDGED, valid=None, reason=reason, message=message)
    return {"verdict": verdict.to_dict()}
