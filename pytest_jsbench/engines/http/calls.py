"""A call over HTTP: its deadline, its JSON, which nobody trusts, and its end."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import structs

from pytest_jsbench.core.generations import CallError, Completion, FaultKind, Timing, Tools
from pytest_jsbench.core.json_values import too_deep
from pytest_jsbench.core.secret_masking import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Declined

#: bytes; a hundred thousand tokens, each in an event of its own, are less
LONGEST_BODY = 64 * 1024 * 1024


class Deadline:
    """A number of seconds from now, for a whole call: connecting, TLS, headers and body."""

    __slots__ = ("_end", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.perf_counter() + seconds

    @property
    def remaining(self) -> float:
        """Seconds until it; never negative."""
        return max(0.0, self._end - time.perf_counter())

    @property
    def elapsed(self) -> float:
        """Seconds since it was set."""
        return time.perf_counter() - self._end + self.seconds

    @property
    def passed(self) -> bool:
        """True once it is over."""
        return self.remaining == 0.0

    def fault(self) -> CallError:
        """Return the fault of a call that did not end before the deadline."""
        return CallError(FaultKind.TIMEOUT, f"no complete answer within {self.seconds:g} s")


def refusal(status: int, headers: Mapping[str, str], data: bytes) -> EnclosedError:
    """Read the body of a response that is an error."""
    return EnclosedError(json_or_text(data.decode("utf-8", "replace")), status=status, headers=headers)


def is_error(value: Any) -> bool:
    """True of an object that is an error, or holds one, and of a list, as Gemini puts around it."""
    if not isinstance(value, dict):
        return isinstance(value, list)
    # the second is vLLM's, the third that of Messages and Responses
    return bool(value.get("error") or value.get("object") == "error" or value.get("type") == "error")


def enclosed(body: object) -> dict[str, Any]:
    """The value as the object that holds an answer; an error object in it is raised as EnclosedError."""
    if not isinstance(body, dict):
        message = f"the server answered with a JSON {type(body).__name__}, not an object"
        raise CallError(FaultKind.BAD_RESPONSE, message)
    if is_error(body):
        raise EnclosedError(body)
    return body


@contextmanager
def reading() -> Iterator[None]:
    """While an answer is read: a body that is no JSON, or is nested deeper than any parser follows, is its fault."""
    try:
        yield
    except (ValueError, RecursionError) as error:
        # only these say where and why; others may quote what they were given
        telling = isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
        message = f"the server did not answer in JSON: {error if telling else type(error).__name__}"
        raise CallError(FaultKind.BAD_RESPONSE, one_line(message)) from None


def settle(
    call: Callable[[], Completion | Declined],
    explain: Callable[[Exception], Completion | Declined | CallError],
    *,
    deadline: Deadline,
) -> Completion | Declined:
    """
    Make the call, and return its result or what `explain` makes of a provider's refusal.

    Of an answer that came as an error only the whole time is known. Whatever breaks once the deadline has passed broke
    because of it.
    """
    try:
        return call()
    except CallError as error:
        outcome: Completion | Declined | CallError = error
    # ValueError: a header that cannot be sent
    except (EnclosedError, ValueError) as error:
        outcome = explain(error)
    if deadline.passed:
        outcome = deadline.fault()
    if isinstance(outcome, CallError):
        # from None: the provider's own words may quote the key
        raise outcome from None
    return structs.replace(outcome, timing=Timing(tgt=deadline.elapsed)) if isinstance(outcome, Completion) else outcome


#: levels of a server's JSON; those of an answer that comes as text inside it do not count
DEEPEST = 500
#: beyond it a JSON number may be another in the next tool that reads it
_MOST_TOKENS = 2**53
_DECODER = json.JSONDecoder()
_SCHEMAS = ("parameters", "input_schema", "parametersJsonSchema")
_REQUIRED = ("required", "any", "tool", "function")


def to_json(value: object) -> bytes:
    """Encode a body on one line, as the SDKs do; CallError for a schema that no JSON encoder takes."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode()
    except (ValueError, RecursionError) as error:
        raise CallError(FaultKind.ENGINE, f"the request cannot be made: {type(error).__name__}: {error}") from None


