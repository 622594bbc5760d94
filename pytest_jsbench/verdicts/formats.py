"""
Check the formats of 2020-12 as their RFCs define them: with jsonschema-rs, and with additional checks where it is
wrong.

`docs/upstream.md` lists the errors in the library. The second opinion uses separate grammars (`format_grammars`).
"""

from __future__ import annotations

import functools
import re
import unicodedata
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import jsonschema_rs

from pytest_jsbench.schemas.dialects import DRAFT_4, DRAFT_6, DRAFT_2020_12, Dialect
from pytest_jsbench.schemas.keywords import FORMATS
from pytest_jsbench.verdicts.patterns import is_regex

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Check = Callable[[str], bool]

#: Strings that show whether jsonschema-rs checks a format: each format rejects at least one of them.
_PROBES = ("\x00 {{[(<\\", "%", "/~a")
#: Drafts in which `hostname` means a name by RFC 1034 and 1123, without the A-labels of RFC 5890.
_WITHOUT_A_LABELS = (DRAFT_4, DRAFT_6)


@functools.cache
def checks(dialect: Dialect) -> Mapping[str, Check]:
    """Return a check for each format that jsonschema-rs, in this dialect, does not check as the RFC defines it."""
    unchecked = {name for name in FORMATS if all(map(_builtin(name, dialect), _PROBES))}
    replacements = {
        name: _GUARDED.get(name) or _builtin(name) for name in FORMATS if name in _GUARDED or name in unchecked
    }
    if dialect in _WITHOUT_A_LABELS:
        del replacements["hostname"]
    return replacements


@functools.cache
def _builtin(name: str, dialect: Dialect = DRAFT_2020_12) -> Check:
    validator: type[jsonschema_rs.Validator] = getattr(jsonschema_rs, dialect.validator)
    compiled: Any = validator({"format": name}, validate_formats=True, offline=True)
    check: Check = compiled.is_valid
    return check


# RFC 3339: the library also accepts other digits than 0 to 9, and accepts lower case only in some places

_TIMES = {
    "date": re.compile(r"\d{4}-\d\d-\d\d", re.ASCII),
    "time": re.compile(r"\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII),
    "duration": re.compile(r"[PYMWDTHS\d]+", re.ASCII | re.IGNORECASE),
}


def _is_time(name: str, text: str) -> bool:
    """
    Check a full-date, a full-time (RFC 3339, section 5.6) or a duration (appendix A), in upper or lower case (RFC 2234,
    2.3).
    """
    has_form = _TIMES[name].fullmatch(text) is not None
    return has_form and _builtin(name)(text.upper() if name == "duration" else text)


def is_date_time(text: str) -> bool:
    """Check a date-time (RFC 3339, section 5.6); a leap second can only end a month in UTC (section 5.7)."""
    date = text[:10]
    time = text[11:]
    if not (text[10:11] in {"T", "t"} and _is_time("date", date) and _is_time("time", time)):
        return False
    if time[6:8] != "60":
        return True
    # the calendar repeats every 400 years, and datetime has neither year 0 nor years after 9999
    year = 2000 + int(date[:4]) % 400
    offset = "+00:00" if time[-1] in "Zz" else time[-6:]
    last = datetime.fromisoformat(f"{year}{date[4:]}T{time[:5]}:59{offset}").astimezone(UTC)
    return (last + timedelta(seconds=1)).day == 1


# RFC 5321 and 6531: the library accepts the mailbox of a mail header (RFC 5322), which may include a display name

_ATEXT = r"A-Za-z0-9!#$%&'*+/=?^_`{|}~\-"
_SNUM = r"(?:25[0-5]|2[0-4]\d|[01]?\d{1,2})"
_IPV4_LITERAL = rf"{_SNUM}(?:\.{_SNUM}){{3}}"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9\-]{0,61}[A-Za-z0-9])?"
_U_LABEL = r"[A-Za-z0-9\-\u0080-\U0010ffff]+"


@functools.cache
def _mailbox(label: str, beyond_ascii: str) -> re.Pattern[str]:
    """Return the pattern of a Mailbox, compiled at its first use, which takes several milliseconds."""
    atom = f"[{_ATEXT}{beyond_ascii}]++"
    quoted = rf'"(?:[ !#-\[\]-~{beyond_ascii}]|\\[ -~])*+"'
    literal = rf"\[(?:{_IPV4_LITERAL}|[Ii][Pp][Vv]6:(?P<ipv6>[0-9A-Fa-f:]*?)(?P<ipv4>(?<=:){_IPV4_LITERAL})?)\]"
    return re.compile(
        rf"(?P<local>{atom}(?:\.{atom})*+|{quoted})@(?:(?P<domain>{label}(?:\.{label})*)|{literal})", re.ASCII
    )


