from __future__ import annotations

import importlib.util
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pytest_jsbench.plugin import items, outputs
from tests.support.bench import Bench


def test_large_run_writes_few_junit_properties_per_case(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (items, outputs):
        monkeypatch.setattr(module, "MANY", 1)
    bench.write(
        {"conftest.py": "def pytest_runtest_logreport(report): print('properties', dict(report.user_properties))"}
    )
    bench.case("a")
    bench.case("b", "no JSON")

    result = bench.run("--jsbench-output=out", "--junitxml=junit.xml", "-s")

    printed = "properties {'jsbench.task': 'orders', 'jsbench.failure_type': 'syntax_error'}"
    assert printed in result.stdout.str()
    suite = ET.parse(bench.path / "junit.xml").getroot()[0]
    properties = {one.get("name"): one.get("value") for one in suite.findall("properties/property")}
    place = f"in {bench.run_in()}: records.jsonl, report.html"
    assert properties["jsbench.details"] == (
        f"this file has no details of attempts, as there are 2; the details are {place}"
    )
    assert [[one.tag for one in case] for case in suite.iter("testcase")] == [[], ["failure"]]
    assert [one.get("type") for one in suite.iter("failure")] == ["syntax_error"]


def test_large_run_without_a_record_says_that_its_details_are_not_stored(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (items, outputs):
        monkeypatch.setattr(module, "MANY", 0)
    bench.case("a")

    bench.run("--junitxml=junit.xml", "-p", "no:cacheprovider")

    assert "the details are not stored, since no records are kept" in (bench.path / "junit.xml").read_text()


def test_a_run_that_is_not_kept_has_its_records_and_figures_only(bench: Bench) -> None:
    bench.case("a")

    bench.run("--jsbench-gate=n>=1")

    (folder,) = Path(bench.path / ".pytest_cache/d/jsbench").iterdir()
    assert {path.name for path in folder.iterdir()} == {"records.jsonl", "run.json"}


def test_what_cannot_be_written_is_a_warning_and_no_failure(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.case("a")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(bench.path))

    result = bench.run()

    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["warning    cannot write GITHUB_STEP_SUMMARY: *"])


def test_a_run_that_a_hook_keeps_can_be_read_after_its_files_are_one(mixed: Bench) -> None:
    mixed.write(
        {
            "conftest.py": "import pathlib\n"
            "kept = []\n"
            "def pytest_jsbench_summary(run):\n"
            "    kept.append(run)\n"
            "def pytest_unconfigure():\n"
            "    for run in kept:\n"
            "        pathlib.Path('kept.log').write_text(' '.join(record.key.id for record in run.records))\n"
        }
    )

    mixed.run("--jsbench-output=out")

    assert (mixed.path / "kept.log").read_text().split() == [one["id"] for one in mixed.records()]


OWN = """
def ids(path, run, summary):
    path.write_text(" ".join(f"{record.key.id}:{record.verdict.passed}" for record in run.records))

def broken(path, run, summary):
    raise ValueError("no room")
"""


def test_a_run_is_written_in_every_format_that_was_asked_for(bench: Bench) -> None:
    bench.case("a")
    bench.case("b", '{"n": -1}')
    bench.write({"own_format.py": OWN})

    result = bench.run(
        "--jsbench-export=own_format:ids=new/ids.txt",
        "--jsbench-export=own_format:broken=nowhere",
        "--jsbench-export=every_eval_ever=shared",
    )

    assert (bench.path / "new" / "ids.txt").read_text() == "a:True b:False"
    assert len(list((bench.path / "shared").rglob("*.json"))) == 1
    result.stdout.fnmatch_lines(["warning    exporter 'own_format:broken', a function of your own, could not write"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


AT_A_TERMINAL = """
def pytest_sessionstart(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    reporter.isatty = type(reporter.isatty)(True)
"""


@pytest.mark.parametrize(("schema", "prepared"), [(None, 1), ({"type": "intger"}, 0)])
def test_end_is_prepared_after_answers_and_an_error_is_ignored(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, schema: object, prepared: int
) -> None:
    called: list[str] = []

    def fail() -> None:
        called.append("compile_page")
        raise RuntimeError("no template")

    monkeypatch.setattr("pytest_jsbench.reports.html.report.compile_page", fail)
    for name in "abcde":
        bench.case(name, schema=schema)

    result = bench.run("--jsbench-output=out", "--jsbench-invalid-schemas=skip")

    result.assert_outcomes(**{"passed" if prepared else "skipped": 5})
    assert len(called) == prepared
    assert (bench.run_in() / "run.json").exists()


def test_report_option_writes_the_page_and_links_it_last(bench: Bench) -> None:
    pytest.importorskip("jinja2", reason="needs the extra report")
    bench.case("a")
    bench.case("b", '{"n": -1}')

    result = bench.run("--jsbench-report=new/page.html", "--jsbench-min-pass-rate=0.9")

    page = bench.path / "new" / "page.html"
    text = page.read_text("utf-8")
    assert "<strong>FAILED</strong>" in text
    assert "Gate not met: pass_rate" in text
    assert "<figcaption><strong>Pass rate by task</strong>" in text
    assert result.outlines[-2] == f"report     {page.as_uri()}"


def test_terminal_that_opens_links_gets_one(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jinja2", reason="needs the extra report")
    monkeypatch.setenv("FORCE_HYPERLINK", "1")
    bench.case("a")
    bench.write({"conftest.py": AT_A_TERMINAL})

    plain = bench.run("--jsbench-report=page.html", "--color=no")
    linked = bench.run("--jsbench-report=page.html", "--color=yes")

    uri = (bench.path / "page.html").as_uri()
    assert f"report     {uri}" in plain.outlines
    assert f"report     \x1b]8;;{uri}\x1b\\page.html\x1b]8;;\x1b\\" in linked.outlines


def test_report_option_without_jinja2_fails_before_any_call(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.case("a")
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *more: None if name == "jinja2" else found(name, *more)
    )

    result = bench.run("--jsbench-report=page.html")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --jsbench-report needs jinja2: pip install 'pytest-jsbench[[]report]'"])
