"""The summary as GitHub Markdown, and failing cases as annotations of a GitHub workflow."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_jsbench.core.text import printable
from pytest_jsbench.reports.comparison_table import apart
from pytest_jsbench.reports.summary_table import NOT_APPLICABLE, facts
from pytest_jsbench.reports.variant_table import asked, ends_of, heading, said_of_differing, standing, variant_rows
from pytest_jsbench.runs.outcomes import Records

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.metrics.comparison import Comparison
    from pytest_jsbench.metrics.gates import GateResult
    from pytest_jsbench.metrics.metrics import Metrics
    from pytest_jsbench.metrics.statistics import Proportion
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.runs.outcomes import AttemptOutcome, Run
    from pytest_jsbench.runs.records import Record
    from pytest_jsbench.runs.run_verdict import RunVerdict

_MOST_FAILURES = 50
_LONGEST_FACT = 2000
#: no name of an attempt is longer, so that none is cut
_LONGEST_NAME = 700
#: GitHub shows no more of a step
_MOST_ANNOTATIONS = 10


def summary_markdown(
    run: Run,
    summary: Summary,
    gates: Sequence[GateResult] = (),
    comparisons: Mapping[str, Comparison] | None = None,
) -> str:
    """The summary as a section of Markdown; text of a model or a file is in code spans."""
    who = heading(run.metadata) if run.variants else f"{code(run.metadata.engine)} {code(run.metadata.model)}"
    lines = [f"### jsbench: {who}", ""]
    if run.verdict is not None:
        lines += [f"**{run.verdict.status.upper()}**: {'; '.join(map(code, run.verdict.because))}", ""]
    if summary.variants:
        lines += _variants(run, summary)
    else:
        lines += _decision_table(summary) if run.metadata.labelled else _table(summary)
    lines += ["", *(f"- {line}" for line in _facts(run, summary, comparisons or {}))]
    lines += [f"- gate {'met' if gate.met else '**NOT MET**'}: {code(gate.message)}" for gate in gates]
    if summary.keywords:
        lines += ["", *_keywords(summary)]
    failing = [outcome for outcome in run.outcomes if outcome.failing]
    if failing:
        lines += ["", *_failures(failing)]
    return "\n".join(lines) + "\n"


def _variants(run: Run, summary: Summary) -> Iterator[str]:
    """A row per variant, best first; what is more than chance; rates by task, and the cases that differ."""
    headers, rows = variant_rows(summary, labelled=run.metadata.labelled)
    told = asked(run, summary)
    yield f"| {' | '.join(head.replace(chr(10), ' ') for head in headers)} | Asked |"
    yield "|---" * len(headers) + "|---|"
    for name, *figures in rows:
        yield f"| {' | '.join([cell(name), *figures, cell(told[name])])} |"
    yield ""
    for word, text in standing(summary):
        yield f"- {word}: {code(text, _LONGEST_FACT)}"
    names = [cell(name) for name in summary.variants]
    if len(summary.tasks) > 1:
        yield from _folded("Pass rate by task", ["Task", *names], (_by_task(summary, task) for task in summary.tasks))
    if summary.differing:
        cases = summary.differing[:_MOST_FAILURES]
        cut = f", the first {len(cases)}" if len(cases) < len(summary.differing) else ""
        title = f"{said_of_differing(summary)}{cut}"
        yield from _folded(title, ["Case", *names], (_by_case(summary, key) for key in cases))


def _folded(title: str, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table that is shown when it is asked for."""
    yield from ("", f"<details><summary>{title}</summary>", "")
    yield f"| {' | '.join(headers)} |"
    yield "|---" * len(headers) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield from ("", "</details>")


def _by_task(summary: Summary, task: str) -> list[str]:
    found = [one.tasks.get(task) for one in summary.variants.values()]
    return [cell(task), *(NOT_APPLICABLE if one is None else _rate(one.pass_rate) for one in found)]


def _by_case(summary: Summary, key: CaseKey) -> list[str]:
    ends = ends_of(summary, key)
    return [cell(str(key)), *(ends.get(name, "") for name in summary.variants)]


def _table(summary: Summary) -> Iterator[str]:
    yield "| Task | Declared coverage | Empirical coverage | Pass rate | TTFT (s) | TPOT (ms) | TGT (s) | Errors |"
    yield "|---|---|---|---|---|---|---|---|"
    for task, metrics in summary.tasks.items():
        yield _row(cell(task), metrics)
    yield _row("**total**", summary.total)


def _decision_table(summary: Summary) -> Iterator[str]:
    yield "| Task | Declared coverage | Valid, rejected | Invalid, accepted | Pass rate | Compilation (ms) | Errors |"
    yield "|---|---|---|---|---|---|---|"
    for name, metrics in [(cell(task), one) for task, one in summary.tasks.items()] + [("**total**", summary.total)]:
        rates = (metrics.declared_coverage, metrics.over_constraint, metrics.under_constraint, metrics.pass_rate)
        seconds = metrics.grammar_compilation.p50
        compiled = NOT_APPLICABLE if seconds is None else f"{seconds * 1000:.2f}"
        yield f"| {' | '.join([name, *map(_rate, rates), compiled, str(metrics.errors)])} |"


