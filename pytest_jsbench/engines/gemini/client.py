"""
Google's SDK, as it is used here: it says where a call goes and with which key, and makes the request.

What is answered is read by ourselves. The SDK puts U+FFFD in the place of bytes that are no UTF-8, which would change
an answer; it may ask again by itself; and its types cost several times as much as the rest of a call.
"""

from __future__ import annotations

import ssl
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.addresses import client_options
from pytest_jsbench.engines.batch_api import to_line
from pytest_jsbench.engines.http.calls import CONNECT_SECONDS, parse_json, timed
from pytest_jsbench.engines.http.faults import EnclosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import httpx2
    from google import genai

    from pytest_jsbench.engines.gemini.settings import GeminiSettings
    from pytest_jsbench.engines.http.calls import Deadline
    from pytest_jsbench.engines.requirements import Key


class Arrived(Exception):
    """The SDK's request has a response, whose body is unread: it comes past the SDK's own reading."""

    def __init__(self, response: httpx2.Response, watch: Stopwatch) -> None:
        super().__init__("a response has arrived")
        self.response = response
        #: started when the request was sent: to make the first one takes the SDK a tenth of a second
        self.watch = watch


def post(client: genai.Client, settings: GeminiSettings, body: dict[str, Any], *, deadline: Deadline) -> Arrived:
    """The response to one call, its body unread; whoever calls closes it. EnclosedError for one that is an error."""
    from google.genai import types

    to_line(body)  # what no JSON can hold, the SDK would send
    rest = {name: value for name, value in body.items() if name != "contents"}
    options = types.HttpOptions(
        extra_body=rest, headers=dict(settings.extra_headers), timeout=max(1, int(deadline.remaining * 1000))
    )
    config = types.GenerateContentConfig(
        http_options=options,
        automatic_continuation=False,
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    asked = {"model": settings.model, "contents": body["contents"], "config": config}
    models: Any = client.models
    if settings.streaming:
        return arrived(lambda: next(models.generate_content_stream(**asked)))
    return arrived(lambda: models.generate_content(**asked))


def arrived(call: Callable[[], object]) -> Arrived:
    """The response to the one request that the SDK makes in there; EnclosedError for one that is an error."""
    try:
        call()
    except Arrived as found:
        if not found.response.is_success:
            with closing(found.response):
                raise _error_in(found.response) from None
        return found
    raise RuntimeError("google-genai did not use the HTTP client that it was given")


def new_client(settings: GeminiSettings, key: Key, http: httpx2.Client, **options: Any) -> genai.Client:
    """The SDK's client of that server alone, whatever the environment says; the HTTP client is closed by its maker."""
    from google import genai
    from google.genai import types

    # the SDK's other clients make no call, and would each load all certificates: this one trusts nobody
    unused = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    where = types.HttpOptions(
        base_url=settings.base_url,
        api_version=settings.api_version,
        httpx_client=http,
        async_client_args={"verify": unused, "ssl": unused},
        **options,
    )
    return genai.Client(vertexai=False, api_key=key.value, http_options=where)


def http_client(
    settings: GeminiSettings, *, handing_over: bool, response: Sequence[Callable[..., Any]] = ()
) -> httpx2.Client:
    """What carries the SDK's calls to that server, and nowhere else; where it hands over, each response is raised."""
    import httpx2

    class Client(httpx2.Client):
        """Sends as its base does."""

        def send(self, request: httpx2.Request, *, stream: bool = False, **more: Any) -> httpx2.Response:
            if handing_over:
                watch = Stopwatch()
                raise Arrived(super().send(request, stream=True, **more), watch)
            return super().send(request, stream=stream, **more)

    options = client_options(settings.address, sdk_error=Exception)
    options["event_hooks"]["request"].append(_prepare(settings.extra_query))
    options["event_hooks"]["response"] = list(response)
    return timed(Client(follow_redirects=True, **options))


def _prepare(query: Mapping[str, str]) -> Callable[[httpx2.Request], None]:
    """What the SDK has no word for: the rest of the URL, and a shorter time for the connection alone."""

    def prepare(request: httpx2.Request) -> None:
        if query:
            request.url = request.url.copy_merge_params(query)
        timeout = request.extensions.get("timeout") or {}
        request.extensions["timeout"] = {
            **timeout,
            "connect": min(timeout.get("connect") or CONNECT_SECONDS, CONNECT_SECONDS),
        }

    return prepare


def _error_in(response: httpx2.Response) -> EnclosedError:
    body: object = response.read().decode("utf-8", "replace")
    with suppress(ValueError, RecursionError):
        body = parse_json(str(body))
    return EnclosedError(body, status=response.status_code, headers=dict(response.headers))
