"""Fake providers with a batch API, which give the same answers to single calls and to requests of a batch."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support import anthropic_wire, gemini_wire, openai_wire, responses_wire
from tests.support.provider import Asked, Provider, Reply, json_reply, raw_reply

#: Matches the title of the schema, which identifies the request.
_TITLE = re.compile(r'"title": ?"(\w+)"')


@dataclass(slots=True, kw_only=True)
class BatchServer:
    """Base class: batches that end after a number of queries, with answers chosen by the schema's title."""

    provider: Provider
    #: The answer's text, (status, error body), or how the request ended in its batch, by title.
    answers: dict[str, Any] = field(default_factory=dict)
    #: Number of queries before a batch ends; None if it never ends.
    looks: int | None = 0
    #: Final state of a batch.
    ending: str = ""
    #: Wrong responses to the next requests for a path.
    broken: dict[str, list[Reply]] = field(default_factory=dict)
    #: Requests of each batch that was created.
    batches: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    files: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    #: Bodies of single calls.
    live: list[dict[str, Any]] = field(default_factory=list)
    #: Fixed response for each batch.
    frozen: dict[str, dict[str, Any]] = field(default_factory=dict)
    looked: dict[str, int] = field(default_factory=dict)
    #: Called with each query.
    on_look: Callable[[int], None] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.provider.choose = self._choose

    @property
    def url(self) -> str:
        """Value for --jsbench-base-url."""
        return self.provider.url

    def make(self, name: str, rows: list[dict[str, Any]]) -> None:
        self.batches[name], self.frozen[name] = rows, dict(self.answers)

    def answer(self, body: Any, batch: str | None = None) -> Any:
        found = _TITLE.search(json.dumps(body))
        answers = self.answers if batch is None else self.frozen[batch]
        return answers.get(found[1] if found else "", '{"n": 1}')

    def has_ended(self, batch: str) -> bool:
        with self._lock:
            self.looked[batch] = self.looked.get(batch, 0) + 1
        if self.on_look is not None:
            self.on_look(self.looked[batch])
        return self.looks is not None and self.looked[batch] > self.looks

    def _choose(self, asked: Asked) -> Reply:
        waiting = next((replies for path, replies in self.broken.items() if path in asked.path and replies), None)
        return waiting.pop(0) if waiting else self.reply(asked)

    def reply(self, asked: Asked) -> Reply:
        raise NotImplementedError

    def call(self, asked: Asked) -> Reply:
        """Answer a single call."""
        self.live.append(asked.body)
        status, body = self.answered(asked.path, self.answer(asked.body))
        return json_reply(body, status=status)

    def answered(self, path: str, answer: Any) -> tuple[int, Any]:
        """Return the status and the body of the answer."""
        return (200, self.whole(path, answer)) if isinstance(answer, str) else answer

    def whole(self, path: str, text: str) -> Any:
        raise NotImplementedError


def _lines(rows: list[dict[str, Any]]) -> Reply:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return raw_reply(text.encode(), kind="application/octet-stream")


@dataclass(slots=True, kw_only=True)
class OpenAIServer(BatchServer):
    """Files, batches, Chat Completions and Responses."""

    ending: str = "completed"
    #: Errors of a batch that failed as a whole.
    errors: list[dict[str, Any]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.provider.url}/v1"

    def reply(self, asked: Asked) -> Reply:
        match asked.method, asked.path.removeprefix("/v1/").split("/"):
            case "POST", ["files"]:
                name = f"file-{len(self.files)}"
                rows = [line for line in asked.body.split(b"\n") if line.startswith(b'{"custom_id"')]
                self.files[name] = [json.loads(row) for row in rows]
                return json_reply({"id": name, "object": "file"})
            case "POST", ["batches"]:
                name = f"batch_{len(self.batches)}"
                self.make(name, self.files[asked.body["input_file_id"]])
                return json_reply(self._batch(name, "validating"))
            case "GET", ["batches", name]:
                if name not in self.batches:
                    return json_reply(openai_wire.error_body(f"No batch {name}"), status=404)
                return json_reply(self._batch(name, self.ending if self.has_ended(name) else "in_progress"))
            case "GET", ["files", name, "content"]:
                kind, _, batch = name.partition("-")
                rows = [self._row(batch, request) for request in self.batches[batch]]
                return _lines([row for row in rows if row and row.pop("in") == kind])
            case _:
                return self.call(asked)

    def _batch(self, name: str, status: str) -> dict[str, Any]:
        total, ended = len(self.batches[name]), status in {"completed", "expired", "cancelled"}
        return {
            "id": name,
            "object": "batch",
            "status": status,
            "output_file_id": f"output-{name}" if ended else None,
            "error_file_id": f"error-{name}" if ended else None,
            "errors": {"object": "list", "data": self.errors} if self.errors else None,
            "request_counts": {"total": total, "completed": total if ended else 0, "failed": 0},
        }

    def _row(self, batch: str, request: dict[str, Any]) -> dict[str, Any] | None:
        answer, name = self.answer(request["body"], batch), request["custom_id"]
        if answer == "absent":
            return None
        if answer in ("batch_expired", "batch_cancelled"):
            error = {"code": answer, "message": "This request could not be executed"}
            return {"in": "error", "custom_id": name, "response": None, "error": error}
        status, body = self.answered(request["url"], answer)
        response = {"status_code": status, "request_id": "r", "body": body}
        kind = "output" if status == 200 else "error"
        return {"in": kind, "custom_id": name, "response": response, "error": None}

    def whole(self, path: str, text: str) -> Any:
        is_response = path.endswith("responses")
        return responses_wire.whole(responses_wire.message(text)) if is_response else openai_wire.whole(text)


