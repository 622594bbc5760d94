from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_jsbench.core.cases import Expected
from pytest_jsbench.core.generations import FaultKind
from pytest_jsbench.core.timing import Timing
from pytest_jsbench.metrics.statistics import Rate
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records.records import Record
from pytest_jsbench.records.runs import Run
from pytest_jsbench.reports.blocks import TableBlock
from pytest_jsbench.reports.comparison_report import table_of_runs
from pytest_jsbench.reports.run_json import parse
from pytest_jsbench.reports.run_report import facts, heading, main_table, summary_markdown, table_of_keywords, tables
from pytest_jsbench.reports.terminal import fact_lines, report_lines, table_lines
from pytest_jsbench.values import Match
from tests.support import examples
from tests.support.examples import record, replace
from tests.support.hostile_texts import HOSTILE, HOSTILE_VERDICT


def lines(*records: Record) -> list[str]:
    run = examples.run(*records)
    return [*table_of(*records), *fact_lines(facts(run, summarize(run)))]


def table_of(*records: Record, **message: object) -> list[str]:
    run = examples.run(*records, dataset=message)
    return report_lines(tables(run, summarize(run)))


def test_published_columns_come_first_and_pass_rate_needs_a_wide_table() -> None:
    verdicts = [examples.PASSED, examples.PASSED, examples.VIOLATED, examples.UNSUPPORTED]
    answers = [record(f"c{at}", task="very_hard", verdict=verdict) for at, verdict in enumerate(verdicts)]
    run = examples.run(*answers, record("d", verdict=examples.BROKEN, generation=examples.failed()))

    for width, rates in ((80, ["Declared"]), (120, ["Pass", "rate", "Declared"])):
        shown = report_lines(tables(run, summarize(run)), width)

        assert shown[0].split() == ["Task", *rates, "Empirical", "TTFT", "TPOT", "TGT", "GCT", "n", "Errors"]
        assert shown[-1].count("(") == (2 if width == 80 else 3)
        assert max(map(len, shown)) <= width


def test_rate_is_shown_with_bounds_instead_of_plus_minus() -> None:
    halves = [
        replace(record(name), match=Match(fields={"total": (right, 1), "vendor": (1, 1)}, invented=0))
        for name, right in (("a", 1), ("b", 0))
    ]

    text = " ".join(" ".join(lines(*halves)).split())

    assert "values 3/4 = 0.750 (95 % interval 0.061 to 1.000) right," in text
    assert "0.75 (.06-1)" in text
    assert "±" not in text


def test_tables_of_variants_and_runs_show_the_cost_of_1000_answers() -> None:
    run = examples.compared(a="pp")
    summary = summarize(run)
    part = replace(summary.variants["a"], total=examples.with_figures(summary.variants["a"].total, cost=0.01, priced=2))
    metrics = {"pass_rate": 1.0, "planned": 2, "cost": 0.01, "priced": 2}

    variants = main_table(run, replace(summary, variants={"a": part}))
    runs = table_of_runs([("a", parse({"metrics": metrics}, source="a.json"))])

    for table in (variants, runs):
        ((_, cells),) = table.rows
        assert dict(zip((column.heading for column in table.columns), cells, strict=True))["Cost of 1,000"] == 5.0


def test_table_has_a_row_per_task_and_a_total() -> None:
    shown = table_of(record("a"), record("b", task="hard"))

    assert [line.split()[0] for line in shown if line[0] not in " -"] == ["Task", "simple", "hard", "total"]
    assert shown[-3].split() == ["hard", *["1.00", "(.03-1)"] * 3, "0.20", "80.00", "1.00", "0.80", "1"]


def test_table_of_tasks_cuts_names_after_everything_else() -> None:
    task, longer = "tests.test_invoices_all", "tests.test_invoices_of_all_years_and_countries"
    broken = record("b", verdict=examples.BROKEN, generation=examples.failed())

    assert f"{task} " in table_of(record(task=task))[3]
    narrow = table_of(record(task=task), broken)
    assert narrow[3].startswith(f"{task} ")
    assert set(narrow[4].split()) == {"(.03-1)"}
    crowded = table_of(record(task=longer), broken)
    assert crowded[3].startswith(longer[:16])
    assert "… " in crowded[3]
    assert {len(line) for line in crowded[2:]} == {80}


