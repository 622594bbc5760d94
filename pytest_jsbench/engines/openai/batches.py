"""OpenAI's Batch API: a file of requests to Chat Completions or Responses, and files of how they ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from urllib3 import encode_multipart_formdata

from pytest_jsbench.core.generations import CallError, Declined, Failed, FaultKind, Sent
from pytest_jsbench.engines.batch_api import BatchLimits, BatchState, sound_id
from pytest_jsbench.engines.http.answer_builder import as_object, count, get, items
from pytest_jsbench.engines.http.calls import to_json
from pytest_jsbench.engines.http.faults import ProviderError
from pytest_jsbench.engines.provider_batches import ProviderBatches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytest_jsbench.core.generations import Completion, Request
    from pytest_jsbench.engines.batch_api import Result
    from pytest_jsbench.engines.openai.settings import OpenAISettings

#: how a batch ends, and what is then to be said of a request that has no result
_ENDED = {
    "completed": (FaultKind.BAD_RESPONSE, "the batch is completed, and its results do not hold this request"),
    "failed": (FaultKind.BAD_REQUEST, "the provider refused the batch"),
    "expired": (FaultKind.TIMEOUT, "the batch expired before this request was made"),
    "cancelled": (FaultKind.SERVER, "the batch was cancelled before this request was made"),
}
#: a single request's, in the error file
_NOT_MADE = {"batch_expired": "expired", "batch_cancelled": "cancelled"}


class OpenAIBatches(ProviderBatches):
    """Hands batches to one server."""

    _settings: OpenAISettings
    #: as documented; a little less than the 200 MB of a file
    limits = BatchLimits(requests=50_000, size=190_000_000)

    def line(self, name: str, request: Request) -> bytes:
        """The request as the input file holds it."""
        body = self._settings.to_body(request)
        return to_json({"custom_id": name, "method": "POST", "url": f"/v1{self._settings.path}", "body": body})

    def upload(self, lines: Sequence[bytes]) -> Callable[[], str]:
        """Upload the input file; what is returned makes the batch."""
        parts = (("purpose", "batch"), ("file", ("jsbench.jsonl", b"\n".join([*lines, b""]), "application/jsonl")))
        data, kind = encode_multipart_formdata(parts)
        file = sound_id(self.ask("/files", data, content_type=kind).get("id"), of="the file")
        return lambda: self._create(file)

    def state(self, batch: str) -> BatchState:
        """How it is getting on."""
        answer = self._ask_for(batch)
        counts, ended = answer.get("request_counts"), answer.get("status") in _ENDED
        return BatchState(
            ended=ended,
            answered=count(get(counts, "completed")) or 0,
            failed=count(get(counts, "failed")) or 0,
            total=count(get(counts, "total")) or 0,
            unanswered=self._unanswered(answer) if ended else None,
        )

    def results(self, batch: str) -> Iterator[Result]:
        """What the output file and the error file hold."""
        sent = self._settings.sent(batch=batch)
        answer = self._ask_for(batch)
        for field in ("output_file_id", "error_file_id"):
            if (file := answer.get(field)) is not None:
                yield from self.read_results(f"/files/{quote(sound_id(file), safe='')}/content", sent)

    def _ask_for(self, batch: str) -> Mapping[str, Any]:
        return self.ask(f"/batches/{quote(batch, safe='')}")

    def _create(self, file: str) -> str:
        body = {"input_file_id": file, "endpoint": f"/v1{self._settings.path}", "completion_window": "24h"}
        return sound_id(self.ask("/batches", to_json(body), once=True).get("id"))

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
        return self.read_answer(body, sent)

    def _unanswered(self, batch: Mapping[str, Any]) -> Failed:
        kind, message = _ENDED[str(batch["status"])]
        problems = items(batch.get("errors"), "data")
        if problems:
            first = as_object(problems[0])
            words = str(first.get("message") or first.get("code") or "no word of why")
            line = "" if first.get("line") is None else f" (line {first['line']} of its file)"
            names = frozenset([code] if isinstance(code := first.get("code"), str) else [])
            error = ProviderError(message=words, status=400, names=names)
            more = f", and {len(problems) - 1:,} more" if len(problems) > 1 else ""
            return self.refused(error, kind, message, where=line, more=more)
        return Failed(kind=kind, message=message)
