"""Mask secrets in everything that pytest prints or sends: reports, log records, warnings and usage errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.engine_secrets import find_secrets, mask_generation
from pytest_jsbench.plugin.pytest_options import value_of
from pytest_jsbench.settings.call_options import Ask

if TYPE_CHECKING:
    import warnings

    from pytest_jsbench.core.generations import Completion
    from pytest_jsbench.core.secret_masking import Secrets

R = TypeVar("R", pytest.TestReport, pytest.CollectReport)

_FORMATTER = logging.Formatter()
#: Packages of SDKs and HTTP clients that log requests and responses.
_LOGGERS = ("openai", "anthropic", "google_genai", "httpx", "httpx2", "httpcore", "httpcore2", "urllib3")


class Secrecy:
    """
    Masks the engines' secrets in pytest's output.

    `activation` creates one object in every process, before any other object. pytest calls its hooks in the main
    thread. The object also installs a factory that masks the log records of all threads; pytest's cleanup removes the
    factory at the end of the session.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._secrets: list[Secrets] = []
        self._engines: list[EngineConfig] = []
        values: dict[str, Any] = dict.fromkeys(("base_url", "api_key_env", "engine_option"))
        for name in values:
            with suppress(pytest.UsageError):  # an invalid option is reported later
                values[name] = value_of(config, name)
        self.add_from_options(Ask(values))
        make = logging.getLogRecordFactory()
        # SDKs log URLs and headers at level DEBUG, to any handler that the user or pytest has installed
        logging.setLogRecordFactory(self._log_records(make))
        config.add_cleanup(lambda: logging.setLogRecordFactory(make))

    def add_from_options(self, *asks: Ask) -> None:
        """Add the secrets in the options of each variant; the engine of a variant need not exist."""
        self.add(
            *(
                EngineConfig(
                    name="",
                    base_url=ask.base_url,
                    api_key_env=ask.api_key_env,
                    options=dict(ask.engine_option),
                )
                for ask in asks
            )
        )

    def add(self, *engines: EngineConfig) -> None:
        """Add the secrets in the configurations of these engines, unless they are known; called before any call."""
        new = [engine for engine in engines if engine not in self._engines]
        if new:
            self._engines += new
            self._secrets.append(find_secrets(*new))

    @contextmanager
    def usage_errors(self) -> Iterator[None]:
        """Return a context that converts user-facing errors to pytest.UsageError, with known secrets masked."""
        try:
            yield
        except (JSBenchError, pytest.UsageError) as error:
            # mask the original error too: pytest prints it in a traceback
            for secrets in self._secrets:
                error.args = tuple(secrets.mask(error.args))
            raise pytest.UsageError(self.mask(str(error))) from error

    def mask(self, text: str) -> str:
        """Return the text with the known secrets masked."""
        for secrets in self._secrets:
            text = secrets.mask_message(text)
        return text

    def mask_answer(self, answer: Completion) -> Completion:
        """Return the answer with the known secrets masked; an answer that contained a secret is marked."""
        for secrets in self._secrets:
            answer = mask_generation(answer, secrets)
        return answer

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Mask the report of a test: traceback (which may show local variables of an SDK) and captured output."""
        report = yield
        shown = "\n".join(_shown_texts(report))
        if not any(secrets.may_change(shown) for secrets in self._secrets):
            return report
        self._cleaned(report)
        report.user_properties = [(self.mask(name), self._shown(value)) for name, value in report.user_properties]
        if hasattr(report, "wasxfail"):
            report.wasxfail = self.mask(report.wasxfail)
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Mask the report of a collection, such as the traceback of a module that cannot be imported."""
        return self._cleaned((yield))

    def _cleaned(self, report: R) -> R:
        report.sections = [(name, self.mask(text)) for name, text in report.sections]
        shown: Any = report.longrepr or ""
        if (clean := self._shown(shown)) is not shown:
            # the report of a skipped test is a tuple of path, line and reason
            report.longrepr = (*shown[:2], clean) if isinstance(shown, tuple) else clean
        return report

    def _shown(self, value: object) -> Any:
        """Return the value unchanged, or as masked text if its text contains a secret."""
        text = str(value)
        clean = self.mask(text)
        return value if clean == text else clean

    @pytest.hookimpl(tryfirst=True)
    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage) -> None:
        """Mask the text of a warning: warnings of SDKs may quote secret values."""
        message = warning_message.message
        if (clean := self._shown(message)) is not message:
            warning_message.message = warning_message.category(clean)

    def _log_records(self, make: Callable[..., logging.LogRecord]) -> Callable[..., logging.LogRecord]:
        def clean_record(*args: Any, **named: Any) -> logging.LogRecord:
            record = make(*args, **named)
            try:
                message = record.getMessage()
            except Exception:  # noqa: BLE001  its handler reports the error
                return record
            if (clean := self.mask(message)) != message:
                record.msg, record.args = clean, ()
            if record.exc_info and record.exc_info[0] is not None:
                record.exc_text = self.mask(_FORMATTER.formatException(record.exc_info))
            return record

        return clean_record


def _shown_texts(report: pytest.TestReport) -> Iterator[str]:
    """Yield all texts of a report that pytest prints, sends or writes to files."""
    for name, text in report.sections:
        yield name
        yield text
    if report.longrepr:
        yield str(report.longrepr)
    for name, value in report.user_properties:
        yield name
        yield str(value)
    yield getattr(report, "wasxfail", "")


def silence_loggers(config: pytest.Config) -> None:
    """Set the loggers of SDKs and HTTP clients to warnings and errors for this session."""
    for logger in map(logging.getLogger, _LOGGERS):
        config.add_cleanup(partial(logger.setLevel, logger.level))
        logger.setLevel(logging.WARNING)
