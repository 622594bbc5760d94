from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.generations import CallError, Declined, DeclineReason, FaultKind, ResponseFormat, Sent
from pytest_jsbench.engines.http.faults import ProviderError, connection_fault, explain_error, retry_after
from tests.support import anthropic_wire, openai_wire
from tests.support.engine_calls import classify_without_answer

WITH_SCHEMA = Sent(response_format=ResponseFormat.JSON_SCHEMA)
WITHOUT_SCHEMA = Sent(response_format=ResponseFormat.TEXT)
UNSUPPORTED = DeclineReason.UNSUPPORTED_SCHEMA


def classify(
    body: Any, status: int | None = 400, *, sent: Sent = WITH_SCHEMA, secret: str | None = None
) -> Declined | CallError:
    return classify_without_answer(ProviderError.parse(body, status=status), sent=sent, secret=secret)


def outcome(status: int | None, body: Any, sent: Sent = WITH_SCHEMA) -> FaultKind | DeclineReason:
    result = classify(body, status, sent=sent)
    return result.reason if isinstance(result, Declined) else result.kind


def _bodies() -> list[tuple[str, int | None, Any, FaultKind | DeclineReason, str | None]]:
    """Return error bodies as documented by providers or observed from llama.cpp, with the option to change."""
    path = Path(__file__).with_name("error_bodies.jsonl")
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [(row["name"], row["status"], row["body"], _KINDS[row["expected"]], row.get("hint")) for row in rows]


_KINDS: dict[str, FaultKind | DeclineReason] = {kind.value: kind for kind in (*FaultKind, *DeclineReason)}
BODIES = _bodies()


@pytest.mark.parametrize(("status", "body", "expected"), [row[1:4] for row in BODIES], ids=[row[0] for row in BODIES])
def test_provider_error_is_classified_by_cause(
    status: int | None, body: Any, expected: FaultKind | DeclineReason
) -> None:
    assert outcome(status, body) is expected


@pytest.mark.parametrize(
    ("status", "body"),
    [row[1:3] for row in BODIES if row[3] is UNSUPPORTED],
    ids=[row[0] for row in BODIES if row[3] is UNSUPPORTED],
)
def test_error_without_a_schema_is_not_an_unsupported_schema(status: int, body: Any) -> None:
    expected = FaultKind.SERVER if status == 500 else FaultKind.BAD_REQUEST
    assert outcome(status, body, sent=WITHOUT_SCHEMA) is expected


@pytest.mark.parametrize(("secret", "told"), [("", True), ("sk-1", False), (None, False)])
def test_missing_key_error_names_the_option(secret: str | None, told: bool) -> None:
    body = {"error": {"message": "Invalid API Key", "type": "authentication_error"}}
    message = classify(body, 401, secret=secret).message

    assert ("(no key was sent: --jsbench-api-key-env names" in message) is told


@pytest.mark.parametrize("kind", ["api_error", "server_error"])
def test_an_error_inside_a_stream_has_no_status_but_a_type(kind: str) -> None:
    error = classify({"type": kind, "message": "gone"}, None)
    assert isinstance(error, CallError)
    assert (error.kind, error.status) == (FaultKind.SERVER, None)


def test_decline_contains_request_and_provider_message() -> None:
    body = {"error": {"message": "Invalid schema", "param": "response_format"}}
    assert classify(body) == Declined(reason=UNSUPPORTED, message="Invalid schema", sent=WITH_SCHEMA)


@pytest.mark.parametrize("body", [row[2] for row in BODIES], ids=[row[0] for row in BODIES])
def test_no_message_contains_the_key(body: Any) -> None:
    secret = "my-own-server-key"
    spoiled = json.loads(json.dumps(body).replace("sk-abc***xyz", secret)) if body else f"no {secret}"
    if isinstance(spoiled, dict) and isinstance(spoiled.get("error"), dict):
        spoiled["error"]["message"] = f"{secret}\n{spoiled['error']['message']}"
    message = classify(spoiled, secret=secret).message
    assert message
    assert secret not in message
    assert "\n" not in message


