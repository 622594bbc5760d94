"""Add the digest of an answer's value to its record, by which repeated answers to a case are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pytest_jsbench.core.files import Unreadable, parse_json
from pytest_jsbench.core.generations import Completion
from pytest_jsbench.values.value_digests import digest_value
from pytest_jsbench.verdicts.verdicts import LONGEST_TEXT

if TYPE_CHECKING:
    from pytest_jsbench.records.records import Record

_NO_VALUE: Final = object()


def add_digest(record: Record, *, is_repeated: bool) -> Record:
    """
    Return the record of an answer that was just judged with the digest of its value.

    There is no digest if the case has a single attempt (`is_repeated` is false), if the answer does not conform, or if
    it is too large. A redacted record, whose answer cannot be read, is returned unchanged.
    """
    if record.redacted is not None:
        return record
    value = _value_of(record) if is_repeated and record.verdict.valid else _NO_VALUE
    digest = None if value is _NO_VALUE else digest_value(value)
    return record if digest == record.value_digest else replace(record, value_digest=digest)


def _value_of(record: Record) -> object:
    """Return the instance in the text, or the called tools with their arguments, in order."""
    generation = record.generation
    if not isinstance(generation, Completion):
        return _NO_VALUE
    if record.verdict.tool is None:
        return record.verdict.instance
    try:
        return [
            {"name": call.name, "arguments": parse_json(call.arguments.strip() or "{}", largest=LONGEST_TEXT)}
            for call in generation.calls
        ]
    except Unreadable:  # for example arguments in a fence
        return _NO_VALUE
