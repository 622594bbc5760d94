"""
Local provider in a separate process, with configurable latency, failures and rate limits.

It supports each wire format, and recognises it by the call's path.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import re
import ssl
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.wire_formats import WIRE_FORMATS, WireFormat, wire_format_of

KEY_VARIABLE = "JSBENCH_LOOPBACK_KEY"
_NAME = re.compile(rb"case-(\d+)")
#: Seconds until a call is rejected.
_REFUSAL = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Loopback:
    """Client of the server's statistics and settings."""

    url: str
    #: Address with TLS; empty if the server has no certificate.
    secure_url: str = ""

    def counts(self) -> Counter[str]:
        """Return the number of calls of each case."""
        return Counter(self._get("/counts"))

    def in_flight(self) -> int:
        """Return the number of calls that are not answered yet."""
        flying: int = self._get("/in-flight")
        return flying

    def arrivals(self) -> list[float]:
        """Return the arrival times of all calls, in seconds."""
        times: list[float] = self._get("/arrivals")
        return times

    def refusals(self) -> list[float]:
        """Return the arrival times of the calls that got a 429, in seconds."""
        times: list[float] = self._get("/refusals")
        return times

    def first_chunks(self) -> list[float]:
        """Return the seconds from each streamed call's arrival to its first chunk, as written by the server."""
        seconds: list[float] = self._get("/first-chunks")
        return seconds

    def first_writes(self) -> dict[str, float]:
        """Return the time of each case's first chunk, by the monotonic clock, which all processes share on Linux."""
        times: dict[str, float] = self._get("/first-writes")
        return times

    def connections(self) -> int:
        """Return the number of connections that were opened for calls."""
        opened: int = self._get("/connections")
        return opened

    def reset(self, **settings: float) -> None:
        """
        Reset the statistics, and change the settings.

        `failing` is the fraction of cases whose first call fails, `down` the seconds of 503, `refused` the number of
        calls that get a 429; so do calls above `rate` (calls per second) or `most` (simultaneous calls). With
        `wrong_key` each call gets a 401.
        """
        self._get("/reset?" + "&".join(f"{name}={value}" for name, value in settings.items()))

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}") as answer:
            return json.load(answer)


@contextmanager
def serve(
    *,
    latency: float,
    first: float | None = None,
    chunks: int = 64,
    answers: Path | None = None,
    certificate: Path | None = None,
) -> Iterator[Loopback]:
    """
    Run the server; streamed calls get their chunks evenly between the seconds `first` and `latency`.

    `answers` is a JSON file for Chat Completions: an object with the answer to each schema, by the schema's text as of
    `schema_text`. With a `certificate`, a file that also has its key, the server can be called with TLS, too.
    """
    command = [sys.executable, "-m", "benchmarks.loopback", str(latency), f"--chunks={chunks}"]
    command += [] if first is None else [f"--first={first}"]
    command += [] if answers is None else [f"--answers={answers}"]
    command += [] if certificate is None else [f"--certificate={certificate}"]
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        try:
            port, secure_port = map(int, process.stdout.readline().split())
            secure_url = f"https://localhost:{secure_port}" if secure_port else ""
            yield Loopback(url=f"http://127.0.0.1:{port}", secure_url=secure_url)
        finally:
            process.terminate()


def schema_text(schema: object) -> str:
    """Return the text by which the server finds the answer to a schema."""
    return json.dumps(schema, sort_keys=True)


def write_cases(folder: Path, count: int) -> None:
    """Write this many schemas, each with a unique title."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        schema = {
            "title": f"case-{number}",
            "type": "object",
            "properties": {"n": {"type": "integer", "minimum": 0}, "city": {"type": "string", "maxLength": 40}},
            "required": ["n", "city"],
        }
        (folder / f"c{number:05}.json").write_text(json.dumps(schema))


def engine_arguments(url: str, *, streaming: bool = False, wire: str = "chat") -> list[str]:
    """Return the options with which pytest calls it in a wire format."""
    wire_format = WIRE_FORMATS[wire]
    options = {"stream": str(streaming).lower(), **wire_format.options}
    return [
        f"--jsbench-engine={wire_format.engine}",
        "--jsbench-model=loopback",
        f"--jsbench-base-url={url}{wire_format.root}",
        f"--jsbench-api-key-env={KEY_VARIABLE}",
        *(f"--jsbench-engine-option={name}={value}" for name, value in options.items()),
    ]


def add_wire_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that sets the wire format."""
    parser.add_argument("--wire", choices=tuple(WIRE_FORMATS), default="chat", help="wire format (default: chat)")


