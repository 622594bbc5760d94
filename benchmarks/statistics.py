"""
Compute the coverage, error rates and power of the intervals and tests for known true values.

    python -m benchmarks.statistics [--times 2000] [--seed 0] [--write]

If all outcomes can be enumerated, the figures are exact; otherwise this many runs are simulated, with the seed. Each
case has its own pass probability from a beta distribution; the correlation is that of attempts at one case.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence

from benchmarks.pages import ROOT, write_part
from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.text import format_count
from pytest_jsbench.metrics.case_outcomes import PASSED, CaseOutcome
from pytest_jsbench.metrics.comparison import RunOutcomes, pairs
from pytest_jsbench.metrics.planning import Design
from pytest_jsbench.metrics.statistics import (
    SIGNIFICANCE,
    PairedDifference,
    Rate,
    Share,
    clustered,
    mean_rate,
    paired_difference,
    proportion,
)
from pytest_jsbench.verdicts import FailureType

CLUSTERS = (1, 2, 3, 5, 10, 30, 100)
RATES = (0.0, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 1.0)
CORRELATIONS = (0.0, 0.1, 0.5, 1.0)
#:  Attempts at each case; if there are several numbers, each case gets a random one.
SIZES = ((2,), (10,), (2, 5, 10, 40))
REPEATS = (1, 2, 4, 10)
#:  Largest number of cases whose outcomes are enumerated.
MOST_COUNTED = 30
#:  Number of sampled case rates with which to find the change of odds that moves their mean by a given difference.
_DRAWN_RATES = 5_000
ROUNDING = 1e-9


def contains(found: Rate | PairedDifference, truth: float) -> bool:
    """
    Return whether the interval contains the true value; a missing interval claims nothing, so it
    counts as correct.
    """
    if found.ci_low is None or found.ci_high is None:
        return True
    return found.ci_low - ROUNDING <= truth <= found.ci_high + ROUNDING


def own_rate(chance: random.Random, mean: float, correlation: float) -> float:
    """Draw the pass probability of a case; attempts at it have this intraclass correlation."""
    if mean in (0.0, 1.0) or correlation == 0:
        return mean
    if correlation == 1:
        return float(chance.random() < mean)
    scale = (1 - correlation) / correlation
    return chance.betavariate(mean * scale, (1 - mean) * scale)


def passes(chance: random.Random, rate: float, attempts: int) -> Share:
    """Simulate this many attempts."""
    return sum(chance.random() < rate for _ in range(attempts)), attempts


def coverage_of_single_rates(n: int, steps: int = 400) -> float:
    """Return the exact minimum coverage of a rate's interval over all rates."""
    intervals = [proportion(count, n) for count in range(n + 1)]
    return min(
        sum(
            math.comb(n, count) * rate**count * (1 - rate) ** (n - count)
            for count, interval in enumerate(intervals)
            if contains(interval, rate)
        )
        for rate in (step / steps for step in range(steps + 1))
    )


def coverage_of_rates(clusters: int, sizes: Sequence[int], times: int, chance: random.Random) -> float:
    """Return the simulated minimum coverage of a rate's interval over clusters."""

    def is_covered(rate: float, correlation: float) -> bool:
        drawn = [(own_rate(chance, rate, correlation), chance.choice(sizes)) for _ in range(clusters)]
        return contains(clustered(passes(chance, own, size) for own, size in drawn), rate)

    return _least(is_covered, itertools.product(RATES, CORRELATIONS), times)


def coverage_of_means(documents: int, times: int, chance: random.Random) -> float:
    """Return the simulated minimum coverage of the interval of a mean over documents."""

    def is_covered(rate: float, correlation: float) -> bool:
        return contains(mean_rate([[own_rate(chance, rate, correlation)] for _ in range(documents)]), rate)

    return _least(is_covered, itertools.product(RATES, CORRELATIONS), times)


