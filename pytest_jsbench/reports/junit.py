"""What pytest's JUnit XML lacks for dashboards: failure types, infrastructure faults as errors, the run's metrics."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from pytest_jsbench.core.text import printable
from pytest_jsbench.metrics.comparison import UNDECIDED

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from pytest_jsbench.metrics.gates import GateResult
    from pytest_jsbench.metrics.metrics import Metrics
    from pytest_jsbench.metrics.summary import Summary
    from pytest_jsbench.runs.outcomes import Run

_FAILURE_TYPE = "jsbench.failure_type"
#: characters of one property
_LONGEST = 1000


def suite_properties(run: Run, summary: Summary, gates: tuple[GateResult, ...]) -> dict[str, str]:
    """The properties of the whole run, without metrics that are not applicable."""
    metadata = run.metadata
    known = {"engine": metadata.engine, "model": metadata.model, "run_id": metadata.run_id}
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


def complete(path: Path, properties: Mapping[str, str], costs: Mapping[str, float]) -> None:
    """Rewrite pytest's file: failures with their type, infrastructure faults as errors, and the run's properties."""
    tree = ElementTree.parse(path)  # noqa: S314  pytest wrote it a moment ago
    for suite in tree.iter("testsuite"):
        ours = [case for case in suite.iter("testcase") if _property(case, "jsbench.task") is not None]
        for case in suite.iter("testcase"):
            _once(case)
        moved = sum(map(_mark, ours))
        for counter, change in (("failures", -moved), ("errors", moved)):
            suite.set(counter, str(int(suite.get(counter, "0")) + change))
        for case in ours:
            if (cost := costs.get(_property(case, "jsbench.attempt") or "")) is not None:
                _add(case, {"jsbench.cost_usd": f"{cost:.6g}"})
        _add(suite, properties)
    tree.write(path, encoding="utf-8", xml_declaration=True)


def _mark(case: Element) -> int:
    """Set the type of a failure; 1 where it says nothing about the model, and so becomes an error, else 0."""
    failure, kind = case.find("failure"), _property(case, _FAILURE_TYPE)
    if failure is None or kind is None:
        return 0
    failure.set("type", kind)
    if kind not in UNDECIDED:
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
