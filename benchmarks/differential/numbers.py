"""Numbers near the limits of double precision, and different spellings of a number."""

from __future__ import annotations

import json
import random
import re
from typing import Any

NUMBERS = (
    0, -0.0, 1, 1.0, -1, 2, 3, 4, 5, 0.5, 0.1, 0.2, 0.3, 0.07, 4.35, 19.99, 1.1, 2.5, 1e-9, 5e-324,
    2.2250738585072014e-308, 1e16, 1e21, 1e22, 1e300, 1.7976931348623157e308, -1.7976931348623157e308, 2**31,
    2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**20, 10**30,
    123456789012345678901234567890,
)  # fmt: skip
#: Matches a number in a JSON text; strings are matched first, so that numbers in them are skipped.
_NUMBER = re.compile(r'("(?:[^"\\]|\\.)*")|(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)')


def write(value: Any, chance: random.Random) -> str:
    """Write the value as JSON, with some of its numbers in another spelling of the same number."""
    text = json.dumps(value, ensure_ascii=chance.random() < 0.5)
    return _NUMBER.sub(lambda found: found[1] or _spelled(found[2], chance), text) if chance.random() < 0.2 else text


def _spelled(digits: str, chance: random.Random) -> str:
    if "e" in digits or chance.random() < 0.5:
        return digits.replace("e", "E")
    if "." in digits:
        return chance.choice((digits + "0", digits + "e0", digits + "00E+0"))
    return chance.choice((digits + ".0", digits + "e0", digits + ".0e-0", digits + "0e-1"))
