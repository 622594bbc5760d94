"""Places in instances and schemas as text, and text that is safe to show and to encode."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: where something stands: keys and indexes from the root
Path = tuple[str | int, ...]

#: characters of a message or a path that reach a report
LONGEST = 300

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def plain(text: str, limit: int = LONGEST) -> str:
    """The text on one bounded line, with all that a terminal or an encoder could choke on escaped."""
    text = shorten(text, limit)
    if text.isprintable():
        return text
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return shorten(escaped, limit)


def shorten(text: str, limit: int = LONGEST) -> str:
    """The text, its middle left out where it is too long: messages end in what was expected."""
    if len(text) <= limit:
        return text
    tail = limit // 2
    return f"{text[: limit - tail - 1]}…{text[-tail:]}"


def json_path(parts: Sequence[str | int]) -> str:
    """The place as a JSON path: `$.items[0]["x-y"]`."""
    return plain("$" + "".join(map(_step, parts)))


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    part = shorten(part)
    return f".{part}" if _IDENTIFIER.fullmatch(part) else f"[{json.dumps(part, ensure_ascii=False)}]"


def json_pointer(parts: Sequence[str | int]) -> str:
    """The place as a JSON pointer: `/properties/a~1b/items/0`."""
    return plain("".join("/" + shorten(str(part)).replace("~", "~0").replace("/", "~1") for part in parts))
