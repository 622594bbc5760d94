from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

import pytest

from pytest_jsbench.core.cases import Expected
from pytest_jsbench.metrics.statistics import proportion
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records.runs import Run
from pytest_jsbench.reports.blocks import Column, TableBlock
from pytest_jsbench.reports.html.canvas import WIDTH, Canvas, Picture
from pytest_jsbench.reports.html.comparison import pictures_of_comparison
from pytest_jsbench.reports.html.pictures import draw_matrix, draw_rates, draw_spread, pictures_of_run
from pytest_jsbench.reports.overview import table_of_spread
from pytest_jsbench.reports.run_report import table_of_keywords, table_of_tasks
from pytest_jsbench.values import match
from tests.support import examples
from tests.support.examples import record, replace

HOSTILE = "</title></svg><script>alert(1)</script>\x1b[31m\u202e&\"'" + "宽" * 80


def svg_of(picture: Picture | None) -> ET.Element:
    assert picture is not None
    svg = ET.fromstring(picture.markup).find("svg")
    assert svg is not None
    return svg


def drawn(picture: Picture | None, kind: str) -> list[dict[str, str]]:
    """Return the attributes of the shapes of this class."""
    return [shape.attrib for shape in svg_of(picture).iter() if shape.get("class") == kind]


def described(picture: Picture | None) -> list[str]:
    return str(svg_of(picture).findtext("desc")).split("; ")


def named(pictures: Sequence[Picture], title: str) -> Picture:
    (picture,) = [picture for picture in pictures if picture.title.startswith(title)]
    return picture


def mixed() -> Run:
    """Return a run with two tasks, failures of two types, and answers of different length."""
    ends = [("a", "p", 1.0), ("a", "p", 2.0), ("a", "v", 3.0), ("b", "h", 4.0), ("b", "v", 9.0)]
    verdicts = {"p": examples.PASSED, "v": examples.VIOLATED, "h": examples.HALLUCINATED}
    return examples.run(
        *(
            record(f"c{at}", task=task, verdict=verdicts[end], generation=examples.completion(tgt=time), schema=True)
            for at, (task, end, time) in enumerate(ends)
        )
    )


def test_bars_are_as_long_as_the_rates_of_the_table() -> None:
    run = mixed()
    table = table_of_tasks(run, summarize(run))

    picture = draw_rates(table, "Rates")

    rates = [summary.pass_rate.value or 0 for summary in (*summarize(run).tasks.values(), summarize(run).total)]
    track = float(drawn(picture, "track")[0]["width"])
    assert [float(bar["width"]) / track for bar in drawn(picture, "fill")] == pytest.approx(rates, abs=0.001)
    assert described(picture) == [
        "a: 2/3 = 0.67 (0.09 to 0.99)",
        "b: 0/2 = 0.00 (0.00 to 0.84)",
        "total: 2/5 = 0.40 (0.05 to 0.85)",
    ]
    assert len(drawn(picture, "whisker")) == 3


def test_floor_is_marked_at_its_value() -> None:
    trivial = [replace(examples.PASSED, trivial=("{}",)), replace(examples.VIOLATED, trivial=())]
    run = examples.run(*(record(f"c{at}", verdict=verdict) for at, verdict in enumerate(trivial)))

    picture = draw_rates(table_of_tasks(run, summarize(run)), "Rates")

    assert [mark["d"].partition(" ")[0] for mark in drawn(picture, "floor")] == ["M170", "M170"]
    assert "floor 0.50" in described(picture)
    assert picture is not None
    assert "Triangle: the floor" in picture.markup


def test_page_pictures_show_failures_keywords_and_times() -> None:
    run = mixed()
    summary = summarize(run)

    pictures = pictures_of_run(run, summary)

    assert [picture.title for picture in pictures] == [
        "Pass rate by task",
        "Failures by type",
        "Failures by schema keyword",
        "Time to first token",
        "Total time",
    ]
    assert described(named(pictures, "Failures by type")) == ["schema_violation: 2", "hallucination: 1"]
    ((name, cells),) = table_of_keywords(summary).rows
    assert described(named(pictures, "Failures by schema keyword")) == [f"{name}: {cells[0]}"]
    assert described(named(pictures, "Total time"))[-1] == "total: 3.00 (1.20 to 8.00) s"