def test_web_page_is_described_by_its_title() -> None:
    error = ProviderError.parse("<html><title>Just a moment…</title>", status=403)
    assert error.message == "a web page, not JSON: Just a moment…"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Mon, 01 Jan 2001 00:00:00 GMT"}, 0.0),
        # compared with the response's own clock
        ({"retry-after": "Mon, 01 Jan 2001 00:00:07 GMT", "date": "Mon, 01 Jan 2001 00:00:00 GMT"}, 7.0),
        ({"Retry-After": "Mon, 01 Jan 2001 02:00:07 +0200", "Date": "Mon, 01 Jan 2001 00:00:00 GMT"}, 7.0),
        ({"retry-after": "Mon, 01 Jan 2001 00:00:00 GMT", "date": "Mon, 01 Jan 2001 00:00:09 GMT"}, 0.0),
        # an impossible time zone, and a year that does not exist
        ({"retry-after": "Mon, 01 Jan 2026 00:00:00 +99999999999999"}, None),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 -2359"}, None),
        ({"retry-after": "Mon, 01 Jan 2001 00:00:07 GMT", "date": "today"}, 0.0),
        # at most a day
        ({"retry-after": "1e300"}, 86_400.0),
        ({"retry-after-ms": "1e300"}, 86_400.0),
        ({"retry-after": "Sat, 01 Jan 2101 00:00:00 GMT", "date": "Mon, 01 Jan 2001 00:00:00 GMT"}, 86_400.0),
        ({}, None),
    ],
)
def test_how_long_to_wait_is_read_from_the_headers(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_retry_after_date_becomes_seconds() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    waiting = retry_after({"retry-after": date})
    assert waiting is not None
    assert 27 < waiting <= 30


@pytest.mark.parametrize("deep", [["x"], {"error": "x"}, {"message": "x"}])
def test_deeply_nested_error_is_still_an_error(deep: Any) -> None:
    body = deep
    for _ in range(100_000):
        body = [body] if isinstance(deep, list) else {next(iter(deep)): body}
    assert outcome(500, body) is FaultKind.SERVER


def test_slow_read_is_a_timeout_and_other_errors_are_connection_faults() -> None:
    slow = RuntimeError("Request timed out.")
    slow.__cause__ = TimeoutError("timed out")
    assert connection_fault(slow, address="http://h/v1").kind is FaultKind.TIMEOUT
    broken = connection_fault(ConnectionResetError("reset by peer"), address="http://user:pass@h:1/v1")
    assert broken.kind is FaultKind.CONNECTION
    assert broken.message == "http://h:1/v1: reset by peer"


def test_request_that_cannot_be_sent_is_an_engine_fault() -> None:
    error = ValueError("Invalid header value b'a\\nb'")
    outcome = explain_error(error, WITH_SCHEMA, address="http://h", model="m", secret="my-own-server-key")
    assert isinstance(outcome, CallError)
    assert outcome.kind is FaultKind.ENGINE


def test_a_broken_connection_quotes_no_key() -> None:
    secret = "my-own-server-key"
    quoting = RuntimeError(f"illegal status line: {secret}")
    assert (
        connection_fault(quoting, address="http://h", secret=secret).message == "http://h: illegal status line: [key]"
    )


@pytest.mark.parametrize("begun", [True, False])
def test_connection_fault_distinguishes_interrupted_missing_and_slow(*, begun: bool) -> None:
    reset, slow = ConnectionResetError("reset by peer"), TimeoutError("timed out")

    assert connection_fault(reset, address="http://h", begun=begun).was_truncated is begun
    assert connection_fault(slow, address="http://h", begun=begun).was_truncated is False


COMPLAINTS = [row for row in BODIES if row[4] is not None]


@pytest.mark.parametrize("response_format", [ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL])
@pytest.mark.parametrize(
    ("status", "body", "option"), [(row[1], row[2], row[4]) for row in COMPLAINTS], ids=[row[0] for row in COMPLAINTS]
)
def test_unsupported_parameter_is_a_bad_request_with_our_option(
    status: int, body: Any, option: str, response_format: ResponseFormat
) -> None:
    error = classify(body, status, sent=Sent(response_format=response_format))
    assert isinstance(error, CallError)
    assert error.kind is FaultKind.BAD_REQUEST
    assert error.message == f"{ProviderError.parse(body, status=status).message} (to fix it: {option})"


def test_hint_is_kept_after_a_long_message() -> None:
    words = f"Unsupported parameter: 'seed'. {'And so on. ' * 100}"
    message = classify(openai_wire.error_body(words, param="seed")).message
    assert message.endswith("remove --jsbench-seed)")
    assert len(message) < 400


@pytest.mark.parametrize(
    "body",
    [
        openai_wire.error_body("The temperature of the model store is not supported.", param="model"),
        openai_wire.error_body("Unknown parameter: 'foo'.", param="foo"),
        anthropic_wire.error_body("messages: at least one message is required"),
    ],
)
def test_other_errors_have_no_hint(body: Any) -> None:
    assert outcome(400, body) is FaultKind.BAD_REQUEST
    assert "--jsbench" not in classify(body).message


@pytest.mark.parametrize("status", [401, 429, 500])
def test_other_faults_have_no_hint(status: int) -> None:
    body = openai_wire.error_body("Unsupported parameter: 'max_tokens'.", param="max_tokens")
    assert "--jsbench" not in classify(body, status).message


def test_schema_error_inside_a_stream_is_an_unsupported_schema() -> None:
    body = {"error": {"message": "Failed to initialize samplers: failed to parse grammar"}}
    assert outcome(200, body) is DeclineReason.UNSUPPORTED_SCHEMA
    assert outcome(200, body, sent=WITHOUT_SCHEMA) is FaultKind.BAD_RESPONSE
