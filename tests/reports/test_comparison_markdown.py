from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.reports.breakdown import Grouping, break_down
from pytest_jsbench.reports.comparison_markdown import comparison_markdown
from pytest_jsbench.reports.evaluations import Evaluation, parse, run_to_dict
from pytest_jsbench.runs.outcomes import RunStatus, RunVerdict
from tests import examples

#: what would be markup, a mention, a link, a reference, a hidden text or a command of a workflow
HOSTILE = "`x` <b>@octocat</b> [a](https://evil.example) #1 | <!-- jsbench:gate --> \n::error::x ##[error] \x1b[31m$x$"


def evaluation(source: str = "a", *, passed: int = 3, because: str = "gate not met", **run: object) -> Evaluation:
    records = [
        examples.record(f"c{at}", verdict=examples.PASSED if at < passed else examples.VIOLATED) for at in range(3)
    ]
    found = replace(
        examples.run(*records),
        metadata=examples.metadata(**run),
        verdict=RunVerdict.of(RunStatus.FAILED, 1, [because]),
    )
    return parse(json.loads(json.dumps(run_to_dict(found, summarize(found), config_path="c"))), source=source)


def test_a_comment_has_the_marker_the_verdict_the_difference_and_the_settings() -> None:
    found = [evaluation(prompt="schema"), evaluation(passed=1, prompt="chat")]

    text = comparison_markdown(found, ["base", "new"], comment="gate", by=break_down(found, Grouping.TASK))

    assert text.splitlines()[0] == "<!-- jsbench:gate -->"
    assert "### jsbench: `new`\n\n**FAILED**: `gate not met`\n" in text
    assert "| `new` | 0.333 (0.061 to 0.792) | 1.00 s | n/a | 3 |" in text
    assert "- `new` against `base`: 2 fewer of 3 cases pass (" in text
    assert "  - broke 2: `simple::c1`, `simple::c2`\n" in text
    assert "| `simple` | 3 | 1.00 ±0.28 | 0.33 ±0.37 |" in text
    assert "<summary>1 setting differs</summary>" in text
    assert "| `prompt` | `answers` | `schema` | `chat` |" in text
    assert comparison_markdown(found, ["base", "new"]).startswith("### jsbench: `new`")


def test_whatever_a_run_is_called_or_says_is_no_markup() -> None:
    found = [evaluation(prompt="schema"), evaluation(passed=1, because=HOSTILE, prompt=HOSTILE, model=HOSTILE)]

    text = comparison_markdown(found, ["base", HOSTILE], comment="gate", by=break_down(found, Grouping.TASK))

    plain = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    for one in ("octocat", "evil", "<b>", "::error", "##[", "$x$", "#1"):
        assert one not in plain, one
    assert plain.count("<!--") == 1
    assert "\x1b" not in text
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} <= {4, 5, 6}


def test_a_comment_is_never_longer_than_github_takes_and_says_what_it_lacks() -> None:
    settings = {f"option{at}": "x" * 40 for at in range(900)}
    found = [evaluation(details=settings), evaluation(details=dict.fromkeys(settings, "y" * 40))]

    text = comparison_markdown(found, ["a", "b"], comment="gate")

    assert len(text) < 65_536
    assert "option1`" not in text
    assert text.endswith("\n\nno room here for 1 more section\n")
    assert len(comparison_markdown(found, ["a", "b"])) > 65_536


@pytest.mark.parametrize("name", ["", "a b", "a-->", "a--b", "-a", "a\n", "x" * 101, "<b>"])
def test_a_name_that_could_end_the_marker_is_refused(name: str) -> None:
    with pytest.raises(JSBenchError, match="no name of a comment"):
        comparison_markdown([evaluation()], ["a"], comment=name)
