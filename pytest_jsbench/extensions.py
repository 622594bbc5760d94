"""Extensions: what installed packages bring by entry point; none is looked for or imported until it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata

from pytest_jsbench.core.text import described, printable
from pytest_jsbench.errors import ImportFailed, JSBenchError
from pytest_jsbench.imports import import_object, is_reference

_LONGEST = 160
_MEND = "update that package, or uninstall it"


def installed(group: str, *, kind: str, error: type[JSBenchError]) -> dict[str, metadata.EntryPoint]:
    """The entry points of a group by name; an error where two packages bring the same name."""
    found: dict[str, metadata.EntryPoint] = {}
    for point in metadata.entry_points(group=group):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            message = (
                f"{kind} '{printable(point.name)}' is brought twice, by {origin(other)} and by {origin(point)}; "
                "uninstall one of them"
            )
            raise error(message)
    return found


def load(point: metadata.EntryPoint, *, kind: str, error: type[JSBenchError]) -> object:
    """What an entry point names; an error in one line, with the package and the next step, where it cannot be had."""
    try:
        return point.load()
    except (Exception, SystemExit) as reason:
        said = described(reason, _LONGEST)
        message = f"{kind} '{point.name}': cannot import {origin(point)}: {said}; {_MEND}"
        raise error(message) from reason


def find_function(
    name: str, points: Mapping[str, metadata.EntryPoint], *, kind: str, error: type[JSBenchError]
) -> tuple[str, object] | None:
    """Where a name leads, for messages, and what stands there: an entry point's, or `package.module:function`'s."""
    if name in points:
        return origin(points[name]), load(points[name], kind=kind, error=error)
    if not is_reference(name) or name.endswith("*"):
        return None
    try:
        return "a function of your own", import_object(name, purpose=kind)
    except ImportFailed as reason:
        raise error(str(reason)) from reason


def origin(point: metadata.EntryPoint) -> str:
    """Where an entry point leads, and whose it is: `acme.engines:Echo (package acme-jsbench 1.0)`."""
    if point.dist is None:
        return point.value
    return printable(f"{point.value} (package {point.dist.name} {point.dist.version})")
