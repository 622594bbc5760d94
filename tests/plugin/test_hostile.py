from __future__ import annotations

import json
import unicodedata
from collections import Counter
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.support.bench import Bench, both_ways
from tests.support.hostile_texts import HIDDEN

MARKUP = "</script><script>alert(1)</script>"
HOSTILE = f"{MARKUP}\x1b[31m\x1b]0;t\x07\x9b2J\u202egpj.exe\u2028\r\n::error::x ##[error]x ../../../x"
HOSTILE += "\u061c\ufeff\u200b\U000e0041\ue000 ::stop-commands::x ##vso[task.complete]x"


def hidden(text: str) -> set[str]:
    return {character for character in set(text) if unicodedata.category(character) in HIDDEN} - {"\n"}


#: answers that are hostile by themselves
ANSWERS = {
    "ansi": '{"n": "\x1b[31mred\u202e"}',
    "surrogate": '{"n": "\\ud800"}',
    "raw_surrogate": {"text": '{"n": "\ud800"}'},
    "deep": "[" * 50_000,
    "nan": '{"n": NaN}',
    "number": '{"n": ' + "9" * 5000 + "}",
}


def write_hostile_rows(bench: Bench) -> None:
    schema = {
        "type": "object",
        "title": HOSTILE,
        "properties": {"n": {"type": "integer", "minimum": 0}, HOSTILE: {"type": "string"}},
        "required": ["n"],
    }
    names = ("extra", "fault", "huge", "prose", "refusal", "wrong")
    rows: list[dict[str, Any]] = [{"id": name, "schema": schema} for name in names]
    rows.append({"id": HOSTILE, "task": HOSTILE, "schema": schema, "prompt": HOSTILE, "tags": [HOSTILE]})
    rows.append({"id": "broken", "schema": {"type": HOSTILE}})
    rows += [{"id": name, "schema": schema} for name in ANSWERS]
    bench.write({"rows.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})
    bench.answers = {
        **ANSWERS,
        "extra": json.dumps({"n": 1, f"no {HOSTILE}": 1}),
        "fault": {"fault": "bad_request", "message": HOSTILE},
        "huge": "x" * 10_000_001,
        "prose": HOSTILE,
        "refusal": {"decline": "refusal", "message": HOSTILE},
        "*": json.dumps({"n": HOSTILE}),
    }


@pytest.mark.slow
@both_ways
def test_hostile_text_is_escaped_in_all_outputs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    write_hostile_rows(bench)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "step.md")
    files_before = set(bench.path.parent.iterdir())

    result = bench.run(
        "--jsbench-dataset=rows.jsonl",
        f"--jsbench-model={HOSTILE}",
        "--jsbench-output=out",
        "--jsbench-record=kept",
        "--junitxml=junit.xml",
        "--color=no",
        "-vra",
    )

    result.assert_outcomes(failed=14)
    text = result.stdout.str() + result.stderr.str()
    assert not hidden(text)
    assert not any(command in text for command in ("##[", "##vso["))
    commands = [line for line in text.split("\n") if line.lstrip().startswith("::")]
    verdict, *cases = commands
    assert verdict.startswith("::error title=jsbench::FAILED: ")
    assert [line.partition(" title=jsbench ")[0] for line in cases] == ["::error"] * 9  # as many as GitHub shows
    assert {"syntax_error (too_large): more than 10,000,000 characters"} <= set(result.outlines)
    assert set(bench.path.parent.iterdir()) == files_before
    written = [path for path in bench.path.rglob("*") if path.is_file() and ".pytest_cache" not in path.parts]
    run = bench.run_in()
    assert {path.name for path in bench.path.iterdir() if path.is_dir()} - {".pytest_cache"} == {"out", "kept"}
    for path in written:
        assert not hidden(path.read_text("utf-8")), path
    for name in ("run.json", "summary.md", "report.html"):
        path = run / name
        assert not path.exists() or path.stat().st_size < 100_000
    assert (run / "summary.md").read_text() == (bench.path / "step.md").read_text()
    types = [one.get("type") for case in ET.parse("junit.xml").iter("testcase") for one in case if one.get("type")]
    assert Counter(types) == {
        "syntax_error": 8,
        "schema_violation": 2,
        "api_error": 1,
        "hallucination": 1,
        "refusal": 1,
        "invalid_schema": 1,
    }
