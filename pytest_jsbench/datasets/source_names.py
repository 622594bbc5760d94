"""Recognize the sources that consist of two parts: MCP servers, and documents with the source of their tools."""

from __future__ import annotations

from pathlib import Path

#: Prefix of the command or URL of an MCP server.
SERVER = "mcp:"


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
