"""
Find an engine's secrets, and remove them from everything that the engine returns or raises.

`find_secrets` collects the secrets from the environment and the engine's configuration. `build`, `describe` and `check`
call the factory's methods and replace each secret in the results.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, assert_never
from urllib.parse import quote, quote_plus, unquote

from msgspec import structs

from pytest_jsbench.core.errors import THIRD_PARTY_ERRORS, EngineError, JSBenchError, describe_exhaustion
from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Declined,
    EngineInfo,
    Failed,
    FaultKind,
    Request,
    Usage,
)
from pytest_jsbench.core.json_values import too_deep
from pytest_jsbench.core.secret_masking import Secrets, key_like_hidden
from pytest_jsbench.core.text import LONGEST, describe_error, sentence
from pytest_jsbench.engines.base import Address, Engine, TextTokenizer, TokenCounter, without_credentials
from pytest_jsbench.engines.presets import KEYS, preset_of
from pytest_jsbench.settings.option import HiddenPart
from pytest_jsbench.settings.parsers import assignment

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Prompt
    from pytest_jsbench.engines.base import EngineConfig, EngineFactory
    from pytest_jsbench.settings.option import Option

#: Prefix of an option's value that refers to an environment variable, as in `env:VAR`.
FROM_ENVIRONMENT = "env:"
HIDDEN = "…"

#: Options that contain no secrets, only settings of the engine.
_PUBLIC_OPTIONS = frozenset(
    {"api", "stream", "strict", "schema_name", "max_tokens_field", "bounded", "slots", "context", "threads"}
    | {"reasoning_effort", "reasoning_budget", "effort_field", "budget_field"}
    | {"formats", "seed_field", "single_call", "stream_options", "transport", "unstreamed"}
    | {"api_version", "region", "profile", "project"}
    | {"start_timeout", "compile_timeout", "mask_timeout", "memory", "top_p", "records", "variant", "folder", "answers"}
)
#: Names of fields that contain keys, passwords or tokens.
_SECRET_NAME = re.compile(
    r"key(?!word)|token(?!s)|secret|passw|credential|cookie|\bsig|\bcode\b|auth(?!or(?!i[sz]))|license", re.IGNORECASE
)
#: Line ends in a stream; because of the group, `split` returns them too.
_LINES = re.compile("(\r\n?|\n)")
#: Maximum nesting depth of an event that is searched for secrets.
_MAX_DEPTH = 200
#: Headers without secrets.
_PUBLIC_HEADERS = re.compile(
    r"accept(-.+)?|content-type|user-agent|(http-)?referer|origin|x-title|.+-(version|beta)", re.IGNORECASE
)
#: Environment variables from which the SDKs read keys. Any other variable also counts as secret if its name ends like
#: a secret's and its value is at least as long as a key.
_KEYS = frozenset(
    {variable for variables in KEYS.values() for variable in variables}
    | {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"}
    | {"AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}
)
_KEY_LIKE = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|_PAT)$", re.IGNORECASE)
_SHORTEST_KEY = 16
_URLS = re.compile(
    r"(OPENAI|ANTHROPIC(_BEDROCK|_VERTEX)?|GOOGLE_GEMINI)_BASE_URL|AZURE_OPENAI_ENDPOINT|(HTTP|HTTPS|ALL|FTP|WS|WSS)_PROXY",
    re.IGNORECASE,
)
_HEADERS = re.compile(r"(OPENAI|ANTHROPIC)_CUSTOM_HEADERS")


def outline(value: Any, name: str = "") -> Any:
    """
    Return an option's value for printing: names, numbers, booleans and `env:` references are kept, and other texts are
    replaced by `…`.
    """
    match value:
        case dict():
            return {inner: outline(each, f"{name} {inner}") for inner, each in value.items()}
        case list():
            return [outline(each, name) for each in value]
        case str() if value.startswith(FROM_ENVIRONMENT):
            return value
        case bool() | None:
            return value
        case int() | float() if not _SECRET_NAME.search(name):
            return value
        case _:
            return HIDDEN


def without_keys(value: Any, name: str = "") -> Any:
    """Replace each text in third-party JSON by `…` if its field's name is like `api_key` or it looks like a key."""
    match value:
        case dict() if name.lower().endswith("headers"):
            return {inner: each if _PUBLIC_HEADERS.fullmatch(inner) else HIDDEN for inner, each in value.items()}
        case dict():
            return {inner: without_keys(each, inner) for inner, each in value.items()}
        case list():
            return [without_keys(each, name) for each in value]
        case str():
            return HIDDEN if _SECRET_NAME.search(name) else key_like_hidden(value, HIDDEN)
        case _:
            return value


