"""Test answers shared by several tests: the fixture `jsbench_shared`."""

from __future__ import annotations

import json

import pytest

from tests.support.bench import NUMBER, Bench, both_ways, with_workers
from tests.support.project_tests import run_one

SHARED = (
    "@pytest.fixture(scope='module')\n"
    "def answer(jsbench_shared):\n"
    "    return jsbench_shared('number', schema=NUMBER, prompt='echo {text}').generate(text='{\"n\": 1}')\n"
)
MANY = "".join(f"def test_{name}(answer): assert answer.instance['n'] == 1\n" for name in "abcdef")


@with_workers
def test_many_tests_look_at_one_answer_that_is_paid_once(bench: Bench) -> None:
    result = run_one(bench, SHARED + MANY, "--jsbench-output=out")

    result.assert_outcomes(passed=6)
    assert len(bench.calls()) == 1
    (record,) = bench.records()
    assert (record["task"], record["id"], record["asked_by"]["test"]) == (
        "jsbench_shared",
        "number",
        "jsbench_shared::number",
    )
    metrics = bench.run_json()["metrics"]
    assert (metrics["planned"], metrics["passed"], metrics["missing"]) == (1, 1, 0)
    result.stdout.fnmatch_lines(["pass rate  1/1 *"])


def test_failed_shared_answer_fails_each_test_and_a_gate_allows_it(bench: Bench) -> None:
    code = SHARED.replace('{"n": 1}', '{"n": -1}') + MANY

    result = run_one(bench, code, "--jsbench-min-pass-rate=0", "--jsbench-output=out")

    result.assert_outcomes(failed=6)
    assert result.ret == 0
    assert len(bench.calls()) == 1
    assert [one["verdict"]["failure_type"] for one in bench.records()] == ["schema_violation"]
    result.stdout.fnmatch_lines(["E   *schema_violation: $.n: -1 is less than the minimum of 0"])


def test_distinct_questions_under_one_name_are_distinct_cases(bench: Bench) -> None:
    names = ["a.b", "a::b", "a/b", "x-1", "x[1]", "q", "q@2", "../up", "line\n", "\ud800"]
    code = (
        "@pytest.fixture(scope='module')\n"
        "def ask(jsbench_shared): return jsbench_shared('number', schema=NUMBER, prompt='echo {text}').generate\n"
        "@pytest.fixture\n"
        "def again(jsbench_shared): return jsbench_shared('number', schema=NUMBER, prompt='echo {text}').generate\n"
        "def test_two(ask, again):\n"
        "    assert ask(text='{\"n\": 1}').instance == again(text='{\"n\": 1}').instance\n"
        "    assert again(text='{\"n\": 2}').instance == {'n': 2}\n"
        f"@pytest.mark.parametrize('name', {names!r})\n"
        "def test_it(jsbench_shared, name): jsbench_shared(name, schema=NUMBER, prompt='count').generate(check=False)\n"
        "def test_more(jsbench_shared): jsbench_shared('q', schema=NUMBER, prompt='again').generate(check=False)\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_handed_in(jsbench_shared, n): jsbench_shared('handed', schema=NUMBER).check({'n': n})\n"
    )

    result = run_one(bench, code, "--jsbench-output=out")

    result.assert_outcomes(passed=len(names) + 4)
    ids = {one["id"] for one in bench.records()}
    own = {"number", "number@2", "handed", "handed@2"}
    assert own < ids
    assert len(ids - own) == len(names) + 1
    assert len(bench.calls()) == len(names) + 3


def test_unanswered_question_keeps_its_case_when_retried(bench: Bench) -> None:
    bench.write({"breaking.py": "def answer(request): raise RuntimeError\n"})
    code = (
        "@pytest.mark.parametrize('n', [1, 2, 1, 2, 3])\n"
        "def test_it(jsbench_shared, n): jsbench_shared('q', schema=NUMBER, prompt=f'echo {n}').generate(check=False)\n"
    )

    run_one(bench, code, "--jsbench-engine-option=answers=breaking:answer", "--jsbench-output=out")

    assert bench.run_json()["metrics"]["planned"] == 3
    assert {one["id"]: one["prompt"]["messages"][0]["content"] for one in bench.records()} == {
        "q": "echo 1", "q@2": "echo 2", "q@3": "echo 3"
    }  # fmt: skip


