"""Build the report on a run: tables, facts below the tables, and comparisons of its variants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.text import distinct, dollars, format_count, list_names, printable
from pytest_jsbench.metrics.case_outcomes import MISSING, PASSED
from pytest_jsbench.metrics.figure import GRAMMARS, TASKS, VARIANTS, FieldMetrics, Figure, Kind
from pytest_jsbench.metrics.figures import FIGURES
from pytest_jsbench.metrics.metrics import COUNTED_FAILURES, Metrics
from pytest_jsbench.metrics.statistics import Distribution, Proportion, proportion
from pytest_jsbench.metrics.summary import Summary
from pytest_jsbench.records.records import Attempt, Cause, EndedTest, MissingReason
from pytest_jsbench.records.runs import Records, Run
from pytest_jsbench.records.setting_differences import RECORDED, find_distinguishing_settings, settings_of
from pytest_jsbench.reports.blocks import (
    NOT_APPLICABLE,
    Block,
    Column,
    Fact,
    Row,
    TableBlock,
    share_text,
    table_of_figures,
)
from pytest_jsbench.reports.crash_facts import facts_of_crashes
from pytest_jsbench.reports.lateness import facts_of_lateness
from pytest_jsbench.reports.load_facts import facts_of_load
from pytest_jsbench.reports.repeats import facts_of_repeats, table_of_agreement, temperature_of
from pytest_jsbench.reports.rewriting_report import facts_of_rewritings
from pytest_jsbench.reports.tool_report import describe_calls, table_of_tools
from pytest_jsbench.reports.transit_facts import facts_of_transit
from pytest_jsbench.reports.tries import facts_of_tries
from pytest_jsbench.verdicts import WITHOUT_SCHEMA

if TYPE_CHECKING:
    from pytest_jsbench.metrics.case_outcomes import CaseOutcome
    from pytest_jsbench.metrics.comparison import Comparison
    from pytest_jsbench.metrics.gates import GateResult
    from pytest_jsbench.records.facts import AttemptFacts
    from pytest_jsbench.records.metadata import RunMetadata

_MOST_NAMED = 5
_MOST_CASES = 10
#: Maximum number of variants for which a terminal shows pass rates by task.
_MOST_COLUMNS = 5
#: Maximum number of rows in a collapsed table.
_MOST_FOLDED = 50
#: Maximum length in characters of a variant's name in a sentence.
_LONGEST_NAME = 40
#: Waiting time in seconds; if a call waited at least as long, the report mentions the queue.
_LONG_QUEUE = 60.0


def heading(metadata: RunMetadata) -> str:
    """Return the engine and model of the run as text, or the number of its variants."""
    if metadata.variants:
        return format_count(len(metadata.variants), "variant")
    return f"{printable(metadata.engine, 60)} {printable(metadata.model, 60)}"


def table_of_tasks(run: Run, summary: Summary) -> TableBlock:
    """Return a table with one row per task and a total: coverage and median times, or the decisions of a grammar."""
    rows = [*summary.tasks.items(), ("total", summary.total)]
    return table_of_figures("Task", rows, GRAMMARS if run.metadata.labelled else TASKS, total=True)


def table_of_variants(run: Run, summary: Summary) -> TableBlock:
    """Return a table with one row per variant, the highest pass rate first."""
    rows = [(name, variant.total) for name, variant in summary.variants.items()]
    return table_of_figures("Variant", rows, GRAMMARS if run.metadata.labelled else VARIANTS)


def main_table(run: Run, summary: Summary) -> TableBlock:
    """Return the first table of every report."""
    return (table_of_variants if summary.variants else table_of_tasks)(run, summary)


def rates_by_task(summary: Summary) -> TableBlock | None:
    """
    Return the pass rates with one row per task and one column per variant; None without variants or
    with a single task.
    """
    if len(summary.tasks) < 2 or not summary.variants:
        return None
    figure = FIGURES["pass_rate"]
    rows = tuple((task, ()) for task in summary.tasks)
    table = TableBlock(head=figure.title, columns=(), rows=rows, folded=f"{figure.title} by task")
    for name, variant in summary.variants.items():
        rates = [variant.tasks[task].pass_rate if task in variant.tasks else None for task in summary.tasks]
        table = table.beside(Column(heading=name, figure=figure, foreign=True), rates)
    return table


def differing_cases(summary: Summary) -> TableBlock:
    """Return a table of the cases that some variants pass and others fail, with the outcome in each variant."""
    cases = summary.differing[:_MOST_FOLDED]
    cut = f", the first {len(cases)}" if len(cases) < len(summary.differing) else ""
    ends = [ends_of(summary, key) for key in cases]
    return TableBlock(
        head="Case",
        columns=tuple(Column(heading=name, left=True, foreign=True) for name in summary.variants),
        rows=tuple(
            (str(key), tuple(of_case.get(name, "") for name in summary.variants))
            for key, of_case in zip(cases, ends, strict=True)
        ),
        folded=f"{_differing_count(summary)}{cut}",
    )


def table_of_keywords(summary: Summary, most: int | None = None) -> TableBlock:
    """Return a table with one row per keyword, those with most violations or wrong decisions first."""
    keywords = list(summary.keywords.items())[:most]
    table = TableBlock(head="Keyword", columns=(), rows=tuple((name, ()) for name, _ in keywords))
    decided = [keyword.wrong_decisions if keyword.wrong_decisions.n else None for _, keyword in keywords]
    if any(decided):
        wrong = Column.of(Figure("wrong_decisions", Kind.RATE, counted=True))
        table = table.beside(wrong, decided)
    table = table.beside(Column(heading="Broken by"), [keyword.failures for _, keyword in keywords])
    table = table.beside(Column(heading="Used in"), [keyword.pass_rate.n for _, keyword in keywords])
    rates = [keyword.pass_rate for _, keyword in keywords]
    return table.beside(Column.of(FIGURES["pass_rate"], f"{FIGURES['pass_rate'].title} where used"), rates)


def table_of_fields(summary: Summary) -> TableBlock:
    """Return a table with accuracy, precision and F1 of each field with expected values."""
    fields = _by_rank(summary.total)[:_MOST_FOLDED]
    table = TableBlock(head="Field", columns=(), rows=tuple((name, ()) for name, _ in fields), folded="Values by field")
    accuracy = Column.of(replace(FIGURES["value_accuracy"], counted=True))
    table = table.beside(accuracy, [field.accuracy for _, field in fields])
    table = table.beside(Column.of(FIGURES["value_precision"]), [field.precision for _, field in fields])
    return table.beside(Column.of(FIGURES["value_f1"]), [field.f1 for _, field in fields])


def report(run: Run, summary: Summary, *, keywords: bool = False, most_pairs: int | None = None) -> Iterator[Block]:
    """
    Yield the report on a run for a terminal, with `keywords` also the tables by keyword and field.

    At most `most_pairs` pairs of variants are compared, those with the smallest p-values; None for all pairs.
    """
    if keywords and summary.keywords:
        yield table_of_keywords(summary)
    if keywords and summary.total.fields:
        yield table_of_fields(summary)
    if keywords and (differing := table_of_agreement(summary.total)).rows:
        yield differing
    if keywords and summary.total.tool_recall:
        yield table_of_tools(summary.total)
    yield from tables(run, summary, most_pairs=most_pairs)
    yield facts(run, summary)


def tables(run: Run, summary: Summary, *, most_pairs: int | None = None) -> Iterator[Block]:
    """Yield the tables of a run and, for variants, their comparisons and the cases that differ."""
    if summary.tasks or not run.metadata.fault_reports:
        yield main_table(run, summary)
    by_task = rates_by_task(summary)
    if by_task is not None and len(summary.variants) <= _MOST_COLUMNS:
        yield by_task
    yield [*facts_of_variants(summary, most_pairs), *_differing(summary)]


def summary_markdown(
    run: Run,
    summary: Summary,
    gates: Sequence[GateResult] = (),
    comparisons: Mapping[str, Comparison] | None = None,
    *,
    more: Sequence[Fact] = (),
) -> str:
    """Return the summary of a run as Markdown, with untrusted text in code spans, and with `more` facts."""
    from pytest_jsbench.reports import markdown

    names = [run.metadata.engine, run.metadata.model]
    lines = [f"### jsbench: {heading(run.metadata) if run.variants else ' '.join(map(markdown.code, names))}", ""]
    if run.verdict is not None:
        lines += [markdown.verdict_line(run.verdict), ""]
    table = main_table(run, summary)
    if summary.variants:
        settings = distinguishing_settings(run, summary)
        table = table.beside(Column(heading="Settings", left=True), [settings[name] for name in summary.variants])
    total = summary.total
    passed = "nothing was judged" if total.pass_rate.value is None else f"passed {total.passed} of {total.planned}"
    items = [f"- {passed}; rates with their 95 % intervals, times as medians"]
    items += markdown.fact_lines(facts(run, summary))
    for variant, comparison in (comparisons or {}).items():
        from pytest_jsbench.reports.comparison_report import facts_of_comparison

        source = f"variant {printable(variant)}" if variant else ""
        items += markdown.fact_lines(facts_of_comparison(comparison, source))
    items += markdown.fact_lines(more)
    items += [f"- gate: {markdown.code(gate.message)}" for gate in gates]
    above = markdown.report([table, facts_of_variants(summary)])
    return "\n".join([*lines, above, *items, "", markdown.report(_folded_tables(run, summary))]).rstrip("\n") + "\n"


def _folded_tables(run: Run, summary: Summary) -> Iterator[TableBlock]:
    """Yield the tables that are collapsed in Markdown."""
    if (by_task := rates_by_task(summary)) is not None:
        yield by_task
    if summary.differing:
        yield differing_cases(summary)
    if summary.keywords:
        yield replace(table_of_keywords(summary, _MOST_FOLDED), folded="By schema keyword")
    if summary.total.fields:
        yield table_of_fields(summary)
    if (differing := table_of_agreement(summary.total)).rows:
        yield differing
    if summary.total.tool_recall:
        yield table_of_tools(summary.total)
    if failing := run.failed():
        yield _failures(run, failing)


def _failures(run: Run, failing: Sequence[AttemptFacts]) -> TableBlock:
    rows: list[Row] = [(run.name_of(record.attempt), record.failure) for record in Records(failing[:_MOST_FOLDED])]
    if len(failing) > _MOST_FOLDED:
        rows.append((f"… and {len(failing) - _MOST_FOLDED} more", ("", "")))
    return TableBlock(
        head="Case",
        columns=(Column(heading="Failure", left=True), Column(heading="", left=True)),
        rows=tuple(rows),
        folded=f"{format_count(len(failing), 'attempt')} that did not pass",
    )


def distinguishing_settings(run: Run, summary: Summary) -> dict[str, str]:
    """Return, for each variant, the settings that distinguish it from the others, the highest pass rate first."""
    settings = [settings_of(run.metadata.of_variant(name).to_dict()) for name in summary.variants]
    setting_names = find_distinguishing_settings(settings)
    texts = (", ".join(own[name].label for name in setting_names if name in own) for own in settings)
    return dict(zip(summary.variants, texts, strict=True))


def facts_of_variants(summary: Summary, most_pairs: int | None = None) -> list[Fact]:
    """Return the comparison of each pair of variants, or of the pairs with the smallest p-values."""
    if not summary.pairs:
        return []
    from pytest_jsbench.reports.comparison_report import adjustment_of, facts_of_pairs

    repeated = any(pair.comparison.difference.repeated for pair in summary.pairs)
    most = _MOST_NAMED if repeated else 0
    p_values = [pair.comparison.difference.p_value for pair in summary.pairs]
    chosen = sorted(range(len(p_values)), key=lambda at: p_values[at])[:most_pairs]
    shown = [summary.pairs[at] for at in sorted(chosen)]
    facts: list[Fact] = []
    for pair in shown:
        facts += facts_of_pairs([pair], _short_names(summary), each="variant", most=most)
    omitted = len(summary.pairs) - len(shown)
    if omitted:
        pairs = format_count(omitted, "other pair")
        facts.append(("", f"{pairs} with larger or equal p-values: see the page, or use -v"))
    if len(summary.pairs) > 1:
        facts.append(adjustment_of(summary.pairs))
    return facts


def _short_names(summary: Summary) -> dict[str, str]:
    """Return variant names that are distinct and short enough for a sentence."""
    return dict(zip(summary.variants, distinct(list(summary.variants), _LONGEST_NAME), strict=True))


def _differing(summary: Summary) -> Iterator[Fact]:
    """Yield the cases that some variants pass and others fail, the most evenly divided first."""
    names = _short_names(summary)
    for number, key in enumerate(summary.differing[:_MOST_CASES]):
        if not number:
            yield "differ", _differing_count(summary)
        by_end: dict[str, list[str]] = {}
        for name, end in ends_of(summary, key).items():
            by_end.setdefault(end, []).append(names[name])
        ends = "; ".join(f"{end}: {', '.join(of_end)}" for end, of_end in by_end.items())
        yield "", f"{printable(str(key))}  {ends}"
    if (more := len(summary.differing) - _MOST_CASES) > 0:
        yield "", f"… and {more:,} more"


def _differing_count(summary: Summary) -> str:
    repeated = any(variant.total.planned > variant.total.cases for variant in summary.variants.values())
    cases = f"{format_count(len(summary.differing), 'case')} that some variants pass and others fail"
    return f"{cases}: a variant passes a case if every attempt passes" if repeated else cases


def ends_of(summary: Summary, key: CaseKey) -> dict[str, str]:
    """Return the outcome of a case as text, for each variant that has the case."""
    return {name: _end(one.outcomes[key]) for name, one in summary.variants.items() if key in one.outcomes}


def _end(outcome: CaseOutcome) -> str:
    """Return the outcome of a case as text, with the number of passed attempts if the attempts ended differently."""
    different = dict.fromkeys(outcome.attempts)
    if len(different) <= 1:
        return next(iter(different), MISSING)
    other = next(name for name in different if name != PASSED)
    return f"{outcome.passes}/{len(outcome.attempts)} passed, {other}"


def facts(run: Run, summary: Summary) -> list[Fact]:
    """Return the facts about a run that all reports contain."""
    return [*_facts_of_metrics(run, summary), *_facts_of_notes(summary), *_facts_left_out(run, summary)]


def _facts_of_metrics(run: Run, summary: Summary) -> Iterator[Fact]:
    yield from _facts_of_rates(run, summary)
    yield from _facts_of_recordings(run)
    yield from _facts_of_grammars(summary.total)
    yield from _facts_of_failures(run.metadata, summary.total)
    yield from facts_of_crashes(run)
    yield from _facts_of_usage(run.metadata, summary)


def _facts_of_rates(run: Run, summary: Summary) -> Iterator[Fact]:
    total = summary.total
    rate = total.pass_rate
    share = f"{share_text(rate)}{_interval(rate)}" if rate.n else f"{NOT_APPLICABLE} (nothing was judged)"
    yield FIGURES["pass_rate"].title.lower(), f"{share}{' over all variants' if summary.variants else ''}"
    if total.tests_passed.n:
        ranked = sorted(total.test_failures.items(), key=lambda pair: -pair[1])
        causes = ", ".join(f"{cause} {count}" for cause, count in ranked if count)
        yield "tests", f"{share_text(total.tests_passed)} passed{f'; {causes}' if causes else ''}"
    yield from facts_of_transit(total)
    if ended := _ended_before_call(run.metadata):
        yield "", f"failed without a call of the engine: {_named_tests(ended)}"
    if run.metadata.fault_reports:
        from pytest_jsbench.reports.fault_facts import facts_of_faults

        yield from facts_of_faults(run.metadata.fault_reports)
    names = _short_names(summary)
    has_own_tests = any(outcome.asked_by for outcome in run.outcomes)
    for name, part in summary.variants.items() or [("", summary)]:
        temperature = None if has_own_tests else temperature_of(run.metadata.of_variant(name))
        yield from facts_of_repeats(part, f"{names[name]}: " if name else "", temperature)
    if calls := describe_calls(total):
        yield "calls", calls
    for name, part in summary.variants.items() or [("", summary)]:
        yield from facts_of_tries(part.total, f"{names[name]}: " if name else "")
    yield from facts_of_load(run, summary, names)
    if total.exact_match.n or total.uncompared:
        yield "values", _values(total)
        if idle := _idle_comparers(run, total):
            yield "comparers", f"no expected value for {', '.join(map(printable, idle))}"
    for name in names or [""]:
        yield from _served(run.metadata.of_variant(name), f"{names[name]}: " if name else "")
    if not has_own_tests:
        for name in names or [""]:
            yield from _settings(run.metadata.of_variant(name), f"{names[name]}: " if name else "")


def _served(metadata: RunMetadata, prefix: str) -> Iterator[Fact]:
    """Yield what the servers said about themselves, unless they only repeat the requested model."""
    served = {kind: list(map(printable, names)) for kind, names in metadata.served.items()}
    is_constant = all(len(names) == 1 for names in served.values())
    is_requested = served.get("model", [metadata.model]) == [metadata.model]
    if is_constant and is_requested and "provider" not in served:
        return
    parts = []
    for kind, names in served.items():
        counted = kind if len(names) == 1 else format_count(len(names), kind)
        parts.append(f"{counted} {', '.join(names)}")
    yield "served by", f"{prefix}{'; '.join(parts)}"


def _facts_of_grammars(total: Metrics) -> Iterator[Fact]:
    if total.compile_time.count:
        alone, first = (_spread(times, "compile_time_p50") for times in (total.compile_time, total.grammar_compilation))
        yield "grammars", f"compiled (ms): {alone}; up to the first mask: {first}"
    if total.mask_time.count:
        yield "masks", f"computed (µs), except the first of each answer: {_spread(total.mask_time, 'mask_time_p50')}"


def _facts_of_failures(metadata: RunMetadata, total: Metrics) -> Iterator[Fact]:
    if total.floor.successes:
        answer = next(iter(total.trivial_counts))
        others = share_text(total.pass_rate_nontrivial)
        floor = f"the constant answer {answer} passes {share_text(total.floor)} of the cases"
        yield "floor", f"{floor}; {FIGURES['pass_rate_nontrivial'].title.lower()} {others}"
    failures = {kind.value: total.failure_counts[kind] for kind in COUNTED_FAILURES}
    failures = dict(sorted(failures.items(), key=lambda pair: -pair[1]))
    failures |= {cause.value: count for cause, count in total.test_failures.items() if cause is not Cause.ANSWER}
    yield "failures", ", ".join(f"{kind} {count}" for kind, count in failures.items() if count) or "none"
    if metadata.classifiers:
        yield "classified", f"by {', '.join(map(printable, metadata.classifiers))}"
    if total.code_counts:
        yield "codes", ", ".join(f"{printable(code)} {count}" for code, count in total.code_counts.items())
    for at, name in enumerate(dict.fromkeys([*metadata.metrics, *total.scores])):
        rate = total.scores.get(name, proportion(0, 0))
        yield "" if at else "scores", f"{printable(name)} {share_text(rate)}{_interval(rate)}"


def _facts_of_usage(metadata: RunMetadata, summary: Summary) -> Iterator[Fact]:
    total = summary.total
    if not metadata.labelled:
        yield "tokens", _tokens(total)
    if total.cost is not None:
        yield "cost", dollars(total.cost) + _share_of_answers(total.priced, total.unpriced)
    elif summary.cost_problem:
        yield "cost", f"{NOT_APPLICABLE} ({printable(summary.cost_problem)})"


def _ended_before_call(metadata: RunMetadata) -> list[EndedTest]:
    """Return the tests that failed without a call of the engine, unless a fault of the endpoint took its place."""
    faulty = {(report.task, report.id, report.variant) for report in metadata.fault_reports}
    return [test for test in metadata.ended_tests if (test.task, test.id, test.variant) not in faulty]


def _named_tests(ended: Sequence[EndedTest]) -> str:
    """Return the names of the first of these tests, each with its cause."""
    several = any(test.repeat for test in ended)
    attempts = [Attempt(CaseKey(task=test.task, id=test.id), test.repeat, test.variant) for test in ended]
    ends = zip(attempts, ended, strict=True)
    names = [f"{printable(attempt.name(several=several))} ({test.cause})" for attempt, test in ends]
    return list_names(names, _MOST_NAMED)


def _settings(metadata: RunMetadata, of: str) -> Iterator[Fact]:
    """Yield the sampling and reasoning settings, as far as known; `of` is a prefix with the name of the variant."""
    if not metadata.labelled and (sampling := _sampling(metadata)):
        yield "sampled", f"{of}{sampling}"
    reasoning = {part: metadata.details.get(f"reasoning_{part}") for part in ("effort", "budget")}
    if parts := [f"{name} {printable(str(value))}" for name, value in reasoning.items() if value is not None]:
        yield "reasoning", f"{of}{', '.join(parts)}"


def _facts_of_recordings(run: Run) -> Iterator[Fact]:
    """Yield facts about recorded answers and about settings that differ from those of the recordings."""
    if run.metadata.engine in RECORDED:
        yield "recorded", "answers and times are from the recording: no calls were made"
    elif count := sum(outcome.remembered for outcome in run.outcomes):
        answers_made = sum(outcome.made for outcome in run.outcomes)
        yield "recorded", f"{count} of {format_count(answers_made, 'answer')} from recordings, without calls and cost"
    changes = Counter(outcome.asked_otherwise for outcome in run.outcomes if outcome.asked_otherwise)
    for change, count in changes.most_common():
        answers = f"{format_count(count, 'answer')} {'was' if count == 1 else 'were'}"
        settings = f"other settings ({printable(change, 500)})"
        yield "settings", f"{answers} recorded with {settings}; record again with --jsbench-record"


def _facts_of_notes(summary: Summary) -> Iterator[Fact]:
    """Yield facts about observations that do not affect verdicts."""
    total = summary.total
    if notes := [f"{note} {count}" for note, count in total.note_counts.items() if count]:
        yield "noted", ", ".join(notes)
    if total.runaway_tokens is not None:
        tokens = f"about {total.runaway_tokens:,} of {total.output_tokens:,} tokens"
        yield "runaways", f"{tokens} in the answers are long runs of white space or repetitions"
    if total.retries:
        yield "retries", f"{format_count(total.retries, 'failed call')} retried"
    yield from facts_of_lateness(total)
    if (longest := total.queue.max) is not None and longest >= _LONG_QUEUE:
        calls = format_count(total.queue.count, "call")
        yield "queue", f"half of {calls} waited {total.queue.p50:.1f} s or more; longest wait {longest:.1f} s"
    if total.disputed:
        names = [printable(str(key)) for key in summary.disputed]
        verdicts = f"{format_count(len(names), 'verdict')} on which the two validators disagree"
        yield "disputed", f"{verdicts}: {list_names(names, _MOST_NAMED)}"


def _facts_left_out(run: Run, summary: Summary) -> Iterator[Fact]:
    """Yield facts about cases, answers and calls that the metrics do not include."""
    yield from facts_of_rewritings(run)
    total = summary.total
    if total.excluded:  # the count includes all repeats in all variants, so cases are counted below
        excluded = {
            outcome.key: outcome.reason in WITHOUT_SCHEMA
            for outcome in run.outcomes
            if outcome.excluded and not outcome.not_rewritten and not run.breaks(outcome)
        }
        if broken := len(excluded) - sum(excluded.values()):
            yield "excluded", f"{format_count(broken, 'case')} with a broken schema (skipped)"
        if free := sum(excluded.values()):
            yield "excluded", f"{format_count(free, 'answer')} to an application's call without a schema"
    if total.called_again:
        calls = format_count(total.called_again, "call")
        yield "again", f"{calls} followed by another call for the same answer: only the last call counts"
    if total.unjudged:
        yield (
            "unjudged",
            f"{format_count(total.unjudged, 'answer')} that could not be judged: the figures are incomplete",
        )
    if run.metadata.redacted:
        yield (
            "redacted",
            "prompts, schemas and answers are replaced by digests: nothing can be judged again or replayed",
        )
    if run.resumed:
        yield "resumed", f"{format_count(run.resumed, 'answer')} reused from {run.metadata.resumed_from}"
    if total.errors:
        faults = Counter(outcome.fault for outcome in run.outcomes if outcome.fault is not None)
        missing = {reason: count for reason, count in total.missing_reasons.items() if count}
        unknown = total.missing - sum(missing.values())
        parts = [f"{kind} {count}" for kind, count in faults.most_common()]
        parts += [f"{_MISSING[reason]} {count}" for reason, count in missing.items()]
        parts += [f"never ran {unknown}"] if unknown else []
        attempts = f"{total.errors} of {format_count(total.planned, 'attempt')}"
        yield "errors", f"{attempts} ({'; '.join(parts)}): the figures are incomplete"


_MISSING = {
    MissingReason.LIMIT: "not run, limit reached",
    MissingReason.UNAVAILABLE: "not run, provider unavailable",
    MissingReason.BATCH: "left in a batch",
    MissingReason.DISK: "not run, disk full",
    MissingReason.EXHAUSTED: "not run, no more memory, threads or files",
    MissingReason.STOPPED: "not run, stopped",
    MissingReason.WORKER_DIED: "worker died",
    MissingReason.SCHEMA: "not run, schema broken",
    MissingReason.ERROR: "error in the test",
}


def _values(total: Metrics) -> str:
    """Return the number of correct values, and the fields with the lowest accuracy."""
    right = total.value_accuracy
    conforming = share_text(total.value_accuracy_conforming)
    parts = [f"{share_text(right)}{_interval(right)} right, {conforming} in answers that conform"]
    parts.append(f"{share_text(total.exact_match)} answers entirely right")
    precision = total.value_precision.value
    f1 = total.value_f1.value
    if precision is not None and f1 is not None:
        parts.append(f"precision {precision:.3f}, F1 {f1:.3f}")
    if total.invented:
        parts.append(f"{format_count(total.invented, 'unexpected value')}")
    ranked = [(name, field.accuracy) for name, field in _by_rank(total) if field.accuracy.successes < field.accuracy.n]
    if ranked:
        fields = (f"{printable(name)} {rate.successes}/{rate.n}" for name, rate in ranked[:_MOST_NAMED])
        parts.append(f"least often right: {', '.join(fields)}")
    if total.uncompared:
        answers = format_count(total.uncompared, "answer")
        parts.append(f"{answers} that could not be compared (match.problem in records.jsonl has the reason)")
    return "; ".join(parts)


def _by_rank(total: Metrics) -> list[tuple[str, FieldMetrics]]:
    """Return the fields with expected values, the lowest accuracy first."""
    return sorted(total.fields.items(), key=lambda pair: pair[1].accuracy.value or 0.0)


def _idle_comparers(run: Run, total: Metrics) -> list[str]:
    """Return the fields that have a comparer but no expected value, for example because of a misspelled name."""
    if total.uncompared:  # answers that could not be compared may have values for these fields
        return []
    compared_fields = [name for name, how in run.metadata.comparers.items() if name != "$" and how != "ignore"]
    return [name for name in compared_fields if not any(f"{field}.".startswith(f"{name}.") for field in total.fields)]


def _sampling(metadata: RunMetadata) -> str:
    """Return the sampling settings of the run as text; empty if unknown."""
    settings = settings_of({"engine": metadata.engine, "params": metadata.params})
    asked_for = [settings[name] for name in ("temperature", "seed") if name in settings]
    sampled = [setting for setting in asked_for if setting.value is not None]
    labels = ", ".join(setting.label for setting in sampled)
    if metadata.repeats == 1 or not sampled:
        return labels
    if sampled[0].name == "temperature" and sampled[0].value == 0:
        return f"{labels}: the attempts at a case are identical if the engine is deterministic"
    return f"{labels}, raised by 1 in each further attempt at a case" if sampled[-1].name == "seed" else labels


def _interval(rate: Proportion) -> str:
    """Return the interval of a rate for a sentence; empty if the rate has no interval."""
    return "" if rate.ci_low is None else f" (95 % interval {rate.ci_low:.3f} to {rate.ci_high:.3f})"


def _spread(times: Distribution, name: str) -> str:
    parts = {part: getattr(times, part) for part in ("mean", "p50", "p99", "max")}
    text = ", ".join(f"{part} {FIGURES[name].text_of(value)}" for part, value in parts.items())
    return f"{text} of {times.count:,}"


def _tokens(total: Metrics) -> str:
    def count(name: str) -> str:
        value = getattr(total.tokens, f"{name}_tokens")
        return NOT_APPLICABLE if value is None else f"{value:,}"

    cached, reasoning = (
        "" if count(name) == NOT_APPLICABLE else f" ({count(name)} of them {name})" for name in ("cached", "reasoning")
    )
    written = f" ({count('cache_write')} of them written to the cache)" if total.tokens.cache_write_tokens else ""
    tokens = f"{count('input')} in{cached}{written}, {count('output')} out{reasoning}"
    return tokens + _share_of_answers(total.reported, total.unreported)


def _share_of_answers(known: int, unknown: int) -> str:
    """Return how many answers a sum includes; empty if the sum includes all answers."""
    return f", of {known:,} of {known + unknown:,} answers" if known and unknown else ""
