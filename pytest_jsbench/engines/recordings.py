"""Recordings: what an engine said to one prompt and schema, one readable file each, to be kept beside the tests."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.cases import CaseKey, Schema
from pytest_jsbench.core.files import write_atomically
from pytest_jsbench.core.text import json_text
from pytest_jsbench.errors import RecordError
from pytest_jsbench.generations import Completion, Declined, EngineInfo, Request, ResponseFormat
from pytest_jsbench.jsonvalues import generation_from_dict, generation_to_dict
from pytest_jsbench.prompts import Message, Prompt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: the version of a recording's file
RECORDING_VERSION = 1


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

    @classmethod
    def of(cls, request: Request, schema: Schema, answer: Completion | Declined, info: EngineInfo) -> Recording:
        """The recording of one call."""
        params = {name: getattr(request.params, name) for name in ("max_tokens", "temperature", "seed")}
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
            "messages": messages,
            "answer": answer,
            "schema": self.schema,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Recording:
        """The inverse of `to_dict`; RecordError says what is missing."""
        try:
            answer = dict(data["answer"])
            if answer["type"] == "completion":
                answer["text"] = "\n".join(answer["text"])
            answer = {"timing": None, "sent": None, **answer, "usage": dict(answer.get("usage", {}))}
            generation = generation_from_dict(answer)
            if not isinstance(generation, Completion | Declined):
                raise TypeError("a broken call is no answer")
            return cls(
                key=CaseKey(task=data["task"], id=data["id"]),
                repeat=data["repeat"],
                engine={
                    "engine": str(data["engine"]),
                    "model": str(data["model"]),
                    "response_format": ResponseFormat(data["response_format"]).value,
                    "streaming": bool(data["streaming"]),
                },
                params=dict(data.get("params", {})),
                prompt=Prompt(
                    messages=tuple(
                        Message(role=one["role"], content="\n".join(one["content"])) for one in data["messages"]
                    )
                ),
                schema=data["schema"],
                answer=generation,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"not a recording of pytest-jsbench: {type(error).__name__}: {error}"
            raise RecordError(message) from error

    def said(self) -> dict[str, Any]:
        """All but how long it took, which is another every time."""
        data = self.to_dict()
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
        return _read(path) if path.exists() else None

    def write(self, recording: Recording) -> None:
        """Write the recording, unless the same was said before: a file changes when an answer does."""
        path = self.path(recording.key, recording.repeat)
        try:
            before = _read(path) if path.exists() else None
        except RecordError:
            before = None
        if before is not None and before.said() == recording.said():
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"cannot write {path}: {error.strerror or error}"
            raise RecordError(message) from error
        # it is there to be committed
        write_atomically(path, json_text(recording.to_dict(), indent=2) + "\n", shared=True)

    def all(self) -> Iterator[Recording]:
        """Every recording in the folder, in the order of their names."""
        for path in sorted(self.folder.glob("*/*.json")):
            yield _read(path)


def _read(path: Path) -> Recording:
    try:
        data = json.loads(path.read_text("utf-8"))
        if not isinstance(data, dict):
            raise RecordError("expected an object")
        return Recording.from_dict(data)
    except OSError as error:
        message = f"cannot read {path}: {error.strerror or error}"
        raise RecordError(message) from error
    except (ValueError, RecursionError, RecordError) as error:
        message = f"{path}: {error}"
        raise RecordError(message) from error


def _rounded(value: object) -> object:
    return round(value, 3) if isinstance(value, float) else value
