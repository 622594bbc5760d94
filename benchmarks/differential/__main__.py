"""
The judge beside ajv, hyperjump and V8, on generated and mutated pairs: `python -m benchmarks.differential`.

Each disagreement is of a class that was decided (`decided.toml`), or an error: then the exit status is 1.
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
    decide,
    disagreements,
    load,
    without_example,
)
from benchmarks.differential.formats import format_questions
from benchmarks.differential.generated import generated_questions
from benchmarks.differential.official import official_questions
from benchmarks.differential.opinions import HERE, Panel
from benchmarks.differential.patterns import made_pattern_questions, real_pattern_questions
from benchmarks.differential.questions import Question
from benchmarks.differential.real import labelled_questions, mutated_questions
from benchmarks.differential.shrinking import shrunk

#: each set, and its pairs in a whole run
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
class Compared:
    """What became of one set."""

    name: str
    pairs: int = 0
    agreed: int = 0
    #: pairs for which the judge had not enough time, or room to backtrack
    undecided: int = 0
    classes: collections.Counter[tuple[str, str]] = field(default_factory=collections.Counter)
    unknown: list[Disagreement] = field(default_factory=list)
    cut_short: bool = False
    seconds: float = 0


def compare(
    name: str, questions: Iterator[Question], classes: Sequence[DecidedClass], panel: Panel, until: float
) -> Compared:
    """Ask everything, or as much as there is time for."""
    compared, begin = Compared(name=name), time.monotonic()
    found: list[Disagreement] = []
    kept = itertools.takewhile(lambda _: time.monotonic() < until, questions)
    for answered in panel.ask(kept):
        different = [one for one in disagreements(answered) if one.ours != "u"]
        compared.pairs += len(answered.question.texts)
        compared.undecided += answered.ours.verdicts.count("u")
        compared.agreed += len(answered.question.texts) - len({one.question.texts for one in different})
        compared.agreed -= answered.ours.verdicts.count("u")
        found += different
    for one, decided in zip(found, decide(found, classes, panel), strict=True):
        if decided:
            compared.classes[one.validator, decided.name] += 1
        else:
            compared.unknown.append(one)
    compared.cut_short = time.monotonic() >= until
    compared.seconds = time.monotonic() - begin
    return compared


def show(compared: Compared, examples: int, panel: Panel) -> None:
    """One table for the set, and examples of what nobody has decided."""
    head = (
        f"\n{compared.name}: {compared.pairs:,} pairs in {compared.seconds:.0f} s, {compared.agreed:,} without dissent"
    )
    print(f"{head}, {compared.undecided:,} that the judge left undecided")
    if compared.cut_short:
        print("  cut short: there was no time for more")
    rows = [[validator, name, count] for (validator, name), count in sorted(compared.classes.items())]
    unknown = collections.Counter(one.validator for one in compared.unknown)
    rows += [[validator, "UNKNOWN", count] for validator, count in sorted(unknown.items())]
    print(tabulate(rows, headers=["disagrees", "class", "pairs"], tablefmt="github"))
    # one of each schema or pattern
    for one in list({one.question.name + one.asked: one for one in compared.unknown}.values())[:examples]:
        print(f"- {shrunk(one, panel)}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.differential", description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS), help="which, by comma (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="the part of a whole run's pairs")
    parser.add_argument("--minutes", type=float, default=60.0, help="after which nothing more is asked")
    parser.add_argument("--examples", type=int, default=10, help="of unknown disagreements that are shown")
    parser.add_argument("--node", default=shutil.which("node") or "node")
    given = parser.parse_args()
    classes = load(HERE / "decided.toml")
    until = time.monotonic() + given.minutes * 60
    panel, unknown = Panel(given.node), 0
    try:
        if stale := without_example(classes, panel):
            parser.exit(1, f"no disagreement any more, or of another class: the examples of {', '.join(stale)}\n")
        for name in given.sets.split(","):
            make, pairs = SETS[name]
            compared = compare(name, make(given.seed, round(pairs * given.scale)), classes, panel, until)
            show(compared, given.examples, panel)
            unknown += len(compared.unknown)
    finally:
        panel.close()
    print(f"\n{unknown} disagreements that nobody has decided")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
