"""A provider on this machine, in a process of its own: it answers as slowly, and breaks as often, as it is told."""

from __future__ import annotations

import argparse
import asyncio
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

    def reset(self, **settings: float) -> None:
        """Forget the counts; `failing` is the part of cases whose first call breaks, `down` seconds of 503."""
        self._ask("/reset?" + "&".join(f"{name}={value}" for name, value in settings.items()))

    def _ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}") as answer:
            return json.load(answer)


@contextmanager
def serve(*, latency: float) -> Iterator[Loopback]:
    """Start it, and end it."""
    command = [sys.executable, "-m", "benchmarks.loopback", str(latency)]
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        yield Loopback(url=f"http://127.0.0.1:{int(process.stdout.readline())}")
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


def engine_arguments(url: str) -> list[str]:
    """The options with which pytest asks it."""
    return [
        "--jsbench-engine=openai",
        "--jsbench-model=loopback",
        f"--jsbench-base-url={url}/v1",
        f"--jsbench-api-key-env={KEY_VARIABLE}",
        "--jsbench-engine-option=stream=false",
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

    def answer(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        head = f"HTTP/1.1 {status} Whatever\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        if not self._transport.is_closing():
            self._transport.write(head.encode() + body)


class _State:
    def __init__(self, latency: float) -> None:
        self._latency = latency
        self._counts: Counter[str] = Counter()
        self._in_flight = 0
        self._failing = 0.0
        self._down_until = 0.0

    def call(self, connection: _Server, body: bytes) -> None:
        found = _NAME.search(body)
        name = found[1].decode() if found else "?"
        self._counts[name] += 1
        self._in_flight += 1
        asyncio.get_running_loop().call_later(self._latency, self._finish, connection, name)

    def tell(self, path: str) -> object:
        if path == "/counts":
            return self._counts
        if path == "/in-flight":
            return self._in_flight
        self._counts.clear()
        settings = dict(pair.split("=") for pair in path.partition("?")[2].split("&") if pair)
        self._failing = float(settings.get("failing", 0))
        self._down_until = asyncio.get_running_loop().time() + float(settings.get("down", 0))
        return "done"

    def _finish(self, connection: _Server, name: str) -> None:
        self._in_flight -= 1
        if asyncio.get_running_loop().time() < self._down_until:
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


async def _main(latency: float) -> None:
    state = _State(latency)
    server = await asyncio.get_running_loop().create_server(lambda: _Server(state), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("latency", type=float, help="seconds to each answer")
    asyncio.run(_main(parser.parse_args().latency))
