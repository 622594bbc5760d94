"""Call the batch APIs of providers: submit a batch, query its state, and read its results."""

from __future__ import annotations

import json
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec import structs
from urllib3 import encode_multipart_formdata

from pytest_jsbench.core.generations import CallError, Completion, Declined, Failed, FaultKind, ResponseFormat, Sent
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.core.text import format_count, kind_of, printable
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.base import BatchLimits, BatchState, Result
from pytest_jsbench.engines.http.calls import (
    LONGEST_BODY,
    Deadline,
    EnclosedError,
    as_object,
    check_body,
    convert_parsing_errors,
    count,
    get,
    items,
    parse_json,
    settle,
    text_or_default,
    to_json,
)
from pytest_jsbench.engines.http.faults import ProviderError, classify_error, explain_error, retry_after
from pytest_jsbench.engines.providers import anthropic_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pytest_jsbench.core.generations import Request
    from pytest_jsbench.engines.engine_options import Key
    from pytest_jsbench.engines.http.client import Response
    from pytest_jsbench.engines.providers.provider import ProviderSettings

#: Maximum length of a batch's id, in characters; providers' ids have about 40.
_LONGEST_ID = 200
#: Maximum number of retries of a request to the batch API after a transient error.
RETRIES = 4
#: Timeout of a request that transfers no file, in seconds.
TIMEOUT = 120.0
#: Timeout for uploading a file with requests or downloading a file with results, in seconds.
LONG_TIMEOUT = 3600.0
#: Size of a request body, in bytes, from which LONG_TIMEOUT applies.
_SMALL = 1_000_000
#: Seconds before the first retry if the server does not send Retry-After.
_WAIT = 0.5
#: Transient HTTP statuses, which are retried.
_TRANSIENT = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
#: `Sent` value for errors that concern a whole batch and therefore no particular schema.
_NO_SCHEMA = Sent(response_format=ResponseFormat.TEXT)
#: Fault kind and message for requests without a result, depending on how the batch ended.
_COMPLETED = (FaultKind.BAD_RESPONSE, "the batch completed, but its results do not contain this request")
_REFUSED = (FaultKind.BAD_REQUEST, "the provider rejected the batch")
_EXPIRED = (FaultKind.TIMEOUT, "the batch expired before this request was made")
_CANCELLED = (FaultKind.SERVER, "the batch was cancelled before this request was made")


