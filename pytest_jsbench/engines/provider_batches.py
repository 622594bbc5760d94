"""What the batches of all providers have in common: how they are asked, and how results are read."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import (
    CallError,
    Completion,
    Declined,
    Failed,
    FaultKind,
    ResponseFormat,
    Sent,
)
from pytest_jsbench.core.secrets import one_line
from pytest_jsbench.core.timing import Stopwatch
from pytest_jsbench.engines.batch_api import Result, read_lines
from pytest_jsbench.engines.http.answer_builder import as_object, enclosed
from pytest_jsbench.engines.http.calls import Deadline, parse_json, reading, refusal, settle
from pytest_jsbench.engines.http.faults import EnclosedError, ProviderError, classify_error, explain_error, retry_after
from pytest_jsbench.engines.provider import ProviderFactory, ProviderSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import tenacity

    from pytest_jsbench.engines.base import EngineConfig
    from pytest_jsbench.engines.batch_api import Batches
    from pytest_jsbench.engines.http.client import Response
    from pytest_jsbench.engines.requirements import Key

#: tries after the first to ask how a batch is getting on, or to fetch its results
RETRIES = 4
#: seconds for one such request
TIMEOUT = 120.0
#: seconds for a file of requests or of results
LONG_TIMEOUT = 3600.0
#: bytes
_SMALL = 1_000_000
#: seconds before the first try after one that failed, where the server does not say
_WAIT = 0.5
#: a provider that answers so may answer otherwise a moment later
_PASSING = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
#: what holds for a whole batch is no schema's fault
_NO_SCHEMA = Sent(response_format=ResponseFormat.TEXT)


class ProviderBatches:
    """
    What the batches of all providers have in common: how they are asked, and how results are read.

    One is made for one phase of a run (hand in, or wait and read) and closed at its end; one thread calls it. A class
    of a provider says how one line of results is read.
    """

    #: the field of a line of results that holds the request's name
    name_field = "custom_id"

    def __init__(self, settings: ProviderSettings, *, key: Key) -> None:
        self._settings = replace(settings, streaming=False)
        self._client = settings.new_client(key)
        self._key = key

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def read_result(self, line: Mapping[str, Any], sent: Sent) -> Completion | Declined:
        """Read one line of the results; CallError for a request that was not made or not answered."""
        raise NotImplementedError

    def ask(self, path: str, data: bytes | None = None, *, once: bool = False, **headers: str) -> Mapping[str, Any]:
        """
        Ask the provider, and return the object that it answers with.

        What passes is asked again, a few times; what is asked `once` is not: it is paid for.
        """
        _, body = self.send(path, data, once=once, **headers)
        with reading():
            return as_object(parse_json(body.decode("utf-8-sig")))

    def send(
        self, path: str, data: bytes | None, *, once: bool = False, **headers: str
    ) -> tuple[Mapping[str, str], bytes]:
        """Send bytes, where there are any, and return the headers and the body of the answer."""
        import tenacity

        trying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(1 if once else RETRIES + 1),
            retry=tenacity.retry_if_exception(_passes),
            wait=_wait,
            reraise=True,
        )
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with self.explained():
            return trying(self._sent, path, data, once=once, headers=named)

    def _sent(
        self, path: str, data: bytes | None, *, once: bool, headers: Mapping[str, str]
    ) -> tuple[Mapping[str, str], bytes]:
        # a file of requests is large, and whatever else is asked is small
        deadline = Deadline(TIMEOUT if data is None or len(data) < _SMALL else LONG_TIMEOUT)
        with closing(self._open(path, data, deadline=deadline, once=once, headers=headers)) as response:
            return response.headers, response.read()

    def _open(self, path: str, data: bytes | None, *, deadline: Deadline, **options: Any) -> Response:
        headers = {**self._settings.extra_headers, **options.pop("headers", {})}
        method = "GET" if data is None else "POST"
        response = self._client.request(method, path, data, deadline=deadline, headers=headers, **options)
        if response.is_error:
            with closing(response):
                raise refusal(response.status, response.headers, response.read())
        return response

    def read_results(self, path: str, sent: Sent) -> Iterator[Result]:
        """Read a file of results, in lines of JSON."""
        with self.explained(), closing(self._open(path, None, deadline=Deadline(LONG_TIMEOUT))) as response:
            for line in read_lines(response.iter_bytes(bounded=False)):
                yield str(line.get(self.name_field)), self._settled(line, sent)

    def read_answer(self, body: object, sent: Sent) -> Completion | Declined:
        """Read the answer that a line of the results holds."""
        with reading():
            return self._settings.api.read_whole(enclosed(body), Stopwatch()).to_generation(sent)

    def refused(
        self, error: ProviderError, kind: FaultKind, message: str, *, where: str = "", more: str = ""
    ) -> Failed:
        """The failure of each request of a batch that the provider refused, of the kind that its words say."""
        outcome = classify_error(error, sent=_NO_SCHEMA, secret=self._key.value)
        kind = outcome.kind if isinstance(outcome, CallError) else kind
        words = one_line(f"{error.message}{where}", secret=self._key.value)
        return Failed(kind=kind, message=f"{message}: {words}{more}")

    def classify(self, error: ProviderError, sent: Sent) -> Completion | Declined:
        """A provider's word against one request: a failed generation, Declined, or raised as a CallError."""
        outcome = classify_error(error, sent=sent, secret=self._key.value)
        if isinstance(outcome, CallError):
            raise outcome
        return outcome

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Inside, a refusal becomes a CallError."""
        try:
            yield
        except (EnclosedError, ValueError) as error:
            outcome = self._explain(error, _NO_SCHEMA)
            if isinstance(outcome, Declined):
                outcome = CallError(FaultKind.BAD_REQUEST, outcome.message)
            if isinstance(outcome, Completion):
                outcome = CallError(FaultKind.BAD_RESPONSE, "the server answered a question about a batch with a text")
            raise outcome from None

    def _settled(self, line: Mapping[str, Any], sent: Sent) -> Completion | Declined | Failed:
        """One request's result, as a call of its own would have ended, but without times: nobody has measured any."""
        try:
            generation = settle(
                lambda: self.read_result(line, sent),
                lambda error: self._explain(error, sent),
                deadline=Deadline(TIMEOUT),
            )
        except CallError as error:
            return Failed(kind=error.kind, message=error.message, status=error.status)
        return replace(generation, timing=None)

    def _explain(self, error: Exception, sent: Sent) -> Completion | Declined | CallError:
        settings = self._settings
        return explain_error(error, sent, address=settings.base_url, model=settings.model, secret=self._key.value)


def _passes(error: BaseException) -> bool:
    if isinstance(error, EnclosedError):
        return error.status in _PASSING
    return isinstance(error, CallError) and error.kind in (FaultKind.CONNECTION, FaultKind.TIMEOUT)


def _wait(state: tenacity.RetryCallState) -> float:
    """As long as the server says, or twice as long as before."""
    error = state.outcome.exception() if state.outcome else None
    seconds = retry_after(error.headers or {}) if isinstance(error, EnclosedError) else None
    return _WAIT * 2 ** (state.attempt_number - 1) if seconds is None else min(seconds, TIMEOUT)


class ProviderBatchFactory(ProviderFactory):
    """Builds the engine of a provider that has a batch API, and what hands its batches in."""

    def __init__(self, *args: Any, batches: str, **options: Any) -> None:
        super().__init__(*args, **options)
        #: `module:Class`, imported when batches are handed in
        self._batches = batches

    def build_batches(self, config: EngineConfig) -> Batches:
        """What hands batches in."""
        self.check(config)
        module, _, name = self._batches.partition(":")
        settings = self.settings.from_config(config)
        batches: Batches = getattr(import_module(module), name)(settings, key=settings.find_key(config))
        return batches
