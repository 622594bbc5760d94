"""
Check the formats of 2020-12 by the grammars of their RFCs, for the second opinion.

This module shares no code with `formats`, which the first validator uses. Strings are checked with the standard
library, with regular expressions written from the ABNF, and with the package `idna` if it is installed. The result is
None for strings that cannot be decided in this way.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from calendar import monthrange
from typing import TYPE_CHECKING
from unicodedata import bidirectional, category, normalize

from pytest_jsbench.schemas.dialects import DRAFT_4, DRAFT_6, Dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Opinion = Callable[[str], bool | None]


def conforms(name: str, text: str, dialect: Dialect) -> bool | None:
    """Return whether the string has the format; True for an unknown format, None if it cannot be decided."""
    if name == "hostname" and dialect in {DRAFT_4, DRAFT_6}:
        return _is_ldh_name(text)
    opinion = _GRAMMARS.get(name)
    return True if opinion is None else opinion(text)


def _fullmatch(pattern: str, flags: int = 0) -> Callable[[str], re.Match[str] | None]:
    """
    Return a function that matches a whole text.

    The pattern is compiled at its first use: to compile all of them takes a tenth of the start of the judge's process,
    and a run's schemas name few formats.
    """

    @functools.cache
    def compiled() -> re.Pattern[str]:
        return re.compile(pattern, re.ASCII | re.VERBOSE | flags)

    return lambda text: compiled().fullmatch(text)


def _check_by_pattern(pattern: str, flags: int = 0) -> Opinion:
    """Return a check that matches the string with a regular expression."""
    matches = _fullmatch(pattern, flags)
    return lambda text: matches(text) is not None


# RFC 3339, section 5.6 and 5.7, appendix A

_DATE = r"(?P<year>\d{4})-(?P<month>0[1-9]|1[0-2])-(?P<day>0[1-9]|[12]\d|3[01])"
_HOURS = r"(?:[01]\d|2[0-3])"
_TIME = rf"""(?P<hour>{_HOURS}):(?P<minute>[0-5]\d):(?P<second>[0-5]\d|60)(?:\.\d+)?
    (?:Z|(?P<sign>[+-])(?P<hours>{_HOURS}):(?P<minutes>[0-5]\d))"""
_date = _fullmatch(_DATE)
_time = _fullmatch(_TIME, re.IGNORECASE)
_date_time = _fullmatch(f"{_DATE}T{_TIME}", re.IGNORECASE)
_DURATION = r"""P(?:\d+W
    | (?:\d+Y(?:\d+M(?:\d+D)?)? | \d+M(?:\d+D)? | \d+D) (?:T TIME)? | T TIME)""".replace(
    "TIME", r"(?:\d+H(?:\d+M(?:\d+S)?)? | \d+M(?:\d+S)? | \d+S)"
)


def _is_day(match: re.Match[str] | None) -> bool:
    if not match:
        return False
    year, month, day = (int(match[part]) for part in ("year", "month", "day"))
    # year 0 is a leap year like 400, and monthrange begins with year 1
    return day <= monthrange(year or 400, month)[1]


def _is_time(text: str) -> bool:
    match = _time(text)
    return match is not None and (match["second"] != "60" or _utc_minutes(match) % 1440 == 1439)


def _utc_minutes(match: re.Match[str]) -> int:
    """Return the time in UTC as minutes from the start of the stated day; negative or above 1439 on another day."""
    offset = int(match["hours"] or 0) * 60 + int(match["minutes"] or 0)
    return int(match["hour"]) * 60 + int(match["minute"]) + (offset if match["sign"] == "-" else -offset)


def _is_date_time(text: str) -> bool:
    match = _date_time(text)
    if not (match and _is_day(match)):
        return False
    if match["second"] != "60":
        return True
    days, minute = divmod(_utc_minutes(match), 1440)
    day = int(match["day"]) + days
    # day 0 is the last day of the month before
    return minute == 1439 and day in {0, monthrange(int(match["year"]) or 400, int(match["month"]))[1]}


# RFC 4291, section 2.2; RFC 2673, section 3.2; addresses with a zone (RFC 4007) or leading zeros are rejected


def _is_address(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _is_ipv6(text: str) -> bool:
    return "%" not in text and _is_address(ipaddress.IPv6Address, text)


# RFC 3986, appendices A and B; RFC 3987, section 2.2

_PARTS = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL).fullmatch
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*").fullmatch
_UCSCHAR = "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    f"{chr(plane << 16 | (0x1000 if plane == 14 else 0))}-{chr(plane << 16 | 0xFFFD)}" for plane in range(1, 15)
)
_IPRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"


class _References:
    """Grammar of URIs; with the non-ASCII characters `beyond_ascii`, the grammar of IRIs."""

    def __init__(self, beyond_ascii: str = "", private: str = "") -> None:
        name = rf"[A-Za-z0-9._~!$&'()*+,;=\-{beyond_ascii}]|%[0-9A-Fa-f]{{2}}"
        future = r"v[0-9A-F]+\.[A-Za-z0-9._~!$&'()*+,;=:\-]+"
        self._authority = _fullmatch(
            rf"(?:(?:{name}|:)*@)? (?:\[(?:(?P<ipv6>[0-9A-F:.]+)|{future})\] | (?:{name})*+) (?::\d*)?", re.IGNORECASE
        )
        self._path = _fullmatch(rf"(?:{name}|[:@/])*+")
        self._query = _fullmatch(rf"(?:{name}|[:@/?{private}])*+")
        self._fragment = _fullmatch(rf"(?:{name}|[:@/?])*+")

    def is_absolute(self, text: str) -> bool:
        """Return whether the text is a URI or IRI with a scheme."""
        parts = _PARTS(text)
        return parts is not None and parts[1] is not None and self.is_reference(text)

    def is_reference(self, text: str) -> bool:
        """Return whether the text is a URI or IRI reference, with or without a scheme."""
        parts = _PARTS(text)
        assert parts is not None
        scheme, authority, path, query, fragment = parts.groups()
        # without a scheme, the first segment of a path cannot contain a colon
        if not _SCHEME(scheme) if scheme is not None else path.startswith(":"):
            return False
        host = self._authority(authority or "")
        if host is None or None in (self._path(path), self._query(query or ""), self._fragment(fragment or "")):
            return False
        return host["ipv6"] is None or _is_ipv6(host["ipv6"])


_URIS = _References()
_IRIS = _References(_UCSCHAR, _IPRIVATE)

# RFC 1123, section 2.1; RFC 5890, section 2.3.2; RFC 5891, section 4; RFC 5893, section 2

_LDH_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9\-]{0,61}[A-Za-z0-9])?").fullmatch
_FULL_STOPS = re.compile("[.\u3002\uff0e\uff61]")
_LONGEST_NAME = 253


def _is_ldh_name(text: str) -> bool:
    return len(text) <= _LONGEST_NAME and all(map(_LDH_LABEL, text.split(".")))


def _is_hostname(text: str) -> bool | None:
    # labels other than A-labels may have hyphens at positions 3 and 4, which idna rejects
    plain = re.sub(r"(?i)(?<![^.])(?!xn--)[^.]+", lambda label: label[0].translate({0x2D: "a"}), text)
    return text.isascii() and _is_ldh_name(text) and _is_idn_hostname(plain)


def _is_idn_hostname(text: str) -> bool | None:
    labels = _FULL_STOPS.split(text)
    if all(label.isascii() and label[2:4] != "--" for label in labels):
        return _is_ldh_name(".".join(labels))
    if len(text) > _LONGEST_NAME:
        return False  # the name is even longer when written with A-labels
    try:
        import idna
    except ImportError:
        return None
    u_labels = labels
    try:
        u_labels = [idna.ulabel(label) for label in labels]
        a_labels = [idna.alabel(label).decode() for label in u_labels]
        if any(bidirectional(character) in {"R", "AL", "AN"} for label in u_labels for character in label):
            for label in u_labels:
                idna.check_bidi(label, check_ltr=True)
    except idna.IDNABidiError:
        # idna takes text directions from Python's Unicode data, which may be too old for a character
        return None if any(category(character) == "Cn" for label in u_labels for character in label) else False
    except UnicodeError:
        return False
    rewritten = zip(labels, a_labels, strict=True)
    same = all(label.lower() == a_label for label, a_label in rewritten if label.isascii())
    return same and _is_ldh_name(".".join(a_labels))


# RFC 5321, sections 4.1.2, 4.1.3 and 4.5.3.1; RFC 6531, section 3.3

_ATOM = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\u0080-\U0010ffff]+").fullmatch
_LONGEST_LOCAL_PART = 64


def _is_idn_email(text: str) -> bool | None:
    # neither a domain nor an address literal contains another @
    local, at, domain = text.rpartition("@")
    if not at or len(local.encode()) > _LONGEST_LOCAL_PART or not _is_local_part(local):
        return False
    if domain.startswith("["):
        return domain.endswith("]") and _is_address_literal(domain[1:-1])
    opinions = [_is_sub_domain(label) for label in normalize("NFC", domain).split(".")]
    if len(domain.encode()) > _LONGEST_NAME or False in opinions:
        return False
    return None if None in opinions else True


def _is_sub_domain(label: str) -> bool | None:
    if label.isascii():
        return _LDH_LABEL(label) is not None
    return not _FULL_STOPS.search(label) and _is_idn_hostname(label)


def _is_local_part(text: str) -> bool:
    if not text.startswith('"'):
        return all(map(_ATOM, text.split(".")))
    escaped = False
    for character in text[1:-1]:
        if character < " " or character == "\x7f" or (character == '"' and not escaped):
            return False
        if escaped and character > "~":
            return False
        escaped = character == "\\" and not escaped
    return len(text) > 1 and text.endswith('"') and not escaped


def _is_address_literal(text: str) -> bool:
    if text[:5].upper() != "IPV6:":
        return _is_snums(text)
    groups, colon, last = text[5:].rpartition(":")
    if "." in last:
        if not _is_snums(last):
            return False
        last = "0:0"
    address = groups + colon + last
    # in an address literal, `::` replaces at least two groups
    return _is_ipv6(address) and ("::" not in address or sum(map(bool, address.split(":"))) <= 6)


def _is_snums(text: str) -> bool:
    numbers = text.split(".")
    return len(numbers) == 4 and all(re.fullmatch("[0-9]{1,3}", number) and int(number) <= 255 for number in numbers)


# Constructs with the same meaning in ECMA-262 and Python's re: no classes, no counted repetition, no `(?`.
# The length of a pattern is limited because re has to compile the pattern.

_PLAIN_PATTERN = _fullmatch(
    r"""(?: [\w\ ^$.|)\-,:;=@/%&~'"<>!] | \((?!\?) | [*+?](?!\+) | \\[dDwWsSnrtfv.*+?^$()|/\\] ){0,1000}+"""
)


