"""Prepare a run of each kind, whose outputs do not depend on the machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.bench import NUMBER, Bench

FIXED = ("--jsbench-engine=scripted", "--jsbench-engine-option=answers=answering:fixed")
SUITE = (*FIXED, "--jsbench-dataset=schemas")


SKIPPING = """
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        if item.name == "later":
            item.add_marker(pytest.mark.skip(reason="not today"))
"""


def add_outcomes(bench: Bench) -> tuple[str, ...]:
    """Add one case of each outcome."""
    bench.case("passed")
    bench.case("violated", '{"n": -1}')
    bench.case("invented", '{"n": 1, "color": "red"}')
    bench.case("later")
    bench.case("prose", 'Sure! {"n": 1}', task="talk")
    bench.case("cut", {"text": '{"n": ', "finish_reason": "length"}, task="talk")
    bench.case("unsupported", {"decline": "unsupported_schema", "message": "oneOf is not supported"}, task="talk")
    bench.case("refused", {"decline": "refusal", "message": "I would rather not"}, task="talk")
    bench.case("broke", {"fault": "bad_request", "message": "context too long"}, task="talk")
    bench.case("badschema", schema={"type": "intger"}, task="talk")
    bench.write(
        {
            "conftest.py": SKIPPING,
            "schemas/orders/passed.expected.json": '{"n": 1}',
            "schemas/orders/violated.expected.json": '{"n": 1}',
        }
    )
    return (*SUITE, "--jsbench-invalid-schemas=skip", "jsbench", ".")


def three_of_four(bench: Bench) -> tuple[str, ...]:
    for name in ("a", "b", "c"):
        bench.case(name)
    bench.case("d", '{"n": -1}', task="hard")
    return SUITE


def add_met_gates(bench: Bench) -> tuple[str, ...]:
    bench.write({"pytest.ini": "[pytest]\njsbench_gate =\n    pass_rate>=0.75\n    n>=4\n"})
    return three_of_four(bench)


def add_missed_gate(bench: Bench) -> tuple[str, ...]:
    return (*three_of_four(bench), "--jsbench-min-pass-rate=0.9", "--jsbench-gate=n>=4")


def add_baseline(bench: Bench) -> tuple[str, ...]:
    arguments = (*three_of_four(bench), "--jsbench-gate=n>=4")
    bench.answers |= {"a": '{"n": -1}', "d": '{"n": 1}', "b": '{"n": -1}'}
    before = {"orders::a": "passed", "orders::b": "passed", "orders::c": "passed", "hard::d": "truncated"}
    cases = {name: {"attempts": [end]} for name, end in before.items()}
    bench.write({"base.json": json.dumps({"metrics": {"pass_rate": 0.75}, "cases": cases})})
    return (*arguments, "--jsbench-baseline=base.json", "--jsbench-max-regression=0.2")


OWN_TESTS = f"""
import pytest
from pytest_jsbench import assert_conforms

NUMBER = {NUMBER!r}
asks = pytest.mark.jsbench(schema=NUMBER, prompt="How many {{what}}?")

@asks
@pytest.mark.parametrize("what", ["apples", "pears"])
def test_answer(jsbench, what):
    assert jsbench.generate(what=what).instance["n"] == 1

@asks
def test_violated(jsbench):
    jsbench.generate(what="plums")

@asks
def test_never_asked(jsbench):
    raise RuntimeError("before the call")

@pytest.mark.jsbench(schema=NUMBER, prompt="How many?", repeats=3, min_pass=2)
def test_repeated(jsbench):
    jsbench.generate()

def test_application():
    assert_conforms(NUMBER, '{{"n": -2}}')

def test_without_a_model():
    pass
