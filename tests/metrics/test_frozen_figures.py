"""
Compare the figures of one stored run of each kind with `frozen_figures.jsonl`, which has a line for each run.

`python -m tests.metrics.test_frozen_figures` rewrites the file after an intended change of a figure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from pytest_jsbench.core.cases import Expected
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records import journal
from pytest_jsbench.records.answer_digests import add_digest
from pytest_jsbench.records.metadata import RunMetadata
from pytest_jsbench.records.records import Record
from pytest_jsbench.records.redaction import Redaction
from pytest_jsbench.records.rejudging import compare_values
from pytest_jsbench.reports.run_json import read_run, run_to_dict
from tests.support import examples
from tests.support.examples import completion, record, replace

FROZEN = Path(__file__).with_name("frozen_figures.jsonl")
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "required": ["n"]}
PLAIN = (
    *(
        record(f"right{number}", schema=SCHEMA, generation=completion(ttft=0.1 * number, tgt=number, tokens=7 * number))
        for number in range(1, 5)
    ),
    replace(record("retried", schema=SCHEMA, generation=completion(ttft=None, tokens=None)), retries=2),
    record("violated", schema=SCHEMA, verdict=examples.VIOLATED),
    record("invented", task="talk", schema=SCHEMA, verdict=examples.HALLUCINATED),
    record("disputed", task="talk", verdict=examples.DISPUTED),
    record("declined", task="talk", verdict=examples.UNSUPPORTED, generation=examples.declined()),
    record("broke", task="talk", verdict=examples.BROKEN, generation=examples.failed()),
    record("unjudged", task="talk", verdict=examples.UNJUDGED),
    record("excluded", task="talk", verdict=examples.EXCLUDED),
)
REPEATS = tuple(
    replace(record(f"case{case}", schema=SCHEMA, verdict=verdict), repeat=repeat)
    for case, verdicts in enumerate(("ppp", "ppv", "pvv", "vvv"))
    for repeat, verdict in enumerate({"p": examples.PASSED, "v": examples.VIOLATED}[letter] for letter in verdicts)
)
EXPECTED = Expected(value={"n": 2, "m": [1]}, comparers={"/properties/n": {"tolerance": 0.5}})
VALUES = tuple(
    compare_values(record(f"value{number}", schema=SCHEMA, verdict=replace(examples.PASSED, instance=answer)), EXPECTED)
    for number, answer in enumerate(({"n": 2, "m": [1]}, {"n": 2.2, "m": [1, 2]}, {"n": 7}, {"n": 2, "o": None}))
)
AGREED: Mapping[str, Sequence[float]] = {"steady": (1, 1.0, 1), "changing": (1, 2, 1), "longer": (1, 2, 3, 1)}
AGREEING = tuple(
    add_digest(
        replace(record(case, schema=SCHEMA, verdict=replace(examples.PASSED, instance=answer)), repeat=repeat),
        is_repeated=True,
    )
    for case, answers in AGREED.items()
    for repeat, answer in enumerate({"n": number, "m": [number, 0]} for number in answers)
)
LABELLED = (
    record("right", verdict=examples.DECIDED_RIGHTLY, generation=examples.decided()),
    record("wrong", verdict=examples.DECIDED_WRONGLY, generation=examples.decided("v0", seconds=0.03)),
    record("both", verdict=examples.DECIDED_WRONGLY, generation=examples.decided("v1", "i0", seconds=0.2)),
)
REDACTION = Redaction(salt="00" * 16, key="11" * 32)
VARIANTS = examples.variants(small={"model": "s"}, large={"model": "l"})
#: Header, records, and planned attempts that were never made.
RUNS: Mapping[str, tuple[RunMetadata, Sequence[Record], Sequence[Record]]] = {
    "plain": (examples.metadata(), PLAIN, ()),
    "variants": (
        VARIANTS,
        [replace(made, variant=name) for name, records in (("small", PLAIN[2:]), ("large", PLAIN)) for made in records],
        [replace(unmade, variant="small") for unmade in PLAIN[:2]],
    ),
    "repeats": (replace(examples.metadata(), repeats=3), REPEATS, ()),
    "values": (examples.metadata(), VALUES, ()),
    "labelled": (examples.metadata(), LABELLED, ()),
    "redacted": (examples.metadata(), [REDACTION.record(made) for made in (*PLAIN, *VALUES)], ()),
    "interrupted": (examples.metadata(), PLAIN, [record(f"unmade{number}") for number in range(5)]),
    "agreeing": (replace(examples.metadata(), repeats=4), AGREEING, [replace(AGREEING[0], repeat=3)]),
}


def figures(name: str, folder: Path) -> dict[str, Any]:
    """Store the run, read it again, and name each figure by its path in `run.json`: of all, by keyword, by variant."""
    metadata, records, unmade = RUNS[name]
    planned = metadata.with_plan(planned.attempt for planned in (*records, *unmade))
    journal.write(folder / "records.jsonl", planned, records)
    run = read_run(folder)
    data = run_to_dict(run, summarize(run), config_path="")
    variants = {variant: part["metrics"] for variant, part in data.get("variants", {}).items()}
    parts = {"metrics": data["metrics"], "keywords": data["keywords"], "variants": variants}
    return dict(_leaves(json.loads(json.dumps(parts)), ""))


def _leaves(value: object, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, int | float):
        yield path, value


@pytest.mark.parametrize("name", RUNS)
def test_no_figure_of_a_stored_run_moves(name: str, tmp_path: Path) -> None:
    frozen = json.loads(FROZEN.read_text("utf-8").splitlines()[[*RUNS].index(name)])
    today = figures(name, tmp_path)

    assert len(frozen) > 50
    assert {
        figure: (frozen.get(figure), today.get(figure))
        for figure in frozen | today
        if frozen.get(figure) != pytest.approx(today.get(figure), rel=1e-9)
    } == {}


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        FROZEN.write_text("".join(f"{json.dumps(figures(name, Path(folder)))}\n" for name in RUNS), "utf-8")
