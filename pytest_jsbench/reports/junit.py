"""What pytest's JUnit XML lacks for dashboards: failure types, infrastructure faults as errors, the run's metrics."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, TextIO
from xml.etree import ElementTree

from pytest_jsbench.core.text import printable, shortened
from pytest_jsbench.records.variants import engine_settings
from pytest_jsbench.verdicts import NOT_THE_MODELS

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from pytest_jsbench.metrics.gates import GateResult
    from pytest_jsbench.metrics.metrics import Metrics
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.records.outcomes import Run

_TASK, _FAILURE_TYPE = "jsbench.task", "jsbench.failure_type"
#: attributes of a case that are pytest's own
_PYTESTS = frozenset({"classname", "name", "time", "file", "line"})
#: characters of one property
_LONGEST = 2000
_SAMPLING = ("temperature", "seed", "max_tokens")
#: characters of a message of a large run
_SHORT = 150


def suite_properties(run: Run, summary: Summary, gates: tuple[GateResult, ...]) -> dict[str, str]:
    """The properties of the whole run, without metrics that are not applicable."""
    metadata = run.metadata
    known = {"engine": metadata.engine, "model": metadata.model, "run_id": metadata.run_id}
    known |= {name: json.dumps(metadata.params[name]) for name in _SAMPLING if metadata.params.get(name) is not None}
    known["engine_settings"] = json.dumps(engine_settings(metadata), sort_keys=True)
    if run.verdict is not None:
        known |= {"verdict": run.verdict.status.value, "exit_status": str(run.verdict.exit_status)}
        known |= {f"because.{number}": reason for number, reason in enumerate(run.verdict.because, start=1)}
    known |= _figures(summary.total)
    for variant, found in summary.variants.items():
        known |= {f"variants.{variant}.{name}": value for name, value in _figures(found.total).items()}
    for number, gate in enumerate(gates, start=1):
        known[f"gate.{number}"] = gate.message
    return {f"jsbench.{name}": printable(value, _LONGEST) for name, value in known.items()}


def _figures(metrics: Metrics) -> dict[str, str]:
    return {
        name: f"{value:.6g}" if isinstance(value, float) else str(value)
        for name, value in metrics.to_dict().items()
        if isinstance(value, int | float)
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
    Rewrite pytest's file: failures with their type, infrastructure faults as errors, and the run's properties.

    `details` says where those of a large run are: then each of our cases has its name, time, failure type and a short
    message, and no more. `hide` keeps a secret out of what tests have put there beside their reports. One case at a
    time is held.
    """
    with TemporaryFile("w+", encoding="utf-8") as cases:
        root, moved = _take_out_cases(path, cases, costs, short=details is not None, hide=hide)
        (suite,) = root.iter("testsuite")
        for one in suite.iter("property"):
            one.attrib.update({name: hide(value) for name, value in one.items()})
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
    """Write each case, completed; what stands around them, and how many failures are errors now."""
    moved, opened = 0, list[ElementTree.Element]()
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
    """Complete one case; 1 where a failure of it is an error now, else 0."""
    _once(case)
    if _property(case, _TASK) is None:
        return 0
    moved = _mark(case)
    if short:
        _shorten(case)
    elif (cost := costs.get(_property(case, "jsbench.attempt") or "")) is not None:
        _add(case, {"jsbench.cost_usd": f"{cost:.6g}"})
    return moved


def _shorten(case: Element) -> None:
    if (group := case.find("properties")) is not None:
        case.remove(group)
    for one in case:
        if (message := one.get("message")) is not None:
            one.text = shortened(message.partition("\n")[0], _SHORT, cut="end")
            one.set("message", one.text)


def _mark(case: Element) -> int:
    """Set the type of a failure; 1 where it says nothing about the model, and so becomes an error, else 0."""
    failure, kind = case.find("failure"), _property(case, _FAILURE_TYPE)
    if failure is None or kind is None:
        return 0
    failure.set("type", kind)
    if kind not in NOT_THE_MODELS:
        return 0
    failure.tag = "error"
    return 1


def _once(case: Element) -> None:
    """Keep the last of each of our properties, since pytest repeats them for a test that ran again."""
    group = case.find("properties")
    last = {one.get("name", ""): one for one in case.iterfind("properties/property")}
    for one in case.findall("properties/property"):
        name = one.get("name", "")
        if group is not None and name.startswith("jsbench.") and one is not last[name]:
            group.remove(one)


def _property(element: Element, name: str) -> str | None:
    for one in element.iterfind("properties/property"):
        if one.get("name") == name:
            return one.get("value")
    return None


def _add(element: Element, properties: Mapping[str, str]) -> None:
    group = element.find("properties")
    if group is None:
        group = ElementTree.Element("properties")
        element.insert(0, group)
    for name, value in properties.items():
        ElementTree.SubElement(group, "property", name=name, value=value)
