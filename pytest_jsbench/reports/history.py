"""Keep a history: one small line per run, for months, and report on it: how the newest differs significantly."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta, Struct

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import JournalError, RecordError
from pytest_jsbench.core.files import FileReader, Unreadable, append_whole, locked, parse_json, unwritable
from pytest_jsbench.core.json_values import Digest, digest, from_json, to_json, written
from pytest_jsbench.core.text import printable
from pytest_jsbench.formats import METRICS
from pytest_jsbench.metrics.case_outcomes import MEASURED, MISSING, PASSED, UNDECIDED, CaseOutcome
from pytest_jsbench.metrics.comparison import Comparison, adjust_together, compare
from pytest_jsbench.metrics.figures import FIGURES, RATES, TIMES, bounded
from pytest_jsbench.metrics.statistics import Share
from pytest_jsbench.records import journal
from pytest_jsbench.records.setting_differences import SettingDifference, differences
from pytest_jsbench.reports.blocks import Block, Column, Fact, Heading, TableBlock
from pytest_jsbench.reports.comparison_report import apart, by_bearing, incomparable, table_of_runs
from pytest_jsbench.reports.run_json import Evaluation, kept_of_run

#: Version of a line; raised when a field is added.
HISTORY_VERSION = "1.0"
#: Maximum length of a line in bytes.
LONGEST_LINE = 4_000_000
_LONGEST_LABEL = 200
_METRICS = (
    *("planned", "completions", "passed", "errors", "unjudged", "priced", "valid_instances", "invalid_instances"),
    *bounded(name for name in RATES if FIGURES[name].is_main),
    *(row.name for row in FIGURES.values() if row.is_main and not row.is_rate),
    *(f"{name}_count" for name, row in TIMES.items() if row.is_main),
    "input_tokens",
)
#: Number of significant digits of measurements.
_DIGITS = 6
#: Settings that a label names only if they differ from these usual values.
_USUAL: Mapping[str, Any] = {
    "engine": None,
    "model": None,
    "response_format": None,
    "prompt": "schema",
    "temperature": None,
    "max_tokens": 2048,
    "shots": 0,
    "adapt": "verbatim",
    "seed": None,
}


_Bits = Annotated[str, Meta(pattern="^[0-9a-f]+$")]
_Number = Annotated[int, Meta(ge=0, le=2**53 - 1)] | Annotated[float, Meta(ge=0, le=2**53 - 1)]
#: Maximum number of cases whose measurements a line keeps, to limit its length.
_MOST_MEASURED = 20_000
_EXPECTED = "expected the lines that `jsbench history add` writes"
#: End of an attempt that did not pass; a line does not keep the reason.
_FAILED = "failed"


class WrittenCases(Struct, frozen=True, kw_only=True):
    """The outcomes of cases, in the order of their names."""

    #: Number of cases.
    count: Annotated[int, Meta(ge=0, le=10_000_000)]
    #: Digest of the names and schemas of the cases: equal if two runs had the same ones.
    digest: Digest
    #: Number of bits per case: the maximum number of attempts at one. 1 if absent.
    attempts: Annotated[int, Meta(ge=1, le=10_000_000)] = 1
    #: Attempts that passed, as a hexadecimal number: its lowest bit is the first attempt of the first case.
    passed: _Bits
    #: The same for attempts without information about the model: the call failed, the attempt is missing, or the
    #: answer could not be judged.
    undecided: _Bits
    #: Times, tokens and cost by name: the mean of each case's attempts, null if it has none. Absent with more than
    #: 20,000 cases.
    measures: Mapping[str, tuple[_Number | None, ...]] = {}

    @classmethod
    def of(cls, evaluation: Evaluation) -> WrittenCases:
        """Return the part of an evaluation's cases that a line keeps; RecordError if it lacks their outcomes."""
        if evaluation.outcomes is None:
            message = f"{evaluation.source} has no outcomes of cases; expected a run's directory or its run.json"
            raise RecordError(message, where=evaluation.source)
        ordered = sorted(evaluation.outcomes.items(), key=lambda pair: str(pair[0]))
        most = max((len(outcome.attempts) for _, outcome in ordered), default=1)
        ends = [end for _, case in ordered for end in (*case.attempts, *[MISSING] * (most - len(case.attempts)))]
        measured = {name: [case.measured(name) for _, case in ordered] for name in MEASURED}
        measures = {
            name: tuple(float(f"{fmean(values):.4g}") if values else None for values in of_cases)
            for name, of_cases in measured.items()
            if any(of_cases) and len(ordered) <= _MOST_MEASURED
        }
        return cls(
            count=len(ordered),
            digest=digest([[str(key), outcome.schema] for key, outcome in ordered]),
            attempts=most,
            passed=_bits(end == PASSED for end in ends),
            undecided=_bits(end in UNDECIDED for end in ends),
            measures=measures,
        )

    def check(self) -> None:
        """Raise RecordError if there are more bits than attempts, or not as many measurements as cases."""
        passed = int(self.passed, 16)
        undecided = int(self.undecided, 16)
        bits = self.count * self.attempts
        if not max(passed, undecided).bit_length() <= bits <= 4 * LONGEST_LINE or passed & undecided:
            message = (
                f"cases.passed and cases.undecided must cover {self.count} cases with {self.attempts} attempts each"
            )
            raise RecordError(message)
        if any(len(values) != self.count for values in self.measures.values()):
            raise RecordError(f"each list in cases.measures must have {self.count} values, one per case")

    def changes_since(self, before: WrittenCases) -> tuple[int, int]:
        """
        Count the common cases that pass more often than before, and less often, over as many attempts as both made.

        It takes a tenth of the time of a comparison, and each line of a table needs it.
        """
        most = min(self.attempts, before.attempts)
        pairs = zip(before.shares(most), self.shares(most), strict=True)
        gains = [passed * were - had * are for (had, were), (passed, are) in pairs]
        return sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)

    def shares(self, most: int) -> list[Share]:
        """Return for each case how many of its first attempts passed, and how many are decided."""
        passed, undecided = self._digits()
        starts = range(0, self.count * self.attempts, self.attempts)
        return [(passed.count("1", at, at + most), undecided.count("0", at, at + most)) for at in starts]

    def _digits(self) -> tuple[str, str]:
        """Return the attempts that passed, and the undecided ones: one binary digit each, the first one first."""
        size = self.count * self.attempts
        passed, undecided = (f"{int(bits, 16):0{size}b}"[::-1] for bits in (self.passed, self.undecided))
        return passed, undecided

    @property
    def outcomes(self) -> dict[CaseKey, CaseOutcome]:
        """Outcome of each case by its index; measurements belong to its first attempt."""
        ends = [
            MISSING if is_open == "1" else PASSED if is_right == "1" else _FAILED
            for is_right, is_open in zip(*self._digits(), strict=True)
        ]
        return {
            CaseKey(task="case", id=str(at)): CaseOutcome(
                attempts=tuple(ends[at * self.attempts : (at + 1) * self.attempts]),
                measures={name: (values[at],) for name, values in self.measures.items()},
            )
            for at in range(self.count)
        }


