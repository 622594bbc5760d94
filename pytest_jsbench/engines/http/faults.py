"""
Parse the errors of all providers into one type, and classify them by cause.

The parser supports the error bodies of OpenAI, Anthropic, Gemini (a list), OpenRouter (with the original provider's
message), vLLM (not nested), Ollama and TGI (text), FastAPI servers (`detail`) and llama.cpp. The first rule that
applies decides whether the schema, the request, the account or the server is the cause. If a provider does not accept a
parameter that one of this package's options sends, a hint names the option. Some errors contain an answer: if a
provider rejects the text that the model wrote, the error's `failed_generation` contains the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Declined,
    DeclineReason,
    FaultKind,
    FinishReason,
    ResponseFormat,
    Usage,
)
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.core.text import printable
from pytest_jsbench.engines.http.calls import EnclosedError, count, get, items, parts

if TYPE_CHECKING:
    from pytest_jsbench.core.generations import Sent


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderError:
    """An error that a provider sent instead of an answer."""

    message: str
    status: int | None = None
    #: Error types and codes in lower case, from all fields in which providers send them.
    names: frozenset[str] = frozenset()
    #: The request's parameter that caused the error.
    param: str = ""
    retry_after: float | None = None
    #: Text that the model wrote and the provider rejected; None for any other error.
    failed_generation: str | None = None
    usage: Usage = field(default_factory=Usage)

    @classmethod
    def parse(
        cls, body: object, *, status: int | None = None, headers: Mapping[str, str] | None = None
    ) -> ProviderError:
        """Parse the body of an error response, or an error object inside a response of status 200."""
        error = _innermost(body)
        if not isinstance(error, Mapping):
            return cls(message=_message_of_text(error, status), status=status, retry_after=retry_after(headers or {}))
        details = error.get("details")
        param = error.get("param")
        text = error.get("failed_generation")
        words = [error.get(name) for name in ("type", "code", "status", "error_type")]
        words += [details.get("error_code")] if isinstance(details, Mapping) else _gemini_reasons(details)
        names = frozenset(word.lower() for word in words if isinstance(word, str))
        seconds = retry_after(headers or {})
        failed_generation = None
        if names & _FAILED_GENERATIONS:
            failed_generation = text if isinstance(text, str) else ""
        return cls(
            message=_message(error, status),
            status=_status(status, error),
            names=names,
            param=param if isinstance(param, str) else "",
            retry_after=_retry_delay(details) if seconds is None else seconds,
            failed_generation=failed_generation,
            usage=Usage(
                input_tokens=count(get(error, "usage", "prompt_tokens")),
                output_tokens=count(get(error, "usage", "completion_tokens")),
            ),
        )


#: Maximum waiting time that a server can request, in seconds.
_MAX_RETRY_AFTER = 86_400.0
#: Groq's error codes for structured output and for tools.
_FAILED_GENERATIONS = frozenset({"json_validate_failed", "tool_use_failed"})


def retry_after(headers: Mapping[str, str]) -> float | None:
    """
    Return the seconds to wait before a retry, from `retry-after-ms`, or from `retry-after` in seconds or as a date.

    A date is compared with the response's own `date`, because clocks differ. The result is at most a day, and None if
    no header is valid.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    milliseconds = _seconds(lower.get("retry-after-ms"))
    if milliseconds is not None:
        return min(milliseconds / 1000, _MAX_RETRY_AFTER)
    value = lower.get("retry-after")
    seconds = _seconds(value)
    if seconds is None:
        moment = _parse_date(value)
        if moment is None:
            return None
        now = _parse_date(lower.get("date")) or datetime.now(UTC)
        seconds = max(0.0, (moment - now).total_seconds())
    return min(seconds, _MAX_RETRY_AFTER)


def _parse_date(value: str | None) -> datetime | None:
    """Parse an HTTP date; None if the text is not a date, or if its time zone is out of range."""
    if value is None:
        return None
    try:
        moment = parsedate_to_datetime(value)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _seconds(value: str | None) -> float | None:
    try:
        seconds = float(value) if value is not None else None
    except ValueError:
        return None
    # comparisons with NaN are false
    return seconds if seconds is not None and 0 <= seconds < float("inf") else None