def _keywords(summary: Summary) -> Iterator[str]:
    """The metrics by keyword, most failures first."""
    yield "<details><summary>By keyword of the schema</summary>"
    yield ""
    yield "| Keyword | Broken by | Wrong decisions | Used in | Pass rate where used |"
    yield "|---|---|---|---|---|"
    for name, found in list(summary.keywords.items())[:_MOST_FAILURES]:
        wrong = f"{found.wrong_decisions.successes} of {found.wrong_decisions.n}"
        broken = NOT_APPLICABLE if found.failures is None else str(found.failures)
        decided = wrong if found.wrong_decisions.n else NOT_APPLICABLE
        yield f"| {cell(name)} | {broken} | {decided} | {found.pass_rate.n} | {_rate(found.pass_rate)} |"
    yield ""
    yield "</details>"


def _row(name: str, metrics: Metrics) -> str:
    rates = (metrics.declared_coverage, metrics.empirical_coverage, metrics.pass_rate)
    times = (metrics.ttft.p50, metrics.tpot.p50, metrics.tgt.p50)
    shown = [*map(_rate, rates), *(NOT_APPLICABLE if time is None else f"{time:.2f}" for time in times)]
    return f"| {' | '.join([name, *shown, str(metrics.errors)])} |"


def _rate(rate: Proportion) -> str:
    return NOT_APPLICABLE if rate.value is None else f"{rate.value:.3f} ({rate.ci_low:.3f} to {rate.ci_high:.3f})"


def _facts(run: Run, summary: Summary, comparisons: Mapping[str, Comparison]) -> Iterator[str]:
    total = summary.total
    yield f"passed {total.passed} of {total.planned}; rates with their 95 % intervals, times as medians"
    if not total.complete:
        yield f"**incomplete**: {_attempts(total.errors)} broken or missing, {total.unjudged} unjudged"
    for name, text in facts(run, summary):
        yield f"{name}: {code(text, _LONGEST_FACT)}"
    for variant, comparison in comparisons.items():
        of = f" (variant {code(variant)})" if variant else ""
        yield f"against the baseline{of}: {comparison.sentence}"
        for word, keys in (("broke", comparison.newly_failing), ("mended", comparison.newly_passing)):
            if keys:
                more = f" and {len(keys) - _MOST_ANNOTATIONS} more" if len(keys) > _MOST_ANNOTATIONS else ""
                yield f"{word}: {', '.join(code(str(key)) for key in keys[:_MOST_ANNOTATIONS])}{more}"
        for word, text in apart(comparison.settings):
            yield f"{word or 'settings'}: {code(text, _LONGEST_FACT)}"


def _failures(failing: Sequence[AttemptOutcome]) -> Iterator[str]:
    yield f"<details><summary>{_attempts(len(failing))} that did not pass</summary>"
    yield ""
    yield "| Case | Failure | |"
    yield "|---|---|---|"
    for record in Records(failing[:_MOST_FAILURES]):
        yield f"| {cell(_name(record))} | {record.verdict.failure_type} | {cell(record.verdict.message)} |"
    if len(failing) > _MOST_FAILURES:
        yield f"| … and {len(failing) - _MOST_FAILURES} more | | |"
    yield ""
    yield "</details>"


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count:,} attempts"


def _name(record: Record) -> str:
    return record.attempt.name(several=record.repeat > 0)


def code(text: str, longest: int = _LONGEST_NAME) -> str:
    """Untrusted text as a code span, in which nothing is markup."""
    shown = printable(text, longest) or " "
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def cell(text: str) -> str:
    """Untrusted text as a code span in a table."""
    return code(text).replace("|", "\\|")


def workflow_commands(run: Run, *, folder: str = "") -> list[str]:
    """
    A workflow command for the verdict, and one for each attempt that did not pass, as many as GitHub shows.

    An attempt of a project's own test names the test's file and line; `folder` is where files start in the repository.
    """
    passed = run.verdict is None or run.verdict.passed
    said = [] if run.verdict is None else [_said(run.verdict)]
    level, room = ("warning", _MOST_ANNOTATIONS) if passed else ("error", _MOST_ANNOTATIONS - len(said))
    failing = [outcome for outcome in run.outcomes if outcome.failing]
    return said + [
        f"::{level} {_place(record, folder)}title={_property(f'jsbench {_name(record)}')}::"
        f"{_data(f'{record.verdict.failure_type}: {printable(record.verdict.message)}')}"
        for record in Records(failing[:room])
    ]


def _place(record: Record, folder: str) -> str:
    if record.asked_by is None:
        return ""
    path = posixpath.normpath(posixpath.join(folder, record.asked_by.test.partition("::")[0]))
    line = "" if record.asked_by.line is None else f"line={record.asked_by.line},"
    return f"file={_property(path)},{line}"


def _said(verdict: RunVerdict) -> str:
    return f"::{'notice' if verdict.passed else 'error'} title=jsbench::{_data(verdict.text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")
