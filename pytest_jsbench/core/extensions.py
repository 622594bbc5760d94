"""Find what extends this package by name: the entry point of an installed package, or `package.module:name`."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from pytest_jsbench.core.errors import THIRD_PARTY_ERRORS, ImportFailed, JSBenchError, nearest
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.core.text import described, kind_of, printable

_NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_REFERENCE = re.compile(rf"{_NAME}:(?:{_NAME}|\*)")


def is_reference(text: str) -> bool:
    """True where the text is of the form `package.module:name`, or `package.module:*`."""
    return _REFERENCE.fullmatch(text) is not None


def import_object(reference: str, *, purpose: str, error: type[JSBenchError] = ImportFailed) -> object:
    """The object, or the module itself for `*`; an error in one line, without a key, when it cannot be had."""
    if not is_reference(reference):
        message = f"{purpose}: {reference!r} is not of the form package.module:name"
        raise error(message, found=reference, expected="package.module:name")
    module_name, _, path = reference.partition(":")
    # last, so that no file of the user's folder stands in for another module; for good, since modules import late
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        target: object = importlib.import_module(module_name)
    except THIRD_PARTY_ERRORS as reason:
        # an SDK may have quoted a key
        message = f"{purpose}: cannot import {module_name}: {one_line(described(reason))}"
        raise error(message, found=module_name) from reason
    for name in path.split(".") if path != "*" else ():
        if not hasattr(target, name):
            names = [public for public in dir(target) if not public.startswith("_")]
            message = f"{purpose}: {module_name} has no '{name}': {nearest(name, names)}"
            raise error(message, found=name, expected=tuple(names), where=module_name)
        target = getattr(target, name)
    return target


#: this package, as pip knows it: it brings rooms of its own as any other package does
_OURS = "pytest-jsbench"
_LONGEST = 160
MEND = "update that package, or uninstall it"


def installed(kind: str, *, error: type[JSBenchError]) -> dict[str, metadata.EntryPoint]:
    """The entry points of a kind by name, another package's before ours; an error where two others bring the same."""
    entries: dict[str, metadata.EntryPoint] = {}
    for point in metadata.entry_points(group=f"pytest_jsbench.{kind}s"):
        other = entries.setdefault(point.name, point)
        if other.value != point.value and not _is_ours(point):
            if not _is_ours(other):
                twice = f"{kind} '{printable(point.name)}' is brought twice"
                raise error(f"{twice}, by {origin(other)} and by {origin(point)}; uninstall one of them")
            entries[point.name] = point
    return entries


def _is_ours(point: metadata.EntryPoint) -> bool:
    return point.dist is not None and point.dist.name == _OURS


def extension(kind: str, name: str, *, error: type[JSBenchError]) -> Any:
    """Load what a package, this one included, brings by that name; an error offers the nearest where none does."""
    points = installed(kind, error=error)
    if name not in points:
        message = f"unknown {kind} '{printable(name)}': {nearest(name, points)}{reinstall()}"
        raise error(message, found=name, expected=sorted(points))
    return load(points[name], kind=kind, error=error)


def reinstall() -> str:
    """Say what to do where this package's installed metadata is older than its code; nothing where it is not."""
    newest = metadata.entry_points(group="pytest_jsbench.publications")
    if any(map(_is_ours, newest)):
        return ""
    return f"; {_OURS} is installed without its newest entry points: install it again"


def load(point: metadata.EntryPoint, *, kind: str, error: type[JSBenchError]) -> object:
    """Load what an entry point names; an error in one line, with the package and the next step, where it fails."""
    try:
        return point.load()
    except THIRD_PARTY_ERRORS as reason:
        words = one_line(described(reason, _LONGEST))
        message = f"{kind} '{point.name}': cannot import {origin(point)}: {words}; {MEND}"
        raise error(message, found=point.value) from reason


def find_function(
    name: str, points: Mapping[str, metadata.EntryPoint], *, kind: str, takes: str, error: type[JSBenchError]
) -> tuple[str, Callable[..., object]] | None:
    """
    Where a name leads, for messages, and the function there: an entry point's, or `package.module:function`'s.

    None where it leads nowhere; an error where something else stands there, which says what the function `takes`.
    """
    if name in points:
        place, function = origin(points[name]), load(points[name], kind=kind, error=error)
    elif is_reference(name) and not name.endswith("*"):
        place, function = "a function of your own", import_object(name, purpose=kind, error=error)
    else:
        return None
    if not callable(function):
        message = f"{kind} '{name}', {place}, is {kind_of(function)}; expected a function that takes {takes}"
        raise error(message, found=type(function).__name__, expected="a function", where=place)
    return place, function


def origin(point: metadata.EntryPoint) -> str:
    """Where an entry point leads, and the package that brings it: `acme.engines:Echo (package acme-jsbench 1.0)`."""
    package = package_of(point)
    return printable(f"{point.value} (package {package})" if package else point.value)


def package_of(point: metadata.EntryPoint) -> str:
    """Name the package that brings an entry point, with its version; empty where that is not known."""
    return "" if point.dist is None else printable(f"{point.dist.name} {point.dist.version}")
