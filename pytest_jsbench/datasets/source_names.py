"""Recognize sources of two parts: MCP servers, documents with the source of their tools, and files of requests."""

from __future__ import annotations

import re
from pathlib import Path

#: Prefix of the command or URL of an MCP server.
SERVER = "mcp:"
#: Word after a file's name and an @, if each line of the file is a request with tools.
REQUESTS = "requests"
_BFCL = re.compile(r"BFCL_v\d{1,3}_(?P<category>\w{1,100})\.json")


def split_document(source: str, folder: Path = Path()) -> tuple[str, str] | None:
    """Split `DOCUMENT@TOOLS` at the first @ that follows the name of a file in the folder; None for other sources."""
    if source.startswith(SERVER):
        return None
    at = source.find("@")
    while at >= 0:
        if (folder / Path(source[:at]).expanduser()).is_file():
            return source[:at], source[at + 1 :]
        at = source.find("@", at + 1)
    return None


def category_of_bfcl(path: Path) -> str | None:
    """Return the category in a file name of the Berkeley Function Calling Leaderboard (BFCL), or None."""
    named = _BFCL.fullmatch(path.name)
    return None if named is None else named["category"]