def coverage_of_single_differences(n: int) -> float:
    """Return the exact minimum coverage of the interval of a paired difference of single attempts."""
    ends = [(fell, rose) for fell in range(n + 1) for rose in range(n + 1 - fell)]
    intervals = {end: _difference(n, *end) for end in ends}
    shares = [*RATES, 0.1, 0.3, 0.4]
    least = 1.0
    for fewer, more in itertools.product(shares, shares):
        if fewer + more > 1 + ROUNDING:
            continue
        same = max(0.0, 1 - fewer - more)
        covered = sum(
            math.comb(n, fell) * math.comb(n - fell, rose) * fewer**fell * more**rose * same ** (n - fell - rose)
            for (fell, rose), interval in intervals.items()
            if contains(interval, more - fewer)
        )
        least = min(least, covered)
    return least


def _difference(n: int, fell: int, rose: int) -> PairedDifference:
    same = [((1, 1), (1, 1))] * (n - fell - rose)
    return paired_difference([*same, *[((1, 1), (0, 1))] * fell, *[((0, 1), (1, 1))] * rose])


def two_runs(
    chance: random.Random, cases: int, repeats: int, *, before: float, after: float, correlation: float, alike: float
) -> list[tuple[Share, Share]]:
    """Simulate the cases of two runs; the share `alike` of them has the same pass probability in both, as `before`."""
    measured = []
    for _ in range(cases):
        was = own_rate(chance, before, correlation)
        now = was if chance.random() < alike else own_rate(chance, after, correlation)
        measured.append((passes(chance, was, repeats), passes(chance, now, repeats)))
    return measured


def coverage_of_differences(cases: int, repeats: int, times: int, chance: random.Random) -> float:
    """Return the simulated minimum coverage of the interval of a paired difference."""

    def is_covered(rates: tuple[float, float], correlation: float, alike: float) -> bool:
        before, after = rates
        drawn = two_runs(chance, cases, repeats, before=before, after=after, correlation=correlation, alike=alike)
        return contains(paired_difference(drawn), (after - before) * (1 - alike))

    rates = [(0.5, 0.5), (0.5, 0.8), (0.9, 0.95), (0.0, 0.02), (0.97, 0.99)]
    return _least(is_covered, itertools.product(rates, (0.1, 0.5, 1.0), (0.0, 0.8)), times)


def _least(is_covered: Callable[..., bool], worlds: Iterator[tuple[object, ...]], times: int) -> float:
    return min(sum(is_covered(*world) for _ in range(times)) / times for world in worlds)


def family_wise_error(variants: int, cases: int, attempts: int, times: int, chance: random.Random) -> float:
    """Return the simulated share of runs of equal variants in which a pair is called different."""
    keys = [CaseKey(task="t", id=str(at)) for at in range(cases)]
    ends = [[PASSED] * count + [FailureType.TRUNCATED] * (attempts - count) for count in range(attempts + 1)]
    outcomes = [CaseOutcome(schema="", attempts=tuple(map(str, of_case))) for of_case in ends]
    false = 0
    for _ in range(times):
        rates = [own_rate(chance, 0.7, 0.3) for _ in keys]
        runs = [
            {key: outcomes[passes(chance, rate, attempts)[0]] for key, rate in zip(keys, rates, strict=True)}
            for _ in range(variants)
        ]
        standings: list[RunOutcomes] = [(str(at), run, {}) for at, run in enumerate(runs)]
        false += any(pair.comparison.real for pair in pairs(standings))
    return false / times


def called_different(cases: int, repeats: int, change: float, times: int, chance: random.Random) -> float:
    """Return the simulated share of pairs of runs that are called different: size without a change, otherwise power."""
    real = 0
    for _ in range(times):
        rates = [own_rate(chance, 0.6, 0.5) for _ in range(cases)]
        drawn = [(passes(chance, rate, repeats), passes(chance, min(1.0, rate + change), repeats)) for rate in rates]
        real += paired_difference(drawn).p_value < SIGNIFICANCE
    return real / times


def planned_power(design: Design, difference: float, times: int, chance: random.Random) -> float:
    """
    Simulate pairs of runs and return the share that is called different.

    The pass rates lie half the difference below and above the design's rate. The odds of each case change equally; if
    all attempts at a case have the same outcome, the same share of cases changes.
    """
    before = design.rate - difference / 2
    rates = [own_rate(chance, before, design.correlation) for _ in range(_DRAWN_RATES)]
    low, high = 1.0, 1e6
    for _ in range(60):
        odds = math.sqrt(low * high)
        changed = sum(_of_other_odds(rate, odds) for rate in rates) / len(rates)
        low, high = (odds, high) if changed < before + difference else (low, odds)
    real = 0
    for _ in range(times):
        drawn = []
        for _ in range(design.cases):
            was = own_rate(chance, before, design.correlation)
            now = _of_other_odds(was, high) if design.correlation < 1 else was
            if design.correlation == 1 and not was:
                now = float(chance.random() < difference / (1 - before))
            drawn.append((passes(chance, was, design.repeats), passes(chance, now, design.repeats)))
        real += paired_difference(drawn).p_value < SIGNIFICANCE
    return real / times


