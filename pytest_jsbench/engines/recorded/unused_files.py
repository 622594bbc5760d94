"""Recordings that no test of a whole run has asked for: found when it ends, and listed or deleted by `jsbench`."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.files import FileReader, inside, write_atomically
from pytest_jsbench.core.json_values import from_json, to_json
from pytest_jsbench.core.text import json_text
from pytest_jsbench.engines.recorded.recordings import Recordings
from pytest_jsbench.records.outcomes import AttemptOutcome

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey

#: in a run's folder
UNASKED = "recordings.json"


class _Unasked(Struct, frozen=True):
    #: by their paths in the folder of recordings, the digest of each
    unasked: dict[str, str]


def find(folder: Path, outcomes: Iterable[AttemptOutcome], unfinished: Collection[CaseKey]) -> Iterator[Path]:
    """
    Find the recordings that none of a whole run's attempts has asked for.

    A test may ask its questions in any order: a recording of it is asked for where its prompt is, and where a test has
    none of its prompt, those of its function with other parameters are. All recordings of the function of a test that
    did not pass (`unfinished`, by their first questions), or that met a broken call, count as asked for.
    """
    recordings, of_tests = Recordings(folder), list[AttemptOutcome]()
    of_suite: set[Path] = set()
    for outcome in outcomes:
        if outcome.asked_by is None:
            of_suite.add(recordings.path(outcome.key, outcome.repeat))
        else:
            of_tests.append(outcome)
    recorded = {
        path: (recording.key, (recording.repeat, recording.prompt.digest))
        for path in recordings.paths()
        if path not in of_suite and (recording := recordings.at(path)) is not None
    }
    there = {(key.of_first, prompt) for key, prompt in recorded.values()}
    questions: set[object] = set()
    for outcome in of_tests:
        prompt = (outcome.repeat, outcome.prompt_digest)
        of_test = (outcome.key.of_first, prompt)
        questions.add(of_test if of_test in there else (outcome.key.function, prompt))
    kept = {key.function for key in (*unfinished, *(outcome.key for outcome in of_tests if outcome.failed))}
    for path, (key, prompt) in recorded.items():
        if key.function not in kept and questions.isdisjoint([(key.of_first, prompt), (key.function, prompt)]):
            yield path


def write(run: Path, folder: Path, paths: Iterable[Path]) -> None:
    """Note in a run's folder which recordings nobody asked for, and a digest of each; JournalError where that fails."""
    digests = {path.relative_to(folder).as_posix(): _digest(path) for path in paths}
    write_atomically(run / UNASKED, json_text(to_json(_Unasked(digests)), indent=2) + "\n")


def read(folder: Path, runs: Iterable[Path]) -> list[Path]:
    """Read which recordings none of these runs has asked for, of those that have not changed since."""
    common = set.intersection(*(set(_digests(run).items()) for run in runs))
    return [folder / name for name, digest in sorted(common) if _is_recording(folder, folder / name, digest)]


def _digests(run: Path) -> Mapping[str, str]:
    path = run / UNASKED
    if not path.is_file():
        message = (
            f"{path} is not there: only a run of all tests with --jsbench-replay or --jsbench-record, of which none "
            "was deselected or stopped, knows which recordings nobody asks for"
        )
        raise RecordError(message, where=str(path))
    try:
        return from_json(_Unasked, FileReader(root=run, error=RecordError).read_json(path)).unasked
    except ValueError as error:
        raise RecordError(f"{path} is no list of recordings: {error}", where=str(path)) from error


def _is_recording(folder: Path, path: Path, digest: str) -> bool:
    """Tell of a path in a foreign list whether it leads to that recording, of this folder."""
    if path.suffix != ".json" or not inside(folder, path) or not path.is_file() or _digest(path) != digest:
        return False
    return Recordings(path.parent.parent).at(path) is not None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