def mark(value: Any) -> str:
    """
    Return a hash of two digits, as in `#3f`, to distinguish values with the same outline; empty if no text is hidden.

    Keys and passwords do not affect the hash, so it stays the same if a key is renewed. The hash of all other hidden
    texts is reduced to eight bits, so that the texts cannot be guessed from it.
    """
    texts = [text for name, text in _texts(value, "") if outline(text) == HIDDEN and not _SECRET_NAME.search(name)]
    return f"#{hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:2]}" if texts else ""


def outline_option(name: str, value: Any) -> Any:
    """Return an engine option's value for printing, without texts that may be secret."""
    return value if name in _PUBLIC_OPTIONS else outline(value, name)


def shown_text(option: Option, text: str) -> str:
    """Return an option's text on the command line for printing, without the part that may be secret."""
    match option.hidden:
        case HiddenPart.NOTHING:
            return text
        case HiddenPart.CREDENTIALS:
            return without_credentials(text)
        case HiddenPart.VALUE:
            key, value = assignment(text)
            return text if outline_option(key, value) == value else f"{key}={HIDDEN}"
        case _:
            assert_never(option.hidden)


def public_extras(config: EngineConfig) -> dict[str, Any]:
    """
    Return the extra body, headers and query for a run's details: only the names of the headers, and an outline of
    the body and the query.
    """
    extras = {name: config.options.get(name) for name in ("extra_body", "extra_headers", "extra_query")}
    details = {
        name: sorted(value) if name == "extra_headers" else outline(value, name)
        for name, value in extras.items()
        if value
    }
    if digits := mark(extras["extra_body"]):
        details["extra_body_mark"] = digits
    return details


def public_options(config: EngineConfig) -> dict[str, Any]:
    """
    Return an outline of all options, and their mark, for the details of an engine that does not describe its
    options.
    """
    details = {name: outline(value, name) for name, value in config.options.items()}
    if digits := mark(dict(config.options)):
        details["options_mark"] = digits
    return details


def public(config: EngineConfig) -> dict[str, Any]:
    """Return a configuration for printing; the result is the same for configurations that send the same requests."""
    return {
        "name": config.name,
        "model": config.model,
        "base_url": config.base_url and without_credentials(config.base_url),
        "api_key_env": config.api_key_env,
        "response_format": config.response_format and config.response_format.value,
        "options": {name: outline_option(name, value) for name, value in config.options.items()},
        "mark": mark(
            {name: value for name, value in config.options.items() if name not in _PUBLIC_OPTIONS | {"extra_headers"}}
        ),
    }


def find_secrets(*configs: EngineConfig) -> Secrets:
    """Return all secrets known to this process that an engine with one of these configurations may send or quote."""
    presets = [preset for config in configs if (preset := preset_of(config.name)) is not None]
    variables = {*(config.api_key_env for config in configs), *(preset.key for preset in presets)}
    texts = list(_environment_secrets(_KEYS.union(filter(None, variables))))
    urls = [value for name, value in os.environ.items() if _URLS.fullmatch(name)]
    for config in configs:
        texts += [config.api_key or "", *_option_secrets(config.options)]
        urls.append(config.base_url or "")
    pairs: list[str] = []
    for url in urls:
        try:
            address = Address.parse(url)
        except ValueError:
            texts.append(url.partition("://")[2].rpartition("@")[0])
            continue
        user, password = address.userinfo or ("", "")
        texts += [password or user, f"{user}:{password}" if password else ""]
        texts += [value for name, value in address.query.items() if _SECRET_NAME.search(name)]
        pairs += [f"{quote(user)}:{quote(password)}@", f"{user}:{password}@"] if password else []
        pairs += [f"{name}={form(value)}" for name, value in address.query.items() for form in (str, quote, quote_plus)]
    return Secrets((text for text in texts if text), in_messages=pairs)


