"""
List the tools of an MCP server with the official SDK, and read their schemas as cases.

The server is started by its command, or called at its URL, listed once with all pages, and ended before the function
returns: after errors, at the time limit and after Ctrl-C, too. The SDK closes the server's input, and kills the server
and its children after two seconds. A server gets only the environment variables that the SDK passes by default.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shlex
import tempfile
from collections.abc import Iterator
from concurrent.futures import wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TextIO
from urllib.parse import urlsplit

from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.core.text import describe_error, printable
from pytest_jsbench.core.version import __version__
from pytest_jsbench.datasets.base import ListedCase, Listing, Selection, SkippedPart
from pytest_jsbench.datasets.source_names import SERVER
from pytest_jsbench.datasets.sources import tools

if TYPE_CHECKING:
    from mcp.client import Transport

#: Modules of version 2 of the SDK.
_PACKAGES = ("mcp", "mcp_types")
#: Name of the logger of the SDK.
_LOGGER = "mcp"
#: Time limit for starting and listing a server, in seconds; some commands install the server first.
LONGEST_LISTING = 60.0
#: Interval at which an interrupt is noticed, in seconds.
_TICK = 0.2
#: Maximum number of pages of `tools/list`.
MOST_PAGES = 1_000
#: Maximum number of characters that are read from the end of a server's standard error.
_ERROR_TAIL = 10_000
#: Name of the task for a server that does not state its name.
_UNNAMED = "mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTools:
    """Name of a server, and its tools as a JSON document `{"tools": […]}`."""

    name: str
    document: dict[str, Any]


def open_server(selection: Selection) -> Listing:
    """Open the input and output schemas of a server's tools, in a task with the server's name."""
    return Listing.from_entries(selection, _find_cases(selection.source))


def _find_cases(source: str) -> Iterator[ListedCase | SkippedPart]:
    listed = list_tools(source)
    definitions = tools.read_definitions(listed.document)
    assert definitions is not None, "a list of tools, even if it is empty"
    yield from tools.list_cases(definitions, listed.document, task=listed.name, name="tool", where=source)
    yield from definitions.notes(source)


def list_tools(source: str) -> ServerTools:
    """Return the tools of the server `mcp:COMMAND` or `mcp:URL`; raise DatasetError if they cannot be listed."""
    shown = printable(source, 200)
    if any(importlib.util.find_spec(name) is None for name in _PACKAGES):
        message = f"dataset '{shown}' needs version 2 of the package mcp: pip install 'pytest-jsbench[mcp]'"
        raise DatasetError(message, found=source, option="dataset")
    target = source.removeprefix(SERVER).strip()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        try:
            return _list_in_thread(target, output)
        except Exception as error:
            problem = _describe(error)
            last = _last_line(output)
            ending = f"; the last line of its standard error: {last}" if last else ""
            raise DatasetError(f"dataset '{shown}': {problem}{ending}", found=source, option="dataset") from error


def _list_in_thread(target: str, output: TextIO) -> ServerTools:
    """
    List the tools in an event loop of another thread, since a loop may already run in this one.

    An exception in this thread, such as KeyboardInterrupt, cancels the listing, and waits until the server has ended.
    """
    from anyio.from_thread import start_blocking_portal

    log = logging.getLogger(_LOGGER)
    handler = logging.NullHandler()
    log.addHandler(handler)  # or Python prints a traceback for each line of a server that is not JSON
    try:
        with start_blocking_portal("asyncio") as portal:
            listing = portal.start_task_soon(_list_within_limit, target, output)
            while not listing.done():
                # an interrupt that another thread of this process has received is raised only between two waits
                wait([listing], timeout=_TICK)
            return listing.result()
    finally:
        log.removeHandler(handler)


async def _list_within_limit(target: str, output: TextIO) -> ServerTools:
    import anyio

    with anyio.fail_after(LONGEST_LISTING):
        try:
            return await _list(target, output, mode="legacy")
        except Exception as error:
            if not _needs_new_protocol(_first_of(error)):
                raise
        return await _list(target, output, mode="auto")


async def _list(target: str, output: TextIO, mode: Literal["legacy", "auto"]) -> ServerTools:
    """
    Start or call a server, and read all pages of its tools.

    The mode `legacy` begins with `initialize`, which all but the newest servers expect as the first request; some end
    when they get another one.
    """
    from mcp import Client
    from mcp.types import Implementation

    client_info = Implementation(name="pytest-jsbench", version=__version__)
    async with Client(_open_transport(target, output), mode=mode, client_info=client_info, cache=None) as client:
        definitions: list[Any] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await client.list_tools(cursor=cursor)
            definitions += page.model_dump(mode="json", by_alias=True, exclude_unset=True)["tools"]
            cursor = page.next_cursor
            if cursor is None:
                break
        else:
            raise ValueError(f"the list of its tools has more than {MOST_PAGES:,} pages")
        info = client.server_info
    return ServerTools(name=_UNNAMED if info is None else info.name, document={"tools": definitions})


def _open_transport(target: str, output: TextIO) -> Transport:
    """Return the transport to the server: streamable HTTP for a URL, standard input and output for a command."""
    if urlsplit(target).scheme in ("http", "https"):
        from mcp.client.streamable_http import streamable_http_client

        return streamable_http_client(target)
    from mcp import StdioServerParameters
    from mcp.client.stdio import stdio_client

    command, *arguments = split_command(target)
    return stdio_client(StdioServerParameters(command=command, args=arguments), errlog=output)


def split_command(command: str) -> list[str]:
    """Split a command as a shell does; raise ValueError if it is empty, or a quotation mark is missing."""
    try:
        words = shlex.split(command, posix=os.name != "nt")
    except ValueError as error:
        raise ValueError(f"the command cannot be split into words: {error}") from None
    if not words:
        raise ValueError("expected a command or a URL after mcp:")
    return words


def _first_of(error: BaseException) -> BaseException:
    """Return the first exception in nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _needs_new_protocol(error: BaseException) -> bool:
    """Return whether a server has rejected the request that begins the older protocol."""
    from mcp.shared.exceptions import MCPError
    from mcp.types import METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION

    return isinstance(error, MCPError) and error.code in (METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION)


def _describe(error: BaseException) -> str:
    """Return the reason why the tools of a server could not be listed, as one line without secrets."""
    from mcp.shared.exceptions import MCPError
    from pydantic import ValidationError

    first = _first_of(error)
    match first:
        case TimeoutError():
            return f"the server did not list its tools within {LONGEST_LISTING:g} s"
        case FileNotFoundError() | PermissionError() | NotADirectoryError():
            return f"the server cannot be started: {describe_error(first)}"
        case ValidationError():
            fault = first.errors()[0]
            place = ".".join(map(str, fault["loc"]))
            return one_line(f"the server sent an invalid list of tools: {place}: {fault['msg']}")
        case MCPError():
            return one_line(f"the server did not list its tools: {first.error.message}")
        case ValueError():
            return one_line(str(first))
        case _:
            return one_line(f"the server did not list its tools: {describe_error(first)}")


def _last_line(output: TextIO) -> str:
    """Return the last line that is not empty in the server's standard error."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(size - _ERROR_TAIL, 0))
    lines = [line for line in output.read().splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else ""