def _retry_delay(details: object) -> float | None:
    """Return the number of seconds in Gemini's RetryInfo, which is `{"retryDelay": "34s"}` in the error's details."""
    delays = (get(detail, "retryDelay") for detail in parts(details))
    delay = next((delay for delay in delays if isinstance(delay, str)), None)
    return None if delay is None else _seconds(delay.removesuffix("s"))


def _gemini_reasons(details: object) -> list[object]:
    """Return the reasons in Gemini's error details, and `quota_of_a_day` if a daily quota makes a retry useless."""
    violations = [violation for detail in parts(details) for violation in items(detail, "violations")]
    daily = ["quota_of_a_day"] if any("PerDay" in str(get(violation, "quotaId")) for violation in violations) else []
    return [*daily, *(get(detail, "reason") for detail in parts(details))]


#: Maximum nesting depth of an error in lists and objects; the deepest known error, Gemini's, has three levels.
_MAX_ERROR_DEPTH = 10


def _innermost(body: object) -> object:
    for _ in range(_MAX_ERROR_DEPTH):
        if isinstance(body, list) and body:
            body = body[0]
        elif isinstance(body, Mapping) and isinstance(body.get("error"), Mapping | list):
            body = body["error"]
        else:
            break
    return body


def _status(status: int | None, error: Mapping[str, object]) -> int | None:
    """
    Return the HTTP status; for an error inside a stream or a response of status 200, return the
    status in the error.
    """
    if status is not None and status >= 400:
        return status
    code = error.get("code")
    if isinstance(code, str) and code.isdecimal():
        code = int(code)
    return code if isinstance(code, int) and 400 <= code < 600 else status


def _message(error: Mapping[str, object], status: int | None) -> str:
    # Ollama and TGI send `error` as text, FastAPI sends `detail`
    for name in ("message", "error", "detail"):
        if value := error.get(name):
            # OpenRouter's own message is only "Provider returned error"
            raw = get(error, "metadata", "raw")
            return f"{_to_text(value)}: {_to_text(raw)}" if raw else _to_text(value)
    return _to_text(error) if error else _message_of_text(None, status)


def _to_text(value: object) -> str:
    try:
        return value if isinstance(value, str) else str(value)
    except RecursionError:
        return "an error that is nested too deeply to print"


def _message_of_text(body: object, status: int | None) -> str:
    text = body if isinstance(body, str) else ""
    if title := re.search(r"<title[^>]*>([^<]+)", text, re.IGNORECASE):
        return f"a web page, not JSON: {title[1]}"
    if status == 407 and not text.strip():
        return "the proxy requires authentication (HTTP status 407): put the user and password into its URL"
    return text.strip() or (f"HTTP status {status} with no error message" if status else "an error with no message")


#: Parameters that this package's reasoning options send.
_REASONING = (
    "reasoning_effort",
    "reasoning.effort",
    "output_config.effort",
    "thinking.type",
    "adaptive thinking",
    "thinking_budget",
    "thinking budget",
    "Thinking level",
    "thinking mode",  # Gemini's
)
PARAMETERS = "max_completion_tokens|max_output_tokens|max_tokens|temperature|seed|stream_options|stream|tool_choice|"
PARAMETERS += "|".join(map(re.escape, _REASONING))
_NAMED = re.compile(rf"\b({PARAMETERS})\b")
_NOT_SUPPORTED = re.compile(
    r"unsupported|not support|unknown|unrecognized|unexpected|deprecated|not permitted|not allowed|not available"
    r"|only the default|only 1 is allowed|instead|not compatible|incompatible|may not be|may only be"
    r"|only works in|can't be disabled|budget \(\d+\) is invalid",
    re.IGNORECASE,
)
_RENAME = "--jsbench-engine-option max_tokens_field="
_REMEDIES = {
    "max_tokens": f"{_RENAME}max_completion_tokens",
    "max_completion_tokens": f"{_RENAME}max_tokens",
    "temperature": "remove --jsbench-temperature",
    "seed": "remove --jsbench-seed",
    "stream": "--jsbench-engine-option stream=false",
    "stream_options": "--jsbench-engine-option stream=false",
    **dict.fromkeys(_REASONING, "change or remove --jsbench-engine-option reasoning_effort or reasoning_budget"),
    "tool_choice": "use a --jsbench-response-format other than tool, which forces a tool call",
}
_LIMITS = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens"})


