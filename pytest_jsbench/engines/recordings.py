"""Recordings: what an engine said to one prompt and schema, one readable file each, to be kept beside the tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from pytest_jsbench.cases import CaseKey, Schema
from pytest_jsbench.core.files import FileReader, inside, write_atomically
from pytest_jsbench.core.text import json_text
from pytest_jsbench.errors import RecordError
from pytest_jsbench.formats import GENERATION
from pytest_jsbench.generations import Completion, Declined, EngineInfo, Request, ResponseFormat
from pytest_jsbench.jsonvalues import expect, generation_from_dict, generation_to_dict
from pytest_jsbench.prompts import Message, Prompt

if TYPE_CHECKING:
    from collections.abc import Iterator

#: the version of a recording's file
RECORDING_VERSION = 1


_PARAMS = ("max_tokens", "temperature", "seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One attempt, as far as it can be said again."""

    key: CaseKey
    repeat: int
    #: who answered: engine, model, response format
    engine: Mapping[str, Any]
    #: how it was sampled, as far as it was said; for people
    params: Mapping[str, Any] = field(default_factory=dict)
    prompt: Prompt
    #: as the engine was asked for it
    schema: Schema
    answer: Completion | Declined
    #: what was said of engine and sampling, by the `test` and by the `run`; None: 0.1.0 did not keep it
    said: Mapping[str, Mapping[str, Any]] | None = None

    @classmethod
    def of(cls, request: Request, schema: Schema, answer: Completion | Declined, info: EngineInfo) -> Recording:
        """The recording of one call."""
        params = {name: getattr(request.params, name) for name in _PARAMS}
        return cls(
            key=request.key,
            repeat=request.repeat,
            engine={
                "engine": info.engine,
                "model": info.model,
                "response_format": info.response_format.value,
                "streaming": info.streaming,
            },
            params={name: value for name, value in params.items() if value is not None},
            prompt=request.prompt,
            schema=schema,
            answer=answer,
            said=request.origin.said,
        )

    def to_dict(self) -> dict[str, Any]:
        """The recording as JSON values, every text a list of its lines."""
        answer = generation_to_dict(self.answer)
        answer = {name: value for name, value in answer.items() if name != "sent" and value is not None}
        for part in ("timing", "usage"):
            known = {name: _rounded(value) for name, value in answer.get(part, {}).items() if value is not None}
            answer |= {part: known} if part in answer else {}
        if isinstance(self.answer, Completion):
            answer["text"] = self.answer.text.split("\n")
        messages = [{"role": one.role, "content": one.content.split("\n")} for one in self.prompt.messages]
        return {
            "recording": RECORDING_VERSION,
            "task": self.key.task,
            "id": self.key.id,
            "repeat": self.repeat,
            **self.engine,
            "params": dict(self.params),
            **({} if self.said is None else {"said": {name: dict(part) for name, part in self.said.items()}}),
            "messages": messages,
            "answer": answer,
            "schema": self.schema,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Recording:
        """The inverse of `to_dict`; RecordError says what is missing."""
        try:
            answer = dict(expect(data["answer"], "answer", Mapping))
            if answer["type"] == "completion":
                answer["text"] = _joined(answer["text"], "answer.text")
            answer = {"timing": None, "sent": None, **answer, "usage": dict(answer.get("usage", {}))}
            GENERATION.check(answer)
            generation = generation_from_dict(answer)
            if not isinstance(generation, Completion | Declined):
                raise TypeError("a broken call is no answer")
            said = {name: expect(data[name], name, str) for name in ("engine", "model", "response_format")}
            response_format = ResponseFormat(said["response_format"]).value
            streaming = expect(data["streaming"], "streaming", bool)
            return cls(
                key=CaseKey(task=expect(data["task"], "task", str), id=expect(data["id"], "id", str)),
                repeat=expect(data["repeat"], "repeat", int),
                engine={**said, "response_format": response_format, "streaming": streaming},
                params={
                    name: expect(value, name, int, float)
                    for name, value in expect(data.get("params", {}), "params", Mapping).items()
                    if name in _PARAMS
                },
                prompt=Prompt(messages=tuple(map(_message, expect(data["messages"], "messages", list)))),
                schema=expect(data["schema"], "schema", Mapping, bool),
                answer=generation,
                said=None
                if (asked := expect(data.get("said"), "said", Mapping, NoneType)) is None
                else {name: dict(expect(asked[name], name, Mapping)) for name in ("test", "run")},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"not a recording of pytest-jsbench: {type(error).__name__}: {error}"
            raise RecordError(message) from error

    def to_compare(self) -> dict[str, Any]:
        """All but how long it took, which is another every time, and what its settings were before they were said."""
        data = {name: value for name, value in self.to_dict().items() if name != "said"}
        return {**data, "answer": {name: value for name, value in data["answer"].items() if name != "timing"}}


class Recordings:
    """A folder of recordings: a folder per task, a file per attempt."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: CaseKey, repeat: int) -> Path:
        """Where an attempt is recorded; `~` is in no id."""
        number = f"~{repeat + 1}" if repeat else ""
        return self.folder / key.task / f"{key.id}{number}.json"

    def read(self, key: CaseKey, repeat: int) -> Recording | None:
        """The recording of an attempt; None where there is none, RecordError where it cannot be read."""
        path = self.path(key, repeat)
        return self._read(path) if path.exists() else None

    def write(self, recording: Recording) -> None:
        """Write the recording, unless the same was said before: a file changes when an answer does."""
        path = self.path(recording.key, recording.repeat)
        try:
            before = self._read(path) if path.exists() else None
        except RecordError:
            before = None
        if not inside(self.folder, path.parent):
            message = f"cannot write {path}: it leads out of {self.folder}, and no answer is recorded through a link"
            raise RecordError(message)
        if before is not None and before.to_compare() == recording.to_compare() and _same_settings(before, recording):
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"cannot write {path}: {error.strerror or error}"
            raise RecordError(message) from error
        # it is there to be committed
        write_atomically(path, json_text(recording.to_dict(), indent=2) + "\n", shared=True)

    def of_test(self, first: CaseKey, repeat: int) -> list[Recording]:
        """What was recorded of one run of a test, by the first of its questions, in their order."""
        number = f"~{repeat + 1}" if repeat else ""
        paths = [self.path(first, repeat), *(self.folder / first.task).glob(f"{first.id}@*{number}.json")]
        found = [self._read(path) for path in paths if path.is_file() and (repeat or "~" not in path.name)]
        found = [one for one in found if one.repeat == repeat and one.key.is_of_test(first)]
        return sorted(found, key=lambda one: one.key.number)

    def all(self) -> Iterator[Recording]:
        """Every recording in the folder, in the order of their names."""
        for path in sorted(self.folder.glob("*/*.json")):
            yield self._read(path)

    def _read(self, path: Path) -> Recording:
        data = FileReader(root=self.folder, error=RecordError).read_json(path)
        try:
            return Recording.from_dict(expect(data, "it", Mapping))
        except (TypeError, RecordError) as error:
            message = f"{path}: {error}"
            raise RecordError(message) from error


def _message(data: object) -> Message:
    said = expect(data, "a message", Mapping)
    return Message(role=expect(said["role"], "role", str), content=_joined(said["content"], "content"))


def _joined(lines: object, name: str) -> str:
    """The text of which a recording holds the lines."""
    return "\n".join(expect(line, f"a line of {name}", str) for line in expect(lines, name, list))


def _same_settings(before: Recording, now: Recording) -> bool:
    """Whether the same was said of engine and sampling; what 0.1.0 wrote stands as long as the answer does."""
    return before.said is None or before.said == now.said


def _rounded(value: object) -> object:
    return round(value, 3) if isinstance(value, float) else value
