"""Resumption: what an earlier run has already been answered, so that it need not be asked, and paid for, again."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_jsbench import journal
from pytest_jsbench.cases import BrokenCase, Case, CaseKey, digest
from pytest_jsbench.errors import ResumeError
from pytest_jsbench.generations import Failed
from pytest_jsbench.identity import difference
from pytest_jsbench.prompts import PromptTemplate
from pytest_jsbench.records import Attempt, Record, RunMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """What a run takes over from an earlier one."""

    source: Path
    #: the run's own folder
    folder: Path
    #: the earlier run; None where it was killed before it had anything to write
    metadata: RunMetadata | None
    records: tuple[Record, ...]
    #: answers to a project's own tests, each taken over if its test asks the same
    own: tuple[Record, ...] = ()
    #: records that are of no attempt of this run: another schema, another prompt, or no case of it
    left_out: int
    #: calls that broke, and are made again
    broken: int
    warnings: tuple[str, ...]


class Recorded:
    """The attempts in a records file, by case and repeat; each is parsed when it is wanted."""

    def __init__(self, places: Mapping[Attempt, int], path: Path | None = None) -> None:
        self._places = places
        self._path = path

    @classmethod
    def open(cls, path: Path) -> Recorded:
        """Find out what the file holds."""
        return cls(dict(_places(path)), path)

    def __contains__(self, attempt: Attempt) -> bool:
        return attempt in self._places

    def get(self, attempt: Attempt) -> Record | None:
        """The record of an attempt; None where there is none."""
        place = self._places.get(attempt)
        if place is None or self._path is None:
            return None
        with self._path.open("rb") as file:
            file.seek(place)
            return Record.from_dict(json.loads(file.readline()))


def resume(
    path: Path,
    metadata: RunMetadata,
    planned: Collection[CaseKey],
    *,
    load: Callable[[CaseKey], Case | BrokenCase],
    template: PromptTemplate,
) -> Resumption:
    """
    What a run of this metadata and plan can take over from the run at `path`.

    An answer is taken over where case, schema, prompt, engine, parameters and repeat are the same. ResumeError where
    the other run asked another engine, or with other parameters: it is more likely a mistake than a wish to pay twice.
    """
    content = journal.read_run(path)
    if content.metadata is None and not path.is_dir():
        message = f"{path} has no header line; expected the records.jsonl of a run, or the folder it is in"
        raise ResumeError(message)
    if content.metadata is not None and (other := difference(content.metadata, metadata)):
        message = f"{path}: its run asked {other}; nothing of it can be taken over"
        raise ResumeError(message)
    answered = [record for record in content.records if not (record.excluded or isinstance(record.generation, Failed))]
    expected = _Expected(planned=frozenset(planned), repeats=metadata.repeats, load=load, template=template)
    own = tuple(record for record in answered if record.asked_by is not None)
    records = tuple(record for record in answered if record.asked_by is None and expected.asks(record))
    return Resumption(
        source=path,
        folder=journal.find_files(path)[0].parent,
        metadata=content.metadata,
        records=records,
        own=own,
        left_out=len(answered) - len(own) - len(records),
        broken=sum(isinstance(record.generation, Failed) for record in content.records),
        warnings=content.warnings,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expected:
    """The questions that a run is going to ask."""

    planned: frozenset[CaseKey]
    repeats: int
    load: Callable[[CaseKey], Case | BrokenCase]
    template: PromptTemplate

    def asks(self, record: Record) -> bool:
        """Whether the record's question is one of them, to the letter."""
        if record.key not in self.planned or record.repeat >= self.repeats or record.prompt is None:
            return False
        case = self.load(record.key)
        if isinstance(case, BrokenCase) or digest(case.schema) != digest(record.schema):
            return False
        return self.template(case).digest == record.prompt.digest


def _places(path: Path) -> Iterator[tuple[Attempt, int]]:
    with path.open("rb") as file:
        place = 0
        for line in file:
            data = json.loads(line)
            if data["type"] == "record":
                yield (CaseKey(task=data["task"], id=data["id"]), data["repeat"]), place
            place += len(line)
