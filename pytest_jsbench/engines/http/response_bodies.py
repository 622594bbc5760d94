"""How a body is read: not without bound, and to its end."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import CallError, FaultKind
from pytest_jsbench.engines.http.calls import Scissors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import httpx2

    from pytest_jsbench.core.generations import GenerationParams

#: bytes; a hundred thousand tokens, each in an event of its own, are less
LONGEST_BODY = 64 * 1024 * 1024

#: among a response's extensions: how many pieces of its body have been read
_PIECES = "pytest_jsbench_pieces"
_LAST_WORDS = b"data: [DONE]"
#: seconds that a server has for the end of a body whose last words have come
_GRACE = 0.5


def response_hooks() -> list[Callable[..., Any]]:
    """What a client of ours calls with each response, before its body is read."""
    scissors = Scissors()
    return [scissors.cut_at_deadline, partial(_bound, scissors)]


def with_body(params: GenerationParams, body: Mapping[str, Any], *, limit: str) -> GenerationParams:
    """The parameters as they are where the fields of an extra body stand for them."""
    said = {"max_tokens": body.get(limit), "temperature": body.get("temperature"), "seed": body.get("seed")}
    numbers: dict[str, Any] = {
        name: value for name, value in said.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return replace(params, **numbers)


def pieces_of(response: httpx2.Response) -> int:
    """How many pieces of the body have been read so far."""
    return int(response.extensions.get(_PIECES, 0))


def _bound(scissors: Scissors, response: httpx2.Response) -> None:
    """An answer that is too long is a fault, an error's words are cut short."""
    read = response.iter_bytes

    def bounded(chunk_size: int | None = None) -> Iterator[bytes]:
        left = LONGEST_BODY
        pieces = read(chunk_size)
        for piece in pieces:
            left -= len(piece)
            response.extensions[_PIECES] = pieces_of(response) + 1
            if left < 0 and response.is_error:
                response.close()
                return
            if left < 0:
                message = f"the answer is longer than {LONGEST_BODY:,} bytes"
                raise CallError(FaultKind.BAD_RESPONSE, message)
            if piece.rstrip().endswith(_LAST_WORDS):
                _drain(scissors, response, pieces)
            yield piece

    # read() and the streams of the SDKs all come by here, after decompression
    response.iter_bytes = bounded  # type: ignore[method-assign]


def _drain(scissors: Scissors, response: httpx2.Response, pieces: Iterator[bytes]) -> None:
    """
    Read what follows the last words, which is nothing but the end of the body.

    The openai SDK closes a stream at its last words, and with it the connection: each call would open one of its
    own, and its time to the first token would hold a TLS handshake.
    """
    from httpx2 import HTTPError

    cut = scissors.cut(response, after=_GRACE)
    try:
        next(pieces, None)
    except HTTPError:
        # the answer itself is whole
        pass
    finally:
        scissors.forget(cut)
