"""Test that a redacted run has digests in place of prompts, schemas and answers, and the same metrics."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.cli.main import main
from tests.support.bench import Bench, both_ways
from tests.support.run_files import validate

#: Prefix of every private word.
PRIVATE = "Zq7priv"


def private(name: str) -> str:
    return f"{PRIVATE}-{name}"


SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": private("title"),
    "description": private("description"),
    "properties": {
        "n": {"type": "integer", "minimum": 0, "examples": [private("example")]},
        private("key"): {"const": private("const"), "default": private("default")},
    },
    "required": ["n"],
}
#: Outcome of each case.
ANSWERS: dict[str, Any] = {
    "good": json.dumps({"n": 1, private("key"): private("const")}),
    "violated": json.dumps({"n": private("value")}),
    "invented": json.dumps({"n": 1, private("extra"): private("value")}),
    "prose": private("prose"),
    "refused": {"decline": "refusal", "message": private("refusal")},
    "broke": {"fault": "bad_request", "message": private("fault")},
    "badschema": "{}",
    "test_asserts": '{"n": 4}',
    "test_answer_fails": private("answer"),
    "test_passes": json.dumps({"n": 5, private("key"): private("const")}),
    "test_in_a_subtest": '{"n": 6}',
}
#: Checks all files on disk after each test.
CONFTEST = """
import os, pathlib
def pytest_runtest_logreport(report):
    for top in ("out", "tmp", ".pytest_cache"):
        for path in pathlib.Path(__file__).parent.joinpath(top).rglob("*"):
            try:
                found = path.is_file() and b"Zq7priv" in path.read_bytes()
            except FileNotFoundError:
                continue
            if found:
                pathlib.Path(__file__).with_name("leaks").write_text(str(path))
"""
OWN_TESTS = f"""
import logging, pytest
def classify(record): raise ValueError(record.generation.text)
mark = pytest.mark.jsbench(schema={SCHEMA!r}, prompt="{private("own prompt")} {{text}}")
@mark
def test_asserts(jsbench):
    answer = jsbench.generate(text="{private("text")}")
    print("{private("printed")}", answer)
    logging.getLogger("own").warning("{private("logged")}")
    assert answer.parsed == {{"n": "{private("expected")}"}}, "{private("said")}"
@mark
def test_answer_fails(jsbench): jsbench.generate(text="{private("text")}")
@mark
def test_passes(jsbench): assert jsbench.generate(text="x").parsed["{private("key")}"] == "{private("const")}"
@mark
def test_in_a_subtest(jsbench, subtests):
    answer = jsbench.generate(text="x")
    with subtests.test("inner"):
        print("{private("printed")}")
        assert answer.text == "{private("expected")}"
