"""Engines that let no secret out: what one says of itself, answers or raises is free of them before anybody sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from pytest_jsbench.core.errors import EngineError, JSBenchError
from pytest_jsbench.core.generations import CallError, Completion, Declined, EngineInfo, Failed, FaultKind, Request
from pytest_jsbench.core.text import LONGEST, described, sentence
from pytest_jsbench.engines.base import Engine, TokenCounter
from pytest_jsbench.engines.credentials import find_secrets

if TYPE_CHECKING:
    from pytest_jsbench.core.prompts import Prompt
    from pytest_jsbench.core.secrets import Secrets
    from pytest_jsbench.engines.base import EngineConfig, EngineFactory
    from pytest_jsbench.engines.batch_api import Batches, BatchFactory, BatchLimits, BatchState, Result


class DiscreetEngine:
    """Asks an engine, and passes on what it says with the secrets replaced."""

    def __init__(self, engine: Engine, secrets: Secrets) -> None:
        self._engine = engine
        self._secrets = secrets

    @property
    def info(self) -> EngineInfo:
        """Who answers."""
        return _of_info(self._engine.info, self._secrets)

    def generate(self, request: Request) -> Completion | Declined:
        """The engine's answer; any exception becomes a CallError, since its own words may quote a key."""
        try:
            return _of_answer(self._engine.generate(request), self._secrets)
        except CallError as error:
            raise _of_call_error(error, self._secrets) from None
        except JSBenchError:
            raise
        except Exception as error:  # noqa: BLE001  an engine's bug, as the runner would have said it
            message = self._secrets.out_of_message(f"{type(error).__name__}: {error}")
            raise CallError(FaultKind.ENGINE, message) from None

    def count_tokens(self, prompt: Prompt) -> int | None:
        """The tokens of the prompt, where the engine can say."""
        return self._engine.count_tokens(prompt) if isinstance(self._engine, TokenCounter) else None

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()


class DiscreetBatches:
    """Hands batches in, and passes on what came of them with the secrets replaced."""

    def __init__(self, batches: Batches, secrets: Secrets) -> None:
        self._batches = batches
        self._secrets = secrets

    @property
    def limits(self) -> BatchLimits:
        """The most that one batch may hold."""
        return self._batches.limits

    def line(self, name: str, request: Request) -> bytes:
        """The request as the batch holds it."""
        return self._batches.line(name, request)

    def upload(self, lines: Sequence[bytes]) -> Callable[[], str]:
        """Upload; what is returned makes the batch, whose id is to be written down."""
        with self._freed():
            make = self._batches.upload(lines)

        def made() -> str:
            with self._freed():
                batch = make()
            if self._secrets.out_of_message(batch) != batch:
                raise CallError(FaultKind.BAD_RESPONSE, "the batch's id holds a secret of this run, and is not kept")
            return batch

        return made

    def state(self, batch: str) -> BatchState:
        """How it is getting on."""
        with self._freed():
            found = self._batches.state(batch)
        left = found.unanswered
        return found if left is None else replace(found, unanswered=_of_failed(left, self._secrets))

    def results(self, batch: str) -> Iterator[Result]:
        """What became of its requests."""
        with self._freed():
            for name, result in self._batches.results(batch):
                if isinstance(result, Failed):
                    yield self._secrets.out_of_message(name), _of_failed(result, self._secrets)
                else:
                    yield self._secrets.out_of_message(name), _of_answer(result, self._secrets)

    def close(self) -> None:
        """Close the provider's client."""
        self._batches.close()

    @contextmanager
    def _freed(self) -> Iterator[None]:
        try:
            yield
        except CallError as error:
            raise _of_call_error(error, self._secrets) from None


def build(factory: EngineFactory, config: EngineConfig, *others: EngineConfig) -> Engine:
    """The factory's engine, which lets no secret out, nor one of the other engines of the run."""
    with _errors_freed(config, *others) as secrets:
        return DiscreetEngine(factory.build(config), secrets)


def build_batches(factory: BatchFactory, config: EngineConfig) -> Batches:
    """The factory's batches, which let no secret out."""
    with _errors_freed(config) as secrets:
        return DiscreetBatches(factory.build_batches(config), secrets)


def describe(factory: EngineFactory, config: EngineConfig) -> EngineInfo:
    """Who the engine will be, as far as that may be written down."""
    with _errors_freed(config) as secrets:
        return _of_info(factory.describe(config), secrets)


def check(factory: EngineFactory, config: EngineConfig) -> None:
    """See that the engine can be built; what is wrong is said without a secret."""
    with _errors_freed(config):
        factory.check(config)


def _of_answer(answer: Completion | Declined, secrets: Secrets) -> Completion | Declined:
    """The same with no secret in it; a text that held one is marked."""
    sent = answer.sent
    if sent is not None and sent.batch is not None:
        sent = replace(sent, batch=secrets.out_of_message(sent.batch))
    match answer:
        case Completion():
            text = secrets.out_of_answer(answer.text)
            return replace(answer, text=text, sent=sent, secret_replaced=answer.secret_replaced or text != answer.text)
        case Declined():
            return replace(answer, message=secrets.out_of_message(answer.message), sent=sent)
        case never:
            assert_never(never)


def _of_failed(failed: Failed, secrets: Secrets) -> Failed:
    return replace(failed, message=secrets.out_of_message(failed.message))


def _of_info(info: EngineInfo, secrets: Secrets) -> EngineInfo:
    provider = info.provider and secrets.out_of_message(info.provider)
    return replace(
        info, model=secrets.out_of_message(info.model), provider=provider, details=secrets.out_of(info.details)
    )


def _of_call_error(error: CallError, secrets: Secrets) -> CallError:
    message = secrets.out_of_message(error.message)
    return CallError(error.kind, message, status=error.status, retry_after=error.retry_after)


@contextmanager
def _errors_freed(config: EngineConfig, *others: EngineConfig) -> Iterator[Secrets]:
    """Inside, what an engine's factory raises is said in one line, and without a secret of that configuration."""
    secrets = find_secrets(config, *others)
    try:
        yield secrets
    except EngineError as error:
        raise type(error)(secrets.out_of_message(str(error))) from None
    except JSBenchError:
        raise
    except Exception as error:  # noqa: BLE001  foreign code
        message = f"engine '{config.name}' cannot be used: {described(error, 10 * LONGEST)}"
        raise EngineError(sentence(secrets.out_of_message(message))) from None
