"""A server's address, apart from its credentials, and the options of a client that calls no other server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.core.text import printable

if TYPE_CHECKING:
    import httpx2


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server is, and what was written beside it in the same URL."""

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


def client_options(address: Address, *, sdk_error: type[Exception]) -> dict[str, Any]:
    """What a client of that server is built with: its user and password, the hook that keeps it there, its limits."""
    return {
        "auth": address.userinfo,
        "event_hooks": {"request": [_stay_at(address.url, sdk_error)]},
        "limits": connection_limits(),
    }


def connection_limits() -> httpx2.Limits:
    """
    As many connections as there are calls in flight; an idle one is closed before the server does it.

    llama.cpp, uvicorn and Node close one after 5 s, and a request that is just then on its way is lost.
    """
    import httpx2

    return httpx2.Limits(keepalive_expiry=2.0)


def _stay_at(url: str, sdk_error: type[Exception]) -> Callable[[httpx2.Request], None]:
    # of the SDK's own kind too: any other error of a hook it takes for a lost connection, and tries again
    class Elsewhere(CallError, sdk_error):  # type: ignore[valid-type, misc]
        """The call would go to another server."""

    def check(request: httpx2.Request) -> None:
        target = str(request.url)
        if origin(target) == origin(url):
            return
        scheme, host, port = origin(target)
        there = printable(without_credentials(f"{scheme}://{host}:{port}"), 120)
        message = (
            f"the server points to {there}, away from {url}; nothing was sent there: if it is the right one, name it "
            "with --jsbench-base-url"
        )
        raise Elsewhere(FaultKind.BAD_REQUEST, message)

    return check
