"""Places in instances and schemas as text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_jsbench.core.text import printable, shortened
from pytest_jsbench.schemas.references import pointer_of

if TYPE_CHECKING:
    from collections.abc import Sequence

#: where something stands: keys and indexes from the root
Path = tuple[str | int, ...]


def json_path(parts: Sequence[str | int]) -> str:
    """The place as a JSON path: `$.items[0]["x-y"]`."""
    return printable("$" + "".join(map(_step, parts)), cut="middle")


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    part = shortened(part)
    return f".{part}" if part.isascii() and part.isidentifier() else f"[{json.dumps(part, ensure_ascii=False)}]"


def json_pointer(parts: Sequence[str | int]) -> str:
    """The place as a JSON pointer: `/properties/a~1b/items/0`."""
    return printable(pointer_of(shortened(str(part)) for part in parts), cut="middle")
