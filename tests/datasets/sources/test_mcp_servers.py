from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.datasets.sources import mcp_servers
from tests.support import mcp_tools
from tests.support.dataset_reading import keys, opened, read, schema, write
from tests.support.mcp_processes import StartedServer

pytest.importorskip("mcp", reason="needs the extra mcp")
TOOLS = ["home::get_weather", "home::get_weather.output", "home::set_light"]


@pytest.fixture
def server(tmp_path: Path) -> StartedServer:
    return StartedServer(tmp_path / "log of starts", [sys.executable, mcp_tools.__file__])


def failure(source: str) -> str:
    with pytest.raises(DatasetError) as caught:
        opened(source)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_schemas_of_all_pages_are_cases(server: StartedServer) -> None:
    assert keys(server.source()) == TOOLS
    assert len(server.processes) == 1, "it is started once"
    assert server.ended()


def test_schema_and_description_of_a_tool_are_unchanged(server: StartedServer) -> None:
    case = read(server.source(), "get_weather")

    assert isinstance(case, Case)
    assert case.schema == mcp_tools.ARGUMENTS
    assert case.about == "Give the arguments of a call of the tool get_weather: Weather of a city."
    assert schema(server.source(), "get_weather.output") == mcp_tools.RESULT


def test_cases_are_read_without_the_server(server: StartedServer) -> None:
    listing = opened(server.source())

    assert all(isinstance(listing.case(key), Case) for key in listing.keys())
    assert len(server.processes) == 1


def test_document_offers_the_tools_of_a_server_that_the_user_names(server: StartedServer, tmp_path: Path) -> None:
    write(tmp_path, {"agent.json": {"cases": [{"ask": "Light, please.", "expect": "set_light"}] * 3}})
    listing = opened(f"{tmp_path}/agent.json@{server.source()}")
    cases = [listing.case(key) for key in listing.keys()]

    assert [case.offer.names for case in cases if isinstance(case, Case) and case.offer] == [
        ("get_weather", "set_light")
    ] * 3
    assert len(server.processes) == 1
    assert server.ended()


def test_server_of_the_newer_protocol_alone_is_listed(server: StartedServer) -> None:
    assert keys(server.source("new")) == [key.replace("home", "mcp") for key in TOOLS]
    assert server.ended()


def test_line_that_is_not_json_is_skipped(server: StartedServer, capfd: pytest.CaptureFixture[str]) -> None:
    assert keys(server.source("banner")) == TOOLS
    assert capfd.readouterr() == ("", "")


def test_server_is_listed_where_an_event_loop_runs(server: StartedServer) -> None:
    async def list_keys() -> list[str]:
        return keys(server.source())

    assert asyncio.run(list_keys()) == TOOLS
    assert server.ended()


def test_secrets_of_the_environment_are_not_passed(server: StartedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    names = {key.id for key in opened(server.source("environment")).keys()}

    assert "PATH" in names
    assert names - {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE"} == set()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("crash", "the server did not list its tools: Connection closed; the last line of its standard error: cannot"),
        ("schema", "the server sent an invalid list of tools: tools.1.inputSchema: Input should be a valid dictionary"),
        ("tools", "the server did not list its tools: no method tools/list; the last line of its standard error: st"),
    ],
)
def test_server_that_fails_is_named_and_ended(server: StartedServer, fault: str, words: str) -> None:
    assert failure(server.source(fault)).startswith(f"dataset '{server.source(fault)}': {words}")
    assert server.ended()


def test_list_without_an_end_is_rejected(server: StartedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_servers, "MOST_PAGES", 20)

    assert "the list of its tools has more than 20 pages" in failure(server.source("endless"))
    assert server.ended()


def test_server_that_does_not_answer_is_ended_at_the_time_limit(
    server: StartedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_servers, "LONGEST_LISTING", 2.0)
    words = "the server did not list its tools within 2 s; the last line of its standard error: starting"

    assert words in failure(server.source("silent"))
    assert server.ended()


@pytest.mark.slow
def test_server_that_goes_on_without_input_is_killed(server: StartedServer) -> None:
    assert keys(server.source("stubborn")) == TOOLS
    assert server.ended()


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_interrupt_ends_the_server(server: StartedServer) -> None:
    """The main thread gets Ctrl-C while the server keeps it waiting."""

    def interrupt() -> None:
        while not server.processes:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        opened(server.source("silent"))
    thread.join()

    assert server.ended()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("mcp:", "dataset 'mcp:': expected a command or a URL after mcp:"),
        (
            "mcp:python 'server.py",
            "dataset 'mcp:python 'server.py': the command cannot be split into words: ",
        ),
        ("mcp:no-such-server-here --a", "the server cannot be started: FileNotFoundError: "),
        ("mcp:http://127.0.0.1:9/mcp", "the server did not list its tools: ConnectError: "),
    ],
)
def test_server_that_cannot_be_reached_is_named(source: str, words: str) -> None:
    assert words in failure(source)


def test_missing_sdk_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    assert failure("mcp:python server.py") == (
        "dataset 'mcp:python server.py' needs version 2 of the package mcp: pip install 'pytest-jsbench[mcp]'"
    )


class _Handler(BaseHTTPRequestHandler):
    """Answers MCP's streamable HTTP with plain JSON."""

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = mcp_tools.reply(message, "")
        data = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(202 if answer is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.send_error(405)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name in http.server
        pass


@contextmanager
def serving() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()


def test_server_at_a_url_is_listed() -> None:
    with serving() as url:
        assert keys(f"mcp:{url}") == TOOLS


@pytest.mark.slow
def test_time_server_of_the_public_index_is_listed() -> None:
    """mcp-server-time 2026.10.19 has two tools with input and output schemas."""
    pytest.importorskip("mcp_server_time", reason="needs mcp-server-time==2026.10.19")
    listing = opened(f"mcp:{shlex.quote(sys.executable)} -m mcp_server_time --local-timezone=UTC")

    assert [re.sub("^.*::", "", str(key)) for key in listing.keys()] == [
        "get_current_time", "get_current_time.output", "convert_time", "convert_time.output",
    ]  # fmt: skip
    case = listing.case(next(iter(listing.keys())))
    assert isinstance(case, Case)
    assert isinstance(case.schema, dict)
    assert case.schema["required"] == ["timezone"]
