r"""
Properties of Unicode by the names that ECMA-262 gives them in `\p{…}` (tables 67 to 69).

The tables are those of `regress`, an engine of ECMA-262: Rust's own are of another version of Unicode, and lack some.
"""

from __future__ import annotations

import functools
from array import array


@functools.lru_cache(maxsize=256)
def characters_with(name: str) -> tuple[tuple[int, int], ...] | None:
    """The ranges of the characters that have the property, None where ECMA-262 has no such property."""
    import regress

    try:
        runs = regress.Regex(rf"\p{{{name}}}+", "u")
    except regress.RegressError:
        return None
    codes = array("I", range(0xD800))
    codes.extend(range(0xE000, 0x110000))
    text = codes.tobytes().decode("utf-32")
    written = text.encode()
    # it counts in bytes of UTF-8; a range may run over the surrogates, which no text holds
    places = (run.range() for run in runs.find_iter(text) or ())
    ends = ((written[place.start : place.start + 4], written[max(0, place.stop - 4) : place.stop]) for place in places)
    return tuple((ord(first.decode(errors="ignore")[0]), ord(last.decode(errors="ignore")[-1])) for first, last in ends)