def _is_regex(text: str) -> bool | None:
    if not _PLAIN_PATTERN(text):
        return None
    try:
        re.compile(text)
    except re.error:
        return False
    return True


_TOKENS = "(?:/(?:[^~/]|~[01])*+)*+"
_VARNAME = r"(?:\w|%[0-9A-Fa-f]{2})(?:\.?(?:\w|%[0-9A-Fa-f]{2}))*+"
_VARSPEC = rf"{_VARNAME}(?:\*|:[1-9]\d{{0,3}})?"

_GRAMMARS: Mapping[str, Opinion] = {
    "date": lambda text: _is_day(_date(text)),
    "time": _is_time,
    "date-time": _is_date_time,
    "duration": _check_by_pattern(_DURATION, re.IGNORECASE),
    "email": lambda text: text.isascii() and _is_idn_email(text),
    "idn-email": _is_idn_email,
    "hostname": _is_hostname,
    "idn-hostname": _is_idn_hostname,
    "ipv4": lambda text: _is_address(ipaddress.IPv4Address, text),
    "ipv6": _is_ipv6,
    "uri": _URIS.is_absolute,
    "uri-reference": _URIS.is_reference,
    "iri": _IRIS.is_absolute,
    "iri-reference": _IRIS.is_reference,
    # RFC 9562, section 4
    "uuid": _check_by_pattern("[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}", re.IGNORECASE),
    # RFC 6570, section 2, with erratum 6937, by which an apostrophe is a literal
    "uri-template": _check_by_pattern(
        rf"""(?: [!\#-$&-;=?-\[\]_a-z~{_UCSCHAR}{_IPRIVATE}] | %[0-9A-Fa-f]{{2}}
        | \{{[+\#./;?&=,!@|]?{_VARSPEC}(?:,{_VARSPEC})*+\}} )*+"""
    ),
    # RFC 6901, section 3
    "json-pointer": _check_by_pattern(_TOKENS),
    # draft-bhutton-relative-json-pointer-00, section 3, and the form `0-1#` of section 5.1
    "relative-json-pointer": _check_by_pattern(rf"(?:0|[1-9]\d*)(?:[+-](?:0|[1-9]\d*))?(?:\#|{_TOKENS})"),
    "regex": _is_regex,
}
