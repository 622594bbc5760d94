"""A provider on this machine, in a process of its own: it answers as slowly, and breaks as often, as it is told."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import re
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KEY_VARIABLE = "JSBENCH_LOOPBACK_KEY"
_NAME = re.compile(rb"case-(\d+)")
#: seconds after which a call is refused
_REFUSAL = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Loopback:
    """The server, seen from outside."""

    url: str

    def counts(self) -> Counter[str]:
        """Calls by case."""
        return Counter(self._ask("/counts"))

    def in_flight(self) -> int:
        """Calls that have come and are not answered."""
        flying: int = self._ask("/in-flight")
        return flying

    def arrivals(self) -> list[float]:
        """When each call has come, in seconds."""
        times: list[float] = self._ask("/arrivals")
        return times

    def refusals(self) -> list[float]:
        """When each call came that got a 429."""
        times: list[float] = self._ask("/refusals")
        return times

    def first_chunks(self) -> list[float]:
        """Seconds from each streamed call's last byte to its first chunk, as the server wrote it."""
        seconds: list[float] = self._ask("/first-chunks")
        return seconds

    def reset(self, **settings: float) -> None:
        """
        Forget the counts.

        `failing` is the part of cases whose first call breaks, `down` seconds of 503, `refused` the number of calls
        that get a 429; so does a call beyond `rate`, calls a second, or beyond `most`, calls at once; `wrong_key` makes
        each call a 401.
        """
        self._ask("/reset?" + "&".join(f"{name}={value}" for name, value in settings.items()))

    def _ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}") as answer:
            return json.load(answer)


@contextmanager
def serve(*, latency: float, first: float | None = None, chunks: int = 64) -> Iterator[Loopback]:
    """Start it, and end it; a call that asks for a stream gets its chunks from `first` to `latency`, evenly."""
    command = [sys.executable, "-m", "benchmarks.loopback", str(latency), f"--chunks={chunks}"]
    command += [] if first is None else [f"--first={first}"]
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        try:
            yield Loopback(url=f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.terminate()


def write_cases(folder: Path, count: int) -> None:
    """So many schemas, each with its own name in it."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        schema = {
            "title": f"case-{number}",
            "type": "object",
            "properties": {"n": {"type": "integer", "minimum": 0}, "city": {"type": "string", "maxLength": 40}},
            "required": ["n", "city"],
        }
        (folder / f"c{number:05}.json").write_text(json.dumps(schema))


def engine_arguments(url: str, *, streaming: bool = False) -> list[str]:
    """The options with which pytest asks it."""
    return [
        "--jsbench-engine=openai",
        "--jsbench-model=loopback",
        f"--jsbench-base-url={url}/v1",
        f"--jsbench-api-key-env={KEY_VARIABLE}",
        f"--jsbench-engine-option=stream={str(streaming).lower()}",
    ]


class _Server(asyncio.Protocol):
    """One connection; what all of them share is on the class's one `state`."""

    def __init__(self, state: _State) -> None:
        self._state = state
        self._data = b""

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
        if path.startswith("/v1/"):
            self._state.call(self, body[:wanted])
        else:
            self.answer(200, self._state.tell(path))

    def begin(self) -> None:
        self._write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")

    def event(self, data: bytes, *, last: bool) -> None:
        text = b"data: " + data + (b"\n\ndata: [DONE]\n\n" if last else b"\n\n")
        self._write(b"%x\r\n%s\r\n" % (len(text), text) + (b"0\r\n\r\n" if last else b""))

    def answer(self, status: int, value: object, *headers: str) -> None:
        body = json.dumps(value).encode()
        lines = [f"HTTP/1.1 {status} Whatever", "content-type: application/json", f"content-length: {len(body)}"]
        head = "\r\n".join([*lines, *headers, "", ""])
        self._write(head.encode() + body)

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)


