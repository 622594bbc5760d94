"""
Compare the judge with ajv, hyperjump and V8 on generated and mutated pairs: `python -m benchmarks.differential`.

Each disagreement must belong to a decided class (`decided.toml`); otherwise the exit status is 1.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tabulate import tabulate

from benchmarks.differential.disagreements import (
    DecidedClass,
    Disagreement,
    classes_without_example,
    decide,
    disagreements,
    load,
)
from benchmarks.differential.formats import format_questions
from benchmarks.differential.generated import generated_questions
from benchmarks.differential.official import official_questions
from benchmarks.differential.opinions import HERE, Panel
from benchmarks.differential.patterns import made_pattern_questions, real_pattern_questions
from benchmarks.differential.questions import Question
from benchmarks.differential.real import labelled_questions, mutated_questions
from benchmarks.differential.shrinking import shrink

#:  Each set, with its number of pairs in a full run.
SETS: Mapping[str, tuple[Callable[[int, int], Iterator[Question]], int]] = {
    "labelled": (labelled_questions, 50_000),
    "mutated": (mutated_questions, 80_000),
    "official": (official_questions, 10_000),
    "generated": (generated_questions, 150_000),
    "real patterns": (real_pattern_questions, 50_000),
    "made patterns": (made_pattern_questions, 50_000),
    "formats": (format_questions, 57_000),
}


@dataclass(slots=True, kw_only=True)
class SetResult:
    """Results of the comparison of one set."""

    name: str
    pairs: int = 0
    agreed: int = 0
    #:  Pairs for which the judge exceeded a limit of time, memory or backtracking.
    undecided: int = 0
    classes: collections.Counter[tuple[str, str]] = field(default_factory=collections.Counter)
    unknown: list[Disagreement] = field(default_factory=list)
    cut_short: bool = False
    seconds: float = 0


def compare(
    name: str, questions: Iterator[Question], classes: Sequence[DecidedClass], panel: Panel, until: float
) -> SetResult:
    """Compare the answers to all questions, or to as many as the time allows."""
    result = SetResult(name=name)
    begin = time.monotonic()
    found: list[Disagreement] = []
    kept = itertools.takewhile(lambda _: time.monotonic() < until, questions)
    for answered in panel.evaluate(kept):
        different = [one for one in disagreements(answered) if one.ours != "u"]
        result.pairs += len(answered.question.texts)
        result.undecided += answered.ours.verdicts.count("u")
        result.agreed += len(answered.question.texts) - len({one.question.texts for one in different})
        result.agreed -= answered.ours.verdicts.count("u")
        found += different
    for one, decided in zip(found, decide(found, classes, panel), strict=True):
        if decided:
            result.classes[one.validator, decided.name] += 1
        else:
            result.unknown.append(one)
    result.cut_short = time.monotonic() >= until
    result.seconds = time.monotonic() - begin
    return result


def show(result: SetResult, examples: int, panel: Panel) -> None:
    """Print a table for the set, and examples of undecided disagreements."""
    head = f"\n{result.name}: {result.pairs:,} pairs in {result.seconds:.0f} s, {result.agreed:,} agreed by all"
    print(f"{head}, {result.undecided:,} left undecided by the judge")
    if result.cut_short:
        print("  stopped at the time limit")
    rows = [[validator, name, count] for (validator, name), count in sorted(result.classes.items())]
    unknown = collections.Counter(one.validator for one in result.unknown)
    rows += [[validator, "UNKNOWN", count] for validator, count in sorted(unknown.items())]
    print(tabulate(rows, headers=["validator", "class", "pairs"], tablefmt="github"))
    #  one of each schema or pattern
    for one in list({one.question.name + one.subject: one for one in result.unknown}.values())[:examples]:
        print(f"- {shrink(one, panel)}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.differential", description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS), help="comma-separated sets to compare (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the pairs of a full run (default: 1.0)")
    parser.add_argument("--minutes", type=float, default=60.0, help="time limit in minutes (default: 60)")
    parser.add_argument(
        "--examples", type=int, default=10, help="number of unknown disagreements to shrink and print (default: 10)"
    )
    parser.add_argument("--node", default=shutil.which("node") or "node")
    given = parser.parse_args()
    classes = load(HERE / "decided.toml")
    until = time.monotonic() + given.minutes * 60
    panel = Panel(given.node)
    unknown = 0
    try:
        if stale := classes_without_example(classes, panel):
            parser.exit(
                1, f"examples that no longer show their class's disagreement; update decided.toml: {', '.join(stale)}\n"
            )
        for name in given.sets.split(","):
            make, pairs = SETS[name]
            result = compare(name, make(given.seed, round(pairs * given.scale)), classes, panel, until)
            show(result, given.examples, panel)
            unknown += len(result.unknown)
    finally:
        panel.close()
    print(f"\n{unknown} undecided disagreements")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
