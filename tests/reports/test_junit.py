from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from pytest_jsbench.metrics.gates import Gate, check
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records.runs import RunStatus, RunVerdict
from pytest_jsbench.reports.junit import complete, suite_properties
from tests.support import examples
from tests.support.examples import record, replace

WRITTEN = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="3" tests="5">
<testcase classname="jsbench.o" name="a"><properties><property name="jsbench.task" value="o" />
<property name="jsbench.attempt" value="o::a[1]" /></properties></testcase>
<testcase classname="jsbench.o" name="b"><properties><property name="jsbench.task" value="o" />
<property name="jsbench.failure_type" value="refusal" /></properties><failure message="refusal: &lt;b&gt;">x</failure></testcase>
<testcase classname="jsbench.o" name="c"><properties><property name="jsbench.task" value="o" />
<property name="jsbench.failure_type" value="api_error" /></properties><failure message="api_error: x">x</failure></testcase>
<testcase classname="own" name="d"><failure message="assert 0">x</failure></testcase>
<testcase classname="own" name="e"><error message="setup">x</error></testcase>
</testsuite></testsuites>
"""  # noqa: E501


def test_failures_have_their_type_and_infrastructure_faults_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    path.write_text(WRITTEN)

    complete(path, {"jsbench.model": "<m>"}, {"o::a[1]": 0.25})

    suite = ET.parse(path).getroot()[0]
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert (suite.get("failures"), suite.get("errors"), suite.get("tests")) == ("2", "2", "5")
    assert [(one.tag, one.get("type")) for one in cases["b"] if one.tag != "properties"] == [("failure", "refusal")]
    assert [(one.tag, one.get("type")) for one in cases["c"] if one.tag != "properties"] == [("error", "api_error")]
    assert [(one.tag, one.get("type")) for one in cases["d"]] == [("failure", None)]
    assert suite[0].tag == "properties"
    assert [(one.get("name"), one.get("value")) for one in suite[0]] == [("jsbench.model", "<m>")]
    assert cases["a"].findall("properties/property")[-1].get("value") == "0.25"


def test_large_junit_keeps_each_case_and_links_the_details(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    path.write_text(WRITTEN.replace('message="api_error: x">x', f'message="api_error: {"y" * 400}&#10;z">{"x" * 9000}'))

    complete(path, {"jsbench.model": "m"}, {"o::a[1]": 0.25}, details="20,000 attempts: see runs/a")

    suite = ET.parse(path).getroot()[0]
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert list(cases) == ["a", "b", "c", "d", "e"]
    assert [(one.tag, one.get("type")) for one in cases["b"]] == [("failure", "refusal")]
    (error,) = cases["c"]
    assert (error.tag, error.get("type"), error.text) == ("error", "api_error", f"api_error: {'y' * 138}…")
    assert error.get("message") == error.text
    assert not [*cases["a"]]
    assert cases["d"][0].text == "x"
    assert (suite.get("failures"), suite.get("errors"), suite.get("tests")) == ("2", "2", "5")
    properties = {one.get("name"): one.get("value") for one in suite.iterfind("properties/property")}
    assert properties == {"jsbench.model": "m", "jsbench.details": "20,000 attempts: see runs/a"}


def test_junit_without_our_cases_has_the_verdict(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    path.write_text('<testsuites><testsuite failures="1"><testcase name="d" /></testsuite></testsuites>')

    complete(path, {"jsbench.verdict": "failed"}, {})

    suite = ET.parse(path).getroot()[0]
    assert [(one.get("name"), one.get("value")) for one in suite.iter("property")] == [("jsbench.verdict", "failed")]
    assert suite.get("failures") == "1"


def test_rerun_test_keeps_only_the_properties_of_its_last_run(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    again = "".join(
        f'<property name="{name}" value="{run}" />'
        for run in (1, 2, 3)
        for name in ("jsbench.task", "jsbench.tgt_s", "mine")
    )
    path.write_text(
        f'<testsuites><testsuite failures="0" errors="0"><testcase name="a"><properties>{again}</properties></testcase>'
        "</testsuite></testsuites>"
    )

    complete(path, {}, {})

    properties = [
        (one.get("name"), one.get("value")) for one in ET.parse(path).getroot().iterfind(".//testcase//property")
    ]
    assert properties == [("mine", "1"), ("mine", "2"), ("jsbench.task", "3"), ("jsbench.tgt_s", "3"), ("mine", "3")]


def test_suite_properties_omit_unknown_and_zero_except_main_figures() -> None:
    verdict = RunVerdict.of(RunStatus.PASSED, 0, ["the gate is met"])
    wrong = record(generation=examples.completion(ttft=None), verdict=examples.VIOLATED)
    run = replace(examples.run(wrong), verdict=verdict)
    summary = summarize(run)

    properties = suite_properties(run, summary, (check(Gate.parse("n>=1"), summary),))

    assert (properties["jsbench.pass_rate"], properties["jsbench.pass_rate_ci_low"]) == ("0", "0")
    assert properties["jsbench.planned"] == "1"
    assert properties["jsbench.gate.1"] == "n 1, gate >= 1: met"
    assert (properties["jsbench.model"], properties["jsbench.verdict"]) == ("m", "passed")
    assert (
        not {"jsbench.ttft_p50", "jsbench.errors", "jsbench.error_rate", "jsbench.value_accuracy"} & properties.keys()
    )


def test_the_figures_of_each_variant_are_properties() -> None:
    run = examples.compared(a="pv", b="pp")

    properties = suite_properties(run, summarize(run), ())

    assert (properties["jsbench.pass_rate"], properties["jsbench.model"]) == ("0.75", "2 models")
    assert (properties["jsbench.variants.a.pass_rate"], properties["jsbench.variants.b.pass_rate"]) == ("0.5", "1")
