"""Resume a run: find the answers of an earlier run, so that no call is made and paid for twice."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, PromptTemplate, prompt_of
from pytest_jsbench.core.errors import JSBenchError, ResumeError
from pytest_jsbench.core.files import IndexedLines
from pytest_jsbench.core.text import format_count
from pytest_jsbench.records import journal
from pytest_jsbench.records.facts import AttemptFacts, Place
from pytest_jsbench.records.metadata import RunMetadata
from pytest_jsbench.records.questions import difference, find_unmatched_variants, match
from pytest_jsbench.records.records import Attempt, Record
from pytest_jsbench.records.redaction import Redaction, has_same_prompt
from pytest_jsbench.records.runs import Records


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """Answers that a run reuses from an earlier run."""

    source: Path
    #: Directory of the earlier run.
    folder: Path
    #: Metadata of the earlier run; None if it was killed before it wrote anything.
    metadata: RunMetadata | None = None
    #: Reused answers to the suite's cases, for each variant whose questions are the same in both runs.
    answers: tuple[AttemptFacts, ...] = ()
    #: Answers to calls of the project's own tests; an answer is reused if its test asks the same question.
    project_answers: tuple[AttemptFacts, ...] = ()
    #: Number of records that belong to no attempt of this run, because the schema, the prompt or the case differs.
    left_out: int = 0
    #: Number of failed calls in the earlier run, which are made again.
    broken: int = 0
    warnings: tuple[str, ...]
    #: Whether a variant had another name in the earlier run, so that its records are rewritten.
    renamed: bool = False

    def write_to(self, folder: Path, ours: RunMetadata, redaction: Redaction | None) -> Path:
        """Write the reused records to a file in the new run's directory, so that it can be resumed too."""
        assert self.metadata is not None
        earlier = replace(ours if self.renamed else self.metadata, redacted=redaction is not None)
        answers = (*self.answers, *self.project_answers)
        kept: Iterable[Place | Record] = (outcome.source for outcome in answers)
        if redaction is not None or self.renamed:
            kept = (record if redaction is None else redaction.record(record) for record in Records(answers))
        journal.write(folder / journal.RESUMED, earlier, kept)
        return folder / journal.RESUMED


class Recorded:
    """The attempts in a records file, indexed by case and repeat; empty without a file."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lines = None if path is None else IndexedLines(path, _attempt)
        self._of_task: dict[tuple[str, int, str], list[Attempt]] = {}
        for attempt in self._lines or ():
            self._of_task.setdefault((attempt.key.task, attempt.repeat, attempt.variant), []).append(attempt)

    def of_test(self, first: Attempt) -> list[Record]:
        """
        Return the records of a project's own test, in the order of its calls; `first` is the
        attempt of its first call.
        """
        candidates = self._of_task.get((first.key.task, first.repeat, first.variant), ())
        attempts = [attempt for attempt in candidates if attempt.key.is_of_test(first.key)]
        records = (self.get(attempt) for attempt in sorted(attempts, key=lambda attempt: attempt.key.number))
        return [record for record in records if record is not None]

    def __contains__(self, attempt: Attempt) -> bool:
        return self._lines is not None and attempt in self._lines

    def place(self, attempt: Attempt) -> Place | None:
        """Return the place of an attempt's record; None if the attempt has no record."""
        start = None if self._lines is None else self._lines.place(attempt)
        return None if self._path is None or start is None else Place(path=self._path, start=start)

    def get(self, attempt: Attempt) -> Record | None:
        """Return the record of an attempt; None if the attempt has no record."""
        line = None if self._lines is None else self._lines.get(attempt)
        return None if line is None else Record.from_dict(line)


def _attempt(line: Mapping[str, Any]) -> Attempt | None:
    """Return the attempt that a line of the file records; None for the header line."""
    if line["type"] != "record":
        return None
    return Attempt(CaseKey(task=line["task"], id=line["id"]), line["repeat"], sys.intern(line.get("variant", "")))


