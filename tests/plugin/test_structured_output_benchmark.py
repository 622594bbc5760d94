"""
Test values against the metric of the Structured Output Benchmark, from its repository at 2df1dbf (JigsawStack/sob).

The formula is rewritten here from that benchmark's `evaluate.py`, for its texts, without using the package.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from tests.support.bench import Bench

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "born": {"type": ["integer", "boolean", "null", "string"]},
        "films": {"type": "array", "items": {"type": "object", "properties": {"title": {"type": "string"}}}},
        "awards": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name"],
}
TRUTH = {"name": "Ann", "born": 1, "films": [{"title": "A"}, {"title": "B"}], "awards": []}
LONG = {"name": "Ann", "awards": [str(number) for number in range(30)]}

#: The expected and the answered value of ten rows.
ROWS: list[tuple[Any, Any]] = [
    (TRUTH, TRUTH),
    (TRUTH, {**TRUTH, "name": "Bob"}),
    (TRUTH, {**TRUTH, "born": 1.0, "awards": None}),  # does not conform
    ({**TRUTH, "born": True}, {**TRUTH, "born": 1}),  # equal in Python
    (TRUTH, {"name": "Ann", "films": TRUTH["films"]}),  # a field and an empty list are missing
    (TRUTH, {**TRUTH, "awards": ["Oscar"]}),  # one unexpected among few
    (LONG, {**LONG, "born": None}),  # one unexpected among many
    (LONG, {**LONG, "awards": ["0", "x", *LONG["awards"][2:29]]}),  # one wrong and one missing among many
    (TRUTH, None),  # not JSON
    ({**TRUTH, "born": None}, {**TRUTH, "born": "1"}),
]


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        parts = [flat(child, f"{prefix}.{key}" if prefix else key) for key, child in value.items()]
    elif isinstance(value, list):
        parts = [flat(child, f"{prefix}[{at}]") for at, child in enumerate(value)]
    else:
        return {prefix: value}
    return {path: leaf for part in parts for path, leaf in part.items()}


def truth_score(truth: Any, answer: Any) -> float:
    """Compute `leaf_value_em` of one record."""
    if not isinstance(answer, dict | list) or not jsonschema.Draft7Validator(PERSON).is_valid(answer):
        return 0.0
    expected, found = flat(truth), flat(answer)
    shared = len(set(expected) & set(found))
    precision, recall = shared / len(found), shared / len(expected)
    f1 = 2 * precision * recall / (precision + recall) if shared else 0.0
    if f1 < 0.95:
        return 0.0
    right = sum(bool(path in found and found[path] == value) for path, value in expected.items())
    return right / len(expected)


def test_ten_rows_of_the_benchmark_have_its_own_figure(bench: Bench) -> None:
    rows = [
        {
            "record_id": f"r{number}",
            "context": f"Context {number}.",
            "question": "Who is it?",
            "json_schema": json.dumps(PERSON) if number % 2 else PERSON,
            "ground_truth": json.dumps(truth) if number % 2 else truth,
            "validated_output": "{}",
            "schema_complexity": "medium",
        }
        for number, (truth, _) in enumerate(ROWS)
    ]
    bench.write({"test.jsonl": "\n".join(map(json.dumps, rows))})
    bench.answers |= {
        f"r{number}": "none" if answer is None else json.dumps(answer) for number, (_, answer) in enumerate(ROWS)
    }
    scores = [truth_score(*row) for row in ROWS]

    bench.run("--jsbench-dataset=test.jsonl", "--jsbench-comparer=$=sob", "--jsbench-output=out")

    found = bench.run_json()["metrics"]["value_accuracy_mean"]
    assert found == pytest.approx(sum(scores) / len(scores), abs=1e-12)
    assert scores == [1.0, 0.75, 0.0, 1.0, 0.0, 0.0, 1.0, 29 / 31, 0.0, 0.75]
    records = {record["id"]: record for record in bench.records()}
    counts = [list(records[f"r{number}"]["match"]["fields"].values()) for number in range(len(ROWS))]
    assert [sum(right for right, _ in one) / sum(n for _, n in one) for one in counts] == scores
    prompt = records["r0"]["prompt"]["messages"][0]["content"]
    assert prompt.startswith("Who is it?\n\nContext 0.\n\nAnswer with JSON")
    assert json.dumps(PERSON) in prompt
