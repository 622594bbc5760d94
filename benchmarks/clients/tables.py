"""Table that compares the clients' stored results with the current judge."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.clients.answers import ANSWERS, SCHEMAS, Answer
from benchmarks.pages import ROOT
from pytest_jsbench import Verdict, judge

PAGE = ROOT / "docs" / "judging.md"
PART = "clients"
ESCAPED_BAR = r"\|"
RESULTS = Path(__file__).with_name("results.json")


def judge_answer(answer: Answer) -> Verdict:
    """Return the judge's verdict for the schema of the answer's type."""
    properties = {answer.field: SCHEMAS[answer.field]}
    return judge({"type": "object", "properties": properties, "required": [answer.field]}, answer.text)


def _judge_cell(answer: Answer) -> str:
    verdict = judge_answer(answer)
    if verdict.failure_type is None:
        return "passes"
    return f"`{verdict.failure_type.value}`"


def _client_cell(answer: Answer, value: str | None) -> str:
    if value is None:
        return "rejects"
    try:
        own = json.dumps(json.loads(answer.text)[answer.field])
    except ValueError:
        own = None
    return "reads" if value == own else f"reads `{value}`"


def table(results: Mapping[str, Sequence[str | None]]) -> str:
    """Return the table in Markdown; `results` has each client's value of each answer, None if it rejected it."""
    lines = [["answer", "judge", *results], ["---"] * (len(results) + 2)]
    for number, answer in enumerate(ANSWERS):
        cells = [_client_cell(answer, values[number]) for values in results.values()]
        lines.append([answer.title, _judge_cell(answer), *cells])
    return "\n".join(f"| {' | '.join(cell.replace('|', ESCAPED_BAR) for cell in line)} |" for line in lines)