def test_spread_has_its_quantiles_on_one_scale() -> None:
    picture = draw_spread(table_of_spread("tgt", summarize(mixed())), "Total time", "s")

    boxes = [(float(box["x"]), float(box["width"])) for box in drawn(picture, "box")]
    length, start = WIDTH - 12, 6
    assert boxes[-1] == pytest.approx((start + length * 2 / 8.75, length * 2 / 8.75), abs=0.01)
    medians = [float(line["d"][1:].partition(" ")[0]) for line in drawn(picture, "median")]
    assert medians[-1] == pytest.approx(start + length * 3 / 8.75, abs=0.01)


def test_every_picture_has_a_role_a_title_and_a_description() -> None:
    run = examples.compared(a="pvpv", b="ppvv")

    for picture in pictures_of_run(run, summarize(run)):
        svg = svg_of(picture)
        assert svg.get("role") == "img"
        assert [child.tag for child in svg][:2] == ["title", "desc"]
        assert svg.findtext("title") == picture.title
        assert svg.findtext("desc")


def test_matrix_has_a_row_per_differing_case_and_one_per_group() -> None:
    run = examples.compared(a="pvpvpb", b="ppvvmp", c="pvpvpp")

    picture = named(pictures_of_run(run, summarize(run)), "Cases by variant")

    assert described(picture) == [
        "simple::case01: schema_violation, schema_violation, passed",
        "simple::case02: passed, passed, schema_violation",
        "1 case that all pass: passed, passed, passed",
        "1 case that none passes: failed, failed, failed",
        "2 cases not answered in all variants: none, none, none",
    ]
    assert (len(drawn(picture, "fill")), len(drawn(picture, "cell")), len(drawn(picture, "cross"))) == (6, 6, 6)


def test_each_kind_of_outcome_has_its_own_shape() -> None:
    shapes = {}
    for end in ("passed", "schema_violation", "2/3 passed, truncated", "missing", "api_error", ""):
        table = TableBlock(head="Case", columns=(Column(heading="v", foreign=True),), rows=(("c", (end,)),))
        kinds = [str(shape.get("class")) for shape in svg_of(draw_matrix(table, "m")) if shape.tag != "text"]
        shapes[end] = tuple(kinds[3:])

    assert shapes == {
        "passed": ("fill",),
        "schema_violation": ("cell", "cross"),
        "2/3 passed, truncated": ("cell", "fill"),
        "missing": ("lead",),
        "api_error": ("lead",),
        "": ("lead",),
    }


def test_paired_difference_is_drawn_at_its_value() -> None:
    runs = [
        examples.run(*(record(f"c{at}", verdict=verdict) for at in range(20)))
        for verdict in (examples.VIOLATED, examples.PASSED)
    ]
    evaluations = [examples.evaluation(run, source=name) for run, name in zip(runs, "ab", strict=True)]

    pictures = pictures_of_comparison(evaluations, ["old", "new"])

    picture = named(pictures, "Differences")
    (mark,) = drawn(picture, "mark real")
    assert float(mark["cx"]) == WIDTH - 6
    assert described(picture)[0] == "new against old: 0 down, 20 up"
    assert described(picture)[1].startswith("+1.000 (")
    assert described(picture)[2] == "a real difference"
    assert [line.partition(":")[0] for line in described(named(pictures, "Pass rate by run"))] == ["old", "new"]


def test_no_difference_has_an_empty_mark_in_the_middle() -> None:
    evaluations = [examples.evaluation(mixed(), source=name) for name in "ab"]

    (mark,) = drawn(named(pictures_of_comparison(evaluations, ["a", "b"]), "Differences"), "mark")

    assert float(mark["cx"]) == WIDTH / 2


def test_number_of_compared_cases_is_counted_in_words() -> None:
    evaluations = [examples.evaluation(examples.run(record("a")), source=name) for name in "ab"]

    picture = named(pictures_of_comparison(evaluations, ["a", "b"]), "Differences")

    assert ": 1 case, p = " in described(picture)[1]