def _of_other_odds(rate: float, odds: float) -> float:
    return rate * odds / (1 - rate + rate * odds)


def lines(times: int, seed: int) -> Iterator[str]:
    """Yield the lines of the tables of docs/metrics.md."""
    chance = random.Random(seed)
    counts = [str(count) for count in CLUSTERS]
    yield from _row("least coverage of", counts, head=True)
    yield from _row("a rate, an attempt a case", [_text(coverage_of_single_rates(n)) for n in CLUSTERS])
    for sizes in SIZES:
        name = f"a rate, {' or '.join(map(str, sizes))} attempts a case"
        yield from _row(name, [_text(coverage_of_rates(n, sizes, times, chance)) for n in CLUSTERS])
    yield from _row("a mean over documents", [_text(coverage_of_means(n, times, chance)) for n in CLUSTERS])
    single = [_text(coverage_of_single_differences(n)) if n <= MOST_COUNTED else "" for n in CLUSTERS]
    single[-1] = _text(coverage_of_differences(CLUSTERS[-1], 1, times, chance))
    yield from _row("a difference, an attempt a case", single)
    for repeats in REPEATS[1:]:
        name = f"a difference, {repeats} attempts a case"
        yield from _row(name, [_text(coverage_of_differences(n, repeats, times, chance)) for n in CLUSTERS])
    yield ""
    variants = (2, 3, 4, 5, 8, 12, 20)
    yield from _row("equal variants", [str(count) for count in variants], head=True)
    for attempts in (1, 4):
        errors = [_text(family_wise_error(count, 60, attempts, times, chance)) for count in variants]
        yield from _row(f"a pair called different, {format_count(attempts, 'attempt')} a case", errors)
    yield ""
    yield from _row("attempts a case", [str(repeats) for repeats in REPEATS], head=True)
    for cases, change in itertools.product((20, 100), (0.0, 0.05, 0.1)):
        name = f"{cases} cases, {f'each better by {change:g}' if change else 'no change'}"
        yield from _row(name, [_text(called_different(cases, repeats, change, times, chance)) for repeats in REPEATS])
    yield ""
    planned = (1, 3, 5)
    yield from _row(
        "power, planned and simulated", [format_count(repeats, "attempt") for repeats in planned], head=True
    )
    for cases, correlation in itertools.product((50, 100, 200), (0.0, 0.5, 0.9, 1.0)):
        designs = [Design(cases=cases, repeats=repeats, correlation=correlation) for repeats in planned]
        powers = [(design.power(0.05), planned_power(design, 0.05, times, chance)) for design in designs]
        cells = [f"{power:.2f}, {simulated:.2f}" for power, simulated in powers]
        yield from _row(f"{cases} cases, correlation {correlation:g}", cells)


def _text(share: float) -> str:
    return f"{share:.3f}"


def _row(name: str, cells: Sequence[str], *, head: bool = False) -> Iterator[str]:
    yield f"| {name} | {' | '.join(cells)} |"
    if head:
        yield f"|---{'|---:' * len(cells)}|"


def main() -> None:
    """Print the tables, and write them into docs/metrics.md if requested."""
    parser = argparse.ArgumentParser(description="measure the coverage, error rates and power of intervals and tests")
    parser.add_argument("--times", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/metrics.md")
    options = parser.parse_args()
    written = []
    for line in lines(options.times, options.seed):
        print(line, flush=True)
        written.append(line)
    if options.write:
        intervals, _, power = "\n".join(written).rpartition("\n\n")
        write_part(ROOT / "docs" / "metrics.md", "intervals", intervals)
        write_part(ROOT / "docs" / "metrics.md", "power", power)


if __name__ == "__main__":
    main()
