"""The command `jsbench view`: serve web pages about a directory of runs on this machine until stopped."""

from __future__ import annotations

import argparse
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from pytest_jsbench.core.errors import MissingRequirement, RecordError
from pytest_jsbench.core.text import printable
from pytest_jsbench.engines.engine_options import is_installed

HOST = "127.0.0.1"
#: Usual directories of runs; the first that exists is the default.
_USUAL = ("runs", "jsbench-runs", ".pytest_cache/d/jsbench")


def add_view(commands: Any) -> None:
    """Declare `jsbench view`."""
    parser = commands.add_parser(
        "view",
        help="view a directory of runs in a browser",
        description="Serve web pages about a directory of runs on this machine: a list of the runs, runs in progress, "
        "each attempt with its prompt, schema and answer, and runs side by side. Filters are part of the URL. The "
        "pages can be opened only with the printed link. Ctrl-C stops the server.",
    )
    usual = f"a directory of runs, or of one run (default: the first that exists of {', '.join(_USUAL)})"
    parser.add_argument("folder", type=Path, nargs="?", metavar="DIR", help=usual)
    parser.add_argument("--port", type=int, default=0, metavar="N", help="port (default: a free one)")
    parser.set_defaults(command=_view)


def _view(options: argparse.Namespace, out: TextIO) -> bool:
    folder = options.folder or next(filter(Path.is_dir, map(Path, _USUAL)), None)
    if folder is None or not folder.is_dir():
        missing = f"none of {', '.join(_USUAL)} exists"
        problem = missing if folder is None else f"{printable(str(folder))} is not a directory"
        message = f"no runs to view: {problem}; pass the directory of --jsbench-output"
        raise RecordError(message, found=problem, expected="a directory of runs")
    for package in ("starlette", "uvicorn", "jinja2"):
        if not is_installed(package):
            install = "pip install 'pytest-jsbench[view]'"
            raise MissingRequirement(f"jsbench view needs {package}: {install}", expected=package, where=install)
    import uvicorn

    from pytest_jsbench.lab.view.shelf import Shelf
    from pytest_jsbench.lab.view.site import make_site

    token = secrets.token_urlsafe(24)
    if not 0 <= options.port < 65_536:
        raise RecordError(f"--port: expected a number from 0 to 65535, found {options.port}", found=options.port)
    try:
        listener = socket.create_server((HOST, options.port))
    except OSError as error:
        message = f"cannot listen on port {options.port}: {error.strerror or error}; choose another with --port"
        raise RecordError(message, found=options.port, expected="a free port") from error
    port = listener.getsockname()[1]
    out.write(f"http://{HOST}:{port}/?token={token}\n{folder}; Ctrl-C stops it\n")
    out.flush()
    server = uvicorn.Server(uvicorn.Config(make_site(Shelf(folder), token), log_level="warning", access_log=False))
    with listener, suppress(KeyboardInterrupt):  # uvicorn raises KeyboardInterrupt again after it has shut down
        server.run(sockets=[listener])
    return True
