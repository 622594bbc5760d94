"""Gemini's batches: a file of requests, and a file of how they ended."""

from __future__ import annotations

import io
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import CallError, Completion, Declined, Failed, FaultKind, ResponseFormat, Sent
from pytest_jsbench.core.secrets import one_line
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.batch_api import (
    RETRIES,
    TIMEOUT,
    BatchLimits,
    BatchState,
    SDKBatches,
    sound_id,
    to_line,
)
from pytest_jsbench.engines.gemini import answers
from pytest_jsbench.engines.gemini.client import Arrived, arrived, http_client, new_client
from pytest_jsbench.engines.http.answer_builder import enclosed, get
from pytest_jsbench.engines.http.calls import parse_json, reading
from pytest_jsbench.engines.http.faults import EnclosedError, ProviderError, classify_error, retry_after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import tenacity

    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.engines.batch_api import Result
    from pytest_jsbench.engines.gemini.settings import GeminiSettings
    from pytest_jsbench.engines.requirements import Key

#: of a file 2 GB are documented, and no number of requests; all of it is held in memory while it is handed in
LIMITS = BatchLimits(requests=50_000, size=190_000_000)

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
_PASSING = frozenset({408, 429, 500, 502, 503, 504})
#: seconds before the first try after one that failed, where the server does not say
_WAIT = 0.5


class GeminiBatches(SDKBatches):
    """Hands batches to one server."""

    name_field = "key"

    def __init__(self, settings: GeminiSettings, *, key: Key) -> None:
        self._settings: GeminiSettings = replace(settings, streaming=False)
        options = {"headers": dict(settings.extra_headers), "timeout": int(TIMEOUT * 1000)}
        # of all but uploads, the SDK reads neither how many requests have ended nor why a batch failed
        self._https = [http_client(settings, handing_over=handing_over) for handing_over in (True, False)]
        self._client, self._uploading = (new_client(settings, key, http, **options) for http in self._https)
        super().__init__(
            sdk=None,
            sdk_error=EnclosedError,
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
        return to_line({"key": name, "request": self._settings.to_body(request)})

    def upload(self, lines: Sequence[bytes]) -> Callable[[], str]:
        """Upload the input file; what is returned makes the batch."""
        with self.explained():
            file = self._uploaded(b"\n".join([*lines, b""]))
        return lambda: self._create(file)

    def state(self, batch: str) -> BatchState:
        """How it is getting on."""
        found = self._found(batch)
        ended = _state(found) in _ENDED
        counts = get(found, "metadata", "batchStats")
        numbers = [_number(get(counts, f"{name}Count")) for name in ("successfulRequest", "failedRequest", "request")]
        return BatchState(
            ended=ended,
            answered=numbers[0],
            failed=numbers[1],
            total=numbers[2],
            unanswered=self._unanswered(found) if ended else None,
        )

    def results(self, batch: str) -> Iterator[Result]:
        """What the output file holds."""
        sent = self._settings.sent(batch=batch)
        found = self._found(batch)
        file = get(found, "metadata", "output", "responsesFile") or get(found, "response", "responsesFile")
        if not isinstance(file, str):
            return
        with self.explained(), closing(arrived(lambda: self._client.files.download(file=file)).response) as response:
            yield from self.read_results(response, sent)

    def close(self) -> None:
        """Close the clients' connections."""
        for client in self._https:
            client.close()

    def read_result(self, line: Mapping[str, Any], sent: Sent) -> Completion | Declined:
        """A line of the output file."""
        if (error := line.get("error")) is not None:
            return self.classify(_named(error), sent)
        with reading():
            return answers.read_whole(enclosed(line.get("response")), Stopwatch()).to_generation(sent)

    def _uploaded(self, data: bytes) -> str:
        from google.genai.errors import APIError

        config: Any = {"mime_type": "jsonl", "display_name": "jsbench"}
        try:
            file = self._uploading.files.upload(file=io.BytesIO(data), config=config)
        except APIError as error:
            headers = getattr(error.response, "headers", None)
            raise EnclosedError(error.details, status=error.code, headers=headers and dict(headers)) from None
        except (KeyError, TypeError):
            raise CallError(FaultKind.BAD_RESPONSE, "the server did not say where the file is to go") from None
        return str(file.name)

    def _create(self, file: str) -> str:
        # never twice: it is paid for
        with self.explained(), reading():
            make = self._client.batches.create
            config: Any = {"display_name": "jsbench"}
            return sound_id(_read(arrived(lambda: make(model=self._model, src=file, config=config))).get("name"))

    def _found(self, batch: str) -> dict[str, Any]:
        import tenacity

        trying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(RETRIES + 1),
            retry=tenacity.retry_if_exception(_passes),
            wait=_wait,
            reraise=True,
        )
        with self.polling(), reading():
            return trying(lambda: _read(arrived(lambda: self._client.batches.get(name=batch))))

    def _unanswered(self, found: Mapping[str, Any]) -> Failed:
        kind, message = _ENDED[_state(found)]
        if (error := found.get("error")) is not None:
            said = _named(error)
            outcome = classify_error(said, sent=Sent(response_format=ResponseFormat.TEXT), secret=self._key.value)
            kind = outcome.kind if isinstance(outcome, CallError) else kind
            message = f"{message}: {one_line(said.message, secret=self._key.value)}"
        return Failed(kind=kind, message=message)


def _read(found: Arrived) -> dict[str, Any]:
    """The operation, of which an error is a part like others."""
    with closing(found.response):
        operation = parse_json(found.response.read().decode("utf-8-sig"))
    return operation if isinstance(operation, dict) else {}


def _state(found: object) -> str:
    said = str(get(found, "metadata", "state"))
    for prefix in _PREFIXES:
        said = said.removeprefix(prefix)
    return said


def _number(said: object) -> int:
    """A count, which the API writes as a text; 0 for anything that is not one."""
    return int(said) if isinstance(said, str | int) and str(said).isdecimal() else 0


def _named(body: object) -> ProviderError:
    """The error, with the status that its number stands for."""
    error = ProviderError.parse(body)
    number = get(body, "code")
    return replace(error, status=_STATUS.get(number, error.status) if isinstance(number, int) else error.status)


def _passes(error: BaseException) -> bool:
    from httpx2 import TransportError

    return isinstance(error, TransportError) or (isinstance(error, EnclosedError) and error.status in _PASSING)


def _wait(state: tenacity.RetryCallState) -> float:
    """As long as the server says, or twice as long as before."""
    error = state.outcome.exception() if state.outcome else None
    said = retry_after(error.headers or {}) if isinstance(error, EnclosedError) else None
    return _WAIT * 2 ** (state.attempt_number - 1) if said is None else min(said, TIMEOUT)