def test_every_line_fits_eighty_columns_whatever_went_wrong() -> None:
    shown = lines(
        record("a" * 100, task="JsonSchemaStore"),
        record("b", task="WashingtonPost", verdict=examples.BROKEN, generation=examples.failed()),
        record("c", verdict=examples.VIOLATED),
        record("d", verdict=examples.HALLUCINATED),
        record("e", verdict=examples.UNJUDGED),
        record("f", verdict=examples.UNSUPPORTED, generation=examples.declined()),
        record("g", verdict=examples.EXCLUDED),
    )

    assert max(map(len, shown)) <= 80


SAID = {"totl": "casefold", "items": "unordered", "items.*.n": "tolerance:1", "id": "ignore", "$": "sob"}
COMPARED = Match(fields={"total": (1, 1), "items.*.n": (1, 1)}, invented=0)
UNCOMPARED = Match(fields={}, invented=0, problem="the comparer same raised ValueError")
SILENT = record("c", generation=examples.completion(tokens=None))
EXCLUDED = record(verdict=examples.EXCLUDED)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (examples.run(), {"pass rate": "n/a (nothing was judged)"}),
        (examples.run(record()), {"failures": "none", "tokens": "30 in, 11 out"}),
        (examples.run(record()), dict.fromkeys(("cost", "recorded", "reasoning", "repeats"))),
        (examples.run(SILENT), {"tokens": "n/a in, n/a out"}),
        (examples.run(record(), SILENT), {"tokens": "30 in, 11 out, of 1 of 2 answers"}),
        (
            examples.run(EXCLUDED, replace(EXCLUDED, repeat=1)),
            {"excluded": "1 case with a broken schema (skipped)"},
        ),
        (
            examples.run(record(verdict=examples.BROKEN, generation=examples.failed())),
            {"errors": "1 of 1 attempt (timeout 1): the figures are incomplete"},
        ),
        (
            examples.run(record(verdict=examples.UNJUDGED)),
            {"unjudged": "1 answer that could not be judged: the figures are incomplete"},
        ),
        (
            examples.run(replace(record(), match=COMPARED), comparers=SAID),
            {"comparers": "no expected value for totl"},
        ),
        (
            examples.run(replace(record(), expected=Expected(value=1), match=UNCOMPARED)),
            {
                "values": "n/a right, n/a in answers that conform; n/a answers entirely right; "
                "1 answer that could not be compared (match.problem in records.jsonl has the reason)"
            },
        ),
        (
            examples.run(*(record(f"c{number}", verdict=examples.DISPUTED) for number in range(7))),
            {
                "disputed": "7 verdicts on which the two validators disagree: "
                "simple::c0, simple::c1, simple::c2, simple::c3, simple::c4, and 2 more"
            },
        ),
        (
            examples.run(record(), engine="recorded"),
            {"recorded": "answers and times are from the recording: no calls were made"},
        ),
        (
            examples.run(record(), details={"reasoning_effort": "low", "reasoning_budget": 512}),
            {"reasoning": "effort low, budget 512"},
        ),
        (
            examples.compared(a="pp", b="pv"),
            {"pass rate": "3/4 = 0.750 (95 % interval 0.061 to 1.000) over all variants", "repeats": None},
        ),
    ],
)
def test_facts_below_the_table_complete_it(run: Run, expected: dict[str, str | None]) -> None:
    known = dict(facts(run, summarize(run)))

    assert {label: known.get(label) for label in expected} == expected


