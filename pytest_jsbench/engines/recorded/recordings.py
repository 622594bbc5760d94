"""Store recorded answers, one file per attempt; find them by request, and describe changes since the recording."""

from __future__ import annotations

import functools
import json
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

from msgspec import Struct, structs

from pytest_jsbench.core.cases import CaseKey, Prompt, Schema
from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.files import FileReader, inside, try_writing, write_atomically
from pytest_jsbench.core.generations import (
    MEDIA_TYPE,
    Completion,
    Declined,
    EngineInfo,
    Request,
    ResponseFormat,
    Sent,
    ServerAnswer,
)
from pytest_jsbench.core.json_values import from_json, to_json, write_always
from pytest_jsbench.core.messages import Message, check_encodable
from pytest_jsbench.core.text import json_text, printable
from pytest_jsbench.core.tool_offers import ToolOffer
from pytest_jsbench.records.setting_differences import RECORDED

_SHOWN = 40
_CHANGES = 2


def prompt_change(before: Prompt, after: Prompt) -> str:
    """Describe the first difference between two prompts; empty if they are equal."""
    if before == after:
        return ""
    for number, (was, now) in enumerate(zip(before.messages, after.messages, strict=False), start=1):
        place = "" if len(after.messages) == 1 else f" of message {number}"
        if was.role != now.role:
            return f"role{place} was {was.role}, is {now.role}"
        if was.shown != now.shown:
            return _text_change(was.shown, now.shown, place)
        if was != now:  # the prompts differ only in an identifier, which is not part of `shown`
            then, since = (json.dumps(turn.to_dict(), ensure_ascii=False) for turn in (was, now))
            return _text_change(then, since, place)
    return f"number of messages was {len(before.messages)}, is {len(after.messages)}"


def json_change(before: object, after: object) -> str:
    """Describe the first differences between two JSON values; empty if they are equal."""
    changes = list(_changes(before, after, "$"))
    shown = ", ".join(changes[:_CHANGES])
    more = len(changes) - _CHANGES
    return f"{shown} and {more} more" if more > 0 else shown


def settings_change(
    then: Mapping[str, Mapping[str, Any]],
    used: Mapping[str, Any],
    now: Mapping[str, Mapping[str, Any]],
    *,
    repeat: int,
) -> str:
    """
    Describe the engine and sampling settings that have changed since a recording; empty if they are equal.

    `then` and `now` contain the settings of the `test` and of the `run`; `used` contains the values that are known for
    settings that were not set at the recording. `repeat` counts from 0 and is added to the seed.
    """
    before = {**used, **settings_of_repeat({**then["run"], **then["test"]}, repeat)}
    after = settings_of_repeat({**now["run"], **now["test"]}, repeat)
    # The replaying engine has another name than the recorded engine, and other options.
    unknown = ("engine", "option ") if now["run"].get("engine") in RECORDED else ()
    changed = [
        f"{name} was {_format_setting(before, name)}, is {_format_setting(after, name)}"
        for name in [*after, *(name for name in then["test"] if name not in after)]
        if not name.startswith(unknown) and not _is_same(before.get(name), after.get(name))
    ]
    return ", ".join(changed)


def settings_of_repeat(settings: Mapping[str, Any], repeat: int) -> Mapping[str, Any]:
    """Return the settings of one attempt, with `repeat` added to the seed."""
    seed = settings.get("seed")
    return {**settings, "seed": seed + repeat} if type(seed) is int else settings


def _format_setting(settings: Mapping[str, Any], name: str) -> str:
    return "not set" if settings.get(name) is None else _short(settings[name])


