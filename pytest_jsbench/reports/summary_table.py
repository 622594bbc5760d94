"""The summary as lines for people."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tabulate import tabulate

from pytest_jsbench.core.text import counted, distinct, dollars, printable
from pytest_jsbench.metrics.figures import COUNTED_FAILURES
from pytest_jsbench.metrics.metrics import Metrics
from pytest_jsbench.metrics.statistics import Distribution, Proportion, Rate
from pytest_jsbench.metrics.summary import Summary
from pytest_jsbench.runs.outcomes import Run
from pytest_jsbench.runs.records import Cause, MissingReason
from pytest_jsbench.runs.settings import RECORDED, settings_of
from pytest_jsbench.verdicts import UNDESCRIBED

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import CaseKey
    from pytest_jsbench.metrics.comparison import CaseOutcome

NOT_APPLICABLE = "n/a"
#: where the column of values stands, where values are expected
_VALUES_AT = 3
_WIDTH = 80
#: of a name that is cut
_NARROWEST_NAME = 6
_LONGEST_KEYWORD = 24
#: of a task beside which there is room for rates of decisions
_SHORT_NAME = 9
_MOST_NAMED = 5
_DETAIL_INDENT = 11
#: seconds in the queue from which on a fact says so
_LONG_QUEUE = 60.0


#: the head of a table, and its rows
Table = tuple[list[str], list[list[str]]]


def table_of_tasks(run: Run, summary: Summary) -> list[str]:
    """The table of a run without variants, one row per task and a total, within 80 columns; times are medians."""
    return fitted(*rows_of_tasks(run, summary), total=True)


def rows_of_tasks(run: Run, summary: Summary) -> Table:
    """The same as it is: a grammar's decisions on labelled answers, or coverage and times."""
    return (_of_decisions if run.metadata.labelled else _of_coverage)(summary)


def _of_coverage(summary: Summary) -> Table:
    headers = [
        "Task",
        "Declared\ncoverage",
        "Empirical\ncoverage",
        "TTFT\n(s)",
        "TPOT\n(ms)",
        "TGT\n(s)",
        "GCT\n(s)",
    ]
    measured = [*summary.tasks.values(), summary.total]
    rows = [_row(name, metrics) for name, metrics in zip([*summary.tasks, "total"], measured, strict=True)]
    if summary.total.value_accuracy.n:
        add_column(headers, rows, "Values\nright", [rate(one.value_accuracy) for one in measured], at=_VALUES_AT)
    if summary.total.reasoning_time.count:
        add_column(headers, rows, "Reasoning\n(s)", [figure(one.reasoning_time.p50) for one in measured])
    return _with_errors(summary, headers, rows)


