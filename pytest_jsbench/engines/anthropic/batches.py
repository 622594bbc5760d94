"""Anthropic's Message Batches: requests in one body, and a file of what became of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import CallError, Declined, Failed, FaultKind, ResponseFormat, Sent
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.anthropic import answers
from pytest_jsbench.engines.anthropic.settings import explain, new_client
from pytest_jsbench.engines.batch_api import (
    RETRIES,
    TIMEOUT,
    BatchLimits,
    BatchState,
    explained,
    read_id,
    read_lines,
    settle_result,
    to_body,
    to_line,
)
from pytest_jsbench.engines.http.answer_builder import count, enclosed
from pytest_jsbench.engines.http.calls import reading
from pytest_jsbench.engines.http.faults import classify_error
from pytest_jsbench.engines.http.provider_errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytest_jsbench.core.generations import Completion, Request
    from pytest_jsbench.engines.anthropic.settings import MessagesSettings
    from pytest_jsbench.engines.batch_api import Result
    from pytest_jsbench.engines.requirements import Key

#: as documented; a little less than the 256 MB of a batch
LIMITS = BatchLimits(requests=100_000, size=240_000_000)

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


class AnthropicBatches:
    """Hands batches to one Messages server."""

    def __init__(self, settings: MessagesSettings, *, key: Key) -> None:
        self._settings = replace(settings, streaming=False)
        self._key = key
        self._client = new_client(
            settings, key, max_retries=RETRIES, timeout=TIMEOUT, default_headers=dict(settings.extra_headers)
        )

    @property
    def limits(self) -> BatchLimits:
        """The most that one batch may hold."""
        return LIMITS

    def line(self, name: str, request: Request) -> bytes:
        """The request as the batch's body holds it."""
        return to_line({"custom_id": name, "params": to_body(self._settings.to_arguments(request))})

    def upload(self, lines: Sequence[bytes]) -> Callable[[], str]:
        """See that the server is there, knows the key and has batches; what is returned makes one."""
        with self._explained():
            self._client.messages.batches.list(limit=1)
        return lambda: self._create(lines)

    def state(self, batch: str) -> BatchState:
        """How it is getting on."""
        with self._explained():
            found = self._client.messages.batches.retrieve(batch)
        names = ("processing", "succeeded", "errored", "canceled", "expired")
        counts = {name: count(getattr(found.request_counts, name, None)) or 0 for name in names}
        ended = found.processing_status == "ended"
        return BatchState(
            ended=ended,
            answered=counts["succeeded"],
            failed=counts["errored"] + counts["canceled"] + counts["expired"],
            total=sum(counts.values()),
            unanswered=_UNANSWERED if ended else None,
        )

    def results(self, batch: str) -> Iterator[Result]:
        """What the results file holds."""
        import anthropic

        sent = Sent(response_format=self._settings.response_format, batch=batch)
        with self._explained(), self._client.messages.batches.with_streaming_response.results(batch) as response:
            for line in read_lines(response.iter_bytes()):
                yield (
                    str(line.get("custom_id")),
                    settle_result(
                        lambda line=line: self._read(line, sent),  # type: ignore[misc]
                        lambda error: self._explain(error, sent),
                        sdk_error=anthropic.AnthropicError,
                    ),
                )

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def _create(self, lines: Sequence[bytes]) -> str:
        # never twice by the SDK's own doing: it is paid for
        once = self._client.with_options(max_retries=0)
        with self._explained():
            made = once.messages.batches.create(requests=[json.loads(line) for line in lines])
        return read_id(made)

    def _read(self, line: Mapping[str, Any], sent: Sent) -> Completion | Declined:
        found = line.get("result")
        result = found if isinstance(found, dict) else {}
        kind = result.get("type")
        if kind in _NOT_MADE:
            fault, message = _NOT_MADE[str(kind)]
            raise CallError(fault, message)
        if kind != "succeeded":
            return self._decide(result.get("error"), sent)
        with reading():
            return answers.read_whole(enclosed(result.get("message")), Stopwatch()).to_generation(sent)

    def _decide(self, body: object, sent: Sent) -> Declined:
        named = ProviderError.parse(body)
        status = next((status for name, status in _STATUS.items() if name in named.names), None)
        outcome = classify_error(replace(named, status=status), sent=sent, secret=self._key.value)
        if isinstance(outcome, CallError):
            raise outcome
        return outcome

    def _explained(self) -> Any:
        import anthropic

        about_all = Sent(response_format=ResponseFormat.TEXT)
        return explained(lambda error: self._explain(error, about_all), sdk_error=anthropic.AnthropicError)

    def _explain(self, error: Exception, sent: Sent) -> Declined | CallError:
        return explain(error, sent, address=self._settings.base_url, secret=self._key.value)
