"""How a body is read: not without bound, and to its end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pytest_jsbench.engines.deadlines import shut
from pytest_jsbench.generations import CallError, FaultKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx2

#: bytes; a hundred thousand tokens, each in an event of its own, are less
LONGEST_BODY = 64 * 1024 * 1024

_LAST_WORDS = b"data: [DONE]"
#: seconds that a server has for the end of a body whose last words have come
_GRACE = 0.5


def bound_body(response: httpx2.Response) -> None:
    """A client's hook for responses: an answer that is too long is a fault, an error's words are cut short."""
    read = response.iter_bytes

    def bounded(chunk_size: int | None = None) -> Iterator[bytes]:
        left = LONGEST_BODY
        pieces = read(chunk_size)
        for piece in pieces:
            left -= len(piece)
            if left < 0 and response.is_error:
                response.close()
                return
            if left < 0:
                message = f"the answer is longer than {LONGEST_BODY:,} bytes"
                raise CallError(FaultKind.BAD_RESPONSE, message)
            if piece.rstrip().endswith(_LAST_WORDS):
                _drain(response, pieces)
            yield piece

    # read() and the streams of the SDKs all come by here, after decompression
    response.iter_bytes = bounded  # type: ignore[method-assign]


def _drain(response: httpx2.Response, pieces: Iterator[bytes]) -> None:
    """
    Read what follows the last words, which is nothing but the end of the body.

    The openai SDK closes a stream at its last words, and with it the connection: each call would open one of its
    own, and its time to the first token would hold a TLS handshake.
    """
    from httpx2 import HTTPError

    timer = threading.Timer(_GRACE, shut, [response])
    timer.daemon = True
    timer.start()
    try:
        next(pieces, None)
    except HTTPError:
        # the answer itself is whole
        pass
    finally:
        timer.cancel()