class _State:
    def __init__(self, latency: float, *, first: float, chunks: int) -> None:
        self._latency = latency
        self._first = first
        self._chunks = chunks
        self._first_chunks: list[float] = []
        self._arrivals: list[float] = []
        self._counts: Counter[str] = Counter()
        self._in_flight = 0
        self._failing = 0.0
        self._down_until = 0.0
        self._refused = 0
        self._rate = 0.0
        #: calls that may come now, where there is a rate
        self._room = 0.0
        self._room_at = 0.0
        self._most = 0
        self._refusals: list[float] = []
        self._wrong_key = False

    def call(self, connection: _Server, body: bytes) -> None:
        found = _NAME.search(body)
        name = found[1].decode() if found else "?"
        self._counts[name] += 1
        self._in_flight += 1
        loop = asyncio.get_running_loop()
        self._arrivals.append(loop.time())
        if self._is_beyond_its_limit(loop.time()):
            loop.call_later(_REFUSAL, self._finish, connection, name, True)
        elif b'"stream":true' in body:
            connection.begin()
            loop.call_later(self._first, self._stream, connection, name, _chunks(name, self._chunks), loop.time(), 0)
        else:
            loop.call_later(self._latency, self._finish, connection, name, False)

    def _is_beyond_its_limit(self, now: float) -> bool:
        if self._refused:
            self._refused -= 1
        elif self._rate:
            self._room = min(self._rate, self._room + (now - self._room_at) * self._rate)
            self._room_at = now
            if self._room >= 1:
                self._room -= 1
                return False
        elif not self._most or self._in_flight <= self._most:
            return False
        self._refusals.append(now)
        return True

    def tell(self, path: str) -> object:
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
        self._counts.clear()
        self._refusals.clear()
        self._first_chunks.clear()
        self._arrivals.clear()
        settings = dict(pair.split("=") for pair in path.partition("?")[2].split("&") if pair)
        self._failing = float(settings.get("failing", 0))
        self._down_until = asyncio.get_running_loop().time() + float(settings.get("down", 0))
        self._refused = int(float(settings.get("refused", 0)))
        self._rate = self._room = float(settings.get("rate", 0))
        self._most = int(float(settings.get("most", 0)))
        self._wrong_key = bool(float(settings.get("wrong_key", 0)))
        return "done"

    def _stream(self, connection: _Server, name: str, chunks: list[bytes], asked: float, number: int) -> None:
        loop = asyncio.get_running_loop()
        if not number:
            self._first_chunks.append(loop.time() - asked)
        last = number == len(chunks) - 1
        connection.event(chunks[number], last=last)
        if last:
            self._in_flight -= 1
            return
        due = asked + self._first + (self._latency - self._first) * (number + 1) / (len(chunks) - 1)
        loop.call_at(due, self._stream, connection, name, chunks, asked, number + 1)

    def _finish(self, connection: _Server, name: str, refused: bool) -> None:
        self._in_flight -= 1
        if self._wrong_key:
            connection.answer(401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}})
        elif refused:
            connection.answer(429, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, "retry-after: 1")
        elif asyncio.get_running_loop().time() < self._down_until:
            connection.answer(503, {"error": {"message": "down for maintenance", "type": "server_error"}})
        elif name.isdigit() and int(name) * 7919 % 100 < 100 * self._failing and self._counts[name] == 1:
            connection.answer(500, {"error": {"message": "an injected fault", "type": "server_error"}})
        else:
            connection.answer(200, _completion(name))


def _completion(name: str) -> dict[str, Any]:
    content = json.dumps({"n": int(name) if name.isdigit() else 0, "city": "Oslo"})
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "loopback",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}],
        "usage": {"prompt_tokens": 60, "completion_tokens": 12, "total_tokens": 72},
    }


def _chunks(name: str, count: int) -> list[bytes]:
    """The same answer in so many chunks of Chat Completions; the usage comes with the last."""
    whole = _completion(name)
    text = whole["choices"][0]["message"]["content"] + " " * count
    cuts = [len(text) * number // (count - 1) for number in range(count)]
    parts = [text[start:end] for start, end in itertools.pairwise(cuts)]
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "loopback"}
    ends: list[tuple[dict[str, str], str | None]] = [*(({"content": part}, None) for part in parts), ({}, "stop")]
    choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": end} for delta, end in ends]
    chunks: list[dict[str, Any]] = [{**head, "choices": [choice], "usage": None} for choice in choices]
    chunks[-1]["usage"] = whole["usage"]
    return [json.dumps(chunk).encode() for chunk in chunks]


async def _main(latency: float, first: float, chunks: int) -> None:
    state = _State(latency, first=first, chunks=chunks)
    server = await asyncio.get_running_loop().create_server(lambda: _Server(state), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("latency", type=float, help="seconds to each answer")
    parser.add_argument("--first", type=float, help="seconds to the first chunk (0: at once)")
    parser.add_argument("--chunks", type=int, default=64, help="of an answer that is streamed")
    given = parser.parse_args()
    even = given.latency / given.chunks
    asyncio.run(_main(given.latency, even if given.first is None else given.first, given.chunks))
