from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from pytest_jsbench.core.cases import Expected, Prompt
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.text import printable
from pytest_jsbench.metrics.comparison import compare
from pytest_jsbench.metrics.gates import Gate, check
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records.records import Record
from pytest_jsbench.reports.html import report
from pytest_jsbench.reports.html.report import render
from pytest_jsbench.values import match
from pytest_jsbench.verdicts import FailureType, Verdict, Violation
from tests.support import examples
from tests.support.examples import record, replace
from tests.support.report_pages import needs_jinja2, page, unpacked

HOSTILE = (
    "</script><script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">\x1b[31m\u202e"
)


def in_browser(path: Path, name: str) -> str:
    """Return the page's document after its script has shown the case of that name."""
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
def test_page_has_the_metrics_and_every_case() -> None:
    run = examples.run(record("a"), record("b", verdict=examples.VIOLATED), record("c", verdict=examples.EXCLUDED))
    summary = summarize(run)
    before = summarize(examples.run(record("a", verdict=examples.VIOLATED), record("b"))).outcomes

    gates = [check(Gate.parse("pass_rate>=0.9"), summary)]

    text = "".join(render(run, summary, gates, {"": compare(before, summary.outcomes)}))

    assert "<dd>1 of 2</dd>" in text
    assert 'aria-label="pass rate 0.500, 95 % interval 0.013 to 0.987"' in text
    assert "pass_rate 1/2 = 0.5, gate &gt;= 0.9: NOT MET" in text
    assert '<a href="#simple%3A%3Ab">simple::b</a>' in text
    cases = unpacked(text, "index")["cases"]
    assert [(one["name"], one["outcome"], one["change"]) for one in cases] == [
        ("simple::b", "schema_violation", "broke"),
        ("simple::c", "invalid_schema", ""),
        ("simple::a", "passed", "fixed"),
    ]
    details = unpacked(text, "chunk0")
    assert details[0]["verdict"].splitlines()[1] == "minimum at $.n [schema /properties/n/minimum]: -1 < 0"
    assert (details[2]["answer"], details[2]["prompt"], details[1]["answer"]) == ('{"n": 1}', "[user]\nanswer", "")
    assert (
        details[2]["measured"]
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
def test_variants_have_a_table_and_attempts_name_their_variant() -> None:
    run = examples.compared(a="pv", b="pp")

    text = "".join(render(run, summarize(run)))

    assert "<h1>2 variants</h1>" in text
    assert text.index('<th scope="row">b<br><span class="asked">model b</span>') < text.index('<th scope="row">a<br>')
    assert "<p>engine scripted, json_schema, prompt schema, " in text
    assert "b against a: 1 more of 2 cases pass" in text
    assert '<option value="0">a fails, another passes</option>' in text
    index = unpacked(text, "index")
    assert index["variants"] == ["a", "b"]
    assert [(one["name"], one["variant"], one["outcome"]) for one in index["cases"]] == [
        ("simple::case01", 0, "schema_violation"),
        ("simple::case00", 0, "passed"),
        ("simple::case00", 1, "passed"),
        ("simple::case01", 1, "passed"),
    ]


@needs_jinja2
def test_page_counts_differences_of_variants_and_shows_tokens_per_answer() -> None:
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
def test_each_variant_lists_changes_since_the_baseline() -> None:
    run = examples.compared(a="pv", b="pp")
    before = summarize(examples.compared(a="pp", b="pv")).variants
    summary = summarize(run)
    changed = {name: compare(before[name].outcomes, summary.variants[name].outcomes) for name in "ab"}

    text = "".join(render(run, summary, comparisons=changed))

    assert text.count("of 2 cases pass") == 3
    assert [one["change"] for one in unpacked(text, "index")["cases"]] == ["broke", "", "", "fixed"]


@pytest.mark.slow
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


@pytest.mark.slow
@needs_jinja2
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_browser_shows_the_selected_case_and_runs_none_of_its_text(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page(hostile_record(), record("plain"), model=HOSTILE), "utf-8")
    name = printable(str(hostile_record().key))
    shown = in_browser(path, name)

    assert 'data-ready="yes"' in shown
    assert "1 of 2 attempts" in shown
    assert "<pre>&lt;/script&gt;&lt;script&gt;document.title='hacked'" in shown
    assert "<h3>Next step</h3><pre>the engine received keyword &lt;/script&gt;&lt;script&gt;" in shown
    # The page formats the JSON itself, and takes nothing in its strings for part of it.
    assert "<pre>{\n  \"&lt;/script&gt;&lt;script&gt;document.title='hacked'" in shown
    assert "<mark>  \"&lt;/script&gt;&lt;script&gt;document.title='hacked'" in shown
    assert "<title>jsbench: scripted &lt;/script&gt;" in shown
    assert "<img" not in shown


def test_missing_jinja2_is_one_line_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(JSBenchError, match=r"pip install 'pytest-jsbench\[report\]'"):
        page(record("a"))


@needs_jinja2
def test_compiled_page_needs_no_other_template(monkeypatch: pytest.MonkeyPatch) -> None:
    from jinja2 import Environment

    report._environment.cache_clear()
    report.compile_page()
    monkeypatch.delattr(Environment, "compile")

    assert "</html>" in page(record("a"))