@pytest.mark.parametrize(
    ("figures", "problem", "text"),
    [
        ({"cost": 1234.5}, "", "$1,234.50"),
        ({"cost": 0.5, "priced": 2, "unpriced": 1}, "", "$0.5000, of 2 of 3 answers"),
        ({}, "no price", "n/a (no price)"),
    ],
)
def test_report_has_the_cost_or_why_it_is_unknown(figures: dict[str, Any], problem: str, text: str) -> None:
    run = examples.run(record())
    summary = summarize(run)
    paid = replace(summary, cost_problem=problem, total=examples.with_figures(summary.total, **figures))

    assert dict(facts(run, paid))["cost"] == text


def test_report_is_headed_by_engine_and_model() -> None:
    assert heading(examples.compared(a="pp", b="pv").metadata) == "2 variants"
    assert heading(examples.metadata()) == "scripted m"


def test_the_breakdown_has_a_row_per_keyword_most_failures_first() -> None:
    run = examples.run(
        record("a", schema={"type": "object", "properties": {"n": {"minimum": 0}}}, verdict=examples.VIOLATED),
        record("b", schema={"type": "object"}),
    )

    shown = table_lines(table_of_keywords(summarize(run)))

    assert [line.split()[:3] for line in shown[3:]] == [
        ["minimum", "1", "1"],
        ["type", "0", "2"],
        ["properties", "0", "1"],
    ]
    assert max(map(len, shown)) <= 80


def test_decisions_have_a_table_of_their_own() -> None:
    summary = summarize(
        examples.run(
            record("a", verdict=examples.DECIDED_WRONGLY, generation=examples.decided("v0")),
            record("b", task="hard", verdict=examples.BROKEN, generation=examples.failed(FaultKind.CRASH)),
        )
    )

    labelled = examples.run(dataset={"labelled": True})
    shown = report_lines(tables(labelled, summary))

    assert max(map(len, shown)) <= 80
    assert [line.split() for line in shown if line.startswith(("simple", "hard"))] == [
        ["simple", "0.00", "1.00", "1/2", "=", "0.500", "0/2", "=", "0.000", "10.00", "1", "0"],
        ["hard", "0.00", "0.00", "n/a", "n/a", "n/a", "0", "1"],
    ]
    assert not [line for line in fact_lines(facts(labelled, summary)) if line.startswith("tokens")]


def test_repeats_are_reported_by_case_flakiest_first() -> None:
    verdicts = {
        "steady": [examples.PASSED] * 4,
        "mostly": [examples.PASSED] * 3 + [examples.VIOLATED],
        "even": [examples.PASSED, examples.VIOLATED] * 2,
        "broke": [examples.PASSED] * 3 + [examples.BROKEN],
        "never": [examples.VIOLATED] * 4,
    }
    records = [
        replace(record(name, verdict=verdict), repeat=repeat)
        for name, several in verdicts.items()
        for repeat, verdict in enumerate(several)
    ]

    text = " ".join(" ".join(lines(*records)).split())

    assert "repeats every attempt of a case passed (pass^k) 1/5 = 0.200 (0.005 to 0.716)," in text
    assert "at least one (pass@k) 4/5 = 0.800 (0.284 to 0.995)" in text
    assert "flaky 2 cases passed in some attempts only: simple::even 2/4, simple::mostly 3/4" in text


def test_table_of_decisions_has_counts_and_readable_long_task_names() -> None:
    names = ("infinite-loop-detection", "unevaluatedProperties", "exclusiveMaximum", "exclusiveMinimum")
    decided = [record("a", task=name, generation=examples.decided("v0")) for name in names]

    shown = table_of(*decided, labelled=True)

    assert max(map(len, shown)) <= 80
    assert [line.split()[0] for line in shown[3:11:2]] == list(names)
    assert "1/2" in shown[3].split()


def shown_of(run: Run) -> str:
    return "\n".join(report_lines(tables(run, summarize(run))))


def test_table_has_a_row_per_variant_best_first_and_no_empty_columns() -> None:
    lines = shown_of(examples.compared(worse="pvvv", better="pppp", broken="ppbm")).splitlines()

    assert [line.split()[0] for line in lines[3:9:2]] == ["better", "broken", "worse"]
    assert lines[3].split()[1:] == ["1.00", "1.00", "1.00", "0.20", "1.00", "4", "11", "0"]
    assert lines[4].split() == ["(.40-1)"] * 3
    assert lines[5].split()[-1] == "2"
    assert "Cost" not in lines[0]


