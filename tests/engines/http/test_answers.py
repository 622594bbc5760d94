from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.engines.http import answers as event_stream
from pytest_jsbench.engines.http.answers import EventStream, read_events, read_object
from pytest_jsbench.engines.http.calls import EnclosedError
from tests.support.answer_reading import Body, events

#: Every kind of line, line end and character.
EVERYTHING = (
    "\ufeff: a comment\r\n"
    "\r\n"
    'event: first\ndata: {"a": "Åre 😀"}\n\n'
    "data:no space\rdata:  two spaces\r\r"
    "id: 7\r\nretry: 10\r\nevent:second\r\ndata\r\nunknown: x\r\ndata: end\r\n\r\n"
    "event: without data\n\n"
    "data: not ended\n"
).encode()
EVENTS = [("first", '{"a": "Åre 😀"}'), ("", "no space\n two spaces"), ("second", "\nend")]


def test_events_are_read_as_the_html_standard_says() -> None:
    assert list(read_events([EVERYTHING])) == EVENTS


@pytest.mark.parametrize("size", range(1, 8))
def test_events_do_not_depend_on_piece_boundaries(size: int) -> None:
    pieces = [EVERYTHING[start : start + size] for start in range(0, len(EVERYTHING), size)]
    assert list(read_events(pieces)) == EVENTS
    with_empty_ones = [part for piece in pieces for part in (b"", piece, b"")]
    assert list(read_events(with_empty_ones)) == EVENTS


@pytest.mark.parametrize("separator", ["\u2028", "\x0b", "\x0c", "\x1c", "\x85"])
def test_only_cr_and_lf_end_a_line(separator: str) -> None:
    assert list(read_events([f"data: a{separator}b\n\n".encode()])) == [("", f"a{separator}b")]


def test_event_is_yielded_at_its_empty_line() -> None:
    read = []

    def pieces() -> Iterator[bytes]:
        for piece in (b"data: 1\n", b"\n", b"data: 2\r\n\r", b"\n"):
            read.append(piece)
            yield piece

    events = read_events(pieces())
    assert next(events) == ("", "1")
    assert len(read) == 2
    assert next(events) == ("", "2")
    assert len(read) == 3


def test_bytes_that_are_no_utf8_are_not_replaced() -> None:
    with pytest.raises(UnicodeDecodeError):
        list(read_events([b"data: \xff\n\n"]))


@pytest.mark.parametrize(
    "pieces",
    [[b"x" * 10] * 20, [b"data: x\n"] * 20, [b":\n" * 99]],
    ids=["a line without an end", "lines without an end", "comments without an end"],
)
def test_an_event_that_is_too_long_is_a_fault(monkeypatch: pytest.MonkeyPatch, pieces: list[bytes]) -> None:
    monkeypatch.setattr(event_stream, "LONGEST_EVENT", 90)
    with pytest.raises(CallError, match="an event of the stream is longer than 90 bytes") as caught:
        list(read_events(pieces))
    assert caught.value.kind is FaultKind.BAD_RESPONSE


def test_many_events_together_may_be_longer_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "LONGEST_EVENT", 90)
    assert len(list(read_events([b"data: x\n\n"] * 100))) == 100


def values(*pieces: str) -> list[Any]:
    return list(events(*pieces))


def test_keep_alive_events_are_skipped() -> None:
    alive = ": OPENROUTER PROCESSING\n\n", "event: ping\ndata: 2026-11-22\n\n", "data:\n\n", "data\n\n"
    assert values("data: 1\n\n", *alive, "data: 2\n\n") == [1, 2]


def test_values_may_come_in_single_bytes() -> None:
    body = 'data: {"a": "Å😀"}\n\ndata: [DONE]\n\n'.encode()
    assert list(events(*(body[place : place + 1] for place in range(len(body))))) == [{"a": "Å😀"}]


def test_data_after_the_done_marker_is_read_and_ignored() -> None:
    body: Any = Body('data: {"a": 1}\n\ndata: [DONE]\n\n', "data: 2\n\n", "rest")
    assert list(EventStream(body)) == [{"a": 1}]
    assert not body.unread


def test_events_count_the_pieces_read() -> None:
    stream = events("data: 1\n\ndata: 2\n\n", "data:", " 3\n\n")
    assert [(value, stream.pieces) for value in stream] == [(1, 1), (2, 1), (3, 3)]


@pytest.mark.parametrize(("data", "body"), [('{"message": "no"}', {"message": "no"}), ("busy", "busy"), ("", "")])
def test_an_event_that_is_named_an_error_is_one(data: str, body: Any) -> None:
    with pytest.raises(EnclosedError) as caught:
        values(f"event: error\ndata: {data}\n\n")
    assert caught.value.body == body


def test_parse_json_rejects_deep_nesting() -> None:
    with pytest.raises(RecursionError):
        values(f"data: {'[' * 600}{']' * 600}\n\n")


@pytest.mark.parametrize(
    ("body", "content_type", "found"),
    [
        ("", "application/json", "an empty body"),
        (" \n", "", "an empty body"),
        (
            'data: {"a": 1}\n\ndata: [DONE]\n\n',
            "application/json",
            "server-sent events with content type application/json",
        ),
        (": ping\n\nevent: x\ndata: {}\n\n", "", "server-sent events with no content type"),
        ("<?xml version='1.0'?><a/>", "text/plain", "a web page with content type text/plain"),
        ('{"a": 1}\n{"b": 2}\n', "application/x-ndjson", "several JSON objects, one per line"),
    ],
)
def test_body_that_is_not_json_is_named(body: str, content_type: str, found: str) -> None:
    headers = {"content-type": content_type} if content_type else {}
    response: Any = SimpleNamespace(headers=headers, read=body.encode)
    with pytest.raises(CallError) as caught:
        read_object(response)
    assert caught.value.kind is FaultKind.BAD_RESPONSE
    assert caught.value.message.startswith(f"expected a JSON object, found {found}")
