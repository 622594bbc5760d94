"""
What a provider says instead of an answer, read into one shape.

The bodies of OpenAI, Anthropic, Gemini (a list), OpenRouter (the real provider's words inside), vLLM (flat),
Ollama and TGI (text), FastAPI servers (`detail`) and llama.cpp are told apart by what they hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


class EnclosedError(Exception):
    """A response of status 200 that holds an error object, as OpenRouter sends."""

    def __init__(self, body: object) -> None:
        super().__init__("an error inside a response of status 200")
        self.body = body


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderError:
    """What a provider said instead of an answer."""

    message: str
    status: int | None = None
    #: `type` and `code` in whichever fields the provider puts them
    names: frozenset[str] = frozenset()
    #: the request's parameter that is to blame
    param: str = ""
    retry_after: float | None = None

    @classmethod
    def parse(
        cls, body: object, *, status: int | None = None, headers: Mapping[str, str] | None = None
    ) -> ProviderError:
        """Read the body of an error response, or an error object inside a 200."""
        error = _innermost(body)
        if not isinstance(error, Mapping):
            return cls(
                message=_plain(error, status),
                status=status,
                retry_after=retry_after(headers or {}),
            )
        details = error.get("details")
        names = {error.get(field) for field in ("type", "code", "status", "error_type")}
        if isinstance(details, Mapping):
            names.add(details.get("error_code"))
        param = error.get("param")
        return cls(
            message=_message(error, status),
            status=_status(status, error),
            names=frozenset(name.lower() for name in names if isinstance(name, str)),
            param=param if isinstance(param, str) else "",
            retry_after=_first(retry_after(headers or {}), _retry_delay(details)),
        )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the headers ask to wait: `retry-after-ms`, or `retry-after` in seconds or as a date."""
    lower = {name.lower(): value for name, value in headers.items()}
    milliseconds = _seconds(lower.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = lower.get("retry-after")
    seconds = _seconds(value)
    if seconds is not None or value is None:
        return seconds
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _seconds(value: str | None) -> float | None:
    try:
        seconds = float(value) if value is not None else None
    except ValueError:
        return None
    # NaN compares false
    return seconds if seconds is not None and 0 <= seconds < float("inf") else None


def _retry_delay(details: object) -> float | None:
    """Gemini's RetryInfo: `{"retryDelay": "34s"}` among the details."""
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, Mapping) and isinstance(delay := detail.get("retryDelay"), str):
            return _seconds(delay.removesuffix("s"))
    return None


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _innermost(body: object) -> object:
    if isinstance(body, list) and body:
        return _innermost(body[0])
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping | list):
        return _innermost(body["error"])
    return body


def _status(status: int | None, error: Mapping[str, object]) -> int | None:
    """The HTTP status; for an error inside a 200 or a stream the one that the error names."""
    if status is not None and status >= 400:
        return status
    code = error.get("code")
    if isinstance(code, str) and code.isdecimal():
        code = int(code)
    return code if isinstance(code, int) and 400 <= code < 600 else status


def _message(error: Mapping[str, object], status: int | None) -> str:
    # `error` as text is Ollama's and TGI's, `detail` FastAPI's
    for field in ("message", "error", "detail"):
        if value := error.get(field):
            said = value if isinstance(value, str) else str(value)
            metadata = error.get("metadata")
            # OpenRouter's own message is only "Provider returned error"
            raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
            return f"{said}: {raw}" if raw else said
    return str(dict(error)) if error else _plain(None, status)


def _plain(body: object, status: int | None) -> str:
    text = body if isinstance(body, str) else ""
    if title := re.search(r"<title[^>]*>([^<]+)", text, re.IGNORECASE):
        return f"a web page, not JSON: {title[1]}"
    return text.strip() or (f"HTTP status {status} and no word of why" if status else "an error and no word of why")