def wide_runs() -> Iterator[Run]:
    """Return a wide run of each kind: interrupted, repeated, with values, labelled, and with variants."""
    broken = record("z", task="very_hard", verdict=examples.BROKEN, generation=examples.failed())
    valued = replace(record("b"), expected=Expected(value={"n": 1}), match=COMPARED)
    decided = record("a", task="infinite-loop-detection", generation=examples.decided("v0"))
    repeated = [replace(record("a", verdict=examples.VIOLATED), repeat=repeat) for repeat in range(3)]
    yield examples.run(record("a"), record("b", verdict=examples.VIOLATED), broken)
    yield examples.run(valued, broken)
    yield examples.run(*repeated, broken)
    yield examples.run(decided, broken, dataset={"labelled": True})
    yield examples.compared(a="pvvv", b="ppbm", c="pmpp")
    yield examples.compared(**{f"constrained-by-the-server-with-{end}": "pvb" for end in "abc"})
    metadata = examples.variants(a={"repeats": 3}, b={})
    of_variants = [replace(each, variant=name) for each in (*repeated, valued, broken) for name in "ab"]
    yield examples.run_of_variants(metadata, *of_variants)


def test_each_rate_has_its_bounds_in_eighty_columns() -> None:
    runs = list(wide_runs())
    blocks = [block for run in runs for block in tables(run, summarize(run)) if isinstance(block, TableBlock)]

    assert len(blocks) >= len(runs)
    for table in blocks:
        lines = table_lines(table)
        shown = [at for at, column in enumerate(table.columns) if not column.wide_only]
        cells = [cells[at] for _, cells in table.rows for at in shown]
        rates = [cell for cell in cells if isinstance(cell, Rate) and cell.ci_low is not None]

        assert rates
        assert max(map(len, lines)) <= 80
        assert len(re.findall(r"\([.\d]+-[.\d]+\)", "\n".join(lines))) >= len(rates)


def test_significance_is_reported_per_pair_and_adjusted_for_their_number() -> None:
    text = shown_of(examples.compared(a="p" * 16, b="p" * 16, c="v" * 12 + "p" * 4))

    assert "b against a: the same verdict on each of 16 cases" in text
    assert text.count("a real difference") == 2
    assert "differ " not in shown_of(examples.compared(a="pp", b="pb")), "a broken call is no difference"
    chance = " ".join(shown_of(examples.compared(a="ppp", b="ppv")).split())
    assert "not distinguishable from no change (exact test: p = 1)" in chance
    assert "p-values   adjusted for 3 comparisons (Holm)" in text


def test_at_most_ten_differing_cases_of_variants_are_named() -> None:
    text = shown_of(examples.compared(a="p" * 12 + "v", b="v" * 12 + "p", c="v" * 12 + "v"))

    assert "13 cases that some variants pass and others fail" in text
    assert "simple::case00  passed: a; schema_violation: b, c" in text
    assert text.count("simple::") == 10
    assert "… and 3 more" in text


def test_variants_of_a_run_about_labelled_answers_have_its_columns() -> None:
    metadata = examples.variants(a={"dataset": {"source": "s", "cases": 1, "labelled": True}})
    made = examples.record("x", verdict=examples.DECIDED_WRONGLY, generation=examples.decided("v0"))
    lines = shown_of(examples.run_of_variants(metadata, replace(made, variant="a"))).splitlines()

    assert lines[0].split() == ["Variant", "Pass", "Decl.", "Valid,", "Invalid,", "Compile", "n"]
    assert "1/2 = 0.500" in lines[3]


