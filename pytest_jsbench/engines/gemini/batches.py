"""Gemini's batches: a file of requests, and a file of how they ended."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pytest_jsbench.core.generations import CallError, Completion, Declined, Failed, FaultKind, Sent
from pytest_jsbench.engines.batch_api import BatchLimits, BatchState, sound_id
from pytest_jsbench.engines.http.answer_builder import get
from pytest_jsbench.engines.http.calls import to_json
from pytest_jsbench.engines.http.faults import ProviderError
from pytest_jsbench.engines.provider_batches import ProviderBatches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.engines.batch_api import Result
    from pytest_jsbench.engines.gemini.engine import GeminiSettings

_PREFIXES = ("BATCH_STATE_", "JOB_STATE_")
#: how a batch ends, and what is then to be said of a request that has no result
_ENDED = {
    "SUCCEEDED": (FaultKind.BAD_RESPONSE, "the batch is completed, and its results do not hold this request"),
    "PARTIALLY_SUCCEEDED": (FaultKind.SERVER, "the batch is completed but for some requests, of which this is one"),
    "FAILED": (FaultKind.BAD_REQUEST, "the provider refused the batch"),
    "EXPIRED": (FaultKind.TIMEOUT, "the batch expired before this request was made"),
    "CANCELLED": (FaultKind.SERVER, "the batch was cancelled before this request was made"),
}
#: what a call of its own would have had as its status; in results there is the number that gRPC has for it
_STATUS = {3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 9: 400, 13: 500, 14: 503, 16: 401}


class GeminiBatches(ProviderBatches):
    """Hands batches to one server."""

    name_field = "key"

    _settings: GeminiSettings
    #: of a file 2 GB are documented, and no number of requests; all of it is held in memory while it is handed in
    limits = BatchLimits(requests=50_000, size=190_000_000)

    def line(self, name: str, request: Request) -> bytes:
        """The request as the input file holds it."""
        return to_json({"key": name, "request": self._settings.to_body(request)})

    def upload(self, lines: Sequence[bytes]) -> Callable[[], str]:
        """Upload the input file; what is returned makes the batch."""
        data = b"\n".join([*lines, b""])
        file: dict[str, Any] = {"file": {"displayName": "jsbench", "mimeType": "jsonl", "sizeBytes": len(data)}}
        headers, _ = self.send(
            f"/upload/{self._settings.api_version}/files",
            to_json(file),
            x_goog_upload_protocol="resumable",
            x_goog_upload_command="start",
            x_goog_upload_header_content_length=str(len(data)),
            x_goog_upload_header_content_type="jsonl",
        )
        place = headers.get("x-goog-upload-url")
        if not place:
            raise CallError(FaultKind.BAD_RESPONSE, "the server did not say where the file is to go")
        answer = self.ask(place, data, x_goog_upload_command="upload, finalize", x_goog_upload_offset="0")
        name = sound_id(get(answer, "file", "name"), of="the file")
        return lambda: self._create(name)

    def state(self, batch: str) -> BatchState:
        """How it is getting on."""
        operation = self._ask_for(batch)
        ended = _state(operation) in _ENDED
        counts = get(operation, "metadata", "batchStats")
        numbers = [_number(get(counts, f"{name}Count")) for name in ("successfulRequest", "failedRequest", "request")]
        return BatchState(
            ended=ended,
            answered=numbers[0],
            failed=numbers[1],
            total=numbers[2],
            unanswered=self._unanswered(operation) if ended else None,
        )

    def results(self, batch: str) -> Iterator[Result]:
        """What the output file holds."""
        sent = self._settings.sent(batch=batch)
        answer = self._ask_for(batch)
        file = get(answer, "metadata", "output", "responsesFile") or get(answer, "response", "responsesFile")
        if isinstance(file, str):
            yield from self.read_results(f"/{self._settings.api_version}/{quote(file)}:download?alt=media", sent)

    def read_result(self, line: Mapping[str, Any], sent: Sent) -> Completion | Declined:
        """A line of the output file."""
        if (error := line.get("error")) is not None:
            return self.classify(_named(error), sent)
        return self.read_answer(line.get("response"), sent)

    def _create(self, file: str) -> str:
        body = {"batch": {"inputConfig": {"fileName": file}, "displayName": "jsbench"}}
        answer = self.ask(f"{self._settings.model_path}:batchGenerateContent", to_json(body), once=True)
        return sound_id(answer.get("name"))

    def _ask_for(self, batch: str) -> Mapping[str, Any]:
        return self.ask(f"/{self._settings.api_version}/{quote(batch)}")

    def _unanswered(self, operation: Mapping[str, Any]) -> Failed:
        kind, message = _ENDED[_state(operation)]
        if (error := operation.get("error")) is not None:
            return self.refused(_named(error), kind, message)
        return Failed(kind=kind, message=message)


def _state(operation: object) -> str:
    state = str(get(operation, "metadata", "state"))
    for prefix in _PREFIXES:
        state = state.removeprefix(prefix)
    return state


def _number(value: object) -> int:
    """A count, which the API writes as a text; 0 for anything that is not one."""
    return int(value) if isinstance(value, str | int) and str(value).isdecimal() else 0


def _named(body: object) -> ProviderError:
    """The error, with the status that its number stands for."""
    error = ProviderError.parse(body)
    number = get(body, "code")
    return replace(error, status=_STATUS.get(number, error.status) if isinstance(number, int) else error.status)