def _text_change(before: str, after: str, place: str) -> str:
    pairs = enumerate(zip(before, after, strict=False))
    changed = next((at for at, (was, now) in pairs if was != now), min(len(before), len(after)))
    line_start = before.rfind("\n", 0, changed) + 1
    line = before.count("\n", 0, changed) + 1
    start = max(line_start, changed - _SHOWN // 2)
    return f"line {line}{place} was {_quote_line(before, start)}, is {_quote_line(after, start)}"


def _quote_line(text: str, start: int) -> str:
    line = text[start:].partition("\n")[0]
    before = "…" if start and text[start - 1] != "\n" else ""
    return f'"{before}{printable(line, _SHOWN)}"'


def _changes(before: object, after: object, path: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in [*before, *(name for name in after if name not in before)]:
            place = f"{path}.{printable(str(name), _SHOWN)}"
            if name not in after:
                yield f"{place} is gone"
            elif name not in before:
                yield f"{place} is new"
            else:
                yield from _changes(before[name], after[name], place)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (was, now) in enumerate(zip(before, after, strict=True)):
            yield from _changes(was, now, f"{path}[{number}]")
    elif not _is_same(before, after):
        yield f"{path} was {_short(before)}, is {_short(after)}"


def _is_same(before: object, after: object) -> bool:
    """Return whether two JSON scalars are equal: 0 equals 0.0, but not false."""
    kinds = {float if type(value) is int else type(value) for value in (before, after)}
    return len(kinds) == 1 and before == after


def _short(value: object) -> str:
    return printable(json.dumps(value, ensure_ascii=False), _SHOWN)


#: Format version of a recording file.
RECORDING_VERSION = 1
#: Fields of an answer that contain texts.
_TEXTS = ("text", "reasoning", "beside")
#: Fields of a server's body that differ even for equal answers; `usage` is excluded because it is compared after
#: parsing.
_STAMPS = frozenset({"id", "created", "timings", "x_groq", "usage"})


class _Sampled(TypedDict, total=False):
    max_tokens: int
    temperature: int | float
    seed: int
    tool_choice: str


class _Settings(TypedDict):
    test: Mapping[str, Any]
    run: Mapping[str, Any]


class _Turn(TypedDict):
    role: str
    content: list[str]
    tool_calls: NotRequired[list[dict[str, Any]]]
    tool_call_id: NotRequired[str]


class _Server(Struct, frozen=True, kw_only=True):
    path: str
    status: int
    content_type: str
    body: list[str]


class RecordingFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Contents of a recording's file; the text of a message or an answer is a list of lines."""

    recording: int = write_always(RECORDING_VERSION)
    task: str
    id: str
    repeat: int
    engine: str
    model: str
    response_format: ResponseFormat
    streaming: bool
    #: Sampling parameters of the recorded call; unknown parameters are absent.
    params: _Sampled = write_always(_Sampled())
    #: Engine and sampling settings of the test and of the run.
    said: _Settings
    messages: list[_Turn]
    #: The answer in the form of a record, with the declared tools.
    answer: Mapping[str, Any]
    server: _Server | None = None
    #: Schema that was sent to the engine.
    schema: Schema
    #: Tools of the case; absent if it offers none.
    offer: ToolOffer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A recorded attempt."""

    file: RecordingFile
    key: CaseKey
    prompt: Prompt
    answer: Completion | Declined

    @classmethod
    def of(cls, request: Request, schema: Schema, answer: Completion | Declined, info: EngineInfo) -> Recording:
        """Create the recording of one call."""
        values = to_json(structs.replace(answer, server=None))
        sent = values.pop("sent")
        values = {name: value for name, value in values.items() if value is not None}
        values |= {"tools": sent["tools"]} if sent and "tools" in sent else {}
        values |= {name: _figures(values[name]) for name in ("timing", "usage") if name in values}
        if isinstance(answer, Completion):
            values |= {name: values[name].split("\n") for name in _TEXTS if name in values}
        server = answer.server
        params = {name: value for name, value in request.params.sampling.items() if value is not None}
        turns = [{**turn.to_dict(), "content": turn.content.split("\n")} for turn in request.prompt.messages]
        file = RecordingFile(
            task=request.key.task,
            id=request.key.id,
            repeat=request.repeat,
            engine=info.engine,
            model=request.origin.model or info.model,
            response_format=info.response_format,
            streaming=info.streaming,
            params=cast("_Sampled", params),
            said=cast("_Settings", request.origin.settings),
            messages=cast("list[_Turn]", turns),
            answer=values,
            server=None if server is None else _Server(**{**asdict(server), "body": server.body.split("\n")}),
            schema=schema,
            offer=request.offer,
        )
        return cls(file=file, key=request.key, prompt=request.prompt, answer=answer)

    @classmethod
    def from_dict(cls, data: object) -> Recording:
        """Parse the contents of a file; raise RecordError, which states what is missing or wrong."""
        try:
            file = from_json(RecordingFile, data)
            answer: dict[str, Any] = dict(file.answer)
            if answer.get("type") == "completion":
                answer |= {name: "\n".join(from_json(list[str], answer[name])) for name in _TEXTS if name in answer}
            sent = None
            if (tools := answer.pop("tools", None)) is not None:
                sent = {"response_format": file.response_format, "schema": None, "tools": tools}
            generation = from_json(Completion | Declined, {"timing": None, "sent": sent, "usage": {}, **answer})
            turns = ({**turn, "content": "\n".join(turn["content"])} for turn in file.messages)
            return cls(
                file=file,
                key=CaseKey(task=file.task, id=file.id),
                prompt=Prompt(messages=tuple(Message.of(turn, exact=False) for turn in turns)),
                answer=structs.replace(generation, server=file.server and _server(file.server)),
            )
        except ValueError as error:
            raise RecordError(f"not a recording of pytest-jsbench: {error}") from error

    @property
    def repeat(self) -> int:
        """Number of the attempt within its case, from 0."""
        return self.file.repeat

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON values for the recording's file."""
        values: dict[str, Any] = to_json(self.file)
        return values

    def describe_changes(self, request: Request) -> str:
        """Describe how the prompt and the schema differ from the recording; empty if both are equal."""
        changes = {
            "prompt": prompt_change(self.prompt, request.prompt),
            "schema": json_change(self.file.schema, request.schema),
            "offer of tools": json_change(to_json(self.file.offer), to_json(request.offer)),
        }
        return "; ".join(
            f"the {name} differs from the recording: {change}" for name, change in changes.items() if change
        )

    def describe_changed_settings(self, request: Request) -> str:
        """Describe the settings that differ from the recording; empty if they are equal."""
        file = self.file
        then = cast("Mapping[str, Mapping[str, Any]]", file.said)
        used = {"engine": file.engine, "model": file.model, "response_format": file.response_format.value}
        return settings_change(then, {**used, **file.params}, request.origin.settings, repeat=request.repeat)

    def answer_to(self, request: Request) -> Completion | Declined:
        """Return the recorded answer, with its sampling parameters and the settings that have changed since."""
        params: dict[str, Any] = {"temperature": None, "seed": None, **self.file.params}
        sent = Sent(
            response_format=self.file.response_format,
            params=structs.replace(request.params, **params),
            asked_otherwise=self.describe_changed_settings(request) or None,
            tools=None if self.answer.sent is None else self.answer.sent.tools,
        )
        return structs.replace(self.answer, sent=sent)

    def is_same_call(self, request: Request) -> bool:
        """Return whether the request repeats the recorded API call: the same API and the same settings of the test."""
        exchange = request.origin.exchange
        server = self.answer.server
        if exchange is None or server is None:
            return False
        return server.path == exchange.path and self.file.said["test"] == request.origin.test

    def has_same_content(self, other: Recording) -> bool:
        """Return whether two recordings are equal except for values that change each time, such as timings."""
        return self._stable_parts() == other._stable_parts()

    def _stable_parts(self) -> dict[str, Any]:
        data = self.to_dict()
        if self.answer.server is not None:
            data["server"] = {**data["server"], "body": _stable_parts(self.answer.server)}
        return {**data, "answer": {name: value for name, value in data["answer"].items() if name != "timing"}}


#: Maximum number of cached recordings; the cache exists because each request is compared with all recordings of its
#: test.
_MOST_CACHED = 1000


class Recordings:
    """A directory of recordings, with a subdirectory per task and a file per attempt."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read_file = functools.lru_cache(maxsize=_MOST_CACHED)(self._read_uncached)

    def path(self, key: CaseKey, repeat: int) -> Path:
        """
        Return the path of an attempt's recording; `~` separates the parts, because identifiers never contain this
        character.
        """
        number = f"~{repeat + 1}" if repeat else ""
        return self.folder / key.task / f"{key.id}{number}.json"

    def paths(self) -> list[Path]:
        """Return the paths of all recordings, sorted by name."""
        return sorted(self.folder.glob("*/*.json"))

    def read(self, path: Path) -> Recording:
        """Read a file; raise RecordError if the file is not a recording."""
        try:
            stat = path.stat()
        except OSError:
            return self._read_uncached(path)
        return self._read_file(path, stat.st_ino, stat.st_mtime_ns, stat.st_size)

    def _read_uncached(self, path: Path, *_: int) -> Recording:
        data = FileReader(root=self.folder, error=RecordError).read_json(path)
        try:
            return Recording.from_dict(data)
        except RecordError as error:
            raise RecordError(f"{path}: {error}") from error

    def try_read(self, path: Path) -> Recording | None:
        """Read a recording; return None if the file is not a recording or has the wrong name."""
        try:
            recording = self.read(path)
        except RecordError:
            return None
        return recording if self.path(recording.key, recording.repeat) == path else None

    def find(self, request: Request, *, among: Container[Path] | None = None) -> Recording | None:
        """
        Find the recording of a request, by prompt, schema and test, or else by the request's key; the n-th of equal
        requests gets the n-th recording.

        The parameters of a test, such as an expected value, are part of the test's name even if the request does not
        contain them. If there is no recording of the test itself, recordings of the same function with other parameters
        count. Raise RecordError if a recording cannot be read.
        """
        if (first := request.origin.first) is not None:
            for read_candidates in (self.read_of_test, self._read_of_function):
                recorded = read_candidates(first, request.repeat)
                if among is not None:
                    recorded = [each for each in recorded if self.path(each.key, each.repeat) in among]
                equal, before = find_equal(request, recorded)
                if before < len(equal):
                    return equal[before]
                if equal:  # the request was made more often than it was recorded
                    return None
        path = self.path(request.key, request.repeat)
        return self.read(path) if path.exists() else None

    def read_of_test(self, first: CaseKey, repeat: int) -> list[Recording]:
        """Read the recordings of one repeat of a test, in order; `first` is the key of the test's first request."""
        number = f"~{repeat + 1}" if repeat else ""
        paths = [self.path(first, repeat), *(self.folder / first.task).glob(f"{first.id}@*{number}.json")]
        recorded = [self.read(path) for path in paths if path.is_file() and (repeat or "~" not in path.name)]
        same_test = [each for each in recorded if each.repeat == repeat and each.key.is_of_test(first)]
        return sorted(same_test, key=lambda each: each.key.number)

    def _read_of_function(self, first: CaseKey, repeat: int) -> list[Recording]:
        """Read the recordings of a test function with any parameters, sorted by parameters and number."""
        recorded = map(self.try_read, (self.folder / first.task).glob(f"{first.function[1]}*.json"))
        same_function = [each for each in recorded if each is not None and each.key.function == first.function]
        same_repeat = [each for each in same_function if each.repeat == repeat]
        return sorted(same_repeat, key=lambda each: (each.key.of_first, each.key.number))

    def write(self, recording: Recording) -> None:
        """Write the recording unless an equal recording exists, so that a file changes only if the answer changes."""
        path = self.path(recording.key, recording.repeat)
        before = None
        with suppress(RecordError):
            before = self.read(path) if path.exists() else None
        self._refuse_link(path.parent)
        if before is not None and before.has_same_content(recording):
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordError(f"cannot write {path}: {error.strerror or error}") from error
        # shared, because recordings are committed to repositories
        write_atomically(path, json_text(recording.to_dict(), indent=2) + "\n", shared=True)

    def require_writable(self) -> None:
        """Create the directory and check, before paid calls, that it is writable; raise RecordError if it is not."""
        path = self.folder
        try:
            path.mkdir(parents=True, exist_ok=True)
            for path in (self.folder, *(entry for entry in self.folder.iterdir() if not entry.is_file())):
                self._refuse_link(path)
                try_writing(path)
        except OSError as error:
            message = f"cannot write to --jsbench-record={path}: {error.strerror}; choose a writable directory"
            raise RecordError(message, found=path, option="record") from error

    def _refuse_link(self, path: Path) -> None:
        if not inside(self.folder, path):
            message = f"cannot write to {path}: a symbolic link leads out of {self.folder}; remove the link"
            raise RecordError(message, found=path, option="record")


def _stable_parts(server: ServerAnswer) -> list[object]:
    """
    Return the parts of a server's body that do not change if the answer is the same.

    Identifiers of Responses and of tool calls are kept, because an application sends them back in later requests.
    """
    if server.path == "/responses":
        return [server.body]
    return [_without_stamps(line.removeprefix("data:")) for line in server.body.split("\n")]


def _without_stamps(text: str) -> object:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(value, dict):
        return value
    stable = {name: part for name, part in value.items() if name not in _STAMPS}
    # the first event of a stream of Messages
    if isinstance(message := value.get("message"), dict):
        stable["message"] = {name: part for name, part in message.items() if name not in _STAMPS}
    return stable


def find_equal(request: Request, recorded: list[Recording]) -> tuple[list[Recording], int]:
    """
    Return the recordings of equal requests, in order, and the number of equal requests before this request.

    An application may send the same request to two models, or both streamed and unstreamed, at the same time. If there
    are recordings of exactly this API call, only these recordings count.
    """
    equal = [each for each in recorded if each.prompt == request.prompt and not each.describe_changes(request)]
    same = [each for each in equal if each.is_same_call(request)]
    return (same, request.origin.same_before) if same else (equal, request.origin.equal_before)


def _figures(figures: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {name: value for name, value in figures.items() if value is not None}
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in numbers.items()}


def _server(server: _Server) -> ServerAnswer:
    """Parse a server's answer; raise ValueError for a redirect, or a content type that could inject a header."""
    body = "\n".join(server.body)
    status = server.status
    kind = server.content_type
    if not (200 <= status < 300 or 400 <= status < 600):
        raise ValueError(f"server.status is {status}; expected 200 to 299, or 400 to 599")
    if kind and not MEDIA_TYPE.fullmatch(kind):
        raise ValueError(f"server.content_type is {printable(kind, _SHOWN)}; expected a media type")
    check_encodable(body, "server.body")
    return ServerAnswer(path=server.path, status=status, content_type=kind, body=body)