#: Characters beyond ASCII in the local part of a Mailbox.
_UTF8_NON_ASCII = "\u0080-\U0010ffff"
#: Maximum length of a local part (RFC 5321, section 4.5.3.1).
_LONGEST_LOCAL_PART = 64
#: Maximum length of a domain as text (RFC 1035, section 2.3.4).
_LONGEST_DOMAIN = 253


def is_email(text: str) -> bool:
    """Check a Mailbox (RFC 5321, section 4.1.2)."""
    return len(text) <= _LONGEST_LOCAL_PART + 1 + _LONGEST_DOMAIN and _has_valid_lengths(
        _mailbox(_LABEL, "").fullmatch(text)
    )


def is_idn_email(text: str) -> bool:
    """
    Check a Mailbox with characters beyond ASCII in its local part and U-labels in its domain (RFC
    6531, section 3.3).
    """
    if len(text) > _LONGEST_LOCAL_PART + 1 + _LONGEST_DOMAIN:
        return False
    match = _mailbox(_U_LABEL, _UTF8_NON_ASCII).fullmatch(text)
    if not (match and _has_valid_lengths(match)):
        return False
    # the domain need not be in NFC, since mail software normalizes a domain before a lookup
    return all(_is_domain_label(label) for label in normalize("NFC", match["domain"] or "a").split("."))


def _is_domain_label(label: str) -> bool:
    if label.isascii():
        return _LDH_LABEL(label) is not None
    return not _FULL_STOPS.search(label) and is_idn_hostname(label)


def _has_valid_lengths(match: re.Match[str] | None) -> bool:
    if not match or len(match["local"].encode()) > _LONGEST_LOCAL_PART:
        return False
    if match["domain"] is not None:
        return len(match["domain"].encode()) <= _LONGEST_DOMAIN
    if match["ipv6"] is None:
        return True
    # in an address literal, `::` replaces at least two groups, while RFC 4291 allows `::` to replace one group
    groups = [group for group in match["ipv6"].split(":") if group]
    shortened = len(groups) <= (4 if match["ipv4"] else 6) or "::" not in match["ipv6"]
    return shortened and _builtin("ipv6")(match["ipv6"] + ("0.0.0.0" if match["ipv4"] else ""))  # noqa: S104


# RFC 5890 to 5893: the library checks bidi and context rules, but accepts labels that it has to map first (UTS 46)

_LDH_LABEL = re.compile(_LABEL).fullmatch
_A_LABEL = re.compile("(?i:xn)--").match
_FULL_STOPS = re.compile("[.\u3002\uff0e\uff61]")
#: Characters of RFC 5892, section 2.6, and characters of appendix A, whose context the library checks.
_EXCEPTIONS = frozenset("-\u00df\u03c2\u06fd\u06fe\u0f0b\u3007\u00b7\u0375\u05f3\u05f4\u30fb\u200c\u200d")
#: Unicode categories of RFC 5892, section 2.1, and Cn (unassigned), since the library's Unicode version may be newer.
_LETTER_DIGITS = frozenset({"Ll", "Lu", "Lo", "Nd", "Lm", "Mn", "Mc", "Cn"})
#: RFC 5892, sections 2.3, 2.4 and 2.9: ignorable characters, marks for symbols and musical notation, old Hangul jamo.
_DISALLOWED = re.compile(
    "[\u034f\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
    "\u20d0-\u20ff\U0001d100-\U0001d24f\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff]"
)
#: Character that is allowed only before a Greek character (RFC 5892, appendix A.4).
_KERAIA = "\u0375"
#: Character that is allowed only together with Hiragana, Katakana or Han (RFC 5892, appendix A.7).
_MIDDLE_DOT = "\u30fb"
_GREEK = ("GREEK ",)
_JAPANESE = (
    "HIRAGANA ", "HENTAIGANA ", "KATAKANA ", "CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH",
    "IDEOGRAPHIC ITERATION MARK", "IDEOGRAPHIC NUMBER ZERO",
)  # fmt: skip