def test_hostile_names_are_text_inside_the_picture() -> None:
    table = TableBlock(
        head="Task",
        columns=table_of_tasks(mixed(), summarize(mixed())).columns[:1],
        rows=((HOSTILE, (proportion(1, 2),)),),
    )

    picture = draw_rates(table, HOSTILE)
    matrix = draw_matrix(
        TableBlock(head="", columns=(Column(heading=HOSTILE),), rows=((HOSTILE, (HOSTILE,)),)), HOSTILE
    )

    for each in filter(None, (picture, matrix)):
        assert "<script" not in each.markup
        assert {"\x1b", "\u202e"}.isdisjoint(each.markup)
        tags = {element.tag for element in ET.fromstring(each.markup).iter()}
        assert tags <= {"figure", "figcaption", "strong", "span", "svg", "title", "desc", "text", "rect", "path"}
    texts = [str(text.text) for text in svg_of(picture).iter("text")]
    assert texts[0].count("宽") < 12
    assert "…" in texts[0]


def test_long_tables_are_cut_with_a_note() -> None:
    run = examples.run(*(record(f"c{at}", task=f"task{at:02}") for at in range(30)))

    picture = draw_rates(table_of_tasks(run, summarize(run)), "Rates")

    assert len(described(picture)) == 14
    assert described(picture)[-1].startswith("total: ")
    assert picture is not None
    assert "The table has 17 more rows." in picture.markup


def test_nothing_measured_draws_no_picture() -> None:
    run = examples.run(record("a", verdict=examples.EXCLUDED))

    assert pictures_of_run(run, summarize(run)) == []


def test_comparison_of_other_tools_files_draws_nothing() -> None:
    from pytest_jsbench.reports.run_json import parse

    evaluations = [parse({"metrics": {"acc": value}}, source=name) for value, name in ((0.5, "a"), (0.25, "b"))]

    assert pictures_of_comparison(evaluations, ["a", "b"]) == []


def test_marks_beyond_a_scale_stay_inside() -> None:
    canvas = Canvas()
    canvas.add_difference(-2, 0.5, 3, real=False)

    (line,) = drawn(canvas.picture("t", "l"), "whisker")

    assert line["d"].startswith("M6 6H334M6 ")


def test_ratio_is_drawn_on_a_logarithmic_scale() -> None:
    runs = [
        examples.run(*(record(f"c{at}", generation=examples.completion(tgt=tgt, tokens=tokens)) for at in range(8)))
        for tgt, tokens in ((1.0, 10), (4.0, 10))
    ]
    evaluations = [examples.evaluation(run, source=name) for run, name in zip(runs, "ab", strict=True)]

    picture = named(pictures_of_comparison(evaluations, ["a", "b"]), "Ratios")

    assert described(picture) == [
        "b against a",
        "Time to first token: 1.00 (1.00 to 1.00), 8 cases",
        "not distinguishable",
        "Total time: 4.00 (4.00 to 4.00), 8 cases",
        "a real difference",
        "Output tokens: 1.00 (1.00 to 1.00), 8 cases",
        "not distinguishable",
    ]
    assert [float(mark["cx"]) for mark in drawn(picture, "mark")] == [WIDTH / 2, WIDTH / 2]
    assert [float(mark["cx"]) for mark in drawn(picture, "mark real")] == [WIDTH - 6]


def test_each_compared_subject_has_its_own_difference() -> None:
    expected = Expected(value={"n": 1})
    values = [{"n": 2}, {"n": 1}]
    runs = [
        examples.run(*(replace(record(f"c{at}"), expected=expected, match=match(expected, value)) for at in range(8)))
        for value in values
    ]
    evaluations = [examples.evaluation(run, source=name) for run, name in zip(runs, "ab", strict=True)]

    picture = named(pictures_of_comparison(evaluations, ["a", "b"]), "Differences")

    assert described(picture)[::3] == ["b against a: 0 down, 0 up", "b against a, values all right: 0 down, 8 up"]
