"""Find unused recordings, which no test of a complete run has requested; `jsbench recordings` lists or deletes them."""

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
from pytest_jsbench.records.facts import AttemptFacts

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey

#: Name of the file in a run's directory that lists the unused recordings.
UNASKED = "recordings.json"


class _Unasked(Struct, frozen=True):
    #: Digest of each unused recording, by the recording's path in the directory of recordings.
    unasked: dict[str, str]


def find(folder: Path, outcomes: Iterable[AttemptFacts], unfinished: Collection[CaseKey]) -> Iterator[Path]:
    """
    Find the recordings that no attempt of a complete run has requested.

    A recording of a test counts as used if any request of the test has the recording's prompt. If a test has no
    recording with the prompt of one of its requests, recordings of the same function with other parameters count as
    used too. All recordings of a function count as used if a test of this function did not pass (`unfinished`, by the
    keys of the first requests) or had a failed call.
    """
    recordings = Recordings(folder)
    test_attempts: list[AttemptFacts] = []
    used_paths: set[Path] = set()
    for outcome in outcomes:
        if outcome.asked_by is None:
            used_paths.add(recordings.path(outcome.key, outcome.repeat))
        else:
            test_attempts.append(outcome)
        tries = () if outcome.repairs is None else outcome.repairs.tries
        used_paths.update(recordings.path(outcome.key.continued(each.prompt_digest), outcome.repeat) for each in tries)
    recorded = {
        path: (recording.key, (recording.repeat, recording.prompt.digest))
        for path in recordings.paths()
        if path not in used_paths and (recording := recordings.try_read(path)) is not None
    }
    recorded_requests = {(key.of_first, prompt) for key, prompt in recorded.values()}
    requests: set[object] = set()
    for outcome in test_attempts:
        prompt = (outcome.repeat, outcome.prompt_digest)
        request = (outcome.key.of_first, prompt)
        requests.add(request if request in recorded_requests else (outcome.key.function, prompt))
    kept_functions = {
        key.function for key in (*unfinished, *(outcome.key for outcome in test_attempts if outcome.failed))
    }
    for path, (key, prompt) in recorded.items():
        if key.function not in kept_functions and requests.isdisjoint([(key.of_first, prompt), (key.function, prompt)]):
            yield path


def write(run: Path, folder: Path, paths: Iterable[Path]) -> None:
    """Write the unused recordings and their digests to a run's directory; raise JournalError if that fails."""
    digests = {path.relative_to(folder).as_posix(): _digest(path) for path in paths}
    write_atomically(run / UNASKED, json_text(to_json(_Unasked(digests)), indent=2) + "\n")


def read(folder: Path, runs: Iterable[Path]) -> list[Path]:
    """Read the recordings that none of these runs has used, without recordings that have changed since."""
    common = set.intersection(*(set(_digests(run).items()) for run in runs))
    return [folder / name for name, digest in sorted(common) if _is_recording(folder, folder / name, digest)]


def _digests(run: Path) -> Mapping[str, str]:
    path = run / UNASKED
    if not path.is_file():
        message = (
            f"{path} does not exist: unused recordings are known only for a complete run with --jsbench-replay or "
            "--jsbench-record, without deselected or aborted tests"
        )
        raise RecordError(message, where=str(path))
    try:
        return from_json(_Unasked, FileReader(root=run, error=RecordError).read_json(path)).unasked
    except ValueError as error:
        raise RecordError(f"{path} is not a list of recordings: {error}", where=str(path)) from error


def _is_recording(folder: Path, path: Path, digest: str) -> bool:
    """Return whether a path from an untrusted list is a recording in this directory with this digest."""
    if path.suffix != ".json" or not inside(folder, path) or not path.is_file() or _digest(path) != digest:
        return False
    return Recordings(path.parent.parent).try_read(path) is not None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