def test_what_a_dead_worker_has_half_told_of_an_answer_is_passed_over(bench: Bench) -> None:
    code = (
        "from pytest_jsbench.plugin.context import RUN_CONTEXT\n"
        "def test_it(answer, jsbench_shared, pytestconfig):\n"
        "    (log,) = pytestconfig.stash[RUN_CONTEXT].handover.shared.glob('answers.*')\n"
        "    with log.open('ab') as file: file.write(b'{\"task\": \"jsb')\n"
        "    ask = jsbench_shared('number', schema=NUMBER, prompt='echo {text}')\n"
        "    assert ask.generate(text='{\"n\": 2}').instance == {'n': 2}\n"
        "    assert all(line.endswith('}') for line in log.read_text().splitlines())\n"
    )

    result = run_one(bench, SHARED + code)

    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("redacted", [(), ("--jsbench-redact",)])
def test_threads_that_ask_the_same_at_once_have_one_answer(bench: Bench, redacted: tuple[str, ...]) -> None:
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def test_it(jsbench_shared):\n"
        "    def ask(n): return jsbench_shared('number', schema=NUMBER, prompt='echo {\"n\": 1}').generate().instance\n"
        "    with ThreadPoolExecutor(8) as pool: assert list(pool.map(ask, range(8))) == [{'n': 1}] * 8\n"
    )

    result = run_one(bench, code, "--jsbench-output=out", *redacted)

    result.assert_outcomes(passed=1)
    assert len(bench.calls()) == 1


def test_shared_answers_are_resumed_recorded_and_replayed(bench: Bench) -> None:
    run_one(bench, SHARED + MANY, "--jsbench-output=out", "--jsbench-record=answers")
    resumed = run_one(bench, SHARED + MANY, "--jsbench-output=again", "--jsbench-resume=out")
    replayed = bench.run_only("test_one.py", "--jsbench-replay=answers")

    resumed.assert_outcomes(passed=6)
    replayed.assert_outcomes(passed=6)
    assert len(bench.calls()) == 1
    assert [path.name for path in (bench.path / "answers").rglob("*.json")] == ["number.json"]


def test_complete_run_lists_unused_shared_answers(bench: Bench) -> None:
    own = "@pytest.mark.jsbench(schema=NUMBER, prompt='count')\ndef test_own(jsbench): jsbench.generate(check=False)\n"
    skips = "def test_skips(jsbench_shared): pytest.skip('not now')\n"
    run_one(bench, SHARED + MANY + own, "--jsbench-record=answers")
    bench.write({"test_one.py": f"import pytest\nNUMBER = {NUMBER!r}\n{own}"})
    whole = bench.run_only(".", "--jsbench-replay=answers")
    bench.write({"test_one.py": f"import pytest\nNUMBER = {NUMBER!r}\n{own}{skips}"})
    part = bench.run_only(".", "--jsbench-replay=answers")

    whole.stdout.fnmatch_lines(["unused     1 recorded answer not used by any test*"])
    part.stdout.no_fnmatch_line("unused *")


def test_each_variant_has_its_shared_answer(bench: Bench) -> None:
    code = SHARED + MANY + "def test_both(answer, jsbench): assert answer.instance\n"
    bench.write(
        {
            "jsbench.toml": "[[variants]]\nname = 'warm'\ntemperature = 0.5\n"
            "[[variants]]\nname = 'cold'\ntemperature = 0\n"
        }
    )

    result = run_one(bench, code, "--jsbench-output=out", "--jsbench-variants=warm,cold")

    result.assert_outcomes(passed=14)
    assert len(bench.calls()) == 2
    assert {one["variant"] for one in bench.records()} == {"warm", "cold"}


@both_ways
def test_redacted_records_hold_no_answer_to_share(bench: Bench) -> None:
    result = run_one(bench, SHARED + MANY, "--jsbench-output=out", "--jsbench-redact")

    result.assert_outcomes(passed=6)
    assert len(bench.calls()) == (2 if bench.workers else 1)
    assert "echo" not in json.dumps(bench.records())
