"""Deadlines of HTTP calls, and functions for the untrusted JSON of servers."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import structs

from pytest_jsbench.core.generations import CallError, Completion, FaultKind, Tools
from pytest_jsbench.core.json_values import loads, too_deep
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.core.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Declined
    from pytest_jsbench.core.tool_offers import ToolOffer

#: Maximum size of a body in bytes; enough for more than a hundred thousand tokens with one event each.
LONGEST_BODY = 64 * 1024 * 1024


class Deadline:
    """A time limit for a whole call: connecting, TLS, headers and body."""

    __slots__ = ("_clock", "_end", "seconds")

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds = seconds
        self._clock = clock
        self._end = clock() + seconds

    @property
    def remaining(self) -> float:
        """Seconds until the deadline; never negative."""
        return max(0.0, self._end - self._clock())

    @property
    def elapsed(self) -> float:
        """Seconds since the deadline was set."""
        return self._clock() - self._end + self.seconds

    @property
    def passed(self) -> bool:
        """True if the deadline has passed."""
        return self.remaining == 0.0

    def fault(self) -> CallError:
        """Return the error for a call that did not end before the deadline."""
        return CallError(FaultKind.TIMEOUT, f"no complete answer within {self.seconds:g} s")


def refusal(status: int, headers: Mapping[str, str], data: bytes) -> EnclosedError:
    """Return the EnclosedError for the body of an error response."""
    return EnclosedError(json_or_text(data.decode("utf-8", "replace")), status=status, headers=headers)


def is_error(value: Any) -> bool:
    """Return whether a JSON value from a server is an error: an error object, or a list, as sent by Gemini."""
    if not isinstance(value, dict):
        return isinstance(value, list)
    # `object` is in vLLM's errors, `type` in errors of Messages and Responses
    return bool(value.get("error") or value.get("object") == "error" or value.get("type") == "error")


def check_body(body: object) -> dict[str, Any]:
    """Return the body if it is an object; raise EnclosedError for an error object, CallError for any other value."""
    if not isinstance(body, dict):
        message = f"the server answered with a JSON {type(body).__name__}, not an object"
        raise CallError(FaultKind.BAD_RESPONSE, message)
    if is_error(body):
        raise EnclosedError(body)
    return body


@contextmanager
def convert_parsing_errors() -> Iterator[None]:
    """Convert errors in parsing an answer, such as invalid JSON or too much nesting, to a CallError."""
    try:
        yield
    except (ValueError, RecursionError) as error:
        # the messages of other exceptions may quote the input
        is_safe = isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
        message = f"the server did not answer in JSON: {error if is_safe else type(error).__name__}"
        raise CallError(FaultKind.BAD_RESPONSE, one_line(message)) from None


def settle(
    call: Callable[[], Completion | Declined],
    explain: Callable[[Exception], Completion | Declined | CallError],
    *,
    deadline: Deadline,
) -> Completion | Declined:
    """
    Make the call, and return its result, or the outcome that `explain` returns for an error response.

    For an answer inside an error, only the total time is known. Any error after the deadline counts as a timeout.
    """
    try:
        return call()
    except CallError as error:
        outcome: Completion | Declined | CallError = error
    # A ValueError means that a header cannot be sent.
    except (EnclosedError, ValueError) as error:
        outcome = explain(error)
    if deadline.passed:
        outcome = deadline.fault()
    if isinstance(outcome, CallError):
        # from None: the provider's message may quote the key
        raise outcome from None
    if isinstance(outcome, Completion):
        return structs.replace(outcome, timing=Timing(tgt=deadline.elapsed))
    return outcome


#: Maximum nesting depth of a server's JSON; JSON inside an answer's text does not count.
DEEPEST = 500
#: Maximum token count; some JSON parsers round larger numbers.
_MAX_COUNT = 2**53
#: Fields that may have the schema of a function; the first that is present has it. google-genai 3.6 sends the last.
FUNCTION_SCHEMAS = ("parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema")
_REQUIRED = ("required", "any", "tool", "function")


def to_json(value: object) -> bytes:
    """Encode a body on one line, as the SDKs do; raise CallError if it cannot be encoded."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode()
    except (ValueError, RecursionError) as error:
        raise CallError(FaultKind.ENGINE, f"the request cannot be made: {type(error).__name__}: {error}") from None


def parse_json(text: str) -> Any:
    """Parse a server's JSON; raise RecursionError if it is nested too deeply."""
    if len(text) > DEEPEST and too_deep(text, DEEPEST):
        raise RecursionError
    return loads(text)


