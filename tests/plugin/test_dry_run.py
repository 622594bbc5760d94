from __future__ import annotations

import re
from fnmatch import fnmatch
from typing import Any

import pytest

from pytest_jsbench.adaptation.rewriting import rewrite_within
from pytest_jsbench.core.errors import PriceError
from pytest_jsbench.metrics.prices import Price
from pytest_jsbench.records.metadata import RunMetadata
from pytest_jsbench.run import case_rewriter, estimate
from tests.support.bench import Bench, with_workers


@with_workers
def test_dry_run_prints_an_estimate_without_calls(bench: Bench) -> None:
    bench.case("a", {"fault": "bad_request"})
    bench.case("b", {"fault": "bad_request"})

    result = bench.run(
        "--jsbench-dry-run",
        "--jsbench-max-tokens=100",
        "--jsbench-repeats=2",
        "--jsbench-rpm=2",
        "--jsbench-concurrency=3",
    )

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "calls      4 calls to scripted scripted, plus retries",
            "tokens     about * in, at most 400 out",
            "cost       unknown: calls of engine 'scripted' have no published price",
            "time       1.3 times the time of one call, at concurrency 3; at least 2.0 min*",
            "dry run    no calls were made, and no tests ran",
            "*no tests ran*",
        ]
    )
    assert not (bench.path / ".pytest_cache" / "d" / "jsbench").exists()


def test_estimate_rewrites_a_schema_once_for_all_repeats(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(schema: Any, *rest: Any) -> Any:
        with (bench.path / "rewritten").open("a") as file:
            file.write("one\n")
        return rewrite_within(schema, *rest)

    monkeypatch.setattr(case_rewriter, "rewrite_within", count)
    bench.case("a", schema='{"properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}')

    result = bench.run("--jsbench-dry-run", "--jsbench-repeats=3", "--jsbench-rewrite=inline")

    result.stdout.fnmatch_lines(["* 3 calls to *"])
    assert (bench.path / "rewritten").read_text() == "one\n"


def test_the_chosen_cases_alone_are_estimated_each_variant_by_itself(bench: Bench) -> None:
    bench.case("first")
    bench.case("second")

    result = bench.run("--jsbench-dry-run", "--jsbench-shots=0", "--jsbench-shots=1", "-k", "first")

    result.stdout.fnmatch_lines(["shots-0    1 call to *", "time       the time of one call, at concurrency 16"])
    result.stdout.fnmatch_lines(["shots-1    1 call to *"])


def test_a_project_s_own_tests_are_counted_and_not_estimated(bench: Bench) -> None:
    bench.write({"test_own.py": "def test_own(jsbench):\n    jsbench.generate('a')\n\ndef test_other():\n    pass\n"})

    scripted = "--jsbench-engine-option=answers=answers.json"
    bench.write({"answers.json": "{}"})
    result = bench.run_only("test_own.py", "--jsbench-engine=scripted", scripted, "--jsbench-dry-run")

    result.stdout.fnmatch_lines(["own tests  1 test of the project not included in the estimate"])
    assert not re.search(r"^calls ", result.stdout.str(), flags=re.MULTILINE)


def test_the_cost_is_that_of_the_published_price_without_a_key(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("genai_prices", reason="needs the extra openai")
    pytest.importorskip("urllib3", reason="needs the extra openai")
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    bench.case("a")

    engine = ("--jsbench-engine=openai", "--jsbench-model=gpt-5.4-mini")
    result = bench.run_only(*engine, "--jsbench-dataset=schemas", "--jsbench-dry-run")

    result.stdout.fnmatch_lines(["calls      1 call to openai gpt-5.4-mini*", "cost       at most $0.*, by the *"])


@pytest.mark.parametrize(
    ("options", "costs"),
    [
        (["--jsbench-repeats=2"], {"jsbench: at most $0.0040 by the published price; details with --jsbench-dry-run"}),
        (["--jsbench-shots=0", "--jsbench-shots=1"], {"jsbench: at most $0.0040 by *"}),
        (["--jsbench-max-cost=1"], set()),
        (["-k", "a"], set()),
        (["--jsbench-base-url=http://127.0.0.1:9/v1"], set()),
    ],
)
def test_the_header_says_what_the_suite_may_cost_at_most(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, options: list[str], costs: set[str]
) -> None:
    pytest.importorskip("urllib3", reason="needs the extra openai")
    monkeypatch.setenv("OPENAI_API_KEY", "any")

    def price_of(metadata: RunMetadata, *, batch: bool) -> Price:
        if metadata.provider is None:
            raise PriceError
        return lambda usage: (usage.output_tokens or 0) / (2_000_000 if batch else 1_000_000)

    monkeypatch.setattr(estimate, "price_of", price_of)
    bench.case("a")
    bench.case("b")

    engine = ("--jsbench-engine=openai", "--jsbench-model=m", "--jsbench-max-tokens=1000", "--jsbench-dataset=schemas")
    result = bench.run_only(*engine, "--jsbench-timeout=0.01", "--jsbench-retries=0", "--collect-only", *options)

    lines = {line for line in result.outlines if "at most $" in line and "in flight" not in line}
    assert len(lines) == len(costs)
    assert all(fnmatch(line, *costs) for line in lines)


def test_no_prompt_is_read_for_an_unpublished_price(bench: Bench) -> None:
    bench.case("a", {"type": "object"})
    module = bench.pytester.makepyfile(prompts="def prompt(_): open('was_read', 'w').close(); return 'p'")
    bench.pytester.syspathinsert()

    assert bench.run("--jsbench-prompt=prompts:prompt", "--collect-only").ret == 0

    assert not module.with_name("was_read").exists()


def test_the_cost_is_no_less_than_what_a_limit_would_hold_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("urllib3", reason="needs the extra openai")
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setattr(estimate, "price_of", lambda *_, **__: lambda usage: float(usage.input_tokens))
    bench.case("a", schema={"type": "object", "description": "word " * 20_000})

    engine = ("--jsbench-engine=openai", "--jsbench-model=m")
    result = bench.run_only(*engine, "--jsbench-dataset=schemas", "--jsbench-dry-run")

    (cost,) = re.findall(r"^cost +at most \$([\d,]+)", result.stdout.str(), flags=re.MULTILINE)
    assert (
        int(cost.replace(",", "")) > 2 * 100_000 / 2
    )  # the schema counts twice, in the prompt and for itself, at a token per two bytes


def test_a_dry_run_of_batches_hands_nothing_in(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("urllib3", reason="needs the extra openai")
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    bench.case("a")

    engine = ("--jsbench-engine=openai", "--jsbench-model=m", "--jsbench-dataset=schemas")
    result = bench.run_only(*engine, "--jsbench-batch", "--jsbench-output=runs", "--jsbench-dry-run")

    time = "time       the time that the provider takes for a batch"
    result.stdout.fnmatch_lines(["calls      1 call to openai m*", time, "dry run    no calls were made, *"])
    assert not (bench.path / "runs").exists()