"""


@pytest.fixture
def over_private_data(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    rows = [
        {"id": name, "schema": SCHEMA, "messages": [{"role": "user", "content": private(f"prompt {name}")}]}
        | {"reference": {"n": private("reference")}}
        for name in ANSWERS
        if not name.startswith("test_")
    ]
    rows[-1]["schema"] = {"type": private("type")}
    bench.answers = ANSWERS
    bench.write(
        {
            "rows.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
            "conftest.py": CONFTEST,
            "test_own.py": OWN_TESTS,
            "tmp/.keep": "",
        }
    )
    monkeypatch.setenv("TMPDIR", str(bench.path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(bench.path / "step.md"))
    monkeypatch.syspath_prepend(bench.path)
    return bench


def run(bench: Bench, *args: str) -> pytest.RunResult:
    return bench.run(
        *("--jsbench-dataset=rows.jsonl", "--jsbench-classify=test_own:classify", "--jsbench-output=out"),
        *("--junitxml=junit.xml", "--jsbench-export=every_eval_ever=exported", "--jsbench-retries=0"),
        *("-vv", "-rA", "--tb=long", "--showlocals", "--log-file=log.txt", "jsbench", "test_own.py", *args),
    )


def unpacked(page: str) -> str:
    """Return the whole text of a report, with its compressed cases."""
    packed = re.findall(r'<script type="text/plain"[^>]*>([^<]*)', page)
    return page + "".join(gzip.decompress(base64.b64decode(part)).decode() for part in packed)


def written(bench: Bench) -> dict[str, str]:
    """Return the files that the run has written, by path."""
    given = {"rows.jsonl", "conftest.py", "test_own.py", "answers.json", "log.txt"}
    texts = {
        str(path.relative_to(bench.path)): path.read_bytes().decode("utf-8", "replace")
        for path in bench.path.rglob("*")
        if path.is_file() and path.name not in given and path.suffix != ".pyc"
    }
    return {name: unpacked(text) if name.endswith(".html") else text for name, text in texts.items()}


def without_times(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if not re.match("(ttft|tpot|tgt|gct|queue)_", name)}


@pytest.mark.slow
@both_ways
def test_redacted_run_shows_nothing_private_and_keeps_its_metrics(over_private_data: Bench) -> None:
    bench = over_private_data
    result = run(bench, "--jsbench-redact")

    result.assert_outcomes(passed=2, failed=10)
    assert PRIVATE not in result.stdout.str() + result.stderr.str()
    files = written(bench)
    names = {Path(name).name for name in files}
    assert {"records.jsonl", "run.json", "report.html", "summary.md", "junit.xml", "step.md"} <= names
    assert [name for name, text in files.items() if PRIVATE in text] == []
    assert not (bench.path / "leaks").exists()
    result.stdout.fnmatch_lines(
        [
            "redacted   prompts, schemas and answers are replaced by digests:*",
            "*a classifier or metric failed; its error is redacted*",
            "*(--jsbench-redact), at *::* and 5 more*",
        ]
    )
    for line in (
        "schema_violation: breaks type",
        "  type at (redacted) [[]schema (redacted)]",
        "  answer: hmac-sha256:*",
        "AssertionError at test_own.py:*: message redacted (--jsbench-redact)",
    ):
        result.stdout.fnmatch_lines([line])
    validate(bench)
    redacted = bench.run_json()
    assert redacted["run"]["redacted"] is True
    (asserts,) = (record for record in bench.records() if record["id"] == "test_asserts")
    outcome = {"end": "failed", "cause": "assertion", "field": None, "message": "(redacted)"}
    assert asserts["test_outcome"] == outcome

    bench.run_in().rename(bench.path / "redacted")
    openly = run(bench)

    assert PRIVATE in openly.stdout.str()
    files = written(bench)
    told = {Path(name).name for name, text in files.items() if PRIVATE in text}
    assert {"records.jsonl", "report.html", "summary.md", "junit.xml", "step.md"} <= told
    assert (bench.path / "leaks").exists()
    figures = bench.run_json()
    assert without_times(figures["metrics"]) == without_times(redacted["metrics"])
    for kept in (figures, redacted):
        for case in kept["cases"].values():
            case.pop("measures", None)
    assert [figures[name] for name in ("keywords", "cases")] == [redacted[name] for name in ("keywords", "cases")]
    assert figures["run"]["dataset"]["digest"] == redacted["run"]["dataset"]["digest"]


@pytest.mark.slow
def test_redacted_run_is_resumed_by_a_redacted_run(
    over_private_data: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = over_private_data
    run(bench, "--jsbench-redact")
    bench.run_in().rename(bench.path / "first")

    again = run(bench, "--jsbench-redact", "--jsbench-resume=first")

    again.stdout.fnmatch_lines(
        [
            "jsbench: resuming *: 5 answers reused, 1 failed call retried",
            "resumed    5 answers reused from *",
            "warning    4 redacted answers to the project's own tests cannot be reused: the*",
        ]
    )
    assert not (bench.path / "leaks").exists()
    result = run(bench, "--jsbench-resume=first")
    result.stderr.fnmatch_lines(["ERROR: *its run was redacted; add --jsbench-redact to resume it"])
    result = run(bench, "--jsbench-redact", "--jsbench-resume=first", "--jsbench-extra-fields=allow")
    result.stderr.fnmatch_lines(["ERROR: *its run judged with policy *redacted answers cannot be judged again*"])
    result = run(bench, "--jsbench-replay=first", "--jsbench-engine=scripted")
    result = bench.pytester.runpytest_inprocess("--jsbench-replay=first", "--jsbench-dataset=rows.jsonl", "jsbench")
    result.stderr.fnmatch_lines(["ERROR: *first was written with --jsbench-redact*cannot be replayed*"])
    capsys.readouterr()
    assert main(["judge", "first"]) == 2
    assert "first was written with --jsbench-redact" in capsys.readouterr().err
    assert main(["compare", "first", "out", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["comparisons"][0]
    assert (found["changed"], found["newly_failing"]) == ([], [])