def test_wide_table_has_rates_by_task_with_a_column_per_variant() -> None:
    def run(names: str) -> Run:
        metadata = examples.variants(**{name: {} for name in names})
        made = [replace(examples.record("x", task=task), variant=name) for name in names for task in ("one", "two")]
        return examples.run_of_variants(metadata, *made[:-1])

    lines = shown_of(run("ab")).splitlines()

    at = next(at for at, line in enumerate(lines) if line.split()[:3] == ["Pass", "rate", "a"])
    interval = ["1.00", "(.03-1)"]
    assert lines[at + 2].split() == ["one", *interval, *interval]
    assert lines[at + 3].split() == ["two", *interval, "n/a"]
    assert "two" not in shown_of(run("abcdef"))


def test_repeats_show_the_share_of_cases_that_always_passed() -> None:
    metadata = examples.variants(a={"repeats": 2}, b={"repeats": 2})
    passed, failed = (
        replace(examples.record("x", verdict=verdict), variant=name)
        for name, verdict in (("a", examples.PASSED), ("b", examples.VIOLATED))
    )
    second = [replace(passed, repeat=1), replace(failed, repeat=1, verdict=examples.PASSED)]
    lines = shown_of(examples.run_of_variants(metadata, passed, failed, *second)).splitlines()

    assert lines[0].split()[:4] == ["Variant", "Pass", "Pass^k", "Decl."]
    assert [line.split()[2] for line in lines[3:7:2]] == ["1.00", "0.00"]
    assert "x  passed: a; 1/2 passed, schema_violation: b" in " ".join(lines)


def test_report_has_repeats_and_sampling_by_variant_and_keeps_bounds() -> None:
    params = {"temperature-0": {"temperature": 0}, "temperature-1": {"temperature": 1}}
    metadata = examples.variants(**{name: {"params": one, "repeats": 2} for name, one in params.items()})
    records = [
        replace(record("x", verdict=verdict), variant=name, repeat=repeat)
        for name in params
        for repeat, verdict in enumerate((examples.PASSED, examples.VIOLATED))
    ]
    records.append(replace(record("y", verdict=examples.BROKEN, generation=examples.failed()), variant="temperature-0"))
    run = examples.run_of_variants(metadata, *records)
    summary = summarize(run)

    table = table_lines(main_table(run, summary), 72)
    text = " ".join(" ".join(fact_lines(facts(run, summary))).split())

    assert (table[3].split()[1:3], table[4].split()[:2]) == (["0.50", "0.00"], ["(0-1)", "(0-.97)"])
    assert "repeats temperature-0: every attempt of a case passed (pass^k) 0/2" in text
    assert "flaky temperature-1: 1 case passed in some attempts only: simple::x 1/2" in text
    assert "sampled temperature-0: temperature 0: the attempts at a case are identical" in text


def test_floor_fact_has_the_pass_rate_of_nontrivial_cases() -> None:
    trivial = {"a": ("{}",), "b": ("[]", "{}"), "c": ("[]",), "d": ()}
    made = [record(name, verdict=replace(examples.PASSED, trivial=texts)) for name, texts in trivial.items()]
    text = " ".join(" ".join(lines(*made, replace(made[-1], repeat=1))).split())

    floor = "the constant answer {} passes 2/4 = 0.500 of the cases"
    assert f"{floor}; pass rate on cases that no constant answer passes 2/2 = 1.000" in text


def test_cases_of_repeated_variants_are_listed_under_up_and_down() -> None:
    metadata = examples.variants(a={"repeats": 2}, b={"repeats": 2})
    passes = {"a": {"fell": 2, "rose": 0}, "b": {"fell": 1, "rose": 1}}
    made = [
        replace(record(case, verdict=examples.PASSED if at < count else examples.VIOLATED), variant=name, repeat=at)
        for name, cases in passes.items()
        for case, count in cases.items()
        for at in range(2)
    ]

    text = " ".join(shown_of(examples.run_of_variants(metadata, *made)).split())

    assert "1 case up, 1 down" in text
    assert "down 1: simple::fell up 1: simple::rose" in text
    assert "1 case that some variants pass and others fail: a variant passes a case if every attempt passes" in text


