"""
The secrets of an engine: found where the user put them, and kept out of all that an engine says.

`find_secrets` collects them from the environment and the engine's configuration. `build`, `describe` and `check`
do what the factory's methods do, and replace each secret in what comes back.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, quote_plus, unquote

from msgspec import structs

from pytest_jsbench.core.errors import THIRD_PARTY_ERRORS, EngineError, JSBenchError, exhausted
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
from pytest_jsbench.core.text import LONGEST, described, sentence
from pytest_jsbench.engines.base import Address, Engine, TextTokenizer, TokenCounter, without_credentials
from pytest_jsbench.engines.presets import KEYS, preset_of

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Prompt
    from pytest_jsbench.engines.base import EngineConfig, EngineFactory

#: before a variable's name, in the place of a text in an option
FROM_ENVIRONMENT = "env:"
HIDDEN = "…"

#: options that hold no secret: they only say how the engine works
_OPEN = frozenset(
    {"api", "stream", "strict", "schema_name", "max_tokens_field", "bounded", "slots", "context", "threads"}
    | {"reasoning_effort", "reasoning_budget", "effort_field", "budget_field"}
    | {"formats", "seed_field", "single_call", "stream_options", "unstreamed"}
    | {"api_version", "region", "profile", "project"}
    | {"start_timeout", "compile_timeout", "mask_timeout", "memory", "top_p", "records", "variant", "folder", "answers"}
)
#: names of fields that hold keys, passwords or tokens
_TELLING = re.compile(
    r"key(?!word)|token(?!s)|secret|passw|credential|cookie|\bsig|\bcode\b|auth(?!or(?!i[sz]))|license", re.IGNORECASE
)
#: the lines of a stream, with their ends apart; and the levels of an event that is looked into
_LINES, _DEEPEST = re.compile("(\r\n?|\n)"), 200
#: headers that everybody may read
_PUBLIC_HEADERS = re.compile(
    r"accept(-.+)?|content-type|user-agent|(http-)?referer|origin|x-title|.+-(version|beta)", re.IGNORECASE
)
#: variables that hold keys: the SDKs' and, where they hold nothing shorter than a key, any that are named so
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
    """An option's value as it may be known: names, numbers, flags, and which variables are read; texts as `…`."""
    match value:
        case dict():
            return {inner: outline(each, f"{name} {inner}") for inner, each in value.items()}
        case list():
            return [outline(each, name) for each in value]
        case str() if value.startswith(FROM_ENVIRONMENT):
            return value
        case bool() | None:
            return value
        case int() | float() if not _TELLING.search(name):
            return value
        case _:
            return HIDDEN


def without_keys(value: Any, name: str = "") -> Any:
    """Put `…` for each text of a stranger's JSON that stands behind a name such as `api_key`, or looks like one."""
    match value:
        case dict() if name.lower().endswith("headers"):
            return {inner: each if _PUBLIC_HEADERS.fullmatch(inner) else HIDDEN for inner, each in value.items()}
        case dict():
            return {inner: without_keys(each, inner) for inner, each in value.items()}
        case list():
            return [without_keys(each, name) for each in value]
        case str():
            return HIDDEN if _TELLING.search(name) else key_like_hidden(value, HIDDEN)
        case _:
            return value


def mark(value: Any) -> str:
    """
    Two digits that mostly differ for two values with the same outline; empty where the value has no hidden text.

    Keys and passwords are left out, so a renewed key changes nothing. The digits are eight bits of a hash of all the
    other texts together: too few to find a text by guessing.
    """
    texts = [text for name, text in _texts(value, "") if outline(text) == HIDDEN and not _TELLING.search(name)]
    return f"#{hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:2]}" if texts else ""


def shown_option(name: str, value: Any) -> Any:
    """An engine's option as it may be shown."""
    return value if name in _OPEN else outline(value, name)


def public_extras(config: EngineConfig) -> dict[str, Any]:
    """The extras of a request in a run's details: names of headers, an outline of the rest."""
    extras = {name: config.options.get(name) for name in ("extra_body", "extra_headers", "extra_query")}
    details = {
        name: sorted(value) if name == "extra_headers" else outline(value, name)
        for name, value in extras.items()
        if value
    }
    digits = mark(extras["extra_body"])
    return {**details, "extra_body_mark": digits} if digits else details


def public_options(config: EngineConfig) -> dict[str, Any]:
    """An outline of all options of an engine that says nothing of them itself, and their mark, for a run's details."""
    details = {name: outline(value, name) for name, value in config.options.items()}
    digits = mark(dict(config.options))
    return {**details, "options_mark": digits} if digits else details


def public(config: EngineConfig) -> dict[str, Any]:
    """A configuration as it may be shown; equal for two configurations that ask the same."""
    return {
        "name": config.name,
        "model": config.model,
        "base_url": config.base_url and without_credentials(config.base_url),
        "api_key_env": config.api_key_env,
        "response_format": config.response_format and config.response_format.value,
        "options": {name: shown_option(name, value) for name, value in config.options.items()},
        "mark": mark({name: value for name, value in config.options.items() if name not in _OPEN | {"extra_headers"}}),
    }