def as_html(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as HTML, in which every name is escaped."""
    plain = [[printable(name, None), *figures] for name, *figures in rows]
    return tabulate(
        plain, headers=[name.replace("\n", " ") for name in headers], tablefmt="html", disable_numparse=True
    )


def add_column(
    headers: list[str], rows: list[list[str]], head: str, cells: Sequence[str], *, at: int | None = None
) -> None:
    """Put a column into a table at that place, or at its end."""
    for row, cell in zip((headers, *rows), (head, *cells), strict=True):
        row.insert(len(row) if at is None else at, cell)


def _of_decisions(summary: Summary) -> Table:
    headers = ["Task", "Declared\ncoverage", "Passed", "Valid,\nrejected", "Invalid,\naccepted", "Compile\n(ms)"]
    # a long name has room beside counts, which imply the rates
    show = of if max(map(len, summary.tasks), default=0) <= _SHORT_NAME else _counts
    rows = [_decision_row(task, metrics, show) for task, metrics in (*summary.tasks.items(), ("total", summary.total))]
    return _with_errors(summary, headers, rows)


def _with_errors(summary: Summary, headers: list[str], rows: list[list[str]]) -> Table:
    """The table with a column of errors, where there are errors."""
    if summary.total.errors:
        errors = [str(metrics.errors) for metrics in (*summary.tasks.values(), summary.total)]
        add_column(headers, rows, "Errors", errors)
    return headers, rows


def fitted(headers: list[str], rows: list[list[str]], align: Sequence[str] = (), *, total: bool = False) -> list[str]:
    """The rows as a table within 80 columns: names in the first column are cut; a rule stands above a total."""
    names = [name for name, *_ in rows]

    def lay_out(longest: int) -> list[str]:
        named = [[name, *figures] for name, (_, *figures) in zip(distinct(names, longest), rows, strict=True)]
        return aligned(headers, named, align)

    lines = lay_out(_WIDTH)
    at = next(at for at, line in enumerate(lines) if line.startswith("-"))
    if (excess := len(lines[at]) - _WIDTH) > 0:
        lines = lay_out(max(_NARROWEST_NAME, lines[at].index(" ") - excess))
    return [*lines[:-1], lines[at], lines[-1]] if total else lines


def aligned(headers: Sequence[str], rows: Sequence[Sequence[str]], align: Sequence[str] = ()) -> list[str]:
    """A table for a terminal, its first column to the left and all others to the right, or each as `align` says."""
    align = align or ["left", *["right"] * (len(headers) - 1)]
    text = tabulate(rows, headers=headers, tablefmt="simple", disable_numparse=True, colalign=align)
    return text.splitlines()


def keyword_table(summary: Summary) -> list[str]:
    """The breakdown by keyword, one row each, most failures (or wrong decisions) first."""
    labelled = any(figures.wrong_decisions.n for figures in summary.keywords.values())
    rows = [
        [
            name,
            *([of(figures.wrong_decisions)] if labelled else []),
            NOT_APPLICABLE if figures.failures is None else str(figures.failures),
            str(figures.pass_rate.n),
            rate(figures.pass_rate),
        ]
        for name, figures in zip(
            distinct(list(summary.keywords), _LONGEST_KEYWORD), summary.keywords.values(), strict=True
        )
    ]
    broke = ["Wrong decisions\nwhere used", "Accepted that\nbreak it"] if labelled else ["Answers that\nbroke it"]
    return aligned(["Keyword", *broke, "Attempts whose\nschema uses it", "Pass\nrate"], rows)


def details(run: Run, summary: Summary) -> list[str]:
    """The facts beside the table, one subject a line, within 80 columns."""
    return [line for name, text in facts(run, summary) for line in detail(name, text)]


def detail(name: str, text: str) -> list[str]:
    """A subject and its text, wrapped."""
    indent = " " * _DETAIL_INDENT
    lines = textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=name.ljust(_DETAIL_INDENT),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,  # a path is to be copied
    )
    return [printable(line, None) for line in lines]  # a line may begin where the text did not


def _asked_otherwise(run: Run) -> Iterator[tuple[str, str]]:
    """The settings of recorded answers that differ from this run's, one line for each difference."""
    changes = Counter(attempt.asked_otherwise for attempt in run.outcomes if attempt.asked_otherwise)
    for change, count in changes.most_common():
        answers = f"{counted(count, 'answer')} {'was' if count == 1 else 'were'}"
        said = f"{answers} recorded with other settings ({printable(change, 500)}); record again with --jsbench-record"
        yield "settings", said


def _remembered(run: Run) -> Iterator[tuple[str, str]]:
    """Say how many answers were taken from recordings, and that times are of then; nothing where none was."""
    if run.metadata.engine in RECORDED:
        yield "recorded", "answers and times are those of the recording: nothing was asked or measured"
    elif count := sum(one.remembered for one in run.outcomes):
        made = sum(one.made for one in run.outcomes)
        yield "recorded", f"{count} of {counted(made, 'answer')} recorded before: not asked again, and free"


def facts(run: Run, summary: Summary) -> list[tuple[str, str]]:
    """The facts beside the table, by subject; every output for people shows all of them."""
    return [*_measured(run, summary), *_noticed(summary), *_left_out(run, summary)]


def _measured(run: Run, summary: Summary) -> Iterator[tuple[str, str]]:
    total = summary.total
    yield "pass rate", f"{_pass_rate(total)}{' over all variants' if summary.variants else ''}"
    if total.tests_passed.n:
        yield "tests", _tests(total)
    if total.planned > total.cases and not summary.variants:
        yield "repeats", _repeats(total)
        if flaky := [(key, outcome) for key, outcome in summary.outcomes.items() if outcome.flaky]:
            yield "flaky", _flaky(flaky)
    if total.exact_match.n or total.uncompared:
        yield "values", _values(total)
        if idle := _idle_comparers(run, total):
            yield "comparers", f"no value is expected of {', '.join(map(printable, idle))}"
    if said := _sampled(run):
        yield "sampled", said
    if said := _asked_to_reason(run):
        yield "reasoning", said
    yield from _remembered(run)
    yield from _asked_otherwise(run)
    if total.compile_time.count:
        alone, first = (_spread(times, milliseconds) for times in (total.compile_time, total.grammar_compilation))
        yield "grammars", f"compiled (ms): {alone}; up to the first mask: {first}"
    if masks := total.mask_time.count:
        spread = _spread(total.mask_time, microseconds)
        yield "masks", f"{counted(masks, 'mask')} after the first of each answer (µs): {spread}"
    failures = [(kind, total.failure_counts[kind]) for kind in COUNTED_FAILURES]
    ranked = sorted((pair for pair in failures if pair[1]), key=lambda pair: -pair[1])
    of_tests = [(cause, count) for cause, count in total.test_failures.items() if count and cause is not Cause.ANSWER]
    yield "failures", ", ".join(f"{kind.value} {count}" for kind, count in (*ranked, *of_tests)) or "none"
    if run.metadata.classifiers:
        yield "classified", f"by {', '.join(map(printable, run.metadata.classifiers))}"
    if total.code_counts:
        yield "codes", ", ".join(f"{printable(code)} {count}" for code, count in total.code_counts.items())
    if not run.metadata.labelled:
        yield "tokens", _tokens(total)
    if total.cost is not None:
        yield "cost", dollars(total.cost) + _of_answers(total.priced, total.unpriced)
    elif summary.cost_problem:
        yield "cost", f"{NOT_APPLICABLE} ({printable(summary.cost_problem)})"


def _noticed(summary: Summary) -> Iterator[tuple[str, str]]:
    """What was noticed and decided no verdict."""
    total = summary.total
    if notes := [f"{note.value} {count}" for note, count in total.note_counts.items() if count]:
        yield "noted", ", ".join(notes)
    if total.retries:
        yield "retries", f"{counted(total.retries, 'failed call')} made again"
    if (longest := total.queue.max) is not None and longest >= _LONG_QUEUE:
        yield (
            "queue",
            f"half of the calls waited {total.queue.p50:.1f} s or more to be sent, one {longest:.1f} s",
        )
    if total.disputed:
        yield "disputed", _disputed(summary)


def _left_out(run: Run, summary: Summary) -> Iterator[tuple[str, str]]:
    """What the metrics leave out."""
    total = summary.total
    if total.excluded:  # which counts attempts: all repeats, in all variants
        excluded = {
            outcome.key: outcome.reason == UNDESCRIBED
            for outcome in run.outcomes
            if outcome.excluded and not run.breaks(outcome)
        }
        if broken := len(excluded) - sum(excluded.values()):
            yield "excluded", f"{counted(broken, 'case')} whose own schema is broken (skipped)"
        if free := sum(excluded.values()):
            yield "excluded", f"{counted(free, 'answer')} to an application that no schema describes"
    if total.called_again:
        calls = counted(total.called_again, "call")
        yield "again", f"{calls} after which an application called again for the same: the last one counts"
    if total.unjudged:
        yield "unjudged", f"{counted(total.unjudged, 'answer')} that could not be judged: the figures are incomplete"
    if run.metadata.redacted:
        yield "redacted", "digests stand for prompts, schemas and answers: nothing can be judged again or replayed"
    if run.resumed:
        yield "resumed", f"{counted(run.resumed, 'answer')} of {run.metadata.resumed_from} taken over, not called again"
    if total.errors:
        yield "errors", _errors(run, total)


def _values(total: Metrics) -> str:
    """How many values are right, and which fields are wrong most often."""
    conforming, invented = of(total.value_accuracy_conforming), counted(total.invented, "value")
    said = f"{of(total.value_accuracy)} right, {conforming} of answers that conform"
    said += f"; {of(total.exact_match)} answers right in all"
    if total.invented:
        said += f"; {invented} that nobody expects"
    wrong = [(name, one) for name, one in total.fields.items() if one.successes < one.n]
    ranked = sorted(wrong, key=lambda pair: pair[1].value or 0.0)[:_MOST_NAMED]
    if ranked:
        said += (
            f"; least often right: {', '.join(f'{printable(name)} {one.successes}/{one.n}' for name, one in ranked)}"
        )
    if total.uncompared:
        left = counted(total.uncompared, "answer")
        said += f"; {left} that could not be compared: match.problem in records.jsonl says why"
    return said


def _idle_comparers(run: Run, total: Metrics) -> list[str]:
    """The fields for which the run has a comparer and no answer an expected value, as where a name is misspelt."""
    if total.uncompared:  # nobody knows what these answers would have had
        return []
    wanted = [name for name, how in run.metadata.comparers.items() if name != "$" and how != "ignore"]
    return [name for name in wanted if not any(f"{one}.".startswith(f"{name}.") for one in total.fields)]


def _tests(total: Metrics) -> str:
    """How many attempts the project's own tests took, and why they refused the others."""
    ranked = sorted(total.test_failures.items(), key=lambda pair: -pair[1])
    why = ", ".join(f"{reason.value} {count}" for reason, count in ranked if count)
    return f"{of(total.tests_passed)} passed{f'; {why}' if why else ''}"


def _repeats(total: Metrics) -> str:
    def shown(found: Proportion) -> str:
        if found.value is None:
            return NOT_APPLICABLE
        return f"{found.successes}/{found.n} = {found.value:.3f} ({found.ci_low:.3f} to {found.ci_high:.3f})"

    every, some = shown(total.pass_hat_k), shown(total.pass_at_k)
    return f"every attempt of a case passed (pass^k) {every}, at least one (pass@k) {some}"


def _sampled(run: Run) -> str:
    """How all answers were really sampled, as far as it is known; empty where nothing is."""
    metadata = run.metadata
    if metadata.labelled or run.variants or any(outcome.asked_by for outcome in run.outcomes):
        return ""
    known = settings_of({"engine": metadata.engine, "params": metadata.params})
    told = [known[name] for name in ("temperature", "seed") if name in known and known[name].value is not None]
    said = ", ".join(one.label for one in told)
    if metadata.repeats == 1 or not told:
        return said
    if told[0].name == "temperature" and told[0].value == 0:
        return f"{said}: the attempts at a case repeat each other, as far as its engine is exact"
    return f"{said}, raised by 1 in each further attempt at a case" if told[-1].name == "seed" else said


def _asked_to_reason(run: Run) -> str:
    """How the model of all answers was asked to reason; empty where it was not."""
    details = {} if run.variants or any(outcome.asked_by for outcome in run.outcomes) else run.metadata.details
    asked = {"effort": details.get("reasoning_effort"), "budget": details.get("reasoning_budget")}
    return ", ".join(f"{name} {printable(str(value))}" for name, value in asked.items() if value is not None)


def _flaky(flaky: Sequence[tuple[CaseKey, CaseOutcome]]) -> str:
    """The cases with attempts that differ, those nearest to one half first."""
    ranked = sorted(flaky, key=lambda pair: abs(2 * pair[1].passes - len(pair[1].decided)) / len(pair[1].decided))
    named = [f"{printable(str(key))} {one.passes}/{len(one.decided)}" for key, one in ranked[:_MOST_NAMED]]
    more = f", and {len(flaky) - _MOST_NAMED} more" if len(flaky) > _MOST_NAMED else ""
    return f"{counted(len(flaky), 'case')} passed at times only: {', '.join(named)}{more}"


def _disputed(summary: Summary) -> str:
    names = [printable(str(key)) for key in summary.disputed]
    more = f", and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    said = f"{counted(len(names), 'verdict')} on which the two validators disagree"
    return f"{said}: {', '.join(names[:_MOST_NAMED])}{more}"


def _row(task: str, metrics: Metrics) -> list[str]:
    return [
        task,
        rate(metrics.declared_coverage),
        rate(metrics.empirical_coverage),
        figure(metrics.ttft.p50),
        figure(metrics.tpot.p50),
        figure(metrics.tgt.p50),
        figure(metrics.gct.p50),
    ]


def _decision_row(task: str, metrics: Metrics, show: Callable[[Proportion], str]) -> list[str]:
    return [
        task,
        rate(metrics.declared_coverage),
        figure(metrics.pass_rate.value),
        show(metrics.over_constraint),
        show(metrics.under_constraint),
        milliseconds(metrics.grammar_compilation.p50),
    ]


def of(found: Proportion) -> str:
    """A rate and what it is of, for people."""
    return NOT_APPLICABLE if found.value is None else f"{found.successes}/{found.n} = {found.value:.3f}"


def _counts(found: Proportion) -> str:
    return NOT_APPLICABLE if found.value is None else f"{found.successes}/{found.n}"


def rate(found: Rate) -> str:
    """A rate and half of its interval, for people."""
    if found.value is None:
        return NOT_APPLICABLE
    return f"{found.value:.2f}" + ("" if found.half_width is None else f" ±{found.half_width:.2f}")


def with_interval(found: Rate) -> str:
    """A rate and its interval, for people."""
    if found.value is None:
        return NOT_APPLICABLE
    return f"{found.value:.3f}" + ("" if found.ci_low is None else f" ({found.ci_low:.3f} to {found.ci_high:.3f})")


def figure(value: float | None) -> str:
    """A number for people."""
    return NOT_APPLICABLE if value is None else f"{value:.2f}"


def milliseconds(seconds: float | None) -> str:
    """A short time for people."""
    return NOT_APPLICABLE if seconds is None else f"{seconds * 1000:,.2f}"


def microseconds(seconds: float | None) -> str:
    """A very short time for people."""
    return NOT_APPLICABLE if seconds is None else f"{seconds * 1e6:,.1f}"


def _spread(times: Distribution, show: Callable[[float | None], str]) -> str:
    return ", ".join(f"{part} {show(getattr(times, part))}" for part in ("mean", "p50", "p99", "max"))


def _pass_rate(total: Metrics) -> str:
    rate = total.pass_rate
    if rate.value is None:
        return f"{NOT_APPLICABLE} (nothing was judged)"
    return f"{rate.successes}/{rate.n} = {rate.value:.3f} (95 % interval {rate.ci_low:.3f} to {rate.ci_high:.3f})"


def _tokens(total: Metrics) -> str:
    def count(value: int | None) -> str:
        return NOT_APPLICABLE if value is None else f"{value:,}"

    tokens = total.tokens
    cached = "" if tokens.cached_tokens is None else f" ({tokens.cached_tokens:,} of them cached)"
    reasoning = "" if tokens.reasoning_tokens is None else f" ({tokens.reasoning_tokens:,} of them reasoning)"
    told = f"{count(tokens.input_tokens)} in{cached}, {count(tokens.output_tokens)} out{reasoning}"
    return told + _of_answers(total.reported, total.unreported)


def _of_answers(known: int, unknown: int) -> str:
    """Of how many answers a sum is, where it is not of all."""
    return f", of {known:,} of {known + unknown:,} answers" if known and unknown else ""


_MISSING = {
    MissingReason.LIMIT: "not run, limit reached",
    MissingReason.UNAVAILABLE: "not run, provider unavailable",
    MissingReason.BATCH: "left in a batch",
    MissingReason.DISK: "not run, disk full",
    MissingReason.EXHAUSTED: "not run, out of memory, threads or files",
    MissingReason.STOPPED: "not run, stopped",
    MissingReason.WORKER_DIED: "worker died",
    MissingReason.SCHEMA: "not run, schema broken",
    MissingReason.ERROR: "test broke",
}


def _missing(total: Metrics) -> list[str]:
    known = {_MISSING[reason]: count for reason, count in total.missing_reasons.items() if count}
    if rest := total.missing - sum(known.values()):
        known["never ran"] = rest
    return [f"{words} {count}" for words, count in known.items()]


def _errors(run: Run, total: Metrics) -> str:
    kinds = Counter(attempt.fault.value for attempt in run.outcomes if attempt.fault is not None)
    parts = [f"{kind} {count}" for kind, count in kinds.most_common()]
    if total.missing:
        parts += _missing(total)
    return f"{total.errors} of {counted(total.planned, 'attempt')} ({'; '.join(parts)}): the figures are incomplete"
