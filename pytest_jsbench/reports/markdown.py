"""The summary as GitHub Markdown, and failing cases as annotations of a GitHub workflow."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_jsbench.core.text import counted, printable
from pytest_jsbench.reports.comparison_table import apart, beside_verdicts
from pytest_jsbench.reports.summary_table import (
    NOT_APPLICABLE,
    add_column,
    facts,
    figure,
    microseconds,
    milliseconds,
    with_interval,
)
from pytest_jsbench.reports.variant_table import asked, ends_of, heading, said_of_differing, standing, variant_rows
from pytest_jsbench.runs.outcomes import Records

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.metrics.comparison import Comparison
    from pytest_jsbench.metrics.gates import GateResult
    from pytest_jsbench.metrics.metrics import Metrics
    from pytest_jsbench.metrics.summary import KeywordMetrics, Summary
    from pytest_jsbench.runs.outcomes import AttemptOutcome, Run, RunVerdict
    from pytest_jsbench.runs.records import Record

_MOST_FAILURES = 50
#: characters of what is said of a subject
LONGEST_FACT = 2000
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
        lines += [verdict_line(run.verdict), ""]
    if summary.variants:
        lines += _variants(run, summary)
    else:
        lines += _table(summary, labelled=run.metadata.labelled)
    lines += ["", *(f"- {line}" for line in _facts(run, summary, comparisons or {}))]
    lines += [f"- gate {'met' if gate.met else '**NOT MET**'}: {code(gate.message)}" for gate in gates]
    if summary.keywords:
        lines += ["", *_keywords(summary)]
    if failing := run.failed():
        lines += ["", *_failures(failing)]
    return "\n".join(lines) + "\n"


def _variants(run: Run, summary: Summary) -> Iterator[str]:
    """A row per variant, best first; what is more than chance; rates by task, and the cases that differ."""
    headers, rows = variant_rows(summary, labelled=run.metadata.labelled)
    told = asked(run, summary)
    yield from table([*headers, "Asked"], ([cell(name), *figures, cell(told[name])] for name, *figures in rows))
    yield ""
    for word, text in standing(summary):
        yield f"- {fact(word, text)}"
    names = [cell(name) for name in summary.variants]
    if len(summary.tasks) > 1:
        by_task = (_by_task(summary, task) for task in summary.tasks)
        yield from ("", *folded("Pass rate by task", ["Task", *names], by_task))
    if summary.differing:
        cases = summary.differing[:_MOST_FAILURES]
        cut = f", the first {len(cases)}" if len(cases) < len(summary.differing) else ""
        title = f"{said_of_differing(summary)}{cut}"
        yield from ("", *folded(title, ["Case", *names], (_by_case(summary, key) for key in cases)))


def _by_task(summary: Summary, task: str) -> list[str]:
    found = [one.tasks.get(task) for one in summary.variants.values()]
    return [cell(task), *(NOT_APPLICABLE if one is None else with_interval(one.pass_rate) for one in found)]


def _by_case(summary: Summary, key: CaseKey) -> list[str]:
    ends = ends_of(summary, key)
    return [cell(str(key)), *(ends.get(name, "") for name in summary.variants)]


_MODELS = ("Declared coverage", "Empirical coverage", "Pass rate", "TTFT (s)", "TPOT (ms)", "TGT (s)")
_GRAMMARS = (
    *("Declared coverage", "Valid, rejected", "Invalid, accepted", "Pass rate"),
    *("Compilation (ms)", "without a mask (ms)", "Mask (µs)"),
)


def _table(summary: Summary, *, labelled: bool) -> list[str]:
    """A row per task, and the total."""
    known = [*((cell(task), metrics) for task, metrics in summary.tasks.items()), ("**total**", summary.total)]
    figures = _decisions if labelled else _figures
    columns = ["Task", *(_GRAMMARS if labelled else _MODELS)]
    rows = [[name, *figures(metrics)] for name, metrics in known]
    measured = [metrics for _, metrics in known]
    if summary.total.value_accuracy.n:
        add_column(columns, rows, "Values right", [with_interval(one.value_accuracy) for one in measured])
    if summary.total.reasoning_time.count:
        add_column(columns, rows, "Reasoning (s)", [figure(one.reasoning_time.p50) for one in measured])
    add_column(columns, rows, "Errors", [str(one.errors) for one in measured])
    return table(columns, rows)


def _figures(metrics: Metrics) -> list[str]:
    rates = (metrics.declared_coverage, metrics.empirical_coverage, metrics.pass_rate)
    return [*map(with_interval, rates), *map(figure, (metrics.ttft.p50, metrics.tpot.p50, metrics.tgt.p50))]


def _decisions(metrics: Metrics) -> list[str]:
    rates = (metrics.declared_coverage, metrics.over_constraint, metrics.under_constraint, metrics.pass_rate)
    compilation = (metrics.grammar_compilation.p50, metrics.compile_time.p50)
    return [*map(with_interval, rates), *map(milliseconds, compilation), microseconds(metrics.mask_time.p50)]


def _keywords(summary: Summary) -> list[str]:
    """The metrics by keyword, most failures first."""
    headers = ["Keyword", "Broken by", "Wrong decisions", "Used in", "Pass rate where used"]
    rows = (_of_keyword(*named) for named in list(summary.keywords.items())[:_MOST_FAILURES])
    return folded("By keyword of the schema", headers, rows)


def _of_keyword(name: str, found: KeywordMetrics) -> list[str]:
    wrong = f"{found.wrong_decisions.successes} of {found.wrong_decisions.n}"
    broken = NOT_APPLICABLE if found.failures is None else str(found.failures)
    decided = wrong if found.wrong_decisions.n else NOT_APPLICABLE
    return [cell(name), broken, decided, str(found.pass_rate.n), with_interval(found.pass_rate)]


def _facts(run: Run, summary: Summary, comparisons: Mapping[str, Comparison]) -> Iterator[str]:
    total = summary.total
    passed = "nothing was judged" if total.pass_rate.value is None else f"passed {total.passed} of {total.planned}"
    yield f"{passed}; rates with their 95 % intervals, times as medians"
    for name, text in facts(run, summary):
        yield fact(name, text)
    for variant, comparison in comparisons.items():
        of = f" (variant {code(variant)})" if variant else ""
        yield f"against the baseline{of}: {comparison.sentence}"
        for word, keys in comparison.changes.items():
            more = f" and {len(keys) - _MOST_ANNOTATIONS} more" if len(keys) > _MOST_ANNOTATIONS else ""
            yield f"{word}: {', '.join(code(str(key)) for key in keys[:_MOST_ANNOTATIONS])}{more}"
        for word, text in (*beside_verdicts(comparison), *apart(comparison.settings)):
            yield fact(word, text)


def _failures(failing: Sequence[AttemptOutcome]) -> list[str]:
    rows = [
        [cell(_name(record)), record.failure[0], cell(record.failure[1])]
        for record in Records(failing[:_MOST_FAILURES])
    ]
    if len(failing) > _MOST_FAILURES:
        rows.append([f"… and {len(failing) - _MOST_FAILURES} more", "", ""])
    return folded(f"{counted(len(failing), 'attempt')} that did not pass", ["Case", "Failure", ""], rows)


def _name(record: Record) -> str:
    return record.attempt.name(several=record.repeat > 0)


def code(text: str, longest: int = _LONGEST_NAME) -> str:
    """Untrusted text as a code span, in which nothing is markup."""
    shown = printable(text, longest) or " "
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def verdict_line(verdict: RunVerdict) -> str:
    """The verdict, each of its reasons whole."""
    return f"**{verdict.status.upper()}**: {'; '.join(code(reason, LONGEST_FACT) for reason in verdict.because)}"


def cell(text: str) -> str:
    """Untrusted text as a code span in a table."""
    return code(text).replace("|", "\\|")


def fact(word: str, text: str) -> str:
    """A subject and what is said of it; one without a word is of settings."""
    return f"{word or 'settings'}: {code(text, LONGEST_FACT)}"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table of what is Markdown already."""
    head = [name.replace("\n", " ") for name in headers]
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def folded(title: str, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table that is shown when it is asked for."""
    return [f"<details><summary>{title}</summary>", "", *table(headers, rows), "", "</details>"]


def workflow_commands(run: Run, *, folder: str = "") -> list[str]:
    """
    A workflow command for the verdict, and one for each attempt that did not pass, as many as GitHub shows.

    An attempt of a project's own test names the test's file and line; `folder` is where files start in the repository.
    """
    passed = run.verdict is None or run.verdict.passed
    said = [] if run.verdict is None else [_said(run.verdict)]
    level, room = ("warning", _MOST_ANNOTATIONS) if passed else ("error", _MOST_ANNOTATIONS - len(said))
    failing = run.failed()
    return said + [
        f"::{level} {_place(record, folder)}title={_property(f'jsbench {_name(record)}')}::"
        f"{_data(': '.join(map(printable, record.failure)))}"
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
