"""Compute digests of JSON values, by which repeated answers are compared without their texts."""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr

from pytest_jsbench.values.matches import field_name

if TYPE_CHECKING:
    from pytest_jsbench.schemas.references import Path

#: What distinguishes the answers that are compared, such as their case and variant.
Group = TypeVar("Group", bound=Hashable)
#: Maximum number of fields of a value that have a digest of their own.
MOST_FIELDS = 50
#: Maximum number of scalars, empty lists and empty objects in a value with a digest, to limit the time for an answer.
MOST_LEAVES = 20_000
#: Maximum total length in characters of the leaves with their paths, since a long name is in the path of each leaf.
_MOST_CHARACTERS = 30_000_000
#: Number of hex digits in the digest of a whole value, and in that of a field.
WHOLE_DIGITS = 16
FIELD_DIGITS = 8


class ValueDigest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    Digests of the value of a conforming answer.

    Two values have equal digests if they are equal as JSON: the order of properties does not matter, and 1 equals 1.0.
    """

    #: First 16 hex digits of the SHA-256 digest of the value.
    whole: str
    #: For each field, such as `items.*.amount`, the first 8 hex digits of the digest of its values and of their
    #: positions in lists; in alphabetical order, at most 50.
    fields: Mapping[str, str] = {}
    #: Whether the value has more fields.
    is_cut: bool = False
    #: Name of the key with which a redacted run has computed the digest; digests with different keys cannot be
    #: compared.
    key: str = ""

    def facts(self) -> ValueDigestFacts:
        """Return the digests in a form that takes little memory."""
        return ValueDigestFacts(
            whole=self.whole,
            names=_share_names(tuple(self.fields)),
            digits="".join(digits[:FIELD_DIGITS].ljust(FIELD_DIGITS) for digits in self.fields.values()),
            is_cut=self.is_cut,
            key=self.key,
        )


class ValueDigestFacts(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Digests of a value as they are kept in memory for each attempt."""

    whole: str
    #: Names of the fields with a digest, in alphabetical order.
    names: tuple[str, ...] = ()
    #: Digests of the fields in this order, 8 characters each.
    digits: str = ""
    is_cut: bool = False
    key: str = ""

    def __post_init__(self) -> None:
        """Share the names, because the answers to a case usually have the same fields."""
        force_setattr(self, "names", _share_names(self.names))
        force_setattr(self, "key", sys.intern(self.key))

    @property
    def fields(self) -> dict[str, str]:
        """Digest of each field by its name."""
        return {name: self.digits[at * FIELD_DIGITS : (at + 1) * FIELD_DIGITS] for at, name in enumerate(self.names)}

    def knows(self, name: str) -> bool:
        """Return whether it is known if the value has this field, and with which values."""
        return not self.is_cut or (bool(self.names) and name <= self.names[-1])


@functools.lru_cache(maxsize=1024)
def _share_names(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(sys.intern, names))


def digest_value(value: object) -> ValueDigest | None:
    """Return the digests of a JSON value; None for a value that is too large."""
    whole: list[str] = []
    by_field: dict[str, list[str]] = {}
    room = _MOST_CHARACTERS
    for path, leaf in _leaves(value):
        line = json.dumps([path, leaf])
        room -= len(line)
        if len(whole) == MOST_LEAVES or room < 0:
            return None
        whole.append(line)
        by_field.setdefault(field_name(path), []).append(line)
    names = sorted(by_field)[:MOST_FIELDS]
    return ValueDigest(
        whole=_digest(whole, WHOLE_DIGITS),
        fields={name: _digest(by_field[name], FIELD_DIGITS) for name in names},
        is_cut=len(by_field) > len(names),
    )


def _leaves(value: object) -> Iterator[tuple[Path, object]]:
    """Yield each scalar and each empty list or object with its path, without recursion and without copies of lists."""
    pending: list[Iterator[tuple[Path, object]]] = [iter([((), value)])]
    while pending:
        path, inner = next(pending[-1], (None, None))
        if path is None:
            pending.pop()
        elif isinstance(inner, dict | list) and inner:
            pending.append(_members(path, inner))
        elif isinstance(inner, float) and inner.is_integer():
            yield path, int(inner)
        else:
            yield path, inner


def _members(path: Path, value: dict[str, object] | list[object]) -> Iterator[tuple[Path, object]]:
    for step, member in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, step), member


def _digest(lines: Iterable[str], digits: int) -> str:
    """Return the first digits of the digest of lines in any order; each line has a path that no other line has."""
    return hashlib.sha256("\n".join(sorted(lines)).encode("ascii")).hexdigest()[:digits]


class EqualPairs(NamedTuple):
    """Number of pairs of values that are equal, and number of all pairs that are compared."""

    equal: int
    compared: int

    def __add__(self, other: object) -> EqualPairs:
        """Return the sums of both numbers."""
        assert isinstance(other, EqualPairs)
        return EqualPairs(self.equal + other.equal, self.compared + other.compared)


def group_digests(answers: Iterable[tuple[Group, ValueDigestFacts | None]]) -> dict[Group, list[ValueDigestFacts]]:
    """Return the digests of each group of answers that are compared; answers without a digest are left out."""
    groups: dict[Group, list[ValueDigestFacts]] = {}
    for group, digest in answers:
        if digest is not None:
            groups.setdefault(group, []).append(digest)
    return groups


def count_equal_pairs(values: Iterable[ValueDigestFacts]) -> EqualPairs:
    """Count the pairs of values that are equal as a whole."""
    counts = Counter((value.key, value.whole) for value in values)
    of_key: Counter[str] = Counter()
    for (key, _), count in counts.items():
        of_key[key] += count
    return EqualPairs(sum(map(_pairs, counts.values())), sum(map(_pairs, of_key.values())))


def count_equal_pairs_by_field(values: Iterable[ValueDigestFacts]) -> dict[str, EqualPairs]:
    """
    Count, for each field, the pairs of values in which it is equal, among the pairs in which a value has the field.

    A value whose digests are cut before the name of a field is left out for this field.
    """
    by_key: dict[str, list[ValueDigestFacts]] = {}
    for value in values:
        by_key.setdefault(value.key, []).append(value)
    counts: dict[str, EqualPairs] = {}
    for alike in by_key.values():
        by_field: dict[str, Counter[str]] = {}
        for value in alike:
            for name, digits in value.fields.items():
                by_field.setdefault(name, Counter())[digits] += 1
        whole = [value for value in alike if not value.is_cut]
        cut = [value for value in alike if value.is_cut]
        for name, having in by_field.items():
            known = len(whole) + sum(value.knows(name) for value in cut)
            without = _pairs(known - having.total())
            found = EqualPairs(sum(map(_pairs, having.values())), _pairs(known) - without)
            counts[name] = counts.get(name, EqualPairs(0, 0)) + found
    return {name: counts[name] for name in sorted(counts) if counts[name].compared}


def _pairs(count: int) -> int:
    """Return the number of pairs among so many values."""
    return count * (count - 1) // 2
