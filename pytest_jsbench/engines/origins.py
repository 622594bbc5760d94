"""A client's calls stay with its server: no redirect, and no address in an answer, leads elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.core.text import printable
from pytest_jsbench.engines.addresses import origin, without_credentials

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx2

    from pytest_jsbench.engines.addresses import Address


def client_options(address: Address, *, sdk_error: type[Exception]) -> dict[str, Any]:
    """What a client of that server is built with: its user and password, and the hook that keeps it there."""
    return {"auth": address.userinfo, "event_hooks": {"request": [_stay_at(address.url, sdk_error)]}}


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
