"""
Read the runs of a directory, or a history file with one short line per run, and report how the newest run differs from
earlier ones.
"""

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
from pytest_jsbench.core.errors import JournalError, JSBenchError, RecordError
from pytest_jsbench.core.files import FileReader, Unreadable, append_whole, open_locked, parse_json, unwritable
from pytest_jsbench.core.json_values import Digest, digest, from_json, to_json, write_always
from pytest_jsbench.core.text import printable
from pytest_jsbench.formats import METRICS
from pytest_jsbench.metrics.case_outcomes import MEASURED, MISSING, PASSED, UNDECIDED, CaseOutcome
from pytest_jsbench.metrics.comparison import Comparison, adjust_together, compare
from pytest_jsbench.metrics.figures import FIGURES, RATES, TIMES, names_with_bounds
from pytest_jsbench.metrics.statistics import Share
from pytest_jsbench.records import journal
from pytest_jsbench.records.setting_differences import SettingDifference, differences
from pytest_jsbench.reports.baselines import kept_of_run
from pytest_jsbench.reports.blocks import Block, Column, Fact, Heading, TableBlock
from pytest_jsbench.reports.comparison_report import apart, by_bearing, incomparable, table_of_runs
from pytest_jsbench.reports.run_json import Evaluation, each_run, read

#: Version of the format of a line; raised when a field is added.
HISTORY_VERSION = "1.0"
#: Maximum length of a line in bytes.
LONGEST_LINE = 4_000_000
_LONGEST_LABEL = 200
_METRICS = (
    *("planned", "completions", "passed", "errors", "unjudged", "priced", "valid_instances", "invalid_instances"),
    *names_with_bounds(name for name in RATES if FIGURES[name].is_main),
    *(row.name for row in FIGURES.values() if row.is_main and not row.is_rate),
    *(f"{name}_count" for name, row in TIMES.items() if row.is_main),
    "input_tokens",
)
#: Number of significant digits of measurements.
_DIGITS = 6
#: Settings that are named in a label only if they differ from these defaults.
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
#: Maximum number of cases for which a line contains measurements, to limit the length of the line.
_MOST_MEASURED = 20_000
_EXPECTED = "expected the lines that `jsbench history add` writes"
#: Outcome of an attempt that did not pass; a line does not contain the failure type.
_FAILED = "failed"