def find_secrets(*configs: EngineConfig) -> Secrets:
    """Every secret that this process knows and that an engine with one of these configurations may send or quote."""
    presets = [preset for config in configs if (preset := preset_of(config.name)) is not None]
    variables = {*(config.api_key_env for config in configs), *(preset.key for preset in presets)}
    texts = list(_of_environment(_KEYS.union(filter(None, variables))))
    urls = [value for name, value in os.environ.items() if _URLS.fullmatch(name)]
    for config in configs:
        texts += [config.api_key or "", *_of_options(config.options)]
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
        texts += [value for name, value in address.query.items() if _TELLING.search(name)]
        pairs += [f"{quote(user)}:{quote(password)}@", f"{user}:{password}@"] if password else []
        pairs += [f"{name}={form(value)}" for name, value in address.query.items() for form in (str, quote, quote_plus)]
    return Secrets((text for text in texts if text), told=pairs)


def _of_environment(keys: frozenset[str]) -> Iterator[str]:
    for name, value in os.environ.items():
        long = len(value) >= _SHORTEST_KEY and len(value.split()) == 1
        if name in keys or (long and _KEY_LIKE.search(name)):
            yield value
        elif _HEADERS.fullmatch(name):
            for header, _, text in (line.partition(":") for line in value.splitlines()):
                if not _PUBLIC_HEADERS.fullmatch(header.strip()):
                    yield from _of_header(text)


def _of_options(options: Mapping[str, Any]) -> Iterator[str]:
    for option, value in options.items():
        for name, text in _texts(value, option):
            if text.startswith(FROM_ENVIRONMENT):
                yield os.environ.get(text.removeprefix(FROM_ENVIRONMENT), "")
            elif option == "extra_headers" and not _PUBLIC_HEADERS.fullmatch(name.removeprefix("extra_headers ")):
                yield from _of_header(text)
            elif option not in _OPEN and _TELLING.search(name):
                yield text


def _of_header(text: str) -> Iterator[str]:
    """The value, and the credentials in one such as `Bearer …`."""
    yield text
    yield unquote(text.strip().rpartition(" ")[2])