def find_hint(error: ProviderError) -> str | None:
    """Return the change to an option that fixes the error; None if no option sets the parameter at fault."""
    named = _NAMED.fullmatch(error.param) or (None if error.param else _NAMED.search(error.message))
    if named is None:
        return None
    # A message about a value that is too high also names the parameter, although the parameter is supported.
    if _NOT_SUPPORTED.search(error.message):
        return _REMEDIES.get(named[1])
    return "change --jsbench-max-tokens" if named[1] in _LIMITS else None


@dataclass(frozen=True, slots=True)
class _Rule:
    """An outcome, and the conditions under which it applies; all conditions that are set must be met."""

    outcome: FaultKind | DeclineReason
    status: Set[int] = frozenset()
    #: Error types and codes, separated by spaces; the error must have at least one of them.
    names: str = ""
    #: Regular expressions for the error's `param` and `message`; case is ignored in `message`.
    param: str = ""
    message: str = ""

    def applies(self, error: ProviderError) -> bool:
        return (
            (not self.status or error.status in self.status)
            and (not self.names or not error.names.isdisjoint(self.names.split()))
            and re.search(self.param, error.param) is not None
            and re.search(self.message, error.message, re.IGNORECASE) is not None
        )


_CLIENT_ERRORS = frozenset(range(400, 500))
_SERVER_ERRORS = frozenset(range(500, 600))

_REFUSAL = (
    _Rule(
        DeclineReason.REFUSAL,
        # Responses sends the last three names if the prompt was flagged
        names=(
            "content_filter content_policy_violation responsibleaipolicyviolation"
            " invalid_prompt bio_policy misalignment_policy_violation"
        ),
    ),
    _Rule(DeclineReason.REFUSAL, status={403}, message=r"flagged|requires moderation"),
)

_ACCOUNT = (
    _Rule(FaultKind.QUOTA, status={402}),
    _Rule(
        FaultKind.QUOTA,
        names=(
            "insufficient_quota billing_error billing_hard_limit_reached billing_not_active"
            " enforced_spend_limit_reached access_terminated quota_of_a_day"
        ),
    ),
    # Anthropic reports this as an ordinary 400 invalid_request_error
    _Rule(FaultKind.QUOTA, message=r"credit balance is too low|insufficient (?:credits?|balance|funds)"),
    _Rule(FaultKind.AUTH, status={401, 403}),
    _Rule(
        FaultKind.AUTH,
        names="invalid_api_key authentication_error permission_error unauthenticated api_key_invalid",
    ),
    # Gemini reports this as an ordinary 400 INVALID_ARGUMENT
    _Rule(FaultKind.AUTH, status={400}, message=r"api[ _]key not valid|invalid api[ _]key"),
    _Rule(FaultKind.RATE_LIMITED, status={429}),
    _Rule(FaultKind.RATE_LIMITED, names="rate_limit_error rate_limit_exceeded resource_exhausted"),
)

