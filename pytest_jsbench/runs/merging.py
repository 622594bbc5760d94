"""`jsbench merge`: the shards of a run, put together into one."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import MergeError
from pytest_jsbench.runs import journal
from pytest_jsbench.runs.identity import difference
from pytest_jsbench.runs.outcomes import AttemptOutcome, Run
from pytest_jsbench.runs.records import Attempt, RunMetadata

#: what else the parts of one run have in common, besides what they ask of whom
_ALIKE: dict[str, Callable[[RunMetadata], object]] = {
    "dataset": lambda metadata: metadata.dataset.get("source"),
    "cases": lambda metadata: metadata.dataset.get("cases_digest"),
    "prompt": lambda metadata: metadata.prompt,
    "repeats": lambda metadata: metadata.repeats,
    "classifiers": lambda metadata: list(metadata.classifiers),
    "policy": lambda metadata: dict(metadata.policy),
    "redacted": lambda metadata: metadata.redacted,
    "judge": lambda metadata: metadata.judge,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """One run out of several, and what there is to say of it."""

    run: Run
    #: one line each
    notes: tuple[str, ...]
    #: shards that are not there: 2/5
    absent: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether every shard is there."""
        return not self.absent


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    path: Path
    metadata: RunMetadata
    outcomes: tuple[AttemptOutcome, ...]
    warnings: tuple[str, ...]


def merge(paths: Sequence[Path]) -> Merged:
    """The runs as one; MergeError where they are not parts of the same one."""
    parts = [_read(path) for path in paths]
    _refuse_strangers(parts)
    made: dict[Attempt, AttemptOutcome] = {}
    twice = 0
    for outcome in itertools.chain.from_iterable(part.outcomes for part in parts):
        twice += outcome.attempt in made
        made[outcome.attempt] = _choose(made.get(outcome.attempt), outcome)
    metadata = parts[0].metadata
    absent = _absent_shards(parts)
    notes = [warning for part in parts for warning in part.warnings]
    notes.append(f"merged {len(parts)} runs: {len(made)} attempts, of which {twice} were in more than one")
    notes += [f"shard {shard} is not among them: the figures are incomplete" for shard in absent]
    whole_dataset = {**metadata.dataset, "shard": None}
    attempts = _attempts(parts, made)
    every = tuple(key for key, _ in attempts)
    run = Run(
        metadata=replace(metadata, uuid=_uuid(parts), dataset=whole_dataset, resumed_from=None).with_plan(every),
        planned=every,
        outcomes=tuple(made[attempt] for attempt in attempts if attempt in made),
    )
    return Merged(run=run, notes=tuple(notes), absent=tuple(absent))


def _uuid(parts: Sequence[_Part]) -> str:
    """The same for the same parts, in whatever order they are given, and another one than each of theirs."""
    names = sorted(part.metadata.uuid or part.metadata.run_id for part in parts)
    return str(uuid5(NAMESPACE_OID, json.dumps(["pytest-jsbench", *names])))


def _read(path: Path) -> _Part:
    content = journal.read_run(path)
    if content.metadata is None:
        message = f"{path} has no header line; expected the records.jsonl of a run, or the folder it is in"
        raise MergeError(message)
    return _Part(path=path, metadata=content.metadata, outcomes=content.outcomes, warnings=content.warnings)


def _refuse_strangers(parts: Sequence[_Part]) -> None:
    first, *others = parts
    for part in others:
        if found := difference(part.metadata, first.metadata) or _otherwise(part.metadata, first.metadata):
            message = f"{part.path} is no part of the run {first.path}: its run asked {found}"
            raise MergeError(message)


def _otherwise(theirs: RunMetadata, ours: RunMetadata) -> str:
    for name, value_of in _ALIKE.items():
        if (then := value_of(theirs)) != (now := value_of(ours)):
            return f"with {name} {json.dumps(then)}, that one with {json.dumps(now)}"
    return ""


def _choose(one: AttemptOutcome | None, other: AttemptOutcome) -> AttemptOutcome:
    """The record to keep of two of one attempt: an answer rather than a broken call, else the first."""
    if one is None:
        return other
    # redacted prompts have a salt of their own in each run
    asked = not one.redacted and one.prompt_digest != other.prompt_digest
    if one.schema_digest != other.schema_digest or asked:
        message = f"{other.key} was asked in two ways: the runs are not of one dataset"
        raise MergeError(message)
    return other if one.failed else one


def _attempts(parts: Sequence[_Part], made: Mapping[Attempt, AttemptOutcome]) -> tuple[Attempt, ...]:
    """All that was to be attempted; a project's own tests are in each shard whole, and say themselves how often."""
    own = {attempt for attempt, outcome in made.items() if outcome.asked_by is not None}
    asked = {key for key, _ in own}
    for part in parts:
        often = Counter(key for key in part.metadata.planned() or () if key in asked)
        own |= {(key, repeat) for key, count in often.items() for repeat in range(count)}
    cases = [key for key in _plan(parts) if key not in asked]
    return (*itertools.product(cases, range(parts[0].metadata.repeats)), *sorted(own))


def _plan(parts: Iterable[_Part]) -> tuple[CaseKey, ...]:
    """All that was planned, in the dataset's order: shards hold every n-th case, so they are dealt back in turn."""
    plans = [_keys(part) for part in sorted(parts, key=lambda part: _shard(part.metadata))]
    dealt = itertools.chain.from_iterable(itertools.zip_longest(*plans))
    by_task: dict[str, dict[CaseKey, None]] = {}
    for key in dealt:
        if key is not None:
            by_task.setdefault(key.task, {})[key] = None
    return tuple(itertools.chain.from_iterable(by_task.values()))


def _keys(part: _Part) -> list[CaseKey]:
    planned = part.metadata.planned()
    # one that was written before plans were: what was recorded is what is known
    return list(dict.fromkeys(tuple(outcome.key for outcome in part.outcomes) if planned is None else planned))


def _shard(metadata: RunMetadata) -> tuple[int, int]:
    """Number and count; the whole is the first of one."""
    number, _, count = str(metadata.dataset.get("shard") or "1/1").partition("/")
    return int(number), int(count)


def _absent_shards(parts: Iterable[_Part]) -> list[str]:
    shards = {_shard(part.metadata) for part in parts}
    if (1, 1) in shards:
        return []
    return [
        f"{number}/{count}"
        for count in {count for _, count in shards}
        for number in range(1, count + 1)
        if (number, count) not in shards
    ]
