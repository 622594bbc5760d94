"""Merge the shards of a run into one run, for `jsbench merge`."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar
from uuid import NAMESPACE_OID, uuid5

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import MergeError
from pytest_jsbench.core.text import format_count, list_names
from pytest_jsbench.records import journal
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.metadata import RunMetadata
from pytest_jsbench.records.questions import combine_variants, common_entries, difference
from pytest_jsbench.records.records import Attempt
from pytest_jsbench.records.runs import Run
from pytest_jsbench.records.serving import add_served

T = TypeVar("T")

#: Maximum number of attempts in a merged run.
MOST_ATTEMPTS = 1_000_000
#: Maximum number of consecutive missing shards that are listed one by one.
_MOST_LISTED = 20
#: Maximum number of attempts with different verdicts that are listed by name.
_MOST_NAMED = 5

#: Metadata that must be equal in all merged runs, in addition to the questions.
_SHARED: dict[str, Callable[[RunMetadata], object]] = {
    "dataset": lambda metadata: metadata.dataset.get("source"),
    "cases": lambda metadata: metadata.dataset.get("cases_digest"),
    "repeats": lambda metadata: metadata.repeats,
    "classifiers": lambda metadata: list(metadata.classifiers),
    "metrics": lambda metadata: list(metadata.metrics),
    "policy": lambda metadata: dict(metadata.policy),
    "redacted": lambda metadata: metadata.redacted,
    "judge": lambda metadata: metadata.judge,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A run that was merged from several runs, with notes about the merge."""

    run: Run
    parts: tuple[RunMetadata, ...]
    #: Notes for the user, one line each.
    notes: tuple[str, ...]
    #: Names of the missing shards, such as 2/5.
    absent: tuple[str, ...]
    #: Number of attempts that more than one of the merged runs made.
    twice: int
    #: Attempts that passed in one merged run and did not pass in another.
    disagreeing: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    path: Path
    #: The run at `path`, reduced to one variant if it has variants.
    run: Run


def merge(paths: Sequence[Path]) -> Merged:
    """Merge the runs at these paths; raise MergeError if they are not parts of the same run."""
    parts = [_Part(path=path, run=_read(path)) for path in paths]
    of_variants = _group_by_variant(parts)
    attempts = sum(len(_plan(runs)) * runs[0].metadata.repeats for runs in of_variants.values())
    if attempts > MOST_ATTEMPTS:
        message = f"the runs to merge have {attempts:,} planned attempts; expected at most {MOST_ATTEMPTS:,}"
        raise MergeError(message, found=attempts, expected=MOST_ATTEMPTS)
    made: dict[Attempt, AttemptFacts] = {}
    twice = 0
    replaced = 0
    disagreeing: dict[Attempt, None] = {}
    for outcome in itertools.chain.from_iterable(part.run.outcomes for part in parts):
        before = made.get(outcome.attempt)
        if before is None or before.failed:  # an answer counts more than a failed call
            made[outcome.attempt] = outcome
        if before is None:
            continue
        # digests of redacted prompts cannot be compared, because each run has its own salt
        same_question = parts[0].run.metadata.redacted or before.prompt_digest == outcome.prompt_digest
        if not same_question or before.schema_digest != outcome.schema_digest:
            raise MergeError(
                f"{outcome.key} has different prompts or schemas in two runs; merge only runs of the same dataset"
            )
        twice = twice + 1
        replaced = replaced + before.failed
        if not (before.failed or outcome.failed) and before.passed != outcome.passed:
            disagreeing[outcome.attempt] = None
    metadatas = [
        replace(runs[0].metadata, options=common_entries([run.metadata.options for run in runs]))
        for runs in of_variants.values()
    ]
    metadata = combine_variants(metadatas) if parts[0].run.variants else metadatas[0]
    absent = [
        f"{shard} of variant {name}" if name else shard
        for name, runs in of_variants.items()
        for shard in _absent_shards(runs)
    ]
    notes = [warning for part in parts for warning in part.run.warnings]
    notes.append(
        f"merged {format_count(len(parts), 'run')}: {format_count(len(made), 'attempt')}, "
        f"{twice} of them in more than one run"
    )
    if twice:
        notes.append(_note_on_overlap(twice, replaced, list(disagreeing)))
    notes += [f"shard {shard} is missing: the figures are incomplete" for shard in absent]
    # the merged run gets a new uuid, which does not depend on the order of the parts
    names = sorted(part.run.metadata.uuid or part.run.metadata.run_id for part in parts)
    uuid = str(uuid5(NAMESPACE_OID, json.dumps(["pytest-jsbench", *names])))
    merged = sum(part.run.metadata.merged or 1 for part in parts)
    whole_dataset = {**metadata.dataset, "shard": None}
    planned = tuple(itertools.chain.from_iterable(_attempts(runs, made) for runs in of_variants.values()))
    metadata = replace(
        metadata,
        uuid=uuid,
        dataset=whole_dataset,
        # a single run keeps its own load, without the calls of a run that it resumed
        resumed_from=metadata.resumed_from if merged == 1 else None,
        merged=merged if merged > 1 else 0,
        ended_tests=_combine(parts, lambda part: part.ended_tests),
        fault_reports=_combine(parts, lambda part: part.fault_reports),
    ).with_plan(planned)
    outcomes = tuple(made[attempt] for attempt in planned if attempt in made)
    run = Run(
        metadata=add_served(metadata, outcomes),
        planned=tuple(attempt.key for attempt in planned),
        outcomes=outcomes,
    )
    return Merged(
        run=run,
        parts=tuple(part.run.metadata for part in parts),
        notes=tuple(notes),
        absent=tuple(absent),
        twice=twice,
        disagreeing=tuple(disagreeing),
    )


