"""Write every output of a run that has an example of everything."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

from pytest_jsbench.core.generations import Completion, FaultKind, Usage
from pytest_jsbench.lab.interchange import every_eval_ever
from pytest_jsbench.metrics.summary import Summary
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.records import Missing, MissingReason, Record
from pytest_jsbench.records.runs import Run
from pytest_jsbench.reports import comparison_report, junit, run_report
from pytest_jsbench.reports.html import report
from pytest_jsbench.reports.run_json import Evaluation, run_to_dict
from pytest_jsbench.reports.run_report import summary_markdown
from pytest_jsbench.reports.terminal import report_lines
from pytest_jsbench.verdicts import Note
from tests.support import examples
from tests.support.examples import replace

SCHEMA = {"required": ["n"], "minimum": 3}


def answered(name: str, **changes: Any) -> Record:
    generation = examples.completion()
    assert isinstance(generation, Completion)
    usage = Usage(input_tokens=30, output_tokens=11, cached_tokens=7, reasoning_tokens=5)
    return replace(
        examples.record(name, schema=SCHEMA, generation=replace(generation, usage=usage)),
        retries=1,
        queue_s=75.0,
        **changes,
    )


def ordinary() -> Run:
    """Return a run with an example of everything."""
    noted = replace(examples.VIOLATED, notes=(Note.DUPLICATE_KEYS, Note.ADAPTATION_LOSS))
    records = [
        answered("a"),
        answered("b", verdict=noted, codes=("own_code",)),
        answered("b", repeat=1),
        answered("c", verdict=examples.DISPUTED),
        examples.record("d", verdict=examples.UNJUDGED),
        examples.record("e", verdict=examples.EXCLUDED),
        examples.record("f", verdict=examples.BROKEN, generation=examples.failed(FaultKind.TIMEOUT)),
    ]
    gone = examples.record("g").key
    return Run(
        metadata=examples.metadata(
            classifiers=["own:classify"],
            redacted=True,
            resumed_from="earlier",
            params={"max_tokens": 2048, "temperature": 0.0, "seed": 5, "timeout": 120.0},
            details={"bounded": False},
            repeats=2,
        ),
        planned=(*(record.key for record in records), gone),
        outcomes=tuple(map(AttemptFacts.of, records)),
        missing=(Missing(key=gone, repeat=0, reason=MissingReason.LIMIT),),
        resumed=1,
    )


def side_by_side(texts: list[Evaluation], names: list[str], *, verbose: bool = False) -> str:
    return "\n".join(report_lines(comparison_report.side_by_side(texts, names, verbose=verbose)))


def outputs(run: Run, summary: Summary, folder: Path) -> dict[str, str]:
    """Return the content of each output as text."""
    path = every_eval_ever.write(folder, run, summary)
    data = run_to_dict(run, summary, config_path="pytest.ini")
    (folder / "run.json").write_text(json.dumps(data))
    page = "".join(report.render(run, summary))
    packed = re.findall(r'<script type="text/plain"[^>]*>([^<]*)', page)
    cases = "".join(gzip.decompress(base64.b64decode(part)).decode() for part in packed)
    shown = re.sub(r"<[^>]*>", " ", re.sub(r"(?s)<(script|style).*?</\1>", "", page))
    return {
        "terminal": " ".join("\n".join(report_lines(run_report.report(run, summary, keywords=True))).split()),
        "summary.md": summary_markdown(run, summary),
        "report.html": " ".join(shown.split()) + cases,
        "every_eval_ever": path.read_text() + path.with_name(f"{path.stem}_samples.jsonl").read_text(),
        "junit": json.dumps(junit.suite_properties(run, summary, ())),
        "run.json": (folder / "run.json").read_text(),
    }