"""


def add_own_tests(bench: Bench) -> tuple[str, ...]:
    bench.answers |= {
        "test_answer-pears": '{"n": 2}',
        "test_violated": '{"n": -1}',
        "test_repeated": ['{"n": 1}', "none", '{"n": 3}'],
    }
    bench.write({"test_own.py": OWN_TESTS})
    return (*FIXED, "test_own.py")


def add_labelled_answers(bench: Bench) -> tuple[str, ...]:
    schemas: dict[str, Any] = {"right": {"type": "integer"}, "wrong": {"type": "integer"}, "broken": {"type": "intger"}}
    schemas["declined"] = {"type": "integer", "title": "declines"}
    answers = [("right", True, 1), ("right", False, "1"), ("declined", True, 1), ("broken", True, 1)]
    answers += [("wrong", True, -1), ("wrong", True, 2), ("wrong", False, 2.5)]
    lines = [{"schema_id": name, "task": "easy", "schema": schema} for name, schema in schemas.items()]
    labels = [
        {"id": f"{name}#{at}", "schema_id": name, "valid": valid, "data": data}
        for at, (name, valid, data) in enumerate(answers)
    ]
    bench.write(
        {
            "labels/schemas.jsonl": "".join(json.dumps(line) + "\n" for line in lines),
            "labels/instances.jsonl": "".join(json.dumps(label) + "\n" for label in labels),
        }
    )
    return ("--jsbench-engine=answering:Grammars", "--jsbench-instances=labels")


VARIANT = '[[variants]]\nname = "{}"\nengine = "scripted"\nengine_option = {{ answers = "answering:{}" }}\n'


def add_variants(bench: Bench, **variants: str) -> tuple[str, ...]:
    """Add four cases and variants, each with the name of its answers; the last one makes two calls at a time."""
    for name in "abcd":
        bench.case(name)
    table = "".join(VARIANT.format(name, answers) for name, answers in variants.items())
    bench.write({"jsbench.toml": f"{table}concurrency = 2\n"})
    return ("--jsbench-dataset=schemas", "--jsbench-variants=all")


def add_two_variants(bench: Bench) -> tuple[str, ...]:
    return add_variants(bench, good="fixed_good", bad="fixed_bad")


def add_four_variants(bench: Bench) -> tuple[str, ...]:
    return add_variants(bench, v1="fixed_good", v2="fixed_good", v3="fixed_good", bad="fixed_bad")


def add_four_variants_verbosely(bench: Bench) -> tuple[str, ...]:
    return (*add_four_variants(bench), "-v")


def add_repeats(bench: Bench) -> tuple[str, ...]:
    bench.case("a")
    bench.case("b", ['{"n": 1}', '{"n": -1}', '{"n": 2}'])
    bench.case("bad", schema={"type": "intger"})
    return (*SUITE, "--jsbench-repeats=3", "--jsbench-gate=pass_hat_k>=0.5", "--jsbench-invalid-schemas=skip")


def add_private_cases(bench: Bench) -> tuple[str, ...]:
    bench.case("passed")
    bench.case("violated", '{"n": -1}')
    bench.case("prose", "Sure!")
    bench.case("broke", {"fault": "bad_request", "message": "context too long"})
    return (*SUITE, "--jsbench-redact")


#: All outputs of a run without the longest one, run.json.
SHORT_OUTPUTS = ("terminal.txt", "summary.md", "report.txt", "junit.xml")
OUTPUTS = (*SHORT_OUTPUTS, "run.json")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of run."""

    #: Adds the run's files to a bench, and returns its arguments.
    prepare: Callable[[Bench], tuple[str, ...]]
    status: int = 1
    #: Outputs with a snapshot.
    outputs: tuple[str, ...] = OUTPUTS


RUNS = {
    "outcomes": Kind(prepare=add_outcomes),
    "own-tests": Kind(prepare=add_own_tests),
    "labelled": Kind(prepare=add_labelled_answers),
    "variants": Kind(prepare=add_two_variants),
    "many-pairs": Kind(prepare=add_four_variants, outputs=("terminal.txt",)),
    "many-pairs-verbose": Kind(prepare=add_four_variants_verbosely, outputs=("terminal.txt",)),
    "repeats": Kind(prepare=add_repeats, status=0),
    "gates-met": Kind(prepare=add_met_gates, status=0, outputs=SHORT_OUTPUTS),
    "gates-missed": Kind(prepare=add_missed_gate, outputs=SHORT_OUTPUTS),
    "baseline": Kind(prepare=add_baseline),
    "redacted": Kind(prepare=add_private_cases),
}