def parse_json(text: str) -> Any:
    """The value that a server sent; RecursionError where it nests deeper than anything that is an answer."""
    if len(text) > DEEPEST and too_deep(text, DEEPEST):
        raise RecursionError
    # a stream has thousands of events, and hardly any has the white space around it that `loads` looks for
    try:
        value, end = _DECODER.raw_decode(text)
    except ValueError:
        return json.loads(text)
    return value if end == len(text) else json.loads(text)


def json_or_text(text: str) -> object:
    """The value that it is, or else the text itself: what a server says of an error may be either."""
    try:
        return parse_json(text)
    except (ValueError, RecursionError):
        return text


def count(value: object) -> int | None:
    """A provider's token count; None for anything that is not one, and for what no figure could be made of."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
        return value
    return None


def get(part: object, *names: str) -> Any:
    """Look a name up in an object, and the next in what stands there; None where there is no object or no such name."""
    for name in names:
        part = part.get(name) if isinstance(part, dict) else None
    return part


def as_object(part: object) -> Mapping[str, Any]:
    """The value itself; an empty object in the place of anything else that a server puts there."""
    return part if isinstance(part, dict) else {}


def items(part: object, name: str) -> list[Any]:
    """The list of that name; empty for anything else that a server puts there."""
    value = part.get(name) if isinstance(part, dict) else None
    return value if isinstance(value, list) else []


def text_or(value: object, otherwise: str) -> str:
    """The value itself where it is a text, and not an empty one."""
    return value if isinstance(value, str) and value else otherwise


def parts(value: object) -> list[Any]:
    """The parts of a content; some servers send a text or one part without a list around it."""
    return value if isinstance(value, list) else [] if value is None else [value]


def read_tools(body: Mapping[str, Any], *, own: str | None = None) -> Tools | None:
    """The tools that the body declares, of which the case's schema describes `own`; None where it declares none."""
    declared = [tool for entry in items(body, "tools") for tool in items(entry, "functionDeclarations") or [entry]]
    schemas: dict[str, Schema | None] = {}
    functions = True
    for tool in declared:
        function = get(tool, "function") or tool
        name = get(function, "name")
        schema = next((value for key in _SCHEMAS if (value := get(function, key)) is not None), None)
        functions &= schema is not None or get(tool, "type") == "function"
        if isinstance(name, str):  # who says nothing of the arguments takes an object all the same
            schemas[name] = None if name == own else schema if isinstance(schema, dict) else {"type": "object"}
    if not schemas:
        return None
    choice = body.get("tool_choice") or get(body, "toolConfig", "functionCallingConfig")
    choice = get(choice, "allowed_tools") or choice
    mode = choice if isinstance(choice, str) else get(choice, "mode") or get(choice, "type")
    mode = mode.lower() if isinstance(mode, str) else "auto"
    at_most_one = body.get("parallel_tool_calls") is False or get(choice, "disable_parallel_tool_use") is True
    named = [get(entry, "function", "name") or get(entry, "name") for entry in (choice, *items(choice, "tools"))]
    named += items(choice, "allowedFunctionNames")
    return Tools(
        schemas=schemas,
        allowed=() if mode == "none" else tuple(name for name in schemas if name in named) or tuple(schemas),
        # one of the provider's own may be what is called, and that is no call of a function
        required=functions and mode in _REQUIRED,
        single=at_most_one,
    )


class EnclosedError(Exception):
    """A response that holds an error object; mostly one of status 200, as OpenRouter sends."""

    def __init__(
        self, body: object, *, status: int = 200, headers: Mapping[str, str] | None = None, after: str = ""
    ) -> None:
        super().__init__(f"an error inside a response of status {status}")
        #: what had come of the answer
        self.after = after
        self.body = body
        self.status = status
        self.headers = headers