@dataclass(slots=True, kw_only=True)
class AnthropicServer(BatchServer):
    """Message Batches, and Messages."""

    def reply(self, asked: Asked) -> Reply:
        path = asked.path.partition("?")[0].removeprefix("/v1/messages").strip("/").split("/")
        match asked.method, path:
            case "GET", ["batches"]:
                return json_reply({"data": [], "has_more": False, "first_id": None, "last_id": None})
            case "POST", ["batches"]:
                name = f"msgbatch_{len(self.batches)}"
                self.make(name, asked.body["requests"])
                return json_reply(self._batch(name, ended=False))
            case "GET", ["batches", name]:
                return json_reply(self._batch(name, ended=self.has_ended(name)))
            case "GET", ["batches", name, "results"]:
                rows = [self._row(name, request) for request in self.batches[name]]
                return _lines([row for row in rows if row])
            case _:
                return self.call(asked)

    def _batch(self, name: str, *, ended: bool) -> dict[str, Any]:
        total = len(self.batches[name])
        return {
            "id": name,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": {
                "processing": 0 if ended else total,
                "succeeded": total if ended else 0,
                **dict.fromkeys(("errored", "canceled", "expired"), 0),
            },
            "results_url": f"{self.provider.url}/v1/messages/batches/{name}/results" if ended else None,
        }

    def _row(self, batch: str, request: dict[str, Any]) -> dict[str, Any] | None:
        answer = self.answer(request["params"], batch)
        if answer == "absent":
            return None
        if answer in ("expired", "canceled"):
            result: dict[str, Any] = {"type": answer}
        elif isinstance(answer, str):
            result = {"type": "succeeded", "message": self.whole("", answer)}
        else:
            result = {"type": "errored", "error": answer[1]}
        return {"custom_id": request["custom_id"], "result": result}

    def whole(self, path: str, text: str) -> Any:
        return anthropic_wire.whole({"type": "text", "text": text})


@dataclass(slots=True, kw_only=True)
class GeminiServer(BatchServer):
    """Files, batches, and `generateContent`."""

    ending: str = "SUCCEEDED"
    #: Error of a batch that failed as a whole.
    error: dict[str, Any] | None = None

    def reply(self, asked: Asked) -> Reply:
        path, _, query = asked.path.removeprefix("/").partition("?")
        match asked.method, path.replace("upload/v1/", "v1/upload/").removeprefix("v1/").split("/"):
            case "POST", ["upload", "files"] if "upload_id" not in query:
                where = f"{self.provider.url}/upload/v1/files?upload_id=f{len(self.files)}"
                return json_reply({}, headers={"x-goog-upload-url": where})
            case "POST", ["upload", "files"]:
                name = f"files/f{len(self.files)}"
                lines = asked.body.splitlines() if isinstance(asked.body, bytes) else [json.dumps(asked.body)]
                self.files[name] = [json.loads(line) for line in lines]
                return json_reply({"file": {"name": name}}, headers={"x-goog-upload-status": "final"})
            case "POST", ["models", "m:batchGenerateContent"]:
                name = f"batches/b{len(self.batches)}"
                self.make(name, self.files[asked.body["batch"]["inputConfig"]["fileName"]])
                return json_reply(self._operation(name, "PENDING"))
            case "GET", ["batches", number]:
                name = f"batches/{number}"
                return json_reply(self._operation(name, self.ending if self.has_ended(name) else "RUNNING"))
            case "GET", ["files", file]:
                batch = f"batches/{file.removeprefix('out-').removesuffix(':download')}"
                rows = [self._row(batch, request) for request in self.batches[batch]]
                return _lines([row for row in rows if row])
            case _:
                return self.call(asked)

    def _operation(self, name: str, state: str) -> dict[str, Any]:
        total, ended = len(self.batches[name]), state not in {"PENDING", "RUNNING"}
        # The API writes such numbers as strings, and leaves zeros out.
        counts = {"requestCount": str(total), **({"successfulRequestCount": str(total)} if ended else {})}
        file = f"files/out-{name.removeprefix('batches/')}"
        output = {"output": {"responsesFile": file}} if ended and self.error is None else {}
        metadata = {"state": f"BATCH_STATE_{state}", "batchStats": counts, **output}
        error = {} if self.error is None else {"error": self.error}
        return {"name": name, "metadata": metadata, "done": ended, **error}

    def _row(self, batch: str, request: dict[str, Any]) -> dict[str, Any] | None:
        answer, name = self.answer(request["request"], batch), request["key"]
        if answer == "absent":
            return None
        if isinstance(answer, str):
            return {"key": name, "response": self.whole("", answer)}
        number = {400: 3, 429: 8}[answer[0]]
        return {"key": name, "error": {"code": number, "message": answer[1]["error"]["message"]}}

    def whole(self, path: str, text: str) -> Any:
        return gemini_wire.whole(gemini_wire.part(text))
