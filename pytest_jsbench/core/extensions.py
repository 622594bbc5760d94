"""Find extensions of this package by name: as entry points of installed packages, or as `package.module:name`."""

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
from pytest_jsbench.core.text import describe_error, kind_of, printable

_NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_REFERENCE = re.compile(rf"{_NAME}:(?:{_NAME}|\*)")


def is_reference(text: str) -> bool:
    """Return whether the text has the form `package.module:name`, or `package.module:*`."""
    return _REFERENCE.fullmatch(text) is not None


def import_object(reference: str, *, purpose: str, error: type[JSBenchError] = ImportFailed) -> object:
    """Import an object, or the module itself for `*`; if this fails, raise a one-line error without secrets."""
    if not is_reference(reference):
        message = f"{purpose}: {reference!r} is not of the form package.module:name"
        raise error(message, found=reference, expected="package.module:name")
    module_name, _, path = reference.partition(":")
    _extend_search_path()
    try:
        target: object = importlib.import_module(module_name)
    except THIRD_PARTY_ERRORS as reason:
        # The message may contain an API key, for example if an SDK raised the error.
        message = f"{purpose}: cannot import {module_name}: {one_line(describe_error(reason))}"
        raise error(message, found=module_name) from reason
    for name in path.split(".") if path != "*" else ():
        if not hasattr(target, name):
            names = [public for public in dir(target) if not public.startswith("_")]
            message = f"{purpose}: {module_name} has no '{name}': {nearest(name, names)}"
            raise error(message, found=name, expected=tuple(names), where=module_name)
        target = getattr(target, name)
    return target


def _extend_search_path() -> None:
    """Append the current directory to `sys.path` permanently, because modules may import other modules later."""
    here = str(Path.cwd())
    # The directory comes last, so that none of the user's files hides another module.
    if "" not in sys.path and here not in sys.path:
        sys.path.append(here)


#: Distribution name of this package, which also provides its own extensions through entry points.
_OURS = "pytest-jsbench"
_LONGEST = 160
FIX_PACKAGE = "update that package, or uninstall it"


def find_entry_points(kind: str, *, error: type[JSBenchError]) -> dict[str, metadata.EntryPoint]:
    """
    Return the entry points of a kind by name; a third party's entry point replaces this package's own. Raise an error
    if two third-party packages provide the same name.
    """
    entries: dict[str, metadata.EntryPoint] = {}
    for point in metadata.entry_points(group=f"pytest_jsbench.{kind}s"):
        other = entries.setdefault(point.name, point)
        if other.value != point.value and not _is_ours(point):
            if not _is_ours(other):
                twice = f"{kind} '{printable(point.name)}' is provided twice"
                raise error(f"{twice}, by {origin(other)} and by {origin(point)}; uninstall one of them")
            entries[point.name] = point
    return entries


def _is_ours(point: metadata.EntryPoint) -> bool:
    return point.dist is not None and point.dist.name == _OURS


def extension(kind: str, name: str, *, error: type[JSBenchError]) -> Any:
    """
    Load the extension with this name, whether a third party or this package provides it; the error for an unknown name
    suggests a similar name.
    """
    points = find_entry_points(kind, error=error)
    if name not in points:
        message = f"unknown {kind} '{printable(name)}': {nearest(name, points)}{reinstall_hint()}"
        raise error(message, found=name, expected=sorted(points))
    return load(points[name], kind=kind, error=error)


def reinstall_hint() -> str:
    """
    Return advice to reinstall this package if its installed metadata is older than its code;
    otherwise an empty string.
    """
    newest = metadata.entry_points(group="pytest_jsbench.publications")
    if any(map(_is_ours, newest)):
        return ""
    return f"; {_OURS} is installed without its newest entry points: reinstall it"


def load(point: metadata.EntryPoint, *, kind: str, error: type[JSBenchError]) -> object:
    """Load the object of an entry point; if this fails, raise a one-line error with the package and the next step."""
    try:
        return point.load()
    except THIRD_PARTY_ERRORS as reason:
        words = one_line(describe_error(reason, _LONGEST))
        message = f"{kind} '{point.name}': cannot import {origin(point)}: {words}; {FIX_PACKAGE}"
        raise error(message, found=point.value) from reason


def find_function(
    name: str, points: Mapping[str, metadata.EntryPoint], *, kind: str, takes: str, error: type[JSBenchError]
) -> tuple[str, Callable[..., object]] | None:
    """
    Return the description and the function for an entry point's name or for `package.module:function`.

    Return None for an unknown name. If the object is not a function, raise an error; `takes` describes the expected
    parameters in its message.
    """
    if name in points:
        place = origin(points[name])
        function = load(points[name], kind=kind, error=error)
    elif is_reference(name) and not name.endswith("*"):
        place = "a function of your own"
        function = import_object(name, purpose=kind, error=error)
    else:
        return None
    if not callable(function):
        message = f"{kind} '{name}', {place}, is {kind_of(function)}; expected a function that takes {takes}"
        raise error(message, found=type(function).__name__, expected="a function", where=place)
    return place, function


def origin(point: metadata.EntryPoint) -> str:
    """Return an entry point's reference and the package that provides it: `acme.engines:Echo (package acme 1.0)`."""
    package = package_of(point)
    return printable(f"{point.value} (package {package})" if package else point.value)


def package_of(point: metadata.EntryPoint) -> str:
    """Return the package that provides an entry point, with the package's version; empty if the package is unknown."""
    return "" if point.dist is None else printable(f"{point.dist.name} {point.dist.version}")