#: The model or its server has no structured output at all. Errors about a schema's keywords do not match: they name
#: longer paths (`output_config.format.schema.…`).
_NO_STRUCTURED_OUTPUT = _Rule(
    FaultKind.BAD_REQUEST,
    status=_CLIENT_ERRORS | {500},  # llama-cpp-python's
    message=(
        r"not (?:supported|available) (?:with|by|for|on|in) (?:this|the|your) model"
        r"|(?:do|does)(?: not|n't) support (?:the )?\W?(?:response.?format|output.?config|structured|json|tool|output"
        r"|function|strict)"
        r"|response_format[\"'.,\s\])]*type\b.*(?:unavailable|should be|must be|not supported)"
        r"|this response_format type"
        r"|(?:unknown|unrecognized|unsupported|extra) (?:request )?(?:parameter|argument|field|input)s?"
        r".*(?:response_format|output_config|tools|tool_choice|strict)"
        r"|\b(?:output_config(?:\.format)?|tools|tool_choice|(?:tools\.\d+(?:\.\w+)*\.)?strict"
        r"|response_format(?:\.type|(?:\.json_schema)?(?:\.strict)?)?)\W+extra inputs"
        # Gemini: an API version without the field, and a model without the feature
        r"|unknown name \W*(?:(?:response|parameters)_?(?:json_?)?schema|response_?mime_?type|tools|tool_?config)\b"
        r"|(?:json mode|function calling) is not (?:enabled|supported)"
        # Bedrock's Converse
        r"|extraneous key \[outputConfig\]"
    ),
)
_STRUCTURED_OUTPUT_WORDS = r"response.?format|output.?config|structured|json|schema|tool|strict|function|output"

#: Errors about the request that do not depend on its schema.
_REQUEST = (
    # llama.cpp sends this name only if the prompt alone is too long; the names of other servers can also mean that
    # --jsbench-max-tokens is too high
    _Rule(DeclineReason.CONTEXT_LENGTH, names="exceed_context_size_error"),
    _Rule(FaultKind.BAD_REQUEST, status={404, 405, 413}),
    _Rule(
        FaultKind.BAD_REQUEST,
        names="context_length_exceeded string_above_max_length model_not_found not_found_error unsupported_model",
    ),
    _Rule(FaultKind.BAD_REQUEST, message=r"maximum context length|context (?:window|size)"),
    # precedes _NO_STRUCTURED_OUTPUT, because the message may recommend structured outputs
    _Rule(
        FaultKind.BAD_REQUEST,
        status=_CLIENT_ERRORS,
        message=rf"\btool_choice\b.*(?:{_NOT_SUPPORTED.pattern})|(?:{_NOT_SUPPORTED.pattern}).*\btool_choice\b",
    ),
    _NO_STRUCTURED_OUTPUT,
    _Rule(FaultKind.BAD_REQUEST, param=r"\.name$|^(?:messages|input|model|tool_choice)$"),
    _Rule(FaultKind.BAD_REQUEST, status=_CLIENT_ERRORS, param=f"^(?:{PARAMETERS})$"),
)

#: Messages for a schema that a server cannot convert, sent with a 5xx status although a retry would fail again, as of
#: 2026-11-28. llama.cpp's messages without a source are from the version in xllamacpp 2026.10.
_UNCONVERTIBLE_SCHEMA = (
    # llama.cpp: converting the schema, also inside a chat template; parsing the grammar; sampling with the grammar
    r"JSON schema conversion failed",  # browseros-ai/BrowserOS/issues/255, openclaw/openclaw/issues/107430
    r"Unrecognized schema: |Error resolving ref |Unsupported ref |Pattern must start with '\^' and end with '\$'",
    r"failed to parse grammar|error parsing grammar",  # ggml-org/llama.cpp/issues/19051, pull/19349
    r"failed to initialize samplers",
    r"empty grammar stack",
    # Ollama, in the error body of its own API, `{"error": "..."}`, or of its OpenAI-compatible API
    r"invalid JSON schema in format|invalid format: .*valid JSON schema",  # ollama/ollama/issues/8185, 8126
    # vLLM with xgrammar, guidance or outlines; its Messages API answers with 500
    r"Grammar error: |features not supported by xgrammar|Unimplemented keys: ",  # noonghunna/club-3090/issues/45
    # xgrammar behind SGLang and hosted models
    r"failed to compile (?:\w+ )?grammar|json_schema_converter\.cc",  # anomalyco/opencode/issues/33919
    # outlines-core, behind TGI and MLX servers, and TGI itself
    r"Unsupported JSON Schema structure|Grammar (?:compilation|is not valid)|Invalid grammar",
)