class ProviderBatches:
    """
    Base class for clients of a provider's batch API.

    A run creates one client, uses it from a single thread, and closes it after reading the results. The subclass of
    each provider submits batches, queries their state and parses the lines of results.
    """

    #: Field that contains the request's name in a line of results.
    name_field = "custom_id"

    def __init__(self, settings: ProviderSettings, *, key: Key) -> None:
        self._settings = replace(settings, streaming=False)
        self._client = settings.new_client(key)
        self._key = key

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def read_result(self, line: Mapping[str, Any], sent: Sent) -> Completion | Declined:
        """Read one line of the results; raise CallError for a request that was not made or not answered."""
        raise NotImplementedError

    def to_body(self, request: Request) -> dict[str, Any]:
        """Return the body of the request, which is the same as for a single call."""
        return self._settings.wire.to_body(self._settings, request)

    def ask(self, path: str, data: bytes | None = None, *, once: bool = False, **headers: str) -> Mapping[str, Any]:
        """
        Send a request, and return the JSON object in the response.

        Transient errors are retried unless `once` is set; requests that cost money set it.
        """
        _, body = self.send(path, data, once=once, **headers)
        with convert_parsing_errors():
            return as_object(parse_json(body.decode("utf-8-sig")))

    def send(
        self, path: str, data: bytes | None, *, once: bool = False, **headers: str
    ) -> tuple[Mapping[str, str], bytes]:
        """Send data (GET if None), and return the headers and the body of the response."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        retries = 0
        with self._explain_errors():
            while True:
                # only an upload of requests has a large body
                deadline = Deadline(TIMEOUT if data is None or len(data) < _SMALL else LONG_TIMEOUT)
                try:
                    with closing(self._open(path, data, deadline=deadline, once=once, headers=named)) as response:
                        return response.headers, response.read()
                except (EnclosedError, CallError) as error:
                    if once or retries == RETRIES or not _is_transient(error):
                        raise
                    wait = _back_off(error, retries)
                retries += 1
                time.sleep(wait)

    def _open(self, path: str, data: bytes | None, *, deadline: Deadline, **options: Any) -> Response:
        headers = {**self._settings.extra_headers, **options.pop("headers", {})}
        method = "GET" if data is None else "POST"
        response = self._client.request(method, path, data, deadline=deadline, headers=headers, **options)
        return response.raise_for_status()

    def read_results(self, path: str, sent: Sent) -> Iterator[Result]:
        """Yield the results in a JSON Lines file."""
        with self._explain_errors(), closing(self._open(path, None, deadline=Deadline(LONG_TIMEOUT))) as response:
            for line in read_lines(response.iter_bytes(bounded=False)):
                yield str(line.get(self.name_field)), self._read_settled(line, sent)

    def read_answer(self, body: object, sent: Sent) -> Completion | Declined:
        """Parse the response body in a line of the results."""
        with convert_parsing_errors():
            return self._settings.wire.read_whole(check_body(body), Stopwatch()).to_generation(sent)

    def failure_from_error(
        self, error: ProviderError, ending: tuple[FaultKind, str], *, where: str = "", more: str = ""
    ) -> Failed:
        """
        Return the failure that applies to each unanswered request of a failed batch; the provider's error
        determines the kind of fault.
        """
        outcome = classify_error(error, sent=_NO_SCHEMA, secret=self._key.value)
        kind, message = ending
        if isinstance(outcome, CallError):
            kind = outcome.kind
        words = one_line(f"{error.message}{where}", secret=self._key.value)
        return Failed(kind=kind, message=f"{message}: {words}{more}")

    def classify(self, error: ProviderError, sent: Sent) -> Completion | Declined:
        """Convert a provider's error for one request into a generation, such as Declined, or raise it as CallError."""
        outcome = classify_error(error, sent=sent, secret=self._key.value)
        if isinstance(outcome, CallError):
            raise outcome
        return outcome

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Convert errors that are raised in the `with` block into CallError."""
        try:
            yield
        except (EnclosedError, ValueError) as error:
            outcome = self._explain(error, _NO_SCHEMA)
            if isinstance(outcome, Declined):
                outcome = CallError(FaultKind.BAD_REQUEST, outcome.message)
            if isinstance(outcome, Completion):
                outcome = CallError(FaultKind.BAD_RESPONSE, "the server answered a batch request with plain text")
            raise outcome from None

    def _read_settled(self, line: Mapping[str, Any], sent: Sent) -> Completion | Declined | Failed:
        """Parse a result like the response to a single call, but without timing, which batches do not report."""
        try:
            generation = settle(
                lambda: self.read_result(line, sent),
                lambda error: self._explain(error, sent),
                deadline=Deadline(TIMEOUT),
            )
        except CallError as error:
            return Failed(kind=error.kind, message=error.message, status=error.status)
        return structs.replace(generation, timing=None)

    def _explain(self, error: Exception, sent: Sent) -> Completion | Declined | CallError:
        settings = self._settings
        return explain_error(error, sent, address=settings.address.url, model=settings.model, secret=self._key.value)


def _is_transient(error: EnclosedError | CallError) -> bool:
    if isinstance(error, EnclosedError):
        return error.status in _TRANSIENT
    return error.kind in (FaultKind.CONNECTION, FaultKind.TIMEOUT)


def _back_off(error: EnclosedError | CallError, retries: int) -> float:
    """Return the seconds before the next retry: the server's Retry-After, or else twice the previous delay."""
    seconds = retry_after(error.headers or {}) if isinstance(error, EnclosedError) else None
    return _WAIT * 2.0**retries if seconds is None else min(seconds, TIMEOUT)


def check_id(value: object, of: str = "the batch") -> str:
    """Return the id if it is a text that is safe to print; otherwise raise CallError."""
    if isinstance(value, str) and value and printable(value, _LONGEST_ID) == value:
        return value
    raise CallError(FaultKind.BAD_RESPONSE, f"the server did not return a valid id of {of}")