def resume(
    path: Path,
    metadata: RunMetadata,
    planned: Collection[CaseKey],
    *,
    load: Callable[[CaseKey], Case | BrokenCase],
    templates: Mapping[str, PromptTemplate],
) -> Resumption:
    """
    Find the answers that a run with this metadata and plan can reuse from the run at `path`.

    An answer is reused if its case, schema, prompt, engine, parameters and repeat are the same, separately for each
    variant; `templates` has the prompt template of each variant. A new or changed variant reuses no answers. If the
    earlier run has another engine or other parameters, raise ResumeError, since this is more likely a mistake than a
    wish to pay twice.
    """
    # a run in this directory was killed before it could write a file
    if path.is_dir() and all(entry.is_dir() and not any(entry.iterdir()) for entry in path.iterdir()):
        warning = f"{path} is empty, probably because its run was killed at the start: no answers are reused"
        return Resumption(source=path, folder=path, warnings=(warning,))
    content = journal.read_run(path)
    folder = journal.find_files(path)[0].parent
    if content.metadata is None and path.is_dir():
        return Resumption(source=path, folder=folder, warnings=content.warnings)
    theirs = content.run(path, ResumeError).metadata
    names = match(theirs, metadata)
    changed = find_unmatched_variants(theirs, metadata)
    if not names:
        other = next(iter(changed.values()))
        raise ResumeError(f"{path}: its run {other}; none of its answers can be reused", found=other, where=path)
    redacted = _check_redaction(path, theirs, metadata)
    # answers that an application got without the run's engine are not reused: the test gets them again
    of_run = [outcome for outcome in content.outcomes if not (outcome.excluded or outcome.failed or outcome.handed_in)]
    answered = [
        structs.replace(outcome, variant=names[outcome.variant]) for outcome in of_run if outcome.variant in names
    ]
    asked_by_tests = tuple(outcome for outcome in answered if outcome.asked_by is not None)
    of_cases = [outcome for outcome in answered if outcome.asked_by is None]
    keys = frozenset(planned)

    def is_asked(record: Record) -> bool:
        """Return whether the record's case, schema and prompt are the same in this run."""
        if record.key not in keys or record.repeat >= metadata.repeats or record.prompt is None:
            return False
        case = load(record.key)
        # an untrusted file can contain a schema with a wrong digest
        recorded = record if record.redacted is not None else record.with_schema(record.schema)
        if isinstance(case, BrokenCase) or case.digest != recorded.schema_digest:
            return False
        return has_same_prompt(record, prompt_of(case, templates[record.variant]))

    answers = tuple(outcome for outcome, record in zip(of_cases, Records(of_cases), strict=True) if is_asked(record))
    left_out = len(of_run) - len(asked_by_tests) - len(answers)
    anew = (f"variant {name} starts anew: {path} {instead}" for name, instead in changed.items())
    warnings = (*content.warnings, *anew)
    if asked_by_tests and redacted:  # a project's own test needs the answer itself, not its digest
        answers_of_tests = format_count(len(asked_by_tests), "redacted answer") + " to the project's own tests"
        warnings = (*warnings, f"{answers_of_tests} cannot be reused: the calls are made again")
        asked_by_tests = ()
    return Resumption(
        source=path,
        folder=folder,
        metadata=theirs,
        answers=answers,
        project_answers=asked_by_tests,
        left_out=left_out,
        broken=sum(outcome.failed for outcome in content.outcomes),
        warnings=warnings,
        renamed=any(name != theirs for theirs, name in names.items()),
    )


def newest_matching_run(folder: Path | None, ours: RunMetadata) -> Path | None:
    """Return the newest run in a directory that has the same engine and settings; None if there is no such run."""
    for run in reversed(journal.find_runs(folder)) if folder is not None and folder.is_dir() else ():
        with suppress(JSBenchError):  # a run may have been killed before it wrote anything, or be from another program
            if not difference(journal.read_header(run), ours):
                return run
    return None


def _check_redaction(path: Path, theirs: RunMetadata, ours: RunMetadata) -> bool:
    """Return whether the answers are redacted; raise ResumeError if this run could not judge them."""
    if theirs.redacted and not ours.redacted:
        raise ResumeError(f"{path}: its run was redacted; add --jsbench-redact to resume it")
    if not ours.redacted:
        return False
    for name in ("policy", "classifiers", "metrics"):
        # compared as JSON, since the earlier metadata were read from JSON
        then, now = (json.dumps(getattr(run, name), sort_keys=True) for run in (theirs, ours))
        if then != now:
            message = f"{path}: its run judged with {name} {then}, this run with {now}; redacted answers cannot be "
            raise ResumeError(message + f"judged again: use the same {name}, or drop --jsbench-resume")
    return True