#: Errors about the schema, if one was sent.
_SCHEMA = (
    _Rule(DeclineReason.UNSUPPORTED_SCHEMA, names="invalid_json_schema invalid_function_parameters"),
    _Rule(
        DeclineReason.UNSUPPORTED_SCHEMA,
        status={400, 422},
        param=r"^(?:response_format|text\.format|tools|output_config|structured_outputs)",
    ),
    _Rule(
        DeclineReason.UNSUPPORTED_SCHEMA,
        status={400, 422},
        message=r"schema|grammar|too many states|output_config\.format|guided|structured.outputs",
    ),
    # 200: LM Studio sends llama.cpp's error inside a stream (NousResearch/hermes-agent/pull/67349, 2026-07-19)
    _Rule(DeclineReason.UNSUPPORTED_SCHEMA, status=_SERVER_ERRORS | {200}, message="|".join(_UNCONVERTIBLE_SCHEMA)),
)

_REST = (
    # llama.cpp's parser rejects text that its own grammar allowed, mostly because of a pattern; a retry would fail too
    _Rule(FaultKind.ENGINE, message=r"output that does not match the expected \S+ format"),
    # a validation error in the request's body is not transient
    _Rule(FaultKind.BAD_REQUEST, status={500}, message=r"\bloc\W+body\b"),
    _Rule(FaultKind.TIMEOUT, status={408, 504}),
    _Rule(FaultKind.TIMEOUT, names="timeout_error timeout deadline_exceeded"),
    _Rule(FaultKind.SERVER, names="overloaded_error api_error server_error internal_server_error internal unavailable"),
    _Rule(FaultKind.CONNECTION, status={407}),
    # Bedrock sends 424 if the model fails
    _Rule(FaultKind.SERVER, status=_SERVER_ERRORS | {424}),
    _Rule(FaultKind.BAD_REQUEST, status=_CLIENT_ERRORS),
    _Rule(FaultKind.BAD_REQUEST, names="invalid_request_error invalid_argument"),
    _Rule(FaultKind.BAD_RESPONSE),
)

#: Text that Groq sends, as the message or instead of the model's text, if the token limit is reached.
_OUT_OF_TOKENS = re.compile(r"max completion tokens reached", re.IGNORECASE)

_SCHEMA_FORMATS = (ResponseFormat.JSON_SCHEMA, ResponseFormat.TOOL)
_WITHOUT_SCHEMA = (*_REFUSAL, *_ACCOUNT, *_REQUEST, *_REST)
_WITH_SCHEMA = (*_REFUSAL, *_ACCOUNT, *_REQUEST, *_SCHEMA, *_REST)


def classify_error(
    error: ProviderError, *, sent: Sent, secret: str | None, route: str = "this server"
) -> Completion | Declined | CallError:
    """
    Return the answer in the error, or the outcome of the first rule that applies; redact the secret in the outcome's
    message.

    `route` names the model and the server; `secret` is empty if no secret was sent.
    """
    if error.failed_generation is not None:
        limit = any(map(_OUT_OF_TOKENS.search, (error.message, error.failed_generation)))
        finish = FinishReason.LENGTH if limit else FinishReason.REJECTED
        return Completion(text=error.failed_generation, finish_reason=finish, timing=None, usage=error.usage, sent=sent)
    rules = _WITH_SCHEMA if sent.response_format in _SCHEMA_FORMATS else _WITHOUT_SCHEMA
    rule = next(rule for rule in rules if rule.applies(error))
    message = one_line(error.message, secret=secret)
    if isinstance(rule.outcome, DeclineReason):
        return Declined(reason=rule.outcome, message=message, sent=sent)
    hint = find_hint(error) if rule.outcome is FaultKind.BAD_REQUEST else None
    if hint is not None:
        message = f"{message} (to fix it: {hint})"
    elif _lacks_format(rule, error, sent):
        message = f"{message} ({route} does not support {sent.response_format}: change --jsbench-response-format)"
    if rule.outcome is FaultKind.AUTH and secret == "":
        message = f"{message} (no key was sent: --jsbench-api-key-env names the variable that contains the key)"
    return CallError(rule.outcome, message, status=error.status, retry_after=error.retry_after)


