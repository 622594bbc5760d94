from __future__ import annotations

import pytest

from tests.plugin.conftest import NUMBER, Bench


def test_a_case_is_attempted_several_times_one_test_each(bench: Bench) -> None:
    bench.case("a")
    bench.case("b", ['{"n": 1}', '{"n": -1}', '{"n": 2}'])
    bench.case("bad", schema={"type": "intger"})

    result = bench.run(
        *("--jsbench-repeats=3", "--jsbench-output=out", "--jsbench-gate=pass_hat_k>=0.5", "-v"),
        "--jsbench-invalid-schemas=skip",
    )

    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=5, failed=1, skipped=3)
    result.stdout.fnmatch_lines(
        [
            "*jsbench::orders::b[[]2[]]*",
            "*___ jsbench::orders::b[[]2[]] ___*",
            "pass rate  5/6 = 0.833 *",
            "repeats    every attempt of a case passed (pass^k) 1/2 = 0.500 (0.013 to 0.987),",
            "           at least one (pass@k) 2/2 = 1.000 (0.158 to 1.000)",
            "flaky      1 case passed at times only: orders::b 2/3",
        ]
    )
    metrics = bench.run_json()["metrics"]
    assert (metrics["cases"], metrics["planned"], metrics["missing"]) == (2, 6, 0)
    assert sorted((one["id"], one["repeat"]) for one in bench.records() if one["id"] != "bad") == [
        *[("a", repeat) for repeat in range(3)],
        *[("b", repeat) for repeat in range(3)],
    ]


def test_a_case_or_one_of_its_attempts_can_be_named(bench: Bench) -> None:
    bench.case("a")
    bench.case("ab")

    bench.run("--jsbench-repeats=2", "jsbench::orders::a").assert_outcomes(passed=2)
    result = bench.run("--jsbench-repeats=2", "jsbench::orders::a[2]")

    result.assert_outcomes(passed=1)
    assert "missing" not in result.stdout.str()
    result.stdout.fnmatch_lines(["pass rate  1/1 *"])


SEEDED = """
def answer(request):
    return '{"n": %d}' % request.params.seed
"""


def test_each_attempt_has_a_seed_of_its_own_and_the_first_has_the_given_one(bench: Bench) -> None:
    bench.case("a")
    bench.write(
        {
            "seeded.py": SEEDED,
            "test_one.py": f"import pytest\n@pytest.mark.jsbench(schema={NUMBER!r}, prompt='any', repeats=2, seed=70)\n"
            "def test_it(jsbench):\n    assert jsbench.generate().instance['n'] in (70, 71)\n",
        }
    )

    bench.run(
        "test_one.py",
        "--jsbench-engine-option=answers=seeded:answer",
        *("--jsbench-repeats=3", "--jsbench-seed=5", "--jsbench-output=out"),
    ).assert_outcomes(passed=4)

    found = {(one["id"], one["repeat"]): (one["params"]["seed"], one["generation"]["text"]) for one in bench.records()}
    assert found == {
        **{("a", number): (5 + number, f'{{"n": {5 + number}}}') for number in range(3)},
        **{("test_it", number): (70 + number, f'{{"n": {70 + number}}}') for number in range(2)},
    }
    assert bench.run_json()["run"]["params"]["seed"] == 5
