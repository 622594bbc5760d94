"""Add failure types and metrics to pytest's JUnit XML for dashboards, and mark infrastructure faults as errors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, TextIO
from xml.etree import ElementTree

from pytest_jsbench.core.generations import SAMPLING
from pytest_jsbench.core.text import printable, shorten
from pytest_jsbench.metrics.figures import FIGURES, names_with_bounds
from pytest_jsbench.records.questions import engine_settings
from pytest_jsbench.verdicts import NOT_THE_MODELS

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from pytest_jsbench.metrics.gates import GateResult
    from pytest_jsbench.metrics.metrics import Metrics
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.records.runs import Run

_TASK = "jsbench.task"
_FAILURE_TYPE = "jsbench.failure_type"
#: Attributes of a case that pytest itself writes.
_PYTESTS = frozenset({"classname", "name", "time", "file", "line"})
#: Maximum length of a property's value in characters.
_LONGEST = 2000
#: Maximum length in characters of a message in the file of a large run.
_SHORT = 150


def suite_properties(run: Run, summary: Summary, gates: tuple[GateResult, ...]) -> dict[str, str]:
    """
    Return the properties of the test suite: settings, verdict, metrics and gates; metrics without a
    value are omitted.
    """
    metadata = run.metadata
    values = {"engine": metadata.engine, "model": metadata.model, "run_id": metadata.run_id}
    values |= {name: json.dumps(metadata.params[name]) for name in SAMPLING if metadata.params.get(name) is not None}
    values["engine_settings"] = json.dumps(engine_settings(metadata), sort_keys=True)
    if run.verdict is not None:
        values |= {"verdict": run.verdict.status.value, "exit_status": str(run.verdict.exit_status)}
        values |= {f"because.{number}": reason for number, reason in enumerate(run.verdict.because, start=1)}
    values |= _figures(summary.total)
    for variant, part in summary.variants.items():
        values |= {f"variants.{variant}.{name}": value for name, value in _figures(part.total).items()}
    for number, gate in enumerate(gates, start=1):
        values[f"gate.{number}"] = gate.message
    return {f"jsbench.{name}": printable(value, _LONGEST) for name, value in values.items()}


def _figures(metrics: Metrics) -> dict[str, str]:
    """Return the metrics that are known and not 0, and the main metrics even if they are 0."""
    main = names_with_bounds(name for name, row in FIGURES.items() if row.is_main)
    return {
        name: f"{value:.6g}" if isinstance(value, float) else str(value)
        for name, value in metrics.to_dict().items()
        if isinstance(value, int | float) and (value or name in main)
    }


def complete(
    path: Path,
    properties: Mapping[str, str],
    costs: Mapping[str, float],
    *,
    details: str | None = None,
    hide: Callable[[str], str] = str,
) -> None:
    """
    Rewrite the file that pytest wrote, with failure types, infrastructure faults as errors, and the run's properties.

    The cases are processed one at a time, to limit memory.

    Args:
        path: the JUnit XML file.
        properties: the properties of the test suite.
        costs: cost in US dollars by the name of the attempt.
        details: location of the full records of a large run; if set, each case in the file is reduced to its name,
            time, failure type and a short message.
        hide: function that removes secrets from texts that tests have written.

    """
    with TemporaryFile("w+", encoding="utf-8") as cases:
        root, moved = _take_out_cases(path, cases, costs, short=details is not None, hide=hide)
        (suite,) = root.iter("testsuite")
        for entry in suite.iter("property"):
            entry.attrib.update({name: hide(value) for name, value in entry.items()})
        for counter, change in (("failures", -moved), ("errors", moved)):
            suite.set(counter, str(int(suite.get(counter, "0")) + change))
        _add(suite, {**properties, **({} if details is None else {"jsbench.details": details})})
        before, end, after = ElementTree.tostring(root, encoding="unicode").rpartition("</testsuite>")
        cases.seek(0)
        with path.open("w", encoding="utf-8") as file:
            file.write(f"<?xml version='1.0' encoding='utf-8'?>\n{before}")
            shutil.copyfileobj(cases, file)
            file.write(end + after)


def _take_out_cases(
    path: Path, to: TextIO, costs: Mapping[str, float], *, short: bool, hide: Callable[[str], str]
) -> tuple[Element, int]:
    """Write each completed case to a file; return the remaining document, and how many failures became errors."""
    moved = 0
    opened = list[ElementTree.Element]()
    for event, element in ElementTree.iterparse(path, events=("start", "end")):  # noqa: S314  pytest has just written it
        if event == "start":
            opened.append(element)
            continue
        opened.pop()
        if element.tag == "testcase":
            element.attrib.update({name: hide(value) for name, value in element.items() if name not in _PYTESTS})
            moved += _complete_case(element, costs, short=short)
            to.write(ElementTree.tostring(element, encoding="unicode"))
            opened[-1].remove(element)
    return element, moved


def _complete_case(case: Element, costs: Mapping[str, float], *, short: bool) -> int:
    """Complete a case; return 1 if its failure was changed to an error, since the model is not at fault, else 0."""
    group = case.find("properties")
    if group is None:
        return 0
    last = {entry.get("name", ""): entry for entry in group}
    for entry in list(group):  # pytest writes the properties again if a test is run again
        name = entry.get("name", "")
        if name.startswith("jsbench.") and entry is not last[name]:
            group.remove(entry)
    values = {name: entry.get("value") for name, entry in last.items()}
    if values.get(_TASK) is None:
        return 0
    failure = case.find("failure")
    kind = values.get(_FAILURE_TYPE)
    moved = failure is not None and kind in NOT_THE_MODELS
    if failure is not None and kind is not None:
        failure.set("type", kind)
        failure.tag = "error" if moved else failure.tag
    if short:
        case.remove(group)
        for part in case:
            if (message := part.get("message")) is not None:
                part.text = shorten(message.partition("\n")[0], _SHORT, cut="end")
                part.set("message", part.text)
    elif (cost := costs.get(values.get("jsbench.attempt") or "")) is not None:
        ElementTree.SubElement(group, "property", name="jsbench.cost_usd", value=f"{cost:.6g}")
    return int(moved)


def _add(suite: Element, properties: Mapping[str, str]) -> None:
    group = suite.find("properties")
    if group is None:
        group = ElementTree.Element("properties")
        suite.insert(0, group)
    for name, value in properties.items():
        ElementTree.SubElement(group, "property", name=name, value=value)
