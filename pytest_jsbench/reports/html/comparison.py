"""Write the comparison of several runs as one page that loads nothing and has no script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_jsbench.core.files import write_atomically
from pytest_jsbench.metrics.figures import FIGURES
from pytest_jsbench.reports.blocks import Block, TableBlock
from pytest_jsbench.reports.comparison_report import pairs, table_of_runs
from pytest_jsbench.reports.html.pictures import draw_differences, draw_rates, draw_ratios
from pytest_jsbench.reports.html.report import page_environment, page_part, policy_of
from pytest_jsbench.reports.overview import table_of_differences, table_of_ratios

if TYPE_CHECKING:
    from pytest_jsbench.reports.html.canvas import Picture
    from pytest_jsbench.reports.run_json import Evaluation


def write(path: Path, evaluations: Sequence[Evaluation], names: Sequence[str], blocks: Iterable[Block]) -> None:
    """Write the page with these blocks atomically; raise JSBenchError if this fails."""
    write_atomically(path, render(evaluations, names, blocks))


def render(evaluations: Sequence[Evaluation], names: Sequence[str], blocks: Iterable[Block]) -> Iterator[str]:
    """Render the page in parts; untrusted text in it is never markup."""
    environment = page_environment("the page of a comparison needs jinja2")
    from markupsafe import Markup

    style = page_part("report.css")
    return environment.get_template("comparison.html").generate(
        policy=policy_of(style),
        style=Markup(style),  # noqa: S704  our own file
        version=version("pytest-jsbench"),
        pictures=pictures_of_comparison(evaluations, names),
        blocks=with_templates(blocks),
    )


def pictures_of_comparison(evaluations: Sequence[Evaluation], names: Sequence[str]) -> list[Picture]:
    """Return the pictures of several runs: the differences of pairs, and the pass rates."""
    compared = [(f"{pair.second} against {pair.first}", pair.comparison) for pair in pairs(evaluations, names)]
    runs = table_of_runs(list(zip(names, evaluations, strict=True)))
    drawn = [
        draw_differences(table_of_differences(compared), "Differences, case by case"),
        draw_ratios(table_of_ratios(compared), "Ratios, case by case"),
        draw_rates(runs, f"{FIGURES['pass_rate'].title} by run"),
    ]
    return list(filter(None, drawn))


def with_templates(blocks: Iterable[Block]) -> list[tuple[str, Block]]:
    """Return each block with the name of the template part that renders it."""
    drawn: list[tuple[str, Block]] = []
    for block in blocks:
        if isinstance(block, TableBlock):
            drawn.append(("table", block))
        else:
            drawn.append(("facts" if isinstance(block, list) else "heading", block))
    return drawn
