from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_jsbench.metrics.figures import FIGURES
from pytest_jsbench.metrics.statistics import Rate, proportion
from pytest_jsbench.reports.blocks import Cell, Column, Marked, TableBlock
from pytest_jsbench.reports.terminal import detail, link, supports_links, table_lines, width_of

RATE, COUNTED, TIME = (Column.of(FIGURES[name]) for name in ("pass_rate", "over_constraint", "ttft_p50"))


def table(*columns: Column, **rows: tuple[Cell, ...]) -> TableBlock:
    return TableBlock(head="Name", columns=columns, rows=tuple(rows.items()))


def test_a_word_that_wrapping_puts_at_a_line_s_start_is_no_command() -> None:
    for width in range(80):
        shown = detail("warning", f"{'w' * width} ::error::x")
        assert not [line for line in shown if line.lstrip().startswith("::")]


def test_long_label_is_separated_from_its_text() -> None:
    assert detail("temperature-0.7", "72 calls") == ["temperature-0.7 72 calls"]
    assert detail("calls", "72") == ["calls      72"]


def test_bounds_move_below_rates_in_a_narrow_table() -> None:
    rows = table(COUNTED, RATE, TIME, a=(proportion(3, 4), proportion(1, 2), 1.25))

    for width in (160, 58, 49):
        assert table_lines(rows, width)[-1].split() == [
            "a",
            "3/4",
            "=",
            "0.750",
            "(.19-.99)",
            "0.50",
            "(.01-.99)",
            "1.25",
        ]
    for width in (48, 36):
        first, second = table_lines(rows, width)[-2:]
        assert first.split() == ["a", "3/4", "=", "0.750", "0.50", "1.25"]
        assert second.split() == ["(.19-.99)", "(.01-.99)"]
        assert first.index("0.750") + len("0.750") == second.index(")") + 1


def test_a_spare_column_is_left_out_before_bounds_go_below() -> None:
    further = replace(Column.of(FIGURES["gct_p50"]), spare=True)
    rows = table(RATE, TIME, further, a=(proportion(1, 2), 1.25, 9.75))

    assert table_lines(rows, 42)[-1].split() == ["a", "0.50", "(.01-.99)", "1.25", "9.75"]
    assert table_lines(rows, 28)[-1].split() == ["a", "0.50", "(.01-.99)", "1.25"]


def test_columns_for_wide_tables_are_omitted_first() -> None:
    wide_only = Column(heading="More", wide_only=True)
    rows = table(wide_only, RATE, a=(12, proportion(1, 2)))

    assert "More" in table_lines(rows, 60)[0]
    assert "More" not in table_lines(rows, 22)[0]
    assert "0.50 (.01-.99)" in table_lines(rows, 22)[-1]


def test_table_omits_roomy_columns_and_moves_bounds_before_names_are_cut() -> None:
    name = "openapi-definitions-of-tools"
    wide_only = Column(heading="More", wide_only=True)
    rows = TableBlock(head="Name", columns=(wide_only, RATE), rows=((name, (12, proportion(1, 2))),))

    assert table_lines(rows, 50)[-1].split() == [name, "12", "0.50", "(.01-.99)"]
    assert table_lines(rows, 45)[-1].split() == [name, "0.50", "(.01-.99)"]
    assert [line.split() for line in table_lines(rows, 40)[-2:]] == [[name, "0.50"], ["(.01-.99)"]]
    assert table_lines(rows, 36)[-1].split() == ["openapi-definitions…", "0.50", "(.01-.99)"]


def test_table_that_is_still_too_wide_is_split_without_loss() -> None:
    columns = [Column(heading=f"count{number}") for number in range(12)]

    lines = table_lines(table(*columns, a=tuple(range(12))), 40)

    assert max(map(len, lines)) <= 40
    assert [word for line in lines for word in line.split() if word.isdigit()] == [str(number) for number in range(12)]


