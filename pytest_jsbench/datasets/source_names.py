"""Recognize sources of two parts: MCP servers, documents with the source of their tools, and files of requests."""

from __future__ import annotations

from pathlib import Path

#: Prefix of the command or URL of an MCP server.
SERVER = "mcp:"
#: Word after a file's name and an @, if each line of the file is a request with tools.
REQUESTS = "requests"


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


def may_be_bfcl(path: Path) -> bool:
    """Return whether the file's name begins as those of the Berkeley Function Calling Leaderboard (BFCL) do."""
    return path.name.startswith("BFCL_v")