def test_run_with_reasoning_has_a_column_for_its_time() -> None:
    timing = Timing(tgt=3.0, ttft=2.0, reasoning_time=1.5)
    run = examples.run(record("a", generation=replace(examples.completion(), timing=timing)), record("b", task="hard"))
    head, _, *rows = summary_markdown(run, summarize(run)).split("\n\n")[1].splitlines()
    assert head.endswith("| TGT (s) | GCT (s) | Reasoning (s) | n |")
    assert [row.split(" | ")[-2:] for row in rows] == [["1.50", "1 |"], ["n/a", "1 |"], ["1.50", "1 |"]]


def test_short_lateness_is_no_problem_of_a_fast_server() -> None:
    for late, warned in ((0.0009, False), (0.0011, True)):
        timing = Timing(tgt=0.01, ttft=0.002, ttft_lateness=late)
        run = examples.run(record("a", generation=replace(examples.completion(), timing=timing)))
        assert any(name == "warning" for name, _ in facts(run, summarize(run))) is warned


BUSY = (
    "50.0 ms of the median TTFT, 200.0 ms, are not the server's: the process was too busy to read tokens when they "
    "arrived"
)


@pytest.mark.parametrize(
    ("late", "shown"),
    [
        ((), []),
        ((0.001, 0.003), ["lateness 2 first tokens read 2.0 ms late (median), 3.0 ms (99th percentile)"]),
        (
            (0.05, 0.05),
            [
                "lateness 2 first tokens read 50.0 ms late (median), 50.0 ms (99th percentile)",
                f"warning {BUSY}: use fewer calls at a time (--jsbench-concurrency), or more processes (-n)",
            ],
        ),
    ],
    ids=["not measured", "little", "too much"],
)
def test_lateness_of_first_tokens_is_reported(late: tuple[float, ...], shown: list[str]) -> None:
    timings = [Timing(tgt=1.0, ttft=0.2, ttft_lateness=seconds) for seconds in late] or [Timing(tgt=1.0, ttft=0.2)]
    made = [record(f"c{at}", generation=replace(examples.completion(), timing=one)) for at, one in enumerate(timings)]
    run = examples.run(*made)
    assert [" ".join(fact) for fact in facts(run, summarize(run)) if fact[0] in ("lateness", "warning")] == shown


def test_hostile_text_stays_in_its_code_span() -> None:
    run = examples.run(record("a", verdict=HOSTILE_VERDICT), model=HOSTILE)

    lines = summary_markdown(run, summarize(run)).splitlines()

    assert "\x1b" not in "".join(lines)
    for line in lines:
        # The text outside of code spans, which CommonMark delimits by equally long runs of backticks.
        outside = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", line)
        assert "script" not in outside
        assert "**x**" not in outside
        if line.startswith("| ") and not line.startswith(("| Case", "| Task")):
            assert len(re.findall(r"(?<!\\)\|", line)) in {4, 10}


def test_report_of_variants_has_a_row_each_and_the_differing_cases() -> None:
    run = examples.compared(a="pv" + "v" * 60, b="pp" + "p" * 60)

    text = summary_markdown(run, summarize(run))

    assert text.startswith("### jsbench: 2 variants\n")
    assert text.index("| `b` | 1.000 (0.942 to 1.000) |") < text.index("| `a` | 0.016 (0.000 to 0.087) |")
    assert "| 11 | `model b` |" in text
    assert "- compared: `b against a: 61 more of 62 cases pass" in text
    assert "61 cases that some variants pass and others fail, the first 50</summary>" in text
    assert "| `simple::case01` | `passed` | `schema_violation` |" in text
    assert "| `simple::case01[a]` | `schema_violation` |" in text


def test_long_names_of_cases_and_attempts_stay_distinct() -> None:
    task = "t" * 120
    failing = [record(f"{'i' * 119}{end}", task=task, verdict=examples.VIOLATED) for end in "ab"]
    again = [replace(one, repeat=1) for one in failing]
    run = examples.run(*failing, *again)

    lines = summary_markdown(run, summarize(run)).splitlines()

    rows = [line for line in lines if "`schema_violation` | `-1" in line]
    assert len(set(rows)) == 4