def test_cut_names_stay_distinct_and_the_total_has_a_rule() -> None:
    names = {f"{'n' * 90}{end}": (1,) for end in "ab"}
    whole = TableBlock(
        head="Name", columns=(Column(heading="Count"),), rows=(*names.items(), ("total", (2,))), total=True
    )

    lines = table_lines(whole)

    assert {len(line) for line in lines} == {80}
    assert lines[2] != lines[3]
    assert lines[4] == lines[1]


def test_cells_show_unknown_values_and_untrusted_text_safely() -> None:
    columns = (RATE, TIME, RATE, Column(heading="\x1b[31m", left=True, foreign=True))
    bare = Rate(value=0.5, ci_low=None, ci_high=None)

    text = "\n".join(table_lines(table(*columns, a=(proportion(0, 0), None, Marked(bare, " *"), "\x1b[31mx"))))

    assert text.split("\n")[-1].split() == ["a", "n/a", "n/a", "0.50", "*", "\\x1b[31mx"]
    assert "\x1b" not in text


def test_variants_with_long_names_stay_side_by_side_and_apart() -> None:
    heads = [f"openai-compatible/{'n' * 20}-with-{end}" for end in ("tools", "schema", "grammar")]
    columns = [Column.of(FIGURES["pass_rate"], name) for name in heads]
    foreign = [Column(heading=column.heading, figure=column.figure, foreign=True) for column in columns]

    lines = table_lines(table(*foreign, simple=(proportion(1, 2),) * 3))

    assert max(map(len, lines)) <= 80
    assert lines[-1].split() == ["simple", *["0.50", "(.01-.99)"] * 3]
    assert [sum(end in line for line in lines) for end in ("tools", "schema", "grammar")] == [1, 1, 1]

    task = "a-task-of-thirty-five-characters-ab"
    assert table_lines(table(*foreign, **{task: (proportion(1, 2),) * 3}), 160)[-1].startswith(f"{task}  ")


def test_the_head_of_texts_stays_in_one_line() -> None:
    columns = (Column(heading="Affects", left=True), Column(heading="a", left=True, foreign=True))

    assert table_lines(table(*columns, seed=("speed", "1")))[0] == "Name  Affects  a"


def test_width_follows_columns_for_any_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert width_of(is_terminal=False) == 80
    monkeypatch.setenv("COLUMNS", "160")
    assert (width_of(is_terminal=False), width_of(is_terminal=True)) == (160, 160)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM_PROGRAM": "iTerm.app"}, True),
        ({"TERM_PROGRAM": "Apple_Terminal", "TERM": "xterm-256color"}, False),
        ({"TERM": "xterm-kitty"}, True),
        ({"WT_SESSION": "x"}, True),
        ({"VTE_VERSION": "7600"}, True),
        ({"VTE_VERSION": "5000"}, False),
        ({"VTE_VERSION": "new"}, False),
        ({"TERM": "xterm-kitty", "SSH_CONNECTION": "1"}, False),
        ({"TERM": "dumb", "FORCE_HYPERLINK": "1"}, True),
        ({"TERM": "xterm-kitty", "FORCE_HYPERLINK": "0"}, False),
        ({}, False),
    ],
)
def test_links_are_for_terminals_that_open_them(environment: dict[str, str], expected: bool) -> None:
    assert supports_links(environment) is expected


def test_link_names_the_file_and_quotes_its_address(tmp_path: Path) -> None:
    page = tmp_path / "a\x1b]8;;https:evil\x07 b.html"

    linked, plain = (link(page, page.name, has_links=has_links) for has_links in (True, False))

    assert plain == f"{tmp_path.as_uri()}/a%1B%5D8%3B%3Bhttps%3Aevil%07%20b.html"
    assert linked == f"\x1b]8;;{plain}\x1b\\a\\x1b]8;;https:evil\\x07 b.html\x1b]8;;\x1b\\"
