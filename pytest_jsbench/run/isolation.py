"""
Find the request that breaks a server: repeat each request that was in flight when it broke, one at a time.

A server that dies of one schema breaks all calls in flight. Each of them waits until no other call is in flight and the
server answers a harmless request again, and is then repeated. If the server breaks again, this request is the cause,
and is not sent a third time; the other requests get their answers. The user must allow this, since the server breaks
once more (--jsbench-isolate-crashes), and must have a supervisor that restarts the server. For the server of the
`local` engine, `local_guard` does the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from msgspec import structs

from pytest_jsbench.core.call_lock import CallLock
from pytest_jsbench.core.cases import Prompt
from pytest_jsbench.core.generations import CallError, Completion, Declined, FaultKind, Request
from pytest_jsbench.core.messages import Message
from pytest_jsbench.run.call_layers import Call, Tries

#: Statuses with which a gateway reports that the server behind it is gone.
_GATEWAY = frozenset({502, 503, 504})
#: Seconds between two requests that check whether the server answers again.
_PAUSE = 1.0
#: Maximum number of tokens in the answer to the harmless request.
_FEW_TOKENS = 16
_HARMLESS = Prompt(messages=(Message(role="user", content="Answer with an empty JSON object."),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """A layer around an engine that repeats the calls of a broken server one at a time."""

    #: Lock of the calls to this server, which all processes of the run share.
    lock: CallLock
    #: Makes the harmless call, which is not recorded.
    check: Call
    #: Maximum number of seconds to wait until a broken server answers again.
    patience: float
    #: Waits for a number of seconds.
    sleep: Callable[[float], None]

    def call(self, below: Call, request: Request, tries: Tries) -> Completion | Declined:
        """Make the call; if the server breaks, repeat it alone; raise a CallError of kind crash if it is the cause."""
        if request.origin.exchange is not None:  # an application repeats its calls itself
            return below(request, tries)
        try:
            with self.lock.register(alone=False):
                return below(request, tries)
        except CallError as error:
            if not has_server_gone(error):
                raise
            first = error
        with self.lock.register(alone=True):
            self._wait_for_server(request, first)
            tries.retries += 1
            tries.uncounted += not tries.wait_together  # the limits have not counted it either
            try:
                return below(request, tries)
            except CallError as error:
                if not has_server_gone(error):
                    raise
                raise self._blame(error) from None

    def _wait_for_server(self, request: Request, first: CallError) -> None:
        """Return once the server answers a harmless request; raise the first error if the patience ends."""
        waited = 0.0
        while not self._is_answering(request):
            if waited >= self.patience:
                raise first
            self.sleep(_PAUSE)
            waited += _PAUSE

    def _is_answering(self, request: Request) -> bool:
        """Return whether the server answers; a rejection is an answer too."""
        harmless = replace(
            request,
            prompt=_HARMLESS,
            schema={"type": "object"},
            offer=None,
            params=structs.replace(request.params, max_tokens=_FEW_TOKENS),
        )
        try:
            self.check(harmless, Tries())
        except CallError as error:
            return not has_server_gone(error) and error.kind is not FaultKind.TIMEOUT
        return True

    def _blame(self, error: CallError) -> CallError:
        # without the message of the error, which may contain a private address
        message = (
            "this request broke the server as the only request in flight, just after the server had answered another "
            "request"
        )
        return CallError(FaultKind.CRASH, message, status=error.status, broke_server=True)


def has_server_gone(error: CallError) -> bool:
    """Return whether a call failed because the server, or its process behind a gateway, broke or is gone."""
    if error.was_truncated or error.kind is FaultKind.CONNECTION:
        return True
    return error.kind is FaultKind.SERVER and error.status in _GATEWAY
