from __future__ import annotations

import pytest

from tests.support.bench import Bench


@pytest.mark.parametrize("names", ["terminal cacheprovider", "terminalreporter logging", "capture warnings"])
def test_run_ends_the_same_without_one_of_pytests_own_plugins(bench: Bench, names: str) -> None:
    bench.case("a", '{"n": -1}')
    bench.write({"conftest.py": "def pytest_sessionfinish(session): session.exitstatus = 7\n"})

    without = [part for name in names.split() for part in ("-p", f"no:{name}")]
    result = bench.run(*without, "--jsbench-output=out", "--junitxml=junit.xml", ".")

    assert result.ret == bench.run_json()["verdict"]["exit_status"] == 7
    assert 'name="jsbench.verdict" value="failed"' in (bench.path / "junit.xml").read_text()


OWN = {
    "schema.json": '{"pattern": "("}',
    "models.py": (
        "from typing import Callable\nfrom pydantic import BaseModel\nclass M(BaseModel):\n    f: Callable[[], int]\n"
    ),
    "tools.json": '[{"type": "function", "function": {"name": "f", "parameters": {"type": "objct"}}}]',
    "api.json": '{"openapi": "3.1.0", "info": {}, "paths": {}, "components": {"schemas": {"A": {"type": "objct"}}}}',
    "rows.jsonl": '{"id": "a", "schema": {"type": "objct"}}\n',
}


@pytest.mark.parametrize("name", OWN)
def test_a_broken_schema_of_ones_own_fails_the_run_and_meets_no_gate(bench: Bench, name: str) -> None:
    if name == "models.py":
        pytest.importorskip("pydantic")
    bench.write({name: OWN[name], "answers.json": "{}"})
    source = "models:M" if name == "models.py" else name

    result = bench.run_only(
        *("-p", "no:benchmark", "--jsbench-engine=scripted", "--jsbench-engine-option=answers=answers.json"),
        *(f"--jsbench-dataset={source}", "--jsbench-min-pass-rate=1", "--jsbench-output=out", "--junitxml=junit.xml"),
    )

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["gate *NOT MET*", "verdict    FAILED: 1 test with a broken schema: jsbench::*"])
    assert (bench.path / "junit.xml").read_text().count('type="invalid_schema"') == 1
    metrics = bench.run_json()["metrics"]
    assert metrics["missing_reasons"]["schema"] == metrics["missing"] == 1


MISSPELT = {"propertes": {"a": {"requird": 1}}, "requird": ["a"], "properties": {"requird": {"minLenght": 1}}}


def test_misspelled_keyword_is_reported_and_strict_rejects_it(
    bench: Bench,
) -> None:
    bench.case("order", "{}", schema=MISSPELT)

    result = bench.run("--jsbench-extra-fields=allow")

    assert result.ret == pytest.ExitCode.OK
    message = "orders::order: unknown keyword '{}': did you mean '{}'?"
    words = [("propertes", "properties"), ("requird", "required"), ("minLenght", "minLength")]
    result.stdout.fnmatch_lines([f"jsbench: {message.format(*word)}" for word in words])
    end = " ".join(result.stdout.str().split())
    assert all(f"warning {message.format(*word)}" in end for word in words)
    strict = bench.run("--jsbench-extra-fields=allow", "--jsbench-invalid-schemas=strict")
    assert strict.ret == pytest.ExitCode.TESTS_FAILED
    strict.stdout.fnmatch_lines(["invalid_schema (unknown_keyword): unknown keyword 'propertes': did you mean *"])


def test_summary_names_the_draft_in_which_broken_schemas_are_valid(bench: Bench) -> None:
    for name in ("a", "b"):
        bench.case(name, "{}", schema={"type": "array", "items": [{"type": "string"}]})
    bench.case("c", "{}", schema={"type": 5})

    result = bench.run()

    step = "*next: * the schema is valid in draft-07: --jsbench-default-dialect=draft-07, or `$schema` in the schema;*"
    result.stdout.fnmatch_lines([step])
    lines = [line for line in result.stdout.lines if line.startswith("dialect")]
    assert lines == ["dialect    2 of 3 invalid schemas are valid in draft-07; set"]
    assert bench.run("--jsbench-default-dialect=draft-07", "-k", "a or b").ret == pytest.ExitCode.TESTS_FAILED


def test_summary_names_a_pattern_that_is_not_ecma_262_and_its_case(bench: Bench) -> None:
    bench.case("name", '{"a": "x"}', schema={"properties": {"a": {"pattern": "\\A[a-z]+\\Z"}}})

    result = bench.run()

    message = " ".join(result.stdout.str().split())
    assert "orders::name at $.properties.a: the pattern \\A[a-z]+\\Z has \\A, which is not ECMA-262: write ^" in message
    assert "next: fix the pattern: it has \\A, which is not ECMA-262: write ^" in message
