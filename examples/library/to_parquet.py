"""Evaluate a Python function on small schemas, and write the attempts to a Parquet file."""

import json
from pathlib import Path

from pytest_jsbench import Case, Dataset, Request, evaluate


def answer(request: Request) -> str:
    """Replace this with your model; this one only sets the required properties."""
    schema = request.schema if isinstance(request.schema, dict) else {}
    return json.dumps(dict.fromkeys(schema.get("required", []), "?"))


def ask_politely(case: Case) -> dict[str, object]:
    return {"prompt": f"Please answer with JSON that conforms to {json.dumps(case.schema)}", "tags": ["polite"]}


small = Dataset.load("builtin", tasks=["simple", "medium"]).filter("size<1500 and not keywords:$ref").map(ask_politely)
run = evaluate(answer, small.sample(12, seed=1), concurrency=4, output="jsbench-runs")
print(run)
print(run.to_parquet(Path("attempts.parquet")))
