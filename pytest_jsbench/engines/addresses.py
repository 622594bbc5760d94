"""A server's address, apart from its credentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The place of a server, and what was written beside it in the same URL."""

    #: scheme, host, port and path: fit to be shown
    url: str
    #: user and password, sent as Basic authentication; None where there are none
    userinfo: tuple[str, str] | None = field(default=None, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read a URL; ValueError, which does not quote it, for what is none."""
        parts = urlsplit(text.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError("expected http://host:port/path or https://…")
        # a password with a / # or ? that is not written as %2F, %23 or %3F puts its rest there
        if "@" in parts.query + parts.fragment:
            raise ValueError("an @ stands behind a ? or #; in a password these are written %40, %3F and %23")
        userinfo, at, place = parts.netloc.rpartition("@")
        user, _, password = userinfo.partition(":")
        return cls(
            url=urlunsplit((parts.scheme, place, parts.path, "", "")),
            userinfo=(unquote(user), unquote(password)) if at else None,
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
        )


def without_credentials(text: str) -> str:
    """The URL as it may be shown: `…` in the place of user and password, and of the query."""
    try:
        address = Address.parse(text)
    except ValueError:
        return "…" if any(sign in text for sign in "@?#") else text
    scheme, _, rest = address.url.partition("://")
    return f"{scheme}://{'…@' if address.userinfo else ''}{rest}{'?…' if address.query else ''}"


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of a URL, by which two servers are told apart."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or {"http": 80, "https": 443}.get(parts.scheme)
