"""
Test that the package uses public interfaces only: no private names of other packages, no changes to
modules or code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set

import pytest

from tests.support.sources import trees

#: Calls that change other modules, classes or functions.
_TRICKS = {"sys.modules", "sys.meta_path", "sys.path_hooks"}
_CODE = {"FunctionType", "CodeType"}
_CODE_OF = {"__code__", "__globals__", "__closure__"}
#: Functions that take the name of an attribute or a module.
_BY_NAME = {"getattr", "setattr", "delattr", "hasattr", "attrgetter", "methodcaller", "import_module", "__import__"}


#: Names that only look private, of named tuples and of os.
_PUBLIC = {"_asdict", "_replace", "_fields", "_make", "_exit"}


#: Documented extension points of Python's imports whose use was measured to be worth it, with what it saves.
ALLOWED = {
    # in a child process that only reads tables: 0.35 s of CPU for NumPy, which pyarrow imports if it is there
    ("datasets/sources/parquet_tables.py", "sys.modules"),
    # while a run is active: 1.1 s of CPU in a fresh environment, and 0.1 to 0.2 s in each later run
    ("plugin/plain_imports.py", "sys.meta_path"),
}


def tricks(tree: ast.Module, inherited: Set[str] = frozenset()) -> Iterator[str]:
    """
    Yield each private name of another module, and each forbidden call, in a module.

    Names that other modules of ours define are allowed on `self`, since a class may inherit them.
    """
    own = set(_own_names(tree))
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="sys", names=names) if any(f"sys.{one.name}" in _TRICKS for one in names):
                yield from (f"sys.{one.name}" for one in names)
            case ast.ImportFrom(module=module, names=names):
                private = [one.name for one in names if _is_private(one.name)]
                yield from (f"import {name}" for name in [*private, *filter(_is_private, (module or "").split("."))])
            case ast.Import(names=names):
                yield from (f"import {part}" for one in names for part in one.name.split(".") if _is_private(part))
            case ast.Attribute(value=ast.Name(id="sys"), attr=name) if f"sys.{name}" in _TRICKS:
                yield f"sys.{name}"
            case ast.Attribute(attr="__class__", ctx=ast.Store()):
                yield ".__class__ ="
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name) if name in inherited:
                pass
            case ast.Attribute(attr=name) if name in _CODE_OF or (_is_private(name) and name not in own):
                yield f".{name}"
            case (
                ast.Call(func=ast.Name(id=function), args=[_, ast.Constant(value=str(name)), *_])
                | ast.Call(func=ast.Attribute(attr=function), args=[ast.Constant(value=str(name)), *_])
                | ast.Call(func=ast.Name(id=function), args=[ast.Constant(value=str(name)), *_])
            ) if function in _BY_NAME:
                yield from (f".{part}" for part in name.split(".") if _is_private(part) and part not in own)
            case ast.Subscript(
                value=ast.Call(func=ast.Name(id="vars")) | ast.Attribute(attr="__dict__"),
                slice=ast.Constant(value=str(name)),
            ) if _is_private(name) and name not in own:
                yield f".{name}"
            case ast.Name(id=name) if name in _CODE:
                yield name
            case ast.Constant(value=str(text)):  # a program for another interpreter
                yield from re.findall(r"\bsys\.(?:modules|meta_path|path_hooks)\b", text)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_" and name not in _PUBLIC


def _own_names(tree: ast.Module) -> Iterator[str]:
    """Yield the private names that a module defines: functions, variables, and attributes of its classes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                yield name


def test_package_uses_public_names_only() -> None:
    inherited = {name for tree in trees().values() for name in _own_names(tree)}

    private = {(path, trick) for path, tree in trees().items() for trick in tricks(tree, inherited)}

    assert private == ALLOWED, "use public names instead"


@pytest.mark.parametrize(
    ("source", "trick"),
    [
        ("from _pytest.config import Config", "import _pytest"),
        ("from pytest_jsbench.records.journal import _line", "import _line"),
        ("import _thread", "import _thread"),
        ("client._pool.close()", "._pool"),
        ("getattr(config, '_benchmarksession', None)", "._benchmarksession"),
        ("setattr(client, '_client', ours)", "._client"),
        ("hasattr(client, '_client')", "._client"),
        ("attrgetter('config._parser')(session)", "._parser"),
        ("operator.methodcaller('_close')(client)", "._close"),
        ("importlib.import_module('_pytest.config')", "._pytest"),
        ("vars(client)['_client']", "._client"),
        ("client.__dict__['_client']", "._client"),
        ("from sys import modules", "sys.modules"),
        ("import sys\nsys.modules['openai'] = ours", "sys.modules"),
        ("sys.meta_path.insert(0, finder)", "sys.meta_path"),
        ("PROGRAM = 'import sys; sys.modules[name] = it'", "sys.modules"),
        ("answer.__class__ = Ours", ".__class__ ="),
        ("FunctionType(theirs.__code__, {})", "FunctionType"),
        ("FunctionType(theirs.__code__, {})", ".__code__"),
    ],
)
def test_private_access_is_detected(source: str, trick: str) -> None:
    assert trick in list(tricks(ast.parse(source)))


def test_private_names_within_a_module_are_allowed() -> None:
    own = "class A:\n    def __init__(self): self._x = 1\n    def same(self, other): return other._x == self._x"

    assert list(tricks(ast.parse(own))) == []