def _combine(parts: Sequence[_Part], entries_of: Callable[[RunMetadata], Iterable[T]]) -> tuple[T, ...]:
    """Return the entries of all merged runs; an entry that several runs have is returned once."""
    return tuple(dict.fromkeys(entry for part in parts for entry in entries_of(part.run.metadata)))


def _note_on_overlap(twice: int, replaced: int, disagreeing: Sequence[Attempt]) -> str:
    """
    Describe which records are kept for attempts in several runs, and how many of these attempts
    differ in verdict.
    """
    note = f"records kept for attempts in more than one run: {twice - replaced} from the first of these runs"
    note += f", {replaced} from a later run, because the first call had failed" if replaced else ""
    note += f"; {format_count(len(disagreeing), 'attempt')} passed in one run and not in another"
    names = [attempt.name(several=attempt.repeat > 0) for attempt in disagreeing]
    return f"{note}: {list_names(names, _MOST_NAMED)}" if names else note


def _read(path: Path) -> Run:
    run = journal.read_run(path).run(path, MergeError)
    number, count = _shard(run)
    if number > count:
        message = f"{path} is shard {number}/{count}; expected at most {count}/{count}"
        raise MergeError(message, found=number, expected=count, where=path)
    return run


def _group_by_variant(parts: Sequence[_Part]) -> dict[str, list[Run]]:
    """
    Return the parts by variant, with an empty name for runs without variants.

    Raise MergeError if two parts of the same variant have different questions.
    """
    by_variant: dict[str, list[_Part]] = {}
    for part in parts:
        ours, theirs = parts[0].run.metadata, part.run.metadata
        for name, value_of in _SHARED.items():
            then = value_of(theirs)
            now = value_of(ours)
            if then != now:
                raise _question_error(part, parts[0], f"{name} {json.dumps(then)}, this run {json.dumps(now)}")
        for name, run in (part.run.each() or {theirs.variant: part.run}).items():
            of_variant = by_variant.setdefault(name, [])
            of_variant.append(_Part(path=part.path, run=run))
            first = of_variant[0].run.metadata
            otherwise = difference(run.metadata, first)
            if not otherwise and run.metadata.prompt != first.prompt:
                otherwise = f"prompt {json.dumps(run.metadata.prompt)}, this run {json.dumps(first.prompt)}"
            if otherwise:
                raise _question_error(part, of_variant[0], f"{otherwise} (variant {name})" if name else otherwise)
    if "" in by_variant and len(by_variant) > 1:
        names = ", ".join(filter(None, by_variant))
        message = f"not parts of one run: some have variants ({names}), and some have none"
        raise MergeError(message, found=list(by_variant))
    return {name: [part.run for part in of_variant] for name, of_variant in by_variant.items()}


def _question_error(part: _Part, first: _Part, otherwise: str) -> MergeError:
    return MergeError(f"{part.path} is not part of the run {first.path}: its run used {otherwise}")


def _attempts(runs: Sequence[Run], made: Mapping[Attempt, AttemptFacts]) -> tuple[Attempt, ...]:
    """
    Return the planned attempts of a variant. Since each shard contains all of the project's own tests, these are
    planned only once.
    """
    variant = runs[0].metadata.variant
    repeats = runs[0].metadata.repeats
    own = {attempt for attempt, outcome in made.items() if outcome.asked_by is not None and attempt.variant == variant}
    keys = {attempt.key for attempt in own}
    for run in runs:
        often = Counter(key for key in run.planned if key in keys)
        own |= {Attempt(key, repeat, variant) for key, count in often.items() for repeat in range(count)}
    of_cases = itertools.product((key for key in _plan(runs) if key not in keys), range(repeats))
    return (*(Attempt(key, repeat, variant) for key, repeat in of_cases), *sorted(own))


def _plan(runs: Iterable[Run]) -> tuple[CaseKey, ...]:
    """
    Return the complete plan in the dataset's order. The shards are interleaved, since each shard
    has every n-th case.
    """
    plans = [dict.fromkeys(run.planned) for run in sorted(runs, key=_shard)]
    by_task: dict[str, dict[CaseKey, None]] = {}
    for key in filter(None, itertools.chain.from_iterable(itertools.zip_longest(*plans))):
        by_task.setdefault(key.task, {})[key] = None
    return tuple(itertools.chain.from_iterable(by_task.values()))


def _shard(run: Run) -> tuple[int, int]:
    """Return the number of a run's shard and the number of shards; a complete run is shard 1 of 1."""
    number, _, count = str(run.metadata.dataset.get("shard") or "1/1").partition("/")
    return int(number), int(count)


def _absent_shards(runs: Iterable[Run]) -> Iterator[str]:
    """Yield the missing shards; a long range is shortened to its ends, since an untrusted file may state any number."""
    shards = sorted(set(map(_shard, runs)))
    for count in sorted({count for _, count in shards} if (1, 1) not in shards else ()):
        for before, after in itertools.pairwise([0, *(number for number, of in shards if of == count), count + 1]):
            if after - before > _MOST_LISTED:
                yield f"{before + 1}/{count} to {after - 1}/{count}"
            else:
                yield from (f"{number}/{count}" for number in range(before + 1, after))
