from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.util
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pytest_jsbench.core.cases import Expected
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.prompts import Prompt
from pytest_jsbench.core.text import printable
from pytest_jsbench.metrics.comparison import compare
from pytest_jsbench.metrics.gates import Gate, check
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.reports.html import report
from pytest_jsbench.reports.html.report import render
from pytest_jsbench.runs.outcomes import Run
from pytest_jsbench.runs.own_outcomes import Cause, End, OwnOutcome
from pytest_jsbench.runs.records import Record
from pytest_jsbench.values import match
from pytest_jsbench.verdicts import FailureType, Verdict, Violation
from tests import examples
from tests.examples import record

needs_jinja2 = pytest.mark.skipif(importlib.util.find_spec("jinja2") is None, reason="needs the extra report")
HOSTILE = (
    "</script><script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">\x1b[31m\u202e"
)


def page(*records: Record, **metadata: object) -> str:
    run = examples.run(*records)
    run = Run(metadata=examples.metadata(**metadata), planned=run.planned, outcomes=run.outcomes)
    return "".join(render(run, summarize(run)))


def unpacked(text: str, name: str) -> Any:
    (packed,) = re.findall(f'id="{name}">([A-Za-z0-9+/=]*)</script>', text)
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def in_browser(path: Path, name: str) -> str:
    """The page's document when its script has shown the case of that name."""
    options = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={path.parent / 'profile'}")
    return subprocess.run(
        ["chromium", *options, "--virtual-time-budget=3000", "--dump-dom", f"{path.as_uri()}#{quote(name, safe='')}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def hostile_record() -> Record:
    violation = Violation(keyword=HOSTILE, instance_path=HOSTILE, schema_path=HOSTILE, message=HOSTILE)
    verdict = Verdict(
        failure_type=FailureType.SCHEMA_VIOLATION,
        valid=False,
        message=HOSTILE,
        violations=(violation,),
        extra_fields=(HOSTILE,),
    )
    one = record("a", verdict=verdict, generation=examples.completion(HOSTILE), schema={HOSTILE: HOSTILE})
    prompt = Prompt(messages=(Message(role="user", content=HOSTILE),))
    expected = Expected(value={HOSTILE: 1})
    return replace(one, prompt=prompt, expected=expected, match=match(expected, {HOSTILE: HOSTILE}))


@needs_jinja2
def test_the_page_holds_the_figures_and_every_case() -> None:
    run = examples.run(record("a"), record("b", verdict=examples.VIOLATED), record("c", verdict=examples.EXCLUDED))
    summary = summarize(run)
    before = summarize(examples.run(record("a", verdict=examples.VIOLATED), record("b"))).outcomes

    gates = [check(Gate.parse("pass_rate>=0.9"), summary)]

    text = "".join(render(run, summary, gates, {"": compare(before, summary.outcomes)}))

    assert "<dd>1 of 2</dd>" in text
    assert 'aria-label="pass rate 0.500, 95 % interval 0.095 to 0.905"' in text
    assert "pass_rate 1/2 = 0.5, gate &gt;= 0.9: NOT MET" in text
    assert '<a href="#simple%3A%3Ab">simple::b</a>' in text
    cases = unpacked(text, "index")["cases"]
    assert [(one["name"], one["outcome"], one["change"]) for one in cases] == [
        ("simple::a", "passed", "mended"),
        ("simple::b", "schema_violation", "broke"),
        ("simple::c", "invalid_schema", ""),
    ]
    details = unpacked(text, "chunk0")
    assert details[1]["verdict"].splitlines()[1] == "minimum at $.n [schema /properties/n/minimum]: -1 < 0"
    assert (details[0]["answer"], details[0]["prompt"], details[2]["answer"]) == ('{"n": 1}', "[user]\nanswer", "")
    assert (
        details[0]["measured"]
        == "TTFT 0.200 s, TGT 1.000 s, GCT 0.800 s, waited 0.500 s to be sent, 30 input tokens, 11 output tokens"
    )


@needs_jinja2
def test_nothing_measured_is_not_applicable() -> None:
    text = page(record("a", verdict=examples.EXCLUDED))

    assert "No times were measured" in text
    assert "n/a" in text
    assert "nan" not in text.partition("<script")[0].lower().replace("nance", "")


@needs_jinja2
def test_one_outlier_does_not_flatten_the_times_of_all_others() -> None:
    times = [1.0 + at / 100 for at in range(100)] + [600.0]
    text = page(*(record(f"c{at}", generation=examples.completion(tgt=time)) for at, time in enumerate(times)))

    (chart,) = re.findall(r"<figcaption>Total time.*?</svg>", text, re.DOTALL)
    bars = [(int(n), end) for n, end in re.findall(r"<title>(\d+) from \S+ to (\S+) s</title>", chart)]
    assert len(bars) > 10
    assert sum(count for count, _ in bars) == 101
    assert bars[-1] == (1, "600")
    assert "s and more</text>" in chart


@needs_jinja2
def test_nothing_is_loaded_and_only_the_pages_own_script_may_run() -> None:
    text = page(record("a"))

    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src &#39;none&#39;; script-src &#39;sha256-")
    assert "unsafe" not in policy
    assert not re.findall(r"(?:src|href)\s*=\s*[\"']?(?!#)\w", text)
    assert not re.findall(r"\sstyle=|\son\w+=", text)


@needs_jinja2
def test_hostile_text_is_never_markup() -> None:
    text = page(hostile_record(), model=HOSTILE, engine=HOSTILE)

    assert "hacked'</script>" not in text
    assert "<img" not in text
    assert not re.findall("[\x00-\x08\x1b\u202a-\u202e]", text)
    assert "\\u202e" in unpacked(text, "chunk0")[0]["answer"]


@needs_jinja2
def test_a_schema_is_shown_as_it_was_packed_with_what_is_hidden_in_it_visible() -> None:
    text = page(record("a", schema={"title": "\u202e\U000e0041\ufeff ##[error]x", "maximum": 12345678901234567890}))

    assert unpacked(text, "chunk0")[0]["schema"] == (
        '{"title": "\\u202e\\udb40\\udc41\\ufeff #\\u0023[error]x", "maximum": 12345678901234567890}'
    )
    assert "JSON.stringify" not in text


@needs_jinja2
def test_a_huge_answer_is_cut_and_says_where_the_rest_is() -> None:
    text = page(record("a", generation=examples.completion("x" * 5_000_000)))

    assert len(text) < 100_000
    assert unpacked(text, "chunk0")[0]["answer"].endswith("… and 4,990,000 characters more, in records.jsonl")


@needs_jinja2
def test_beside_each_expected_value_that_is_not_right_stands_what_the_answer_has() -> None:
    expected = Expected(value={"total": 99.5, "items": [{"n": 1}, {"n": 2}], "tags": [], "<b>": "a\u202e"})
    answer = {"total": 95.9, "items": [{"n": 1}], "tags": [], "<b>": "b", "more": 1}
    one = replace(record("a"), expected=expected, match=match(expected, answer))

    text = page(one, record("b"))

    (detail,) = unpacked(text, "chunk0")[:1]
    assert '<th scope="col">Values right</th>' in text
    assert "Values right" not in page(record("b"))

    assert [line for line, found in detail["expected"] if not found] == [
        "{",
        '  "items": [',
        "    {",
        '      "n": 1',
        "    },",
        "    {",
        "    }",
        "  ],",
        '  "tags": [],',
        "}",
    ]
    assert [pair for pair in detail["expected"] if pair[1]] == [
        ['  "total": 99.5,', "95.9"],
        ['      "n": 2', "missing"],
        ['  "<b>": "a\\u202e"', '"b"'],
    ]
    assert detail["values"].endswith("$.more: 1, which nobody expects")


@needs_jinja2
def test_a_huge_expected_value_is_cut() -> None:
    one = replace(record("a"), expected=Expected(value=list(range(100_000))))

    lines = unpacked(page(one), "chunk0")[0]["expected"]

    assert lines[-1] == ["… cut: all of it is in records.jsonl", ""]
    assert len(lines) < 10_000


@needs_jinja2
def test_a_huge_schema_is_cut_and_says_how_long_it_is() -> None:
    text = page(record("a", schema={"enum": list(range(100_000))}))

    shown, note = unpacked(text, "chunk0")[0]["schema"].split("\n")
    assert shown.startswith('{"enum": [0, 1, 2')
    assert note == "… cut: all of it, 688,900 characters, is in records.jsonl"


@needs_jinja2
def test_cases_are_packed_a_hundred_at_a_time() -> None:
    text = page(*(record(f"c{at}") for at in range(201)))

    assert unpacked(text, "index")["starts"] == [0, 100, 200]
    assert [len(unpacked(text, f"chunk{at}")) for at in range(3)] == [100, 100, 1]


@needs_jinja2
def test_the_list_stands_before_the_details_and_needs_none_of_them() -> None:
    text = page(*(record(f"c{at}") for at in range(101)), record("bad", verdict=examples.VIOLATED))

    assert text.index('id="index"') < text.index('"use strict"') < text.index('id="chunk0"') < text.index('id="chunk1"')
    index = unpacked(text, "index")
    assert index["outcomes"] == ["passed", "schema_violation"]
    assert index["tasks"] == ["simple"]
    assert index["keywords"] == sorted({keyword for one in index["cases"] for keyword in one["keywords"]}) != []


@needs_jinja2
def test_what_did_not_pass_comes_first_where_the_list_cannot_show_all_at_once() -> None:
    verdicts = dict.fromkeys((7, 150), examples.VIOLATED) | {90: examples.EXCLUDED}
    text = page(*(record(f"c{at:03}", verdict=verdicts.get(at, examples.PASSED)) for at in range(151)))

    names = [one["name"].removeprefix("simple::") for one in unpacked(text, "index")["cases"]]
    assert names[:5] == ["c007", "c150", "c090", "c000", "c001"]
    assert len(set(names)) == 151
    # each chunk holds attempts of one kind, so that it can be packed while the others are not known yet
    assert unpacked(text, "index")["starts"] == [0, 2, 3, 103]
    assert unpacked(text, "chunk0")[1]["verdict"].startswith("schema_violation: ")


@needs_jinja2
def test_what_passed_and_is_not_right_says_so_and_comes_before_what_is() -> None:
    expected = Expected(value={"total": 99.5})
    wrong, right = (match(expected, {"total": total}) for total in (95.9, 99.5))
    failed = OwnOutcome(end=End.FAILED, cause=Cause.ASSERTION, message="assert 3 == 4")
    special = {
        5: replace(record("c5"), expected=expected, match=right),
        60: replace(record("c60"), expected=expected, match=wrong),
        99: replace(record("c99"), test_outcome=failed),
        100: record("c100", verdict=examples.VIOLATED),
    }
    text = page(*(special.get(at) or record(f"c{at}") for at in range(101)))

    first = [(one["name"].removeprefix("simple::"), one["message"]) for one in unpacked(text, "index")["cases"][:4]]
    assert first[1:] == [
        ("c60", "$.total: 95.9; expected 99.5"),
        ("c99", "assertion: assert 3 == 4"),
        ("c0", ""),
    ]
    assert first[0][0] == "c100"


@needs_jinja2
def test_passed_attempts_are_listed_without_details_where_the_page_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_ROOM_OF_DETAILS", 8_000)
    noise = [hashlib.sha512(str(at).encode()).hexdigest() for at in range(300)]
    verdicts = [examples.PASSED] * 250 + [examples.VIOLATED] * 50
    records = [
        record(f"c{at}", verdict=verdict, generation=examples.completion(text))
        for at, (text, verdict) in enumerate(zip(noise, verdicts, strict=True))
    ]
    monkeypatch.setattr(report, "CHUNK", 50)

    text = page(*records)

    index = unpacked(text, "index")
    assert (index["detailed"], index["unlisted"], len(index["cases"])) == (50, 0, 300)
    assert re.findall(r'id="(chunk\d+)"', text) == ["chunk0"]
    assert {one["outcome"] for one in index["cases"][:50]} == {"schema_violation"}
    assert {one["outcome"] for one in index["cases"][50:]} == {"passed"}


@needs_jinja2
def test_the_page_counts_the_passed_attempts_that_even_its_list_has_no_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(report, "_ROOM_OF_LIST", 0)

    text = page(record("bad", verdict=examples.VIOLATED), *(record(f"c{at}") for at in range(250)))

    index = unpacked(text, "index")
    assert index["cases"][0]["name"] == "simple::bad"
    assert (len(index["cases"]), index["unlisted"]) == (1, 250)


@needs_jinja2
def test_variants_have_a_table_and_each_attempt_says_whose_it_is() -> None:
    run = examples.compared(a="pv", b="pp")

    text = "".join(render(run, summarize(run)))

    assert "<h1>2 variants</h1>" in text
    assert text.index('<th scope="row">b<br><span class="asked">model b</span>') < text.index('<th scope="row">a<br>')
    assert "<p>engine scripted, json_schema, prompt schema, " in text
    assert "a against b: 1 fewer of 2 cases pass" in text
    assert '<option value="0">a fails, another passes</option>' in text
    index = unpacked(text, "index")
    assert index["variants"] == ["a", "b"]
    assert [(one["name"], one["variant"], one["outcome"]) for one in index["cases"]] == [
        ("simple::case00", 0, "passed"),
        ("simple::case01", 0, "schema_violation"),
        ("simple::case00", 1, "passed"),
        ("simple::case01", 1, "passed"),
    ]


@needs_jinja2
def test_what_variants_differ_in_is_counted_and_tokens_are_those_of_one_answer() -> None:
    metadata = examples.variants(a={"prompt": "schema"}, b={"prompt": "chat"})
    used = [
        replace(record(case, generation=examples.completion(tokens=tokens)), variant=name)
        for case, name, tokens in (("x", "a", 10), ("y", "a", 24), ("x", "b", 5))
    ]
    run = examples.run_of_variants(metadata, *used)

    text = "".join(render(run, summarize(run)))

    assert "<p>engine scripted, json_schema, 2 prompts, " in text
    assert re.findall(r"<td>(17|34|5)</td>", text) == ["17", "5"]


@needs_jinja2
def test_each_variant_says_what_changed_since_the_baseline() -> None:
    run = examples.compared(a="pv", b="pp")
    before = summarize(examples.compared(a="pp", b="pv")).variants
    summary = summarize(run)
    changed = {name: compare(before[name].outcomes, summary.variants[name].outcomes) for name in "ab"}

    text = "".join(render(run, summary, comparisons=changed))

    assert text.count("of 2 cases pass") == 3
    assert [one["change"] for one in unpacked(text, "index")["cases"]] == ["", "broke", "", "mended"]


@needs_jinja2
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_shows_the_answers_of_all_variants_side_by_side(tmp_path: Path) -> None:
    run = examples.compared(a="pv", b="pp")
    (tmp_path / "page.html").write_text("".join(render(run, summarize(run))))

    text, whole = (in_browser(tmp_path / "page.html", name) for name in ("simple::case01", ""))

    assert re.findall(r"<button class=.name.[^>]*>([^<]*)<", whole) == ["simple::case01", "simple::case00"]
    assert ">1 of 2 cases</p>" in text
    (line,) = re.findall(r"<tr><th scope=.row.><button.*?</tr>", text)
    assert re.findall(r"<td class=.(\w+).>([^<]*)</td>", line) == [("bad", "✗ schema_violation"), ("good", "✓ passed")]
    (below,) = re.findall(r"<tr class=.below.><td colspan=.3.><div class=.detail.>.*?</tr>", text, re.DOTALL)
    assert re.findall(r"<h3 class=.side.>([^<]*)</h3>", below) == ["a ", "b "]
    assert [below.count(f"<h3>{title}</h3>") for title in ("Answer", "Schema", "Prompt")] == [2, 1, 1]


@needs_jinja2
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_shows_the_case_that_is_named_and_runs_nothing_that_it_says(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page(hostile_record(), record("plain"), model=HOSTILE), "utf-8")
    name = printable(str(hostile_record().key))
    shown = in_browser(path, name)

    assert 'data-ready="yes"' in shown
    assert "1 of 2 attempts" in shown
    assert "<pre>&lt;/script&gt;&lt;script&gt;document.title='hacked'" in shown
    # the layout of JSON is made in the page, and nothing in its strings is taken for a part of it
    assert "<pre>{\n  \"&lt;/script&gt;&lt;script&gt;document.title='hacked'" in shown
    assert "<mark>  \"&lt;/script&gt;&lt;script&gt;document.title='hacked'" in shown
    assert "<title>jsbench: scripted &lt;/script&gt;" in shown
    assert "<img" not in shown


def test_without_jinja2_the_line_names_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(JSBenchError, match=r"pip install 'pytest-jsbench\[report\]'"):
        page(record("a"))
