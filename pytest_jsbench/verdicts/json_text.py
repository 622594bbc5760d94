"""One JSON document of RFC 8259, decoded within limits."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal, InvalidOperation
from typing import NoReturn

from pytest_jsbench.core.json_values import structure
from pytest_jsbench.verdicts.syntax_reasons import SyntaxReason

#: arrays and objects within each other; labelled answers reach 34
DEEPEST = 128
#: digits of a number
LONGEST_NUMBER = 4_300
#: from here on, not every whole number is a double
_WHOLE = 2**53
#: where a double has all of its digits
_NORMAL = 1e-290
#: characters of a number with a point or an exponent and no more than 15 digits, which any double keeps
_KEPT = 16
#: the only white space that RFC 8259 allows between tokens
SPACE = " \t\r\n"
#: a string, or the rest of the text where it has no end
STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


class RefusedError(Exception):
    """JSON by its grammar that is not read: of Python's own dialect, or beyond a limit."""

    def __init__(self, reason: SyntaxReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Decoder:
    """The standard library's decoder with hooks that refuse what RFC 8259 or the limits do not allow."""

    def __init__(self, *, exact: bool = True) -> None:
        #: whether an object had a key twice
        self.duplicate_keys = False
        self._parse_float = exact_number if exact else _double

    def _reader(self, text: str) -> json.JSONDecoder:
        return json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_constant=_refuse_constant,
            parse_float=self._parse_float,
            # the decoder knows a short cut for it, and no number is longer than the text
            parse_int=int if len(text) <= LONGEST_NUMBER else _int,
        )

    def decode(self, text: str) -> object:
        """The document that the text is; JSONDecodeError or RefusedError where it is none."""
        instance = self._reader(text).decode(text)
        if holds_lone_surrogate(text, instance):
            message = "a lone surrogate, which no UTF-8 text can hold"
            raise RefusedError(SyntaxReason.LONE_SURROGATE, message)
        return instance

    def end_of_first(self, text: str, start: int = 0) -> int | None:
        """Where the value that begins there ends; None where none begins, or it does not end."""
        try:
            return self._reader(text).raw_decode(text, start)[1]
        except (json.JSONDecodeError, RefusedError):
            return None

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) != len(pairs):
            self.duplicate_keys = True
        return value


def too_many(text: str, most: int) -> bool:
    """Whether the text has more arrays and objects than that, seen without parsing it."""
    return text.count("[") + text.count("{") > most and len(structure(text, b"[{")) > most


def holds_lone_surrogate(text: str, value: object) -> bool:
    """Whether a string of the JSON value that the text is cannot be written as UTF-8."""
    escaped = "\\ud" in text or "\\uD" in text
    return (escaped or not text.isascii()) and not _encodable(value if escaped else text)


def _encodable(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False, default=float).encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_constant(name: str) -> NoReturn:
    raise RefusedError(SyntaxReason.NAN_OR_INFINITY, f"{name} is not JSON")


def exact_number(digits: str) -> float | Decimal:
    """
    The number as it is written (JSON Schema core, 4.2.2 and 6.3); RefusedError beyond the limits.

    It is a float where that means the same number to all who compare it; both validators take Decimals too.
    """
    number = float(digits)
    if len(digits) <= _KEPT and _NORMAL < abs(number) < _WHOLE:
        return number
    _refuse_beyond_limits(digits, number)
    if number == 0 and not digits.lower().partition("e")[0].strip("-0."):
        return number
    try:
        exact = Decimal(digits)
    except InvalidOperation:
        raise _too_small(digits) from None
    if exact.adjusted() < -LONGEST_NUMBER:
        raise _too_small(digits)
    return number if abs(number) < _WHOLE and exact == Decimal(repr(number)) else exact


def _double(digits: str) -> float:
    number = float(digits)
    _refuse_beyond_limits(digits, number)
    return number


def _refuse_beyond_limits(digits: str, number: float) -> None:
    if math.isinf(number) or len(digits) > LONGEST_NUMBER:
        raise RefusedError(SyntaxReason.NUMBER_OUT_OF_RANGE, f"the number {digits[:20]}… is beyond double precision")


def _too_small(digits: str) -> RefusedError:
    message = f"the number {digits[:20]}… begins more than {LONGEST_NUMBER:,} digits after the point"
    return RefusedError(SyntaxReason.NUMBER_OUT_OF_RANGE, message)


def _int(digits: str) -> int:
    if len(digits.lstrip("-")) > LONGEST_NUMBER:
        message = f"a number of {len(digits):,} digits; at most {LONGEST_NUMBER:,} are read"
        raise RefusedError(SyntaxReason.NUMBER_OUT_OF_RANGE, message)
    return int(digits)
