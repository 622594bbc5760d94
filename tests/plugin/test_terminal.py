from __future__ import annotations

import importlib.util
import re

import pytest

from tests.support.bench import Bench, both_ways


def summary(result: pytest.RunResult) -> list[str]:
    start = next(n for n, line in enumerate(result.outlines) if line.strip("= ").startswith("jsbench: scripted"))
    return result.outlines[start:]


def test_the_summary_is_the_last_thing_before_pytests_own_last_line(mixed: Bench) -> None:
    pytest.importorskip("pytest_benchmark", reason="needs pytest-benchmark")
    mixed.plugins = ("benchmark",)
    result = mixed.run("--benchmark-sort=name")

    text = result.stdout.str()
    assert text.index("short test summary") < text.index("jsbench: scripted")
    assert text.index("benchmark 'jsbench orders'") < text.index("jsbench: scripted")
    assert "failed" in result.outlines[-1]


def test_there_is_no_colour_when_told_so(mixed: Bench) -> None:
    assert "\x1b" not in mixed.run("--color=no").stdout.str()
    assert "\x1b" in mixed.run("--color=yes").stdout.str()


def test_summary_follows_a_blank_line_and_links_the_report(bench: Bench) -> None:
    pytest.importorskip("jinja2", reason="needs the extra report")
    bench.case("a")

    result = bench.run("--jsbench-output=out put")

    lines = summary(result)
    assert result.outlines[-len(lines) - 1] == ""
    assert lines[1].startswith("Task")
    (line,) = [line for line in lines if line.startswith("report ")]
    (page,) = (bench.path / "out put").glob("*/report.html")
    assert line.split() == ["report", page.as_uri()]


@pytest.mark.parametrize(("folder", "installed"), [("", True), ("", False), ("out", False)])
def test_summary_names_the_command_for_a_missing_page(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, folder: str, installed: bool
) -> None:
    pytest.importorskip("jinja2", reason="needs the extra report")
    bench.case("a")
    found = importlib.util.find_spec
    if not installed:
        for place in ("importlib.util", "pytest_jsbench.plugin.terminal", "pytest_jsbench.reports.run_files"):
            monkeypatch.setattr(
                f"{place}.find_spec", lambda name, *more: None if name == "jinja2" else found(name, *more)
            )

    lines = summary(bench.run(*([f"--jsbench-output={folder}"] if folder else [])))

    assert not any("needs jinja2" in line for line in lines), "reported twice"
    text = " ".join(" ".join(lines[next(n for n, one in enumerate(lines) if one.startswith("report ")) :]).split())
    install = "" if installed else "pip install 'pytest-jsbench[report]' && "
    assert text.startswith(f"report {install}jsbench report ")
    (line,) = [line for line in lines if line.startswith("report ")]
    runs, option, page = line.partition("jsbench report ")[2].split()  # a command on one line, to be copied
    assert (option, page) == ("-o", "report.html")
    assert len([*(bench.path / runs).rglob("records.jsonl")]) == 1


def test_a_case_whose_schema_is_broken_is_not_the_one_to_ask_again(bench: Bench) -> None:
    bench.case("a", schema={"type": 3})
    assert not [line for line in bench.run().stdout.lines if line.startswith("rerun ")]
    bench.case("b", '{"n": -1}')

    (line,) = [line for line in bench.run().stdout.lines if line.startswith("rerun ")]

    assert line.endswith(" jsbench::orders::b")


def test_quiet_summary_has_no_next_steps(bench: Bench) -> None:
    bench.case("a")
    bench.case("b", '{"n": -1}')

    quiet = summary(bench.run("-q"))

    assert [line for line in quiet if line.startswith("verdict ")]
    assert not [line for line in quiet if line.startswith(("rerun ", "gate "))]


def test_built_in_cases_name_the_quick_ones_and_what_to_do_next(bench: Bench) -> None:
    bench.write({"answers.json": '{"*": "{}"}'})
    scripted = ("--jsbench-engine=scripted", "--jsbench-engine-option=answers=answers.json", "--tb=no")
    offer = "jsbench: for a first look, --jsbench-dataset=builtin-quick runs 10 of these cases"

    listed = bench.run_only(*scripted, "--jsbench-dataset=builtin", "--co").stdout.str()
    quick = bench.run_only(*scripted, "--jsbench-dataset=builtin-quick").stdout.str()
    part = bench.run_only(*scripted, "--jsbench-tasks=simple", "--co").stdout.str()

    assert f"jsbench: dataset builtin, 88 cases, 16 in flight\n{offer}\n" in listed
    assert "jsbench: dataset builtin-quick, 10 cases, 16 in flight\n" in quick
    assert offer not in quick + part
    (following,) = re.findall(r"^next +(.+\n(?: {5}.+\n)*)", quick, flags=re.MULTILINE)
    assert " ".join(following.split()) == (
        "all built-in cases: --jsbench-dataset=builtin; your own schemas: --jsbench-dataset=DIR, or jsbench init "
        "finds them"
    )


@both_ways
def test_failures_explain_twenty_cases_and_ten_answers_and_verbose_all(bench: Bench) -> None:
    for number in range(23):
        bench.case(f"c{number:02}", '{\n  "n": -1\n}')
    bench.write({"test_own.py": "def test_own(): assert 3 == 4"})

    result = bench.run("test_own.py", "jsbench")
    text, verbose = result.stdout.str(), bench.run("-vv").stdout.str()

    result.assert_outcomes(failed=24)
    assert (text.count("\n  again:  "), verbose.count("\n  again:  ")) == (20, 23)
    assert (text.count("\n  next:   "), verbose.count("\n  next:   ")) == (20, 23)
    assert text.count("\nFAILED jsbench::orders::c") == 23
    hint = "jsbench: 3 more failing cases are not explained here; the HTML report (see below) explains each case"
    assert result.outlines.count(hint) == 1
    assert "assert 3 == 4" in text
    assert text.index("3 more failing cases") < text.index("short test summary")
    assert "not explained here" not in verbose
    assert "not explained here" not in bench.run("--tb=no").stdout.str()
    if bench.workers:
        return  # each worker explains its own first answers
    answer = '\n  answer:\n    {\n      "n": -1\n    }\n'
    assert (text.count(answer), verbose.count(answer)) == (10, 23)
    assert (text.count("further answers are not shown"), verbose.count("not shown")) == (1, 0)
    assert re.search(
        r"\n  minimum at .*\n  answer: this and further answers are not shown; -v shows them\n  next: ", text
    )
    assert (text.count("\n  user:\n"), verbose.count("\n  user:\n")) == (0, 23)
    parts = verbose.split("\nschema_violation")[1:]
    assert [part.index("\n  user:\n") < part.index("\n  next: ") for part in parts] == [True] * 23
    assert re.search(r"^jsbench::orders::c00 FAILED ", verbose, flags=re.MULTILINE), "a case is in no file"