def json_or_text(text: str) -> object:
    """Return the parsed JSON, or the text itself if it is not JSON, for the body of an error response."""
    try:
        return parse_json(text)
    except (ValueError, RecursionError):
        return text


def count(value: object) -> int | None:
    """Return a provider's token count; None if it is not a whole number, or too large to be exact in JSON."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_COUNT:
        return value
    return None


def get(part: object, *names: str) -> Any:
    """Look up nested keys; None if a key is missing or if the value that should contain it is not an object."""
    for name in names:
        part = part.get(name) if isinstance(part, dict) else None
    return part


def as_object(part: object) -> Mapping[str, Any]:
    """Return the value if it is an object; otherwise an empty object."""
    return part if isinstance(part, dict) else {}


def items(part: object, name: str) -> list[Any]:
    """Return the list of that name; empty if it is missing or not a list."""
    value = part.get(name) if isinstance(part, dict) else None
    return value if isinstance(value, list) else []


def text_or_default(value: object, otherwise: str) -> str:
    """Return the value if it is a non-empty string; otherwise the default text."""
    return value if isinstance(value, str) and value else otherwise


def parts(value: object) -> list[Any]:
    """Return the parts of a message's content as a list; some servers send a string or a single part instead."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def read_tools(body: Mapping[str, Any], *, own: str | None = None) -> Tools | None:
    """
    Return the tools that the body declares; None if it declares no tools. The schema of the tool `own` is None, which
    means the case's schema.
    """
    declared = []
    for entry in items(body, "tools"):
        functions_of_gemini = items(entry, "functionDeclarations")
        declared += [_read_function(as_object(each)) for each in functions_of_gemini] or [entry]
    schemas: dict[str, Schema | None] = {}
    functions = True
    for tool in declared:
        function = get(tool, "function") or tool
        name = get(function, "name")
        schema = next((value for key in FUNCTION_SCHEMAS if (value := get(function, key)) is not None), None)
        functions &= schema is not None or get(tool, "type") == "function"
        if not isinstance(name, str):
            continue
        if name == own:
            schemas[name] = None
        else:  # the arguments of a tool without a schema must still be an object
            schemas[name] = schema if isinstance(schema, dict) else {"type": "object"}
    if not schemas:
        return None
    choice = body.get("tool_choice") or get(body, "toolConfig", "functionCallingConfig")
    choice = get(choice, "allowed_tools") or choice
    mode = choice if isinstance(choice, str) else get(choice, "mode") or get(choice, "type")
    mode = mode.lower() if isinstance(mode, str) else "auto"
    at_most_one = body.get("parallel_tool_calls") is False or get(choice, "disable_parallel_tool_use") is True
    named = [get(entry, "function", "name") or get(entry, "name") for entry in (choice, *items(choice, "tools"))]
    named += items(choice, "allowedFunctionNames")
    allowed = tuple(name for name in schemas if name in named) or tuple(schemas)
    if mode == "none":
        allowed = ()
    return Tools(
        schemas=schemas,
        allowed=allowed,
        # If a provider's own tool is declared too, the model may call it instead of a function.
        required=functions and mode in _REQUIRED,
        single=at_most_one,
    )


def _read_function(declared: Mapping[str, Any]) -> Any:
    """Return a function of Gemini's API as OpenAI's declares it, with its parameters as JSON Schema."""
    parameters = declared.get("parameters")
    if not isinstance(parameters, dict):
        return {**declared, "type": "function"}
    from pytest_jsbench.datasets.sources.gemini_notation import from_gemini

    return {**declared, "type": "function", "parameters": from_gemini(parameters)}


def tools_of_offer(offer: ToolOffer) -> Tools:
    """Return the tools that a case offers, for the record; their schemas are None, which means those of the case."""
    return Tools(schemas=dict.fromkeys(offer.names), allowed=offer.allowed, required=offer.required)


class EnclosedError(Exception):
    """An error object in the body of a response; the status may be 200, as for errors from OpenRouter."""

    def __init__(
        self, body: object, *, status: int = 200, headers: Mapping[str, str] | None = None, after: str = ""
    ) -> None:
        super().__init__(f"an error inside a response of status {status}")
        #: The part of the answer that arrived before the error, for messages; empty if nothing arrived.
        self.after = after
        self.body = body
        self.status = status
        self.headers = headers