class _Server(asyncio.Protocol):
    """One connection; all connections share one `state`."""

    def __init__(self, state: _State) -> None:
        self._state = state
        self._data = b""
        self._called = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, separator, body = self._data.partition(b"\r\n\r\n")
        if not separator:
            return
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        wanted = int(length[1]) if length else 0
        if len(body) < wanted:
            return
        self._data = body[wanted:]
        path = head.split(b" ", 2)[1].decode()
        wire = wire_format_of(path)
        if wire is None:
            self.answer(200, self._state.respond(path))
        else:
            self._state.opened += not self._called
            self._called = True
            self._state.call(
                Call(connection=self, wire=wire, path=path, body=body[:wanted], answers=self._state.answers)
            )

    def begin(self) -> None:
        self._write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")

    def events(self, text: bytes, *, last: bool) -> None:
        self._write(b"%x\r\n%s\r\n" % (len(text), text) + (b"0\r\n\r\n" if last else b""))

    def answer(self, status: int, value: object, *headers: str) -> None:
        body = json.dumps(value).encode()
        lines = [f"HTTP/1.1 {status} Status", "content-type: application/json", f"content-length: {len(body)}"]
        head = "\r\n".join([*lines, *headers, "", ""])
        self._write(head.encode() + body)

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)


class Call:
    """A call, from its arrival to its answer."""

    def __init__(
        self, *, connection: _Server, wire: WireFormat, path: str, body: bytes, answers: Mapping[str, str]
    ) -> None:
        self.connection = connection
        self.wire = wire
        self._body = body
        self._answers = answers
        self.streamed = b'"stream":true' in body or ":streamGenerateContent" in path
        match = _NAME.search(body)
        self.name = match[1].decode() if match else "?"
        self.arrived_at = asyncio.get_running_loop().time()

    def answer_text(self) -> str:
        if self._answers:
            wanted = json.loads(self._body)["response_format"]["json_schema"]["schema"]
            return self._answers[schema_text(wanted)]
        return json.dumps({"n": int(self.name) if self.name.isdigit() else 0, "city": "Oslo"})

    def complete(self) -> None:
        self.connection.answer(200, self.wire.whole(self.answer_text()))

    def fail(self, status: int, message: str, *headers: str) -> None:
        self.connection.answer(status, self.wire.error(message, status), *headers)

    def chunks(self, count: int) -> list[bytes]:
        """Split its answer into this many chunks; the last has the usage."""
        text = self.answer_text() + " " * count
        cuts = [len(text) * number // (count - 1) for number in range(count)]
        parts = [self.wire.delta(text[start:end]) for start, end in itertools.pairwise(cuts)]
        parts[0] = self.wire.begin + parts[0]
        return [part.encode() for part in (*parts, self.wire.end(text))]


class _State:
    def __init__(self, latency: float, *, first: float, chunks: int, answers: Mapping[str, str]) -> None:
        self.answers = answers
        self._latency = latency
        self._first = first
        self._chunks = chunks
        self._first_chunks: list[float] = []
        self._first_writes: dict[str, float] = {}
        self._arrivals: list[float] = []
        self._counts: Counter[str] = Counter()
        self._in_flight = 0
        self._failing = 0.0
        self._down_until = 0.0
        self._refused = 0
        self._rate = 0.0
        #: Calls that the rate limit currently permits.
        self._permits = 0.0
        self._permits_updated_at = 0.0
        self._most = 0
        self._refusals: list[float] = []
        self._wrong_key = False
        #: Number of connections with at least one call.
        self.opened = 0

    def call(self, call: Call) -> None:
        self._counts[call.name] += 1
        self._in_flight += 1
        loop = asyncio.get_running_loop()
        self._arrivals.append(call.arrived_at)
        if self._exceeds_limit(call.arrived_at):
            loop.call_later(_REFUSAL, self._finish, call, True)
        elif call.streamed:
            call.connection.begin()
            loop.call_later(self._first, self._stream, call, call.chunks(self._chunks), 0)
        else:
            loop.call_later(self._latency, self._finish, call, False)

    def _exceeds_limit(self, now: float) -> bool:
        if self._refused:
            self._refused -= 1
        elif self._rate:
            self._permits = min(self._rate, self._permits + (now - self._permits_updated_at) * self._rate)
            self._permits_updated_at = now
            if self._permits >= 1:
                self._permits -= 1
                return False
        elif not self._most or self._in_flight <= self._most:
            return False
        self._refusals.append(now)
        return True

    def respond(self, path: str) -> object:
        if path == "/counts":
            return self._counts
        if path == "/in-flight":
            return self._in_flight
        if path == "/arrivals":
            return self._arrivals
        if path == "/refusals":
            return self._refusals
        if path == "/first-chunks":
            return self._first_chunks
        if path == "/first-writes":
            return self._first_writes
        if path == "/connections":
            return self.opened
        self._counts.clear()
        self._refusals.clear()
        self._first_chunks.clear()
        self._first_writes.clear()
        self._arrivals.clear()
        self.opened = 0
        settings = dict(pair.split("=") for pair in path.partition("?")[2].split("&") if pair)
        self._failing = float(settings.get("failing", 0))
        self._down_until = asyncio.get_running_loop().time() + float(settings.get("down", 0))
        self._refused = int(float(settings.get("refused", 0)))
        self._rate = self._permits = float(settings.get("rate", 0))
        self._most = int(float(settings.get("most", 0)))
        self._wrong_key = bool(float(settings.get("wrong_key", 0)))
        return "done"

    def _stream(self, call: Call, chunks: list[bytes], number: int) -> None:
        loop = asyncio.get_running_loop()
        if not number:
            now = loop.time()
            self._first_chunks.append(now - call.arrived_at)
            self._first_writes[call.name] = now
        last = number == len(chunks) - 1
        call.connection.events(chunks[number], last=last)
        if last:
            self._in_flight -= 1
            return
        due = call.arrived_at + self._first + (self._latency - self._first) * (number + 1) / (len(chunks) - 1)
        loop.call_at(due, self._stream, call, chunks, number + 1)

    def _finish(self, call: Call, refused: bool) -> None:
        self._in_flight -= 1
        if self._wrong_key:
            call.fail(401, "Incorrect API key provided")
        elif refused:
            call.fail(429, "slow down", "retry-after: 1")
        elif asyncio.get_running_loop().time() < self._down_until:
            call.fail(503, "down for maintenance")
        elif self._is_broken(call.name):
            call.fail(500, "an injected fault")
        else:
            call.complete()

    def _is_broken(self, name: str) -> bool:
        """Return whether this is the first call of a case whose first call fails."""
        return name.isdigit() and int(name) * 7919 % 100 < 100 * self._failing and self._counts[name] == 1


async def _main(state: _State, certificate: Path | None) -> None:
    listen = partial(asyncio.get_running_loop().create_server, lambda: _Server(state), "127.0.0.1", 0, backlog=1024)
    server = await listen()
    secure_port = 0
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        secure = await listen(ssl=context)
        secure_port = secure.sockets[0].getsockname()[1]
    print(server.sockets[0].getsockname()[1], secure_port, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("latency", type=float, help="seconds until each answer")
    parser.add_argument("--first", type=float, help="seconds until the first chunk (0: immediately)")
    parser.add_argument("--chunks", type=int, default=64, help="number of chunks of a streamed answer (default: 64)")
    parser.add_argument("--answers", type=Path, help="JSON file with the answer to each schema (chat only)")
    parser.add_argument("--certificate", type=Path, help="file with a certificate and its key, to listen with TLS, too")
    given = parser.parse_args()
    even = given.latency / given.chunks
    known = {} if given.answers is None else json.loads(given.answers.read_text())
    first = even if given.first is None else given.first
    state = _State(given.latency, first=first, chunks=given.chunks, answers=known)
    asyncio.run(_main(state, given.certificate))
