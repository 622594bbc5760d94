"""Test that rows, documents and objects reach the engine and the record through pytest."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_jsbench.core.cases import safe_name
from pytest_jsbench.formats import Format
from tests.support.bench import NUMBER, Bench

HOSTILE = "a/b\n::c\x1b"


def test_a_name_with_dots_is_shown_as_what_it_is_run_by(bench: Bench) -> None:
    tools = [{"name": "v1.sum", "inputSchema": NUMBER}, {"name": "sum", "inputSchema": NUMBER, "outputSchema": NUMBER}]
    bench.write({"api.v1.json": json.dumps(tools)})
    bench.answers |= dict.fromkeys(["v1.sum", "sum", "sum.output"], '{"n": 1}')

    result = bench.run("--jsbench-dataset=api.v1.json", "-v", "jsbench::api.v1::sum.output")

    assert result.parseoutcomes()["passed"] == 1
    result.stdout.re_match_lines([r"(?!.*::output).*\bjsbench::api\.v1::sum\.output\b.*"])


def test_hostile_row_does_not_affect_other_rows(bench: Bench) -> None:
    rows = [
        {"id": "own", "schema": NUMBER, "prompt": "How many?", "reference": {"n": 1, "s": "\ud800"}, "tags": ["sums"]},
        {"id": HOSTILE, "schema": NUMBER},
        {"id": "plain", "schema": NUMBER},
        {"id": "plain", "schema": NUMBER},
    ]
    lines = [
        *map(json.dumps, rows),
        "{oops",
        "[" * 100_000,
        '{"id": "deep", "schema": ' + '{"not": ' * 300 + "{}" + "}" * 301,
    ]
    bench.write({"rows.jsonl": "\n".join(lines)})
    bench.answers |= dict.fromkeys(["own", safe_name(HOSTILE), "plain", "plain.2"], '{"n": 1}')

    result = bench.run("--jsbench-dataset=rows.jsonl", "--jsbench-output=out", "-rs")

    records = {record["id"]: record for record in bench.records()}
    assert sorted(records) == [safe_name(HOSTILE), "deep", "line-5", "line-6", "own", "plain", "plain.2"]
    result.assert_outcomes(passed=4, failed=3)
    result.stdout.fnmatch_lines_random(["invalid_schema (not_json): rows.jsonl line 5: *"])
    assert records["own"]["prompt"]["messages"] == [{"role": "user", "content": "How many?"}]
    assert records["own"]["reference"] == {"n": 1, "s": "\ud800"}
    assert records["own"]["tags"] == ["sums"]
    assert records["plain"]["reference"] is None
    assert {records[name]["verdict"]["reason"] for name in ("deep", "line-5", "line-6")} == {"too_deep", "not_json"}


@pytest.fixture(scope="module")
def datasets() -> Any:
    """Import the library before pytester records the modules: pyarrow registers an extension type only once."""
    return pytest.importorskip("datasets", reason="needs the extra datasets")


@pytest.mark.parametrize(("source", "revision"), [("nobody/nothing@v1", "v1"), ("nobody/nothing", None)])
def test_run_records_the_revision_of_hub_data(
    datasets: Any, bench: Bench, monkeypatch: pytest.MonkeyPatch, source: str, revision: str | None
) -> None:
    table = datasets.Dataset.from_list([{"json_schema": json.dumps(NUMBER), "unique_id": "x"}])
    monkeypatch.setattr(datasets, "get_dataset_config_names", lambda *_, **__: ["easy"])
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: {"test": table})
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", lambda *_, **__: SimpleNamespace(sha=None))
    bench.answers["x"] = '{"n": 1}'

    result = bench.run(f"--jsbench-dataset={source}", "--jsbench-output=out")

    result.assert_outcomes(passed=1)
    run = json.loads(next(bench.path.glob("out/*/run.json")).read_text())
    assert (run["run"]["dataset"]["source"], run["run"]["dataset"]["revision"]) == (source, revision)
    Format("run").check(run)


@pytest.fixture
def asked(bench: Bench) -> Bench:
    bench.case("a", "asked", schema={"type": "string"})
    bench.write(
        {
            "asking.py": "def ask(case): return f'Answer {case.key.id}'\n",
            "mine.j2": "{% block system %}Rules of {{ task }}{% endblock %}{% block user %}{{ id }}?{% endblock %}",
        }
    )
    return bench


@pytest.mark.parametrize(
    ("prompt", "expected"), [("mine.j2", '"system: Rules of orders | user: a?"'), ("asking:ask", '"user: Answer a"')]
)
def test_a_users_own_prompt_is_asked_and_its_digest_stands_in_the_run(asked: Bench, prompt: str, expected: str) -> None:
    if prompt.endswith(".j2"):
        pytest.importorskip("jinja2", reason="needs the extra prompts")

    result = asked.run(
        "--jsbench-engine-option=answers=answering:heard", f"--jsbench-prompt={prompt}", "--jsbench-output=out"
    )

    result.assert_outcomes(passed=1)
    (record,), run = asked.records(), asked.run_json()["run"]
    assert record["generation"]["text"] == expected
    assert record["prompt"]["digest"].startswith("sha256:")
    assert record["prompt_length"]["exact"] is False
    assert (run["prompt"], run["shots"]) == (prompt, 0)
    assert run["prompt_digest"].startswith("sha256:")


def test_a_case_that_cannot_fit_is_said_so_and_not_sent(bench: Bench) -> None:
    bench.case("long", schema={"description": "word " * 400})
    bench.case("short")

    result = bench.run("--jsbench-context=300", "--jsbench-output=out", "--jsbench-shots=1", "--jsbench-prompt=chat")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["jsbench: prompt chat, 1 example first"])
    result.stdout.fnmatch_lines(
        ["*unsupported_schema (context_length): the prompt has about * tokens, and the model's context has 300; *"]
    )
    total = bench.run_json()["metrics"]
    assert (total["planned"], total["declined"], total["failed"], total["declared_coverage"]) == (2, 1, 0, 0.5)
