from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from pytest_jsbench.metrics import comparison
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.reports import comparison_report
from pytest_jsbench.reports.run_json import run_to_dict, write_run
from tests.support import examples
from tests.support.commands import failed, of_variants, run, shown
from tests.support.examples import record

HOSTILE = "\x1b[31m$x$<b>\u202e../../x"


def test_a_comparison_as_json_has_every_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = [run(Path("a.json"), "m", 18), run(Path("b.json"), "m", 8)]

    data = json.loads(shown("compare", *files, "--json"))

    assert [one["label"] for one in data["evaluations"]] == [f"m ({path})" for path in files]
    (pair,) = data["comparisons"]
    assert (pair["real"], pair["difference"], len(pair["newly_failing"])) == (True, -0.5, 10)


def test_files_of_others_are_compared_metric_by_metric_and_null_is_no_zero(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"backend": "q", "config_path": "c", "metrics": {"acc": 0.5, "err": null}}')
    (tmp_path / "b.json").write_text('{"acc": 0.25, "new": 3}')

    lines = shown("compare", tmp_path / "a.json", tmp_path / "b.json", "--labels", "Base", HOSTILE).splitlines()

    assert [line.split() for line in lines[2:5]] == [["acc", "0.5", "0.25"], ["err", "n/a", "n/a"], ["new", "n/a", "3"]]
    assert "\x1b" not in "".join(lines)


def test_what_is_left_out_of_a_comparison_is_said(tmp_path: Path) -> None:
    one, other = run(tmp_path / "one.json", "a", 2, of=3), tmp_path / "other.json"
    data = json.loads(one.read_text())
    data["run"]["model"] = "b"
    for case in data["cases"].values():
        del case["measures"]
    data["cases"]["simple::c0"]["attempts"] = ["passed", "refusal"]
    data["cases"]["simple::c1"]["attempts"] = ["api_error"]
    data["cases"]["simple::new"] = data["cases"].pop("simple::c2")
    other.write_text(json.dumps(data))

    said = " ".join(shown("compare", one, other).split())

    left_out = "1 undecided in one run, 1 only in a, 1 only in b"
    assert f"not shared cases left out of the comparison: {left_out}" in said
    assert "repeats 1 case was attempted more often in one run: the additional attempts are not compared" in said


def test_labels_may_be_one_list_with_commas(tmp_path: Path) -> None:
    files = [run(tmp_path / f"{name}.json", "m", 1, of=1) for name in ("one", "two")]

    assert "first" in (text := shown("compare", *files, "--labels", "first, second"))
    assert "against first: the same verdict on each of 1 case" in text
    assert "one,two" in shown("compare", files[0], "--labels", "one,two")


def test_a_run_without_cases_is_shown_and_said_not_to_be_paired(tmp_path: Path) -> None:
    first, second = run(tmp_path / "a.json", "m", 18), run(tmp_path / "b.json", "n", 8)
    data = json.loads(second.read_text())
    del data["cases"]
    second.write_text(json.dumps(data))

    text = shown("compare", first, second)

    assert "not paired n: without outcomes of cases" in text
    assert "against" not in text


def test_what_cannot_be_compared_is_one_line_and_status_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = run(tmp_path / "a.json", "m", 18)

    assert "cannot be read" in failed(capsys, "compare", tmp_path / "none.json")
    assert "--by=keyword needs records.jsonl" in failed(capsys, "compare", first, "--by=keyword")
    unknown = failed(capsys, "compare", first, "--by=task", "--metric=tpott")
    assert "no rate or time 'tpott': did you mean 'tpot'? (one of " in unknown
    assert "--metric error_rate affects only the table of --by" in failed(
        capsys, "compare", first, "--metric=error_rate"
    )
    assert "invalid name of a comment" in failed(capsys, "compare", first, "--comment=a b")
    assert "--margin: expected a number from 0 to 1, found nan" in failed(capsys, "compare", first, "--margin=nan")
    assert "--margin: a margin needs two runs, found 1; pass" in failed(capsys, "compare", first, "--margin=0.05")
    assert "--labels: found 2 labels for 1 file" in failed(capsys, "compare", first, "--labels", "a", "b")


def test_runs_are_told_by_task_in_each_form(tmp_path: Path) -> None:
    files = [run(tmp_path / "a.json", "flash", 18), run(tmp_path / "b.json", "turbo", 8)]

    assert "simple     20  0.90 (.68-.99)  0.40 (.19-.64) *" in shown("compare", *files, "--by", "task")
    data = json.loads(shown("compare", *files, "--by=task", "--json"))
    assert data["by"]["groups"][0]["rates"]["turbo"]["value"] == 0.4
    assert data["by"]["groups"][0]["against_first"]["turbo"]["real"]
    assert "| `simple` | 20 | 0.900 (0.683 to 0.988) | 0.400 (0.191 to 0.639) * |" in shown(
        "compare", *files, "--by=task", "--markdown"
    )
    assert shown("compare", *files, "--comment=gate").startswith("<!-- jsbench:gate -->\n")


def test_a_run_with_variants_is_one_run_for_each(tmp_path: Path) -> None:
    path = of_variants(tmp_path / "run", gpt="pppppp", mini="vvvvvv")

    text = shown("compare", path, "--by=task")

    assert "mini against gpt: 6 fewer of 6 cases pass" in " ".join(text.split())
    assert "simple      6  1.00 (.54-1)  0.00 (0-.46) *" in text
    assert "gpt" in shown("compare", path, "--labels", "today")