def _lacks_format(rule: _Rule, error: ProviderError, sent: Sent) -> bool:
    """Return whether the model or its server lacks the response format."""
    structured = rule is _NO_STRUCTURED_OUTPUT and sent.response_format is not ResponseFormat.TEXT
    return structured and re.search(_STRUCTURED_OUTPUT_WORDS, error.message, re.IGNORECASE) is not None


def explain_error(
    error: Exception, sent: Sent, *, address: str, model: str, secret: str | None
) -> Completion | Declined | CallError:
    """Return the outcome of a call that got an error response or could not be sent."""
    if not isinstance(error, EnclosedError):
        message = f"the request cannot be made: {type(error).__name__}: {error}"
        return CallError(FaultKind.ENGINE, one_line(message, secret=secret))
    words = error.body if error.status >= 400 else error.body or str(error)
    provider_error = ProviderError.parse(words, status=error.status, headers=error.headers)
    route = f"{model} at {_without_credentials(address)}"
    outcome = classify_error(provider_error, sent=sent, secret=secret, route=route)
    if isinstance(outcome, CallError) and outcome.kind is FaultKind.ENGINE and error.after:
        outcome.message = one_line(f"{outcome.message} ({error.after})", secret=secret)
    return outcome


#: Exceptions of http.client and of sockets if the server closes an open connection.
_CLOSED = frozenset({"RemoteDisconnected", "ConnectionResetError", "BrokenPipeError", "ConnectionAbortedError"})
#: Message of http.client's RemoteDisconnected.
_NO_ANSWER = "Remote end closed connection without response"
#: Exceptions of urllib3 and httpx for a timeout in connecting.
_NOT_CONNECTED = frozenset({"ConnectTimeoutError", "ConnectTimeout"})


def connection_fault(
    error: BaseException, *, address: str, secret: str | None = None, begun: bool = False
) -> CallError:
    """
    Return the error for a connection that failed; `begun` means that part of the response had arrived. A slow response
    counts as a timeout.
    """
    causes = all_causes(error)
    names = {type(cause).__name__ for cause in causes}
    slow = "TimeoutError" in names and names.isdisjoint(_NOT_CONNECTED)
    was_truncated = begun and not slow
    prefix = "the answer was interrupted: " if was_truncated else ""
    reason = _reason(causes)
    message = f"{_without_credentials(address)}: {prefix}{reason}"
    kind = FaultKind.TIMEOUT if slow else FaultKind.CONNECTION
    closed = kind is FaultKind.CONNECTION and (begun or not names.isdisjoint(_CLOSED) or reason == _NO_ANSWER)
    return CallError(kind, one_line(message, secret=secret), was_truncated=was_truncated, closed=closed)


def _reason(causes: list[BaseException]) -> str:
    """Describe the failure in HTTP terms, because the libraries' messages name internal objects."""
    for cause in causes:
        match type(cause).__name__:
            case "IncompleteRead":
                # http.client raises ValueError for an invalid chunk length, which is b'' if the body ends early.
                chunk = any(isinstance(inner, ValueError) and not str(inner).endswith("b''") for inner in causes)
                return "a chunk of its body has no valid length" if chunk else "its body is truncated"
            case "BadStatusLine":
                line = str(cause).strip("'\r\n ")
                found = f"found {printable(line, 80)!r}" if line else "found an empty line"
                return f"expected an HTTP status line, {found}"
            case "RemoteProtocolError":  # of httpx, for several failures
                words = str(cause)
                if status_line := re.fullmatch(r"illegal status line: bytearray\(b(.*)\)", words):
                    return f"expected an HTTP status line, found {printable(status_line[1], 80)}"
                if words.startswith("peer closed connection without sending complete message body"):
                    return "its body is truncated"
                if words.startswith("Server disconnected without sending a response"):
                    return _NO_ANSWER
    # the innermost cause with a message
    return next((str(cause) for cause in reversed(causes) if str(cause)), type(causes[0]).__name__)


def _without_credentials(address: str) -> str:
    return re.sub(r"//[^/@]*@", "//", address)


def all_causes(error: BaseException) -> list[BaseException]:
    """Return the exception and its chain of causes, the original cause last."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return chain