class WrittenCases(Struct, frozen=True, kw_only=True):
    """Outcomes of the cases of a run, in the alphabetical order of their names."""

    #: Number of cases.
    count: Annotated[int, Meta(ge=0, le=10_000_000)]
    #: Digest of the names and schemas of the cases; equal for two runs with the same cases.
    digest: Digest
    #: Number of bits per case, which is the largest number of attempts at a case; 1 if absent.
    attempts: Annotated[int, Meta(ge=1, le=10_000_000)] = 1
    #: Attempts that passed, as the bits of a hexadecimal number; the lowest bit is the first attempt at the first case.
    passed: _Bits
    #: Attempts that give no information about the model, as bits like `passed`: the call failed, the attempt is
    #: missing, or the answer could not be judged.
    undecided: _Bits
    #: Times, tokens and cost by name: for each case, the mean of its attempts, or null without measurements; absent
    #: with more than 20,000 cases.
    measures: Mapping[str, tuple[_Number | None, ...]] = {}

    @classmethod
    def of(cls, evaluation: Evaluation, *, most_measured: int = _MOST_MEASURED) -> WrittenCases:
        """
        Return the outcomes of an evaluation for its line; raise RecordError if the evaluation does not contain
        outcomes.
        """
        if evaluation.outcomes is None:
            message = f"{evaluation.source} has no outcomes of cases; expected a run's directory or its run.json"
            raise RecordError(message, where=evaluation.source)
        ordered = sorted(evaluation.outcomes.items(), key=lambda pair: str(pair[0]))
        most = max((len(outcome.attempts) for _, outcome in ordered), default=1)
        ends = [end for _, case in ordered for end in (*case.attempts, *[MISSING] * (most - len(case.attempts)))]
        measured = {name: [case.find_measurements(name) for _, case in ordered] for name in MEASURED}
        measures = {
            name: tuple(float(f"{fmean(values):.4g}") if values else None for values in of_cases)
            for name, of_cases in measured.items()
            if any(of_cases) and len(ordered) <= most_measured
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
        """Raise RecordError if the numbers of bits and measurements do not match the number of cases."""
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
        Return the number of cases that pass more often than before, and the number of cases that pass less often.

        Additional attempts in one of the runs are ignored. This is ten times as fast as a full comparison, which would
        be too slow for every line of a table.
        """
        most = min(self.attempts, before.attempts)
        pairs = zip(before.shares(most), self.shares(most), strict=True)
        gains = [passed * were - had * are for (had, were), (passed, are) in pairs]
        return sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)

    def shares(self, most: int) -> list[Share]:
        """Return, for each case, how many of its first `most` attempts passed and how many were decided."""
        passed, undecided = self._digits()
        starts = range(0, self.count * self.attempts, self.attempts)
        return [(passed.count("1", at, at + most), undecided.count("0", at, at + most)) for at in starts]

    def _digits(self) -> tuple[str, str]:
        """Return the passed and the undecided attempts as binary digits, the first attempt first."""
        size = self.count * self.attempts
        passed, undecided = (f"{int(bits, 16):0{size}b}"[::-1] for bits in (self.passed, self.undecided))
        return passed, undecided

    @property
    def outcomes(self) -> dict[CaseKey, CaseOutcome]:
        """Outcomes of the cases by index; the mean measurements of a case are attributed to its first attempt."""
        ends: list[str] = []
        for is_right, is_open in zip(*self._digits(), strict=True):
            decided = PASSED if is_right == "1" else _FAILED
            ends.append(MISSING if is_open == "1" else decided)
        return {
            CaseKey(task="case", id=str(at)): CaseOutcome(
                attempts=tuple(ends[at * self.attempts : (at + 1) * self.attempts]),
                measures={name: (values[at],) for name, values in self.measures.items()},
            )
            for at in range(self.count)
        }


def _bits(ends: Iterable[bool]) -> str:
    """Return the values as a hexadecimal number whose lowest bit is the first value."""
    return f"{int(''.join('01'[end] for end in ends)[::-1] or '0', 2):x}"


class NamedRun(TypedDict):
    """Fields that identify a run."""

    #: Name of the run.
    run_id: Annotated[str, Meta(min_length=1)]
    #: Unique identifier of the run; null if not recorded.
    uuid: NotRequired[str | None]
    #: Start time of the run (ISO 8601, UTC).
    started_at: str


class _Run(Struct, frozen=True, kw_only=True):
    run: NamedRun


class HistoryLine(Struct, frozen=True, kw_only=True):
    """
    A run, or one variant of a run, as a line in a history file.

    Lines are added, never changed; fields are added, never removed. An absent field is unknown or not applicable.
    """

    #: Version of the format of the line; raised when a field is added.
    schema_version: str = write_always(HISTORY_VERSION)
    #: Name of the series to which the line belongs; lines with the same label and the same cases are compared.
    label: Annotated[str, Meta(min_length=1)]
    #: Variant of the run; empty in a run without variants.
    variant: str = write_always("")
    #: Settings of the run, as in run.json, that are compared with the settings of later runs.
    run: Mapping[str, Any]
    #: Metrics by the names in run.json.
    metrics: Mapping[str, _Number]
    #: Outcomes of the cases, in the alphabetical order of their names.
    cases: WrittenCases
    #: The run verdict; None if undecided.
    verdict: Literal["passed", "failed", "incomplete"] | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        """Key that is equal for two lines of the same run and variant."""
        return self.run.get("uuid") or self.run["run_id"], self.variant

    @property
    def started_at(self) -> datetime:
        """Start time of the run."""
        return datetime.fromisoformat(self.run["started_at"])

    @property
    def evaluation(self) -> Evaluation:
        """The line as an evaluation with metrics but without outcomes of cases."""
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
        """Return the line for a run or one of its variants; raise RecordError for an evaluation of another tool."""
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
        """Parse a line; raise RecordError if it is not a line of a history."""
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
        """Return the comparison with an earlier line that has the same cases."""
        return compare(before.cases.outcomes, self.cases.outcomes, self.changes_since(before))

    def changes_since(self, before: HistoryLine) -> tuple[SettingDifference, ...]:
        """Return the settings that differ from those of an earlier line."""
        settings = [before.evaluation.settings, self.evaluation.settings]
        return differences(settings, same_cases=self.cases.digest == before.cases.digest)

    def is_comparable(self, before: HistoryLine) -> bool:
        """
        Return whether the metrics are comparable with those of an earlier line.

        Both runs have to be complete, with the same cases and the same rules of the judge.
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
    """Return a label that does not depend on other runs: engine, model, and settings that differ from the defaults."""
    if given:
        return f"{given} {evaluation.variant}".rstrip()
    settings = evaluation.settings
    unusual = [settings[name] for name, usual in _USUAL.items() if name in settings and settings[name].value != usual]
    label = ", ".join(setting.label for setting in unusual if setting.value is not None) or evaluation.label
    return f"{label} [{evaluation.variant}]" if evaluation.variant else label


@dataclass(frozen=True, slots=True, kw_only=True)
class SinceBefore:
    """Comparison of the newest line of a label with an earlier line that has the same cases."""

    before: HistoryLine
    #: Comparison with the earlier line; in a `Series`, p-values are adjusted for all tests of the history.
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
    """Lines with the same label, the oldest first."""

    label: str
    lines: tuple[HistoryLine, ...]
    #: Comparisons of the newest line with the last and with the first earlier line that have the same cases; empty if
    #: no earlier line has the same cases.
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
    """The lines of a history file, or of the runs in a directory."""

    lines: tuple[HistoryLine, ...]
    #: Problems with reading the lines or runs, one line each.
    warnings: tuple[str, ...]

    @classmethod
    def of_runs(cls, folder: Path) -> History:
        """
        Read the run.json of each run in a directory; runs that cannot be read are skipped, with a warning each.

        Raise JSBenchError if no run can be read.
        """
        lines: dict[tuple[object, ...], HistoryLine] = {}
        warnings: list[str] = []
        problem: JSBenchError | None = None
        for path in each_run(folder):
            try:
                run = read(path)
                lines.update({line.identity: line for line in map(HistoryLine.of, run.each)})
            except JSBenchError as error:
                problem = problem or error
                warnings.append(f"{path} is left out: {error}")
            else:
                warnings += run.warnings
        if problem is not None and not lines:
            raise problem
        return cls(lines=tuple(lines.values()), warnings=tuple(warnings))

    @classmethod
    def read(cls, path: Path) -> History:
        """
        Read a history file; damaged lines are skipped, with a warning that counts them.

        Raise RecordError if the file cannot be read or is not a history. A file is not a history if a JSON line has
        another format, or if more lines are damaged than intact.
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
        return cls(lines=tuple(lines.values()), warnings=journal.describe_damage(damaged))

    @property
    def series(self) -> tuple[Series, ...]:
        """Lines by label, the oldest first in each series."""
        by_label: dict[str, list[HistoryLine]] = {}
        for line in sorted(self.lines, key=lambda line: line.started_at):
            by_label.setdefault(line.label, []).append(line)
        compared = {label: _last_and_first(lines) for label, lines in by_label.items()}
        adjusted_comparisons = iter(
            adjust_together([since.comparison for of_label in compared.values() for since in of_label])
        )
        since = {
            label: tuple(replace(pair, comparison=next(adjusted_comparisons)) for pair in of_label)
            for label, of_label in compared.items()
        }
        labels = dict.fromkeys(line.label for line in self.lines)
        return tuple(Series(label=label, lines=tuple(by_label[label]), since=since[label]) for label in labels)


def _last_and_first(lines: Sequence[HistoryLine]) -> list[SinceBefore]:
    """Return the comparisons of the newest line with the last and the first earlier line that have the same cases."""
    *earlier, newest = lines
    with_same_cases = newest.with_same_cases(earlier)
    return [
        SinceBefore(before=then, comparison=newest.since(then))
        for then in (*with_same_cases[-1:], *with_same_cases[:-1][:1])
    ]


def add(path: Path, lines: Iterable[HistoryLine]) -> tuple[list[HistoryLine], History]:
    """
    Add a line for each new run; return the added lines, and the earlier history.

    The file is locked while lines are added. Raise JournalError if it cannot be written.
    """
    try:
        with open_locked(path) as file:
            before = History.read(path)
            identities = {line.identity for line in before.lines}
            added = [line for line in lines if line.identity not in identities]
            size = file.seek(0, os.SEEK_END)
            line_end = b""
            if size:
                file.seek(size - 1)
                line_end = b"" if file.read(1) == b"\n" else b"\n"
            text = "".join(json.dumps(to_json(line), ensure_ascii=True, allow_nan=False) + "\n" for line in added)
            if added:
                append_whole(file, line_end + text.encode("ascii"), size)
    except OSError as error:
        raise JournalError(f"cannot write {path}: {unwritable(path, error)}", where=path) from error
    return added, before


#: Formats of a time, the shortest first; the last format is also used in run ids.
_TIMES = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y%m%dT%H%M%S")
#: Explanation of the column with the changes.
_LEGEND = "cases that pass more often, and cases that pass less often, than in the previous run with the same cases"


def report(history: Sequence[Series], *, last: int) -> Iterator[Block]:
    """Yield the report on each series, with its newest lines."""
    for series in history:
        yield Heading("label", series.label)
        yield _table(series, last)
        yield list(_changed_settings(series, last))
        yield list(_newest(series))
    differences = [since.comparison.difference for series in history for since in series.since]
    if differences and differences[0].comparisons > 1:
        yield [("p-values", f"adjusted for {differences[0].comparisons} comparisons (Holm)")]
    if any(len(series.lines) > 1 for series in history):
        yield [("since", _LEGEND)]


def _table(series: Series, last: int) -> TableBlock:
    """Return a table with the newest lines of a series."""
    first = max(0, len(series.lines) - last)
    lines = series.lines[first:]
    runs = [(when, line.evaluation) for when, line in zip(_times(lines), lines, strict=True)]
    lacking = [sum(line.metrics.get(name, 0) for name in ("errors", "unjudged")) for line in lines]
    changes = [_change(line, series.lines[:at]) for at, line in enumerate(lines, first)]
    table = table_of_runs(runs).beside(Column.of(FIGURES["errors"]), lacking)
    return table.beside(Column(heading="Since"), changes)


def _times(lines: Sequence[HistoryLine], forms: Sequence[str] = _TIMES) -> list[str]:
    """Return the start time of each line, in the shortest format in which all times differ."""
    times: list[str] = []
    for form in forms:
        times = [f"{line.started_at:{form}}" for line in lines]
        if len(set(times)) == len(times):
            break
    return times


def _change(line: HistoryLine, earlier: Sequence[HistoryLine]) -> str:
    """Return the numbers of cases that improved and got worse since the previous run with the same cases."""
    if not earlier:
        return ""
    with_same_cases = line.with_same_cases(earlier)
    if not with_same_cases:
        return "other cases"
    rose, fell = line.cases.changes_since(with_same_cases[-1].cases)
    return f"+{rose} -{fell}"


def _changed_settings(series: Series, last: int) -> Iterator[Fact]:
    """Yield the settings that changed between successive lines, for the newest lines."""
    timed = list(zip(_times(series.lines, _TIMES[1:]), series.lines, strict=True))
    for (_, before), (when, line) in list(pairwise(timed))[-last:]:
        if changes := "; ".join(by_bearing(line.changes_since(before))):
            yield "changed", f"{when}: {changes}"


def _newest(series: Series) -> Iterator[Fact]:
    """Yield the comparisons of the newest line with the last and the first earlier line that have the same cases."""
    if not series.since and len(series.lines) > 1:
        yield "newest", "no earlier line has the same cases with the same schemas: nothing can be compared"
    times = _times(series.lines, _TIMES[1:])
    for word, since in zip(("newest", "and"), series.since, strict=False):
        when = times[series.lines.index(since.before)]
        yield word, f"since {when}: {since.comparison.sentence}"
        yield from since.comparison.ratio_sentences
        # settings that changed since the previous line are already listed below the table
        settings = since.comparison.settings
        yield from incomparable(settings) if since.before is series.lines[-2] else apart(settings)