def test_of_two_runs_with_the_same_variants_each_is_compared_with_itself(tmp_path: Path) -> None:
    paths = [
        of_variants(tmp_path / "one", gpt="pppppp", mini="vvvvvv"),
        of_variants(tmp_path / "two", gpt="vvvvvv", mini="vvvvvv"),
    ]

    data = json.loads(shown("compare", *paths, "--labels", "main", "here", "--json"))

    pairs = {(one["first"], one["second"]): one["p_value_adjusted"] for one in data["comparisons"]}
    assert pairs == {("main gpt", "here gpt"): pytest.approx(0.0625), ("main mini", "here mini"): 1.0}
    text = shown("compare", *paths, "--labels", "main", "here", "--by=task", "--comment=gate")
    assert "### jsbench: 2 variants" in text
    assert "* differs from the same variant in the first run by more than chance" in text
    assert "| `simple` | 6 | 1.000 (0.541 to 1.000) |" + " 0.000 (0.000 to 0.459) |" * 3 in text


def test_run_is_compared_with_published_figures_in_every_form(tmp_path: Path) -> None:
    found = examples.run(*(record(f"c{at}", task="Glaiveai2K") for at in range(3)))
    found = replace(found, metadata=examples.metadata(model="<b>"))
    write_run(tmp_path / "run.json", run_to_dict(found, summarize(found), config_path="c"))
    arguments = ("compare", tmp_path / "run.json", "--published")

    assert ["Guidance", "0.98", "0.96", "0.98", "1,707"] in [line.split() for line in shown(*arguments).splitlines()]
    assert "| `Guidance` | 0.98 | 0.96 | 0.98 | `1,707` |" in shown(*arguments, "--markdown")
    assert "| `<b>` | 1.000 (0.292 to 1.000)" in shown(*arguments, "--markdown")
    told = json.loads(shown(*arguments, "--json"))["published"]
    assert told["tasks"]["Glaiveai2K"]["Gemini"]["compliance"]["value"] == 1.0


def test_runs_are_paired_once_also_where_a_margin_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [run(tmp_path / f"{name}.json", name, 20) for name in ("one", "two")]
    paired = Mock(wraps=comparison.pairs)
    monkeypatch.setattr(comparison_report, "paired", paired)

    shown("compare", *files, "--margin", "0.2")

    paired.assert_called_once()


def test_a_margin_asks_whether_a_run_is_shown_to_be_no_worse(tmp_path: Path) -> None:
    files = [run(tmp_path / f"{name}.json", name, 20) for name in ("one", "two")]

    text = " ".join(shown("compare", *files, "--margin", "0.2").split())

    assert "no worse two than one: shown for a margin of 0.2 (at worst -0.1" in text
    assert "no worse" not in shown("compare", *files)
    long = ["the-first-of-two-long-labels", "the-second-of-two-long-labels"]
    text = " ".join(shown("compare", *files, "--margin", "0.2", "--labels", *long).split())
    assert "no worse [2] than [1]: shown for a margin" in text
    markdown = shown("compare", *files, "--margin", "0.2", "--labels", *long, "--markdown")
    assert f"- no worse: `{long[1]} than {long[0]}: shown" in markdown
    (pair,) = json.loads(shown("compare", *files, "--margin", "0.2", "--json"))["comparisons"]
    assert pair["no_worse"] == {"margin": 0.2, "shown": True}


@pytest.mark.parametrize(
    ("passed", "found"),
    [(19, "better, by more than chance"), (4, "worse, by more than chance"), (13, "no difference beyond chance")],
)
def test_comment_begins_with_what_the_comparison_found(tmp_path: Path, passed: int, found: str) -> None:
    before, after = run(tmp_path / "a.json", "m", 12), run(tmp_path / "b.json", "m", passed)

    text = shown("compare", before, after, "--labels", "before", "after", "--comment=gate")

    assert text.startswith(f"<!-- jsbench:gate -->\n### jsbench: `after`\n\n**{found}**: `after` against `before`\n\n|")


def test_comment_on_one_run_compares_nothing(tmp_path: Path) -> None:
    assert "chance**" not in shown("compare", run(tmp_path / "a.json", "m", 12), "--comment=gate")


@pytest.mark.parametrize(
    "link",
    ["javascript:alert(1)", "https://example.com/a) @everyone", "https://e.com/<img>", "https://user:key@e.com/"],
)
def test_link_of_a_comment_must_be_a_plain_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], link: str
) -> None:
    arguments = ("compare", run(tmp_path / "a.json", "m", 12), f"--link={link}")

    assert "--link: expected an address" in failed(capsys, *arguments, "--comment=gate")
    assert "--link affects only a comment: add --comment=NAME" in failed(capsys, *arguments)


def test_compare_writes_a_page_that_loads_nothing(tmp_path: Path) -> None:
    pytest.importorskip("jinja2", reason="needs the extra report")
    files = [run(tmp_path / "a.json", "flash", 18), run(tmp_path / "b.json", "turbo", 8)]
    page = tmp_path / "page.html"

    text = shown("compare", *files, "-o", page)

    assert text.splitlines()[-1] == f"page       {page}"
    content = page.read_text("utf-8")
    assert "<figcaption><strong>Differences, case by case</strong>" in content
    assert "turbo against flash: 10 fewer of 20 cases pass" in content
    assert "default-src &#39;none&#39;; style-src &#39;sha256-" in content
    assert "<script" not in content
    assert not re.findall(r"(?:src|href)\s*=", content)


def test_page_of_a_comparison_without_jinja2_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = run(tmp_path / "a.json", "flash", 18)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    assert "pip install 'pytest-jsbench[report]'" in failed(capsys, "compare", file, file, "-o", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