def _texts(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Each text in an option's value, and the names that lead to it; a number behind a telling name is one too."""
    match value:
        case dict():
            for inner, each in value.items():
                yield from _texts(each, f"{name} {inner}".strip())
        case list():
            for each in value:
                yield from _texts(each, name)
        case str():
            yield name, value
        case int() | float() if not isinstance(value, bool) and _TELLING.search(name):
            yield name, str(value)


class DiscreetEngine:
    """
    Asks an engine, replaces each secret of the run in what it answers or raises, and counts the calls and their tokens.

    `build` puts one around every engine of a run. It sees an answer when it is whole, so that a secret which a stream
    cuts in two is found too. The threads of the calls in flight enter `generate`.
    """

    def __init__(self, engine: Engine, secrets: Secrets) -> None:
        self._engine = engine
        self._secrets = secrets
        self._lock = threading.Lock()
        #: calls that were answered, and the tokens of their answers
        self.calls, self.usage = 0, Usage()

    @property
    def info(self) -> EngineInfo:
        """Its identity, without secrets."""
        return _out_of_info(self._engine.info, self._secrets)

    def generate(self, request: Request) -> Completion | Declined:
        """The engine's answer; any exception becomes a CallError, since its own words may quote a key."""
        try:
            answer = out_of_generation(self._engine.generate(request), self._secrets)
            with self._lock:
                self.calls, self.usage = self.calls + 1, Usage.total([self.usage, answer.usage])
            return answer
        except CallError as error:
            raise out_of_fault(error, self._secrets) from None
        except JSBenchError:
            raise
        except THIRD_PARTY_ERRORS as error:
            if exhausted(error):  # it quotes nobody
                raise
            # an engine's bug, as the runner would have said it
            message = self._secrets.out_of_message(f"{type(error).__name__}: {error}")
            raise CallError(FaultKind.ENGINE, message) from None

    def count_tokens(self, prompt: Prompt) -> int | None:
        """The tokens of the prompt, where the engine can say."""
        return self._engine.count_tokens(prompt) if isinstance(self._engine, TokenCounter) else None

    def tokenize(self, text: str) -> Sequence[int] | None:
        """The tokens of the text, where the engine can say."""
        return self._engine.tokenize(text) if isinstance(self._engine, TextTokenizer) else None

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()


def build(factory: EngineFactory, config: EngineConfig, *others: EngineConfig) -> DiscreetEngine:
    """The factory's engine, with the secrets of all engines of the run replaced in what it says."""
    with errors_freed(config, *others) as secrets:
        return DiscreetEngine(factory.build(config), secrets)


def describe(factory: EngineFactory, config: EngineConfig) -> EngineInfo:
    """Describe the engine, as far as that may be written down."""
    with errors_freed(config) as secrets:
        return _out_of_info(factory.describe(config), secrets)


def check(factory: EngineFactory, config: EngineConfig) -> None:
    """Check that the engine can be built; the error shows no secret."""
    with errors_freed(config):
        factory.check(config)


@contextmanager
def prepare(factory: EngineFactory, config: EngineConfig) -> Iterator[EngineConfig]:
    """Start what the engines of a run share, and stop it at the end; an error of the start shows no secret."""
    with ExitStack() as resources:
        with errors_freed(config):
            prepared = resources.enter_context(factory.prepare(config))
        yield prepared


Answer = TypeVar("Answer", Completion, Completion | Declined, Failed, Completion | Declined | Failed)


def out_of_generation(generation: Answer, secrets: Secrets) -> Answer:
    """The same with no secret in it; a completion whose text or calls held one is marked."""
    if isinstance(generation, Failed):
        return structs.replace(generation, message=secrets.out_of_message(generation.message))
    server = generation.server
    if server is not None:
        body = secrets.out_of_answer(server.body)
        server = replace(server, body=_out_of_events(body, secrets) if server.streamed else body)
    if isinstance(generation, Declined):
        return structs.replace(generation, message=secrets.out_of_message(generation.message), server=server)
    text, reasoning, beside = map(secrets.out_of_answer, (generation.text, generation.reasoning, generation.beside))
    calls = tuple(
        replace(call, name=secrets.out_of_answer(call.name), arguments=secrets.out_of_answer(call.arguments))
        for call in generation.calls
    )
    replaced = generation.secret_replaced or (text, calls) != (generation.text, generation.calls)
    freed = structs.replace(generation, text=text, reasoning=reasoning, beside=beside, calls=calls)
    word = secrets.out_of_message(generation.finish_word)
    return structs.replace(freed, server=server, secret_replaced=replaced, finish_word=word)


def _out_of_events(body: str, secrets: Secrets) -> str:
    """The body of a stream with no secret of which each event holds a piece, since clients put the pieces together."""
    lines = _LINES.split(body)
    data = {number: line.removeprefix("data:") for number, line in enumerate(lines) if line.startswith("data:")}
    events: dict[int, Any] = {}
    for number, text in data.items():
        with suppress(ValueError):
            events[number] = None if too_deep(text, _DEEPEST) else json.loads(text)
    for by_block in (True, False):  # a client may tell blocks apart or not
        pieces: dict[object, list[tuple[int, Any, Any]]] = {}
        for number, event in events.items():
            for holder, name, block in _texts_in(event):
                pieces.setdefault((name, block if by_block else ()), []).append((number, holder, name))
        for parts in pieces.values():
            text = "".join(holder[name] for _, holder, name in parts)
            clean = secrets.out_of_answer(text)
            for last, (number, holder, name) in enumerate(parts if clean != text else (), start=1 - len(parts)):
                end = len(holder[name]) if last else len(clean)
                holder[name], clean = clean[:end], clean[end:]
                lines[number] = f"data: {json.dumps(events[number], ensure_ascii=False)}"
    return "".join(lines)


def _texts_in(value: Any, block: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any, tuple[str, ...]]]:
    """Each text in an event: what holds it, under which name or number, and of which of several blocks it is."""
    if isinstance(value, dict):
        block = (*block, *(str(each) for name, each in value.items() if name.endswith(("index", "item_id"))))
    for name, each in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        if isinstance(each, str):
            yield value, name, block
        else:
            yield from _texts_in(each, block)


def _out_of_info(info: EngineInfo, secrets: Secrets) -> EngineInfo:
    freed = {name: secrets.out_of(getattr(info, name)) for name in ("model", "provider", "details")}
    return replace(info, **freed)


def out_of_fault(error: CallError, secrets: Secrets) -> CallError:
    """Return the same error without a secret in its message."""
    return error.with_message(secrets.out_of_message(error.message))


@contextmanager
def errors_freed(config: EngineConfig, *others: EngineConfig) -> Iterator[Secrets]:
    """Inside, what an engine's factory raises is said in one line, and without a secret of that configuration."""
    secrets = find_secrets(config, *others)
    try:
        yield secrets
    except EngineError as error:
        # the error itself, for its class may be made in a way of its own
        error.args = (secrets.out_of_message(str(error)),)
        error.found, error.expected, error.where = map(secrets.out_of, (error.found, error.expected, error.where))
        raise error from None
    except JSBenchError:
        raise
    except THIRD_PARTY_ERRORS as error:
        message = f"engine '{config.name}' cannot be used: {described(error, 10 * LONGEST)}"
        raise EngineError(sentence(secrets.out_of_message(message))) from None