def read_lines(pieces: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the objects in a JSON Lines body; raise CallError if a line is not a JSON object."""
    rest = bytearray()  # a long line arrives in thousands of pieces, and bytes would be copied for each piece
    for piece in pieces:
        rest += piece
        whole: list[bytearray] = []
        if b"\n" in piece:
            # str.splitlines and an SDK's iter_lines also split at characters that JSON strings may contain
            *whole, rest = rest.split(b"\n")
        if len(rest) > LONGEST_BODY:
            raise CallError(FaultKind.BAD_RESPONSE, f"a result is longer than {LONGEST_BODY:,} bytes")
        for line in whole:
            yield from _objects(line)
    yield from _objects(rest)


def _objects(line: bytes | bytearray) -> Iterator[dict[str, Any]]:
    if not line.strip():
        return
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        message = f"the batch's results are not JSON lines: {type(error).__name__}"
        raise CallError(FaultKind.BAD_RESPONSE, message) from None
    if not isinstance(value, dict):
        message = f"expected a JSON object in each line of the batch's results, found {kind_of(value)}"
        raise CallError(FaultKind.BAD_RESPONSE, message)
    yield value


_OPENAI_ENDINGS = {"completed": _COMPLETED, "failed": _REFUSED, "expired": _EXPIRED, "cancelled": _CANCELLED}
#: Fault kind and message by the error code of a request in OpenAI's error file.
_OPENAI_NOT_MADE = {"batch_expired": _EXPIRED, "batch_cancelled": _CANCELLED}


class OpenAIBatches(ProviderBatches):
    """OpenAI's Batch API, with a file of requests to Chat Completions or Responses, and files of results and errors."""

    #: Limits of one batch; the size limit is slightly below the documented 200 MB.
    limits = BatchLimits(requests=50_000, size=190_000_000)

    def line(self, name: str, request: Request) -> bytes:
        """Return the request as a line of the input file."""
        url = f"/v1{self._settings.path}"
        return to_json({"custom_id": name, "method": "POST", "url": url, "body": self.to_body(request)})

    def upload(self, lines: Sequence[bytes]) -> Callable[[], str]:
        """Upload the input file; return a function that creates the batch."""
        parts = (("purpose", "batch"), ("file", ("jsbench.jsonl", b"\n".join([*lines, b""]), "application/jsonl")))
        data, kind = encode_multipart_formdata(parts)
        file = check_id(self.ask("/files", data, content_type=kind).get("id"), of="the file")
        body = {"input_file_id": file, "endpoint": f"/v1{self._settings.path}", "completion_window": "24h"}
        return lambda: check_id(self.ask("/batches", to_json(body), once=True).get("id"))

    def state(self, batch: str) -> BatchState:
        """Query the batch's state."""
        answer = self._query(batch)
        ended = text_or_default(answer.get("status"), "") in _OPENAI_ENDINGS
        counts = [count(get(answer, "request_counts", name)) or 0 for name in ("completed", "failed", "total")]
        return BatchState(
            ended=ended,
            answered=counts[0],
            failed=counts[1],
            total=counts[2],
            unanswered=self._find_failure(answer) if ended else None,
        )

    def results(self, batch: str) -> Iterator[Result]:
        """Read the output file and the error file."""
        sent = self._settings.to_sent(batch=batch)
        answer = self._query(batch)
        for field in ("output_file_id", "error_file_id"):
            if (file := answer.get(field)) is not None:
                yield from self.read_results(f"/files/{quote(check_id(file), safe='')}/content", sent)

    def read_result(self, line: Mapping[str, Any], sent: Sent) -> Completion | Declined:
        """Read a line of the output file or of the error file."""
        error = line.get("error")
        response = line.get("response")
        if (code := text_or_default(get(error, "code"), "")) in _OPENAI_NOT_MADE:
            raise CallError(*_OPENAI_NOT_MADE[code])
        if not isinstance(response, dict):
            return self.classify(ProviderError.parse(error), sent)
        body = response.get("body")
        status = count(response.get("status_code"))
        if status is not None and status >= 400:
            return self.classify(ProviderError.parse(body, status=status), sent)
        return self.read_answer(body, sent)

    def _query(self, batch: str) -> Mapping[str, Any]:
        return self.ask(f"/batches/{quote(batch, safe='')}")

    def _find_failure(self, batch: Mapping[str, Any]) -> Failed:
        kind, message = _OPENAI_ENDINGS[str(batch["status"])]
        problems = items(batch.get("errors"), "data")
        if not problems:
            return Failed(kind=kind, message=message)
        first = as_object(problems[0])
        code = first.get("code")
        names = frozenset([code] if isinstance(code, str) else [])
        words = str(first.get("message") or code or "no error message")
        return self.failure_from_error(
            ProviderError(message=words, status=400, names=names),
            (kind, message),
            where="" if first.get("line") is None else f" (line {first['line']} of the input file)",
            more=f", and {format_count(len(problems) - 1, 'more error')}" if len(problems) > 1 else "",
        )


_ANTHROPIC_NOT_MADE = {"expired": _EXPIRED, "canceled": _CANCELLED}
#: HTTP status that a single call returns for each type of error; the results of a batch contain only the type.
_ANTHROPIC_STATUSES = {
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
_MESSAGE_BATCHES = f"{anthropic_messages.PATH}/batches"


class AnthropicBatches(ProviderBatches):
    """Anthropic's Message Batches API, with all requests in one body, and a file of results."""

    #: Limits of one batch; the size limit is slightly below the documented 256 MB.
    limits = BatchLimits(requests=100_000, size=240_000_000)
    _unanswered = Failed(
        kind=FaultKind.BAD_RESPONSE, message="the batch has ended, but its results do not contain this request"
    )

    def line(self, name: str, request: Request) -> bytes:
        """Return the request as an item of the batch's body."""
        return to_json({"custom_id": name, "params": self.to_body(request)})

    def upload(self, lines: Sequence[bytes]) -> Callable[[], str]:
        """
        Check that the server is reachable, accepts the key and supports batches; return a function that creates the
        batch.
        """
        self.ask(f"{_MESSAGE_BATCHES}?limit=1")
        data = b'{"requests":[%b]}' % b",".join(lines)
        return lambda: check_id(self.ask(_MESSAGE_BATCHES, data, once=True).get("id"))

    def state(self, batch: str) -> BatchState:
        """Query the batch's state."""
        answer = self._query(batch)
        names = ("processing", "succeeded", "errored", "canceled", "expired")
        counts = {name: count(get(answer, "request_counts", name)) or 0 for name in names}
        ended = answer.get("processing_status") == "ended"
        return BatchState(
            ended=ended,
            answered=counts["succeeded"],
            failed=counts["errored"] + counts["canceled"] + counts["expired"],
            total=sum(counts.values()),
            unanswered=self._unanswered if ended else None,
        )

    def results(self, batch: str) -> Iterator[Result]:
        """Read the results file from the batch's `results_url`."""
        sent = self._settings.to_sent(batch=batch)
        place = self._query(batch).get("results_url")
        if not isinstance(place, str):
            raise CallError(FaultKind.BAD_RESPONSE, "the server did not return the address of the batch's results")
        yield from self.read_results(place, sent)

    def read_result(self, line: Mapping[str, Any], sent: Sent) -> Completion | Declined:
        """Read a line of the results file."""
        kind = text_or_default(get(line, "result", "type"), "")
        if kind in _ANTHROPIC_NOT_MADE:
            raise CallError(*_ANTHROPIC_NOT_MADE[kind])
        if kind == "succeeded":
            return self.read_answer(get(line, "result", "message"), sent)
        error = ProviderError.parse(get(line, "result", "error"))
        status = next((status for name, status in _ANTHROPIC_STATUSES.items() if name in error.names), None)
        return self.classify(replace(error, status=status), sent)

    def _query(self, batch: str) -> Mapping[str, Any]:
        return self.ask(f"{_MESSAGE_BATCHES}/{quote(batch, safe='')}")


_GEMINI_ENDINGS = {
    "SUCCEEDED": _COMPLETED,
    "PARTIALLY_SUCCEEDED": (
        FaultKind.SERVER,
        "the batch completed only partially, and its results do not contain this request",
    ),
    "FAILED": _REFUSED,
    "EXPIRED": _EXPIRED,
    "CANCELLED": _CANCELLED,
}
#: HTTP status that a single call returns for an error, by the gRPC status code in the results of a batch.
_GRPC_STATUSES = {3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 9: 400, 13: 500, 14: 503, 16: 401}


class GeminiBatches(ProviderBatches):
    """Gemini's batch API, with a file of requests and a file of results."""

    name_field = "key"
    #: Limits of one batch, lower than the documented ones (2 GB, any number of requests), since the file is in memory
    #: during the upload.
    limits = BatchLimits(requests=50_000, size=190_000_000)

    def line(self, name: str, request: Request) -> bytes:
        """Return the request as a line of the input file."""
        return to_json({"key": name, "request": self.to_body(request)})

    def upload(self, lines: Sequence[bytes]) -> Callable[[], str]:
        """Upload the input file; return a function that creates the batch."""
        data = b"\n".join([*lines, b""])
        file: dict[str, Any] = {"file": {"displayName": "jsbench", "mimeType": "jsonl", "sizeBytes": len(data)}}
        headers, _ = self.send(
            f"/upload{self._version}/files",
            to_json(file),
            x_goog_upload_protocol="resumable",
            x_goog_upload_command="start",
            x_goog_upload_header_content_length=str(len(data)),
            x_goog_upload_header_content_type="jsonl",
        )
        place = headers.get("x-goog-upload-url")
        if not place:
            raise CallError(FaultKind.BAD_RESPONSE, "the server did not return an upload address for the file")
        answer = self.ask(place, data, x_goog_upload_command="upload, finalize", x_goog_upload_offset="0")
        name = check_id(get(answer, "file", "name"), of="the file")
        body = to_json({"batch": {"inputConfig": {"fileName": name}, "displayName": "jsbench"}})
        model = self._settings.path.partition(":")[0]
        return lambda: check_id(self.ask(f"{model}:batchGenerateContent", body, once=True).get("name"))

    def state(self, batch: str) -> BatchState:
        """Query the batch's state."""
        operation = self._query(batch)
        state = str(get(operation, "metadata", "state")).removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
        counts = get(operation, "metadata", "batchStats")
        numbers = [_number(get(counts, f"{name}Count")) for name in ("successfulRequest", "failedRequest", "request")]
        return BatchState(
            ended=state in _GEMINI_ENDINGS,
            answered=numbers[0],
            failed=numbers[1],
            total=numbers[2],
            unanswered=self._find_failure(operation, _GEMINI_ENDINGS[state]) if state in _GEMINI_ENDINGS else None,
        )

    def results(self, batch: str) -> Iterator[Result]:
        """Read the output file."""
        sent = self._settings.to_sent(batch=batch)
        answer = self._query(batch)
        file = get(answer, "metadata", "output", "responsesFile") or get(answer, "response", "responsesFile")
        if isinstance(file, str):
            yield from self.read_results(f"{self._version}/{quote(file)}:download?alt=media", sent)

    def read_result(self, line: Mapping[str, Any], sent: Sent) -> Completion | Declined:
        """Read a line of the output file."""
        if (error := line.get("error")) is not None:
            return self.classify(self._error(error), sent)
        return self.read_answer(line.get("response"), sent)

    @property
    def _version(self) -> str:
        """API version as the first segment of a path."""
        return f"/{self._settings.path.split('/')[1]}"

    def _query(self, batch: str) -> Mapping[str, Any]:
        return self.ask(f"{self._version}/{quote(batch)}")

    def _find_failure(self, operation: Mapping[str, Any], ending: tuple[FaultKind, str]) -> Failed:
        if (error := operation.get("error")) is not None:
            return self.failure_from_error(self._error(error), ending)
        return Failed(kind=ending[0], message=ending[1])

    def _error(self, body: object) -> ProviderError:
        """Return the error with the HTTP status for its gRPC code."""
        error = ProviderError.parse(body)
        code = get(body, "code")
        return replace(error, status=_GRPC_STATUSES.get(code, error.status)) if isinstance(code, int) else error


def _number(value: object) -> int:
    """Return a count, which the API sends as a string; 0 if the value is not a number."""
    return int(value) if isinstance(value, str | int) and str(value).isdecimal() else 0
