"""Anthropic's Message Batches: requests in one body, and a file of how they ended."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pytest_jsbench.core.generations import CallError, Declined, Failed, FaultKind, Sent
from pytest_jsbench.engines.anthropic.engine import PATH
from pytest_jsbench.engines.batch_api import BatchLimits, BatchState, sound_id
from pytest_jsbench.engines.http.answer_builder import as_object, count, get
from pytest_jsbench.engines.http.calls import to_json
from pytest_jsbench.engines.http.faults import ProviderError
from pytest_jsbench.engines.provider_batches import ProviderBatches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytest_jsbench.core.generations import Completion, Request
    from pytest_jsbench.engines.anthropic.engine import MessagesSettings
    from pytest_jsbench.engines.batch_api import Result

_PATH = f"{PATH}/batches"
#: what a call of its own would have had as its status; in results there is only the name
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_NOT_MADE = {
    "expired": (FaultKind.TIMEOUT, "the batch expired before this request was made"),
    "canceled": (FaultKind.SERVER, "the batch was cancelled before this request was made"),
}
_UNANSWERED = Failed(
    kind=FaultKind.BAD_RESPONSE, message="the batch has ended, and its results do not hold this request"
)


class AnthropicBatches(ProviderBatches):
    """Hands batches to one Messages server."""

    _settings: MessagesSettings
    #: as documented; a little less than the 256 MB of a batch
    limits = BatchLimits(requests=100_000, size=240_000_000)

    def line(self, name: str, request: Request) -> bytes:
        """The request as the batch's body holds it."""
        return to_json({"custom_id": name, "params": self._settings.to_body(request)})

    def upload(self, lines: Sequence[bytes]) -> Callable[[], str]:
        """See that the server is there, knows the key and has batches; what is returned makes one."""
        self.ask(f"{_PATH}?limit=1")
        data = b'{"requests":[%b]}' % b",".join(lines)
        return lambda: sound_id(self.ask(_PATH, data, once=True).get("id"))

    def state(self, batch: str) -> BatchState:
        """How it is getting on."""
        answer = self._ask_for(batch)
        names = ("processing", "succeeded", "errored", "canceled", "expired")
        counts = {name: count(get(answer, "request_counts", name)) or 0 for name in names}
        ended = answer.get("processing_status") == "ended"
        return BatchState(
            ended=ended,
            answered=counts["succeeded"],
            failed=counts["errored"] + counts["canceled"] + counts["expired"],
            total=sum(counts.values()),
            unanswered=_UNANSWERED if ended else None,
        )

    def results(self, batch: str) -> Iterator[Result]:
        """What the results file holds, which is where the batch says."""
        sent = self._settings.sent(batch=batch)
        place = self._ask_for(batch).get("results_url")
        if not isinstance(place, str):
            raise CallError(FaultKind.BAD_RESPONSE, "the server did not say where the batch's results are")
        yield from self.read_results(place, sent)

    def _ask_for(self, batch: str) -> Mapping[str, Any]:
        return self.ask(f"{_PATH}/{quote(batch, safe='')}")

    def read_result(self, line: Mapping[str, Any], sent: Sent) -> Completion | Declined:
        """A line of the results file."""
        result = as_object(line.get("result"))
        kind = result.get("type")
        if kind in _NOT_MADE:
            fault, message = _NOT_MADE[str(kind)]
            raise CallError(fault, message)
        if kind != "succeeded":
            return self.classify(_named(result.get("error")), sent)
        return self.read_answer(result.get("message"), sent)


def _named(body: object) -> ProviderError:
    """The error, with the status that its name stands for."""
    error = ProviderError.parse(body)
    return replace(error, status=next((status for name, status in _STATUS.items() if name in error.names), None))