def is_hostname(text: str) -> bool:
    """Check a hostname (RFC 1123, section 2.1), whose labels may be A-labels (RFC 5891, section 4.4)."""
    labels = text.split(".")
    if len(text) > _LONGEST_DOMAIN or not all(map(_LDH_LABEL, labels)):
        return False
    # IDNA forbids hyphens at positions 3 and 4, while RFC 1123 allows them
    return is_idn_hostname(".".join(label if _A_LABEL(label) else re.sub("-+", "-", label) for label in labels))


def is_idn_hostname(text: str) -> bool:
    """Check a hostname that may contain U-labels (RFC 5890, section 2.3.2.3)."""
    if text.isascii() and "--" not in text:
        return _builtin("idn-hostname")(text)
    if len(text) > _LONGEST_DOMAIN:
        return False
    labels = [_u_label(label) for label in _FULL_STOPS.split(text)]
    if not all(map(_has_valid_characters, labels)):
        return False
    whole = ".".join(labels)
    return _builtin("idn-hostname")(
        _replace_by_known_characters(whole) if _KERAIA in whole or _MIDDLE_DOT in whole else text
    )


def _replace_by_known_characters(labels: str) -> str:
    """
    Replace Greek, Japanese and Han characters by one character of the same script that the library recognizes.

    For its rules on KERAIA and MIDDLE DOT, the library recognizes only one Unicode block of each script.
    """
    return "".join(map(_replace_by_known_character, labels))


def _replace_by_known_character(character: str) -> str:
    if character in {_KERAIA, _MIDDLE_DOT}:
        return character
    if _have_names(_GREEK, character):
        return "\u03b1"
    if _have_names(_JAPANESE, character):
        return "\u4e00"
    return character


def _u_label(label: str) -> str:
    """Return a label as it is, or an A-label decoded to its U-label; empty if the A-label is not valid."""
    if not _A_LABEL(label) or not label.isascii():
        return label
    encoded = label[4:].lower().encode()
    try:
        decoded = encoded.decode("punycode")
        return decoded if not decoded.isascii() and decoded.encode("punycode") == encoded else ""
    except UnicodeError:
        return ""


def _has_valid_characters(label: str) -> bool:
    """
    Return whether the label's characters are valid by RFC 5892, section 3, and by two context rules
    of appendix A.
    """
    return label.isascii() or (
        normalize("NFC", label) == label
        and _DISALLOWED.search(label) is None
        and all(character in _EXCEPTIONS or _is_valid_character(character) for character in label)
        and all(
            _have_names(_GREEK, label[at + 1 : at + 2]) for at, character in enumerate(label) if character == _KERAIA
        )
        and (_MIDDLE_DOT not in label or _have_names(_JAPANESE, label.replace(_MIDDLE_DOT, "")))
    )


def _have_names(names: tuple[str, ...], characters: str) -> bool:
    return any(unicodedata.name(character, "").startswith(names) for character in characters)


def _is_valid_character(character: str) -> bool:
    # RFC 5892, section 2.2: case folding must not change the character
    return unicodedata.category(character) in _LETTER_DIGITS and normalize("NFKC", character.casefold()) == character


# other formats

_UCSCHAR = "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef" + "".join(
    f"{chr(0x10000 * plane + (0x1000 if plane == 14 else 0))}-{chr(0x10000 * plane + 0xFFFD)}" for plane in range(1, 15)
)
_IPRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_LITERALS = re.compile(f"[\x00-\x7f{_UCSCHAR}{_IPRIVATE}]*").fullmatch
_INDEX_MANIPULATION = re.compile(r"\A(0|[1-9]\d*)[+-](?:0|[1-9]\d*)(?=[/#]|\Z)", re.ASCII)


def is_uri_template(text: str) -> bool:
    """Check a URI template, whose literals beyond ASCII may only be ucschar or iprivate (RFC 6570, section 2.1)."""
    return _LITERALS(text) is not None and _builtin("uri-template")(text)


def is_relative_json_pointer(text: str) -> bool:
    """
    Check a relative JSON pointer, which may have an index manipulation (draft-bhutton-relative-json-pointer-00, 3 and
    5.1).
    """
    return _builtin("relative-json-pointer")(_INDEX_MANIPULATION.sub(r"\1", text))


_GUARDED: Mapping[str, Check] = {
    **{name: functools.partial(_is_time, name) for name in _TIMES},
    "date-time": is_date_time,
    "email": is_email,
    "idn-email": is_idn_email,
    "hostname": is_hostname,
    "idn-hostname": is_idn_hostname,
    "uri-template": is_uri_template,
    "relative-json-pointer": is_relative_json_pointer,
    "regex": is_regex,
}