def _bits(ends: Iterable[bool]) -> str:
    """Return the outcomes as a hexadecimal number, with the first as its lowest bit."""
    return f"{int(''.join('01'[end] for end in ends)[::-1] or '0', 2):x}"


class NamedRun(TypedDict):
    """The identity of a run."""

    #: Name of the run.
    run_id: Annotated[str, Meta(min_length=1)]
    #: Distinguishes it from every other run; None if not recorded.
    uuid: NotRequired[str | None]
    #: ISO 8601, UTC.
    started_at: str


class _Run(Struct, frozen=True, kw_only=True):
    run: NamedRun


class HistoryLine(Struct, frozen=True, kw_only=True):
    """
    The part of one run, or of one variant of it, that later ones are compared with.

    Lines are added, never changed; fields are added, never removed. An absent field is unknown, or not applicable.
    """

    #: Version of the line; raised when a field is added.
    schema_version: str = written(HISTORY_VERSION)
    #: Lines of one label with the same cases are compared with each other.
    label: Annotated[str, Meta(min_length=1)]
    #: Variant of the run; empty in a run without variants.
    variant: str = written("")
    #: What produced the run, as in run.json, as far as it distinguishes later runs.
    run: Mapping[str, Any]
    #: Metrics of run.json by name.
    metrics: Mapping[str, _Number]
    #: Outcome of each case, in the order of their names.
    cases: WrittenCases
    #: The run verdict; None if undecided.
    verdict: Literal["passed", "failed", "incomplete"] | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for two lines of one run."""
        return self.run.get("uuid") or self.run["run_id"], self.variant

    @property
    def started_at(self) -> datetime:
        """Start time of the run."""
        return datetime.fromisoformat(self.run["started_at"])

    @property
    def evaluation(self) -> Evaluation:
        """The line as an evaluation, with metrics but without cases."""
        return Evaluation(
            source=self.run["run_id"],
            config_path="",
            backend=str(self.run.get("engine", "")),
            run=self.run,
            metrics=self.metrics,
            outcomes=None,
        )

    @classmethod
    def of(cls, evaluation: Evaluation, label: str | None = None) -> HistoryLine:
        """Return the line of a run of ours, or of one variant of it; RecordError for any other evaluation."""
        if not evaluation.run.get("run_id") or not evaluation.run.get("started_at"):
            message = f"{evaluation.source} does not identify its run; expected a run's directory or its run.json"
            raise RecordError(message, where=evaluation.source)
        metrics = {name: value for name in _METRICS if (value := evaluation.metrics.get(name)) is not None}
        run = kept_of_run(evaluation, "uuid", "started_at")
        versions = run.get("versions")
        judge = {"judge": versions["judge"]} if isinstance(versions, Mapping) and "judge" in versions else {}
        return cls.from_dict(
            {
                "label": printable(_label_of(evaluation, label), _LONGEST_LABEL),
                "variant": evaluation.variant,
                "run": {**run, "versions": judge},
                "metrics": {
                    name: value if isinstance(value, int) else float(f"{value:.{_DIGITS}g}")
                    for name, value in metrics.items()
                },
                "cases": to_json(WrittenCases.of(evaluation)),
                "verdict": None if evaluation.verdict is None else evaluation.verdict.status.value,
            }
        )

    @classmethod
    def from_dict(cls, data: Any) -> HistoryLine:
        """Parse a line; RecordError if it is not one of a history."""
        try:
            line = from_json(cls, data)
            from_json(_Run, {"run": line.run})
            METRICS.check(line.metrics)
            line.cases.check()
            if line.started_at.tzinfo is None:
                raise ValueError("no time zone in run.started_at")
        except ValueError as error:
            raise RecordError(f"not a line of a history: {printable(str(error))}") from error
        return line

    def since(self, before: HistoryLine) -> Comparison:
        """Compare with an earlier line that has the same cases."""
        return compare(before.cases.outcomes, self.cases.outcomes, self.changes_since(before))

    def changes_since(self, before: HistoryLine) -> tuple[SettingDifference, ...]:
        """Return the settings that differ from those of an earlier line."""
        settings = [before.evaluation.settings, self.evaluation.settings]
        return differences(settings, same_cases=self.cases.digest == before.cases.digest)

    def is_comparable(self, before: HistoryLine) -> bool:
        """
        Return whether its metrics are comparable with an earlier line's: both complete, with the
        same cases and rules.
        """
        if "incomplete" in {self.verdict, before.verdict} or not self.with_same_cases([before]):
            return False
        both = zip(*(cases.shares(cases.attempts) for cases in (before.cases, self.cases)), strict=True)
        decided = any(were and are for (_, were), (_, are) in both)
        return decided and not any(incomparable(self.changes_since(before)))

    def with_same_cases(self, earlier: Sequence[HistoryLine]) -> list[HistoryLine]:
        """Return the earlier lines that have the same cases."""
        return [line for line in earlier if line.cases.digest == self.cases.digest]


def _label_of(evaluation: Evaluation, given: str | None) -> str:
    """Return a label that does not depend on other runs: engine, model, and unusual settings."""
    if given:
        return f"{given} {evaluation.variant}".rstrip()
    settings = evaluation.settings
    unusual = [settings[name] for name, usual in _USUAL.items() if name in settings and settings[name].value != usual]
    label = ", ".join(setting.label for setting in unusual if setting.value is not None) or evaluation.label
    return f"{label} [{evaluation.variant}]" if evaluation.variant else label


@dataclass(frozen=True, slots=True, kw_only=True)
class SinceBefore:
    """The newest line of a label compared with an earlier one that had the same cases."""

    before: HistoryLine
    #: Its p-values are, in a series, adjusted for all tests of the history.
    comparison: Comparison

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {
            "run_id": self.before.run["run_id"],
            **self.comparison.difference.to_dict_of_several(),
            "real": self.comparison.real,
            "settings": to_json(self.comparison.settings),
            "sentence": self.comparison.sentence,
            "ratios": to_json(self.comparison.ratios),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The lines of one label, in order of time."""

    label: str
    lines: tuple[HistoryLine, ...]
    #: The newest line compared with the last and the first earlier one with the same cases; empty if there is none.
    since: tuple[SinceBefore, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the series as JSON values."""
        changes = [(), *(now.changes_since(before) for before, now in pairwise(self.lines))]
        lines = [
            {**to_json(line), "changes": to_json(settings)} for line, settings in zip(self.lines, changes, strict=True)
        ]
        return {"label": self.label, "lines": lines, "since": [since.to_dict() for since in self.since]}


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The lines of a history file."""

    lines: tuple[HistoryLine, ...]
    #: Problems with reading it, one line each.
    warnings: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> History:
        """
        Read a file; damaged lines are skipped, with a warning that counts them.

        RecordError if the file cannot be read, if a JSON line is not one of a history, or if more lines are damaged
        than intact: then it is another file.
        """
        lines: dict[tuple[object, ...], HistoryLine] = {}
        damaged: list[RecordError] = []
        for text in FileReader(root=path.parent, longest_line=LONGEST_LINE, error=RecordError).read_lines(path):
            if text.data is not None and not text.data.strip():
                continue
            try:
                line = HistoryLine.from_dict(parse_json(text.data or b"", largest=LONGEST_LINE))
            except Unreadable as error:
                damaged.append(RecordError(f"{path}:{text.number}: {error.problem}"))
                continue
            except RecordError as error:
                first = damaged[0] if damaged else f"{path}:{text.number}: {error}"
                raise RecordError(f"{first}; {_EXPECTED}", where=path) from error
            lines.setdefault(line.identity, line)
        if len(damaged) > max(1, len(lines)):
            raise RecordError(f"{damaged[0]}; {_EXPECTED}", where=path)
        return cls(lines=tuple(lines.values()), warnings=journal.skipped(damaged))

    @property
    def series(self) -> tuple[Series, ...]:
        """Return the lines by label, in order of time."""
        by_label: dict[str, list[HistoryLine]] = {}
        for line in sorted(self.lines, key=lambda line: line.started_at):
            by_label.setdefault(line.label, []).append(line)
        compared = {label: _last_and_first(lines) for label, lines in by_label.items()}
        together = iter(adjust_together([since.comparison for of_label in compared.values() for since in of_label]))
        since = {
            label: tuple(replace(pair, comparison=next(together)) for pair in of_label)
            for label, of_label in compared.items()
        }
        labels = dict.fromkeys(line.label for line in self.lines)
        return tuple(Series(label=label, lines=tuple(by_label[label]), since=since[label]) for label in labels)


def _last_and_first(lines: Sequence[HistoryLine]) -> list[SinceBefore]:
    """Return the newest line compared with the last and the first one that had its cases."""
    *earlier, newest = lines
    with_same_cases = newest.with_same_cases(earlier)
    return [
        SinceBefore(before=then, comparison=newest.since(then))
        for then in (*with_same_cases[-1:], *with_same_cases[:-1][:1])
    ]


def add(path: Path, lines: Iterable[HistoryLine]) -> tuple[list[HistoryLine], History]:
    """
    Add a line for each new run; return the added ones, and the content before.

    Other processes that add to the file wait meanwhile. JournalError if the disk fails.
    """
    try:
        with locked(path) as file:
            before = History.read(path)
            seen = {line.identity for line in before.lines}
            added = [line for line in lines if line.identity not in seen]
            size = file.seek(0, os.SEEK_END)
            torn = b""
            if size:
                file.seek(size - 1)
                torn = b"" if file.read(1) == b"\n" else b"\n"
            text = "".join(json.dumps(to_json(line), ensure_ascii=True, allow_nan=False) + "\n" for line in added)
            if added:
                append_whole(file, torn + text.encode("ascii"), size)
    except OSError as error:
        raise JournalError(f"cannot write {path}: {unwritable(path, error)}", where=path) from error
    return added, before


#: The last format is that of run names.
_TIMES = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y%m%dT%H%M%S")
#: Legend of the column of changes.
_LEGEND = "cases that pass more often than in the line before with the same cases, and cases that pass less often"


def report(history: Sequence[Series], *, last: int) -> Iterator[Block]:
    """Return the series one after the other, each with its newest lines."""
    for series in history:
        yield Heading("label", series.label)
        yield _table(series, last)
        yield list(_changed_settings(series, last))
        yield list(_newest(series))
    if any(len(series.lines) > 1 for series in history):
        yield [("since", _LEGEND)]


def _table(series: Series, last: int) -> TableBlock:
    """Return the newest lines of a series as a table."""
    first = max(0, len(series.lines) - last)
    lines = series.lines[first:]
    runs = [(when, line.evaluation) for when, line in zip(_times(lines), lines, strict=True)]
    lacking = [sum(line.metrics.get(name, 0) for name in ("errors", "unjudged")) for line in lines]
    changes = [_change(line, series.lines[:at]) for at, line in enumerate(lines, first)]
    table = table_of_runs(runs).beside(Column.of(FIGURES["errors"]), lacking)
    return table.beside(Column(heading="Since"), changes)


def _times(lines: Sequence[HistoryLine], forms: Sequence[str] = _TIMES) -> list[str]:
    """Format the time of each, as precisely as needed to distinguish them."""
    times: list[str] = []
    for form in forms:
        times = [f"{line.started_at:{form}}" for line in lines]
        if len(set(times)) == len(times):
            break
    return times


def _change(line: HistoryLine, earlier: Sequence[HistoryLine]) -> str:
    """Count the cases that improved and got worse since the last line with the same cases."""
    if not earlier:
        return ""
    with_same_cases = line.with_same_cases(earlier)
    if not with_same_cases:
        return "other cases"
    rose, fell = line.cases.changes_since(with_same_cases[-1].cases)
    return f"+{rose} -{fell}"


def _changed_settings(series: Series, last: int) -> Iterator[Fact]:
    """Return the settings of each of the newest lines that differ from the line before it."""
    timed = list(zip(_times(series.lines, _TIMES[1:]), series.lines, strict=True))
    for (_, before), (when, line) in list(pairwise(timed))[-last:]:
        if changes := "; ".join(by_bearing(line.changes_since(before))):
            yield "changed", f"{when}: {changes}"


def _newest(series: Series) -> Iterator[Fact]:
    """Compare the newest line with the one before it, and with the first one."""
    if not series.since and len(series.lines) > 1:
        yield "newest", "its cases or their schemas are not those of any line before: nothing can be compared"
    times = _times(series.lines, _TIMES[1:])
    for word, since in zip(("newest", "and"), series.since, strict=False):
        when = times[series.lines.index(since.before)]
        tests = since.comparison.difference.comparisons
        holm = f" (adjusted for {tests} tests, Holm)" if tests > 1 else ""
        yield word, f"since {when}: {since.comparison.sentence}{holm}"
        yield from since.comparison.ratio_sentences
        # changes since the line before are already below the table
        settings = since.comparison.settings
        yield from incomparable(settings) if since.before is series.lines[-2] else apart(settings)