def _environment_secrets(keys: frozenset[str]) -> Iterator[str]:
    for name, value in os.environ.items():
        long = len(value) >= _SHORTEST_KEY and len(value.split()) == 1
        if name in keys or (long and _KEY_LIKE.search(name)):
            yield value
        elif _HEADERS.fullmatch(name):
            for header, _, text in (line.partition(":") for line in value.splitlines()):
                if not _PUBLIC_HEADERS.fullmatch(header.strip()):
                    yield from _header_secrets(text)


def _option_secrets(options: Mapping[str, Any]) -> Iterator[str]:
    for option, value in options.items():
        for name, text in _texts(value, option):
            if text.startswith(FROM_ENVIRONMENT):
                yield os.environ.get(text.removeprefix(FROM_ENVIRONMENT), "")
            elif option == "extra_headers" and not _PUBLIC_HEADERS.fullmatch(name.removeprefix("extra_headers ")):
                yield from _header_secrets(text)
            elif option not in _PUBLIC_OPTIONS and _SECRET_NAME.search(name):
                yield text


def _header_secrets(text: str) -> Iterator[str]:
    """Yield a header's value, and the credentials in a value such as `Bearer …`."""
    yield text
    yield unquote(text.strip().rpartition(" ")[2])


def _texts(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """
    Yield each text in an option's value, and each number whose name is like a secret's, as pairs of path and text;
    the path consists of the names, separated by spaces.
    """
    match value:
        case dict():
            for inner, each in value.items():
                yield from _texts(each, f"{name} {inner}".strip())
        case list():
            for each in value:
                yield from _texts(each, name)
        case str():
            yield name, value
        case int() | float() if not isinstance(value, bool) and _SECRET_NAME.search(name):
            yield name, str(value)


class RedactingEngine:
    """
    An engine that calls another engine, replaces secrets in its answers and errors, and counts calls and tokens.

    `build` wraps every engine of a run. Secrets are replaced in the complete answer, including secrets
    that are split across events of a stream. `generate` is called from several threads.
    """

    def __init__(self, engine: Engine, secrets: Secrets) -> None:
        self._engine = engine
        #: The engine if it counts tokens; such a check takes as long as an attempt's prompt.
        self._counter = engine if isinstance(engine, TokenCounter) else None
        self._secrets = secrets
        self._lock = threading.Lock()
        #: Number of answered calls.
        self.calls = 0
        #: Total usage of the answered calls.
        self.usage = Usage()

    @property
    def info(self) -> EngineInfo:
        """The engine's identity, without secrets."""
        return _redact_info(self._engine.info, self._secrets)

    def generate(self, request: Request) -> Completion | Declined:
        """Return the engine's answer; any exception becomes a CallError, because its message may quote a key."""
        try:
            answer = mask_generation(self._engine.generate(request), self._secrets)
            with self._lock:
                self.calls += 1
                self.usage = Usage.total([self.usage, answer.usage])
            return answer
        except CallError as error:
            raise mask_fault(error, self._secrets) from None
        except JSBenchError:
            raise
        except THIRD_PARTY_ERRORS as error:
            if describe_exhaustion(error):  # the message contains no third-party text
                raise
            # Any other error is a bug in the engine; the runner uses the same form of message for such errors.
            message = self._secrets.mask_message(f"{type(error).__name__}: {error}")
            raise CallError(FaultKind.ENGINE, message) from None

    def count_tokens(self, prompt: Prompt) -> int | None:
        """Return the number of tokens of the prompt; None if the engine cannot count tokens."""
        return None if self._counter is None else self._counter.count_tokens(prompt)

    def tokenize(self, text: str) -> Sequence[int] | None:
        """Return the tokens of the text; None if the engine has no tokenizer."""
        return self._engine.tokenize(text) if isinstance(self._engine, TextTokenizer) else None

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()


def build(factory: EngineFactory, config: EngineConfig, *others: EngineConfig) -> RedactingEngine:
    """Build the factory's engine, and replace the secrets of all these configurations in its results."""
    with errors_without_secrets(config, *others) as secrets:
        return RedactingEngine(factory.build(config), secrets)


def describe(factory: EngineFactory, config: EngineConfig) -> EngineInfo:
    """Describe the engine, without secrets."""
    with errors_without_secrets(config) as secrets:
        return _redact_info(factory.describe(config), secrets)


def check(factory: EngineFactory, config: EngineConfig) -> None:
    """Check that the engine can be built; secrets in errors are replaced."""
    with errors_without_secrets(config):
        factory.check(config)


@contextmanager
def prepare(factory: EngineFactory, config: EngineConfig) -> Iterator[EngineConfig]:
    """Start the resources that engines share, and stop them after the block; secrets in errors are replaced."""
    with ExitStack() as resources:
        with errors_without_secrets(config):
            prepared = resources.enter_context(factory.prepare(config))
        yield prepared


Answer = TypeVar("Answer", Completion, Completion | Declined, Failed, Completion | Declined | Failed)


def mask_generation(generation: Answer, secrets: Secrets) -> Answer:
    """Return the generation without secrets; `secret_replaced` is set if the text or a call contained a secret."""
    if isinstance(generation, Failed):
        return structs.replace(generation, message=secrets.mask_message(generation.message))
    server = generation.server
    if server is not None:
        body = secrets.mask_answer(server.body)
        server = replace(server, body=_redact_events(body, secrets) if server.streamed else body)
    if isinstance(generation, Declined):
        return structs.replace(generation, message=secrets.mask_message(generation.message), server=server)
    text, reasoning, beside = map(secrets.mask_answer, (generation.text, generation.reasoning, generation.beside))
    calls = tuple(
        replace(call, name=secrets.mask_answer(call.name), arguments=secrets.mask_answer(call.arguments))
        for call in generation.calls
    )
    replaced = generation.secret_replaced or (text, calls) != (generation.text, generation.calls)
    redacted = structs.replace(generation, text=text, reasoning=reasoning, beside=beside, calls=calls)
    word = secrets.mask_message(generation.finish_word)
    return structs.replace(redacted, server=server, secret_replaced=replaced, finish_word=word)


def _redact_events(body: str, secrets: Secrets) -> str:
    """Replace secrets in a stream's body, including secrets split across events, because clients join the pieces."""
    lines = _LINES.split(body)
    data = {number: line.removeprefix("data:") for number, line in enumerate(lines) if line.startswith("data:")}
    events: dict[int, Any] = {}
    for number, text in data.items():
        with suppress(ValueError):
            events[number] = None if too_deep(text, _MAX_DEPTH) else json.loads(text)
    for by_block in (True, False):  # a client may or may not join texts of different blocks
        pieces: dict[object, list[tuple[int, Any, Any]]] = {}
        for number, event in events.items():
            for holder, name, block in _texts_in(event):
                pieces.setdefault((name, block if by_block else ()), []).append((number, holder, name))
        for parts in pieces.values():
            text = "".join(holder[name] for _, holder, name in parts)
            clean = secrets.mask_answer(text)
            for last, (number, holder, name) in enumerate(parts if clean != text else (), start=1 - len(parts)):
                end = len(holder[name]) if last else len(clean)
                holder[name] = clean[:end]
                clean = clean[end:]
                lines[number] = f"data: {json.dumps(events[number], ensure_ascii=False)}"
    return "".join(lines)


def _texts_in(value: Any, block: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any, tuple[str, ...]]]:
    """Yield the container, the name or index, and the block of each text in an event."""
    if isinstance(value, dict):
        block = (*block, *(str(each) for name, each in value.items() if name.endswith(("index", "item_id"))))
        members: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    else:
        return
    for name, each in members:
        if isinstance(each, str):
            yield value, name, block
        else:
            yield from _texts_in(each, block)


def _redact_info(info: EngineInfo, secrets: Secrets) -> EngineInfo:
    redacted = {name: secrets.mask(getattr(info, name)) for name in ("model", "provider", "details")}
    return replace(info, **redacted)


def mask_fault(error: CallError, secrets: Secrets) -> CallError:
    """Return the error with secrets in its message replaced."""
    return error.with_message(secrets.mask_message(error.message))


@contextmanager
def errors_without_secrets(config: EngineConfig, *others: EngineConfig) -> Iterator[Secrets]:
    """Replace the secrets of these configurations in errors raised inside the block."""
    secrets = find_secrets(config, *others)
    try:
        yield secrets
    except EngineError as error:
        # Change the error itself, because its class may have a constructor with other parameters.
        error.args = (secrets.mask_message(str(error)),)
        error.found, error.expected, error.where = map(secrets.mask, (error.found, error.expected, error.where))
        raise error from None
    except JSBenchError:
        raise
    except THIRD_PARTY_ERRORS as error:
        message = f"engine '{config.name}' cannot be used: {describe_error(error, 10 * LONGEST)}"
        raise EngineError(sentence(secrets.mask_message(message))) from None
