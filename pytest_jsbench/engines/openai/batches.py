"""OpenAI's Batch API: a file of requests to Chat Completions or Responses, and files of how they ended."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import CallError, Declined, Failed, FaultKind, ResponseFormat, Sent
from pytest_jsbench.core.secrets import one_line
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.batch_api import (
    RETRIES,
    TIMEOUT,
    BatchLimits,
    BatchState,
    SDKBatches,
    read_id,
    to_line,
)
from pytest_jsbench.engines.http.answer_builder import count, enclosed
from pytest_jsbench.engines.http.calls import reading
from pytest_jsbench.engines.http.faults import ProviderError, classify_error
from pytest_jsbench.engines.openai import chat, responses
from pytest_jsbench.engines.openai.settings import Api

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from openai.types import Batch

    from pytest_jsbench.core.generations import Completion, Request
    from pytest_jsbench.engines.batch_api import Result
    from pytest_jsbench.engines.openai.settings import OpenAIAPI, OpenAISettings
    from pytest_jsbench.engines.requirements import Key

#: as documented; a little less than the 200 MB of a file
LIMITS = BatchLimits(requests=50_000, size=190_000_000)

#: how a batch ends, and what is then to be said of a request that has no result
_ENDED = {
    "completed": (FaultKind.BAD_RESPONSE, "the batch is completed, and its results do not hold this request"),
    "failed": (FaultKind.BAD_REQUEST, "the provider refused the batch"),
    "expired": (FaultKind.TIMEOUT, "the batch expired before this request was made"),
    "cancelled": (FaultKind.SERVER, "the batch was cancelled before this request was made"),
}
#: a single request's, in the error file
_NOT_MADE = {"batch_expired": "expired", "batch_cancelled": "cancelled"}


class OpenAIBatches(SDKBatches):
    """Hands batches to one server."""

    def __init__(self, settings: OpenAISettings, *, key: Key) -> None:
        import openai

        self._settings: OpenAISettings = replace(settings, streaming=False)
        self._api: OpenAIAPI = chat if settings.api is Api.CHAT else responses
        self._client = settings.new_client(
            key, max_retries=RETRIES, timeout=TIMEOUT, default_headers=dict(settings.extra_headers)
        )
        super().__init__(
            sdk=openai,
            sdk_error=openai.OpenAIError,
            client=self._client,
            address=settings.base_url,
            model=settings.model,
            key=key,
        )

    @property
    def limits(self) -> BatchLimits:
        """The most that one batch may hold."""
        return LIMITS

    def line(self, name: str, request: Request) -> bytes:
        """The request as the input file holds it."""
        body = self._api.to_body(self._settings, request)
        return to_line({"custom_id": name, "method": "POST", "url": self._endpoint, "body": body})

    def upload(self, lines: Sequence[bytes]) -> Callable[[], str]:
        """Upload the input file; what is returned makes the batch."""
        with self.explained():
            file = self._client.files.create(file=("jsbench.jsonl", b"\n".join([*lines, b""])), purpose="batch")
        return lambda: self._create(file.id)

    def state(self, batch: str) -> BatchState:
        """How it is getting on."""
        with self.polling():
            found = self._client.batches.retrieve(batch)
        counts = found.request_counts
        return BatchState(
            ended=found.status in _ENDED,
            answered=count(getattr(counts, "completed", None)) or 0,
            failed=count(getattr(counts, "failed", None)) or 0,
            total=count(getattr(counts, "total", None)) or 0,
            unanswered=self._unanswered(found) if found.status in _ENDED else None,
        )

    def results(self, batch: str) -> Iterator[Result]:
        """What the output file and the error file hold."""
        sent = self._settings.sent(batch=batch)
        with self.polling():
            found = self._client.batches.retrieve(batch)
        with self.explained():
            for file in (found.output_file_id, found.error_file_id):
                if file:
                    with self._client.files.with_streaming_response.content(file) as response:
                        yield from self.read_results(response, sent)

    @property
    def _endpoint(self) -> Any:
        return f"/v1{self._api.PATH}"

    def _create(self, file: str) -> str:
        # never twice by the SDK's own doing: it is paid for
        once = self._client.with_options(max_retries=0)
        with self.explained():
            made = once.batches.create(input_file_id=file, endpoint=self._endpoint, completion_window="24h")
        return read_id(made)

    def read_result(self, line: Mapping[str, Any], sent: Sent) -> Completion | Declined:
        """A line of the output file or of the error file."""
        error, response = line.get("error"), line.get("response")
        if isinstance(error, dict) and error.get("code") in _NOT_MADE:
            kind, message = _ENDED[_NOT_MADE[str(error["code"])]]
            raise CallError(kind, message)
        if not isinstance(response, dict):
            return self.classify(ProviderError.parse(error), sent)
        body, status = response.get("body"), count(response.get("status_code"))
        if status is not None and status >= 400:
            return self.classify(ProviderError.parse(body, status=status), sent)
        with reading():
            return self._api.read_whole(enclosed(body), Stopwatch()).to_generation(sent)

    def _unanswered(self, batch: Batch) -> Failed:
        kind, message = _ENDED[batch.status]
        problems = (batch.errors.data if batch.errors else None) or []
        if problems:
            first = problems[0]
            said = first.message or first.code or "no word of why"
            line = "" if first.line is None else f" (line {first.line} of its file)"
            error = ProviderError(message=said, status=400, names=frozenset([first.code] if first.code else []))
            outcome = classify_error(error, sent=Sent(response_format=ResponseFormat.TEXT), secret=self._key.value)
            kind = outcome.kind if isinstance(outcome, CallError) else kind
            more = f", and {len(problems) - 1:,} more" if len(problems) > 1 else ""
            message = f"{message}: {one_line(said, secret=self._key.value)}{line}{more}"
        return Failed(kind=kind, message=message)
